// Gradients of a convolution on tensor cores, from one reading of its tile: of its input and of its weights.
//
//   dy[q, o]      = a_o D(to)[q, o] + b_o V(to)[q, o] + c_o          through the output's norm, else D(to)
//                 = D(pool)[q / POOL, o] / POOL² where V(to)[q, o] > 0    where only a pool reads the output, through both
//   D(from)[p, i] = Σ_taps Σ_o dy[q : q·STRIDE + tap = p, o] w[tap, i, o]  (+ what is there), masked where readers see 0
//   dw[tap, i, o] = Σ_q x[q·STRIDE + tap, i] dy[q, o]                 x as the convolution reads it
//
// A block takes a few tiles of whole output rows, one after the other. dy with a border of neighbouring rows and columns,
// the input tile and the weights lie in shared memory. For D(from) a warp multiplies sixteen pixels of the input at a time;
// with a stride, pixels of the same remainder go together, since they meet the same taps. For dw each warp keeps the sums of
// sixteen channels by SQUARE_FILTERS filters for all taps in registers, over its share of the pixels of all tiles of the block;
// warps with the same channels and filters are added in the end, in their order.
//
// Bytes: D(to), V(to), V(from) once (plus shared rows), D(from) once (twice where added to), one partial dw a block.
// Specification: kelvin::network::images (backward.rs, convolution.rs, batch_norm.rs).
//
// Defines: those of conv_forward without ADD_BIAS, STATISTICS and HOLD_WEIGHTS; SQUARE_FILTERS; POOL (1 for none); OUTPUT_NORM
// OUTPUT_RELU (behind the pool) DATA_GRADIENT BIAS_GRADIENT ADD_PREVIOUS MASK (0 or 1).

#include "conv_tile.cuh"

struct ConvBackwardArguments {
    const bf16* input;            // V(from)
    const bf16* weights;          // [chain] parameter_stride apart
    const float* norm;            // of the input: s and t, [chain][4][channel]
    const bf16* output;           // V(to), where it has a norm or a pool and ReLU
    const bf16* output_gradient;  // D(to), or that of the pool that reads it
    const float* slopes;          // through the output's norm: a, b and c, [chain][3][filter]
    bf16* input_gradient;         // D(from)
    float* weight_gradient;       // [chain][block][tap][channel][filter]
    float* bias_gradient;         // [chain][block][filter]
    u64 parameter_stride;
    u32 num_images;
    u32 tiles_per_block;
};

