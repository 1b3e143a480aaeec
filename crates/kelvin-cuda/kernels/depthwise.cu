// A depthwise convolution, one thread WIDTH channels of a strip of the output: z = b + Σ over taps of k·u.
//
// Reads a line of u for each line of taps, mostly from the caches, and writes each number once. Specification:
// network/images/depthwise.rs.

#define STRIP 4
#include "depthwise.cuh"

struct DepthwiseArguments {
    Reading input;
    // [tap][channel] of the first chain.
    const element* kernel;
    // Null where a norm follows, which would take it away again.
    const float* bias;
    element* output;
    u64 parameter_stride;
    DepthwiseSizes sizes;
};

extern "C" __global__ void depthwise(const DepthwiseArguments arguments) {
    const DepthwiseSizes& sizes = arguments.sizes;
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    const Place place = place_of(number, sizes.output_height, sizes.output_width, sizes.channels);
    if (place.image >= sizes.num_images) return;
    const element* const kernel = arguments.kernel + chain * arguments.parameter_stride;
    const float* const bias = arguments.bias + chain * arguments.parameter_stride + place.channel;
    const NormPack norm = load_norm(input, chain, place.channel);
    Pack sums[STRIP] = {};
    if (arguments.bias) {
#pragma unroll
        for (int i = 0; i < STRIP * WIDTH; i++) sums[i / WIDTH].of[i % WIDTH] = bias[i % WIDTH];
    }
    const u64 image = ((u64)chain * sizes.num_images + place.image) * input.len + place.channel;
#pragma unroll 1
    for (u32 tap_line = 0; tap_line < KERNEL; tap_line++) {
        const u32 y = place.y * STRIDE + tap_line - ABOVE;
        if (y >= sizes.input_height) continue;
        Pack weights[KERNEL];
#pragma unroll
        for (u32 tap = 0; tap < KERNEL; tap++)
            weights[tap] = load_weights(kernel, tap_line * KERNEL + tap, sizes.channels, place.channel);
        const u64 line = image + (u64)y * sizes.input_width * input.channels;
        for_span(input, norm, line, place.x * STRIDE - LEFT, sizes.input_width, [&](int column, const Pack& value) {
#pragma unroll
            for (int i = 0; i < STRIP; i++) {
                const int tap = column - i * STRIDE;
                if (tap >= 0 && tap < KERNEL) multiply_add(sums[i], weights[tap], value);
            }
        });
    }
    const u64 to = (((u64)chain * sizes.num_images + place.image) * sizes.output_height + place.y) * sizes.output_width;
#pragma unroll
    for (int i = 0; i < STRIP; i++) {
        if (place.x + i < sizes.output_width)
            store_pack(arguments.output, (to + place.x + i) * sizes.channels + place.channel, sums[i]);
    }
}
