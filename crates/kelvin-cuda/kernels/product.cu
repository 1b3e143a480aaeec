// Products of matrices on tensor cores, one for each chain: C[m, n] = Σ_k A[m, k] B[k, n].
//
// The three products of a dense layer with rows x, weights w and output gradient dy (all bf16, sums in f32):
//   forward           y  = x w + bias        A = x            B = w
//   data gradient     dx = dy wᵀ             A = dy           B = w   as it lies, B_TRANSPOSED
//   weight gradient   dw = xᵀ dy             A = x as it lies, A_TRANSPOSED   B = dy, whose sums over k are the bias's gradient
//                                          (COLUMN_SUMS)
// A block makes 64 × 64 numbers of C by GROUPS groups of four warps. Tiles of 32·GROUPS along k come through STAGES stages of
// shared memory, 32 for each group, whose sums are added in the end, in their order: many stages and groups where k is
// long and blocks are few, since waiting bounds the speed there.
//
// Bytes: A once for every 64 columns of C, B once for every 64 rows, mostly from the L2 cache; C once.
// Specification: kelvin::network::images (dense.rs).
//
// Defines: STAGES, GROUPS, BLOCKS (on a multiprocessor), A_TRANSPOSED B_TRANSPOSED RELU_A (A is read as max(A, 0)) FLOAT_C
// (C is f32) ADD_BIAS ADD_PREVIOUS MASK COLUMN_SUMS (0 or 1).

#include "tile.cuh"
#include "product_arguments.cuh"

namespace {

constexpr int ROWS = 64, COLUMNS = 64, DEPTH = 32 * GROUPS, THREADS = 128 * GROUPS;

// What a thread copies of the tiles of a row-major matrix, one after the other along k: chunks of neighbouring rows of a
// tile, which are rows of the matrix that k runs along, or that k runs across (DOWN).
template <int tile_rows, int chunks, bool DOWN>
struct Tiles {
    // Rows that all threads copy at a time, and how often.
    static constexpr int TOGETHER = THREADS / chunks, TIMES = tile_rows / TOGETHER;
    static_assert(TOGETHER * TIMES == tile_rows, "every thread copies the same number of chunks");
    static constexpr int ROOM = tile_rows * (chunks + 1);

    const bf16* next;
    u64 jump;  // from one of its rows to the next
    u64 step;  // from a tile to the next
    // Rows that are left below the first of its rows, and numbers right of its chunk; one of the two shrinks along k.
    int rows_left, columns_left;
    int place;

    DEVICE Tiles(const bf16* from, u32 first, u32 rows, u32 columns, int thread) {
        const u32 row = (DOWN ? 0 : first) + thread / chunks, column = (DOWN ? first : 0) + thread % chunks * 8;
        next = from + (u64)row * columns + column;
        jump = (u64)TOGETHER * columns;
        step = DOWN ? (u64)DEPTH * columns : DEPTH;
        rows_left = (int)rows - (int)row;
        columns_left = (int)columns - (int)column;
        place = padded<chunks>(thread / chunks, thread % chunks);
    }

    // Copies the next tile; zeros outside of the matrix, of which nothing is read.
    DEVICE void copy(uint4* to) {
        const bf16* from = next;
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
            copy_async(to + place + i * TOGETHER * (chunks + 1), from, i * TOGETHER < rows_left && columns_left > 0);
            from += jump;
        }
        next += step;
        (DOWN ? rows_left : columns_left) -= DEPTH;
    }
};

using TilesOfA = Tiles<A_TRANSPOSED ? DEPTH : ROWS, (A_TRANSPOSED ? ROWS : DEPTH) / 8, A_TRANSPOSED>;
using TilesOfB = Tiles<B_TRANSPOSED ? COLUMNS : DEPTH, (B_TRANSPOSED ? DEPTH : COLUMNS) / 8, !B_TRANSPOSED>;
constexpr int A_CHUNKS = (A_TRANSPOSED ? ROWS : DEPTH) / 8, B_CHUNKS = (B_TRANSPOSED ? DEPTH : COLUMNS) / 8;
constexpr int STAGE = TilesOfA::ROOM + TilesOfB::ROOM;
static_assert(GROUPS == 1 || STAGES * STAGE * 16 >= 128 * 32 * 4, "the tiles have room for the sums of a group");

