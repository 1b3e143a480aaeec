// The way back of a pool, one thread WIDTH channels of some lines of a rectangle: dV of the rectangle over its size.
//
// Reads dV once for each thread of a rectangle (small ones have one), reads the value where it masks and writes the
// gradient once, 16 bytes at a time where WIDTH is not 1. Specification: network/images/pool.rs (PoolBackward).

#include "pack.cuh"

struct PoolBackwardArguments {
    Upstream output;
    Reading input;
    Downstream to;
    u32 input_width;
    u32 output_height;
    u32 output_width;
    u32 height;
    u32 width;
    // Lines of a thread, which divide a rectangle.
    u32 lines;
    // 1/(height·width).
    float share;
    u32 reserved;
};

// Hands `term` to up to COLUMNS pixels of LINES lines from `at` on: everything is read before anything is written.
template <int LINES, int COLUMNS>
DEVICE void hand_on(const PoolBackwardArguments& arguments, u64 at, u32 columns, const NormPack& norm, Pack term) {
    const Reading& input = arguments.input;
    const Downstream& to = arguments.to;
    const bool masks = to.masks && input.relu;
    const u32 line = arguments.input_width * input.channels;
    RawPack value[LINES * COLUMNS] = {}, before[LINES * COLUMNS] = {};
#pragma unroll
    for (int j = 0; j < LINES * COLUMNS; j++) {
        if (masks && j % COLUMNS < columns) {
            value[j] = load_raw(input.values, at + j / COLUMNS * line + j % COLUMNS * input.channels);
        }
    }
#pragma unroll
    for (int j = 0; j < LINES * COLUMNS; j++) {
        if (to.adds && j % COLUMNS < columns) {
            before[j] = load_raw(to.gradient, at + j / COLUMNS * line + j % COLUMNS * input.channels);
        }
    }
#pragma unroll
    for (int j = 0; j < LINES * COLUMNS; j++) {
        const Pack added = pack_of(before[j]), seen = normed(norm, pack_of(value[j]));
        Pack sum;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) sum.of[i] = !masks || seen.of[i] > 0.0f ? term.of[i] + added.of[i] : 0.0f;
        if (j % COLUMNS < columns) store_pack(to.gradient, at + j / COLUMNS * line + j % COLUMNS * input.channels, sum);
    }
}

extern "C" __global__ void pool_backward(const PoolBackwardArguments arguments) {
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x, units = input.channels / WIDTH;
    const u32 slabs = arguments.height / arguments.lines;
    const u32 column = number / units, channel = (number - column * units) * WIDTH;
    const u32 slab = column / arguments.output_width, x = column - slab * arguments.output_width;
    // The output's line among those of all images.
    const u32 line = slabs == 1 ? slab : slab / slabs;
    if (line >= input.num_images * arguments.output_height) return;
    Pack term = upstream_pack(arguments.output, chain, (line * arguments.output_width + x) * input.channels + channel);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) term.of[i] *= arguments.share;
    const NormPack norm = load_norm(input, chain, channel);
    const u32 input_line = arguments.input_width * input.channels;
    // Rectangles cover their images: lines of the input are `slab · lines` and on.
    u64 at = (u64)chain * input.num_images * input.len + (u64)slab * arguments.lines * input_line +
             x * arguments.width * input.channels + channel;
    if (arguments.lines == 2 && arguments.width == 2) {
        hand_on<2, 2>(arguments, at, 2, norm, term);
        return;
    }
    for (u32 i = 0; i < arguments.lines; i++, at += input_line) {
        for (u32 j = 0; j < arguments.width; j += 4) {
            hand_on<1, 4>(arguments, at + j * input.channels, arguments.width - j, norm, term);
        }
    }
}
