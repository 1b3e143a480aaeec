// Tiles of both factors in shared memory, how threads fill them, and the products of what lies there.
//
// A tile is rows of chunks of eight numbers: a factor whose rows the sum runs along has a row for each of its own, with
// DEPTH numbers; one that it runs across has DEPTH rows. STAGES tiles of each factor have room. Where eight numbers are side by side
// they are copied straight there STAGES − 1 tiles ahead, and made what readers see by the thread that asked for them once they have
// arrived; else they pass through registers, asked for before a tile's products and put in place after them.

#include "conv_product_source.cuh"

constexpr int THREADS = 32 * WARPS_M * WARPS_N;
constexpr int ROWS = 16 * WARPS_M * WARP_M, COLUMNS = 8 * WARPS_N * WARP_N;
constexpr int DEPTH = HALF ? 32 : 16;

// A tile of a factor with SIZE rows or columns.
template <int SIZE, bool ACROSS>
struct Tile {
    static constexpr int TILE_ROWS = ACROSS ? DEPTH : SIZE, CHUNKS = (ACROSS ? SIZE : DEPTH) / 8;
    // Rows that all threads fill at a time, and how often; some threads may be left over, or rows too few for all.
    static constexpr int TOGETHER = THREADS / CHUNKS, TIMES = (TILE_ROWS + TOGETHER - 1) / TOGETHER;
    static constexpr bool HAS_SPARE = TOGETHER * CHUNKS != THREADS, IS_WHOLE = !HAS_SPARE && TILE_ROWS % TOGETHER == 0;
#if HALF
    // In chunks; rows are an odd number of them apart.
    static constexpr int STRIDE = CHUNKS + 1, ROOM = TILE_ROWS * STRIDE;
#else
    // In numbers: lanes that read pairs along the sum, or single numbers across it, meet different banks.
    static constexpr int STRIDE = CHUNKS * 8 + (ACROSS ? 4 : 8), ROOM = TILE_ROWS * STRIDE / 4;
#endif

    // A thread that is left over has rows behind the last.
    DEVICE static int row(int thread, int time) {
        return HAS_SPARE && thread >= TOGETHER * CHUNKS ? TILE_ROWS : thread / CHUNKS + time * TOGETHER;
    }
    DEVICE static int column(int thread) { return thread % CHUNKS * 8; }

    // Whether the thread has a row at this time.
    DEVICE static bool has(int thread, int time) { return IS_WHOLE || row(thread, time) < TILE_ROWS; }

    // Where its eight numbers lie.
    DEVICE static uint4* place(uint4* tile, int thread, int time) {
#if HALF
        return tile + row(thread, time) * STRIDE + thread % CHUNKS;
#else
        return (uint4*)((float*)tile + row(thread, time) * STRIDE + column(thread));
#endif
    }

    DEVICE static void put(uint4* tile, int thread, int time, const Raw& raw) {
        if (has(thread, time)) store_raw(place(tile, thread, time), raw);
    }

    // Makes what a thread asked for what readers see, where it is `valid` (a bit for each time); of a gradient V lies in `others`.
    template <int KIND>
    DEVICE static void settle(uint4* tile, const uint4* others, int thread, u32 valid, const Coefficients& by) {
#pragma unroll
        for (int i = 0; i < TIMES; ++i) {
            if (!(valid >> i & 1)) continue;
            uint4* const own = place(tile, thread, i);
            const Raw other = Numbers<KIND>::HAS_OTHERS ? raw_at(others + (own - tile)) : no_numbers();
            store_raw(own, seen<KIND>(raw_at(own), other, by));
        }
    }
};

// Which of a thread's chunks are there, of the tiles that it has asked for: the bits of the last in front.
template <class Tile>
struct Asked {
    u32 bits = 0;
    static_assert(Tile::TIMES * (STAGES - 1) <= 32, "there is room for the bits of all tiles under way");

    DEVICE void push(u32 valid) { bits = bits << Tile::TIMES | valid; }
    // Of the tile that is waited for next.
    DEVICE u32 first() const { return bits >> Tile::TIMES * (STAGES - 2); }
};

using TileOfA = Tile<ROWS, PRODUCT == WEIGHTS>;
using TileOfB = Tile<COLUMNS, PRODUCT != INPUT>;
// Whether V lies beside a tile of gradients.
constexpr bool OTHERS_OF_A = WIDE_A && PRODUCT == INPUT && OUTPUT_NORM;
constexpr bool OTHERS_OF_B = WIDE_B && PRODUCT == WEIGHTS && OUTPUT_NORM;
constexpr int STAGE = TileOfA::ROOM * (OTHERS_OF_A ? 2 : 1) + TileOfB::ROOM * (OTHERS_OF_B ? 2 : 1);

// The rooms of a stage, which follow each other.
DEVICE uint4* a_of(uint4* stage) { return stage; }
DEVICE uint4* b_of(uint4* stage) { return stage + TileOfA::ROOM; }
DEVICE uint4* others_of(uint4* stage) { return stage + TileOfA::ROOM + TileOfB::ROOM; }

#if HALF

// A warp's sums.
struct Sums {
    float sum[WARP_M][WARP_N][4];

