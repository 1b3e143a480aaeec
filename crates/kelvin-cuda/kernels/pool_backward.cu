// The way back of a pool, one thread a number of its input: its rectangle's dV over the rectangle's size.
//
// Specification: network/images/pool.rs (PoolBackward).

#include "reading.cuh"

struct PoolBackwardArguments {
    Upstream output;
    Reading input;
    Downstream to;
    u32 input_width;
    u32 output_height;
    u32 output_width;
    u32 height;
    u32 width;
    u32 reserved;
};

extern "C" __global__ void pool_backward(const PoolBackwardArguments arguments) {
    const Reading& input = arguments.input;
    u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= input.num_images * input.len) return;
    u32 channel = number % input.channels, pixel = number / input.channels;
    u32 num_pixels = input.len / input.channels;
    u32 image = pixel / num_pixels, inside = pixel % num_pixels;
    u32 y = inside / arguments.input_width / arguments.height, x = inside % arguments.input_width / arguments.width;
    u32 at = ((image * arguments.output_height + y) * arguments.output_width + x) * input.channels + channel;
    float share = (float)(1.0 / (arguments.height * arguments.width));
    downstream(arguments.to, input, chain, number, upstream(arguments.output, chain, at) * share);
}
