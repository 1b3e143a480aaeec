// Filter response norm, one thread a channel of an image: y = γ·u·r + β with r = 1/√(mean u² + ε) over the pixels.
//
// Reads the value twice, writes it once. Specification: network/images/response_norm.rs (Normalise).

#include "reading.cuh"

struct ResponseNormArguments {
    Reading input;
    const float* gamma;
    const float* beta;
    element* output;
    double epsilon;
    u64 parameter_stride;
};

extern "C" __global__ void response_norm(const ResponseNormArguments arguments) {
    const Reading& input = arguments.input;
    u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= input.num_images * input.channels) return;
    u32 channel = number % input.channels, first = number / input.channels * input.len + channel;
    u32 num_pixels = input.len / input.channels;
    double squares = 0.0;
    for (u32 pixel = 0; pixel < num_pixels; pixel++) {
        float value = read_value(input, chain, first + pixel * input.channels);
        squares += (double)value * value;
    }
    u64 parameter = chain * arguments.parameter_stride + channel;
    float scale = (float)(arguments.gamma[parameter] / sqrt(squares / num_pixels + arguments.epsilon));
    u64 start = (u64)chain * input.num_images * input.len;
    for (u32 pixel = 0; pixel < num_pixels; pixel++) {
        u32 at = first + pixel * input.channels;
        store_element(arguments.output, start + at, fmaf(scale, read_value(input, chain, at), arguments.beta[parameter]));
    }
}
