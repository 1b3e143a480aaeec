// Mean and 1/√(variance + ε) of a group of channels of an image. Specification: network/images/group_norm.rs.

#include "chain.cuh"
#include "reading.cuh"
#include "threads.cuh"

// What a block takes: a group of an image.
struct Group {
    u32 channels;  // of it
    u32 first;     // its first number among those of the chain's images
    u32 pixels;
    u32 stride;  // numbers from one pixel to the next
    u32 image;
    u32 number;
};

DEVICE Group group_of(const Reading& input, u32 groups) {
    Group group;
    group.channels = input.channels / groups;
    group.image = blockIdx.x / groups, group.number = blockIdx.x % groups;
    group.first = group.image * input.len + group.number * group.channels;
    group.pixels = input.len / input.channels, group.stride = input.channels;
    return group;
}

// Calls what is given with the place of each of a thread's numbers, and that of its channel in the group.
template <typename Action>
DEVICE void each_number(const Group& group, Action action) {
    const u32 count = group.pixels * group.channels;
    for (u32 at = threadIdx.x; at < count; at += THREADS) {
        const u32 pixel = at / group.channels, channel = at - pixel * group.channels;
        action(group.first + pixel * group.stride + channel, channel);
    }
}

struct Moments {
    float mean, root;
};

DEVICE Moments moments_of(const Reading& input, u32 chain, const Group& group, double epsilon, double* scratch) {
    double sum = 0.0, squares = 0.0;
    each_number(group, [&](u32 at, u32) {
        const double value = read_value(input, chain, at);
        sum += value, squares += value * value;
    });
    const double count = (double)group.pixels * group.channels;
    const double mean = block_sum(sum, scratch) / count;
    // Rounding may leave less than nothing; what is no number stays none.
    double variance = block_sum(squares, scratch) / count - mean * mean;
    variance = variance < 0.0 ? 0.0 : variance;
    return {(float)mean, (float)(1.0 / sqrt(variance + epsilon))};
}
