// The backward pass of a convolution or dense layer to what it read, one thread a number: x = Σ over taps and filters of k·dV.
//
// Reads a kernel and its window of dV for each number. Specification: network/images/convolution.rs (pull_image), dense.rs.

#include "conv.cuh"

struct PlainConvInputArguments {
    Upstream output;
    Reading input;
    Downstream to;
    const element* kernel;
    u64 parameter_stride;
    ConvSizes sizes;
};

extern "C" __global__ void plain_conv_input(const PlainConvInputArguments arguments) {
    const ConvSizes& sizes = arguments.sizes;
    u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= sizes.num_images * sizes.input_height * sizes.input_width * sizes.channels) return;
    u32 channel = number % sizes.channels, pixel = number / sizes.channels;
    u32 x = pixel % sizes.input_width, line = pixel / sizes.input_width;
    u32 y = line % sizes.input_height, image = line / sizes.input_height;
    const element* kernel = arguments.kernel + chain * arguments.parameter_stride;
    float sum = 0.0f;
    for (u32 i = 0; i < sizes.kernel_height; i++) {
        // Where tap i meets row y, the output's row times the stride is this.
        u32 to_y = y + sizes.above - i;
        if (to_y % sizes.stride != 0 || to_y / sizes.stride >= sizes.output_height || y + sizes.above < i) continue;
        for (u32 j = 0; j < sizes.kernel_width; j++) {
            u32 to_x = x + sizes.left - j;
            if (to_x % sizes.stride != 0 || to_x / sizes.stride >= sizes.output_width || x + sizes.left < j) continue;
            u32 row = image * sizes.output_height + to_y / sizes.stride;
            u32 at = (row * sizes.output_width + to_x / sizes.stride) * sizes.filters;
            u64 tap = ((u64)(i * sizes.kernel_width + j) * sizes.channels + channel) * sizes.filters;
            for (u32 filter = 0; filter < sizes.filters; filter++) {
                sum = fmaf(load_element(kernel, tap + filter), upstream(arguments.output, chain, at + filter), sum);
            }
        }
    }
    downstream(arguments.to, arguments.input, chain, number, sum);
}
