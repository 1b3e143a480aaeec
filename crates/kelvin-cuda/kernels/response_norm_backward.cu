// The backward pass of filter response norm, a block an image and up to THREADS packs of its channels: x = γ·r·(g − u·r²·mean(g·u)),
// g = dV.
//
// ∂γ = Σ g·u·r and ∂β = Σ g of each image go to [chain][image][channel]. Reads value and gradient twice (once from the cache), writes
// once, 16 bytes at a time where WIDTH is not 1. Specification: network/images/response_norm.rs (NormaliseBack).

#include "pixel_sums.cuh"

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
    SHARED_MEMORY(shared);
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y;
    const PixelShare share = pixel_share(input.channels);
    const u32 pixels = input.len / input.channels, first = blockIdx.x * input.len + share.unit * WIDTH;
    const u32 begin = share.row < share.rows ? share.row : pixels;
    // Σ u², Σ g and Σ g·u.
    float sums[3 * WIDTH] = {};
#pragma unroll 2
    for (u32 pixel = begin; pixel < pixels; pixel += share.rows) {
        const u32 at = first + pixel * input.channels;
        const Pack value = read_pack(input, chain, at), gradient = upstream_pack(arguments.output, chain, at);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            sums[i] = fmaf(value.of[i], value.of[i], sums[i]);
            sums[WIDTH + i] += gradient.of[i];
            sums[2 * WIDTH + i] = fmaf(gradient.of[i], value.of[i], sums[2 * WIDTH + i]);
        }
    }
    sum_rows(sums, (float*)shared, share);
    const float* const totals = (const float*)shared + share.unit - share.first_unit;
    const u64 parameter = chain * arguments.parameter_stride + share.unit * WIDTH;
    const u64 to = ((u64)chain * input.num_images + blockIdx.x) * input.channels + share.unit * WIDTH;
    Pack a, b;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        const double squares = totals[i * THREADS], product = totals[(2 * WIDTH + i) * THREADS];
        const double root = 1.0 / sqrt(squares / pixels + arguments.epsilon);
        if (share.row == 0) {
            arguments.gamma_gradient[to + i] = (float)(product * root);
            arguments.beta_gradient[to + i] = totals[(WIDTH + i) * THREADS];
        }
        const double scale = arguments.gamma[parameter + i] * root;
        a.of[i] = (float)scale, b.of[i] = (float)(-scale * root * root * product / pixels);
    }
    if (!arguments.has_input_gradient) return;
#pragma unroll 2
    for (u32 pixel = begin; pixel < pixels; pixel += share.rows) {
        const u32 at = first + pixel * input.channels;
        const Pack value = read_pack(input, chain, at);
        Pack term = upstream_pack(arguments.output, chain, at);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) term.of[i] = fmaf(a.of[i], term.of[i], b.of[i] * value.of[i]);
        downstream_pack(arguments.to, input, chain, at, term);
    }
}
