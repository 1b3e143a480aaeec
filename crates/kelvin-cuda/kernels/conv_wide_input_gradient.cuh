// The gradient of a convolution's input by wgmma: squares of 64 pixels of dy by the weights.

#include "conv_wide_weight_gradient.cuh"

namespace {

// Warps that have sums of a channel.
constexpr int SUM_WARPS = WARPS;

// A thread ends up with pieces of so many neighbouring channels of a pixel, one of every four.
constexpr int NUMBERS = CHANNELS < 32 ? 4 : 8, PARTS = CHANNELS / (4 * NUMBERS);

struct __align__(2 * NUMBERS) Piece {
    u32 pair[NUMBERS / 2];
};

// Norms that D goes through.
constexpr int NORMS = NORM_SUMS > 1 ? 2 : 1;

// Σ D and Σ D·(V − mean) of this thread's channels, over all of its pixels; V is the value whose norm D goes through.
struct ChannelSums {
    float gradient[PARTS][NUMBERS];
    float product[NORMS][PARTS][NUMBERS];
};

// The column of a product that is channel `channel`.
DEVICE int column_of(int channel) {
    const int part = channel / (4 * NUMBERS), lane = channel / NUMBERS % 4, number = channel % NUMBERS;
    return (part * (NUMBERS / 2) + number / 2) * 8 + lane * 2 + number % 2;
}

// Begins the products of this warpgroup's squares.
DEVICE void begin_data_gradient(float (&dx)[OWN_SQUARES][CHANNELS / 2], const uint4* dy, const uint4* weights,
                                int group) {
    const u64 w = operand<Major::k>(weights, WEIGHT_PLANE * 16, 128);
#pragma unroll
    for (int i = 0; i < OWN_SQUARES; ++i) {
        const Square square(group * OWN_SQUARES + i);
        const uint4* const first = dy + in_lines(square.image, square.row - 1, square.column - 1);
        const u64 d = operand<Major::k>(first, DY_PITCH * 16, DY_LINE * 16);
#pragma unroll
        for (int tap = 0; tap < TAPS; ++tap) {
            // The first row and column of dy meet the last tap.
            const int offset = (KERNEL - 1 - tap / KERNEL) * DY_LINE + KERNEL - 1 - tap % KERNEL;
#pragma unroll
            for (int k = 0; k < FILTERS / 16; ++k)
                multiply_add_async<Major::k, Major::k>(dx[i], d + (offset + 2 * k * DY_PITCH),
                                                       w + (tap * TAP_ROOM + 2 * k * WEIGHT_PLANE), tap + k > 0);
        }
    }
}

// Writes D(from) of one of this warpgroup's squares.
DEVICE void write_data_gradient(const float (&dx)[CHANNELS / 2], int number, const uint4* x, bf16* input_gradient,
                                const bf16* const (&normed)[2], const float* means, ChannelSums& sums, int at,
                                u32 num_images, int warp, int lane) {
    constexpr int pieces = CHANNELS / NUMBERS, in_chunk = 8 / NUMBERS;
    const Square square(number);
    if (TILE_IMAGES > 1 && first_image(at) + square.image >= (int)num_images) return;
    const int row = square.row + warp % 4 * 2, column = square.column + (lane >> 2), first_piece = lane & 3;
    // The pixels of a tile follow each other in memory.
    const u32 place =
        ((u32)at * TILE_PIXELS + (square.image * TILE_ROWS + row) * OUT_W + column) * pieces + first_piece;
    const Piece* const seen_here =
        (const Piece*)(x + first_piece / in_chunk * PLANE + in_plane(square.image, row, column)) + first_piece % in_chunk;
    Piece* const to = (Piece*)input_gradient + place;
    // Two rows of pixels.
#pragma unroll
    for (int below = 0; below < 2; ++below) {
        Piece previous[PARTS], value[NORMS][PARTS];
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            if (ADD_PREVIOUS) previous[part] = to[below * OUT_W * pieces + part * 4];
#pragma unroll
            for (int norm = 0; norm < NORM_SUMS; ++norm)
                value[norm][part] = ((const Piece*)normed[norm])[place + below * OUT_W * pieces + part * 4];
        }
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            Piece piece, seen;
            if (MASK) seen = seen_here[(part * 4 / in_chunk * PLANE + below * PITCH) * in_chunk];
            const float* const mean = means + (part * 4 + first_piece) * NUMBERS;
#pragma unroll
            for (int i = 0; i < NUMBERS / 2; ++i) {
                const int first = (part * (NUMBERS / 2) + i) * 4 + below * 2;
                float low = dx[first], high = dx[first + 1];
                if (ADD_PREVIOUS) low += low_bf16(previous[part].pair[i]), high += high_bf16(previous[part].pair[i]);
                piece.pair[i] = pack_bf16(low, high);
                if (MASK) piece.pair[i] = masked(piece.pair[i], seen.pair[i]);
                if (NORM_SUMS) {
                    low = low_bf16(piece.pair[i]), high = high_bf16(piece.pair[i]);
                    sums.gradient[part][2 * i] += low, sums.gradient[part][2 * i + 1] += high;
#pragma unroll
                    for (int norm = 0; norm < NORMS; ++norm) {
                        const float2 own = *(const float2*)(mean + norm * CHANNELS + 2 * i);
                        const u32 pair = value[norm][part].pair[i];
                        float(&product)[NUMBERS] = sums.product[norm][part];
                        product[2 * i] = fmaf(low, low_bf16(pair) - own.x, product[2 * i]);
                        product[2 * i + 1] = fmaf(high, high_bf16(pair) - own.y, product[2 * i + 1]);
                    }
                }
            }
            to[below * OUT_W * pieces + part * 4] = piece;
        }
    }
}

// Leaves each warp's sums of norm `number` in shared memory, [warp of these channels][channel]: adds up lanes, in their order.
template <int number>
DEVICE void leave_warp_sums(const ChannelSums& sums, float2* room, int warp, int lane) {
#pragma unroll
    for (int i = 0; i < PARTS * NUMBERS; ++i) {
        const float gradient = column_sum(sums.gradient[i / NUMBERS][i % NUMBERS]),
                    product = column_sum(sums.product[number][i / NUMBERS][i % NUMBERS]);
        const int channel = (i / NUMBERS * 4 + lane) * NUMBERS + i % NUMBERS;
        if (lane < 4) room[warp * CHANNELS + channel] = make_float2(gradient, product);
    }
}

}  // namespace
