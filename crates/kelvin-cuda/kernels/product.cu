// Products of matrices on tensor cores, one for each chain: C[m, n] = Σ_k A[m, k] B[k, n].
//
// The three products of a dense layer with rows x, weights w and output gradient dy (all bf16, sums in f32):
//   forward           y  = x w + bias        A = x            B = w
//   data gradient     dx = dy wᵀ             A = dy           B = w   as it lies, B_TRANSPOSED
//   weight gradient   dw = xᵀ dy             A = x as it lies, A_TRANSPOSED   B = dy
// A block makes 64 × 64 numbers of C; tiles of 32 along k come through STAGES stages of shared memory: many where k is
// long, since what is on its way from memory bounds the speed.
//
// Bytes: A once for every 64 columns of C, B once for every 64 rows, mostly from the L2 cache; C once.
// Specification: kelvin::network::images (dense.rs).
//
// Defines: STAGES, A_TRANSPOSED B_TRANSPOSED RELU_A (A is read as max(A, 0)) FLOAT_C (C is f32) ADD_BIAS ADD_PREVIOUS
// MASK (0 or 1).

#include "tile.cuh"

struct ProductArguments {
    const bf16* a;      // [chain] a_stride apart; rows of `depth`, or of `rows` if transposed
    const bf16* b;      // [chain] b_stride apart; rows of `columns`, or of `depth` if transposed
    void* c;            // [chain] c_stride apart; rows of `columns`
    const float* bias;  // [chain] bias_stride apart
    const bf16* mask;   // C is 0 where this is not above 0; laid out like C
    u64 a_stride;
    u64 b_stride;
    u64 c_stride;
    u64 bias_stride;
    u32 rows;
    u32 columns;
    u32 depth;
    u32 unused;
};

namespace {

constexpr int ROWS = 64, COLUMNS = 64, DEPTH = 32, THREADS = 128;
// Tiles as they lie in memory: rows and chunks of a row.
constexpr int A_ROWS = A_TRANSPOSED ? DEPTH : ROWS, A_CHUNKS = (A_TRANSPOSED ? ROWS : DEPTH) / 8;
constexpr int B_ROWS = B_TRANSPOSED ? COLUMNS : DEPTH, B_CHUNKS = (B_TRANSPOSED ? DEPTH : COLUMNS) / 8;
constexpr int A_ROOM = A_ROWS * (A_CHUNKS + 1), B_ROOM = B_ROWS * (B_CHUNKS + 1);

// A tile of a row-major matrix from row `first_row` and column `first_column` on; zeros outside.
template <int tile_rows, int chunks>
DEVICE void copy_tile(uint4* to, const bf16* from, u32 first_row, u32 first_column, u32 rows, u32 columns, int thread) {
#pragma unroll
    for (int index = thread; index < tile_rows * chunks; index += THREADS) {
        const u32 row = first_row + index / chunks, column = first_column + index % chunks * 8;
        const bool inside = row < rows && column < columns;
        copy_async(to + padded<chunks>(index / chunks, index % chunks),
                   from + (inside ? (u64)row * columns + column : 0), inside);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(128) product(const ProductArguments arguments) {
    SHARED_MEMORY(shared);
    uint4* const tiles = (uint4*)shared;  // [stage]: A, B
    const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const u32 chain = blockIdx.y, num_columns = (arguments.columns + COLUMNS - 1) / COLUMNS;
    const u32 first_row = blockIdx.x / num_columns * ROWS, first_column = blockIdx.x % num_columns * COLUMNS;
    const bf16* const a = arguments.a + chain * arguments.a_stride;
    const bf16* const b = arguments.b + chain * arguments.b_stride;
    const int steps = (arguments.depth + DEPTH - 1) / DEPTH;

    auto fetch = [&](int step) {
        if (step < steps) {
            uint4* const to = tiles + step % STAGES * (A_ROOM + B_ROOM);
            const u32 k = step * DEPTH;
            if (A_TRANSPOSED) {
                copy_tile<A_ROWS, A_CHUNKS>(to, a, k, first_row, arguments.depth, arguments.rows, thread);
            } else {
                copy_tile<A_ROWS, A_CHUNKS>(to, a, first_row, k, arguments.rows, arguments.depth, thread);
            }
            if (B_TRANSPOSED) {
                copy_tile<B_ROWS, B_CHUNKS>(to + A_ROOM, b, first_column, k, arguments.columns, arguments.depth,
                                            thread);
            } else {
                copy_tile<B_ROWS, B_CHUNKS>(to + A_ROOM, b, k, first_column, arguments.depth, arguments.columns,
                                            thread);
            }
        }
        copy_async_commit();
    };

    // Each of the four warps makes 32 × 32.
    const int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
    float sum[2][4][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int n = 0; n < 4; ++n) sum[m][n][0] = sum[m][n][1] = sum[m][n][2] = sum[m][n][3] = 0.0f;
    }

#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) fetch(step);
    for (int step = 0; step < steps; ++step) {
        copy_async_wait<STAGES - 2>();
        __syncthreads();
        fetch(step + STAGES - 1);
        const uint4* const a_tile = tiles + step % STAGES * (A_ROOM + B_ROOM);
        const uint4* const b_tile = a_tile + A_ROOM;
#pragma unroll
        for (int k = 0; k < DEPTH / 16; ++k) {
            u32 x[2][4], y[4][2];
#pragma unroll
            for (int m = 0; m < 2; ++m) {
                const int row = warp_row + m * 16;
                if (A_TRANSPOSED) {
                    load_matrices_transposed(x[m], a_tile + padded<A_CHUNKS>(k * 16 + (lane & 7) + ((lane & 16) >> 1),
                                                                             row / 8 + (lane >> 3 & 1)));
                } else {
                    load_matrices(x[m], a_tile + padded<A_CHUNKS>(row + (lane & 15), 2 * k + (lane >> 4)));
                }
                if (RELU_A) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) x[m][i] = cut_off(x[m][i]);
                }
            }
#pragma unroll
            for (int n = 0; n < 4; n += 2) {
                const int column = warp_column + n * 8;
                u32 four[4];
                if (B_TRANSPOSED) {
                    load_matrices(four, b_tile + padded<B_CHUNKS>(column + (lane & 7) + ((lane & 16) >> 1),
                                                                  2 * k + (lane >> 3 & 1)));
                } else {
                    load_matrices_transposed(four,
                                             b_tile + padded<B_CHUNKS>(k * 16 + (lane & 15), column / 8 + (lane >> 4)));
                }
                y[n][0] = four[0], y[n][1] = four[1], y[n + 1][0] = four[2], y[n + 1][1] = four[3];
            }
#pragma unroll
            for (int m = 0; m < 2; ++m) {
#pragma unroll
                for (int n = 0; n < 4; ++n) multiply_add(sum[m][n], x[m], y[n][0], y[n][1]);
            }
        }
    }

#pragma unroll
    for (int m = 0; m < 2; ++m) {
#if FLOAT_C
        float* const c = (float*)arguments.c + chain * arguments.c_stride;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const u32 column = first_column + warp_column + n * 8 + 2 * (lane & 3);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const u32 row = first_row + warp_row + m * 16 + half * 8 + (lane >> 2);
                if (row < arguments.rows && column < arguments.columns)
                    *(float2*)(c + (u64)row * arguments.columns + column) =
                        make_float2(sum[m][n][2 * half], sum[m][n][2 * half + 1]);
            }
        }
