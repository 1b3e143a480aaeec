// A learned threshold of each channel, one thread a number: y = max(u, τ).
//
// Reads and writes the value once. Specification: network/images/response_norm.rs (CutOff).

#include "reading.cuh"

struct ThresholdArguments {
    Reading input;
    const float* threshold;
    element* output;
    u64 parameter_stride;
};

extern "C" __global__ void threshold(const ThresholdArguments arguments) {
    const Reading& input = arguments.input;
    u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= input.num_images * input.len) return;
    float tau = arguments.threshold[chain * arguments.parameter_stride + number % input.channels];
    float value = read_value(input, chain, number);
    store_element(arguments.output, (u64)chain * input.num_images * input.len + number, value < tau ? tau : value);
}
