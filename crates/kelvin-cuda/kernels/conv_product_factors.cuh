// The factors of a convolution's products: each thread asks for its share of a tile, and puts it in place once it is there.

#include "conv_product_arguments.cuh"
#include "conv_product_tiles.cuh"

// What a block makes of a product.
struct Block {
    Lines vertical, horizontal;
    // Channels of the sum (of a tap), and numbers from one pixel of what is gathered to the next.
    u32 channels, stride;
    // Numbers from one row of what C is to the next, and the group's first column there.
    u32 result_stride, result_column;
    u32 group;
    u32 first_row, first_column;
    // Rows and columns of C, and terms of its sums.
    u32 rows, columns, depth;
};

#if PRODUCT == WEIGHTS

// A: rows of taps and channels, gathered pixel after pixel of a split.
struct FactorA {
    Numbers<VALUE> from;
    Fetched<VALUE> fetched[TileOfA::TIMES];
    Pixel pixels[TileOfA::TIMES], tile;  // of the thread's rows, and how far it is from a tile to the next
    u32 next;                            // number of the first of them
    Walk walk;
#if !WIDE_A
    // What each of a thread's eight columns meets, and how far that is from an origin.
    Walk walks[8];
    int ahead[8];
#endif

    DEVICE FactorA(const ConvProductArguments& arguments, const Block& block, u32 chain, u32 first, int thread)
        : from(numbers_of(arguments.input, chain, block.group * arguments.sizes.channels)),
          next(first + TileOfA::row(thread, 0)) {
        walk = walk_to(block.first_row + TileOfA::column(thread), block.channels, block.horizontal.taps);
#if !WIDE_A
        Walk of = walk;
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            walks[e] = of, ahead[e] = distance(of, block.horizontal, block.stride);
            of.advance(1, block.channels, block.horizontal.taps);
        }
#endif
        tile = pixel_at(DEPTH, block.vertical, block.horizontal);
#pragma unroll
        for (int i = 0; i < TileOfA::TIMES; ++i)
            pixels[i] = pixel_at(next + i * TileOfA::TOGETHER, block.vertical, block.horizontal);
    }

    DEVICE void fetch(const Block& block, u32 end) {
#pragma unroll
        for (int i = 0; i < TileOfA::TIMES; ++i) {
            const bool is_there = next + i * TileOfA::TOGETHER < end;
            const Origin origin = origin_of(pixels[i], is_there, block.vertical, block.horizontal, block.stride);
            pixels[i].advance(tile, block.vertical, block.horizontal);
#if WIDE_A
            const bool valid = meets(origin, walk, block.vertical, block.horizontal);
            fetched[i].fetch(from, origin.at + distance(walk, block.horizontal, block.stride), valid);
#else
            Eight x;
#pragma unroll
            for (int e = 0; e < 8; ++e) {
                const bool valid = meets(origin, walks[e], block.vertical, block.horizontal);
                x.number[e] = valid ? from.single((u32)(origin.at + ahead[e]), walks[e].channel) : 0.0f;
            }
            fetched[i].own = raw_of(x);
#endif
        }
        next += DEPTH;
    }

    DEVICE void put(uint4* tile, int thread) {
        const Coefficients by = WIDE_A ? from.of(walk.channel) : Coefficients();
#pragma unroll
        for (int i = 0; i < TileOfA::TIMES; ++i)
            TileOfA::put(tile, thread, i, WIDE_A ? fetched[i].seen(by) : fetched[i].own);
    }
};

#else

// A: rows of pixels, gathered tap after tap.
struct FactorA {
    static constexpr int KIND = PRODUCT == INPUT ? GRADIENT : VALUE;

    Numbers<KIND> from;
    Fetched<KIND> fetched[TileOfA::TIMES];
    Origin origins[TileOfA::TIMES];
    Walk walk;
    u32 channel;  // of what was fetched

