// The images of a batch as a network reads them, flipped and cropped; one thread a number.
//
// BYTES 1: pixels are bytes over 255; else numbers. Reads the pixels and writes the first value once.
// Specification: data/augment.rs (write_augmented), network/images/mod.rs (gather).

#include "augment.cuh"
#include "element.cuh"

struct GatherImagesArguments {
    const void* pixels;
    // [chain][image] each; a placement is flip·256 + top·16 + left, 68 leaves an image as it is.
    const u32* rows;
    const u32* placements;
    element* output;
    u32 height;
    u32 width;
    u32 channels;
    u32 num_images;
    // Numbers from one pixel to the next; what lies between them stays as it is.
    u32 pixel_stride;
    u32 reserved;
};

extern "C" __global__ void gather_images(const GatherImagesArguments arguments) {
    u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    u32 len = arguments.height * arguments.width * arguments.channels;
    if (number >= arguments.num_images * len) return;
    u32 channel = number % arguments.channels, pixel = number / arguments.channels;
    u32 x = pixel % arguments.width, line = pixel / arguments.width;
    u32 y = line % arguments.height, image = line / arguments.height;
    u64 at = (u64)chain * arguments.num_images + image;
    u32 packed = arguments.placements[at];
    Placement placement = {packed >> 8, packed >> 4 & 15, packed & 15};
    int source = source_pixel(placement, y, x, arguments.height, arguments.width);
    float value = 0.0f;
    if (source >= 0) {
        u64 from = (u64)arguments.rows[at] * len + (u32)source * arguments.channels + channel;
#if BYTES
        value = scaled_byte(((const u8*)arguments.pixels)[from]);
#else
        value = ((const float*)arguments.pixels)[from];
#endif
    }
    u64 place = ((u64)chain * arguments.num_images * arguments.height * arguments.width + pixel) * arguments.pixel_stride + channel;
    store_element(arguments.output, place, value);
}
