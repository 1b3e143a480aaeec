// The backward pass of group norm with its activation and the pool behind it (group_norm_cells.cuh): with g = dV of the result, over a
// cell's size and times f'(y), x = r·(γ·g − Σ γg/M − z·Σ γgz/M), M numbers of the group.
//
// ∂γ = Σ g·z and ∂β = Σ g of each image go to [chain][image][channel]. Reads the value once, or twice where an image is too large
// to keep, dV of the result twice (both a second time from the cache), writes once, 16 bytes at a time where WIDTH is not
// 1. Specification: network/images/group_norm.rs (GroupNormaliseBack), network/activation.rs, pool.rs (PoolBackward).

#include "group_norm_cells.cuh"

struct GroupNormCellsBackwardArguments {
    // Of the result.
    Upstream output;
    Reading input;
    Downstream to;
    const float* gamma;
    const float* beta;
    const float* moments;
    float* gamma_gradient;
    float* beta_gradient;
    u64 parameter_stride;
    Cells cells;
    u32 groups;
    // Whether anything stands before it that wants a gradient.
    u32 has_input_gradient;
};

template <bool NORM>
DEVICE void normalise_backward(const GroupNormCellsBackwardArguments& arguments, float* scratch) {
    constexpr int TOGETHER = CELL == 1 ? 2 : 1;
    const Reading& input = arguments.input;
    const Cells& cells = arguments.cells;
    const u32 chain = blockIdx.y, channels = input.channels, pixels = input.len / channels;
    const CellShare own = cell_share(input, cells);
    const PixelShare& share = own.share;
    const NormPack norm = NORM ? load_norm(input, chain, share.unit * WIDTH) : NormPack();
    // Sums of each channel and of each group, and what is kept.
    float* const of_groups = scratch + 2 * WIDTH * THREADS;
    RawPack* const kept = (RawPack*)(of_groups + (2 * arguments.groups + 3) / 4 * 4);
    const float* const all_gamma = arguments.gamma + chain * arguments.parameter_stride;
    const u64 image_at = (u64)chain * input.num_images + blockIdx.x;
    const float* const moments = arguments.moments + image_at * 2 * channels + share.unit * WIDTH;
    Pack mean, root, gamma, beta;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        mean.of[i] = moments[i], root.of[i] = moments[channels + i];
        gamma.of[i] = all_gamma[share.unit * WIDTH + i];
        beta.of[i] = arguments.beta[chain * arguments.parameter_stride + share.unit * WIDTH + i];
    }
    const u32 first_cell = blockIdx.x * cells.num_cells * channels + share.unit * WIDTH;
    Pack gradient[TOGETHER];
    const auto ask = [&](int slot, u32 cell) {
        gradient[slot] = upstream_pack(arguments.output, chain, first_cell + cell * channels);
    };
    // z of number i of a pack, and g there.
    const auto z_of = [&](const Pack& value, int i) { return (value.of[i] - mean.of[i]) * root.of[i]; };
    const auto passed = [&](int slot, int i, float z) {
        return gradient[slot].of[i] * cells.share * slope_of(fmaf(gamma.of[i], z, beta.of[i]));
    };
    // Σ g and Σ g·z.
    float sums[2 * WIDTH] = {};
    for_pixels<CELL, TOGETHER, true>(input, cells, own, chain, kept, ask,
                                     [&](const RawPack& raw, int slot, u32, u32, bool) {
                                         const Pack value = seen_pack<NORM>(raw, norm, input);
#pragma unroll
                                         for (int i = 0; i < WIDTH; i++) {
                                             const float z = z_of(value, i), g = passed(slot, i, z);
                                             sums[i] += g, sums[WIDTH + i] = fmaf(g, z, sums[WIDTH + i]);
                                         }
                                     });
    sum_rows(sums, scratch, share);
    if (share.row == 0) {
        const u64 to = image_at * channels + share.unit * WIDTH;
#pragma unroll
        for (int i = 0; i < WIDTH; i++)
            arguments.beta_gradient[to + i] = sums[i], arguments.gamma_gradient[to + i] = sums[WIDTH + i];
    }
    if (!arguments.has_input_gradient) return;
    for_groups(channels, arguments.groups, [&](u32 group, u32 first, u32 end) {
        double level = 0.0, slope = 0.0;
        for (u32 channel = first + threadIdx.x % 32; channel < end; channel += 32) {
            const double factor = all_gamma[channel];
            level += factor * *total_of(scratch, 0, channel), slope += factor * *total_of(scratch, 1, channel);
        }
        const double count = (double)(end - first) * pixels;
        level = warp_sum(level) / count, slope = warp_sum(slope) / count;
        if (threadIdx.x % 32 == 0) of_groups[2 * group] = (float)level, of_groups[2 * group + 1] = (float)slope;
    });
    __syncthreads();
    Pack level, slope;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        const u32 group = (share.unit * WIDTH + i) / (channels / arguments.groups);
        level.of[i] = of_groups[2 * group], slope.of[i] = of_groups[2 * group + 1];
    }
    for_pixels<CELL, TOGETHER, false>(
        input, cells, own, chain, kept, ask, [&](const RawPack& raw, int slot, u32, u32 at, bool) {
            const Pack value = seen_pack<NORM>(raw, norm, input);
            Pack term;
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                const float z = z_of(value, i), g = passed(slot, i, z);
                term.of[i] = root.of[i] * fmaf(-z, slope.of[i], fmaf(gamma.of[i], g, -level.of[i]));
            }
            downstream_pack(arguments.to, input, chain, at, term);
        });
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    group_norm_cells_backward(const GroupNormCellsBackwardArguments arguments) {
    SHARED_MEMORY(shared);
    if (arguments.input.norm) {
        normalise_backward<true>(arguments, (float*)shared);
    } else {
        normalise_backward<false>(arguments, (float*)shared);
    }
}
