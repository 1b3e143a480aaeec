// The backward pass of filter response norm, one thread a channel of an image: x = γ·r·(g − u·r²·mean(g·u)), g = dV.
//
// ∂γ = Σ g·u·r and ∂β = Σ g of each image go to [chain][image][channel]. Reads value and gradient twice, writes once.
// Specification: network/images/response_norm.rs (NormaliseBack).

#include "reading.cuh"

struct ResponseNormBackwardArguments {
    Upstream output;
    Reading input;
    Downstream to;
    const float* gamma;
    float* gamma_gradient;
    float* beta_gradient;
    double epsilon;
    u64 parameter_stride;
    // Whether anything stands before it that wants a gradient.
    u32 has_input_gradient;
    u32 reserved;
};

extern "C" __global__ void response_norm_backward(const ResponseNormBackwardArguments arguments) {
    const Reading& input = arguments.input;
    u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= input.num_images * input.channels) return;
    u32 channel = number % input.channels, first = number / input.channels * input.len + channel;
    u32 num_pixels = input.len / input.channels;
    double squares = 0.0, sum = 0.0, product = 0.0;
    for (u32 pixel = 0; pixel < num_pixels; pixel++) {
        u32 at = first + pixel * input.channels;
        float value = read_value(input, chain, at), gradient = upstream(arguments.output, chain, at);
        squares += (double)value * value;
        sum += gradient;
        product += (double)gradient * value;
    }
    double root = 1.0 / sqrt(squares / num_pixels + arguments.epsilon);
    u64 to = (u64)chain * input.num_images * input.channels + number;
    arguments.gamma_gradient[to] = (float)(product * root);
    arguments.beta_gradient[to] = (float)sum;
    if (!arguments.has_input_gradient) return;
    double scale = arguments.gamma[chain * arguments.parameter_stride + channel] * root;
    float a = (float)scale, b = (float)(-scale * root * root * product / num_pixels);
    for (u32 pixel = 0; pixel < num_pixels; pixel++) {
        u32 at = first + pixel * input.channels;
        float term = fmaf(a, upstream(arguments.output, chain, at), b * read_value(input, chain, at));
        downstream(arguments.to, input, chain, at, term);
    }
}
