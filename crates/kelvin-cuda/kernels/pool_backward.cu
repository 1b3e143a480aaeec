// The backward pass of a pool, one thread WIDTH channels of some lines of a rectangle: dV of the rectangle over its size.
//
// With NORM_SUMS, D is complete and goes through a norm next, that of the input or of a term if the input is a sum: each
// block leaves a part of the norm's sums, and the last of a chain works out what follows, unless it is left to a
// convolution (norm_finish.cuh). The units of a pixel must divide THREADS, so that a thread's channels are the same in
// every block.
//
// Reads dV once for each thread of a rectangle (small ones have one), reads the value where it masks and that of the
// norm, and writes the gradient once, 16 bytes at a time where WIDTH is not 1. Specification: network/images/pool.rs
// (PoolBackward), reading.rs (add_sums).

#include "norm_finish.cuh"
#include "pixel_sums.cuh"

struct PoolBackwardArguments {
    Upstream output;
    Reading input;
    Downstream to;
    // The value whose norm D goes through.
    const element* normed;
    // Of this norm: Σ D and Σ D·ẑ, [chain][block][channel].
    float2* parts;
    // [chain]: 0 between launches.
    u32* tickets;
    NormBackwardFinish finish;
    u32 input_width;
    u32 output_height;
    u32 output_width;
    u32 height;
    u32 width;
    // Lines of a thread, which divide a rectangle.
    u32 lines;
    // 1/(height·width).
    float share;
    // Blocks take shares, with something for each of their threads, in turn.
    u32 num_shares;
};

// Σ D and Σ D·(V − mean) of a thread's channels.
struct ThreadSums {
    Pack mean;
    float of[2 * WIDTH];
};

// Hands `term` to up to COLUMNS pixels of LINES lines from `at` on: everything is read before anything is written.
template <int LINES, int COLUMNS>
DEVICE void hand_on(const PoolBackwardArguments& arguments, u64 at, u32 columns, const NormPack& norm, Pack term,
                    ThreadSums& sums) {
    const Reading& input = arguments.input;
    const Downstream& to = arguments.to;
    const bool masks = to.masks && input.relu;
    const u32 line = arguments.input_width * input.channels;
    RawPack value[LINES * COLUMNS] = {}, before[LINES * COLUMNS] = {}, measured[LINES * COLUMNS] = {};
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
        if (NORM_SUMS && j % COLUMNS < columns) {
            measured[j] = load_raw(arguments.normed, at + j / COLUMNS * line + j % COLUMNS * input.channels);
        }
    }
#pragma unroll
    for (int j = 0; j < LINES * COLUMNS; j++) {
        const Pack added = pack_of(before[j]), seen = normed(norm, pack_of(value[j]));
        Pack sum;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) sum.of[i] = !masks || seen.of[i] > 0.0f ? term.of[i] + added.of[i] : 0.0f;
        if (j % COLUMNS >= columns) continue;
        const RawPack stored = raw_of(sum);
        store_raw(to.gradient, at + j / COLUMNS * line + j % COLUMNS * input.channels, stored);
        if (NORM_SUMS) {
            const Pack gradient = pack_of(stored), own = pack_of(measured[j]);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                sums.of[i] += gradient.of[i];
                sums.of[WIDTH + i] = fmaf(gradient.of[i], own.of[i] - sums.mean.of[i], sums.of[WIDTH + i]);
            }
        }
    }
}

// Hands on what is this thread's of a share.
DEVICE void hand_on_share(const PoolBackwardArguments& arguments, u32 chain, u32 share, ThreadSums& sums) {
    const Reading& input = arguments.input;
    const u32 number = share * blockDim.x + threadIdx.x, units = input.channels / WIDTH;
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
        hand_on<2, 2>(arguments, at, 2, norm, term, sums);
        return;
    }
    for (u32 i = 0; i < arguments.lines; i++, at += input_line) {
        for (u32 j = 0; j < arguments.width; j += 4) {
            hand_on<1, 4>(arguments, at + j * input.channels, arguments.width - j, norm, term, sums);
        }
    }
}

// Hands on what is this thread's.
DEVICE void hand_on_shares(const PoolBackwardArguments& arguments, u32 chain, ThreadSums& sums) {
    for (u32 share = blockIdx.x; share < arguments.num_shares; share += gridDim.x)
        hand_on_share(arguments, chain, share, sums);
}

extern "C" __global__ void pool_backward(const PoolBackwardArguments arguments) {
    const u32 chain = blockIdx.y;
    ThreadSums sums = {};
#if NORM_SUMS
    SHARED_MEMORY(shared);
    const u32 channels = arguments.input.channels;
    const PixelShare share = pixel_share(channels);
    const float* norm = arguments.finish.norm + (u64)chain * 4 * channels + share.unit * WIDTH;
    sums.mean = load_coefficients(norm + 2 * channels);
    hand_on_shares(arguments, chain, sums);
    sum_rows(sums.of, (float*)shared, share);
    if (share.row == 0) {
        const Pack inverse_std = load_coefficients(norm + 3 * channels);
        float2* to = arguments.parts + (((u64)chain * gridDim.x + blockIdx.x) * channels + share.unit * WIDTH);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) to[i] = make_float2(sums.of[i], sums.of[WIDTH + i] * inverse_std.of[i]);
    }
    if (arguments.finish.slopes && is_last_block(arguments.tickets + chain, gridDim.x, (u32*)shared))
        finish_last(arguments.finish, chain);
#else
    hand_on_shares(arguments, chain, sums);
#endif
}
