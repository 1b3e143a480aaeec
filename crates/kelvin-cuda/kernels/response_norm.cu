// Filter response norm, a block an image and up to THREADS packs of its channels: y = γ·u·r + β with r = 1/√(mean u² + ε) over the pixels.
//
// Reads the value twice (once from the cache), writes it once, 16 bytes at a time where WIDTH is not 1. Specification:
// network/images/response_norm.rs (Normalise).

#include "pixel_sums.cuh"

struct ResponseNormArguments {
    Reading input;
    const float* gamma;
    const float* beta;
    element* output;
    double epsilon;
    u64 parameter_stride;
};

extern "C" __global__ void response_norm(const ResponseNormArguments arguments) {
    SHARED_MEMORY(shared);
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y;
    const PixelShare share = pixel_share(input.channels);
    const u32 pixels = input.len / input.channels, first = blockIdx.x * input.len + share.unit * WIDTH;
    // Threads beyond the last whole row have nothing to do.
    const u32 begin = share.row < share.rows ? share.row : pixels;
    float squares[WIDTH] = {};
#pragma unroll 4
    for (u32 pixel = begin; pixel < pixels; pixel += share.rows) {
        const Pack value = read_pack(input, chain, first + pixel * input.channels);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) squares[i] = fmaf(value.of[i], value.of[i], squares[i]);
    }
    sum_rows(squares, (float*)shared, share);
    const u64 parameter = chain * arguments.parameter_stride + share.unit * WIDTH;
    Pack scale, offset;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        const double total = ((const float*)shared)[i * THREADS + share.unit - share.first_unit];
        scale.of[i] = (float)(arguments.gamma[parameter + i] / sqrt(total / pixels + arguments.epsilon));
        offset.of[i] = arguments.beta[parameter + i];
    }
    const u64 start = (u64)chain * input.num_images * input.len;
#pragma unroll 4
    for (u32 pixel = begin; pixel < pixels; pixel += share.rows) {
        const u32 at = first + pixel * input.channels;
        Pack value = read_pack(input, chain, at);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) value.of[i] = fmaf(scale.of[i], value.of[i], offset.of[i]);
        store_pack(arguments.output, start + at, value);
    }
}
