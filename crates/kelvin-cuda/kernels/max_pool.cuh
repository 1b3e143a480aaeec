// Windows of pixels whose maximum is taken; they lie as those of a convolution do.

#include "pack.cuh"

struct Window {
    u32 input_height;
    u32 input_width;
    u32 output_height;
    u32 output_width;
    u32 size;
    u32 stride;
    // Rows above and columns to the left of the image.
    u32 above;
    u32 left;
};

// Part of a direction that a window sees.
struct Seen {
    u32 first;
    u32 end;
};

DEVICE Seen seen_of(u32 at, u32 stride, u32 size, u32 before, u32 limit) {
    const u32 first = at * stride;
    return {first > before ? first - before : 0, min(first + size - before, limit)};
}

// What is not a number is larger than any number.
DEVICE bool is_larger(float value, float maximum) { return value > maximum || value != value; }
