// The backward pass of maxima, one thread WIDTH channels of a pixel of the input: dV of each window in which it is the first that
// has the maximum.
//
// Reads a window's values for each pixel it sees, mostly from the caches; writes the gradient once. Maxima are taken again, since what
// was written may be rounded. Specification: network/images/max_pool.rs (MaxPoolBackward).

#include "max_pool.cuh"

struct MaxPoolBackwardArguments {
    Upstream output;
    Reading input;
    Downstream to;
    Window window;
};

// The first and the last window of a direction that see a place.
DEVICE Seen windows_of(u32 place, u32 stride, u32 size, u32 before, u32 count) {
    const u32 at = place + before;
    return {at < size ? 0 : (at - size) / stride + 1, min(at / stride + 1, count)};
}

extern "C" __global__ void max_pool_backward(const MaxPoolBackwardArguments arguments) {
    const Reading& input = arguments.input;
    const Window& window = arguments.window;
    const u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x, units = input.channels / WIDTH;
    const u32 pixel = number / units, channel = (number - pixel * units) * WIDTH;
    const u32 line = pixel / window.input_width, own_x = pixel - line * window.input_width;
    const u32 image = line / window.input_height, own_y = line - image * window.input_height;
    if (image >= input.num_images) return;
    const u32 first_of_image = image * input.len + channel;
    const u32 own_place = own_y * window.input_width + own_x;
    const Seen down = windows_of(own_y, window.stride, window.size, window.above, window.output_height);
    const Seen across = windows_of(own_x, window.stride, window.size, window.left, window.output_width);
    const Pack own = read_pack(input, chain, first_of_image + own_place * input.channels);
    Pack term = {};
    for (u32 y = down.first; y < down.end; y++) {
        const Seen rows = seen_of(y, window.stride, window.size, window.above, window.input_height);
        for (u32 x = across.first; x < across.end; x++) {
            const Seen columns = seen_of(x, window.stride, window.size, window.left, window.input_width);
            // Whether no pixel before it has as much, and none after it more.
            bool has_it[WIDTH];
#pragma unroll
            for (int i = 0; i < WIDTH; i++) has_it[i] = own.of[i] == own.of[i];
            for (u32 row = rows.first; row < rows.end; row++) {
                for (u32 column = columns.first; column < columns.end; column++) {
                    const u32 place = row * window.input_width + column;
                    if (place == own_place) continue;
                    const Pack value = read_pack(input, chain, first_of_image + place * input.channels);
#pragma unroll
                    for (int i = 0; i < WIDTH; i++) {
                        const bool beats = is_larger(value.of[i], own.of[i]);
                        has_it[i] = has_it[i] && !beats && !(place < own_place && value.of[i] == own.of[i]);
                    }
                }
            }
            const u32 result = (image * window.output_height + y) * window.output_width + x;
            const Pack gradient = upstream_pack(arguments.output, chain, result * input.channels + channel);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) term.of[i] += has_it[i] ? gradient.of[i] : 0.0f;
        }
    }
    downstream_pack(arguments.to, input, chain, first_of_image + own_place * input.channels, term);
}
