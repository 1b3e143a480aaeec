// The gradient of what a depthwise convolution read, one thread WIDTH channels of a strip of the input: x = Σ over taps of k·dV.
//
// Reads a line of dV for each line of taps that meets the strip, mostly from the caches, and writes each number once. Specification:
// network/images/depthwise.rs.

// A multiple of the stride, so that all strips meet their taps in the same way.
#define STRIP (STRIDE > 4 ? STRIDE : 4 / STRIDE * STRIDE)
#include "depthwise.cuh"

struct DepthwiseInputArguments {
    Upstream output;
    Reading input;
    Downstream to;
    const element* kernel;
    u64 parameter_stride;
    DepthwiseSizes sizes;
};

DEVICE constexpr int floor_of(int number, int divisor) {
    return number >= 0 ? number / divisor : -((-number + divisor - 1) / divisor);
}

// Pixels of the output that meet a strip, counted from the one where its first pixel would lie without padding.
constexpr int FIRST = floor_of(LEFT - KERNEL + 1, STRIDE), COUNT = floor_of(STRIP - 1 + LEFT, STRIDE) - FIRST + 1;

extern "C" __global__ void __launch_bounds__(THREADS, 2) depthwise_input(const DepthwiseInputArguments arguments) {
    const DepthwiseSizes& sizes = arguments.sizes;
    const Reading& input = arguments.input;
    const Downstream& to = arguments.to;
    const u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    const Place place = place_of(number, sizes.input_height, sizes.input_width, sizes.channels);
    if (place.image >= sizes.num_images) return;
    const element* const kernel = arguments.kernel + chain * arguments.parameter_stride;
    const SlopePack slopes(arguments.output, chain, place.channel);
    const u64 image = (u64)chain * sizes.num_images + place.image;
    Pack sums[STRIP] = {};
#pragma unroll 1
    for (u32 tap_line = 0; tap_line < KERNEL; tap_line++) {
        // Where a tap meets a pixel, the output's place times the stride is this; one above the image wraps around.
        const u32 down = place.y + ABOVE - tap_line, y = down / STRIDE;
        if (y * STRIDE != down || y >= sizes.output_height) continue;
        Pack weights[KERNEL], gradients[COUNT];
#pragma unroll
        for (u32 tap = 0; tap < KERNEL; tap++)
            weights[tap] = load_weights(kernel, tap_line * KERNEL + tap, sizes.channels, place.channel);
        const u64 line = (image * sizes.output_height + y) * sizes.output_width * sizes.channels + place.channel;
        load_gradients(gradients, arguments.output, slopes, line, place.x / STRIDE + FIRST, sizes.output_width);
#pragma unroll
        for (int column = 0; column < COUNT; column++) {
#pragma unroll
            for (int i = 0; i < STRIP; i++) {
                const int tap = i + LEFT - (FIRST + column) * STRIDE;
                if (tap >= 0 && tap < KERNEL) multiply_add(sums[i], weights[tap], gradients[column]);
            }
        }
    }
    const NormPack norm = load_norm(input, chain, place.channel);
    const u64 first =
        ((image * sizes.input_height + place.y) * sizes.input_width + place.x) * sizes.channels + place.channel;
    RawPack before[STRIP] = {}, value[STRIP] = {};
#pragma unroll
    for (int i = 0; i < STRIP; i++) {
        if (place.x + i >= sizes.input_width) continue;
        if (to.adds) before[i] = load_raw(to.gradient, first + (u64)i * sizes.channels);
        if (to.masks && input.relu) value[i] = load_raw(input.values, first + (u64)i * sizes.channels);
    }
#pragma unroll
    for (int i = 0; i < STRIP; i++) {
        if (place.x + i >= sizes.input_width) continue;
        const Pack added = pack_of(before[i]), seen = normed(norm, pack_of(value[i]));
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            sums[i].of[k] += added.of[k];
            if (to.masks && input.relu && !(seen.of[k] > 0.0f)) sums[i].of[k] = 0.0f;
        }
        store_pack(to.gradient, first + (u64)i * sizes.channels, sums[i]);
    }
}
