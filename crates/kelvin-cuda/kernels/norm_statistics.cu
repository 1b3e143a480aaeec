// Mean and spread of each channel over parts of a batch, for batch norms whose value no kernel measured in passing; one
// block a part; the last of a chain works out what follows, unless it is left to a convolution.
//
// Part p holds pixels p·rows_per_part and on: [chain][part][channel] {mean, Σ (z − mean)²}. Reads the value twice, the second time
// from the cache. Specification: network/images/reading.rs (add_moments).

#include "norm_finish.cuh"
#include "pixel_sums.cuh"

struct NormStatisticsArguments {
    const element* values;
    float* parts;
    // [chain]: 0 between launches.
    u32* tickets;
    // Without a norm, where a convolution works out what follows.
    NormFinish finish;
    u32 num_pixels;
    u32 channels;
    u32 num_parts;
    u32 rows_per_part;
};

extern "C" __global__ void norm_statistics(const NormStatisticsArguments arguments) {
    SHARED_MEMORY(shared);
    const u32 channels = arguments.channels;
    const PixelShare share = pixel_share(channels);
    u32 chain = blockIdx.y, part = blockIdx.x;
    u32 first = part * arguments.rows_per_part, end = min(first + arguments.rows_per_part, arguments.num_pixels);
    const element* values = arguments.values + (u64)chain * arguments.num_pixels * channels + share.unit * WIDTH;
    float* scratch = (float*)shared;
    float sums[WIDTH] = {}, squares[WIDTH] = {};
    if (share.row < share.rows) {
#pragma unroll 4
        for (u32 pixel = first + share.row; pixel < end; pixel += share.rows) {
            const Pack value = load_pack(values, (u64)pixel * channels);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) sums[i] += value.of[i];
        }
    }
    sum_rows(sums, scratch, share);
    // All rows look at what row 0 found.
    const u32 of_unit = threadIdx.x % share.units;
    float mean[WIDTH];
#pragma unroll
    for (int i = 0; i < WIDTH; i++) mean[i] = scratch[i * THREADS + of_unit] / (end - first);
    __syncthreads();
    if (share.row < share.rows) {
#pragma unroll 4
        for (u32 pixel = first + share.row; pixel < end; pixel += share.rows) {
            const Pack value = load_pack(values, (u64)pixel * channels);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                const float difference = value.of[i] - mean[i];
                squares[i] = fmaf(difference, difference, squares[i]);
            }
        }
    }
    sum_rows(squares, scratch, share);
    if (share.row == 0) {
        float* to = arguments.parts + 2 * (((u64)chain * arguments.num_parts + part) * channels + share.unit * WIDTH);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) to[2 * i] = mean[i], to[2 * i + 1] = squares[i];
    }
    if (arguments.finish.norm && is_last_block(arguments.tickets + chain, gridDim.x * gridDim.z, (u32*)shared))
        finish_norm(arguments.finish, chain, nullptr, true);
}
