// The tile of a convolution's input in shared memory: which pixels it holds, and how they get there.
//
// A tile is TILE_ROWS whole output rows of TILE_IMAGES images. Tiles are numbered image by image from the top; where a
// tile holds several images, each is whole (TILE_ROWS = OUT_H). In shared memory a pixel is a row of its channels, an
// odd number of chunks long; pixels outside of the image are zeros. Columns outside are so for every tile and are
// zeroed once.
//
// Chunks come from memory as they are into a stage of their own (copied without waiting, while another tile is worked
// on), from where a thread puts them into their places, as readers see them. With BULK, on GPUs that have bulk copies
// (bulk_copy.cuh), one thread asks for all lines of a tile, as far as they are whole; else each thread for the chunks that
// it will put into place.

#include "bulk_copy.cuh"
#include "tile.cuh"

namespace {

constexpr int THREADS = WARPS * 32;

// Few channels are packed: a pixel is four numbers, and four neighbouring pixels make sixteen, so that a tap is a whole
// row of the kernel. Pixels with an odd column are read from a second copy of the tile that lies one pixel further to
// the left: both copies are aligned to the sixteen bytes that two pixels take.
#if PACKED
constexpr int DEPTH = 16, TAPS = KERNEL, PIXEL_NUMBERS = 4;
static_assert(CHANNELS <= 4 && KERNEL <= 4 && STRIDE == 1, "four pixels of four channels");
#else
constexpr int DEPTH = CHANNELS, TAPS = KERNEL * KERNEL, PIXEL_NUMBERS = CHANNELS;
#endif
// Of a 1×1 kernel with a stride only the pixels it meets are in the tile.
constexpr int STEP = KERNEL == 1 ? STRIDE : 1, TILE_STRIDE = STRIDE / STEP;
constexpr int TILE_H = (TILE_ROWS - 1) * TILE_STRIDE + KERNEL;
constexpr int TILE_W = PACKED ? (OUT_W + KERNEL) / 2 * 2 : (OUT_W - 1) * TILE_STRIDE + KERNEL;
constexpr int LINES = TILE_IMAGES * TILE_H;
constexpr int CHUNKS = DEPTH / 8;
// Sixteens of pixels of strips: images of one, and sixteens of a row, of which the last may hang over its end.
constexpr int SIXTEEN_IMAGES = OUT_W == 8 ? 2 : 1, SEGMENTS = OUT_W == 8 ? 1 : (OUT_W + 15) / 16;
constexpr int OVERHANG = STRIP && OUT_W != 8 ? SEGMENTS * 16 - OUT_W : 0;

// What is loaded, and the room it takes, in chunks.
#if PACKED
// A copy is an odd multiple of four chunks, so that the two lie in different banks; a few chunks of zeros are read (and
// multiplied by zeros) beyond the last pixel.
constexpr int TILE_CHUNKS = LINES * TILE_W / 2, BEYOND = 3 + OVERHANG / 2;
constexpr int COPY_ROOM = (TILE_CHUNKS + BEYOND + 7) / 8 * 8 + 4, TILE_ROOM = 2 * COPY_ROOM, STAGE_ROOM = 0;
#else
// Columns of the tile that lie in the image.
constexpr int COLUMNS = IMAGE_W / STEP < TILE_W - PAD_LEFT ? IMAGE_W / STEP : TILE_W - PAD_LEFT;
constexpr int TILE_CHUNKS = LINES * COLUMNS * CHUNKS, STAGE_ROOM = TILE_CHUNKS;
// What hangs over the last row lies behind it, and is zeros.
constexpr int TILE_ROOM = (LINES * TILE_W + OVERHANG) * (CHUNKS + 1);
#endif
constexpr int WEIGHT_ROOM = TAPS * DEPTH * (FILTERS / 8 + 1);
constexpr int TILE_PIXELS = TILE_IMAGES * TILE_ROWS * OUT_W;
constexpr int M_TILES = (TILE_PIXELS + 15) / 16;
constexpr int GROUPS = OUT_H / TILE_ROWS;  // tiles of an image, where a tile is part of one

// Of an output that only a pool of 2×2 with a ReLU reads, a convolution in strips keeps the pool's result, and for the
// way back whether each number is above 0. A word has the bits of two pixels of two rows and of two filters of four
// chunks: for row r, pixel p or p + 8 of a sixteen, chunk n, bit 8r + 4(p / 8) + n, and sixteen further up the second
// filter. Words lie as [image][two rows][sixteen][32 filters][pixel % 8][pair of filters].
constexpr int BIT_PARTS = (FILTERS + 31) / 32, BIT_LINE = SEGMENTS * BIT_PARTS * 8, BIT_LINES = OUT_H / 2;

static_assert(OUT_H % TILE_ROWS == 0 && (TILE_IMAGES == 1 || TILE_ROWS == OUT_H),
              "tiles are parts of one image or whole images");
static_assert(DEPTH % 16 == 0 && FILTERS % 16 == 0, "tensor cores multiply sixteen channels at a time");

DEVICE int tiles_of(u32 num_images) {
    return TILE_IMAGES == 1 ? num_images * GROUPS : (num_images + TILE_IMAGES - 1) / TILE_IMAGES;
}

// Output pixels of tiles `first` to `last`.
DEVICE int pixels_between(int first, int last, u32 num_images) {
    if (TILE_IMAGES == 1) return (last - first) * TILE_PIXELS;
    return (min(last * TILE_IMAGES, (int)num_images) - min(first * TILE_IMAGES, (int)num_images)) * (OUT_H * OUT_W);
}

DEVICE int first_image(int at) { return TILE_IMAGES == 1 ? at / GROUPS : at * TILE_IMAGES; }
DEVICE int first_row(int at) { return TILE_IMAGES == 1 ? at % GROUPS * TILE_ROWS : 0; }

DEVICE bool in_tile(int pixel) { return pixel < TILE_PIXELS; }

// Where a pixel of the tile lies in it, in chunks.
DEVICE int tile_chunk(int line, int column) {
#if PACKED
    return (column & 1) * COPY_ROOM + (line * TILE_W + column) / 2;
#else
    return padded<CHUNKS>(line * TILE_W + column, 0);
#endif
}

// Where the first tap of output pixel `pixel` lies in the tile, in chunks; anywhere for pixels beyond the tile.
DEVICE int input_chunk(int pixel) {
    if (!in_tile(pixel)) return 0;
    const int image = pixel / (TILE_ROWS * OUT_W), rest = pixel % (TILE_ROWS * OUT_W);
    return tile_chunk(image * TILE_H + rest / OUT_W * TILE_STRIDE, rest % OUT_W * TILE_STRIDE);
}

// From the first tap to another, in chunks.
DEVICE constexpr int tap_offset(int tap) {
    return PACKED ? tap * (TILE_W / 2) : (tap / KERNEL * TILE_W + tap % KERNEL) * (CHUNKS + 1);
}

// The row of the weights [row][column][channel] that a number of the tile's taps is multiplied by, or −1 for none.
DEVICE int weight_row(int row) {
    if (!PACKED) return row;
    const int column = row % 16 / 4, channel = row % 4;
    return column < KERNEL && channel < CHANNELS ? (row / 16 * KERNEL + column) * CHANNELS + channel : -1;
}

// Whether every pixel that a warp multiplies is one of the tile's.
template <int m_warps, int m_at_once>
constexpr bool tile_is_full() {
    return TILE_PIXELS % 16 == 0 && M_TILES % (m_warps * m_at_once) == 0;
}

// The row of its image that line `line` of an image's part of the tile holds; it may lie outside.
DEVICE int image_row(int at, int line) { return (first_row(at) * TILE_STRIDE + line) * STEP - PAD_TOP; }

// Whether image `image` of the tile has a row `row`.
DEVICE bool has_row(int at, int image, int row, u32 num_images) {
    return (TILE_IMAGES == 1 || first_image(at) + image < (int)num_images) && (u32)row < (u32)IMAGE_H;
}

// Lines `first` to `first + lines` of each image of a tile, as far as there are any, of a value with `rows` rows of
// `chunks` chunks: does `body(in_stage, in_memory, bytes)` for each run of them, places counted in chunks.
template <int lines, int rows, int chunks, class Body>
DEVICE void for_runs(int at, int first, u32 num_images, const Body& body) {
    const int above = max(-first, 0), count = min(first + lines, rows) - first - above;
#pragma unroll
    for (int image = 0; image < TILE_IMAGES; ++image) {
        const int own = first_image(at) + image;
        if (TILE_IMAGES == 1 || own < (int)num_images)
            body((image * lines + above) * chunks, (long long)(own * rows + first + above) * chunks, count * chunks * 16);
    }
}
template <int lines, int rows, int chunks>
DEVICE u32 bytes_of_runs(int at, int first, u32 num_images) {
    u32 sum = 0;
    for_runs<lines, rows, chunks>(at, first, num_images, [&](int, long long, u32 bytes) { sum += bytes; });
    return sum;
}
template <int lines, int rows, int chunks>
DEVICE void stage_runs(uint4* stage, const bf16* values, int at, int first, u32 num_images, Arrival* arrival) {
    for_runs<lines, rows, chunks>(at, first, num_images, [&](int in_stage, long long in_memory, u32 bytes) {
        copy_run(stage + in_stage, (const uint4*)values + in_memory, bytes, arrival);
    });
}

// Has the input pixels of a tile of one value on their way before they are needed.
DEVICE void prefetch_tile(const bf16* values, int at, u32 num_images, int thread) {
    constexpr u32 numbers = TILE_PIXELS * STRIDE * STRIDE * CHANNELS;
    const u32 first = at * numbers, end = num_images * (IMAGE_H * IMAGE_W * CHANNELS);
    for (u32 index = first + thread * 64; index < min(first + numbers, end); index += THREADS * 64)
        prefetch(values + index);
}

// How a chunk of the input is made of what was staged and of what `ask` has read at the same place: here of the first
// alone.
struct AsStaged {
    DEVICE uint4 ask(u32) const { return make_uint4(0, 0, 0, 0); }
    DEVICE uint4 operator()(uint4 staged, uint4, u32, bool) const { return staged; }
};

// Every `at_once`-th of `lines` lines of each image of a tile from the thread's `first` on: does `body(image, line)`,
// `line` counted from the first, so that what is linear in it needs no arithmetic when it runs.
template <int lines, int at_once, class Body>
DEVICE void for_lines(int first, const Body& body) {
#pragma unroll
    for (int image = 0; image < TILE_IMAGES; ++image) {
#pragma unroll
        for (int line = 0; line < lines; line += at_once) {
            if (line + at_once <= lines || first + line < lines) body(image, line);
        }
    }
}

#if PACKED

// Images of few channels are small and come from the cache: nothing is asked for ahead of time.
constexpr bool BULK_TILE = false;
DEVICE u32 tile_bytes(int, u32) { return 0; }
DEVICE void stage_whole_tile(uint4*, const bf16*, int, u32, Arrival*) {}
DEVICE void zero_borders(uint4*, int) {}
DEVICE void stage_tile(uint4*, const bf16*, int, u32, int) {}

template <class Added = AsStaged>
DEVICE void place_tile(uint4* tile, const uint4*, const bf16* input, int at, u32 num_images, const float*, const float*,
                       int thread, const Added& = Added()) {
#pragma unroll 4
    for (int index = thread; index < TILE_CHUNKS + BEYOND; index += THREADS) {
        // Pixels 2·index − 1 to 2·index + 1: the first and the second make a chunk of the second copy.
        uint2 pixels[3];
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const int pixel = 2 * index - 1 + i, column = pixel % TILE_W - PAD_LEFT;
            const int image = pixel / TILE_W / TILE_H, row = image_row(at, pixel / TILE_W % TILE_H);
            const bool inside = pixel >= 0 && pixel < 2 * TILE_CHUNKS && has_row(at, image, row, num_images) &&
                                column >= 0 && column < IMAGE_W;
            const u32 place = ((first_image(at) + image) * IMAGE_H + row) * IMAGE_W + column;
            pixels[i] = inside ? ((const uint2*)input)[place] : make_uint2(0, 0);
        }
        tile[index] = make_uint4(pixels[1].x, pixels[1].y, pixels[2].x, pixels[2].y);
        if (index > 0) tile[COPY_ROOM + index - 1] = make_uint4(pixels[0].x, pixels[0].y, pixels[1].x, pixels[1].y);
    }
}

