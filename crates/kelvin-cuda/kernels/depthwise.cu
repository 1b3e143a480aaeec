// A depthwise convolution, one thread WIDTH channels of a pixel of the output: z = b + Σ over taps of k·u.
//
// Reads a window for each number, mostly from the caches, and writes it once. Specification: network/images/depthwise.rs.

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
    Pack sum = {};
    if (arguments.bias) {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) sum.of[i] = bias[i];
    }
#pragma unroll
    for (u32 tap = 0; tap < KERNEL * KERNEL; tap++) {
        const u32 y = place.y * sizes.stride + tap / KERNEL - sizes.above,
                  x = place.x * sizes.stride + tap % KERNEL - sizes.left;
        if (y >= sizes.input_height || x >= sizes.input_width) continue;
        const u32 at =
            ((place.image * sizes.input_height + y) * sizes.input_width + x) * sizes.channels + place.channel;
        const Pack value = read_pack(input, chain, at),
                   weight = load_weights(kernel, tap, sizes.channels, place.channel);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) sum.of[i] = fmaf(weight.of[i], value.of[i], sum.of[i]);
    }
    const u64 count = (u64)sizes.num_images * sizes.output_height * sizes.output_width * sizes.channels;
    store_pack(arguments.output, chain * count + (u64)number * WIDTH, sum);
}