    DEVICE void add_tile(const uint4* a_tile, const uint4* b_tile, int lane, int first_row, int first_column) {
        // A lane's own place, from which all others are a constant away.
        const int across = lane & 15, along = lane >> 4, down = (lane & 7) + ((lane & 16) >> 1), aside = lane >> 3 & 1;
        const uint4* const a_place = PRODUCT == WEIGHTS ? a_tile + down * TileOfA::STRIDE + first_row / 8 + aside
                                                        : a_tile + (first_row + across) * TileOfA::STRIDE + along;
        const uint4* const b_place = PRODUCT == INPUT ? b_tile + (first_column + down) * TileOfB::STRIDE + aside
                                                      : b_tile + across * TileOfB::STRIDE + first_column / 8 + along;
#pragma unroll
        for (int k = 0; k < DEPTH; k += 16) {
            u32 x[WARP_M][4], y[WARP_N][2];
#pragma unroll
            for (int m = 0; m < WARP_M; ++m) {
                if (PRODUCT == WEIGHTS) {
                    load_matrices_transposed(x[m], a_place + k * TileOfA::STRIDE + 2 * m);
                } else {
                    load_matrices(x[m], a_place + m * 16 * TileOfA::STRIDE + k / 8);
                }
                // What has no norm lies there as it is in memory.
                if (PRODUCT != INPUT && INPUT_RELU && !INPUT_NORM) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) x[m][i] = cut_off(x[m][i]);
                }
            }
#pragma unroll
            for (int n = 0; n < WARP_N; n += 2) {
                u32 four[4];
                if (PRODUCT == INPUT) {
                    load_matrices(four, b_place + n * 8 * TileOfB::STRIDE + k / 8);
                } else {
                    load_matrices_transposed(four, b_place + k * TileOfB::STRIDE + n);
                }
                y[n][0] = four[0], y[n][1] = four[1], y[n + 1][0] = four[2], y[n + 1][1] = four[3];
            }
#pragma unroll
            for (int m = 0; m < WARP_M; ++m) {
#pragma unroll
                for (int n = 0; n < WARP_N; ++n) multiply_add(sum[m][n], x[m], y[n][0], y[n][1]);
            }
        }
    }

    DEVICE void round() {}
};

#else

// An f32 number as two TF32 numbers: the nearest one, and the nearest to what is left. Of a b = a₁b₁ + a₁b₂ + a₂b₁ + a₂b₂ the last
// is left out (3xTF32).
DEVICE void split(u32& high, u32& low, float number) {
    high = (__float_as_uint(number) + 0x1000u) & 0xFFFFE000u;
    low = (__float_as_uint(number - __uint_as_float(high)) + 0x1000u) & 0xFFFFE000u;
}

// Numbers k and k + 1 of row or column `of` of a factor.
template <int STRIDE, bool ACROSS>
DEVICE float2 pair_of(const float* tile, int of, int k) {
    if (ACROSS) return make_float2(tile[k * STRIDE + of], tile[(k + 1) * STRIDE + of]);
    return *(const float2*)(tile + of * STRIDE + k);
}

// A warp's sums: tensor cores cut off what does not fit theirs, so that these are added to others, rounded to nearest.
struct Sums {
    float part[WARP_M][WARP_N][4], sum[WARP_M][WARP_N][4];

    DEVICE void add_tile(const uint4* a_tile, const uint4* b_tile, int lane, int first_row, int first_column) {
        const int along = 2 * (lane & 3);
#pragma unroll
        for (int k = 0; k < DEPTH; k += 8) {
            u32 x[2][WARP_M][4], y[2][WARP_N][2];  // [high or low]
#pragma unroll
            for (int m = 0; m < 2 * WARP_M; ++m) {
                const int row = first_row + lane / 4 + m * 8;
                const float2 pair = pair_of<TileOfA::STRIDE, PRODUCT == WEIGHTS>((const float*)a_tile, row, k + along);
                split(x[0][m / 2][m % 2], x[1][m / 2][m % 2], pair.x);
                split(x[0][m / 2][2 + m % 2], x[1][m / 2][2 + m % 2], pair.y);
            }
#pragma unroll
            for (int n = 0; n < WARP_N; ++n) {
                const int column = first_column + lane / 4 + n * 8;
                const float2 pair = pair_of<TileOfB::STRIDE, PRODUCT != INPUT>((const float*)b_tile, column, k + along);
                split(y[0][n][0], y[1][n][0], pair.x);
                split(y[0][n][1], y[1][n][1], pair.y);
            }
            // Small terms first.
#pragma unroll
            for (int term = 0; term < 3; ++term) {
#pragma unroll
                for (int m = 0; m < WARP_M; ++m) {
#pragma unroll
                    for (int n = 0; n < WARP_N; ++n)
                        multiply_add_tf32(part[m][n], x[term == 0][m], y[term == 1][n][0], y[term == 1][n][1]);
                }
            }
        }
    }

    // Adds what tensor cores have summed to what was before.
    DEVICE void round() {
#pragma unroll
        for (int i = 0; i < 4 * WARP_M * WARP_N; ++i) {
            sum[i / (4 * WARP_N)][i / 4 % WARP_N][i % 4] += part[i / (4 * WARP_N)][i / 4 % WARP_N][i % 4];
            part[i / (4 * WARP_N)][i / 4 % WARP_N][i % 4] = 0.0f;
        }
    }
};

#endif

#if PRODUCT == WEIGHTS

// Shares of the sums over a tile's rows: thread s · COLUMNS + c has share s of column c.
constexpr int SHARES = THREADS / COLUMNS;

DEVICE float column_share(const uint4* b_tile, int thread) {
    static_assert(SHARES > 0 && DEPTH % SHARES == 0, "shares are equal");
    constexpr int SHARE = DEPTH / SHARES;
    const int column = thread % COLUMNS, first = thread / COLUMNS * SHARE;
    float sum = 0.0f;
    if (thread >= SHARES * COLUMNS) return sum;
#pragma unroll
    for (int i = 0; i < SHARE; ++i) {
#if HALF
        sum += from_bf16(((const bf16*)(b_tile + (first + i) * TileOfB::STRIDE))[column]);
#else
        sum += ((const float*)b_tile)[(first + i) * TileOfB::STRIDE + column];
#endif
    }
    return sum;
}

#endif
