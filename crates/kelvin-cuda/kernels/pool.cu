// Means over rectangles of pixels, one thread WIDTH channels of a pixel of the result.
//
// Reads the value and writes the result once: 16 bytes at a time where WIDTH is not 1, those of neighbouring threads side
// by side. Specification: network/images/pool.rs (PoolForward).

#include "pack.cuh"

struct PoolArguments {
    Reading input;
    element* output;
    u32 input_width;
    u32 output_height;
    u32 output_width;
    // Of a rectangle.
    u32 height;
    u32 width;
    // 1/(height·width).
    float share;
};

// Adds the shares of LINES × COLUMNS pixels from `from` on, of which `columns` are there: all are read before any is used.
template <int LINES, int COLUMNS>
DEVICE void add_shares(Pack& sum, const PoolArguments& arguments, u64 from, u32 columns, const NormPack& norm) {
    const Reading& input = arguments.input;
    const float floor = input.relu ? 0.0f : -__uint_as_float(0x7F800000u);
    const u32 line = arguments.input_width * input.channels;
    RawPack raw[LINES * COLUMNS] = {};
#pragma unroll
    for (int i = 0; i < LINES * COLUMNS; i++) {
        const u64 at = from + i / COLUMNS * line + i % COLUMNS * input.channels;
        if (i % COLUMNS < columns) raw[i] = load_raw(input.values, at);
    }
#pragma unroll
    for (int i = 0; i < LINES * COLUMNS; i++) {
        if (i % COLUMNS >= columns) continue;
        const Pack value = normed(norm, pack_of(raw[i]));
#pragma unroll
        for (int k = 0; k < WIDTH; k++) {
            sum.of[k] = fmaf(value.of[k] < floor ? floor : value.of[k], arguments.share, sum.of[k]);
        }
    }
}

extern "C" __global__ void pool(const PoolArguments arguments) {
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x, units = input.channels / WIDTH;
    const u32 pixel = number / units, channel = (number - pixel * units) * WIDTH;
    const u32 line = pixel / arguments.output_width, x = pixel - line * arguments.output_width;
    const u32 image = line / arguments.output_height, y = line - image * arguments.output_height;
    if (image >= input.num_images) return;
    const NormPack norm = load_norm(input, chain, channel);
    const u32 input_line = arguments.input_width * input.channels;
    const u64 from = (u64)(chain * input.num_images + image) * input.len + (u64)y * arguments.height * input_line +
                     x * arguments.width * input.channels + channel;
    Pack sum = {};
    if (arguments.height == 2 && arguments.width == 2) {
        add_shares<2, 2>(sum, arguments, from, 2, norm);
    } else {
        for (u32 i = 0; i < arguments.height; i++) {
            for (u32 j = 0; j < arguments.width; j += 8) {
                const u64 at = from + (u64)i * input_line + j * input.channels;
                add_shares<1, 8>(sum, arguments, at, arguments.width - j, norm);
            }
        }
    }
    const u64 pixels = (u64)arguments.output_height * arguments.output_width * input.num_images;
    store_pack(arguments.output, (chain * pixels + pixel) * input.channels + channel, sum);
}
