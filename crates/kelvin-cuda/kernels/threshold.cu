// A learned threshold of each channel, one thread WIDTH numbers: y = max(u, τ).
//
// Reads and writes the value once. Specification: network/images/response_norm.rs (CutOff).

#include "pack.cuh"

struct ThresholdArguments {
    Reading input;
    const float* threshold;
    element* output;
    u64 parameter_stride;
};

extern "C" __global__ void threshold(const ThresholdArguments arguments) {
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y, number = (blockIdx.x * blockDim.x + threadIdx.x) * WIDTH;
    if (number >= input.num_images * input.len) return;
    const float* const thresholds = arguments.threshold + chain * arguments.parameter_stride + number % input.channels;
    Pack value = read_pack(input, chain, number);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) value.of[i] = value.of[i] < thresholds[i] ? thresholds[i] : value.of[i];
    store_pack(arguments.output, (u64)chain * input.num_images * input.len + number, value);
}
