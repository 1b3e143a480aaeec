// Layer norm, a warp a pixel: y = γ·(u − mean)·r + β with r = 1/√(variance + ε) over the pixel's channels.
//
// Reads the value three times, mostly from the cache, writes it once. Specification: network/images/layer_norm.rs (LayerNormalise).

#include "layer_norm.cuh"

struct LayerNormArguments {
    Reading input;
    const float* gamma;
    const float* beta;
    element* output;
    double epsilon;
    u64 parameter_stride;
};

extern "C" __global__ void layer_norm(const LayerNormArguments arguments) {
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y, pixel = blockIdx.x * WARPS + threadIdx.x / 32;
    if (pixel >= input.num_images * (input.len / input.channels)) return;
    const u32 first = pixel * input.channels;
    const Moments moments = moments_of(input, chain, first, arguments.epsilon);
    const u64 parameter = chain * arguments.parameter_stride;
    element* const to = arguments.output + (u64)chain * input.num_images * input.len;
    for (u32 channel = threadIdx.x % 32; channel < input.channels; channel += 32) {
        const float normed = (read_value(input, chain, first + channel) - moments.mean) * moments.root;
        store_element(to, first + channel,
                      fmaf(arguments.gamma[parameter + channel], normed, arguments.beta[parameter + channel]));
    }
}
