// The gradient of a convolution's input: a product of dy around each pixel by the weights.

#include "conv_dy.cuh"

#if DATA_GRADIENT

namespace {

// Norms that D goes through.
constexpr int NORMS = NORM_SUMS > 1 ? 2 : 1;

#if STRIP

// A warp multiplies a strip by sixteen channels. Columns of the products are channels in such an order that a lane ends
// up with four neighbouring ones (`lane % 4` times four and on), and that rows of weights lie in different banks.
constexpr int N_PARTS = CHANNELS / 16, M_WARPS = WARPS / N_PARTS, N_TILES = 2;
static_assert(WARPS % N_PARTS == 0 && STRIP % 2 == 0, "warps for all channels, and pairs of sixteens");

// Σ D and Σ D·(V − mean) of this lane's four channels, over all of its pixels; V is the value whose norm D goes
// through.
struct ChannelSums {
    float gradient[4];
    float product[NORMS][4];
};

// Whether pixel `of` of sixteen `m` of a strip is one of the strip's and of the batch, and where this lane's channels
// of it lie in memory, in fours: the pixels of a tile follow each other.
DEVICE bool exists(const Strips<STRIP>& strip, int m, int of, int at, u32 num_images) {
    return (TILE_IMAGES == 1 || first_image(at) + strip.image_of(of) < (int)num_images) && strip.owns(m, of);
}
DEVICE u32 place_of(const Strips<STRIP>& strip, int m, int of, int at, int n_part, int lane) {
    return ((u32)at * TILE_PIXELS + strip.pixel(m, of)) * (CHANNELS / 4) + n_part * 4 + (lane & 3);
}

DEVICE void data_gradient(const uint4* dy, const uint4* tile, const uint4* weights, const bf16*, bf16* input_gradient,
                          const float*, const float*, const bf16* const (&normed)[2], const float* means,
                          ChannelSums& sums, int at, u32 num_images, int warp, int lane) {
    const int n_part = warp % N_PARTS, m_warp = warp / N_PARTS;
    const int column = lane & 7, second = (lane >> 4 ^ lane >> 2) & 1;
    const uint4* const own_weights =
        weights + padded<FILTERS / 8>(n_part * 16 + (column >> 1) * 4 + second * 2 + (column & 1), lane >> 3 & 1);
#pragma unroll 1
    for (int number = m_warp; number < Strips<STRIP>::COUNT; number += M_WARPS) {
        const Strips<STRIP> strip(number);
        float dx[STRIP][N_TILES][4];
#pragma unroll
        for (int m = 0; m < STRIP; ++m) {
#pragma unroll
            for (int n = 0; n < N_TILES; ++n) dx[m][n][0] = dx[m][n][1] = dx[m][n][2] = dx[m][n][3] = 0.0f;
        }
        const int line = strip.image_of(lane & 15) * DY_H + strip.row;
        const uint4* const from = dy + padded<DY_CHUNKS>(line * DY_W + strip.column_of(lane & 15), lane >> 4);
        constexpr int below = DY_W * (DY_CHUNKS + 1), right = DY_CHUNKS + 1;
        multiply_strip<KERNEL, FILTERS, N_TILES, below, right>(dx, from, [&](u32(&w)[N_TILES][2], int v, int h, int k) {
            // The first row and column of dy meet the last tap.
            const int tap = (KERNEL - 1 - v) * KERNEL + KERNEL - 1 - h;
            u32 four[4];
            load_matrices(four, own_weights + tap * CHANNELS * (FILTERS / 8 + 1) + 2 * k);
            w[0][0] = four[0], w[0][1] = four[1], w[1][0] = four[2], w[1][1] = four[3];
        });
        // Four channels of two pixels of each sixteen; what is read of two sixteens is on its way at the same time.
#pragma unroll
        for (int pair = 0; pair < STRIP; pair += 2) {
            uint2 previous[4], values[NORMS][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int m = pair + i / 2, of = (lane >> 2) + i % 2 * 8;
                if (!exists(strip, m, of, at, num_images)) continue;
                if (ADD_PREVIOUS)
                    previous[i] = ((const uint2*)input_gradient)[place_of(strip, m, of, at, n_part, lane)];
#pragma unroll
                for (int norm = 0; norm < NORM_SUMS; ++norm)
                    values[norm][i] = ((const uint2*)normed[norm])[place_of(strip, m, of, at, n_part, lane)];
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int m = pair + i / 2, half = i % 2, of = (lane >> 2) + half * 8;
                if (!exists(strip, m, of, at, num_images)) continue;
                if (ADD_PREVIOUS) {
                    const u32 first = lane & 2 ? previous[i].y : previous[i].x,
                              last = lane & 2 ? previous[i].x : previous[i].y;
                    dx[m][0][2 * half] += low_bf16(first), dx[m][0][2 * half + 1] += high_bf16(first);
                    dx[m][1][2 * half] += low_bf16(last), dx[m][1][2 * half + 1] += high_bf16(last);
                }
                const u32 first = pack_bf16(dx[m][0][2 * half], dx[m][0][2 * half + 1]);
                const u32 last = pack_bf16(dx[m][1][2 * half], dx[m][1][2 * half + 1]);
                uint2 value = lane & 2 ? make_uint2(last, first) : make_uint2(first, last);
                if (MASK) {
                    // The tile holds what readers see.
                    const int row = strip.image_of(of) * TILE_H + strip.row + m + PAD, own = strip.column_of(of) + PAD;
                    const uint2 seen =
                        ((const uint2*)(tile + padded<CHUNKS>(row * TILE_W + own, n_part * 2)))[lane & 3];
                    value = make_uint2(masked(value.x, seen.x), masked(value.y, seen.y));
                }
                ((uint2*)input_gradient)[place_of(strip, m, of, at, n_part, lane)] = value;
                const float d[4] = {low_bf16(value.x), high_bf16(value.x), low_bf16(value.y), high_bf16(value.y)};
#pragma unroll
                for (int c = 0; c < 4; ++c) sums.gradient[c] += d[c];
#pragma unroll
                for (int norm = 0; norm < NORM_SUMS; ++norm) {
                    const float4 mean = *(const float4*)(means + norm * CHANNELS + n_part * 16 + (lane & 3) * 4);
                    const uint2 v = values[norm][i];
                    const float from_mean[4] = {low_bf16(v.x) - mean.x, high_bf16(v.x) - mean.y, low_bf16(v.y) - mean.z,
                                                high_bf16(v.y) - mean.w};
#pragma unroll
                    for (int c = 0; c < 4; ++c)
                        sums.product[norm][c] = fmaf(d[c], from_mean[c], sums.product[norm][c]);
                }
            }
        }
    }
}

// Leaves each warp's sums of norm `number` in shared memory, [warp of these channels][channel]: adds up lanes, in their order.
template <int number>
DEVICE void leave_warp_sums(const ChannelSums& sums, float2* room, int warp, int lane) {
    const int n_part = warp % N_PARTS, m_warp = warp / N_PARTS;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float gradient = column_sum(sums.gradient[i]), product = column_sum(sums.product[number][i]);
        if (lane < 4) room[m_warp * CHANNELS + n_part * 16 + lane * 4 + i] = make_float2(gradient, product);
    }
}

