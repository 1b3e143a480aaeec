// Products of matrices of any size on tensor cores, one for each chain, as exact as f32: C[m, n] = Σ_k A[m, k] B[k, n].
//
// The three products of a dense layer with rows x, weights w and output gradient dy:
//   forward           y  = x w + bias        A = x            B = w
//   data gradient     dx = dy wᵀ             A = dy           B = w   as it lies, B_TRANSPOSED
//   weight gradient   dw = xᵀ dy             A = x as it lies, A_TRANSPOSED   B = dy, whose sums over k are the
//                                          bias's gradient (COLUMN_SUMS); k in num_splits parts
// Tensor cores multiply TF32 numbers, which have 11 bits, and sum in f32. An f32 number is the sum of two of them but for its
// last two bits: a b = a₁b₁ + a₁b₂ + a₂b₁, three products (3xTF32). A bf16 number is one (HALF 1): one product. Tensor cores
// cut off what does not fit their sums, so that these are added to others, rounded to nearest, every CHUNK tiles.
//
// A block of four warps makes 64 × 64 numbers of C. Tiles of 16 along k come through STAGES stages of shared memory, sixteen bytes
// at a time where rows of the matrix begin at multiples of sixteen bytes (WIDE_A, WIDE_B), else number by number.
//
// Bytes: A once for every 64 columns of C, B once for every 64 rows, mostly from the L2 cache; C once.
// Specification: kelvin::network::dense, kelvin::network::images (dense.rs).
//
// Defines: HALF, STAGES, BLOCKS (on a multiprocessor), WIDE_A WIDE_B A_TRANSPOSED B_TRANSPOSED RELU_A (A is read as max(A, 0))
// FLOAT_C (C is f32) PAIRS (C is f32 with rows of an even number) ADD_BIAS ADD_PREVIOUS MASK COLUMN_SUMS (0 or 1).

#include "element.cuh"
#include "product_arguments.cuh"

namespace {

constexpr int ROWS = 64, COLUMNS = 64, DEPTH = 16, THREADS = 128, CHUNK = 4;
// Numbers from one row of a tile to the next, where k runs along rows and where it runs across: lanes that read pairs along k,
// or single numbers across it, meet different banks.
constexpr int ALONG = DEPTH + 8, ACROSS = 64 + 4;

// What a thread copies of the tiles of a row-major matrix, one after the other along k, which runs along its rows or down.
template <bool DOWN, bool WIDE>
struct Tiles {
    static constexpr int TILE_ROWS = DOWN ? DEPTH : 64, TILE_COLUMNS = DOWN ? 64 : DEPTH;
    static constexpr int STRIDE = DOWN ? ACROSS : ALONG, ROOM = TILE_ROWS * STRIDE;
    // Numbers copied at a time, how many of them make a row, and how many rows all threads copy at a time.
    static constexpr int WIDTH = WIDE ? 4 : 1, PIECES = TILE_COLUMNS / WIDTH, TOGETHER = THREADS / PIECES;
    static constexpr int TIMES = TILE_ROWS / TOGETHER;
    static_assert(TOGETHER * TIMES == TILE_ROWS, "every thread copies the same number of pieces");

    const element* next;
    u64 jump;  // from one of its rows to the next
    u64 step;  // from a tile to the next
    // Rows that are left below the first of its rows, and numbers right of its piece; one of the two shrinks along k.
    int rows_left, columns_left;
    int place;

    DEVICE Tiles(const element* from, u32 first, u32 rows, u32 columns, int thread) {
        const u32 row = (DOWN ? 0 : first) + thread / PIECES, column = (DOWN ? first : 0) + thread % PIECES * WIDTH;
        next = from + (u64)row * columns + column;
        jump = (u64)TOGETHER * columns;
        step = DOWN ? (u64)DEPTH * columns : DEPTH;
        rows_left = (int)rows - (int)row;
        columns_left = (int)columns - (int)column;
        place = thread / PIECES * STRIDE + thread % PIECES * WIDTH;
    }