#else

// Columns outside of the image are zeros in every tile.
DEVICE void zero_borders(uint4* tile, int thread) {
    constexpr int borders = TILE_W - COLUMNS;
    for (int index = thread; index < LINES * borders * CHUNKS; index += THREADS) {
        const int line = index / (borders * CHUNKS), border = index / CHUNKS % borders;
        const int column = border < PAD_LEFT ? border : border + COLUMNS;
        tile[padded<CHUNKS>(line * TILE_W + column, index % CHUNKS)] = make_uint4(0, 0, 0, 0);
    }
    for (int index = thread; index < OVERHANG * (CHUNKS + 1); index += THREADS)
        tile[padded<CHUNKS>(LINES * TILE_W, 0) + index] = make_uint4(0, 0, 0, 0);
}

// A thread has the same column and chunk of every few lines.
constexpr int LINE_CHUNKS = COLUMNS * CHUNKS, LINES_AT_ONCE = THREADS / LINE_CHUNKS;
static_assert(LINES_AT_ONCE > 0, "threads for a line at least");

// Asks for the whole tile.
constexpr bool BULK_TILE = BULK && STEP == 1 && COLUMNS == IMAGE_W;
DEVICE u32 tile_bytes(int at, u32 num_images) {
    return bytes_of_runs<TILE_H, IMAGE_H, LINE_CHUNKS>(at, image_row(at, 0), num_images);
}
DEVICE void stage_whole_tile(uint4* stage, const bf16* input, int at, u32 num_images, Arrival* arrival) {
    stage_runs<TILE_H, IMAGE_H, LINE_CHUNKS>(stage, input, at, image_row(at, 0), num_images, arrival);
}

