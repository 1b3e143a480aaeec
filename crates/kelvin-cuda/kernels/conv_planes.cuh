// The tiles of a convolution as wgmma reads them: chunks of eight channels lie in planes of pixels, so
// that eight neighbouring pixels of a chunk make a core matrix (wgmma.cuh), wherever they begin, and a tap of the kernel
// is just another place to begin at.
//
// A line of a plane is a zero and the pixels of an image's row: the zero to the right of a row is that of the next line.
// In the same way the images of a tile share the line of zeros between them, where there is one. Sixty-four pixels of a
// product are a square of eight rows and eight columns; from one of its rows to the next it is always PITCH pixels.
//
// Rows come from memory into a stage ahead of time (bulk_copy.cuh), from where each thread puts some chunks into their
// places.

#include "conv_squares.cuh"

namespace {

static_assert(KERNEL == 3 && STRIDE == 1 && PAD_TOP == 1 && PAD_LEFT == 1 && !PACKED, "a border of one pixel");

// Lines above and below the tile's own rows: the backward pass needs x without them.
#ifdef DATA_GRADIENT
constexpr int X_BORDER = 0;
#else
constexpr int X_BORDER = 1;
#endif
constexpr int PITCH = OUT_W + 1, X_LINES = TILE_ROWS + X_BORDER;
// Pixels of a plane: such a number that the eight chunks of neighbouring pixels lie in different banks.
constexpr int PLANE_PIXELS = (TILE_IMAGES * X_LINES + X_BORDER) * PITCH + 1, BANKS_APART = 8 / CHUNKS;
constexpr int PLANE = PLANE_PIXELS + (3 * BANKS_APART - PLANE_PIXELS % (2 * BANKS_APART)) % (2 * BANKS_APART);
// Rows above and below an image's part of the tile, where it is not a whole image.
constexpr int NEIGHBOURS = GROUPS == 1 ? 0 : 1;

// Pixels of a value that come from memory, with so many rows above and below.
DEVICE constexpr int staged_pixels(int neighbours) { return TILE_IMAGES * (TILE_ROWS + 2 * neighbours) * OUT_W; }

// Where a pixel lies in its plane; rows and columns count from the first pixel of the image's part of the tile.
DEVICE constexpr int in_plane(int image, int row, int column) {
    return (image * X_LINES + X_BORDER + row) * PITCH + 1 + column;
}

// Squares of each warpgroup.
constexpr int OWN_SQUARES = SQUARES / WARPGROUPS;
static_assert(SQUARES % WARPGROUPS == 0, "as many squares for each warpgroup");

// A thread has the same column and chunk of every few rows: does `body(image, line, valid)` for them, `line` counted
// from the thread's first.
template <int chunks, int neighbours, class Body>
DEVICE void for_rows(int at, u32 num_images, int thread, const Body& body) {
    constexpr int at_once = THREADS / (OUT_W * chunks);
    static_assert(at_once > 0, "threads for a row at least");
    const int first = thread / (OUT_W * chunks), row = first_row(at) + first - neighbours;
    if (first >= at_once) return;
    for_lines<TILE_ROWS + 2 * neighbours, at_once>(
        first, [&](int image, int line) { body(image, line, has_row(at, image, row + line, num_images)); });
}

// Runs of a value's rows that a tile needs, with so many above and below.
template <int chunks, int neighbours>
DEVICE u32 bytes_of_rows(int at, u32 num_images) {
    return bytes_of_runs<TILE_ROWS + 2 * neighbours, OUT_H, OUT_W * chunks>(at, first_row(at) - neighbours, num_images);
}
template <int chunks, int neighbours>
DEVICE void stage_rows(uint4* stage, const bf16* values, int at, u32 num_images, Arrival* arrival) {
    stage_runs<TILE_ROWS + 2 * neighbours, OUT_H, OUT_W * chunks>(stage, values, at, first_row(at) - neighbours,
                                                                  num_images, arrival);
}

// Puts this thread's chunks in their places, of which the first row's is `to`, rows are `below` apart and images
// `lines` rows: what `made(staged, image, line)` makes of the one at `staged`, and zeros where there is no row. There
// may be copies, so far apart.
template <int chunks, int neighbours, int below, int lines, int copies, int apart, class Made>
DEVICE void place_rows(uint4* to, const uint4* stage, int at, u32 num_images, int thread, const Made& made) {
    constexpr int row_chunks = OUT_W * chunks;
    for_rows<chunks, neighbours>(at, num_images, thread, [&](int image, int line, bool valid) {
        const uint4* const staged = stage + (image * (TILE_ROWS + 2 * neighbours) + line) * row_chunks + thread;
        const uint4 value = valid ? made(staged, image, line) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int copy = 0; copy < copies; ++copy)
            to[copy * apart + (image * lines + line) * below] = value;
    });
}

