// The backward pass of a threshold, one thread a channel of an image: x = g where u > τ, ∂τ = Σ g elsewhere, g = dV.
//
// ∂τ of each image goes to [chain][image][channel]. Reads value and gradient once, writes once.
// Specification: network/images/response_norm.rs (CutOffBack).

#include "reading.cuh"

struct ThresholdBackwardArguments {
    Upstream output;
    Reading input;
    Downstream to;
    const float* threshold;
    float* threshold_gradient;
    u64 parameter_stride;
    u32 has_input_gradient;
    u32 reserved;
};

extern "C" __global__ void threshold_backward(const ThresholdBackwardArguments arguments) {
    const Reading& input = arguments.input;
    u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= input.num_images * input.channels) return;
    u32 channel = number % input.channels, first = number / input.channels * input.len + channel;
    float tau = arguments.threshold[chain * arguments.parameter_stride + channel];
    double cut_off = 0.0;
    for (u32 pixel = 0; pixel < input.len / input.channels; pixel++) {
        u32 at = first + pixel * input.channels;
        float gradient = upstream(arguments.output, chain, at);
        bool kept = read_value(input, chain, at) > tau;
        if (!kept) cut_off += gradient;
        if (arguments.has_input_gradient) downstream(arguments.to, input, chain, at, kept ? gradient : 0.0f);
    }
    arguments.threshold_gradient[(u64)chain * input.num_images * input.channels + number] = (float)cut_off;
}