#else
        const u32 row = first_row + warp_row + m * 16 + (lane >> 2) + ((lane & 2) ? 8 : 0);
#pragma unroll
        for (int n = 0; n < 4; n += 2) {
            if (ADD_BIAS) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const u32 column = first_column + warp_column + (n + i) * 8 + 2 * (lane & 3);
                    const bool inside = column < arguments.columns;
                    const float* const bias = arguments.bias + chain * arguments.bias_stride + (inside ? column : 0);
                    sum[m][n + i][0] += bias[0], sum[m][n + i][1] += bias[1];
                    sum[m][n + i][2] += bias[0], sum[m][n + i][3] += bias[1];
                }
            }
            uint4 chunk =
                gather_quad(pack_bf16(sum[m][n][0], sum[m][n][1]), pack_bf16(sum[m][n + 1][0], sum[m][n + 1][1]),
                            pack_bf16(sum[m][n][2], sum[m][n][3]), pack_bf16(sum[m][n + 1][2], sum[m][n + 1][3]), lane);
            const u32 column = first_column + warp_column + (n + (lane & 1)) * 8;
            if (row >= arguments.rows || column >= arguments.columns) continue;
            const u64 place = chain * arguments.c_stride + (u64)row * arguments.columns + column;
            uint4* const to = (uint4*)((bf16*)arguments.c + place);
            if (ADD_PREVIOUS || MASK) {
                Eight value = unpacked(chunk);
                if (ADD_PREVIOUS) {
                    const Eight previous = unpacked(*to);
#pragma unroll
                    for (int i = 0; i < 8; ++i) value.number[i] += previous.number[i];
                }
                if (MASK) {
                    const Eight seen = unpacked(*(const uint4*)(arguments.mask + place));
#pragma unroll
                    for (int i = 0; i < 8; ++i) value.number[i] = seen.number[i] > 0.0f ? value.number[i] : 0.0f;
                }
                chunk = packed(value);
            }
            *to = chunk;
        }
#endif
    }
}