    // Copies the next tile; zeros outside of the matrix, of which nothing is read.
    DEVICE void copy(float* to) {
        const element* from = next;
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
            float* const own = to + place + i * TOGETHER * STRIDE;
            const bool valid = i * TOGETHER < rows_left && columns_left > 0;
#if HALF
            *own = valid ? load_element(from, 0) : 0.0f;
#else
            if (WIDE) {
                copy_async(own, from, valid);
            } else {
                copy_word_async(own, from, valid);
            }
#endif
            from += jump;
        }
        next += step;
        (DOWN ? rows_left : columns_left) -= DEPTH;
    }

    // Numbers k and k + 1 of row or column `of` of the factor.
    DEVICE static void pair(float (&to)[2], const float* tile, int of, int k) {
        if (DOWN) {
            to[0] = tile[k * STRIDE + of], to[1] = tile[(k + 1) * STRIDE + of];
        } else {
            const float2 both = *(const float2*)(tile + of * STRIDE + k);
            to[0] = both.x, to[1] = both.y;
        }
    }
};

using TilesOfA = Tiles<A_TRANSPOSED, WIDE_A>;
using TilesOfB = Tiles<!B_TRANSPOSED, WIDE_B>;
constexpr int STAGE = TilesOfA::ROOM + TilesOfB::ROOM;
static_assert(!COLUMN_SUMS || (A_TRANSPOSED && !B_TRANSPOSED), "sums and splits of k are taken down both matrices");

// A number as TF32 numbers: the nearest one, and the first bits of what is left.
struct Parts {
    u32 high, low;
};

DEVICE Parts parts(float number) {
#if HALF
    return {__float_as_uint(number), 0};
#else
    const u32 high = (__float_as_uint(number) + 0x1000u) & 0xFFFFE000u;
    return {high, __float_as_uint(number - __uint_as_float(high)) & 0xFFFFE000u};
#endif
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) product_tf32(const ProductArguments arguments) {
    SHARED_MEMORY(shared);
    float* const tiles = (float*)shared;  // [stage]: A, B
    const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const u32 chain = blockIdx.y, num_columns = (arguments.columns + COLUMNS - 1) / COLUMNS;
    const u32 first_row = blockIdx.x / num_columns * ROWS, first_column = blockIdx.x % num_columns * COLUMNS;
#if COLUMN_SUMS
    // Splits of k, which runs down both matrices.
    const u32 num_splits = arguments.num_splits, split = blockIdx.z;
    const u32 of_split = (arguments.depth + num_splits - 1) / num_splits, share = (of_split + DEPTH - 1) / DEPTH * DEPTH;
    const u32 first = min(split * share, arguments.depth), depth = min(arguments.depth - first, share);
    const u64 part = (u64)chain * num_splits + split;
#else
    const u32 first = 0, depth = arguments.depth;
    const u64 part = chain;
#endif
    TilesOfA of_a((const element*)arguments.a + chain * arguments.a_stride + (u64)first * arguments.rows, first_row,
                  A_TRANSPOSED ? depth : arguments.rows, A_TRANSPOSED ? arguments.rows : depth, thread);
    TilesOfB of_b((const element*)arguments.b + chain * arguments.b_stride + (u64)first * arguments.columns, first_column,
                  B_TRANSPOSED ? arguments.columns : depth, B_TRANSPOSED ? depth : arguments.columns, thread);
    const int steps = (depth + DEPTH - 1) / DEPTH;

    int fetched = 0;
    float* to = tiles;
    auto fetch = [&]() {
        if (fetched < steps) {
            of_a.copy(to);
            of_b.copy(to + TilesOfA::ROOM);
            ++fetched;
            to = to == tiles + (STAGES - 1) * STAGE ? tiles : to + STAGE;
        }
        copy_async_commit();
    };

    // Each warp makes 32 × 32. Lane i holds row i/4 and numbers 2(i%4) and 2(i%4)+1 along k: any order of k serves.
    const int row = warp / 2 * 32 + lane / 4, column = warp % 2 * 32 + lane / 4, along = 2 * (lane & 3);
    float sum[2][4][4] = {}, total[2][4][4] = {};
    float of_column = 0.0f;
    const bool sums_columns = COLUMN_SUMS && first_row == 0;

#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) fetch();
    const float* a_tile = tiles;
    for (int step = 0; step < steps; ++step) {
        copy_async_wait<STAGES - 2>();
        __syncthreads();
        fetch();
        const float* const b_tile = a_tile + TilesOfA::ROOM;
#pragma unroll
        for (int k = 0; k < DEPTH; k += 8) {
            u32 x[2][2][4], y[2][4][2];  // [high or low]
#pragma unroll
            for (int m = 0; m < 4; ++m) {
                float pair[2];
                TilesOfA::pair(pair, a_tile, row + m * 8, k + along);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    if (RELU_A) pair[i] = pair[i] < 0.0f ? 0.0f : pair[i];
                    const Parts both = parts(pair[i]);
                    x[0][m / 2][2 * i + m % 2] = both.high, x[1][m / 2][2 * i + m % 2] = both.low;
                }
            }
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                float pair[2];
                TilesOfB::pair(pair, b_tile, column + n * 8, k + along);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const Parts both = parts(pair[i]);
                    y[0][n][i] = both.high, y[1][n][i] = both.low;
                }
            }
            // Small terms first.
