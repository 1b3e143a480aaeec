// The three products of a convolution (or dense layer) of any size on tensor cores, without a matrix of windows in memory:
//   PRODUCT 0, forward   V[pixel, filter]       = Σ_{tap, channel} u[pixel + tap, channel] k[tap, channel, filter] + bias
//   PRODUCT 1, input     D[pixel, channel]      = Σ_{tap, filter} dV[pixel − tap, filter] k[tap, channel, filter]
//   PRODUCT 2, weights   ∂k[tap, channel, filter] = Σ_pixel u[pixel + tap, channel] dV[pixel, filter]
// A block makes ROWS × COLUMNS numbers of one of them (C = A B) for one chain: rows are pixels, or taps and channels. A is gathered
// from u or dV as it lies, with zeros outside of the image; norms and ReLUs are applied on its way into shared memory.
//
// bf16 numbers are multiplied as they are (HALF 1), f32 ones as two TF32 numbers each; sums are f32. Partial sums of weights are
// over `pixels_per_split` pixels each, whatever number of chains there is: [chain][split][tap][channel][filter].
//
// Bytes: A once for every COLUMNS columns (each number as often as there are taps, mostly from the L1 cache), B once for
// every ROWS rows, from the L2 cache; C once. Specification: network/images/convolution.rs, dense.rs.
//
// Defines: HALF, PRODUCT, WARPS_M WARPS_N (warps of a block), WARP_M WARP_N (sixteens of rows and eights of columns of a warp), BLOCKS
// (on a multiprocessor), WIDE_A WIDE_B (eight neighbouring numbers of a factor are of one pixel or row and begin at a multiple of
// sixteen bytes).

#include "conv_product_tiles.cuh"

struct ConvProductArguments {
    // What the layer reads.
    Reading input;
    // What it writes, in the backward pass.
    Upstream output;
    // The gradient of what it reads.
    Downstream to;
    // [tap][channel][filter] of the first chain.
    const element* kernel;
    // Null where a norm follows, which would take it away again.
    const float* bias;
    // V, or the sums of the weights' gradient.
    void* result;
    u64 parameter_stride;
    ConvSizes sizes;
    u32 num_splits;
    u32 pixels_per_split;
    // Whether V is f32 whatever the elements are: the outputs of a network.
    u32 is_output;
    u32 reserved;
};

namespace {

// Sums are rounded once in so many tiles.
constexpr int CHUNK = 4;

struct Block {
    Lines vertical, horizontal;
    // Channels of the sum: of a tap.
    u32 channels;
    u32 first_row, first_column;
    // Rows and columns of C, and terms of its sums.
    u32 rows, columns, depth;
};

#if PRODUCT == WEIGHTS

// A: rows of taps and channels, gathered pixel after pixel of a split.
struct FactorA {
    Numbers<false> from;
    Fetched<false> fetched[TileOfA::TIMES];
    u32 next;  // pixel of the thread's first row
    Walk walk;

    DEVICE FactorA(const ConvProductArguments& arguments, const Block& block, u32 chain, u32 first, int thread)
        : from(numbers_of(arguments.input, chain)), next(first + TileOfA::row(thread, 0)) {
        walk = walk_to(block.first_row + TileOfA::column(thread), block.channels, block.horizontal.taps);
    }

    DEVICE void fetch(const Block& block, u32 end, u32 num_images) {
#pragma unroll
        for (int i = 0; i < TileOfA::TIMES; ++i) {
            const u32 pixel = next + i * TileOfA::TOGETHER;
            const Origin origin = origin_of(pixel, num_images, block.vertical, block.horizontal, block.channels);
#if WIDE_A
            const bool valid = pixel < end && meets(origin, walk, block.vertical, block.horizontal);
            fetched[i].fetch(from, origin.at + distance(walk, block.horizontal, block.channels), valid);
#else
            Eight x;
            Walk of = walk;
#pragma unroll
            for (int e = 0; e < 8; ++e) {
                const bool valid = pixel < end && meets(origin, of, block.vertical, block.horizontal);
                const int at = origin.at + distance(of, block.horizontal, block.channels);
                x.number[e] = valid ? from.single((u32)at, of.channel) : 0.0f;
                of.advance(1, block.channels, block.horizontal.taps);
            }
            fetched[i].own = raw_of(x);
#endif
        }
        next += DEPTH;
    }

