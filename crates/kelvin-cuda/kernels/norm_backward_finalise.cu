// From the parts' sums to the way back through a batch norm and the gradients of its parameters; one thread a channel.
//
//   dV = a·D + b·V + c     training    a = s   b = −s·r·Σ(D·ẑ)/N   c = −s·ΣD/N − b·mean        r = 1/√(var + ε)
//                          inference   a = s   b = c = 0
//   ∂γ = Σ D·ẑ   ∂β = Σ D   ∂(bias before it) = 0 in training, s·ΣD in inference
//
// Reads the parts once, in their order, in f64. Specification: network/images/batch_norm.rs (turn_back).

#include "gpu.cuh"

struct NormBackwardFinaliseArguments {
    const float* parts;
    const float* norm;
    // [chain][3][channel]: a, b, c.
    float* slopes;
    // [chain][channel] each; that of the bias is null where there is none.
    float* gamma_gradient;
    float* beta_gradient;
    float* bias_gradient;
    u32 channels;
    u32 num_parts;
    u32 num_pixels;
    u32 training;
};

extern "C" __global__ void norm_backward_finalise(const NormBackwardFinaliseArguments arguments) {
    u32 chain = blockIdx.y, channel = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channels = arguments.channels;
    if (channel >= channels) return;
    double sum = 0.0, product = 0.0;
    for (u32 part = 0; part < arguments.num_parts; part++) {
        u64 from = 2 * (((u64)chain * arguments.num_parts + part) * channels + channel);
        sum += arguments.parts[from];
        product += arguments.parts[from + 1];
    }
    const float* norm = arguments.norm + (u64)chain * 4 * channels + channel;
    double scale = norm[0], mean = norm[2 * channels], inverse_std = norm[3 * channels];
    double b = 0.0, c = 0.0;
    if (arguments.training) {
        b = -scale * inverse_std * product / arguments.num_pixels;
        c = -scale * sum / arguments.num_pixels - b * mean;
    }
    float* slopes = arguments.slopes + (u64)chain * 3 * channels + channel;
    slopes[0] = norm[0];
    slopes[channels] = (float)b;
    slopes[2 * channels] = (float)c;
    u64 to = (u64)chain * channels + channel;
    arguments.gamma_gradient[to] = (float)product;
    arguments.beta_gradient[to] = (float)sum;
    if (arguments.bias_gradient) arguments.bias_gradient[to] = arguments.training ? 0.0f : (float)(scale * sum);
}
