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
    u32 reserved;
};

// The mean over a rectangle of height × width pixels from `from` on, lines `line` numbers apart.
DEVICE Pack mean(const Reading& input, u64 from, u32 line, u32 height, u32 width, const NormPack& norm) {
    const float share = (float)(1.0 / (height * width)), floor = input.relu ? 0.0f : -__uint_as_float(0x7F800000u);
    Pack sum = {};
    for (u32 i = 0; i < height; i++) {
#pragma unroll 4
        for (u32 j = 0; j < width; j++) {
            const Pack value = normed(norm, load_pack(input.values, from + (u64)i * line + j * input.channels));
#pragma unroll
            for (int k = 0; k < WIDTH; k++) sum.of[k] = fmaf(value.of[k] < floor ? floor : value.of[k], share, sum.of[k]);
        }
    }
    return sum;
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
    // Known sizes let all of a small rectangle be read at once.
    const bool square = arguments.height == 2 && arguments.width == 2;
    const Pack sum = square ? mean(input, from, input_line, 2, 2, norm)
                            : mean(input, from, input_line, arguments.height, arguments.width, norm);
    const u64 pixels = (u64)arguments.output_height * arguments.output_width * input.num_images;
    store_pack(arguments.output, (chain * pixels + pixel) * input.channels + channel, sum);
}
