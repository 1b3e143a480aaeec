// The factors of a convolution's products: each thread asks for its share of a tile, and settles it once it is there.

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
    Pixel pixels[TileOfA::TIMES], tile;  // of the thread's rows, and how far it is from a tile to the next
    u32 next;                            // number of the first of them
    Walk walk;
#if WIDE_A
    Asked<TileOfA> asked;
#else
    Raw fetched[TileOfA::TIMES];
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

    DEVICE void ask(const Block& block, u32 end, uint4* stage, int thread) {
        u32 valids = 0;
#pragma unroll
        for (int i = 0; i < TileOfA::TIMES; ++i) {
            const bool is_there = next + i * TileOfA::TOGETHER < end && TileOfA::has(thread, i);
            const Origin origin = origin_of(pixels[i], is_there, block.vertical, block.horizontal, block.stride);
            pixels[i].advance(tile, block.vertical, block.horizontal);
#if WIDE_A
            const bool valid = meets(origin, walk, block.vertical, block.horizontal);
            valids |= (u32)valid << i;
            if (TileOfA::has(thread, i))
                ask_wide(TileOfA::place(a_of(stage), thread, i),
                         from.values + (origin.at + distance(walk, block.horizontal, block.stride)), valid);
#else
            Eight x;
#pragma unroll
            for (int e = 0; e < 8; ++e) {
                const bool valid = meets(origin, walks[e], block.vertical, block.horizontal);
                x.number[e] = valid ? from.single((u32)(origin.at + ahead[e]), walks[e].channel) : 0.0f;
            }
            fetched[i] = raw_of(x);
#endif
        }
        next += DEPTH;
#if WIDE_A
        asked.push(valids);
#endif
    }

#if WIDE_A
    DEVICE void skip() { asked.push(0); }
    DEVICE void settle(const Block&, uint4* stage, int thread) {
        if (Numbers<VALUE>::CHANGES)
            TileOfA::settle<VALUE>(a_of(stage), nullptr, thread, asked.first(), from.of(walk.channel));
    }
#endif
};

#else

// A: rows of pixels, gathered tap after tap.
struct FactorA {
    static constexpr int KIND = PRODUCT == INPUT ? GRADIENT : VALUE;

    Numbers<KIND> from;
    Origin origins[TileOfA::TIMES];
    Walk walk;
#if WIDE_A
    Asked<TileOfA> asked;
    u32 channel;  // of the tile that is settled next
#else
    Raw fetched[TileOfA::TIMES];
#endif

    DEVICE FactorA(const ConvProductArguments& arguments, const Block& block, u32 chain, u32, int thread)
#if PRODUCT == INPUT
        : from(numbers_of(arguments.output, chain, block.group * arguments.sizes.filters)),
#else
        : from(numbers_of(arguments.input, chain, block.group * arguments.sizes.channels)),
#endif
          walk(walk_to(TileOfA::column(thread), block.channels, block.horizontal.taps)) {
#pragma unroll
        for (int i = 0; i < TileOfA::TIMES; ++i) {
            const u32 row = block.first_row + TileOfA::row(thread, i);
            const bool is_there = row < block.rows && TileOfA::has(thread, i);
            const Pixel pixel = pixel_at(row, block.vertical, block.horizontal);
            origins[i] = origin_of(pixel, is_there, block.vertical, block.horizontal, block.stride);
        }
#if WIDE_A
        channel = walk.channel;
#endif
    }

    DEVICE void ask(const Block& block, u32, uint4* stage, int thread) {
#if WIDE_A
        const int ahead = distance(walk, block.horizontal, block.stride);
        u32 valids = 0;
#pragma unroll
        for (int i = 0; i < TileOfA::TIMES; ++i) {
            const bool valid = meets(origins[i], walk, block.vertical, block.horizontal);
            valids |= (u32)valid << i;
            if (!TileOfA::has(thread, i)) continue;
            uint4* const to = TileOfA::place(a_of(stage), thread, i);
            ask_wide(to, from.values + (origins[i].at + ahead), valid);
            if (OTHERS_OF_A)
                ask_wide(others_of(stage) + (to - a_of(stage)), from.others + (origins[i].at + ahead), valid);
        }
        asked.push(valids);
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
        for (int i = 0; i < TileOfA::TIMES; ++i) fetched[i] = raw_of(x[i]);
#endif
        walk.advance(DEPTH, block.channels, block.horizontal.taps);
    }

#if WIDE_A
    DEVICE void skip() { asked.push(0); }
    DEVICE void settle(const Block& block, uint4* stage, int thread) {
        if (!Numbers<KIND>::CHANGES) return;
        TileOfA::settle<KIND>(a_of(stage), others_of(stage), thread, asked.first(), from.of(channel));
        for (channel += DEPTH; channel >= block.channels;) channel -= block.channels;
    }
#endif
};

