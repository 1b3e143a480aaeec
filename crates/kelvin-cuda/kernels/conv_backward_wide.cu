// Gradients of a convolution of 3×3 from 16, 32 or 64 channels to as many, by wgmma: the same as
// conv_backward.cu for the layers it serves.
//
//   dy[q, o]      = a_o D(to)[q, o] + b_o V(to)[q, o] + c_o          through the output's norm, else D(to)
//   D(from)[p, i] = Σ_taps Σ_o dy[q : q + tap = p, o] w[tap, i, o]   (+ what is there), masked where readers see 0
//   dw[tap, i, o] = Σ_q x[q + tap, i] dy[q, o]                       x as the convolution reads it
//
// x and the weights lie in shared memory as planes of chunks (conv_planes.cuh), dy as lines of chunks, and are read by
// the products from there. For D(from) a warpgroup multiplies squares of 64 pixels by all weights. For dw each of two
// warpgroups keeps half of the sums in registers, over all tiles of the block, and multiplies every pixel, or with 16
// channels all sums of its half of the pixels (conv_wide_weight_gradient.cuh). Tiles lie in two rooms: while the
// products of one run, the next is put into its place, and then the gradients of the first are written.
//
// With NORM_SUMS as in conv_backward.cu. Bytes: as there. Specification: kelvin::network::images (backward.rs,
// convolution.rs, batch_norm.rs).
//
// Defines: those of conv_backward; POOL 1, no OUTPUT_RELU, OUTPUT_BITS, BIAS_GRADIENT, STRIP; DATA_GRADIENT.

#include "conv_backward_arguments.cuh"
#include "conv_wide_input_gradient.cuh"
#include "conv_wide_weight_gradient.cuh"
#include "conv_norm_sums.cuh"