// Calls what is given with the number and the place of each of a thread's sums.
template <typename Action>
DEVICE void each_sum(Action action, float (&sum)[2][4][4]) {
#pragma unroll
    for (int i = 0; i < 32; ++i) action(i, sum[i / 16][i / 4 % 4][i % 4]);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) product(const ProductArguments arguments) {
    SHARED_MEMORY(shared);
    uint4* const tiles = (uint4*)shared;  // [stage]: A, B
    const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5 & 3, group = thread >> 7;
    const u32 chain = blockIdx.y, num_columns = (arguments.columns + COLUMNS - 1) / COLUMNS;
    const u32 first_row = blockIdx.x / num_columns * ROWS, first_column = blockIdx.x % num_columns * COLUMNS;
    const u32 depth = arguments.depth;
    TilesOfA of_a((const bf16*)arguments.a + chain * arguments.a_stride, first_row, A_TRANSPOSED ? depth : arguments.rows,
                  A_TRANSPOSED ? arguments.rows : depth, thread);
    TilesOfB of_b((const bf16*)arguments.b + chain * arguments.b_stride, first_column, B_TRANSPOSED ? arguments.columns : depth,
                  B_TRANSPOSED ? depth : arguments.columns, thread);
    const int steps = (depth + DEPTH - 1) / DEPTH;

    int fetched = 0;
    uint4* to = tiles;
    auto fetch = [&]() {
        if (fetched < steps) {
            of_a.copy(to);
            of_b.copy(to + TilesOfA::ROOM);
            ++fetched;
            to = to == tiles + (STAGES - 1) * STAGE ? tiles : to + STAGE;
        }
        copy_async_commit();
    };

    // Each of the four warps of a group makes 32 × 32.
    const int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
    float sum[2][4][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
#pragma unroll
        for (int n = 0; n < 4; ++n) sum[m][n][0] = sum[m][n][1] = sum[m][n][2] = sum[m][n][3] = 0.0f;
    }

    static_assert(!COLUMN_SUMS || (!B_TRANSPOSED && GROUPS == 1), "sums over k are taken down the columns of a tile");
    const bool sums_columns = COLUMN_SUMS && first_row == 0;
    float of_column = 0.0f;

#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) fetch();
    const uint4* a_tile = tiles;
    for (int step = 0; step < steps; ++step) {
        copy_async_wait<STAGES - 2>();
        __syncthreads();
        fetch();
        const uint4* const b_tile = a_tile + TilesOfA::ROOM;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int k = 2 * group + half;
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
        if (sums_columns) {
            // Half of the tile's rows for each half of the threads.
            const int column = thread % COLUMNS;
#pragma unroll
            for (int k = 0; k < DEPTH / 2; ++k) {
                const uint4* const chunk = b_tile + padded<B_CHUNKS>(thread / COLUMNS * (DEPTH / 2) + k, column / 8);
                of_column += from_bf16(((const bf16*)chunk)[column % 8]);
            }
        }
        a_tile = a_tile == tiles + (STAGES - 1) * STAGE ? tiles : a_tile + STAGE;
    }

    if (sums_columns) {
        float* const halves = (float*)shared;
        __syncthreads();
        halves[thread] = of_column;
        __syncthreads();
        if (thread < COLUMNS && first_column + thread < arguments.columns)
            arguments.column_sums[(u64)chain * arguments.columns + first_column + thread] =
                halves[thread] + halves[COLUMNS + thread];
    }

    if (GROUPS > 1) {
        // Sums of the groups behind the first, one after the other, through the room of the tiles.
        float* const others = (float*)shared + (thread & 127);
#pragma unroll
        for (int other = 1; other < GROUPS; ++other) {
            __syncthreads();
            if (group == other) each_sum([&](int i, float& number) { others[i * 128] = number; }, sum);
            __syncthreads();
            if (group == 0) each_sum([&](int i, float& number) { number += others[i * 128]; }, sum);
        }
        if (group > 0) return;
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
                    const Eight seen = unpacked(*(const uint4*)((const bf16*)arguments.mask + place));
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