    DEVICE void put(uint4* tile, int thread) {
#pragma unroll
        for (int i = 0; i < TileOfA::TIMES; ++i)
            TileOfA::put(tile, thread, i, WIDE_A ? fetched[i].seen(from, walk.channel) : fetched[i].own);
    }
};

#else

// A: rows of pixels, gathered tap after tap.
struct FactorA {
    Numbers<PRODUCT == INPUT> from;
    Fetched<PRODUCT == INPUT> fetched[TileOfA::TIMES];
    Origin origins[TileOfA::TIMES];
    Walk walk;
    u32 channel;  // of what was fetched

    DEVICE FactorA(const ConvProductArguments& arguments, const Block& block, u32 chain, u32, int thread)
#if PRODUCT == INPUT
        : from(numbers_of(arguments.output, chain)) {
#else
        : from(numbers_of(arguments.input, chain)) {
#endif
#pragma unroll
        for (int i = 0; i < TileOfA::TIMES; ++i) {
            const u32 row = block.first_row + TileOfA::row(thread, i);
            origins[i] = origin_of(row, arguments.sizes.num_images, block.vertical, block.horizontal, block.channels);
        }
        walk = walk_to(TileOfA::column(thread), block.channels, block.horizontal.taps);
    }

    DEVICE void fetch(const Block& block, u32, u32) {
        channel = walk.channel;
#if WIDE_A
        const int ahead = distance(walk, block.horizontal, block.channels);
#pragma unroll
        for (int i = 0; i < TileOfA::TIMES; ++i)
            fetched[i].fetch(from, origins[i].at + ahead, meets(origins[i], walk, block.vertical, block.horizontal));
#else
        Eight x[TileOfA::TIMES];
        Walk of = walk;
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            const int ahead = distance(of, block.horizontal, block.channels);
#pragma unroll
            for (int i = 0; i < TileOfA::TIMES; ++i) {
                const bool valid = meets(origins[i], of, block.vertical, block.horizontal);
                x[i].number[e] = valid ? from.single((u32)(origins[i].at + ahead), of.channel) : 0.0f;
            }
            of.advance(1, block.channels, block.horizontal.taps);
        }
#pragma unroll
        for (int i = 0; i < TileOfA::TIMES; ++i) fetched[i].own = raw_of(x[i]);
#endif
        walk.advance(DEPTH, block.channels, block.horizontal.taps);
    }

    DEVICE void put(uint4* tile, int thread) {
#pragma unroll
        for (int i = 0; i < TileOfA::TIMES; ++i)
            TileOfA::put(tile, thread, i, WIDE_A ? fetched[i].seen(from, channel) : fetched[i].own);
    }
};

#endif

#if PRODUCT == INPUT

// B: the kernel, whose filters the sum runs along; a row for each channel.
struct FactorB {
    Numbers<false> from;
    Fetched<false> fetched[TileOfB::TIMES];
    Walk walk;
    u32 first_tap, kernel_width, stride;

    DEVICE FactorB(const ConvProductArguments& arguments, const Block& block, u32 chain, u32, int thread)
        : from{arguments.kernel + chain * arguments.parameter_stride, nullptr, nullptr, 1, false},
          walk(walk_to(TileOfB::column(thread), block.channels, block.horizontal.taps)),
          kernel_width(arguments.sizes.kernel_width),
          stride(arguments.sizes.stride) {
        first_tap = block.vertical.first_tap * kernel_width + block.horizontal.first_tap;
    }

