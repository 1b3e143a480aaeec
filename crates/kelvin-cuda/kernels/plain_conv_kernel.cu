// The gradient of a kernel over some of the images, one thread a number: Σ over images and pixels of u·dV.
//
// Split s of a chain sums images s·images_per_split and on; the sums go to [chain][split][row][column][channel][filter].
// A line is summed in f32, lines in f64. Specification: network/images/convolution.rs (add_kernel_sums), dense.rs.

#include "conv.cuh"

struct PlainConvKernelArguments {
    Upstream output;
    Reading input;
    float* sums;
    u32 num_splits;
    u32 images_per_split;
    ConvSizes sizes;
};

extern "C" __global__ void plain_conv_kernel(const PlainConvKernelArguments arguments) {
    const ConvSizes& sizes = arguments.sizes;
    u32 chain = blockIdx.y, split = blockIdx.z, number = blockIdx.x * blockDim.x + threadIdx.x;
    u32 count = sizes.kernel_height * sizes.kernel_width * sizes.channels * sizes.filters;
    if (number >= count) return;
    u32 filter = number % sizes.filters, rest = number / sizes.filters;
    u32 channel = rest % sizes.channels, tap = rest / sizes.channels;
    u32 i = tap / sizes.kernel_width, j = tap % sizes.kernel_width;
    u32 first = split * arguments.images_per_split;
    u32 end = first + arguments.images_per_split;
    if (end > sizes.num_images) end = sizes.num_images;
    double sum = 0.0;
    for (u32 image = first; image < end; image++) {
        for (u32 y = 0; y < sizes.output_height; y++) {
            u32 from_y = y * sizes.stride + i - sizes.above;
            if (from_y >= sizes.input_height) continue;
            float line = 0.0f;
            for (u32 x = 0; x < sizes.output_width; x++) {
                u32 from_x = x * sizes.stride + j - sizes.left;
                if (from_x >= sizes.input_width) continue;
                u32 from = ((image * sizes.input_height + from_y) * sizes.input_width + from_x) * sizes.channels + channel;
                u32 to = ((image * sizes.output_height + y) * sizes.output_width + x) * sizes.filters + filter;
                float gradient = upstream(arguments.output, chain, to);
                line = fmaf(read_value(arguments.input, chain, from), gradient, line);
            }
            sum += line;
        }
    }
    arguments.sums[((u64)chain * arguments.num_splits + split) * count + number] = (float)sum;
}
