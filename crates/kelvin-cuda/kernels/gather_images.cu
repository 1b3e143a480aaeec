// The images of a batch as a network reads them, flipped and cropped; one thread a pixel. ROWS 1: rows as they
// are, tables' or those of images that are not augmented; one thread WIDTH numbers (1 or 4, where rows are multiples of 4).
//
// BYTES 1: pixels are bytes over 255; else numbers. Reads the pixels and writes the first value once, a pixel of four bf16
// in one piece.
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
    // Numbers from one pixel to the next, as many as channels, or four of which the last are 0.
    u32 pixel_stride;
    u32 reserved;
};

DEVICE float pixel_number(const void* pixels, u64 at) {
#if BYTES
    return scaled_byte(((const u8*)pixels)[at]);
#else
    return ((const float*)pixels)[at];
#endif
}

#if ROWS

// WIDTH numbers a thread, neighbours of one row.
extern "C" __global__ void gather_images(const GatherImagesArguments arguments) {
    const u32 chain = blockIdx.y, first = (blockIdx.x * blockDim.x + threadIdx.x) * WIDTH, len = arguments.channels;
    const u32 image = first / len, own = first - image * len;
    if (image >= arguments.num_images) return;
    const u64 at = (u64)chain * arguments.num_images + image;
    const u64 from = (u64)arguments.rows[at] * len + own;
#if WIDTH == 4
    float numbers[4];
#if BYTES
    const u32 word = *(const u32*)((const u8*)arguments.pixels + from);
#pragma unroll
    for (int i = 0; i < 4; i++) numbers[i] = scaled_byte((u8)(word >> 8 * i));
#else
    const float4 four = *(const float4*)((const float*)arguments.pixels + from);
    numbers[0] = four.x, numbers[1] = four.y, numbers[2] = four.z, numbers[3] = four.w;
#endif
#if HALF
    *(uint2*)(arguments.output + at * len + own) =
        make_uint2(pack_bf16(numbers[0], numbers[1]), pack_bf16(numbers[2], numbers[3]));
#else
    *(float4*)(arguments.output + at * len + own) = make_float4(numbers[0], numbers[1], numbers[2], numbers[3]);
#endif
#else
    store_element(arguments.output, at * len + own, pixel_number(arguments.pixels, from));
#endif
}

#else

extern "C" __global__ void gather_images(const GatherImagesArguments arguments) {
    const u32 chain = blockIdx.y, pixel = blockIdx.x * blockDim.x + threadIdx.x, channels = arguments.channels;
    const u32 line = pixel / arguments.width, x = pixel - line * arguments.width;
    const u32 image = line / arguments.height, y = line - image * arguments.height;
    if (image >= arguments.num_images) return;
    const u64 at = (u64)chain * arguments.num_images + image;
    const u32 packed = arguments.placements[at], row = arguments.rows[at];
    const u32 num_pixels = arguments.height * arguments.width;
    const Placement placement = {packed >> 8, packed >> 4 & 15, packed & 15};
    const int source = source_pixel(placement, y, x, arguments.height, arguments.width);
    const u64 from = ((u64)row * num_pixels + max(source, 0)) * channels;
    const u64 to = (u64)chain * arguments.num_images * num_pixels + pixel;
    element* output = arguments.output + to * arguments.pixel_stride;
#if HALF
    if (arguments.pixel_stride == 4) {
        float numbers[4] = {};
#pragma unroll
        for (int channel = 0; channel < 4; channel++) {
            if (source >= 0 && channel < channels) numbers[channel] = pixel_number(arguments.pixels, from + channel);
        }
        *(uint2*)output = make_uint2(pack_bf16(numbers[0], numbers[1]), pack_bf16(numbers[2], numbers[3]));
        return;
    }
#endif
    for (u32 channel = 0; channel < channels; channel++) {
        store_element(output, channel, source >= 0 ? pixel_number(arguments.pixels, from + channel) : 0.0f);
    }
}

#endif
