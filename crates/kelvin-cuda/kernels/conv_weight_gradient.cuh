// The gradient of a convolution's weights: a product of what each tap reads by dy, summed over all pixels of a block.

#include "conv_dy.cuh"

namespace {

// Sixteen channels by SQUARE_FILTERS filters are a square; each warp has one, and with others of the same square a
// share of the pixels.
constexpr int SQUARE_TILES = SQUARE_FILTERS / 8;
constexpr int SQUARES = (DEPTH / 16) * (FILTERS / SQUARE_FILTERS), SHARES = SQUARES < WARPS ? WARPS / SQUARES : 1;
static_assert(WARPS % SQUARES == 0, "a warp for each square");

struct WeightSums {
    float of[TAPS][SQUARE_TILES][4];
};

#if STRIP && WEIGHT_STRIP

typedef Strips<WEIGHT_STRIP> WeightStrips;
constexpr int ACROSS = PACKED ? 1 : KERNEL, X_BELOW = PACKED ? TILE_W / 2 : TILE_W * (CHUNKS + 1);
static_assert(TILE_ROWS % WEIGHT_STRIP == 0, "every pixel belongs to one strip");

// Row by row: each is multiplied by those of dy that it meets, which stay in registers meanwhile.
DEVICE void add_weight_gradient(WeightSums& sums, const uint4* tile, const uint4* dy, int warp, int lane) {
    const int square = warp % SQUARES, share = warp / SQUARES;
    const int channel_chunk = square % (DEPTH / 16) * 2, filter_chunk = square / (DEPTH / 16) * SQUARE_TILES;
    const int of_dy = lane & 15, of_x = (lane & 7) + ((lane & 16) >> 1);
#pragma unroll 1
    for (int number = share; number < WeightStrips::COUNT; number += SHARES) {
        const WeightStrips strip(number);
        const int dy_line = strip.image_of(of_dy) * DY_H + strip.row + BEFORE;
        const uint4* const dy_at =
            dy + padded<DY_CHUNKS>(dy_line * DY_W + BEFORE + strip.column_of(of_dy), filter_chunk + (lane >> 4));
        const int line = strip.image_of(of_x) * TILE_H + strip.row;
        const uint4* const x_at = tile + tile_chunk(line, strip.column_of(of_x)) + channel_chunk + (lane >> 3 & 1);
        u32 d[KERNEL][SQUARE_TILES][2];
#pragma unroll
        for (int unit = 0; unit < WeightStrips::UNITS; ++unit) {
            if (unit < WEIGHT_STRIP) {
#pragma unroll
                for (int n = 0; n < SQUARE_TILES; n += 2) {
                    u32 four[4];
                    load_matrices_transposed(four, dy_at + unit * (DY_W * (DY_CHUNKS + 1)) + n);
                    u32(&own)[SQUARE_TILES][2] = d[unit % KERNEL];
                    own[n][0] = four[0], own[n][1] = four[1], own[n + 1][0] = four[2], own[n + 1][1] = four[3];
                }
            }
#pragma unroll
            for (int h = 0; h < ACROSS; ++h) {
                u32 x[4];
                load_matrices_transposed(x, x_at + unit * X_BELOW + h * (CHUNKS + 1));
#pragma unroll
                for (int v = 0; v < KERNEL; ++v) {
                    if (unit < v || unit - v >= WEIGHT_STRIP) continue;
                    const u32(&met)[SQUARE_TILES][2] = d[(unit - v) % KERNEL];
#pragma unroll
                    for (int n = 0; n < SQUARE_TILES; ++n)
                        multiply_add(sums.of[v * ACROSS + h][n], x, met[n][0], met[n][1]);
                }
            }
        }
    }
}

#else

DEVICE void add_weight_gradient(WeightSums& sums, const uint4* tile, const uint4* dy, int warp, int lane) {
    const int square = warp % SQUARES, share = warp / SQUARES;
    const int channel_chunk = square % (DEPTH / 16) * 2, filter_chunk = square / (DEPTH / 16) * SQUARE_TILES;
#pragma unroll 1
    for (int k = share; k < M_TILES; k += SHARES) {
        u32 d[SQUARE_TILES][2];
        const uint4* const dy_at = dy + padded<DY_CHUNKS>(dy_row(k * 16 + (lane & 15)), filter_chunk + (lane >> 4));
#pragma unroll
        for (int n = 0; n < SQUARE_TILES; n += 2) {
            u32 four[4];
            load_matrices_transposed(four, dy_at + n);
            d[n][0] = four[0], d[n][1] = four[1], d[n + 1][0] = four[2], d[n + 1][1] = four[3];
        }
        const int chunk = input_chunk(k * 16 + (lane & 7) + ((lane & 16) >> 1)) + channel_chunk + (lane >> 3 & 1);
#pragma unroll
        for (int tap = 0; tap < TAPS; ++tap) {
            u32 x[4];
            load_matrices_transposed(x, tile + chunk + tap_offset(tap));
#pragma unroll
            for (int n = 0; n < SQUARE_TILES; ++n) multiply_add(sums.of[tap][n], x, d[n][0], d[n][1]);
        }
    }
}

#endif

// Adds the shares of each square in their order and writes the block's part.
DEVICE void write_weight_gradient(const WeightSums& sums, float* room, float* to, int warp, int lane) {
    const int square = warp % SQUARES, share = warp / SQUARES;
    const int first_channel = square % (DEPTH / 16) * 16, first_filter = square / (DEPTH / 16) * SQUARE_FILTERS;
#pragma unroll
    for (int turn = 0; turn < SHARES; ++turn) {
        if (share == turn) {
#pragma unroll
            for (int tap = 0; tap < TAPS; ++tap) {
#pragma unroll
                for (int part = 0; part < 2 * SQUARE_TILES; ++part) {
                    const int row = tap * DEPTH + first_channel + (lane >> 2) + (part & 1) * 8;
                    const int place = row * FILTERS + first_filter + (part >> 1) * 8 + 2 * (lane & 3);
                    float2 value = make_float2(sums.of[tap][part >> 1][(part & 1) * 2],
                                               sums.of[tap][part >> 1][(part & 1) * 2 + 1]);
                    if (turn > 0) {
                        const float2 before = *(const float2*)(room + place);
                        value.x += before.x, value.y += before.y;
                    }
                    if (turn + 1 < SHARES) {
                        *(float2*)(room + place) = value;
                    } else if (weight_row(row) >= 0) {
                        *(float2*)(to + weight_row(row) * FILTERS + place % FILTERS) = value;
                    }
                }
            }
        }
        __syncthreads();
    }
}

}  // namespace