namespace {

static_assert(DATA_GRADIENT && POOL == 1 && !OUTPUT_RELU && !OUTPUT_BITS && !BIAS_GRADIENT && !STRIP, "not served here");

// Rooms, in chunks. Only dy is needed beyond the tile's own rows.
constexpr int X_ROOM = COPIES * CHUNKS * PLANE;
constexpr int X_STAGE = staged_pixels(0) * CHUNKS, DY_STAGE = staged_pixels(NEIGHBOURS) * FILTER_CHUNKS;

DEVICE void place_dy(uint4* dy, const uint4* stage, const float* a, const float* b, const float* c, int at,
                     u32 num_images, int thread) {
    const int chunk = thread % FILTER_CHUNKS;
    Eight a8, b8, c8;
    if (OUTPUT_NORM) a8 = eight_at(a + chunk * 8), b8 = eight_at(b + chunk * 8), c8 = eight_at(c + chunk * 8);
    const int row = thread / (OUT_W * FILTER_CHUNKS) - NEIGHBOURS,
              column = thread % (OUT_W * FILTER_CHUNKS) / FILTER_CHUNKS;
    uint4* const to = dy + in_lines(0, row, column) + chunk * DY_PITCH;
    const auto made = [&](const uint4* staged, int, int) {
        if (!OUTPUT_NORM) return *staged;
        Eight d = unpacked(*staged);
        const Eight v = unpacked(staged[DY_STAGE]);
#pragma unroll
        for (int i = 0; i < 8; ++i)
            d.number[i] = fmaf(a8.number[i], d.number[i], fmaf(b8.number[i], v.number[i], c8.number[i]));
        return packed(d);
    };
    place_rows<FILTER_CHUNKS, NEIGHBOURS, DY_LINE, TILE_ROWS + 1, 1, 0>(to, stage, at, num_images, thread, made);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS)
    conv_backward_wide(const ConvBackwardArguments arguments) {
    SHARED_MEMORY(shared);
    uint4* const tiles = (uint4*)shared;  // two rooms of dy and x
    uint4* const dy_stage = tiles + 2 * (DY_ROOM + X_ROOM);
    uint4* const x_stage = dy_stage + DY_STAGE * (OUTPUT_NORM ? 2 : 1);
    uint4* const weights = x_stage + X_STAGE;
    float* const scale = (float*)(weights + TAPS * TAP_ROOM);
    float* const shift = scale + CHANNELS;
    float* const a = shift + CHANNELS;
    float* const b = a + FILTERS;
    float* const c = b + FILTERS;
    float* const means = c + FILTERS;  // of each norm
    Arrival* const arrival = (Arrival*)(means + (NORM_SUMS > 1 ? 2 : 1) * CHANNELS);

    const int thread = threadIdx.x, lane = thread & 31, warp = __shfl_sync(0xFFFFFFFFu, thread >> 5, 0);
    const int group = warp / 4;
    const u32 chain = blockIdx.y, num_images = arguments.num_images;
    const u64 numbers = (u64)chain * num_images * (IMAGE_H * IMAGE_W * CHANNELS);  // input and output have as many
    const bf16* const input = arguments.input + numbers;
    bf16* const input_gradient = arguments.input_gradient + numbers;
    const bf16* const normed[2] = {arguments.normed + numbers, arguments.other_normed + numbers};

    const int first = blockIdx.x * arguments.tiles_per_block;
    const int last = min(first + (int)arguments.tiles_per_block, tiles_of(num_images));
    auto ask = [&](int at) {
        if (thread != 0 || at >= last) return;
        auto stage_dy = [&](uint4* stage, const bf16* values) {
            stage_rows<FILTER_CHUNKS, NEIGHBOURS>(stage, values + numbers, at, num_images, arrival);
        };
        expect_bytes(arrival, bytes_of_rows<CHUNKS, 0>(at, num_images) +
                                  bytes_of_rows<FILTER_CHUNKS, NEIGHBOURS>(at, num_images) * (OUTPUT_NORM ? 2 : 1));
        stage_dy(dy_stage, arguments.output_gradient);
        if (OUTPUT_NORM) stage_dy(dy_stage + DY_STAGE, arguments.output);
        stage_rows<CHUNKS, 0>(x_stage, input, at, num_images, arrival);
        // What is read when the gradients are written.
        for_runs<TILE_ROWS, OUT_H, OUT_W * CHUNKS>(at, first_row(at), num_images, [&](int, long long place, u32 bytes) {
            if (NORM_SUMS) prefetch_run((const uint4*)normed[0] + place, bytes);
            if (NORM_SUMS > 1) prefetch_run((const uint4*)normed[1] + place, bytes);
            if (ADD_PREVIOUS) prefetch_run((const uint4*)input_gradient + place, bytes);
        });
    };
    if (thread == 0) prepare_arrival(arrival);
    ask(first);

    copy_weights_to_planes(weights, arguments.weights + chain * arguments.parameter_stride, thread,
                           [](int channel) { return column_of(channel); });
    copy_coefficients(scale, means, arguments, chain, thread);
    if (OUTPUT_NORM) finish_norm_backward(arguments.pending, chain, a, blockIdx.x == 0);
    zero_room(tiles, 2 * (DY_ROOM + X_ROOM), thread);

    ChannelSums norm_sums = {};
    WeightSums sums = {};

    auto room = [&](int at) { return tiles + (at - first) % 2 * (DY_ROOM + X_ROOM); };
    auto place_output = [&](int at) {
        if (at >= last) return;
        wait_arrival(arrival, (at - first) % 2);
        place_dy(room(at), dy_stage, a, b, c, at, num_images, thread);
    };
    auto place_input = [&](int at) {
        if (at < last) place_x<0, COPIES>(room(at) + DY_ROOM, x_stage, scale, shift, at, num_images, thread);
        show_to_products();
    };
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();
    place_output(first);
    place_input(first);
    __syncthreads();
    ask(first + 1);
    for (int at = first; at < last; ++at) {
        const uint4 *const dy = room(at), *const x = dy + DY_ROOM;
        float dx[OWN_SQUARES][CHANNELS / 2];
        begin_products();
        begin_data_gradient(dx, dy, weights, group);
        commit_products();
        begin_weight_gradient(sums, x, dy, group);
        commit_products();
        place_output(at + 1);
        place_input(at + 1);
        first_warp_waits(warp, THREADS);
        ask(at + 2);
        wait_products<1>();
#pragma unroll
        for (int i = 0; i < OWN_SQUARES; ++i) {
            settle(dx[i]);
            write_data_gradient(dx[i], group * OWN_SQUARES + i, x, input_gradient, normed, means, norm_sums, at,
                                num_images, warp, lane);
        }
        wait_products<0>();
        settle_weights(sums);
        __syncthreads();
    }

    const u64 part = (u64)chain * gridDim.x + blockIdx.x;
    float* const weight_gradient = arguments.weight_gradient + part * (TAPS * CHANNELS * FILTERS);
#if NORM_SUMS
    leave_norm_sums(norm_sums, arguments, shared, chain, part, warp, lane);
#endif
    write_weight_gradient(sums, weight_gradient, (float*)shared, group, warp, lane);
    finish_norms(arguments, chain, (u32*)shared);
}