    DEVICE FactorA(const ConvProductArguments& arguments, const Block& block, u32 chain, u32, int thread)
#if PRODUCT == INPUT
        : from(numbers_of(arguments.output, chain, block.group * arguments.sizes.filters)){
#else
        : from(numbers_of(arguments.input, chain, block.group * arguments.sizes.channels)) {
#endif
#pragma unroll
              for (int i = 0; i < TileOfA::TIMES; ++i) {
                  const u32 row = block.first_row + TileOfA::row(thread, i);
    const Pixel pixel = pixel_at(row, block.vertical, block.horizontal);
    origins[i] = origin_of(pixel, row < block.rows, block.vertical, block.horizontal, block.stride);
} walk = walk_to(TileOfA::column(thread), block.channels, block.horizontal.taps);
}

DEVICE void fetch(const Block& block, u32) {
    channel = walk.channel;
#if WIDE_A
    const int ahead = distance(walk, block.horizontal, block.stride);
#pragma unroll
    for (int i = 0; i < TileOfA::TIMES; ++i)
        fetched[i].fetch(from, origins[i].at + ahead, meets(origins[i], walk, block.vertical, block.horizontal));
#else
        Eight x[TileOfA::TIMES];
        Walk of = walk;
#pragma unroll
        for (int e = 0; e < 8; ++e) {
            const int ahead = distance(of, block.horizontal, block.stride);
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
    const Coefficients by = WIDE_A ? from.of(channel) : Coefficients();
#pragma unroll
    for (int i = 0; i < TileOfA::TIMES; ++i)
        TileOfA::put(tile, thread, i, WIDE_A ? fetched[i].seen(by) : fetched[i].own);
}
}
;

#endif

#if PRODUCT == INPUT

// B: the kernel, whose filters the sum runs along; a row for each channel.
struct FactorB {
    Numbers<WEIGHT> from;
    Fetched<WEIGHT> fetched[TileOfB::TIMES];
    Walk walk;
    u32 first_tap, kernel_width, stride;

    DEVICE FactorB(const ConvProductArguments& arguments, const Block& block, u32 chain, u32, int thread)
        : from(
              weights_of(arguments.kernel, chain * arguments.parameter_stride + block.group * arguments.sizes.filters)),
          walk(walk_to(TileOfB::column(thread), block.channels, block.horizontal.taps)),
          kernel_width(arguments.sizes.kernel_width),
          stride(arguments.sizes.stride) {
        first_tap = block.vertical.first_tap * kernel_width + block.horizontal.first_tap;
    }

    // Place of the walk's number for channel `row`.
    DEVICE u32 place(const Walk& of, const Block& block, u32 row) const {
        const u32 tap = first_tap + stride * ((u32)of.tap_y * kernel_width + (u32)of.tap_x);
        return (tap * block.columns + row) * block.stride + of.channel;
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
    static constexpr int KIND = PRODUCT == WEIGHTS ? GRADIENT : WEIGHT;

    Numbers<KIND> from;
    Fetched<KIND> fetched[TileOfB::TIMES];
    u32 next, column, stride;

    DEVICE FactorB(const ConvProductArguments& arguments, const Block& block, u32 chain, u32 first, int thread)
#if PRODUCT == WEIGHTS
        : from(numbers_of(arguments.output, chain, block.group * arguments.sizes.filters)),
#else
        : from(
              weights_of(arguments.kernel, chain * arguments.parameter_stride + block.group * arguments.sizes.filters)),
#endif
          next(first + TileOfB::row(thread, 0)),
          column(block.first_column + TileOfB::column(thread)),
          stride(arguments.sizes.filters * arguments.sizes.groups) {
    }

    DEVICE void fetch(const Block& block, u32 end, int thread) {
#pragma unroll
        for (int i = 0; i < TileOfB::TIMES; ++i) {
            const u32 row = next + i * TileOfB::TOGETHER, at = row * stride + column;
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
        const Coefficients by = WIDE_B ? from.of(column) : Coefficients();
#pragma unroll
        for (int i = 0; i < TileOfB::TIMES; ++i)
            TileOfB::put(tile, thread, i, WIDE_B ? fetched[i].seen(by) : fetched[i].own);
    }
};

#endif
