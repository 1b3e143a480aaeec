// Group norm image by image, together with the activation and the pool behind it where nobody else reads what lies between.
//
//   z = (u − mean)·r with r = 1/√(variance + ε) over pixels and the group's channels     y = γ·z + β     result = mean of f(y) over a cell
//
// A block takes all channels of an image, so that it has whole groups. Defines: BY (the activation f), CELL (pixels of a cell: 1, 4
// for 2×2, 0 for any other rectangle).

#include "activation.cuh"
#include "chain.cuh"
#include "image_cells.cuh"

// Beside those of activation.cuh.
#define IDENTITY 3
#define RELU 4

DEVICE float result_of(float y) {
    if (BY == IDENTITY) return y;
    return BY == RELU ? (y < 0.0f ? 0.0f : y) : activated(BY, y);
}

DEVICE float slope_of(float y) {
    if (BY == IDENTITY) return 1.0f;
    return BY == RELU ? (y > 0.0f ? 1.0f : 0.0f) : activation_slope(BY, y);
}

// Where the two totals of a channel over the pixels lie once `sum_rows` has added them up; first or second.
DEVICE float* total_of(float* scratch, int which, u32 channel) {
    return scratch + (which * WIDTH + channel % WIDTH) * THREADS + channel / WIDTH;
}

// `body(group, first, end)` by the lanes of a warp for each group, whose channels these are.
template <class Body>
DEVICE void for_groups(u32 channels, u32 groups, const Body& body) {
    const u32 count = channels / groups;
    for (u32 group = threadIdx.x / 32; group < groups; group += THREADS / 32)
        body(group, group * count, (group + 1) * count);
}
