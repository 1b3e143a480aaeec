// The sizes of a convolution. A dense layer is one whose kernel has the size of its input and that writes one pixel.

#include "reading.cuh"

struct ConvSizes {
    u32 input_height;
    u32 input_width;
    u32 channels;
    u32 output_height;
    u32 output_width;
    u32 filters;
    u32 kernel_height;
    u32 kernel_width;
    u32 stride;
    // Zero rows above and columns to the left of the image.
    u32 above;
    u32 left;
    u32 num_images;
};
