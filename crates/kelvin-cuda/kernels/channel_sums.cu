// The gradient of a bias over some of the pixels, one thread a channel: Σ dV.
//
// Split s of a chain sums pixels s·pixels_per_split and on; the sums go to [chain][split][channel]. Reads dV once.
// Specification: network/images/reading.rs (add_columns).

#include "reading.cuh"

struct ChannelSumsArguments {
    Upstream output;
    float* sums;
    u32 num_splits;
    u32 pixels_per_split;
};

extern "C" __global__ void channel_sums(const ChannelSumsArguments arguments) {
    const Upstream& output = arguments.output;
    u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= arguments.num_splits * output.channels) return;
    u32 channel = number % output.channels, split = number / output.channels;
    u32 num_pixels = output.num_images * (output.len / output.channels);
    u32 first = split * arguments.pixels_per_split, end = first + arguments.pixels_per_split;
    if (end > num_pixels) end = num_pixels;
    double sum = 0.0;
    for (u32 pixel = first; pixel < end; pixel++) sum += upstream(output, chain, pixel * output.channels + channel);
    arguments.sums[(u64)chain * arguments.num_splits * output.channels + number] = (float)sum;
}