// Asks memory for this thread's chunks of a tile.
DEVICE void stage_tile(uint4* stage, const bf16* input, int at, u32 num_images, int thread) {
    const int first = thread / LINE_CHUNKS, rest = thread % LINE_CHUNKS;
    if (first >= LINES_AT_ONCE) return;
    const int row = image_row(at, first);
    const uint4* const from = (const uint4*)input + rest / CHUNKS * (STEP * CHUNKS) + rest % CHUNKS +
                              (long long)(first_image(at) * IMAGE_H + row) * (IMAGE_W * CHUNKS);
    uint4* const to = stage + first * LINE_CHUNKS + rest;
    for_lines<TILE_H, LINES_AT_ONCE>(first, [&](int image, int line) {
        copy_async(to + (image * TILE_H + line) * LINE_CHUNKS,
                   from + (image * IMAGE_H + line * STEP) * (IMAGE_W * CHUNKS),
                   has_row(at, image, row + line * STEP, num_images));
    });
}

// Puts them in their places as readers see them. What `added` needs beside is read first: all of it is on its way at the
// same time.
template <class Added = AsStaged>
DEVICE void place_tile(uint4* tile, const uint4* stage, const bf16*, int at, u32 num_images, const float* scale,
                       const float* shift, int thread, const Added& added = Added()) {
    const int first = thread / LINE_CHUNKS, rest = thread % LINE_CHUNKS, chunk = rest % CHUNKS;
    if (first >= LINES_AT_ONCE) return;
    Eight s, t;
    if (INPUT_NORM) s = eight_at(scale + chunk * 8), t = eight_at(shift + chunk * 8);
    const int row = image_row(at, first);
    const uint4* const from = stage + first * LINE_CHUNKS + rest;
    uint4* const to = tile + padded<CHUNKS>(first * TILE_W + PAD_LEFT + rest / CHUNKS, chunk);
    const int place = (first_image(at) * IMAGE_H + row) * (IMAGE_W * CHUNKS) + rest / CHUNKS * (STEP * CHUNKS) + chunk;
    constexpr int lines = (TILE_H + LINES_AT_ONCE - 1) / LINES_AT_ONCE;
    uint4 asked[TILE_IMAGES * lines];
    for_lines<TILE_H, LINES_AT_ONCE>(first, [&](int image, int line) {
        const bool inside = has_row(at, image, row + line * STEP, num_images);
        asked[image * lines + line / LINES_AT_ONCE] =
            added.ask(inside ? place + (image * IMAGE_H + line * STEP) * (IMAGE_W * CHUNKS) : 0);
    });
    for_lines<TILE_H, LINES_AT_ONCE>(first, [&](int image, int line) {
        uint4 value = make_uint4(0, 0, 0, 0);
        if (has_row(at, image, row + line * STEP, num_images)) {
            const bool own = (u32)(row + line * STEP - first_row(at) * STRIDE) < (u32)(TILE_ROWS * STRIDE);
            value = added(from[(image * TILE_H + line) * LINE_CHUNKS], asked[image * lines + line / LINES_AT_ONCE],
                          place + (image * IMAGE_H + line * STEP) * (IMAGE_W * CHUNKS), own);
            value = read_value<INPUT_NORM, INPUT_RELU>(value, s, t);
        }
        to[(image * TILE_H + line) * TILE_W * (CHUNKS + 1)] = value;
    });
}

#endif

// The chain's weights as rows of filters, in the order of the tile's numbers; rows of no channel are zeros.
DEVICE void copy_weights(uint4* to, const bf16* from, int thread) {
    for (int index = thread; index < TAPS * DEPTH * (FILTERS / 8); index += THREADS) {
        const int row = index / (FILTERS / 8), chunk = index % (FILTERS / 8);
        const int source = weight_row(row);
        copy_async(to + padded<FILTERS / 8>(row, chunk), from + (source >= 0 ? source * FILTERS + chunk * 8 : 0),
                   source >= 0);
    }
}

}  // namespace
