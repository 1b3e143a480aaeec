// Σ D and Σ D·ẑ of each channel over parts of a batch, for batch norms whose D no kernel summed in passing; one block a
// part, and the last of a chain works out what follows, unless it is left to a convolution.
//
// Part p holds pixels p·rows_per_part and on: [chain][part][channel] {Σ D, Σ D·ẑ}. Reads value and gradient once.
// Specification: network/images/reading.rs (add_sums).

#include "norm_finish.cuh"
#include "pixel_sums.cuh"

struct NormSumsArguments {
    const element* values;
    const element* gradient;
    const float* norm;
    float2* parts;
    // [chain]: 0 between launches.
    u32* tickets;
    NormBackwardFinish finish;
    u32 num_pixels;
    u32 channels;
    u32 num_parts;
    u32 rows_per_part;
};

extern "C" __global__ void norm_sums(const NormSumsArguments arguments) {
    SHARED_MEMORY(shared);
    const u32 channels = arguments.channels;
    const PixelShare share = pixel_share(channels);
    u32 chain = blockIdx.y, part = blockIdx.x;
    u32 first = part * arguments.rows_per_part, end = min(first + arguments.rows_per_part, arguments.num_pixels);
    const float* norm = arguments.norm + (u64)chain * 4 * channels + share.unit * WIDTH;
    float sums[2 * WIDTH] = {};
    if (share.row < share.rows) {
        const Pack mean = load_coefficients(norm + 2 * channels), inverse_std = load_coefficients(norm + 3 * channels);
#pragma unroll 4
        for (u32 pixel = first + share.row; pixel < end; pixel += share.rows) {
            const u64 at = ((u64)chain * arguments.num_pixels + pixel) * channels + share.unit * WIDTH;
            const Pack gradient = load_pack(arguments.gradient, at), value = load_pack(arguments.values, at);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                sums[i] += gradient.of[i];
                sums[WIDTH + i] = fmaf(gradient.of[i], (value.of[i] - mean.of[i]) * inverse_std.of[i], sums[WIDTH + i]);
            }
        }
    }
    sum_rows(sums, (float*)shared, share);
    if (share.row == 0) {
        float2* to = arguments.parts + (((u64)chain * arguments.num_parts + part) * channels + share.unit * WIDTH);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) to[i] = make_float2(sums[i], sums[WIDTH + i]);
    }
    if (arguments.finish.slopes && is_last_block(arguments.tickets + chain, gridDim.x * gridDim.z, (u32*)shared))
        finish_last(arguments.finish, chain);
}