// The tile of inputs, as readers see them. Behind the planes may be copies of them, in each of which every pixel lies one
// place further to the left. `added` as in conv_tile.cuh.
template <int neighbours, int copies, class Added = AsStaged>
DEVICE void place_x(uint4* x, const uint4* stage, const float* scale, const float* shift, int at, u32 num_images,
                    int thread, const Added& added = Added()) {
    const int chunk = thread % CHUNKS;
    Eight s, t;
    if (INPUT_NORM) s = eight_at(scale + chunk * 8), t = eight_at(shift + chunk * 8);
    const int row = thread / (OUT_W * CHUNKS) - neighbours, column = thread % (OUT_W * CHUNKS) / CHUNKS;
    uint4* const to = x + chunk * PLANE + in_plane(0, row, column);
    // The stage's rows follow each other in memory: those of one image, or of whole ones.
    constexpr int row_chunks = OUT_W * CHUNKS, rows = TILE_ROWS + 2 * neighbours;
    constexpr int at_once = THREADS / row_chunks, lines = (rows + at_once - 1) / at_once;
    const int first = (first_image(at) * OUT_H + first_row(at) - neighbours) * row_chunks + thread;
    uint4 asked[TILE_IMAGES * lines];
    for_rows<CHUNKS, neighbours>(at, num_images, thread, [&](int image, int line, bool valid) {
        asked[image * lines + line / at_once] = added.ask(valid ? first + (image * rows + line) * row_chunks : 0);
    });
    place_rows<CHUNKS, neighbours, PITCH, X_LINES, copies, CHUNKS * PLANE - 1>(
        to, stage, at, num_images, thread, [&](const uint4* staged, int image, int line) {
            const bool own = neighbours == 0 || (u32)(row + line) < (u32)TILE_ROWS;
            const uint4 chunk = added(*staged, asked[image * lines + line / at_once],
                                      first + (image * rows + line) * row_chunks, own);
            return read_value<INPUT_NORM, INPUT_RELU>(chunk, s, t);
        });
}

// Of a tap's weights, chunks of filters are planes of channels; one more, for the banks.
constexpr int FILTER_CHUNKS = FILTERS / 8, WEIGHT_PLANE = CHANNELS + 1, TAP_ROOM = FILTER_CHUNKS * WEIGHT_PLANE;

// The chain's weights; `place(channel)` is the place of a channel in its plane.
template <class Place>
DEVICE void copy_weights_to_planes(uint4* to, const bf16* from, int thread, const Place& place) {
    for (int index = thread; index < TAPS * CHANNELS * FILTER_CHUNKS; index += THREADS) {
        const int chunk = index % FILTER_CHUNKS, channel = index / FILTER_CHUNKS % CHANNELS;
        copy_async(to + index / (FILTER_CHUNKS * CHANNELS) * TAP_ROOM + chunk * WEIGHT_PLANE + place(channel),
                   from + index * 8, true);
    }
}

}  // namespace
