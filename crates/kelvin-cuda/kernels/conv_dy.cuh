// The gradient of a convolution's output in shared memory, as its two products read it: dy of a tile's pixels and
// around them.
//
// What comes from memory, D(to) (or that of the pool that reads the output) and V(to) where it matters, is asked for
// ahead of time into a stage, as conv_tile.cuh does; then each thread makes dy of some chunks of it.

#include "conv_strip.cuh"

namespace {

constexpr int PAD = PAD_TOP;
static_assert(PAD_TOP == PAD_LEFT, "borders are the same above and to the left");
// Rows and columns of dy around a tile that its input pixels meet.
constexpr int BEFORE = DATA_GRADIENT ? (KERNEL - 1 - PAD + STRIDE - 1) / STRIDE : 0;
constexpr int AFTER = DATA_GRADIENT ? (STRIDE - 1 + PAD) / STRIDE : 0;
constexpr int DY_H = TILE_ROWS + BEFORE + AFTER;
// What hangs over the end of a row meets columns of zeros: its own, then those before the next row.
constexpr int DY_W = OUT_W + (OVERHANG > BEFORE + AFTER ? OVERHANG : BEFORE + AFTER);
static_assert(BEFORE <= 1 || OVERHANG == 0, "one column of zeros before a row");
constexpr int DY_CHUNKS = FILTERS / 8;
constexpr int DY_LINES = TILE_IMAGES * DY_H, DY_COUNT = DY_LINES * OUT_W * DY_CHUNKS;
// One row of zeros at the end, for pixels that are none.
constexpr int DY_ZERO = TILE_IMAGES * DY_H * DY_W;
constexpr int DY_ROOM = (DY_ZERO + 1) * (DY_CHUNKS + 1);
constexpr bool READS_OUTPUT = OUTPUT_NORM || (OUTPUT_RELU && !OUTPUT_BITS);
// Pairs of rows whose bits a tile needs.
constexpr int BIT_PAIRS = DY_H / 2 + 1, BIT_ROOM = OUTPUT_BITS ? TILE_IMAGES * BIT_PAIRS * BIT_LINE : 0;
constexpr int DY_STAGE_ROOM = DY_COUNT * (READS_OUTPUT ? 2 : 1) + BIT_ROOM;
static_assert(!OUTPUT_BITS || (OUTPUT_RELU && POOL == 2 && SIXTEEN_IMAGES == 1 && TILE_ROWS % 2 == 0),
              "bits of a pool of 2×2");
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

// Whether image `image` of the tile has an output row `row`.
DEVICE bool has_output_row(int at, int image, int row, u32 num_images) {
    return (TILE_IMAGES == 1 || first_image(at) + image < (int)num_images) && (u32)row < (u32)OUT_H;
}

// Columns outside of the output, and the row for pixels that are none, are zeros in every tile.
DEVICE void zero_dy_borders(uint4* dy, int thread) {
    constexpr int borders = DY_W - OUT_W;
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

// The first pair of rows of a tile; it may lie above the image.
DEVICE int first_pair(int at) { return (first_row(at) - BEFORE) >> 1; }

// Asks memory for the bits of a tile's ReLU.
DEVICE void stage_bits(uint4* stage, const uint4* bits, int at, u32 num_images, int thread) {
    for (int index = thread; index < BIT_ROOM; index += THREADS) {
        const int image = index / (BIT_PAIRS * BIT_LINE), pair = first_pair(at) + index / BIT_LINE % BIT_PAIRS;
        const bool inside = has_output_row(at, image, 2 * pair, num_images);
        const int line = inside ? (first_image(at) + image) * BIT_LINES + pair : 0;
        copy_async(stage + DY_COUNT + index, bits + line * BIT_LINE + index % BIT_LINE, inside);
    }
}

// `value` where the output was above 0: eight filters of a pixel, from the words of its pair of rows.
DEVICE uint4 masked_by_bits(uint4 value, uint4 words, int bit) {
    auto both = [&](u32 word) { return (word >> bit & 0x00010001u) * 0xFFFFu; };
    return make_uint4(value.x & both(words.x), value.y & both(words.y), value.z & both(words.z),
                      value.w & both(words.w));
}

// Asks for all lines of D(to) and V(to).
constexpr bool BULK_DY = BULK && POOL == 1;
DEVICE u32 dy_bytes(int at, u32 num_images) {
    return bytes_of_runs<DY_H, OUT_H, DY_LINE>(at, first_row(at) - BEFORE, num_images) * (READS_OUTPUT ? 2 : 1);
}
DEVICE void stage_whole_dy(uint4* stage, const bf16* gradient, const bf16* output, int at, u32 num_images,
                           Arrival* arrival) {
    const int row = first_row(at) - BEFORE;
    stage_runs<DY_H, OUT_H, DY_LINE>(stage, gradient, at, row, num_images, arrival);
    if (READS_OUTPUT) stage_runs<DY_H, OUT_H, DY_LINE>(stage + DY_COUNT, output, at, row, num_images, arrival);
}

// Asks memory for this thread's chunks of D(to) and V(to).
DEVICE void stage_dy(uint4* stage, const bf16* gradient, const bf16* output, int at, u32 num_images, int thread) {
    const int first = thread / DY_LINE, rest = thread % DY_LINE;
    if (first >= DY_LINES_AT_ONCE) return;
    const int row = first_row(at) + first - BEFORE;
    const long long place = (long long)(first_image(at) * OUT_H + row) * DY_LINE + rest;
    const uint4* const gradients = (const uint4*)gradient + place;
    const uint4* const outputs = (const uint4*)output + place;
    // Rows of all images follow each other, and so do those of their pools.
    const uint4* const pooled = (const uint4*)gradient + rest / DY_CHUNKS / POOL * DY_CHUNKS + rest % DY_CHUNKS;
    uint4* const to = stage + first * DY_LINE + rest;
    for_lines<DY_H, DY_LINES_AT_ONCE>(first, [&](int image, int line) {
        const bool inside = has_output_row(at, image, row + line, num_images);
        const int in_pool = inside ? ((first_image(at) + image) * OUT_H + row + line) / POOL : 0;
        copy_async(to + (image * DY_H + line) * DY_LINE,
                   POOL == 1 ? gradients + (image * OUT_H + line) * DY_LINE : pooled + in_pool * (DY_LINE / POOL),
                   inside);
        if (READS_OUTPUT)
            copy_async(to + DY_COUNT + (image * DY_H + line) * DY_LINE, outputs + (image * OUT_H + line) * DY_LINE,
                       inside);
    });
}

// Puts dy in its place.
DEVICE void place_dy(uint4* dy, const uint4* stage, const float* a, const float* b, const float* c, float (&bias)[8],
                     int at, u32 num_images, int thread) {
    const int first = thread / DY_LINE, rest = thread % DY_LINE, chunk = rest % DY_CHUNKS;
    if (first >= DY_LINES_AT_ONCE) return;
    Eight a8, b8, c8;
    if (OUTPUT_NORM) a8 = eight_at(a + chunk * 8), b8 = eight_at(b + chunk * 8), c8 = eight_at(c + chunk * 8);
    const int row = first_row(at) + first - BEFORE;
    const uint4* const from = stage + first * DY_LINE + rest;
    const int column = rest / DY_CHUNKS, first_bit = (column >> 1 & 4) + chunk % 4;
    const uint4* const words = stage + DY_COUNT + (column / 16 * BIT_PARTS + chunk / 4) * 8 + column % 8;
    uint4* const to = dy + padded<DY_CHUNKS>(first * DY_W + BEFORE + column, chunk);
    for_lines<DY_H, DY_LINES_AT_ONCE>(first, [&](int image, int line) {
        const bool inside = has_output_row(at, image, row + line, num_images);
        uint4 value = make_uint4(0, 0, 0, 0);
        if (inside) value = from[(image * DY_H + line) * DY_LINE];
        if (OUTPUT_NORM && inside) {
            Eight d = unpacked(value);
            const Eight v = unpacked(from[DY_COUNT + (image * DY_H + line) * DY_LINE]);
#pragma unroll
            for (int i = 0; i < 8; ++i)
                d.number[i] = fmaf(a8.number[i], d.number[i], fmaf(b8.number[i], v.number[i], c8.number[i]));
            value = packed(d);
        }
        if (POOL > 1) {
            constexpr float share = 1.0f / (POOL * POOL);
            value = make_uint4(scale_bf16(value.x, share), scale_bf16(value.y, share), scale_bf16(value.z, share),
                               scale_bf16(value.w, share));
        }
        if (OUTPUT_BITS) {
            // Tiles begin with an even row, and pairs with the row above a border.
            const int in_pairs = first + line + BEFORE % 2;
            value = masked_by_bits(value, words[(image * BIT_PAIRS + in_pairs / 2) * BIT_LINE],
                                   first_bit + in_pairs % 2 * 8);
        } else if (OUTPUT_RELU) {
            const uint4 seen = read_value<false, true>(from[DY_COUNT + (image * DY_H + line) * DY_LINE], a8, b8);
            value = make_uint4(masked(value.x, seen.x), masked(value.y, seen.y), masked(value.z, seen.z),
                               masked(value.w, seen.w));
        }
        if (BIAS_GRADIENT && first + line >= BEFORE && first + line < BEFORE + TILE_ROWS) {
            const Eight d = unpacked(value);
#pragma unroll
            for (int i = 0; i < 8; ++i) bias[i] += d.number[i];
        }
        to[(image * DY_H + line) * DY_W * (DY_CHUNKS + 1)] = value;
    });
}

}  // namespace
