// Means over rectangles of pixels, one thread a number of the result. Reads the value once.
//
// Specification: network/images/pool.rs (PoolForward).

#include "reading.cuh"

struct PoolArguments {
    Reading input;
    element* output;
    u32 input_width;
    u32 output_height;
    u32 output_width;
    // Of a rectangle.
    u32 height;
    u32 width;
    u32 reserved;
};

extern "C" __global__ void pool(const PoolArguments arguments) {
    const Reading& input = arguments.input;
    u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    u32 count = input.num_images * arguments.output_height * arguments.output_width * input.channels;
    if (number >= count) return;
    u32 channel = number % input.channels, pixel = number / input.channels;
    u32 x = pixel % arguments.output_width, line = pixel / arguments.output_width;
    u32 y = line % arguments.output_height, image = line / arguments.output_height;
    float share = (float)(1.0 / (arguments.height * arguments.width)), sum = 0.0f;
    for (u32 i = 0; i < arguments.height; i++) {
        u32 row = y * arguments.height + i;
        u32 from = image * input.len + (row * arguments.input_width + x * arguments.width) * input.channels + channel;
        for (u32 j = 0; j < arguments.width; j++) {
            sum = fmaf(read_value(input, chain, from + j * input.channels), share, sum);
        }
    }
    store_element(arguments.output, (u64)chain * count + number, sum);
}
