// A convolution or dense layer, one thread a number: z = b + Σ over taps and channels of k·u.
//
// Reads a kernel and its window of u for each number; nothing is shared but by caches. The specification is
// network/images/convolution.rs (ConvForward) and dense.rs; SINGLE_OUTPUT 1 writes f32 whatever the elements are.

#include "conv.cuh"

struct PlainConvArguments {
    Reading input;
    // [row][column][channel][filter] of the first chain.
    const element* kernel;
    // Null where a norm follows, which would take it away again.
    const float* bias;
    void* output;
    u64 parameter_stride;
    ConvSizes sizes;
};

extern "C" __global__ void plain_conv(const PlainConvArguments arguments) {
    const ConvSizes& sizes = arguments.sizes;
    u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    u32 count = sizes.num_images * sizes.output_height * sizes.output_width * sizes.filters;
    if (number >= count) return;
    u32 filter = number % sizes.filters, pixel = number / sizes.filters;
    u32 x = pixel % sizes.output_width, line = pixel / sizes.output_width;
    u32 y = line % sizes.output_height, image = line / sizes.output_height;
    u64 parameters = chain * arguments.parameter_stride;
    float sum = arguments.bias ? arguments.bias[parameters + filter] : 0.0f;
    for (u32 i = 0; i < sizes.kernel_height; i++) {
        u32 from_y = y * sizes.stride + i - sizes.above;
        if (from_y >= sizes.input_height) continue;
        for (u32 j = 0; j < sizes.kernel_width; j++) {
            u32 from_x = x * sizes.stride + j - sizes.left;
            if (from_x >= sizes.input_width) continue;
            u32 from = ((image * sizes.input_height + from_y) * sizes.input_width + from_x) * sizes.channels;
            u64 tap = parameters + (u64)(i * sizes.kernel_width + j) * sizes.channels * sizes.filters + filter;
            for (u32 channel = 0; channel < sizes.channels; channel++) {
                float weight = load_element(arguments.kernel, tap + (u64)channel * sizes.filters);
                sum = fmaf(weight, read_value(arguments.input, chain, from + channel), sum);
            }
        }
    }
#if SINGLE_OUTPUT
    ((float*)arguments.output)[(u64)chain * count + number] = sum;
#else
    store_element((element*)arguments.output, (u64)chain * count + number, sum);
#endif
}