    // Place of the walk's number for channel `row`.
    DEVICE u32 place(const Walk& of, const Block& block, u32 row) const {
        const u32 tap = first_tap + stride * ((u32)of.tap_y * kernel_width + (u32)of.tap_x);
        return (tap * block.columns + row) * block.channels + of.channel;
    }

    DEVICE void fetch(const Block& block, u32, int thread) {
#pragma unroll
        for (int i = 0; i < TileOfB::TIMES; ++i) {
            const u32 row = block.first_column + TileOfB::row(thread, i);
            const bool inside = row < block.columns && TileOfB::row(thread, i) < COLUMNS;
#if WIDE_B
            fetched[i].fetch(from, (int)place(walk, block, row), inside && walk.tap_y < block.vertical.taps);
#else
            Eight x;
            Walk of = walk;
#pragma unroll
            for (int e = 0; e < 8; ++e) {
                const bool valid = inside && of.tap_y < block.vertical.taps;
                x.number[e] = valid ? from.single(place(of, block, row), 0) : 0.0f;
                of.advance(1, block.channels, block.horizontal.taps);
            }
            fetched[i].own = raw_of(x);
#endif
        }
        walk.advance(DEPTH, block.channels, block.horizontal.taps);
    }

    DEVICE void put(uint4* tile, int thread) {
#pragma unroll
        for (int i = 0; i < TileOfB::TIMES; ++i) TileOfB::put(tile, thread, i, fetched[i].own);
    }
};

#else

// B: a matrix that the sum runs down, the kernel or dV; `end` of its rows are there.
struct FactorB {
    Numbers<PRODUCT == WEIGHTS> from;
    Fetched<PRODUCT == WEIGHTS> fetched[TileOfB::TIMES];
    u32 next, column;

    DEVICE FactorB(const ConvProductArguments& arguments, const Block& block, u32 chain, u32 first, int thread)
#if PRODUCT == WEIGHTS
        : from(numbers_of(arguments.output, chain)),
#else
        : from{arguments.kernel + chain * arguments.parameter_stride, nullptr, nullptr, 1, false},
#endif
          next(first + TileOfB::row(thread, 0)),
          column(block.first_column + TileOfB::column(thread)) {
    }

    DEVICE void fetch(const Block& block, u32 end, int thread) {
#pragma unroll
        for (int i = 0; i < TileOfB::TIMES; ++i) {
            const u32 row = next + i * TileOfB::TOGETHER, at = row * block.columns + column;
            const bool inside = row < end && TileOfB::row(thread, i) < DEPTH;
#if WIDE_B
            fetched[i].fetch(from, (int)at, inside && column < block.columns);
#else
            Eight x;
#pragma unroll
            for (int e = 0; e < 8; ++e)
                x.number[e] = inside && column + e < block.columns ? from.single(at + e, column + e) : 0.0f;
            fetched[i].own = raw_of(x);
#endif
        }
        next += DEPTH;
    }

