// The gradients of a depthwise convolution's weights and bias over some of the pixels: Σ u·dV for each tap and channel, and Σ dV.
//
// A block takes a split of the output's pixels, a line of taps (blockIdx.z % KERNEL) and up to THREADS packs of channels; sums go to
// [chain][split][tap][channel]. Reads dV once for each line of taps and a line of u for each number, mostly from the caches.
// Specification: network/images/depthwise.rs.

#include "depthwise.cuh"

struct DepthwiseWeightsArguments {
    Upstream output;
    Reading input;
    float* sums;
    // [chain][split][channel]; null where there is none.
    float* bias_sums;
    u32 num_splits;
    u32 pixels_per_split;
    DepthwiseSizes sizes;
};

extern "C" __global__ void depthwise_weights(const DepthwiseWeightsArguments arguments) {
    SHARED_MEMORY(shared);
    const DepthwiseSizes& sizes = arguments.sizes;
    const u32 chain = blockIdx.y, split = blockIdx.x, tap_line = blockIdx.z % KERNEL;
    const PixelShare share = pixel_share(sizes.channels, blockIdx.z / KERNEL);
    const u32 pixels = sizes.num_images * sizes.output_height * sizes.output_width;
    const u32 first = split * arguments.pixels_per_split, end = min(first + arguments.pixels_per_split, pixels);
    const u32 channel = share.unit * WIDTH;
    float sums[(KERNEL + 1) * WIDTH] = {};
    for (u32 pixel = share.row < share.rows ? first + share.row : end; pixel < end; pixel += share.rows) {
        const u32 line = pixel / sizes.output_width, image = line / sizes.output_height;
        const u32 to_x = pixel - line * sizes.output_width, to_y = line - image * sizes.output_height;
        const Pack gradient = upstream_pack(arguments.output, chain, pixel * sizes.channels + channel);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) sums[KERNEL * WIDTH + i] += gradient.of[i];
        const u32 y = to_y * sizes.stride + tap_line - sizes.above;
        if (y >= sizes.input_height) continue;
#pragma unroll
        for (u32 tap = 0; tap < KERNEL; tap++) {
            const u32 x = to_x * sizes.stride + tap - sizes.left;
            if (x >= sizes.input_width) continue;
            const u32 at = ((image * sizes.input_height + y) * sizes.input_width + x) * sizes.channels + channel;
            const Pack value = read_pack(arguments.input, chain, at);
#pragma unroll
            for (int i = 0; i < WIDTH; i++)
                sums[tap * WIDTH + i] = fmaf(gradient.of[i], value.of[i], sums[tap * WIDTH + i]);
        }
    }
    sum_rows(sums, (float*)shared, share);
    if (share.row > 0) return;
    const u64 part = (u64)chain * arguments.num_splits + split;
#pragma unroll
    for (int tap = 0; tap < KERNEL; tap++) {
        float* const to = arguments.sums + ((part * KERNEL + tap_line) * KERNEL + tap) * sizes.channels + channel;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) to[i] = sums[tap * WIDTH + i];
    }
    if (!arguments.bias_sums || tap_line > 0) return;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) arguments.bias_sums[part * sizes.channels + channel + i] = sums[KERNEL * WIDTH + i];
}
