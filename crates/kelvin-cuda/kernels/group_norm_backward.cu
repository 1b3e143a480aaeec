// The backward pass of group norm, a block a group of an image: x = r·(γ·g − Σ γg/M − z·Σ γgz/M), g = dV, z = (u − mean)·r, M numbers of
// the group.
//
// ∂γ = Σ g·z and ∂β = Σ g of each image go to [chain][image][channel]. Reads value and gradient two or three times, writes
// once. Specification: network/images/group_norm.rs (GroupNormaliseBack).

#include "group_norm.cuh"

struct GroupNormBackwardArguments {
    Upstream output;
    Reading input;
    Downstream to;
    const float* gamma;
    float* gamma_gradient;
    float* beta_gradient;
    double epsilon;
    u64 parameter_stride;
    u32 groups;
    // Whether anything stands before it that wants a gradient.
    u32 has_input_gradient;
};

extern "C" __global__ void group_norm_backward(const GroupNormBackwardArguments arguments) {
    SHARED_MEMORY(shared);
    // Σ g and Σ g·z of each thread, then a number for each warp.
    double* const sums = (double*)shared;
    double* const products = sums + THREADS;
    double* const scratch = products + THREADS;
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y, thread = threadIdx.x;
    const Group group = group_of(input, arguments.groups);
    const Moments moments = moments_of(input, chain, group, arguments.epsilon, scratch);
    const float* const gamma = arguments.gamma + chain * arguments.parameter_stride + group.number * group.channels;
    const u64 to = ((u64)chain * input.num_images + group.image) * input.channels + group.number * group.channels;
    double level = 0.0, slope = 0.0;
    // Up to THREADS channels at a time; a thread keeps its channel, and takes every rows-th pixel.
    for (u32 first = 0; first < group.channels; first += THREADS) {
        const u32 lanes = min(group.channels - first, (u32)THREADS), rows = THREADS / lanes;
        const u32 row = thread / lanes, channel = first + thread % lanes;
        double sum = 0.0, product = 0.0;
        for (u32 pixel = row < rows ? row : group.pixels; pixel < group.pixels; pixel += rows) {
            const u32 at = group.first + pixel * group.stride + channel;
            const double gradient = upstream(arguments.output, chain, at);
            sum += gradient, product += gradient * ((read_value(input, chain, at) - moments.mean) * moments.root);
        }
        __syncthreads();
        sums[thread] = sum, products[thread] = product;
        __syncthreads();
        if (thread < lanes) {
            for (u32 other = 1; other < rows; other++)
                sum += sums[other * lanes + thread], product += products[other * lanes + thread];
            arguments.gamma_gradient[to + channel] = (float)product;
            arguments.beta_gradient[to + channel] = (float)sum;
            level += gamma[channel] * sum, slope += gamma[channel] * product;
        }
    }
    const double count = (double)group.pixels * group.channels;
    const float level_of = (float)(block_sum(level, scratch) / count),
                slope_of = (float)(block_sum(slope, scratch) / count);
    if (!arguments.has_input_gradient) return;
    each_number(group, [&](u32 at, u32 channel) {
        const float normed = (read_value(input, chain, at) - moments.mean) * moments.root;
        const float own = fmaf(gamma[channel], upstream(arguments.output, chain, at), -level_of);
        downstream(arguments.to, input, chain, at, moments.root * fmaf(-normed, slope_of, own));
    });
}
