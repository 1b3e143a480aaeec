// Mean and 1/√(variance + ε) of the channels of a pixel, by a warp. Specification: network/images/layer_norm.rs.

#include "reading.cuh"
#include "threads.cuh"

constexpr u32 WARPS = THREADS / 32;

// Σ over the channels of what is given for each, in every lane.
template <typename Term>
DEVICE float sum_over_channels(u32 channels, Term term) {
    float sum = 0.0f;
    for (u32 channel = threadIdx.x % 32; channel < channels; channel += 32) sum += term(channel);
    return warp_sum(sum);
}

struct Moments {
    float mean, root;
};

// Those of the pixel whose first number among the chain's is `first`.
DEVICE Moments moments_of(const Reading& input, u32 chain, u32 first, double epsilon) {
    const float count = (float)input.channels;
    const float mean =
        sum_over_channels(input.channels, [&](u32 channel) { return read_value(input, chain, first + channel); }) /
        count;
    const float variance = sum_over_channels(input.channels, [&](u32 channel) {
        const float distance = read_value(input, chain, first + channel) - mean;
        return distance * distance;
    });
    return {mean, (float)(1.0 / sqrt((double)(variance / count) + epsilon))};
}
