// The gradients of a depthwise convolution's weights and bias over some of the pixels: Σ u·dV for each tap and channel, and Σ dV.
//
// A block takes a split of the output's strips, a line of taps (blockIdx.z % KERNEL) and up to THREADS packs of channels; sums go to
// [chain][split][tap][channel]. Reads dV once for each line of taps and a line of u for each strip, mostly from the caches.
// Specification: network/images/depthwise.rs.

// More would not leave registers for two blocks.
#define STRIP 2
#include "depthwise.cuh"

struct DepthwiseWeightsArguments {
    Upstream output;
    Reading input;
    float* sums;
    // [chain][split][channel]; null where there is none.
    float* bias_sums;
    u32 num_splits;
    u32 reserved;
    DepthwiseSizes sizes;
};

extern "C" __global__ void __launch_bounds__(THREADS, 2) depthwise_weights(const DepthwiseWeightsArguments arguments) {
    SHARED_MEMORY(shared);
    const DepthwiseSizes& sizes = arguments.sizes;
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y, split = blockIdx.x, tap_line = blockIdx.z % KERNEL;
    const PixelShare share = pixel_share(sizes.channels, blockIdx.z / KERNEL);
    const u32 across = strips_of(sizes.output_width), strips = sizes.num_images * sizes.output_height * across;
    const u32 per_split = (strips + arguments.num_splits - 1) / arguments.num_splits;
    const u32 first = split * per_split, end = min(first + per_split, strips);
    const u32 channel = share.unit * WIDTH;
    const SlopePack slopes(arguments.output, chain, channel);
    const NormPack norm = load_norm(input, chain, channel);
    const bool sums_bias = arguments.bias_sums && tap_line == 0;
    float sums[(KERNEL + 1) * WIDTH] = {};
    for (u32 strip = share.row < share.rows ? first + share.row : end; strip < end; strip += share.rows) {
        const u32 line = strip / across, image = line / sizes.output_height;
        const u32 to_x = (strip - line * across) * STRIP, to_y = line - image * sizes.output_height;
        const u32 y = to_y * STRIDE + tap_line - ABOVE;
        if (y >= sizes.input_height && !sums_bias) continue;
        Pack gradients[STRIP];
        const u64 of_line = ((u64)chain * sizes.num_images * sizes.output_height + line) * sizes.output_width;
        load_gradients(gradients, arguments.output, slopes, of_line * sizes.channels + channel, to_x,
                       sizes.output_width);
        if (sums_bias) {
#pragma unroll
            for (int i = 0; i < STRIP * WIDTH; i++)
                sums[KERNEL * WIDTH + i % WIDTH] += gradients[i / WIDTH].of[i % WIDTH];
        }
        if (y >= sizes.input_height) continue;
        const u64 of_input =
            ((u64)chain * sizes.num_images + image) * input.len + (u64)y * sizes.input_width * sizes.channels;
        for_span(input, norm, of_input + channel, to_x * STRIDE - LEFT, sizes.input_width,
                 [&](int column, const Pack& value) {
#pragma unroll
                     for (int i = 0; i < STRIP; i++) {
                         const int tap = column - i * STRIDE;
                         if (tap < 0 || tap >= KERNEL) continue;
#pragma unroll
                         for (int k = 0; k < WIDTH; k++)
                             sums[tap * WIDTH + k] = fmaf(gradients[i].of[k], value.of[k], sums[tap * WIDTH + k]);
                     }
                 });
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
    if (!sums_bias) return;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) arguments.bias_sums[part * sizes.channels + channel + i] = sums[KERNEL * WIDTH + i];
}
