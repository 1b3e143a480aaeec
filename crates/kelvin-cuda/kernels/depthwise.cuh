// Convolutions of every channel by a kernel of its own: sizes, and how they are read. KERNEL is the width of the kernels.

#include "pixel_sums.cuh"

struct DepthwiseSizes {
    u32 input_height;
    u32 input_width;
    u32 output_height;
    u32 output_width;
    u32 channels;
    u32 stride;
    // Zero rows above and columns to the left of the image.
    u32 above;
    u32 left;
    u32 num_images;
    u32 reserved;
};

// A pixel of all images, and a thread's first channel there.
struct Place {
    u32 x, y, image, channel;
};

DEVICE Place place_of(u32 number, u32 height, u32 width, u32 channels) {
    const u32 units = channels / WIDTH, pixel = number / units, line = pixel / width, image = line / height;
    return {pixel - line * width, line - image * height, image, (number - pixel * units) * WIDTH};
}

// Weights of neighbouring channels.
DEVICE Pack load_weights(const element* kernel, u32 tap, u32 channels, u32 channel) {
    return load_pack(kernel, (u64)tap * channels + channel);
}
