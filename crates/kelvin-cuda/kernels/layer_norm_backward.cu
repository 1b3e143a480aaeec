// The backward pass of layer norm, a block some pixels of an image: x = r·(γ·g − Σ γg/C − z·Σ γgz/C), g = dV, z = (u − mean)·r, sums over
// the C channels of a pixel.
//
// ∂γ = Σ g·z and ∂β = Σ g of the block's pixels go to [chain][block][channel]. Reads value and gradient four times, mostly from
// the caches, writes once. Specification: network/images/layer_norm.rs (LayerNormaliseBack).

#include "layer_norm.cuh"

struct LayerNormBackwardArguments {
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
    // Of a block, and blocks of an image.
    u32 pixels_per_block;
    u32 blocks_per_image;
    u32 reserved;
};

extern "C" __global__ void layer_norm_backward(const LayerNormBackwardArguments arguments) {
    SHARED_MEMORY(shared);
    Moments* const moments = (Moments*)shared;  // [pixel of the block]
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y, channels = input.channels, pixels_of_image = input.len / channels;
    const u32 image = blockIdx.x / arguments.blocks_per_image, part = blockIdx.x % arguments.blocks_per_image;
    const u32 from = part * arguments.pixels_per_block;
    const u32 pixels = min(arguments.pixels_per_block, pixels_of_image - from);
    const u32 first_of_block = (image * pixels_of_image + from) * channels;
    const float* const gamma = arguments.gamma + chain * arguments.parameter_stride;
    for (u32 pixel = threadIdx.x / 32; pixel < pixels; pixel += WARPS) {
        const u32 first = first_of_block + pixel * channels;
        const Moments own = moments_of(input, chain, first, arguments.epsilon);
        if (threadIdx.x % 32 == 0) moments[pixel] = own;
        if (!arguments.has_input_gradient) continue;
        const auto normed = [&](u32 channel) {
            return (read_value(input, chain, first + channel) - own.mean) * own.root;
        };
        const auto scaled = [&](u32 channel) {
            return gamma[channel] * upstream(arguments.output, chain, first + channel);
        };
        const float level = sum_over_channels(channels, scaled) / (float)channels;
        const float slope =
            sum_over_channels(channels, [&](u32 channel) { return scaled(channel) * normed(channel); }) /
            (float)channels;
        for (u32 channel = threadIdx.x % 32; channel < channels; channel += 32) {
            const float term = own.root * (scaled(channel) - level - normed(channel) * slope);
            downstream(arguments.to, input, chain, first + channel, term);
        }
    }
    __syncthreads();
    const u64 to = ((u64)chain * gridDim.x + blockIdx.x) * channels;
    for (u32 channel = threadIdx.x; channel < channels; channel += THREADS) {
        float sum = 0.0f, product = 0.0f;
        for (u32 pixel = 0; pixel < pixels; pixel++) {
            const u32 at = first_of_block + pixel * channels + channel;
            const float gradient = upstream(arguments.output, chain, at);
            const float normed = (read_value(input, chain, at) - moments[pixel].mean) * moments[pixel].root;
            sum += gradient, product = fmaf(gradient, normed, product);
        }
        arguments.gamma_gradient[to + channel] = product;
        arguments.beta_gradient[to + channel] = sum;
    }
}