#pragma unroll
            for (int term = HALF ? 2 : 0; term < 3; ++term) {
#pragma unroll
                for (int m = 0; m < 2; ++m) {
#pragma unroll
                    for (int n = 0; n < 4; ++n)
                        multiply_add_tf32(sum[m][n], x[term == 0][m], y[term == 1][n][0], y[term == 1][n][1]);
                }
            }
        }
        if (sums_columns) {
#pragma unroll
            for (int k = 0; k < DEPTH / 2; ++k)
                of_column += b_tile[(thread / COLUMNS * (DEPTH / 2) + k) * ACROSS + thread % COLUMNS];
        }
        if (step % CHUNK == CHUNK - 1 || step == steps - 1) {
#pragma unroll
            for (int i = 0; i < 32; ++i) {
                total[i / 16][i / 4 % 4][i % 4] += sum[i / 16][i / 4 % 4][i % 4];
                sum[i / 16][i / 4 % 4][i % 4] = 0.0f;
            }
        }
        a_tile = a_tile == tiles + (STAGES - 1) * STAGE ? tiles : a_tile + STAGE;
    }

    if (sums_columns) {
        // Both halves of k, through the room of the tiles.
        __syncthreads();
        tiles[thread] = of_column;
        __syncthreads();
        if (thread < COLUMNS && first_column + thread < arguments.columns)
            arguments.column_sums[part * arguments.columns + first_column + thread] =
                tiles[thread] + tiles[COLUMNS + thread];
    }

#if FLOAT_C || !HALF
    float* const c = (float*)arguments.c + part * arguments.c_stride;
#else
    element* const c = (element*)arguments.c + part * arguments.c_stride;
    (void)PAIRS;
#endif
    const element* const mask = MASK ? (const element*)arguments.mask + chain * arguments.c_stride : nullptr;
    const float* const bias = ADD_BIAS ? arguments.bias + chain * arguments.bias_stride : nullptr;
#pragma unroll
    for (int m = 0; m < 4; ++m) {
        const u32 own_row = first_row + row + m * 8;
        if (own_row >= arguments.rows) break;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            const u32 own_column = first_column + warp % 2 * 32 + n * 8 + along;
            float numbers[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                float number = total[m / 2][n][m % 2 * 2 + i];
                const u64 at = (u64)own_row * arguments.columns + own_column + i;
                const bool inside = own_column + i < arguments.columns;
                if (ADD_BIAS && inside) number += bias[own_column + i];
                if (ADD_PREVIOUS && inside) number += load_element((const element*)c, at);
                if (MASK && inside && !(load_element(mask, at) > 0.0f)) number = 0.0f;
                numbers[i] = number;
            }
            const u64 at = (u64)own_row * arguments.columns + own_column;
#if FLOAT_C || !HALF
            if (PAIRS) {
                if (own_column < arguments.columns) *(float2*)(c + at) = make_float2(numbers[0], numbers[1]);
                continue;
            }
            if (own_column < arguments.columns) c[at] = numbers[0];
            if (own_column + 1 < arguments.columns) c[at + 1] = numbers[1];
#else
            if (own_column < arguments.columns) store_element(c, at, numbers[0]);
            if (own_column + 1 < arguments.columns) store_element(c, at + 1, numbers[1]);
#endif
        }
    }
}
