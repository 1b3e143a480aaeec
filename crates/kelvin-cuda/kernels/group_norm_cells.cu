// Group norm with its activation and the pool behind it (group_norm_cells.cuh), forward.
//
// Mean and r of each channel's group go to [chain][image][2][channel] for the backward pass. Reads the value once, or twice where an
// image is too large to keep (the second time from the cache), writes the result once, 16 bytes at a time where WIDTH is not
// 1. Specification: network/images/group_norm.rs (GroupNormalise), network/activation.rs, pool.rs (PoolForward).

#include "group_norm_cells.cuh"

struct GroupNormCellsArguments {
    Reading input;
    const float* gamma;
    const float* beta;
    float* moments;
    element* output;
    double epsilon;
    u64 parameter_stride;
    Cells cells;
    u32 groups;
    u32 reserved;
};

template <bool NORM>
DEVICE void normalise(const GroupNormCellsArguments& arguments, float* scratch) {
    constexpr int TOGETHER = CELL == 1 ? 4 : 1;
    const Reading& input = arguments.input;
    const Cells& cells = arguments.cells;
    const u32 chain = blockIdx.y, channels = input.channels, pixels = input.len / channels;
    const CellShare own = cell_share(input, cells);
    const PixelShare& share = own.share;
    const NormPack norm = NORM ? load_norm(input, chain, share.unit * WIDTH) : NormPack();
    // Sums of each channel, mean and r of each group, and what is kept.
    float* const of_groups = scratch + 2 * WIDTH * THREADS;
    RawPack* const kept = (RawPack*)(of_groups + (2 * arguments.groups + 3) / 4 * 4);
    // Sums are of what is left of a value near the mean: that of the image's first pixel.
    const u64 image = (u64)chain * input.num_images * input.len + own.first;
    const Pack pivot = seen_pack<NORM>(load_raw(input.values, image), norm, input);
    float sums[2 * WIDTH] = {};
    const auto nothing = [](int, u32) {};
    for_pixels<CELL, TOGETHER, true>(input, cells, own, chain, kept, nothing,
                                     [&](const RawPack& raw, int, u32, u32, bool) {
                                         const Pack value = seen_pack<NORM>(raw, norm, input);
#pragma unroll
                                         for (int i = 0; i < WIDTH; i++) {
                                             const float left = value.of[i] - pivot.of[i];
                                             sums[i] += left, sums[WIDTH + i] = fmaf(left, left, sums[WIDTH + i]);
                                         }
                                     });
    sum_rows(sums, scratch, share);
    // Mean of each channel, and Σ (u − mean)² of it.
    if (share.row == 0) {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            const double mean = (double)sums[i] / pixels;
            *total_of(scratch, 0, share.unit * WIDTH + i) = (float)(pivot.of[i] + mean);
            *total_of(scratch, 1, share.unit * WIDTH + i) = (float)(sums[WIDTH + i] - mean * sums[i]);
        }
    }
    __syncthreads();
    for_groups(channels, arguments.groups, [&](u32 group, u32 first, u32 end) {
        const double count = end - first;
        double sum = 0.0, squares = 0.0;
        for (u32 channel = first + threadIdx.x % 32; channel < end; channel += 32)
            sum += *total_of(scratch, 0, channel), squares += *total_of(scratch, 1, channel);
        const double mean = warp_sum(sum) / count;
        double apart = 0.0;
        for (u32 channel = first + threadIdx.x % 32; channel < end; channel += 32) {
            const double distance = *total_of(scratch, 0, channel) - mean;
            apart += distance * distance;
        }
        double variance = (warp_sum(squares) / pixels + warp_sum(apart)) / count;
        variance = variance < 0.0 ? 0.0 : variance;
        if (threadIdx.x % 32 > 0) return;
        of_groups[2 * group] = (float)mean;
        of_groups[2 * group + 1] = (float)(1.0 / sqrt(variance + arguments.epsilon));
    });
    __syncthreads();
    const u64 parameter = chain * arguments.parameter_stride + share.unit * WIDTH;
    const u64 image_at = (u64)chain * input.num_images + blockIdx.x;
    Pack mean, scale, offset;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        const u32 channel = share.unit * WIDTH + i, group = channel / (channels / arguments.groups);
        const float root = of_groups[2 * group + 1];
        mean.of[i] = of_groups[2 * group];
        if (share.row == 0) {
            float* const to = arguments.moments + image_at * 2 * channels + channel;
            to[0] = mean.of[i], to[channels] = root;
        }
        scale.of[i] = arguments.gamma[parameter + i] * root, offset.of[i] = arguments.beta[parameter + i];
    }
    const u64 to = image_at * cells.num_cells * channels + share.unit * WIDTH;
    Pack sum = {};
    for_pixels<CELL, TOGETHER, false>(
        input, cells, own, chain, kept, nothing, [&](const RawPack& raw, int, u32 cell, u32, bool is_last) {
            const Pack value = seen_pack<NORM>(raw, norm, input);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                const float z = result_of(fmaf(scale.of[i], value.of[i] - mean.of[i], offset.of[i]));
                sum.of[i] = CELL == 1 ? z : fmaf(z, cells.share, sum.of[i]);
            }
            if (!is_last) return;
            store_pack(arguments.output, to + cell * channels, sum);
            sum = {};
        });
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) group_norm_cells(const GroupNormCellsArguments arguments) {
    SHARED_MEMORY(shared);
    if (arguments.input.norm) {
        normalise<true>(arguments, (float*)shared);
    } else {
        normalise<false>(arguments, (float*)shared);
    }
}