namespace {

constexpr int PAD = PAD_TOP;
static_assert(PAD_TOP == PAD_LEFT, "borders are the same above and to the left");
// Rows and columns of dy around a tile that its input pixels meet.
constexpr int BEFORE = DATA_GRADIENT ? (KERNEL - 1 - PAD + STRIDE - 1) / STRIDE : 0;
constexpr int AFTER = DATA_GRADIENT ? (STRIDE - 1 + PAD) / STRIDE : 0;
constexpr int DY_H = TILE_ROWS + BEFORE + AFTER, DY_W = OUT_W + BEFORE + AFTER;
constexpr int DY_CHUNKS = FILTERS / 8;
constexpr int DY_LINES = TILE_IMAGES * DY_H, DY_COUNT = DY_LINES * OUT_W * DY_CHUNKS;
// One row of zeros at the end, for pixels that are none.
constexpr int DY_ZERO = TILE_IMAGES * DY_H * DY_W;
constexpr int DY_ROOM = (DY_ZERO + 1) * (DY_CHUNKS + 1);
constexpr bool READS_OUTPUT = OUTPUT_NORM || OUTPUT_RELU;
constexpr int DY_STAGE_ROOM = DY_COUNT * (READS_OUTPUT ? 2 : 1);
static_assert(!OUTPUT_NORM || POOL == 1, "a norm lies between an output and its pool");
static_assert(OUT_H % POOL == 0 && OUT_W % POOL == 0 && (POOL & (POOL - 1)) == 0,
              "pools divide the output, and by a power of 2");
constexpr int W_ROOM = DATA_GRADIENT ? WEIGHT_ROOM : 0;
static_assert(!DATA_GRADIENT || (IMAGE_H == OUT_H * STRIDE && IMAGE_W == OUT_W * STRIDE && !PACKED), "whole strides");

// The tile's row of dy of output pixel `pixel`; the row of zeros beyond the tile.
DEVICE int dy_row(int pixel) {
    if (!in_tile(pixel)) return DY_ZERO;
    const int image = pixel / (TILE_ROWS * OUT_W), rest = pixel % (TILE_ROWS * OUT_W);
    return (image * DY_H + BEFORE + rest / OUT_W) * DY_W + BEFORE + rest % OUT_W;
}

// The number of the output's line that line `line` of dy's tile holds, counted over all images, or −1 outside of them.
DEVICE int output_line(int at, int line, u32 num_images) {
    const int image = first_image(at) + line / DY_H, row = first_row(at) + line % DY_H - BEFORE;
    if ((TILE_IMAGES > 1 && image >= (int)num_images) || row < 0 || row >= OUT_H) return -1;
    return image * OUT_H + row;
}

// Columns outside of the output, and the row for pixels that are none, are zeros in every tile.
DEVICE void zero_dy_borders(uint4* dy, int thread) {
    constexpr int borders = BEFORE + AFTER;
    for (int index = thread; index < DY_LINES * borders * DY_CHUNKS; index += THREADS) {
        const int line = index / (borders * DY_CHUNKS), border = index / DY_CHUNKS % borders;
        const int column = border < BEFORE ? border : border + OUT_W;
        dy[padded<DY_CHUNKS>(line * DY_W + column, index % DY_CHUNKS)] = make_uint4(0, 0, 0, 0);
    }
    for (int i = thread; i < DY_CHUNKS; i += THREADS) dy[padded<DY_CHUNKS>(DY_ZERO, i)] = make_uint4(0, 0, 0, 0);
}

// A thread has the same column and filters of every few lines.
constexpr int DY_LINE = OUT_W * DY_CHUNKS, DY_LINES_AT_ONCE = THREADS / DY_LINE;
static_assert(DY_LINES_AT_ONCE > 0, "threads for a line at least");

// Asks memory for this thread's chunks of D(to) and V(to).
DEVICE void stage_dy(uint4* stage, const bf16* gradient, const bf16* output, int at, u32 num_images, int thread) {
    const int first = thread / DY_LINE, rest = thread % DY_LINE;
    if (first >= DY_LINES_AT_ONCE) return;
#pragma unroll
    for (int line = first; line < DY_LINES; line += DY_LINES_AT_ONCE) {
        const int in_output = output_line(at, line, num_images);
        const u32 place = (u32)max(in_output, 0) * DY_LINE + rest;
        // Rows of all images follow each other, and so do those of their pools.
        const u32 pooled =
            (u32)max(in_output, 0) / POOL * (DY_LINE / POOL) + rest / DY_CHUNKS / POOL * DY_CHUNKS + rest % DY_CHUNKS;
        copy_async(stage + line * DY_LINE + rest, (const uint4*)gradient + (POOL == 1 ? place : pooled),
                   in_output >= 0);
        if (READS_OUTPUT)
            copy_async(stage + DY_COUNT + line * DY_LINE + rest, (const uint4*)output + place, in_output >= 0);
    }
}

// Puts dy in its place.
DEVICE void place_dy(uint4* dy, const uint4* stage, const float* a, const float* b, const float* c, float (&bias)[8],
                     int at, u32 num_images, int thread) {
    const int first = thread / DY_LINE, rest = thread % DY_LINE, chunk = rest % DY_CHUNKS;
    if (first >= DY_LINES_AT_ONCE) return;
    Eight a8, b8, c8;
    if (OUTPUT_NORM) a8 = eight_at(a + chunk * 8), b8 = eight_at(b + chunk * 8), c8 = eight_at(c + chunk * 8);
#pragma unroll 2
    for (int line = first; line < DY_LINES; line += DY_LINES_AT_ONCE) {
        uint4 value = stage[line * DY_LINE + rest];
        if (OUTPUT_NORM && output_line(at, line, num_images) >= 0) {
            Eight d = unpacked(value);
            const Eight v = unpacked(stage[DY_COUNT + line * DY_LINE + rest]);
#pragma unroll
            for (int i = 0; i < 8; ++i)
                d.number[i] = fmaf(a8.number[i], d.number[i], fmaf(b8.number[i], v.number[i], c8.number[i]));
            value = packed(d);
        }
        if (POOL > 1) {
            Eight d = unpacked(value);
#pragma unroll
            for (int i = 0; i < 8; ++i) d.number[i] *= 1.0f / (POOL * POOL);
            value = packed(d);
        }
        if (OUTPUT_RELU) {
            const uint4 seen = read_value<false, true>(stage[DY_COUNT + line * DY_LINE + rest], a8, b8);
            value = make_uint4(masked(value.x, seen.x), masked(value.y, seen.y), masked(value.z, seen.z),
                               masked(value.w, seen.w));
        }
        if (BIAS_GRADIENT && line % DY_H >= BEFORE && line % DY_H < BEFORE + TILE_ROWS) {
            const Eight d = unpacked(value);
#pragma unroll
            for (int i = 0; i < 8; ++i) bias[i] += d.number[i];
        }
        dy[padded<DY_CHUNKS>(line * DY_W + BEFORE + rest / DY_CHUNKS, chunk)] = value;
    }
}

// ---- the gradient of the input

constexpr int M_AT_ONCE = M_TOGETHER;
constexpr int N_PARTS = CHANNELS > 32 ? CHANNELS / 32 : 1, M_WARPS = WARPS / N_PARTS;
constexpr int N_TILES = CHANNELS / N_PARTS / 8;
constexpr bool FULL = tile_is_full<1, M_AT_ONCE>();
constexpr int M_PAIRS = (M_TILES + M_AT_ONCE - 1) / M_AT_ONCE;

#if DATA_GRADIENT
DEVICE void data_gradient(const uint4* dy, const uint4* tile, const uint4* weights, const bf16* input,
                          bf16* input_gradient, const float* scale, const float* shift, int at, u32 num_images,
                          int warp, int lane) {
    const int n_part = warp % N_PARTS, m_warp = warp / N_PARTS;
    // Pixels (row, column) of the input with the same (row % STRIDE, column % STRIDE) make a class.
#pragma unroll 1
    for (int pair = m_warp; pair < STRIDE * STRIDE * M_PAIRS; pair += M_WARPS) {
        const int kind = pair / M_PAIRS, base = pair % M_PAIRS * M_AT_ONCE;
        const int row_rest = kind / STRIDE, column_rest = kind % STRIDE;
        float dx[M_AT_ONCE][N_TILES][4];
        int from[M_AT_ONCE];
#pragma unroll
        for (int m = 0; m < M_AT_ONCE; ++m) {
            from[m] = padded<DY_CHUNKS>(dy_row((base + m) * 16 + (lane & 15)), lane >> 4);
            // A border around the row of zeros there is not: pixels that are none read some other pixel, and are not stored.
            if (!in_tile((base + m) * 16 + (lane & 15))) from[m] = padded<DY_CHUNKS>(BEFORE * DY_W + BEFORE, lane >> 4);
#pragma unroll
            for (int n = 0; n < N_TILES; ++n) dx[m][n][0] = dx[m][n][1] = dx[m][n][2] = dx[m][n][3] = 0.0f;
        }
#pragma unroll
        for (int tap = 0; tap < TAPS; ++tap) {
            const int down = row_rest + PAD - tap / KERNEL, right = column_rest + PAD - tap % KERNEL;
            if (STRIDE > 1 && (down % STRIDE != 0 || right % STRIDE != 0)) continue;
            const int offset = (down / STRIDE * DY_W + right / STRIDE) * (DY_CHUNKS + 1);
#pragma unroll
            for (int k = 0; k < FILTERS / 16; ++k) {
                u32 w[N_TILES][2];
#pragma unroll
                for (int n = 0; n < N_TILES; n += 2) {
                    u32 four[4];
                    const int channel = (n_part * N_TILES + n) * 8 + (lane & 7) + ((lane & 16) >> 1);
                    load_matrices(four,
                                  weights + padded<FILTERS / 8>(tap * CHANNELS + channel, 2 * k + (lane >> 3 & 1)));
                    w[n][0] = four[0], w[n][1] = four[1], w[n + 1][0] = four[2], w[n + 1][1] = four[3];
                }
#pragma unroll
                for (int m = 0; m < M_AT_ONCE; ++m) {
                    u32 d[4];
                    load_matrices(d, dy + from[m] + offset + 2 * k);
#pragma unroll
                    for (int n = 0; n < N_TILES; ++n) multiply_add(dx[m][n], d, w[n][0], w[n][1]);
                }
            }
        }
#pragma unroll
        for (int m = 0; m < M_AT_ONCE; ++m) {
            // After the exchange this lane has eight channels of one pixel: of the upper or the lower eight.
            const int pixel = (base + m) * 16 + (lane >> 2) + ((lane & 2) ? 8 : 0);
            const int rest = pixel % (TILE_ROWS * OUT_W), image = pixel / (TILE_ROWS * OUT_W);
            const int row = rest / OUT_W * STRIDE + row_rest, column = rest % OUT_W * STRIDE + column_rest;
            const bool exists =
                (FULL || in_tile(pixel)) && (TILE_IMAGES == 1 || first_image(at) + image < (int)num_images);
            // The input pixels of a tile follow each other in memory.
            const u32 place = (u32)at * (TILE_PIXELS * STRIDE * STRIDE) +
                              (STRIDE == 1 ? pixel : (image * TILE_ROWS * STRIDE + row) * IMAGE_W + column);
            const uint4* const seen_here =
                tile + padded<CHUNKS>((image * TILE_H + row + PAD) * TILE_W + column + PAD, 0);
#pragma unroll
            for (int n = 0; n < N_TILES; n += 2) {
                uint4 chunk =
                    gather_quad(pack_bf16(dx[m][n][0], dx[m][n][1]), pack_bf16(dx[m][n + 1][0], dx[m][n + 1][1]),
                                pack_bf16(dx[m][n][2], dx[m][n][3]), pack_bf16(dx[m][n + 1][2], dx[m][n + 1][3]), lane);
                if (!exists) continue;
                const int own = n_part * N_TILES + n + (lane & 1);
                uint4* const to = (uint4*)input_gradient + (place * CHUNKS + own);
                if (ADD_PREVIOUS) {
                    Eight d = unpacked(chunk);
                    const Eight previous = unpacked(*to);
#pragma unroll
                    for (int i = 0; i < 8; ++i) d.number[i] += previous.number[i];
                    chunk = packed(d);
                }
                if (MASK) {
                    // The tile holds what readers see, where it holds every pixel.
                    const uint4 seen = STEP == 1
                                           ? seen_here[own]
                                           : read_value<INPUT_NORM, true>(((const uint4*)input)[place * CHUNKS + own],
                                                                          scale + own * 8, shift + own * 8);
                    chunk = make_uint4(masked(chunk.x, seen.x), masked(chunk.y, seen.y), masked(chunk.z, seen.z),
                                       masked(chunk.w, seen.w));
                }
                *to = chunk;
            }
        }
    }
}
#endif

// ---- the gradient of the weights

// Sixteen channels by SQUARE_FILTERS filters are a square; each warp has one, and with others of the same square a share of
// the pixels.
constexpr int SQUARE_TILES = SQUARE_FILTERS / 8;
constexpr int SQUARES = (DEPTH / 16) * (FILTERS / SQUARE_FILTERS), SHARES = SQUARES < WARPS ? WARPS / SQUARES : 1;
static_assert(WARPS % SQUARES == 0, "a warp for each square");

struct WeightSums {
    float of[TAPS][SQUARE_TILES][4];
};

DEVICE void add_weight_gradient(WeightSums& sums, const uint4* tile, const uint4* dy, int warp, int lane) {
    const int square = warp % SQUARES, share = warp / SQUARES;
    const int channel_chunk = square % (DEPTH / 16) * 2, filter_chunk = square / (DEPTH / 16) * SQUARE_TILES;
#pragma unroll 1
    for (int k = share; k < M_TILES; k += SHARES) {
        u32 d[SQUARE_TILES][2];
        const uint4* const dy_at = dy + padded<DY_CHUNKS>(dy_row(k * 16 + (lane & 15)), filter_chunk + (lane >> 4));
#pragma unroll
        for (int n = 0; n < SQUARE_TILES; n += 2) {
            u32 four[4];
            load_matrices_transposed(four, dy_at + n);
            d[n][0] = four[0], d[n][1] = four[1], d[n + 1][0] = four[2], d[n + 1][1] = four[3];
        }
        const int chunk = input_chunk(k * 16 + (lane & 7) + ((lane & 16) >> 1)) + channel_chunk + (lane >> 3 & 1);
#pragma unroll
        for (int tap = 0; tap < TAPS; ++tap) {
            u32 x[4];
            load_matrices_transposed(x, tile + chunk + tap_offset(tap));
#pragma unroll
            for (int n = 0; n < SQUARE_TILES; ++n) multiply_add(sums.of[tap][n], x, d[n][0], d[n][1]);
        }
    }
}

// Adds the shares of each square in their order and writes the block's part.
DEVICE void write_weight_gradient(const WeightSums& sums, float* room, float* to, int warp, int lane) {
    const int square = warp % SQUARES, share = warp / SQUARES;
    const int first_channel = square % (DEPTH / 16) * 16, first_filter = square / (DEPTH / 16) * SQUARE_FILTERS;
#pragma unroll 1
    for (int turn = 0; turn < SHARES; ++turn) {
        if (share == turn) {
#pragma unroll
            for (int tap = 0; tap < TAPS; ++tap) {
#pragma unroll
                for (int part = 0; part < 2 * SQUARE_TILES; ++part) {
                    const int row = tap * DEPTH + first_channel + (lane >> 2) + (part & 1) * 8;
                    const int place = row * FILTERS + first_filter + (part >> 1) * 8 + 2 * (lane & 3);
                    float2 value = make_float2(sums.of[tap][part >> 1][(part & 1) * 2],
                                               sums.of[tap][part >> 1][(part & 1) * 2 + 1]);
                    if (turn > 0) {
                        const float2 before = *(const float2*)(room + place);
                        value.x += before.x, value.y += before.y;
                    }
                    if (turn + 1 < SHARES) {
                        *(float2*)(room + place) = value;
                    } else if (weight_row(row) >= 0) {
                        *(float2*)(to + weight_row(row) * FILTERS + place % FILTERS) = value;
                    }
                }
            }
        }
        __syncthreads();
    }
}

}  // namespace

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

    const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const u32 chain = blockIdx.y;
    const u64 inputs = (u64)chain * arguments.num_images * (IMAGE_H * IMAGE_W * PIXEL_NUMBERS);
    const u64 outputs = (u64)chain * arguments.num_images * (OUT_H * OUT_W * FILTERS),
              gradients = outputs / (POOL * POOL);

    if (DATA_GRADIENT) copy_weights(weights, arguments.weights + chain * arguments.parameter_stride, thread);
    if (INPUT_NORM) {
        for (int i = thread; i < CHANNELS; i += THREADS) {
            scale[i] = arguments.norm[chain * (4 * CHANNELS) + i];
            shift[i] = arguments.norm[chain * (4 * CHANNELS) + CHANNELS + i];
        }
    }
    if (OUTPUT_NORM) {
        for (int i = thread; i < FILTERS; i += THREADS) {
            const float* const slopes = arguments.slopes + chain * (3 * FILTERS) + i;
            a[i] = slopes[0], b[i] = slopes[FILTERS], c[i] = slopes[2 * FILTERS];
        }
    }
    zero_dy_borders(dy, thread);
    zero_borders(tile, thread);

    float bias[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    WeightSums sums;
#pragma unroll
    for (int tap = 0; tap < TAPS; ++tap) {
#pragma unroll
        for (int n = 0; n < SQUARE_TILES; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) sums.of[tap][n][i] = 0.0f;
        }
    }

    const int first = blockIdx.x * arguments.tiles_per_block;
    const int last = min(first + (int)arguments.tiles_per_block, tiles_of(arguments.num_images));
    auto ask = [&](int at) {
        if (at < last) {
            stage_tile(stage, arguments.input + inputs, at, arguments.num_images, thread);
            stage_dy(dy_stage, arguments.output_gradient + gradients, arguments.output + outputs, at,
                     arguments.num_images, thread);
        }
        copy_async_commit();
    };
    ask(first);
    for (int at = first; at < last; ++at) {
        copy_async_wait<0>();
        __syncthreads();
        place_tile(tile, stage, arguments.input + inputs, at, arguments.num_images, scale, shift, thread);
        place_dy(dy, dy_stage, a, b, c, bias, at, arguments.num_images, thread);
        __syncthreads();
        ask(at + 1);
#if DATA_GRADIENT
        data_gradient(dy, tile, weights, arguments.input + inputs, arguments.input_gradient + inputs, scale, shift, at,
                      arguments.num_images, warp, lane);
#endif
        add_weight_gradient(sums, tile, dy, warp, lane);
    }
    __syncthreads();

    const u64 part = (u64)chain * gridDim.x + blockIdx.x;
    write_weight_gradient(sums, (float*)shared,
                          arguments.weight_gradient + part * (KERNEL * KERNEL * CHANNELS * FILTERS), warp, lane);
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
    }
}