#else

static_assert(NORM_SUMS <= 1, "both terms' norms are those of strips");

constexpr int M_AT_ONCE = M_TOGETHER;
constexpr int N_PARTS = CHANNELS > 32 ? CHANNELS / 32 : 1, M_WARPS = WARPS / N_PARTS;
constexpr int N_TILES = CHANNELS / N_PARTS / 8;
constexpr bool FULL = tile_is_full<1, M_AT_ONCE>();
constexpr int M_PAIRS = (M_TILES + M_AT_ONCE - 1) / M_AT_ONCE;

// Σ D and Σ D·(V − mean) of this lane's chunks, over all of its pixels; V is the value whose norm D goes through.
struct ChannelSums {
    float gradient[N_TILES / 2][8];
    float product[N_TILES / 2][8];
};

DEVICE void data_gradient(const uint4* dy, const uint4* tile, const uint4* weights, const bf16* input,
                          bf16* input_gradient, const float* scale, const float* shift,
                          const bf16* const (&normed)[2], const float* means, ChannelSums& sums, int at, u32 num_images,
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
            // A border around the row of zeros there is not: pixels that are none read some other pixel, and are not
            // stored.
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
                    constexpr bool covers = STEP == 1 && KERNEL - PAD >= STRIDE;
                    const uint4 seen = covers
                                           ? seen_here[own]
                                           : read_value<INPUT_NORM, true>(((const uint4*)input)[place * CHUNKS + own],
                                                                          scale + own * 8, shift + own * 8);
                    chunk = make_uint4(masked(chunk.x, seen.x), masked(chunk.y, seen.y), masked(chunk.z, seen.z),
                                       masked(chunk.w, seen.w));
                }
                *to = chunk;
                if (NORM_SUMS) {
                    const Eight d = unpacked(chunk), v = unpacked(((const uint4*)normed[0])[place * CHUNKS + own]);
                    const Eight mean = eight_at(means + own * 8);
#pragma unroll
                    for (int i = 0; i < 8; ++i) {
                        sums.gradient[n / 2][i] += d.number[i];
                        sums.product[n / 2][i] =
                            fmaf(d.number[i], v.number[i] - mean.number[i], sums.product[n / 2][i]);
                    }
                }
            }
        }
    }
}

// The same of the one norm.
template <int>
DEVICE void leave_warp_sums(const ChannelSums& sums, float2* room, int warp, int lane) {
    const int n_part = warp % N_PARTS, m_warp = warp / N_PARTS;
    // Lanes with the same last bit have the same channels.
    auto sum_of_lanes = [](float value) {
#pragma unroll
        for (int distance = 16; distance > 1; distance /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
        return value;
    };
#pragma unroll
    for (int i = 0; i < N_TILES / 2 * 8; ++i) {
        const float gradient = sum_of_lanes(sums.gradient[i / 8][i % 8]),
                    product = sum_of_lanes(sums.product[i / 8][i % 8]);
        const int channel = (n_part * N_TILES + i / 8 * 2 + lane) * 8 + i % 8;
        if (lane < 2) room[m_warp * CHANNELS + channel] = make_float2(gradient, product);
    }
}

#endif

// Warps that have sums of a channel.
constexpr int SUM_WARPS = M_WARPS;

}  // namespace

#endif
