// The backward pass of a threshold, a block an image and up to THREADS packs of its channels: x = g where u > τ, ∂τ = Σ g elsewhere,
// g = dV.
//
// ∂τ of each image goes to [chain][image][channel]. Reads value and gradient once, writes once, 16 bytes at a time where WIDTH is
// not 1. Specification: network/images/response_norm.rs (CutOffBack).

#include "pixel_sums.cuh"

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
    SHARED_MEMORY(shared);
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y;
    const PixelShare share = pixel_share(input.channels);
    const u32 pixels = input.len / input.channels, first = blockIdx.x * input.len + share.unit * WIDTH;
    const u32 begin = share.row < share.rows ? share.row : pixels;
    const float* const thresholds = arguments.threshold + chain * arguments.parameter_stride + share.unit * WIDTH;
    Pack tau;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) tau.of[i] = thresholds[i];
    float cut_off[WIDTH] = {};
#pragma unroll 2
    for (u32 pixel = begin; pixel < pixels; pixel += share.rows) {
        const u32 at = first + pixel * input.channels;
        const Pack value = read_pack(input, chain, at);
        Pack gradient = upstream_pack(arguments.output, chain, at);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            if (value.of[i] > tau.of[i]) continue;
            cut_off[i] += gradient.of[i];
            gradient.of[i] = 0.0f;
        }
        if (arguments.has_input_gradient) downstream_pack(arguments.to, input, chain, at, gradient);
    }
    sum_rows(cut_off, (float*)shared, share);
    if (share.row > 0) return;
    const u64 to = ((u64)chain * input.num_images + blockIdx.x) * input.channels + share.unit * WIDTH;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) arguments.threshold_gradient[to + i] = cut_off[i];
}
