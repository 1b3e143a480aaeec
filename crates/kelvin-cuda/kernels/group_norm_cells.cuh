// Group norm image by image, together with the activation and the pool behind it where nobody else reads what lies between.
//
//   z = (u − mean)·r with r = 1/√(variance + ε) over pixels and the group's channels     y = γ·z + β     result = mean or largest of f(y) in a cell
//
// A block takes all channels of an image, so that it has whole groups. Defines: BY (the activation f), CELL (pixels of a cell: 1, 4 for 2×2, 0 for
// any other rectangle), MAXIMA.

#include "activation_by.cuh"
#include "chain.cuh"
#include "image_cells.cuh"
#include "largest.cuh"

// Where the two totals of a channel over the pixels lie once `sum_rows` has added them up; first or second.
DEVICE float* total_of(float* scratch, int which, u32 channel) {
    return scratch + (which * WIDTH + channel % WIDTH) * THREADS + channel / WIDTH;
}

// `body(group, first, end)` by the lanes of a warp for each group, whose channels these are.
template <class Body>
DEVICE void for_groups(u32 channels, u32 groups, const Body& body) {
    const u32 count = channels / groups;
    for (u32 group = threadIdx.x / 32; group < groups; group += THREADS / 32) body(group, group * count, (group + 1) * count);
}
