// Maxima over windows, one thread WIDTH channels of a pixel of the output.
//
// Reads a value once for each window that sees it, mostly from the caches. Specification: network/images/max_pool.rs
// (MaxPoolForward).

#include "max_pool.cuh"

struct MaxPoolArguments {
    Reading input;
    element* output;
    Window window;
};

extern "C" __global__ void max_pool(const MaxPoolArguments arguments) {
    const Reading& input = arguments.input;
    const Window& window = arguments.window;
    const u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x, units = input.channels / WIDTH;
    const u32 pixel = number / units, channel = (number - pixel * units) * WIDTH;
    const u32 line = pixel / window.output_width, x = pixel - line * window.output_width;
    const u32 image = line / window.output_height, y = line - image * window.output_height;
    if (image >= input.num_images) return;
    const Seen rows = seen_of(y, window.stride, window.size, window.above, window.input_height);
    const Seen columns = seen_of(x, window.stride, window.size, window.left, window.input_width);
    Pack maximum = {};
    for (u32 row = rows.first; row < rows.end; row++) {
        for (u32 column = columns.first; column < columns.end; column++) {
            const u32 at = image * input.len + (row * window.input_width + column) * input.channels + channel;
            const Pack value = read_pack(input, chain, at);
            const bool is_first = row == rows.first && column == columns.first;
#pragma unroll
            for (int i = 0; i < WIDTH; i++)
                if (is_first || is_larger(value.of[i], maximum.of[i])) maximum.of[i] = value.of[i];
        }
    }
    const u64 pixels = (u64)window.output_height * window.output_width * input.num_images;
    store_pack(arguments.output, (chain * pixels + pixel) * input.channels + channel, maximum);
}
