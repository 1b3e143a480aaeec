// Gradients of a convolution of 3×3 and stride 2 from 16 or 32 channels to twice as many, and of a shortcut of 1×1
// beside it, by wgmma: the same as conv_backward.cu for the layers it serves, and with SHORTCUT for
// two at once.
//
//   dy[q, o]      = a_o D(to)[q, o] + b_o V(to)[q, o] + c_o            through the output's norm, else D(to)
//   D(from)[p, i] = Σ_taps Σ_o dy[q : 2q + tap = p, o] w[tap, i, o]    (+ what is there), masked where readers see 0
//                 + Σ_o dy'[q : 2q = p, o] w'[i, o]                    of the shortcut
//   dw[tap, i, o] = Σ_q x[2q + tap, i] dy[q, o]                        x as the convolution reads it
//   dw'[i, o]     = Σ_q x[2q, i] dy'[q, o]
//
// The pixels of the input lie by their remainders, so that all products are of squares of 8×8 places
// (conv_strided_planes.cuh), and are shared by warpgroups: conv_strided_input_gradient.cuh,
// conv_strided_weight_gradient.cuh. Sums of dw stay in registers over all tiles of the block. While the products of a
// tile run, the next is put into its place, where there are two rooms, and else another block of the multiprocessor has
// its turn.
//
// With NORM_SUMS as in conv_backward.cu. Bytes: as there; with SHORTCUT D(to) and V(to) of both, but V(from) and
// D(from) only once. Specification: kelvin::network::images (backward.rs, convolution.rs, batch_norm.rs).
//
// Defines: those of conv_backward; POOL 1, no OUTPUT_RELU, OUTPUT_BITS, BIAS_GRADIENT, STRIP; DATA_GRADIENT; NORM_SUMS
// up to 1; SHORTCUT (0 or 1), whose output has a norm if this one's has; ROOMS (1 or 2).

#include "conv_backward_arguments.cuh"
#include "conv_strided_input_gradient.cuh"
#include "conv_strided_weight_gradient.cuh"
#include "conv_norm_sums.cuh"

struct ConvStridedArguments {
    ConvBackwardArguments conv;
    // Of the shortcut, as those of the convolution.
    const bf16* weights;
    const bf16* output;
    const bf16* output_gradient;
    float* weight_gradient;
    NormBackwardFinish pending;
};

namespace {

static_assert(DATA_GRADIENT && POOL == 1 && !OUTPUT_RELU && !OUTPUT_BITS && !BIAS_GRADIENT && !STRIP, "not served here");
static_assert(NORM_SUMS <= 1, "of both terms' norms one is left");

// A room has dy, x and dy of the shortcut; a stage the same, with values beside gradients.
constexpr int ROOM = DY_ROOM * (1 + SHORTCUT) + X_ROOM, VALUES = OUTPUT_NORM ? 2 : 1;

}  // namespace

extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS)
    conv_backward_strided(const ConvStridedArguments all) {
    const ConvBackwardArguments& arguments = all.conv;
    SHARED_MEMORY(shared);
    uint4* const rooms = (uint4*)shared;
    uint4* const dy_stage = rooms + ROOMS * ROOM;
    uint4* const x_stage = dy_stage + VALUES * DY_STAGE<ABOVE>;
    uint4* const shortcut_stage = x_stage + X_STAGE;
    uint4* const weights = shortcut_stage + SHORTCUT * VALUES * DY_STAGE<0>;
    float* const scale = (float*)(weights + WEIGHT_BLOCKS_ROOM);
    float* const shift = scale + CHANNELS;
    float* const means = shift + CHANNELS;
    float* const slopes = means + CHANNELS;  // a, b and c
    float* const shortcut_slopes = slopes + 3 * FILTERS;
    Arrival* const arrival = (Arrival*)(shortcut_slopes + 3 * FILTERS);

    const int thread = threadIdx.x, lane = thread & 31, warp = __shfl_sync(0xFFFFFFFFu, thread >> 5, 0);
    const int group = warp / 4;
    const u32 chain = blockIdx.y, num_images = arguments.num_images;
    const u64 inputs = (u64)chain * num_images * (IMAGE_H * IMAGE_W * CHANNELS), outputs = inputs / 2;
    const bf16* const input = arguments.input + inputs;
    bf16* const input_gradient = arguments.input_gradient + inputs;
    const bf16* const normed = arguments.normed + inputs;

    const int first = blockIdx.x * arguments.tiles_per_block;
    const int last = min(first + (int)arguments.tiles_per_block, tiles_of(num_images));
    auto ask = [&](int at) {
        if (thread != 0 || at >= last) return;
        const int row = first_row(at);
        expect_bytes(arrival, bytes_of_runs<X_LINES, IMAGE_H, X_ROW>(at, 2 * row, num_images) +
                                  VALUES * bytes_of_runs<TILE_ROWS + ABOVE, OUT_H, DY_ROW>(at, row - ABOVE, num_images) +
                                  SHORTCUT * VALUES * bytes_of_runs<TILE_ROWS, OUT_H, DY_ROW>(at, row, num_images));
        auto stage_dy = [&](uint4* stage, const bf16* values) {
            stage_runs<TILE_ROWS + ABOVE, OUT_H, DY_ROW>(stage, values + outputs, at, row - ABOVE, num_images, arrival);
        };
        stage_dy(dy_stage, arguments.output_gradient);
        if (OUTPUT_NORM) stage_dy(dy_stage + DY_STAGE<ABOVE>, arguments.output);
        stage_runs<X_LINES, IMAGE_H, X_ROW>(x_stage, input, at, 2 * row, num_images, arrival);
        auto stage_shortcut = [&](uint4* stage, const bf16* values) {
            stage_runs<TILE_ROWS, OUT_H, DY_ROW>(stage, values + outputs, at, row, num_images, arrival);
        };
        if (SHORTCUT) stage_shortcut(shortcut_stage, all.output_gradient);
        if (SHORTCUT && OUTPUT_NORM) stage_shortcut(shortcut_stage + DY_STAGE<0>, all.output);
        // What is read when the gradients are written.
        for_runs<X_LINES, IMAGE_H, X_ROW>(at, 2 * row, num_images, [&](int, long long place, u32 bytes) {
            if (NORM_SUMS) prefetch_run((const uint4*)normed + place, bytes);
            if (ADD_PREVIOUS) prefetch_run((const uint4*)input_gradient + place, bytes);
        });
    };
    if (thread == 0) prepare_arrival(arrival);
    ask(first);

    copy_coefficients(scale, means, arguments, chain, thread);
    zero_room(rooms, ROOMS * ROOM, thread);
    zero_room(weights, WEIGHT_BLOCKS_ROOM, thread);
    if (OUTPUT_NORM) finish_norm_backward(arguments.pending, chain, slopes, blockIdx.x == 0);
    if (OUTPUT_NORM && SHORTCUT) finish_norm_backward(all.pending, chain, shortcut_slopes, blockIdx.x == 0);
    __syncthreads();
    copy_weight_blocks(weights, arguments.weights + chain * arguments.parameter_stride,
                       SHORTCUT ? all.weights + chain * arguments.parameter_stride : nullptr, thread);
    copy_async_commit();

    ChannelSums norm_sums = {};
    WeightSums sums = {};

    auto room = [&](int at) { return rooms + (at - first) % ROOMS * ROOM; };
    auto place = [&](int at) {
        if (at < last) {
            uint4 *const dy = room(at), *const x = dy + DY_ROOM;
            wait_arrival(arrival, (at - first) % 2);
            place_dy<ABOVE>(dy, dy_stage, slopes, at, num_images, thread);
            if (SHORTCUT) place_dy<0>(x + X_ROOM, shortcut_stage, shortcut_slopes, at, num_images, thread);
            place_x(x, x_stage, scale, shift, at, num_images, thread);
        }
        show_to_products();
    };
    copy_async_wait<0>();
    __syncthreads();
    place(first);
    __syncthreads();
    ask(first + 1);
    for (int at = first; at < last; ++at) {
        const uint4 *const dy = room(at), *const x = dy + DY_ROOM, *const shortcut = x + X_ROOM;
        float dx[SUMS][COLUMNS_AT_ONCE / 2];
        begin_products();
        begin_data_gradient(dx, dy, shortcut, weights, group);
        commit_products();
        begin_weight_gradient(sums, x, dy, shortcut, group);
        commit_products();
        if (ROOMS > 1) {
            place(at + 1);
            first_warp_waits(warp, THREADS);
            ask(at + 2);
        }
        Before before = {};
        read_before(before, input_gradient, normed, at, num_images, group, warp, lane);
        wait_products<1>();
#pragma unroll
        for (int number = 0; number < SUMS; ++number) settle(dx[number]);
        write_data_gradient(dx, before, x, input_gradient, means, norm_sums, at, num_images, group, warp, lane);
        wait_products<0>();
        settle_weights(sums);
        __syncthreads();
        if (ROOMS == 1) {
            place(at + 1);
            __syncthreads();
            ask(at + 2);
        }
    }

    const u64 part = (u64)chain * gridDim.x + blockIdx.x;
#if NORM_SUMS
    leave_norm_sums(norm_sums, arguments, shared, chain, part, warp, lane);
#endif
    write_weight_gradient(sums, arguments.weight_gradient + part * (TAPS * CHANNELS * FILTERS),
                          SHORTCUT ? all.weight_gradient + part * (CHANNELS * FILTERS) : nullptr, (float*)shared, group,
                          warp, lane);
    finish_norms(arguments, chain, (u32*)shared);
}
