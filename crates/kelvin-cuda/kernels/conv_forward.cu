// Convolution on tensor cores: y[p, o] = Σ_taps Σ_i x[p·STRIDE + tap, i] w[tap, i, o] (+ bias), x as its readers see
// it.
//
// An implicit product of pixels × (taps · channels) by (taps · channels) × filters. A block takes a few tiles of whole
// output rows, one after the other: the tile's input, normalised and cut off at 0 on the way in, lies in shared memory
// with its border of zeros, the chain's weights beside it; each warp multiplies a strip of sixteens of pixels at a time
// by up to 32 filters, or without strips (STRIP 0) M_TOGETHER sixteens that lie anywhere. The next tile is on its way
// from memory while the present one is multiplied. Where only a pool of 2×2 reads the output, POOL is 2: its result is
// what is written. With PACKED (at most four input channels, stored as four) a row of the kernel is one tap of sixteen
// numbers.
//
// The parts of the output's norm are left to the convolution that reads it first, or with FINISH the last block of a
// chain works out from them how the output is read (norm_finish.cuh).
//
// With SUM_INPUT the input is the sum of two terms, and is written as well (conv_sum.cuh).
//
// Bytes: the input once (plus the rows that neighbouring tiles share), or the terms of a sum once and the sum once, the
// weights once a block, the output once.
// Specification: kelvin::network::images (convolution.rs, reading.rs, batch_norm.rs).
//
// Defines: IMAGE_H IMAGE_W CHANNELS FILTERS KERNEL STRIDE PAD_TOP PAD_LEFT OUT_H OUT_W, the tile TILE_IMAGES TILE_ROWS
// WARPS BLOCKS STRIP M_TOGETHER, POOL (1 for none), and PACKED INPUT_NORM INPUT_RELU ADD_BIAS STATISTICS FINISH
// HOLD_WEIGHTS POOL_RELU BULK (0 or 1), and those of conv_sum.cuh.

#include "conv_forward_arguments.cuh"
#include "conv_strip.cuh"
#include "conv_sum.cuh"

namespace {

// Of many filters a warp takes 32: their sums fit into its registers.
constexpr int N_PARTS = FILTERS > 32 ? FILTERS / 32 : 1, M_WARPS = WARPS / N_PARTS;
constexpr int N_TILES = FILTERS / N_PARTS / 8;
// Sixteens that a warp multiplies by the same weights.
#if STRIP
constexpr int M_AT_ONCE = STRIP;
#else
constexpr int M_AT_ONCE = M_TOGETHER;
constexpr bool FULL = tile_is_full<M_WARPS, M_AT_ONCE>();
#endif
constexpr int K_STEPS = TAPS * DEPTH / 16;
// Weights of few filters and channels stay in registers.
constexpr bool WEIGHTS_IN_REGISTERS = HOLD_WEIGHTS;

struct Weights {
    u32 of[WEIGHTS_IN_REGISTERS ? K_STEPS : 1][N_TILES][2];
};

DEVICE void load_weights(u32 (&to)[N_TILES][2], const uint4* weights, int k_step, int n_part, int lane) {
#pragma unroll
    for (int pair = 0; pair < N_TILES / 2; ++pair) {
        u32 four[4];
        load_matrices_transposed(
            four, weights + padded<FILTERS / 8>(k_step * 16 + (lane & 15), n_part * N_TILES + 2 * pair + (lane >> 4)));
        to[2 * pair][0] = four[0], to[2 * pair][1] = four[1];
        to[2 * pair + 1][0] = four[2], to[2 * pair + 1][1] = four[3];
    }
}

#if POOL > 1
static_assert(POOL == 2 && STRIP % 2 == 0 && TILE_ROWS % 2 == 0 && N_TILES == 4 && SIXTEEN_IMAGES == 1 && !STATISTICS,
              "squares of two rows of a strip");

// Writes the pool of two rows of sixteen pixels and 32 filters, and the bits of its ReLU. `y` is the sums of both rows,
// biases included; this lane stores eight filters of one pixel of the pool where it `exists`.
DEVICE void write_pool(const float (&y)[2][N_TILES][4], uint4* to, bool exists, u32* word, int lane) {
    u32 pairs[N_TILES], first = 0, second = 0;
    const bool odd = lane & 4;
#pragma unroll
    for (int n = 0; n < N_TILES; ++n) {
        float both[2];
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            // A column of the square for pixel lane / 4, and one for the pixel eight further on.
            float left = y[0][n][c] + y[1][n][c], right = y[0][n][2 + c] + y[1][n][2 + c];
            // The neighbour has the other column of both: each lane completes one of them.
            const float others = __shfl_xor_sync(0xFFFFFFFFu, odd ? left : right, 4);
            both[c] = ((odd ? right : left) + others) * (1.0f / (POOL * POOL));
        }
        pairs[n] = pack_bf16(both[0], both[1]);
    }
    const uint4 chunk = gather_quad(pairs[0], pairs[1], pairs[2], pairs[3], lane);
    if (exists) *to = chunk;
    if (POOL_RELU) {
        // From the last bit to the first: the sign of −y.
#pragma unroll
        for (int at = 15; at >= 0; --at) {
            const float (&numbers)[4] = y[at / 8][at % 4];
            first = first << 1 | __float_as_uint(0.0f - numbers[at / 4 % 2 * 2]) >> 31;
            second = second << 1 | __float_as_uint(0.0f - numbers[at / 4 % 2 * 2 + 1]) >> 31;
        }
        *word = first | second << 16;
    }
}
#endif

}  // namespace

extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS) conv_forward(const ConvForwardArguments arguments) {
    SHARED_MEMORY(shared);
    uint4* const tile = (uint4*)shared;
    uint4* const stage = tile + TILE_ROOM;
    uint4* const weights = stage + STAGE_ROOM;
    float* const scale = (float*)(weights + WEIGHT_ROOM);
    float* const shift = scale + DEPTH;
    float* const bias = shift + DEPTH + (SUM_INPUT ? 2 * CHANNELS : 0);
    float* const sums = bias + FILTERS;  // [m_warp][filter][2]
    Arrival* const arrival = (Arrival*)(sums + 2 * M_WARPS * FILTERS);

    const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const int n_part = warp % N_PARTS, m_warp = warp / N_PARTS, first_filter = n_part * N_TILES * 8;
    const u32 chain = blockIdx.y;
    const u64 inputs = (u64)chain * arguments.num_images * (IMAGE_H * IMAGE_W * PIXEL_NUMBERS);
    const bf16* const input = arguments.input + inputs;
    bf16* const output =
        arguments.output + (u64)chain * arguments.num_images * (OUT_H * OUT_W * FILTERS / (POOL * POOL));

    const int num_tiles = tiles_of(arguments.num_images);
    const int first = blockIdx.x * arguments.tiles_per_block;
    const int last = min(first + (int)arguments.tiles_per_block, num_tiles);

    auto ask = [&](int at) {
        const u32 num_images = arguments.num_images;
        if (at < last && !BULK_TILE) stage_tile(stage, input, at, num_images, thread);
        if (at < last && BULK_TILE && thread == 0) {
            expect_bytes(arrival, tile_bytes(at, num_images));
            stage_whole_tile(stage, input, at, num_images, arrival);
        }
        if (at < last && SUM_INPUT) prefetch_tile(arguments.other + inputs, at, num_images, thread);
        copy_async_commit();
    };
    if (BULK_TILE && thread == 0) prepare_arrival(arrival);
    copy_weights(weights, arguments.weights + chain * arguments.parameter_stride, thread);
    ask(first);
    prepare_coefficients(scale, arguments, chain, thread);
    if (ADD_BIAS) {
        for (int f = thread; f < FILTERS; f += THREADS)
            bias[f] = arguments.bias[chain * arguments.parameter_stride + f];
    }
    zero_borders(tile, thread);
    float sum[N_TILES][2], squares[N_TILES][2];
#pragma unroll
    for (int n = 0; n < N_TILES; ++n) sum[n][0] = sum[n][1] = squares[n][0] = squares[n][1] = 0.0f;
    copy_async_wait<0>();
    __syncthreads();
    Weights held;
    if (WEIGHTS_IN_REGISTERS) {
#pragma unroll
        for (int k = 0; k < K_STEPS; ++k) load_weights(held.of[WEIGHTS_IN_REGISTERS ? k : 0], weights, k, n_part, lane);
    }

    for (int at = first; at < last; ++at) {
        copy_async_wait<0>();
        if (BULK_TILE) wait_arrival(arrival, (at - first) % 2);
        place_tile(tile, stage, input, at, arguments.num_images, scale, shift, thread,
                   InputSum(arguments, inputs, scale, thread));
        __syncthreads();
        ask(at + 1);

        float y[M_AT_ONCE][N_TILES][4];
        // Sums begin with the bias.
        auto begin = [&] {
#pragma unroll
            for (int n = 0; n < N_TILES; ++n) {
                const float* const own = bias + first_filter + n * 8 + 2 * (lane & 3);
                const float2 b = ADD_BIAS ? *(const float2*)own : make_float2(0.0f, 0.0f);
#pragma unroll
                for (int m = 0; m < M_AT_ONCE; ++m) y[m][n][0] = y[m][n][2] = b.x, y[m][n][1] = y[m][n][3] = b.y;
            }
        };
#if STRIP
#pragma unroll 1
        for (int number = m_warp; number < Strips<STRIP>::COUNT; number += M_WARPS) {
            const Strips<STRIP> strip(number);
            const int line = strip.image_of(lane & 15) * TILE_H + strip.row;
            const uint4* const from = tile + tile_chunk(line, strip.column_of(lane & 15)) + (lane >> 4);
            begin();
            // From a row to the next, and from a column to the next.
            constexpr int below = PACKED ? TILE_W / 2 : TILE_W * (CHUNKS + 1), right = CHUNKS + 1;
            constexpr int across = PACKED ? 1 : KERNEL;
            multiply_strip<across, DEPTH, N_TILES, below, right>(
                y, from, [&](u32(&w)[N_TILES][2], int v, int h, int k) {
                    const int step = (v * across + h) * (DEPTH / 16) + k;
                    if (WEIGHTS_IN_REGISTERS) {
#pragma unroll
                        for (int n = 0; n < N_TILES; ++n) {
                            w[n][0] = held.of[WEIGHTS_IN_REGISTERS ? step : 0][n][0];
                            w[n][1] = held.of[WEIGHTS_IN_REGISTERS ? step : 0][n][1];
                        }
                    } else {
                        load_weights(w, weights, step, n_part, lane);
                    }
                });
            // The number in the tile of a sixteen's pixel, and whether it is one of these.
            auto pixel_of = [&](int m, int of) { return strip.pixel(m, of); };
            auto is_own = [&](int m, int of) { return strip.owns(m, of); };
#else
#pragma unroll 1
        for (int base = m_warp * M_AT_ONCE; base < M_TILES; base += M_WARPS * M_AT_ONCE) {
            int row[M_AT_ONCE];
#pragma unroll
            for (int m = 0; m < M_AT_ONCE; ++m) {
                row[m] = input_chunk((base + m) * 16 + (lane & 15)) + (lane >> 4);
            }
            auto pixel_of = [&](int m, int of) { return (base + m) * 16 + of; };
            auto is_own = [&](int m, int of) { return FULL || in_tile(pixel_of(m, of)); };
            begin();
#pragma unroll
            for (int tap = 0; tap < TAPS; ++tap) {
#pragma unroll
                for (int k = 0; k < DEPTH / 16; ++k) {
                    const int step = tap * (DEPTH / 16) + k;
                    u32 fresh[N_TILES][2];
                    if (!WEIGHTS_IN_REGISTERS) load_weights(fresh, weights, step, n_part, lane);
                    const u32(&w)[N_TILES][2] = WEIGHTS_IN_REGISTERS ? held.of[WEIGHTS_IN_REGISTERS ? step : 0] : fresh;
#pragma unroll
                    for (int m = 0; m < M_AT_ONCE; ++m) {
                        u32 x[4];
                        load_matrices(x, tile + row[m] + tap_offset(tap) + 2 * k);
#pragma unroll
                        for (int n = 0; n < N_TILES; ++n) multiply_add(y[m][n], x, w[n][0], w[n][1]);
                    }
                }
            }
#endif
#if POOL > 1
#pragma unroll
            for (int m = 0; m < M_AT_ONCE; m += 2) {
                float rows[2][N_TILES][4];
#pragma unroll
                for (int i = 0; i < 2 * N_TILES * 4; ++i) {
                    const float number = y[m + i / (N_TILES * 4)][i / 4 % N_TILES][i % 4];
                    rows[i / (N_TILES * 4)][i / 4 % N_TILES][i % 4] = POOL_RELU ? max_or_none(number, 0.0f) : number;
                }
                // The first column of this lane's square; lines of two rows are counted over all images.
                const int column = (lane >> 2 & 6) + (lane & 4 ? 8 : 0);
                const u32 line = (first_image(at) + strip.image) * BIT_LINES + (first_row(at) + strip.row + m) / 2;
                const u32 place = line * (OUT_W / 2) + strip.column_of(column) / 2;
                const bool exists =
                    strip.owns(m, column) && (TILE_IMAGES == 1 || line < arguments.num_images * BIT_LINES);
                u32* const words = (u32*)(arguments.bits + (u64)chain * arguments.num_images * (BIT_LINES * BIT_LINE));
                if (strip.others > m && !Strips<STRIP>::FULL) continue;
                write_pool(rows, (uint4*)output + (place * (FILTERS / 8) + n_part * N_TILES + (lane & 3)), exists,
                           words + (line * BIT_LINE + (strip.column / 16 * BIT_PARTS + n_part) * 8) * 4 + lane, lane);
            }
#else
#pragma unroll
            for (int m = 0; m < M_AT_ONCE; ++m) {
                // After the exchange this lane has eight filters of one pixel: of the upper or the lower eight.
                const int own = (lane >> 2) + ((lane & 2) ? 8 : 0);
                // The pixels of a tile follow each other in memory.
                const u32 place = (u32)at * TILE_PIXELS + pixel_of(m, own);
                const bool exists =
                    is_own(m, own) && (TILE_IMAGES == 1 || place < arguments.num_images * (OUT_H * OUT_W));
                uint4* const to = (uint4*)output + (place * (FILTERS / 8) + n_part * N_TILES + (lane & 1));
#pragma unroll
                for (int n = 0; n < N_TILES; n += 2) {
                    const uint4 chunk =
                        gather_quad(pack_bf16(y[m][n][0], y[m][n][1]), pack_bf16(y[m][n + 1][0], y[m][n + 1][1]),
                                    pack_bf16(y[m][n][2], y[m][n][3]), pack_bf16(y[m][n + 1][2], y[m][n + 1][3]), lane);
                    if (exists) to[n] = chunk;
                }
                if (STATISTICS) {
                    const bool upper = is_own(m, lane >> 2), lower = is_own(m, 8 + (lane >> 2));
#pragma unroll
                    for (int n = 0; n < N_TILES; ++n) {
#pragma unroll
                        for (int c = 0; c < 2; ++c) {
                            const float a = upper ? y[m][n][c] : 0.0f, b = lower ? y[m][n][2 + c] : 0.0f;
                            sum[n][c] += a + b;
                            squares[n][c] = fmaf(a, a, fmaf(b, b, squares[n][c]));
                        }
                    }
                }
            }
#endif
        }
        __syncthreads();
    }

    if (STATISTICS) {
#pragma unroll
        for (int n = 0; n < N_TILES; ++n) {
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                const float s = column_sum(sum[n][c]), q = column_sum(squares[n][c]);
                if (lane < 4) {
                    const int filter = first_filter + n * 8 + 2 * lane + c;
                    sums[(m_warp * FILTERS + filter) * 2] = s;
                    sums[(m_warp * FILTERS + filter) * 2 + 1] = q;
                }
            }
        }
        __syncthreads();
        const float count = (float)pixels_between(first, last, arguments.num_images);
        for (int f = thread; f < FILTERS; f += THREADS) {
            float s = 0.0f, q = 0.0f;
            for (int w = 0; w < M_WARPS; ++w) s += sums[(w * FILTERS + f) * 2], q += sums[(w * FILTERS + f) * 2 + 1];
            const float mean = s / count;
            arguments.parts[((u64)chain * gridDim.x + blockIdx.x) * FILTERS + f] =
                make_float2(mean, fmaxf(q - s * mean, 0.0f));
        }
        if (FINISH && arguments.finish.norm && is_last_block(arguments.tickets + chain, gridDim.x, (u32*)shared))
            finish_norm(arguments.finish, chain, nullptr, true);
    }
}
