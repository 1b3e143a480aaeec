// A convolution as the product of matrices that a block works on: which pixels are its rows, which taps and channels its sum.
//
// The gradient of the input of a convolution with a stride is one convolution of stride 1 for each class of pixels: those
// whose place, counted from the padding's edge, leaves the same remainder divided by the stride, and meets every stride-th tap.

#include "reading.cuh"

// A dense layer is a convolution of one pixel, whose channels are all of its numbers.
struct ConvSizes {
    u32 input_height;
    u32 input_width;
    // Of a group.
    u32 channels;
    u32 output_height;
    u32 output_width;
    // Of a group.
    u32 filters;
    u32 kernel_height;
    u32 kernel_width;
    u32 stride;
    // Zero rows above and columns to the left of the image.
    u32 above;
    u32 left;
    u32 num_images;
    u32 groups;
    u32 reserved;
};

// One of the two directions of an image: what A's rows are, and which lines of the image they meet.
struct Lines {
    u32 rows;   // lines that rows of A are taken from
    int step;   // from the origin of one of them to the next
    int base;   // origin of the first
    int taps;   // lines of taps; tap t meets line origin + DIRECTION·t
    u32 limit;  // lines of what is gathered
    // Of a class: the line of the input that the first row is, and the first tap; STRIDE from there.
    u32 first_line;
    u32 first_tap;
};

// The values of PRODUCT.
#define FORWARD 0
#define INPUT 1
#define WEIGHTS 2
// Whether tap t meets the t-th line behind or before the origin.
constexpr int DIRECTION = PRODUCT == INPUT ? -1 : 1;

DEVICE Lines lines_of(u32 input, u32 output, u32 kernel, u32 stride, u32 before, u32 remainder) {
    Lines of;
    if (PRODUCT != INPUT) {
        of.rows = output, of.step = (int)stride, of.base = -(int)before, of.taps = (int)kernel, of.limit = input;
        of.first_line = of.first_tap = 0;
        return of;
    }
    // The first line whose distance from the padding's edge leaves this remainder.
    of.first_line = (remainder + stride - before % stride) % stride;
    of.first_tap = remainder;
    of.rows = input > of.first_line ? (input - of.first_line + stride - 1) / stride : 0;
    of.step = 1, of.base = (int)((of.first_line + before) / stride);
    of.taps = kernel > remainder ? (int)((kernel - remainder + stride - 1) / stride) : 0;
    of.limit = output;
    return of;
}

// A place along the sum over taps and channels.
struct Walk {
    int tap_y, tap_x;
    u32 channel;

    DEVICE void advance(u32 by, u32 channels, int taps_x) {
        channel += by;
        while (channel >= channels) {
            channel -= channels;
            if (++tap_x == taps_x) tap_x = 0, ++tap_y;
        }
    }
};

// The place `at` of a sum.
DEVICE Walk walk_to(u32 at, u32 channels, int taps_x) {
    const u32 tap = at / channels, of_line = (u32)max(taps_x, 1);
    return {(int)(tap / of_line), (int)(tap % of_line), at - tap * channels};
}

// A pixel among those that are rows of A, or terms of the sum over pixels.
struct Pixel {
    u32 x, y, image;

    // Goes on by another's distance from the first, as far as an image's width and height or less in each direction.
    DEVICE void advance(const Pixel& by, const Lines& vertical, const Lines& horizontal) {
        x += by.x, y += by.y, image += by.image;
        if (x >= horizontal.rows) x -= horizontal.rows, ++y;
        if (y >= vertical.rows) y -= vertical.rows, ++image;
    }
};

DEVICE Pixel pixel_at(u32 number, const Lines& vertical, const Lines& horizontal) {
    const u32 line = number / horizontal.rows, image = line / vertical.rows;
    return {number - line * horizontal.rows, line - image * vertical.rows, image};
}

// Where the window of a pixel begins: a pixel of what is gathered, which may lie outside of it.
struct Origin {
    int y, x;
    // Numbers from the first of the chain's to the pixel's.
    int at;
};

// That of a pixel, `stride` numbers from one to the next; one that is not there has an origin far outside.
DEVICE Origin origin_of(const Pixel& pixel, bool is_there, const Lines& vertical, const Lines& horizontal, u32 stride) {
    Origin origin;
    origin.x = (int)pixel.x * horizontal.step + horizontal.base;
    origin.y = (int)pixel.y * vertical.step + vertical.base;
    origin.at = (((int)pixel.image * (int)vertical.limit + origin.y) * (int)horizontal.limit + origin.x) * (int)stride;
    if (!is_there) origin.y = -(1 << 20);
    return origin;
}

// Whether the tap of a walk meets a pixel, seen from an origin.
DEVICE bool meets(const Origin& origin, const Walk& walk, const Lines& vertical, const Lines& horizontal) {
    const u32 y = (u32)(origin.y + DIRECTION * walk.tap_y), x = (u32)(origin.x + DIRECTION * walk.tap_x);
    return walk.tap_y < vertical.taps && y < vertical.limit && x < horizontal.limit;
}

// Numbers from an origin to what the walk meets.
DEVICE int distance(const Walk& walk, const Lines& horizontal, u32 stride) {
    return DIRECTION * (walk.tap_y * (int)horizontal.limit + walk.tap_x) * (int)stride + (int)walk.channel;
}
