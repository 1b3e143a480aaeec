// The tiles of a convolution of stride 2 as wgmma reads them.
//
// Pixel (2i + a, 2j + b) of the input belongs to class (a, b), and lies at place (i, j) of its class. Chunks of eight
// channels of a class lie in planes of places; so 64 places of a class are a square of the output's, and the classes
// follow each other such that those with a = 0, as well as those with b = 0, are neighbours: (1, 1), (0, 1), (0, 0),
// (1, 0).
//
// With 2q + tap = pixel, class 0 of a row (or column) meets tap 0 of the output at its own place and tap 2 of that one
// place before; class 1 meets tap 1 at its own. So of the input only a tile's own rows are needed, and of dy the row
// above as well.
//
// dy lies as lines: a row's chunks behind each other, each of them a zero and a row of pixels. That of a shortcut of
// 1×1, which class (0, 0) meets at its own place, lies in the same way.
//
// Rows come from memory into a stage ahead of time (bulk_copy.cuh), from where each thread puts some chunks into their
// places.

#include "conv_squares.cuh"

namespace {

static_assert(KERNEL == 3 && STRIDE == 2 && PAD_TOP == 0 && PAD_LEFT == 0 && !PACKED, "the first tap is at the first pixel");
static_assert(IMAGE_H == 2 * OUT_H && IMAGE_W == 2 * OUT_W && FILTERS == 2 * CHANNELS, "half the rows, twice the channels");

constexpr int FILTER_CHUNKS = FILTERS / 8, CLASSES = 4;

// Which of the classes, counted in their order, has a remainder.
DEVICE constexpr int number_of_class(int a, int b) { return b ? 1 - a : 2 + a; }
DEVICE constexpr bool has_odd_row(int number) { return number == 0 || number == 3; }
DEVICE constexpr bool has_odd_column(int number) { return number < 2; }

// Chunks of a plane: such a number that the eight chunks of neighbouring pixels lie in different banks.
constexpr int PLACES = TILE_IMAGES * TILE_ROWS * OUT_W, BANKS_APART = 4 / CHUNKS;
constexpr int PLANE = PLACES + (3 * BANKS_APART - PLACES % (2 * BANKS_APART)) % (2 * BANKS_APART);
constexpr int X_ROOM = CLASSES * CHUNKS * PLANE;

// Where a place lies in its plane; rows and columns count from the first of the image's part of the tile.
DEVICE constexpr int in_plane(int image, int row, int column) { return (image * TILE_ROWS + row) * OUT_W + column; }

// The pitch of a chunk is such that the chunks of a few neighbouring pixels lie in different banks.
constexpr int DY_PITCH = OUT_W + 8 / FILTER_CHUNKS, DY_LINE = FILTER_CHUNKS * DY_PITCH;
constexpr int DY_ROOM = TILE_IMAGES * (TILE_ROWS + 1) * DY_LINE;

// Where the first chunk of a pixel of dy lies.
DEVICE constexpr int in_lines(int image, int row, int column) {
    return (image * (TILE_ROWS + 1) + 1 + row) * DY_LINE + 1 + column;
}
// From the chunk one row above and one column to the left to those that a tap meets.
DEVICE constexpr int from_corner(bool above, bool left) { return (above ? 0 : DY_LINE) + (left ? 0 : 1); }

// The row above an image's part of the tile comes from memory where that is not a whole image.
constexpr int ABOVE = GROUPS == 1 ? 0 : 1;

// Rows of a tile in memory, and of its stage: of the input, and of a gradient of the output with so many rows above.
constexpr int X_ROW = IMAGE_W * CHUNKS, DY_ROW = OUT_W * FILTER_CHUNKS, X_LINES = 2 * TILE_ROWS;
constexpr int X_STAGE = TILE_IMAGES * X_LINES * X_ROW;
template <int above>
constexpr int DY_STAGE = TILE_IMAGES * (TILE_ROWS + above) * DY_ROW;
static_assert(THREADS % (2 * X_ROW) == 0 && THREADS % DY_ROW == 0, "a thread keeps its chunk, column and class");

DEVICE bool has_image(int at, int image, u32 num_images) {
    return TILE_IMAGES == 1 || first_image(at) + image < (int)num_images;
}

// Puts this thread's chunks of the input in their places, as readers see them.
DEVICE void place_x(uint4* x, const uint4* stage, const float* scale, const float* shift, int at, u32 num_images,
                    int thread) {
    const int chunk = thread % CHUNKS, column = thread % X_ROW / CHUNKS, first = thread / X_ROW;
    Eight s, t;
    if (INPUT_NORM) s = eight_at(scale + chunk * 8), t = eight_at(shift + chunk * 8);
    uint4* const to = x + (number_of_class(first % 2, column % 2) * CHUNKS + chunk) * PLANE +
                      in_plane(0, first / 2, column / 2);
    for_lines<X_LINES, THREADS / X_ROW>(first, [&](int image, int line) {
        uint4 value = make_uint4(0, 0, 0, 0);
        if (has_image(at, image, num_images))
            value = read_value<INPUT_NORM, INPUT_RELU>(stage[(image * X_LINES + line) * X_ROW + thread], s, t);
        to[in_plane(image, line / 2, 0)] = value;
    });
}

// The same of dy, with so many rows above: of D, and behind it in the stage V where there is a norm, with its `slopes`.
template <int above>
DEVICE void place_dy(uint4* dy, const uint4* stage, const float* slopes, int at, u32 num_images, int thread) {
    const int chunk = thread % FILTER_CHUNKS, column = thread % DY_ROW / FILTER_CHUNKS, first = thread / DY_ROW;
    const int row = first_row(at) + first - above;
    Eight a, b, c;
    if (OUTPUT_NORM)
        a = eight_at(slopes + chunk * 8), b = eight_at(slopes + FILTERS + chunk * 8),
        c = eight_at(slopes + 2 * FILTERS + chunk * 8);
    uint4* const to = dy + in_lines(0, first - above, column) + chunk * DY_PITCH;
    for_lines<TILE_ROWS + above, THREADS / DY_ROW>(first, [&](int image, int line) {
        uint4 value = make_uint4(0, 0, 0, 0);
        if (has_image(at, image, num_images) && row + line >= 0) {
            const uint4* const staged = stage + (image * (TILE_ROWS + above) + line) * DY_ROW + thread;
            value = *staged;
            if (OUTPUT_NORM) {
                Eight d = unpacked(value);
                const Eight v = unpacked(staged[DY_STAGE<above>]);
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    d.number[i] = fmaf(a.number[i], d.number[i], fmaf(b.number[i], v.number[i], c.number[i]));
                value = packed(d);
            }
        }
        to[(image * (TILE_ROWS + 1) + line) * DY_LINE] = value;
    });
}

}  // namespace
