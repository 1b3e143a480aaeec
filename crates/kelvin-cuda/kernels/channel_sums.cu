// The gradient of a bias over some of the pixels: Σ dV of each channel; one block a split.
//
// Split s of a chain sums pixels s·pixels_per_split and on; the sums go to [chain][split][channel]. Reads dV once.
// Specification: network/images/reading.rs (add_columns).

#include "pixel_sums.cuh"

struct ChannelSumsArguments {
    Upstream output;
    float* sums;
    u32 num_splits;
    u32 pixels_per_split;
};

extern "C" __global__ void channel_sums(const ChannelSumsArguments arguments) {
    SHARED_MEMORY(shared);
    const Upstream& output = arguments.output;
    const PixelShare share = pixel_share(output.channels);
    u32 chain = blockIdx.y, split = blockIdx.x;
    u32 num_pixels = output.num_images * (output.len / output.channels);
    u32 first = split * arguments.pixels_per_split, end = min(first + arguments.pixels_per_split, num_pixels);
    float sums[WIDTH] = {};
    if (share.row < share.rows) {
#pragma unroll 4
        for (u32 pixel = first + share.row; pixel < end; pixel += share.rows) {
            const Pack pack = upstream_pack(output, chain, pixel * output.channels + share.unit * WIDTH);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) sums[i] += pack.of[i];
        }
    }
    sum_rows(sums, (float*)shared, share);
    if (share.row != 0) return;
    float* to = arguments.sums + ((u64)chain * arguments.num_splits + split) * output.channels + share.unit * WIDTH;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) to[i] = sums[i];
}
