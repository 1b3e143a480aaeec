// The three products of a convolution (or dense layer) of any size on tensor cores, without a matrix of windows in memory:
//   PRODUCT 0, forward   V[pixel, filter]       = Σ_{tap, channel} u[pixel + tap, channel] k[tap, channel, filter] + bias
//   PRODUCT 1, input     D[pixel, channel]      = Σ_{tap, filter} dV[pixel − tap, filter] k[tap, channel, filter]
//   PRODUCT 2, weights   ∂k[tap, channel, filter] = Σ_pixel u[pixel + tap, channel] dV[pixel, filter], and Σ_pixel dV of a bias
// A block makes ROWS × COLUMNS numbers of one of them (C = A B) for one chain: rows are pixels, or taps and channels. A is gathered
// from u or dV as it lies, with zeros outside of the image; norms and ReLUs are applied in shared memory or on the way to it.
//
// bf16 numbers are multiplied as they are (HALF 1), f32 ones as two TF32 numbers each; sums are f32. Partial sums of weights are
// over `pixels_per_split` pixels each, whatever number of chains there is: [chain][split][tap][channel][filter].
//
// Bytes: A once for every COLUMNS columns (each number as often as there are taps, mostly from the L1 cache), B once for
// every ROWS rows, from the L2 cache; C once. Specification: network/images/convolution.rs, dense.rs.
//
// Defines: HALF, PRODUCT, WARPS_M WARPS_N (warps of a block), WARP_M WARP_N (sixteens of rows and eights of columns of a warp), BLOCKS
// (on a multiprocessor), STAGES (at least two), WIDE_A WIDE_B (eight neighbouring numbers of a factor are of one pixel or row and
// begin at a multiple of sixteen bytes), WIDE_C (so do those of C, which is bf16), INPUT_NORM INPUT_RELU OUTPUT_NORM (whether there
// are such).

#include "conv_product_store.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) conv_product(const ConvProductArguments arguments) {
    SHARED_MEMORY(shared);
    uint4* const tiles = (uint4*)shared;  // [STAGES]
    const ConvSizes& sizes = arguments.sizes;
    const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const u32 chain = blockIdx.y, part = blockIdx.z / sizes.groups;
    // A class of pixels for each part of the input's gradient, a split of the sum for each of the weights'.
    const u32 rest_y = PRODUCT == INPUT ? part / sizes.stride : 0, rest_x = PRODUCT == INPUT ? part % sizes.stride : 0;
    Block block;
    block.vertical =
        lines_of(sizes.input_height, sizes.output_height, sizes.kernel_height, sizes.stride, sizes.above, rest_y);
    block.horizontal =
        lines_of(sizes.input_width, sizes.output_width, sizes.kernel_width, sizes.stride, sizes.left, rest_x);
    const u32 pixels = sizes.num_images * block.vertical.rows * block.horizontal.rows;
    const u32 terms = (u32)(block.vertical.taps * block.horizontal.taps);
    block.channels = PRODUCT == INPUT ? sizes.filters : sizes.channels;
    block.group = blockIdx.z % sizes.groups;
    block.stride = block.channels * sizes.groups;
    block.columns = PRODUCT == INPUT ? sizes.channels : sizes.filters;
    block.result_stride = block.columns * sizes.groups, block.result_column = block.columns * block.group;
    block.rows = PRODUCT == WEIGHTS ? terms * block.channels : pixels;
    block.depth = PRODUCT == WEIGHTS ? pixels : terms * block.channels;
    const u32 column_tiles = (block.columns + COLUMNS - 1) / COLUMNS;
    block.first_row = blockIdx.x / column_tiles * ROWS, block.first_column = blockIdx.x % column_tiles * COLUMNS;
    // Classes may have fewer rows than the largest.
    if (block.first_row >= block.rows) return;
    const u32 first = PRODUCT == WEIGHTS ? min(part * arguments.pixels_per_split, block.depth) : 0;
    const u32 end = PRODUCT == WEIGHTS ? min(first + arguments.pixels_per_split, block.depth) : block.depth;
    const int steps = (int)((end - first + DEPTH - 1) / DEPTH);

    FactorA a(arguments, block, chain, first, thread);
    FactorB b(arguments, block, chain, first, thread);
    // Asks for tile `at` of both factors, if there is one, and ends the group of its copies.
    auto ask = [&](int at) {
        if (at < steps) {
            uint4* const stage = tiles + at % STAGES * STAGE;
            a.ask(block, end, stage, thread);
            b.ask(block, end, stage, thread);
        } else {
            skip(a, b);
        }
        copy_async_commit();
    };
    Sums sums = {};
#if PRODUCT == WEIGHTS
    const bool sums_bias = arguments.bias_sums && block.first_row == 0;
    float of_column = 0.0f;
#endif
    const int warp_row = warp / WARPS_N * WARP_M * 16, warp_column = warp % WARPS_N * WARP_N * 8;
#pragma unroll
    for (int at = 0; at < STAGES - 1; ++at) {
        ask(at);
        if (at < steps) put(a, b, tiles + at * STAGE, thread);
    }
    for (int step = 0; step < steps; ++step) {
        uint4* const now = tiles + step % STAGES * STAGE;
        copy_async_wait<STAGES - 2>();
        settle(a, b, block, now, thread);
        __syncthreads();
        const int next = step + STAGES - 1;
        ask(next);
        sums.add_tile(a_of(now), b_of(now), lane, warp_row, warp_column);
#if PRODUCT == WEIGHTS
        if (sums_bias) of_column += column_share(b_of(now), thread);
#endif
        sums.round();
        if (next < steps) put(a, b, tiles + next % STAGES * STAGE, thread);
    }

    const u64 size_of_c = PRODUCT == WEIGHTS
                              ? (u64)block.rows * block.result_stride
                              : (u64)sizes.num_images * sizes.output_height * sizes.output_width * block.result_stride;
    const u64 first_of_c = (PRODUCT == WEIGHTS ? (u64)chain * arguments.num_splits + part : (u64)chain) * size_of_c;
    store(arguments, block, chain, first_of_c, warp_row, warp_column, lane, sums);
#if PRODUCT == WEIGHTS
    if (sums_bias) {
        // The shares of each column in their order, through the room of the tiles.
        float* const shares = (float*)shared;
        __syncthreads();
        shares[thread] = of_column;
        __syncthreads();
        if (thread < COLUMNS) {
            for (int share = 1; share < SHARES; ++share) of_column += shares[share * COLUMNS + thread];
        }
        const u32 column = block.first_column + thread;
        if (thread < COLUMNS && column < block.columns)
            arguments.bias_sums[((u64)chain * arguments.num_splits + part) * block.result_stride + block.result_column +
                                column] = of_column;
    }
#endif
}
