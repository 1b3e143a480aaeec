// The gradient of the weights of a convolution of stride 2 by wgmma: filters of dy by channels of
// classes.
//
// A product sums over sixteen places, two rows of a square. Its rows are 64 filters of dy: of 32 those of the row above
// and of the places' own, since these lie behind each other. Its columns are the channels of neighbouring classes. Of
// 16 channels each of two warpgroups has all sums of its own square:
//
//   dy at the place and above       by all classes             taps (0 to 2, 0 and 1)
//   both one column to the left     by classes with b = 0      taps (0 to 2, 2)
//
// Of 32 channels each warpgroup but one of four, which has most to do for the input, has two products of a square:
//
//   0   dy at the place   by (1, 1) and (0, 1);   by (0, 0) and (1, 0)
//   1   dy above          by (0, 1) and (0, 0);   one to the left as well by (0, 0), the rest of no use
//   3   dy to the left    by (0, 0) and (1, 0);   that of the shortcut by (0, 0), the rest of no use

#include "conv_strided_planes.cuh"

namespace {

constexpr bool SHARES_PIXELS = CHANNELS == 16;
static_assert(CHANNELS == 16 ? WARPGROUPS == 2 && SQUARES == 2 : CHANNELS == 32 && WARPGROUPS == 4 && SQUARES == 1,
              "a square for each of two warpgroups, or one for four");

struct WeightSums {
    float first[32];
    float second[SHARES_PIXELS ? 16 : 32];
#if SHORTCUT && CHANNELS == 16
    float shortcut[8];
#endif
};

DEVICE void settle_weights(WeightSums& sums) {
    settle(sums.first);
    settle(sums.second);
#if SHORTCUT && CHANNELS == 16
    settle(sums.shortcut);
#endif
}

// Begins the products of a square; `shortcut` is dy of the shortcut.
DEVICE void begin_weight_gradient(WeightSums& sums, const uint4* x, const uint4* dy, const uint4* shortcut, int group) {
    if (!SHARES_PIXELS && group == 2) return;
    const Square square(SHARES_PIXELS ? group : 0);
    const int corner = in_lines(square.image, square.row - 1, square.column - 1);
    auto filters = [&](const uint4* of) {
        return operand<Major::across>(of + corner, DY_LINE * 16, DY_PITCH * 16);
    };
    const u64 b = operand<Major::across>(x + in_plane(square.image, square.row, square.column), OUT_W * 16, PLANE * 16);
    const u64 a = filters(dy);
    constexpr int of_class = CHUNKS * PLANE, last_two = number_of_class(0, 0) * of_class;
#if CHANNELS == 16
    const u64 first_a = a + from_corner(true, false), second_a = a + from_corner(true, true), first_b = b;
#else
    const u64 first_a = a + from_corner(group == 1, group == 3);
    const u64 second_a = group == 3 ? filters(shortcut) + from_corner(false, false)
                                    : a + from_corner(group == 1, group == 1);
    const u64 first_b = b + (group == 0 ? 0 : group == 1 ? of_class : last_two);
#endif
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
        const int dy_rows = 2 * pair * DY_LINE, x_rows = 2 * pair * OUT_W;
        multiply_add_async<Major::across, Major::across>(sums.first, first_a + dy_rows, first_b + x_rows, true);
#if CHANNELS == 16
        multiply_add_async<Major::across, Major::across>(sums.second, second_a + dy_rows, b + last_two + x_rows, true);
#endif
#if SHORTCUT && CHANNELS == 16
        multiply_add_async<Major::across, Major::across>(
            sums.shortcut, filters(shortcut) + from_corner(true, false) + dy_rows, b + last_two + x_rows, true);
#endif
    }
#if CHANNELS == 32
    if (!SHORTCUT && group == 3) return;
#pragma unroll
    for (int pair = 0; pair < 4; ++pair)
        multiply_add_async<Major::across, Major::across>(sums.second, second_a + 2 * pair * DY_LINE,
                                                         b + last_two + 2 * pair * OUT_W, true);
#endif
}

// Writes the block's parts of dw and of the shortcut's; `room` is shared memory that nobody needs any more.
DEVICE void write_weight_gradient(WeightSums& sums, float* to, float* to_shortcut, float* room, int group, int warp,
                                  int lane) {
    if (SHARES_PIXELS) {
        // The first warpgroup adds what the second has.
        constexpr int numbers = sizeof(WeightSums) / 4;
        float *const own = room + threadIdx.x % 128, *const of = (float*)&sums;
        if (group == 1) {
#pragma unroll
            for (int i = 0; i < numbers; ++i) own[i * 128] = of[i];
        }
        __syncthreads();
        if (group == 0) {
#pragma unroll
            for (int i = 0; i < numbers; ++i) of[i] += own[i * 128];
        }
    }
    if (group == (SHARES_PIXELS ? 1 : 2)) return;
    const int row = warp % 4 * 16 + (lane >> 2), filter = row % FILTERS;
    // Two columns of a product, of this row and the one eight further down: of channels of `chunk`.
    auto write = [&](float* tap, const float* four, int chunk) {
        float* const place = tap + (chunk * 8 + 2 * (lane & 3)) * FILTERS + filter;
        place[0] = four[0], place[FILTERS] = four[1], place[8] = four[2], place[FILTERS + 8] = four[3];
    };
    // Columns of which the first are those of class `number`.
    auto write_taps = [&](const float* columns, int count, int number, bool above, bool left) {
#pragma unroll
        for (int j = 0; j < count; ++j) {
            const int own = number + j / CHUNKS;
            const bool a = has_odd_row(own), b = has_odd_column(own);
            if ((above && a) || (left && b)) continue;
            const int tap = (above ? 2 : (int)a) * KERNEL + (left ? 2 : (int)b);
            write(to + tap * (CHANNELS * FILTERS), columns + 4 * j, j % CHUNKS);
        }
    };
    auto write_shortcut = [&](const float* columns) {
#pragma unroll
        for (int j = 0; j < CHUNKS; ++j) write(to_shortcut, columns + 4 * j, j);
    };
#if CHANNELS == 16
    const bool above = row < FILTERS;
    write_taps(sums.first, 8, 0, above, false);
    write_taps(sums.second, 4, 2, above, true);
#if SHORTCUT
    if (!above) write_shortcut(sums.shortcut);
#endif
#else
    write_taps(sums.first, 8, group == 0 ? 0 : group == 1 ? 1 : 2, group == 1, group == 3);
    if (group != 3)
        write_taps(sums.second, 8, 2, group == 1, group == 1);
    else if (SHORTCUT)
        write_shortcut(sums.second);
#endif
}

}  // namespace
