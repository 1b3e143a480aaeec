// The gradient of a convolution's weights by wgmma: each of two warpgroups keeps its half of the sums in registers,
// or of 16 channels all sums of its half of the pixels.
//
// A product sums over sixteen pixels, two rows of a square. Its rows are 64 channels of x in these pixels or beside
// them: where there are 32 channels, those of a copy of the tile one pixel to the left as well, so that a product has two
// columns of taps, and of 16 channels those of two copies. Its columns are the filters of dy in the row above these
// pixels, in their row and in the row below, which is all rows of taps: since in the tile of dy a row's chunks lie behind
// each other, all of them are as far apart.

#include "conv_planes.cuh"

namespace {

// Of 16 channels the last rows are of no use: what lies behind the planes.
constexpr int COPIES = CHANNELS == 16 ? 3 : 64 / CHANNELS;
static_assert(WARPGROUPS == 2 && KERNEL == 3 && CHANNELS == FILTERS && 64 % CHANNELS == 0 && CHANNELS >= 16,
              "half of the sums of 64 × 64 for nine taps are what registers of a warpgroup hold");

// A line of dy has its chunks behind each other, each of them a zero and a row of pixels; the length is such that the
// chunks of a few neighbouring pixels lie in different banks.
constexpr int DY_PITCH = OUT_W + 8 / FILTER_CHUNKS, DY_LINE = FILTER_CHUNKS * DY_PITCH;
constexpr int DY_ROOM = (TILE_IMAGES * (TILE_ROWS + 1) + 1) * DY_LINE + 1;

// Where the first chunk of a pixel lies, as `in_plane`.
DEVICE constexpr int in_lines(int image, int row, int column) {
    return (image * (TILE_ROWS + 1) + 1 + row) * DY_LINE + 1 + column;
}

// Whether the warpgroups share the pixels, and squares that each multiplies.
constexpr bool SHARES_PIXELS = CHANNELS == 16;
constexpr int DW_SQUARES = SHARES_PIXELS ? OWN_SQUARES : SQUARES;

struct WeightSums {
    // Of column 2 · group of the taps; of few channels of the next ones too, as far as there are any.
    float own[KERNEL * FILTERS / 2];
#if CHANNELS == 64
    // Half of the columns of the one in the middle.
    float shared[KERNEL * FILTERS / 4];
#endif
};

DEVICE void settle_weights(WeightSums& sums) {
    settle(sums.own);
#if CHANNELS == 64
    settle(sums.shared);
#endif
}

// Begins the products of the squares.
DEVICE void begin_weight_gradient(WeightSums& sums, const uint4* x, const uint4* dy, int group) {
#pragma unroll
    for (int number = 0; number < DW_SQUARES; ++number) {
        const Square square(SHARES_PIXELS ? group * OWN_SQUARES + number : number);
        const int column = SHARES_PIXELS ? 0 : 2 * group;
        const u64 a = operand<Major::across>(x + in_plane(square.image, square.row, square.column - 1), PITCH * 16,
                                             PLANE * 16);
        const u64 b = operand<Major::across>(dy + in_lines(square.image, square.row - 1, square.column), DY_LINE * 16,
                                             DY_PITCH * 16);
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            multiply_add_async<Major::across, Major::across>(sums.own, a + 2 * pair * PITCH + column,
                                                             b + 2 * pair * DY_LINE, true);
#if CHANNELS == 64
            multiply_add_async<Major::across, Major::across>(
                sums.shared, a + 2 * pair * PITCH + 1, b + 2 * pair * DY_LINE + group * (KERNEL * DY_LINE / 2), true);
#endif
        }
    }
}

// Writes the block's part of dw; `room` is shared memory that nobody needs any more.
DEVICE void write_weight_gradient(WeightSums& sums, float* to, float* room, int group, int warp, int lane) {
    const int row = warp % 4 * 16 + (lane >> 2), h = (SHARES_PIXELS ? 0 : 2 * group) + row / CHANNELS;
    if (SHARES_PIXELS) {
        // The first warpgroup adds what the second has.
        float* const own = room + threadIdx.x % 128;
        if (group == 1) {
#pragma unroll
            for (int i = 0; i < KERNEL * FILTERS / 2; ++i) own[i * 128] = sums.own[i];
        }
        __syncthreads();
        if (group == 0) {
#pragma unroll
            for (int i = 0; i < KERNEL * FILTERS / 2; ++i) sums.own[i] += own[i * 128];
        }
        __syncthreads();
        if (group == 1) return;
    }
    float* const channel = to + row % CHANNELS * FILTERS + 2 * (lane & 3);
    // Two columns of a product, of this row and the one eight further down. The row above meets the last tap.
    auto write = [&](const float* four, int h, int chunk) {
        const int v = KERNEL - 1 - chunk / FILTER_CHUNKS;
        float* const place = channel + (v * KERNEL + h) * (CHANNELS * FILTERS) + chunk % FILTER_CHUNKS * 8;
        *(float2*)place = make_float2(four[0], four[1]);
        *(float2*)(place + 8 * FILTERS) = make_float2(four[2], four[3]);
    };
    if (h < KERNEL) {
#pragma unroll
        for (int chunk = 0; chunk < KERNEL * FILTER_CHUNKS; ++chunk) write(sums.own + 4 * chunk, h, chunk);
    }
#if CHANNELS == 64
#pragma unroll
    for (int chunk = 0; chunk < KERNEL * FILTER_CHUNKS / 2; ++chunk)
        write(sums.shared + 4 * chunk, 1, chunk + group * (KERNEL * FILTER_CHUNKS / 2));
#endif
}

}  // namespace
