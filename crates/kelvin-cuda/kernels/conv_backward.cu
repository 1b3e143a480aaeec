// Gradients of a convolution on tensor cores, from one reading of its tile: of its input and of its weights.
//
//   dy[q, o]      = a_o D(to)[q, o] + b_o V(to)[q, o] + c_o          through the output's norm, else D(to)
//                 = D(pool)[q / POOL, o] / POOL² where V(to)[q, o] > 0    where only a pool reads the output, through both
//   D(from)[p, i] = Σ_taps Σ_o dy[q : q·STRIDE + tap = p, o] w[tap, i, o]  (+ what is there), masked where readers see 0
//   dw[tap, i, o] = Σ_q x[q·STRIDE + tap, i] dy[q, o]                 x as the convolution reads it
//
// A block takes a few tiles of whole output rows, one after the other. dy with a border of neighbouring rows and
// columns, the input tile and the weights lie in shared memory. For D(from) a warp multiplies a strip of pixels at a
// time; with a stride sixteen pixels of the same remainder go together, since they meet the same taps. For dw each warp
// keeps the sums of sixteen channels by SQUARE_FILTERS filters for all taps in registers, over its share of the pixels
// of all tiles of the block; warps with the same channels and filters are added in the end, in their order.
//
// With NORM_SUMS, D(from) is complete and goes through a norm next, that of V(from) or of a term if V(from) is a sum,
// or through those of both terms (2): the norms' sums are taken in passing. What follows from them is left to the
// convolutions that made these values, as this one works it out for its own output (OUTPUT_NORM), or with FINISH to the
// last block of a chain (norm_finish.cuh).
//
// Bytes: D(to), V(to), V(from) once (plus shared rows), D(from) once (twice where added to), one partial dw a block.
// Specification: kelvin::network::images (backward.rs, convolution.rs, batch_norm.rs).
//
// Defines: those of conv_forward without ADD_BIAS, STATISTICS and HOLD_WEIGHTS; WEIGHT_STRIP SQUARE_FILTERS; POOL (1
// for none); OUTPUT_NORM OUTPUT_RELU (behind the pool) OUTPUT_BITS DATA_GRADIENT BIAS_GRADIENT ADD_PREVIOUS MASK
// FINISH (0 or 1) NORM_SUMS (norms that D(from) goes through: up to 2, without strips up to 1).

#include "conv_backward_arguments.cuh"
#include "conv_input_gradient.cuh"
#include "conv_weight_gradient.cuh"
#include "conv_norm_sums.cuh"

extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS) conv_backward(const ConvBackwardArguments arguments) {
    SHARED_MEMORY(shared);
    uint4* const dy = (uint4*)shared;
    uint4* const tile = dy + DY_ROOM;
    uint4* const dy_stage = tile + TILE_ROOM;
    uint4* const stage = dy_stage + DY_STAGE_ROOM;
    uint4* const weights = stage + STAGE_ROOM;
    float* const scale = (float*)(weights + W_ROOM);
    float* const shift = scale + DEPTH;
    float* const a = shift + DEPTH;
    float* const b = a + FILTERS;
    float* const c = b + FILTERS;
    float* const means = c + FILTERS;  // of each norm
    Arrival* const arrival = (Arrival*)(means + (NORM_SUMS > 1 ? 2 : 1) * DEPTH);

    const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const u32 chain = blockIdx.y;
    const u64 inputs = (u64)chain * arguments.num_images * (IMAGE_H * IMAGE_W * PIXEL_NUMBERS);
    const u64 outputs = (u64)chain * arguments.num_images * (OUT_H * OUT_W * FILTERS),
              gradients = outputs / (POOL * POOL);

    const uint4* const bits =
        (const uint4*)arguments.output + (u64)chain * arguments.num_images * (BIT_LINES * BIT_LINE);

#if DATA_GRADIENT
    const bf16* const normed[2] = {arguments.normed + inputs, arguments.other_normed + inputs};
#endif
    const int first = blockIdx.x * arguments.tiles_per_block;
    const int last = min(first + (int)arguments.tiles_per_block, tiles_of(arguments.num_images));
    auto ask = [&](int at) {
        if (at < last) {
            const u32 num_images = arguments.num_images;
            const bf16 *const input = arguments.input + inputs, *const output = arguments.output + outputs,
                       *const gradient = arguments.output_gradient + gradients;
            if (!BULK_TILE) stage_tile(stage, input, at, num_images, thread);
            if (!BULK_DY) stage_dy(dy_stage, gradient, output, at, num_images, thread);
            if ((BULK_TILE || BULK_DY) && thread == 0) {
                expect_bytes(arrival, (BULK_TILE ? tile_bytes(at, num_images) : 0) +
                                          (BULK_DY ? dy_bytes(at, num_images) : 0));
                if (BULK_DY) stage_whole_dy(dy_stage, gradient, output, at, num_images, arrival);
                if (BULK_TILE) stage_whole_tile(stage, input, at, num_images, arrival);
            }
#if DATA_GRADIENT
            if (NORM_SUMS) prefetch_tile(normed[0], at, arguments.num_images, thread);
            if (NORM_SUMS > 1) prefetch_tile(normed[1], at, arguments.num_images, thread);
            if (ADD_PREVIOUS) prefetch_tile(arguments.input_gradient + inputs, at, arguments.num_images, thread);
#endif
            if (OUTPUT_BITS) stage_bits(dy_stage, bits, at, arguments.num_images, thread);
        }
        copy_async_commit();
    };
    if ((BULK_TILE || BULK_DY) && thread == 0) prepare_arrival(arrival);
    if (DATA_GRADIENT) copy_weights(weights, arguments.weights + chain * arguments.parameter_stride, thread);
    copy_coefficients(scale, means, arguments, chain, thread);
    ask(first);
    if (OUTPUT_NORM) finish_norm_backward(arguments.pending, chain, a, blockIdx.x == 0);
    zero_dy_borders(dy, thread);
    zero_borders(tile, thread);

    float bias[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#if DATA_GRADIENT
    ChannelSums norm_sums = {};
#endif
    WeightSums sums;
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) {
#pragma unroll
        for (int n = 0; n < SQUARE_TILES; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) sums.of[tap][n][i] = 0.0f;
        }
    }

    for (int at = first; at < last; ++at) {
        copy_async_wait<0>();
        __syncthreads();
        if (BULK_TILE || BULK_DY) wait_arrival(arrival, (at - first) % 2);
        place_tile(tile, stage, arguments.input + inputs, at, arguments.num_images, scale, shift, thread);
        place_dy(dy, dy_stage, a, b, c, bias, at, arguments.num_images, thread);
        __syncthreads();
        ask(at + 1);
#if DATA_GRADIENT
        data_gradient(dy, tile, weights, arguments.input + inputs, arguments.input_gradient + inputs, scale, shift,
                      normed, means, norm_sums, at, arguments.num_images, warp, lane);
#endif
        add_weight_gradient(sums, tile, dy, warp, lane);
    }
    __syncthreads();

    const u64 part = (u64)chain * gridDim.x + blockIdx.x;
    if (BIAS_GRADIENT) {
        float* const room = (float*)shared;  // [thread][8]
#pragma unroll
        for (int i = 0; i < 8; ++i) room[thread * 8 + i] = bias[i];
        __syncthreads();
        for (int f = thread; f < FILTERS; f += THREADS) {
            float sum = 0.0f;
            for (int t = f / 8; t < THREADS; t += DY_CHUNKS) sum += room[t * 8 + f % 8];
            arguments.bias_gradient[part * FILTERS + f] = sum;
        }
        __syncthreads();
    }
#if NORM_SUMS
    leave_norm_sums(norm_sums, arguments, shared, chain, part, warp, lane);
#endif
    write_weight_gradient(sums, (float*)shared,
                          arguments.weight_gradient + part * (KERNEL * KERNEL * CHANNELS * FILTERS), warp, lane);
    finish_norms(arguments, chain, (u32*)shared);
}