    DEVICE void put(uint4* tile, int thread) {
#pragma unroll
        for (int i = 0; i < TileOfB::TIMES; ++i)
            TileOfB::put(tile, thread, i, WIDE_B ? fetched[i].seen(from, column) : fetched[i].own);
    }
};

#endif

// The number of C's row `row` among those of the value, the kernel or the gradient that C is.
DEVICE u32 row_of_result(const Block& block, const ConvSizes& sizes, u32 row) {
    if (PRODUCT != INPUT || sizes.stride == 1) return row;
    const u32 line = row / block.horizontal.rows, image = line / block.vertical.rows;
    const u32 x = block.horizontal.first_line + sizes.stride * (row - line * block.horizontal.rows);
    const u32 y = block.vertical.first_line + sizes.stride * (line - image * block.vertical.rows);
    return (image * sizes.input_height + y) * sizes.input_width + x;
}

// Two neighbouring numbers of C, of which `count` are there.
DEVICE void store_pair(const ConvProductArguments& arguments, u32 chain, u64 first, u32 at, u32 column, u32 count,
                       const float (&sums)[2]) {
#pragma unroll
    for (u32 i = 0; i < 2; ++i) {
        if (i >= count) break;
#if PRODUCT == FORWARD
        const float bias = arguments.bias ? arguments.bias[chain * arguments.parameter_stride + column + i] : 0.0f;
        if (arguments.is_output) {
            ((float*)arguments.result)[first + at + i] = sums[i] + bias;
        } else {
            store_element((element*)arguments.result, first + at + i, sums[i] + bias);
        }
#elif PRODUCT == INPUT
        downstream(arguments.to, arguments.input, chain, at + i, sums[i]);
#else
        ((float*)arguments.result)[first + at + i] = sums[i];
#endif
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) conv_product(const ConvProductArguments arguments) {
    SHARED_MEMORY(shared);
    uint4* const tiles = (uint4*)shared;  // [2]: A, B
    const ConvSizes& sizes = arguments.sizes;
    const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const u32 chain = blockIdx.y, part = blockIdx.z;
    // A class of pixels for each part of the input's gradient, a split of the sum for each of the weights'.
    const u32 rest_y = PRODUCT == INPUT ? part / sizes.stride : 0, rest_x = PRODUCT == INPUT ? part % sizes.stride : 0;
    Block block;
    block.vertical =
        lines_of(sizes.input_height, sizes.output_height, sizes.kernel_height, sizes.stride, sizes.above, rest_y);
    block.horizontal = lines_of(sizes.input_width, sizes.output_width, sizes.kernel_width, sizes.stride, sizes.left, rest_x);
    const u32 pixels = sizes.num_images * block.vertical.rows * block.horizontal.rows;
    const u32 terms = (u32)(block.vertical.taps * block.horizontal.taps);
    block.channels = PRODUCT == INPUT ? sizes.filters : sizes.channels;
    block.columns = PRODUCT == INPUT ? sizes.channels : sizes.filters;
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
    auto fetch = [&]() {
        a.fetch(block, end, sizes.num_images);
        b.fetch(block, end, thread);
    };
    auto put = [&](uint4* to) {
        a.put(to, thread);
        b.put(to + TileOfA::ROOM, thread);
    };
    Sums sums = {};
    const int warp_row = warp / WARPS_N * WARP_M * 16, warp_column = warp % WARPS_N * WARP_N * 8;
    if (steps > 0) {
        fetch();
        put(tiles);
    }
    __syncthreads();
    for (int step = 0; step < steps; ++step) {
        uint4* const now = tiles + (step & 1) * STAGE;
        if (step + 1 < steps) fetch();
        sums.add_tile(now, now + TileOfA::ROOM, lane, warp_row, warp_column);
        if (step % CHUNK == CHUNK - 1) sums.round();
        if (step + 1 < steps) put(tiles + (~step & 1) * STAGE);
        __syncthreads();
    }
    sums.finish();

    const u64 size_of_c = PRODUCT == WEIGHTS ? (u64)block.rows * block.columns
                                             : (u64)sizes.num_images * sizes.output_height * sizes.output_width * sizes.filters;
    const u64 first_of_c = (PRODUCT == WEIGHTS ? (u64)chain * arguments.num_splits + part : (u64)chain) * size_of_c;
#pragma unroll
    for (int m = 0; m < 2 * WARP_M; ++m) {
        const u32 row = block.first_row + warp_row + m * 8 + lane / 4;
        if (row >= block.rows) continue;
        const u32 own_row = row_of_result(block, sizes, row);
#pragma unroll
        for (int n = 0; n < WARP_N; ++n) {
            const u32 column = block.first_column + warp_column + n * 8 + 2 * (lane & 3);
            if (column >= block.columns) continue;
            const float pair[2] = {sums.sum[m / 2][n][m % 2 * 2], sums.sum[m / 2][n][m % 2 * 2 + 1]};
            const u32 at = own_row * block.columns + column;
            store_pair(arguments, chain, first_of_c, at, column, min(block.columns - column, 2u), pair);
        }
    }
}
