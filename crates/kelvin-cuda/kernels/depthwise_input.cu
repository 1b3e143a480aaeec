// The gradient of what a depthwise convolution read, one thread WIDTH channels of a pixel of the input: x = Σ over taps of k·dV.
//
// Reads a window of dV for each number, mostly from the caches, and writes it once. Specification: network/images/depthwise.rs.

#include "depthwise.cuh"

struct DepthwiseInputArguments {
    Upstream output;
    Reading input;
    Downstream to;
    const element* kernel;
    u64 parameter_stride;
    DepthwiseSizes sizes;
};

extern "C" __global__ void depthwise_input(const DepthwiseInputArguments arguments) {
    const DepthwiseSizes& sizes = arguments.sizes;
    const u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    const Place place = place_of(number, sizes.input_height, sizes.input_width, sizes.channels);
    if (place.image >= sizes.num_images) return;
    const element* const kernel = arguments.kernel + chain * arguments.parameter_stride;
    Pack sum = {};
#pragma unroll
    for (u32 tap = 0; tap < KERNEL * KERNEL; tap++) {
        // Where the tap meets this pixel, the output's place times the stride is this; one above the image wraps around.
        const u32 down = place.y + sizes.above - tap / KERNEL, across = place.x + sizes.left - tap % KERNEL;
        const u32 y = down / sizes.stride, x = across / sizes.stride;
        if (y * sizes.stride != down || x * sizes.stride != across) continue;
        if (y >= sizes.output_height || x >= sizes.output_width) continue;
        const u32 at =
            ((place.image * sizes.output_height + y) * sizes.output_width + x) * sizes.channels + place.channel;
        const Pack gradient = upstream_pack(arguments.output, chain, at);
        const Pack weight = load_weights(kernel, tap, sizes.channels, place.channel);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) sum.of[i] = fmaf(weight.of[i], gradient.of[i], sum.of[i]);
    }
    downstream_pack(arguments.to, arguments.input, chain, number * WIDTH, sum);
}
