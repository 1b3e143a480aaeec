// Augmentation of images: whether and how the image at a place of a batch is flipped and cropped, and where a pixel is.
//
// Specification: kelvin::data::augment. Block `position` of the key decides all about the image at that place.

#include "philox.cuh"

// Rows and columns of zeros around an image before it is cropped.
#define AUGMENT_PADDING 4

// Where the crop of one image lies, and whether the image is flipped; top and left are 0 to 8.
struct Placement {
    u32 flip;
    u32 top;
    u32 left;
};

// The image as it is.
DEVICE Placement plain_placement() { return Placement{0, AUGMENT_PADDING, AUGMENT_PADDING}; }

// What becomes of the image at `position`; `threshold` is ⌊strength · 2³²⌋.
DEVICE Placement placement_at(const NoiseKey& name, u32 position, u64 threshold) {
    const uint4 words = random_words(name, position);
    if (words.x >= threshold) return plain_placement();
    const u32 places = 2 * AUGMENT_PADDING + 1;
    return Placement{words.y >> 31, __umulhi(words.z, places), __umulhi(words.w, places)};
}

// Which pixel of the image becomes pixel (row, column): row · width + column of it, or −1 where there is a zero.
DEVICE int source_pixel(const Placement& placement, u32 row, u32 column, u32 height, u32 width) {
    // What lies above or left of the image wraps round and is too large.
    const u32 from_row = row + placement.top - AUGMENT_PADDING;
    const u32 from_column = column + placement.left - AUGMENT_PADDING;
    if (from_row >= height || from_column >= width) return -1;
    return (int)(from_row * width + (placement.flip ? width - 1 - from_column : from_column));
}

// A byte of an image as a network reads it: byte / 255. The remainder makes the product with 1/255 the quotient, exactly
// rounded for each of the 256 bytes.
DEVICE float scaled_byte(u8 byte) {
    const float number = (float)byte, inverse = 1.0f / 255.0f, quotient = __fmul_rn(number, inverse);
    return __fmaf_rn(__fmaf_rn(-quotient, 255.0f, number), inverse, quotient);
}
