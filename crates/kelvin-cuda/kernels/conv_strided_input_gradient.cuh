// The gradient of the input of a convolution of stride 2 by wgmma: squares of 64 pixels of dy by the
// weights.
//
// A product has 32 columns: the channels of a class, or of 16 channels those of both classes of a row (a, 0) and (a,
// 1). Of 16 channels a warpgroup has its own square and both rows of classes; of 32 each of four has a class of the
// same square.

#include "conv_strided_planes.cuh"

namespace {

constexpr int COLUMNS_AT_ONCE = 32, SUMS = CHANNELS == 16 ? 2 : 1;
// Columns of taps that are columns of one product, and with them blocks of weights in a row of taps.
constexpr int SIDE_BY_SIDE = COLUMNS_AT_ONCE / CHANNELS, BLOCKS_ACROSS = (KERNEL + SIDE_BY_SIDE - 1) / SIDE_BY_SIDE;
constexpr int SHORTCUT_BLOCK = KERNEL * BLOCKS_ACROSS;

// Of a block's weights chunks of filters are planes of columns; one more, for the banks.
constexpr int WEIGHT_PLANE = COLUMNS_AT_ONCE + 1, BLOCK_ROOM = FILTER_CHUNKS * WEIGHT_PLANE;
constexpr int WEIGHT_BLOCKS_ROOM = (SHORTCUT_BLOCK + SHORTCUT) * BLOCK_ROOM;

// Columns such that a thread ends up with eight neighbouring channels: where channel `channel` of a class with b =
// `odd` is.
DEVICE int column_of(int channel, int odd) {
    const int piece = odd * CHUNKS + channel / 8, number = channel % 8;
    return number / 2 * 8 + piece * 2 + number % 2;
}

// The chain's weights [tap][channel][filter] and the shortcut's; what no tap fills is zeros.
DEVICE void copy_weight_blocks(uint4* to, const bf16* from, const bf16* shortcut, int thread) {
    for (int index = thread; index < (TAPS + SHORTCUT) * CHANNELS * FILTER_CHUNKS; index += THREADS) {
        const int chunk = index % FILTER_CHUNKS, channel = index / FILTER_CHUNKS % CHANNELS;
        const int tap = index / (FILTER_CHUNKS * CHANNELS), across = tap % KERNEL;
        const int block = tap < TAPS ? tap / KERNEL * BLOCKS_ACROSS + across / SIDE_BY_SIDE : SHORTCUT_BLOCK;
        const int odd = tap < TAPS ? across % SIDE_BY_SIDE : 0;
        const bf16* const row = tap < TAPS ? from + index * 8 : shortcut + (index - TAPS * CHANNELS * FILTER_CHUNKS) * 8;
        copy_async(to + block * BLOCK_ROOM + chunk * WEIGHT_PLANE + column_of(channel, odd), row, true);
    }
}

// Begins the products of this warpgroup.
DEVICE void begin_data_gradient(float (&dx)[SUMS][COLUMNS_AT_ONCE / 2], const uint4* dy, const uint4* shortcut,
                                const uint4* weights, int group) {
    const Square square(CHANNELS == 16 ? group : 0);
    const int corner = in_lines(square.image, square.row - 1, square.column - 1);
    const u64 w = operand<Major::k>(weights, WEIGHT_PLANE * 16, 128);
    const u64 d = operand<Major::k>(dy + corner, DY_PITCH * 16, DY_LINE * 16);
    auto multiply = [&](float(&sum)[COLUMNS_AT_ONCE / 2], u64 from, int block, bool adds) {
#pragma unroll
        for (int k = 0; k < FILTERS / 16; ++k)
            multiply_add_async<Major::k, Major::k>(sum, from + 2 * k * DY_PITCH,
                                                   w + (block * BLOCK_ROOM + 2 * k * WEIGHT_PLANE), adds || k > 0);
    };
    auto multiply_shortcut = [&](float(&sum)[COLUMNS_AT_ONCE / 2]) {
        if (!SHORTCUT) return;
        const u64 of = operand<Major::k>(shortcut + corner, DY_PITCH * 16, DY_LINE * 16);
        multiply(sum, of + from_corner(false, false), SHORTCUT_BLOCK, true);
    };
#if CHANNELS == 16
#pragma unroll
    for (int a = 0; a < 2; ++a) {
        // Both classes meet dy in their own column, the first that to the left.
#pragma unroll
        for (int left = 0; left < 2; ++left) {
            multiply(dx[a], d + from_corner(false, left), a * BLOCKS_ACROSS + left, left > 0);
            if (a == 0) multiply(dx[a], d + from_corner(true, left), 2 * BLOCKS_ACROSS + left, true);
        }
    }
    multiply_shortcut(dx[0]);
#else
    const int a = has_odd_row(group), b = has_odd_column(group);
    multiply(dx[0], d + from_corner(false, false), a * BLOCKS_ACROSS + b, false);
    if (a == 0) multiply(dx[0], d + from_corner(true, false), 2 * BLOCKS_ACROSS + b, true);
    if (b == 0) multiply(dx[0], d + from_corner(false, true), a * BLOCKS_ACROSS + 2, true);
    if (a == 0 && b == 0) {
        multiply(dx[0], d + from_corner(true, true), 2 * BLOCKS_ACROSS + 2, true);
        multiply_shortcut(dx[0]);
    }
#endif
}

// Σ D and Σ D·(V − mean) of this thread's channels, over all of its pixels; V is the value whose norm D goes through.
struct ChannelSums {
    float gradient[8];
    float product[8];
};

// What this thread writes: eight channels of two rows of pixels of each class that its warpgroup multiplies.
struct Written {
    int image, row, column, chunk, a, b;
    u32 place;
    DEVICE Written(int at, int group, int warp, int lane) : chunk(lane % CHUNKS) {
        const Square square(CHANNELS == 16 ? group : 0);
        image = square.image, row = square.row + warp % 4 * 2, column = square.column + (lane >> 2);
        a = CHANNELS == 16 ? 0 : has_odd_row(group), b = CHANNELS == 16 ? lane >> 1 & 1 : has_odd_column(group);
        // The pixels of a tile follow each other in memory.
        place = (u32)at * X_STAGE + (image * X_LINES + 2 * row + a) * X_ROW + (2 * column + b) * CHUNKS + chunk;
    }
    // From the first to row `below` of class (a + number, b).
    DEVICE static constexpr int further(int number, int below) { return (number + 2 * below) * X_ROW; }
};

// What is read there before, as far as there is any.
struct Before {
    uint4 gradient[SUMS][2], value[SUMS][2];
};

// Asks for it: it is on its way while products run.
DEVICE void read_before(Before& before, const bf16* input_gradient, const bf16* normed, int at, u32 num_images,
                        int group, int warp, int lane) {
    const Written own(at, group, warp, lane);
    if (!has_image(at, own.image, num_images)) return;
#pragma unroll
    for (int i = 0; i < 2 * SUMS; ++i) {
        const u32 place = own.place + Written::further(i / 2, i % 2);
        if (ADD_PREVIOUS) before.gradient[i / 2][i % 2] = ((const uint4*)input_gradient)[place];
        if (NORM_SUMS) before.value[i / 2][i % 2] = ((const uint4*)normed)[place];
    }
}

// Writes D(from) of what this warpgroup has multiplied.
DEVICE void write_data_gradient(const float (&dx)[SUMS][COLUMNS_AT_ONCE / 2], const Before& before, const uint4* x,
                                bf16* input_gradient, const float* means, ChannelSums& sums, int at, u32 num_images,
                                int group, int warp, int lane) {
    const Written own(at, group, warp, lane);
    if (!has_image(at, own.image, num_images)) return;
    uint4* const to = (uint4*)input_gradient + own.place;
#pragma unroll
    for (int number = 0; number < SUMS; ++number) {
        const uint4* const seen_here = x + (number_of_class(own.a + number, own.b) * CHUNKS + own.chunk) * PLANE +
                                       in_plane(own.image, own.row, own.column);
#pragma unroll
        for (int below = 0; below < 2; ++below) {
            uint4 seen = make_uint4(0, 0, 0, 0);
            if (MASK) seen = seen_here[below * OUT_W];
            const uint4 previous = before.gradient[number][below], value = before.value[number][below];
            const u32 previous_pairs[4] = {previous.x, previous.y, previous.z, previous.w},
                      seen_pairs[4] = {seen.x, seen.y, seen.z, seen.w},
                      values[4] = {value.x, value.y, value.z, value.w};
            u32 pairs[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                float low = dx[number][4 * i + 2 * below], high = dx[number][4 * i + 2 * below + 1];
                if (ADD_PREVIOUS) low += low_bf16(previous_pairs[i]), high += high_bf16(previous_pairs[i]);
                pairs[i] = pack_bf16(low, high);
                if (MASK) pairs[i] = masked(pairs[i], seen_pairs[i]);
                if (NORM_SUMS) {
                    low = low_bf16(pairs[i]), high = high_bf16(pairs[i]);
                    const float2 mean = *(const float2*)(means + own.chunk * 8 + 2 * i);
                    sums.gradient[2 * i] += low, sums.gradient[2 * i + 1] += high;
                    sums.product[2 * i] = fmaf(low, low_bf16(values[i]) - mean.x, sums.product[2 * i]);
                    sums.product[2 * i + 1] = fmaf(high, high_bf16(values[i]) - mean.y, sums.product[2 * i + 1]);
                }
            }
            to[Written::further(number, below)] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        }
    }
}

// Lanes with the same channels have different columns of pixels, where there are two classes in a product.
constexpr int SUMS_OF_A_WARP = 4 / CHUNKS, SUM_WARPS = WARPS * SUMS_OF_A_WARP;

// Leaves the sums of each warp, or of each half, in shared memory: adds up lanes, in their order.
template <int>
DEVICE void leave_warp_sums(const ChannelSums& sums, float2* room, int warp, int lane) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float gradient = column_sum(sums.gradient[i]), product = column_sum(sums.product[i]);
        const int row = warp * SUMS_OF_A_WARP + lane / CHUNKS;
        if (lane < 4) room[row * CHANNELS + lane % CHUNKS * 8 + i] = make_float2(gradient, product);
    }
}

}  // namespace