#endif

#if PRODUCT == INPUT

// B: the kernel, whose filters the sum runs along; a row for each channel.
struct FactorB {
    Numbers<WEIGHT> from;
    Walk walk;
    u32 first_tap, kernel_width, stride;
#if !WIDE_B
    Raw fetched[TileOfB::TIMES];
#endif

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

    DEVICE void ask(const Block& block, u32, uint4* stage, int thread) {
#pragma unroll
        for (int i = 0; i < TileOfB::TIMES; ++i) {
            const u32 row = block.first_column + TileOfB::row(thread, i);
            const bool inside = row < block.columns && TileOfB::has(thread, i);
#if WIDE_B
            if (TileOfB::has(thread, i))
                ask_wide(TileOfB::place(b_of(stage), thread, i), from.values + place(walk, block, row),
                         inside && walk.tap_y < block.vertical.taps);
#else
            Eight x;
            Walk of = walk;
#pragma unroll
            for (int e = 0; e < 8; ++e) {
                const bool valid = inside && of.tap_y < block.vertical.taps;
                x.number[e] = valid ? from.single(place(of, block, row), 0) : 0.0f;
                of.advance(1, block.channels, block.horizontal.taps);
            }
            fetched[i] = raw_of(x);
#endif
        }
        walk.advance(DEPTH, block.channels, block.horizontal.taps);
    }

#if WIDE_B
    DEVICE void skip() {}
    DEVICE void settle(const Block&, uint4*, int) {}
#endif
};

#else

// B: a matrix that the sum runs down, the kernel or dV; `end` of its rows are there.
struct FactorB {
    static constexpr int KIND = PRODUCT == WEIGHTS ? GRADIENT : WEIGHT;

    Numbers<KIND> from;
    u32 next, column, stride;
#if WIDE_B
    Asked<TileOfB> asked;
#else
    Raw fetched[TileOfB::TIMES];
#endif

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

    DEVICE void ask(const Block& block, u32 end, uint4* stage, int thread) {
        u32 valids = 0;
#pragma unroll
        for (int i = 0; i < TileOfB::TIMES; ++i) {
            const u32 row = next + i * TileOfB::TOGETHER, at = row * stride + column;
            const bool inside = row < end && TileOfB::has(thread, i);
#if WIDE_B
            const bool valid = inside && column < block.columns;
            valids |= (u32)valid << i;
            if (!TileOfB::has(thread, i)) continue;
            uint4* const to = TileOfB::place(b_of(stage), thread, i);
            ask_wide(to, from.values + at, valid);
            if (OTHERS_OF_B) ask_wide(others_of(stage) + (to - b_of(stage)), from.others + at, valid);
#else
            Eight x;
#pragma unroll
            for (int e = 0; e < 8; ++e)
                x.number[e] = inside && column + e < block.columns ? from.single(at + e, column + e) : 0.0f;
            fetched[i] = raw_of(x);
#endif
        }
        next += DEPTH;
#if WIDE_B
        asked.push(valids);
#endif
    }

#if WIDE_B
    DEVICE void skip() { asked.push(0); }
    DEVICE void settle(const Block&, uint4* stage, int thread) {
        if (Numbers<KIND>::CHANGES)
            TileOfB::settle<KIND>(b_of(stage), others_of(stage), thread, asked.first(), from.of(column));
    }
#endif
};

#endif

// Puts numbers that passed through registers in place.
DEVICE void put(const FactorA& a, const FactorB& b, uint4* stage, int thread) {
#if !WIDE_A
#pragma unroll
    for (int i = 0; i < TileOfA::TIMES; ++i) TileOfA::put(a_of(stage), thread, i, a.fetched[i]);
#endif
#if !WIDE_B
#pragma unroll
    for (int i = 0; i < TileOfB::TIMES; ++i) TileOfB::put(b_of(stage), thread, i, b.fetched[i]);
#endif
}

// Makes what has arrived in a stage what readers see.
DEVICE void settle(FactorA& a, FactorB& b, const Block& block, uint4* stage, int thread) {
#if WIDE_A
    a.settle(block, stage, thread);
#endif
#if WIDE_B
    b.settle(block, stage, thread);
#endif
}

// Goes on where no further tile is asked for.
DEVICE void skip(FactorA& a, FactorB& b) {
#if WIDE_A
    a.skip();
#endif
#if WIDE_B
    b.skip();
#endif
}
