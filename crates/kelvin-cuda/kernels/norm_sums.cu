// Σ D and Σ D·ẑ of each channel over parts of a batch, for batch norms whose D no kernel summed in passing.
//
// Part p holds pixels p·rows_per_part and on: [chain][part][channel] {Σ D, Σ D·ẑ}. Reads value and gradient once.
// Specification: network/images/reading.rs (add_sums).

#include "reading.cuh"

struct NormSumsArguments {
    const element* values;
    const element* gradient;
    const float* norm;
    float* parts;
    u32 num_pixels;
    u32 channels;
    u32 num_parts;
    u32 rows_per_part;
};

extern "C" __global__ void norm_sums(const NormSumsArguments arguments) {
    u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channels = arguments.channels;
    if (number >= arguments.num_parts * channels) return;
    u32 channel = number % channels, part = number / channels;
    u32 first = part * arguments.rows_per_part, end = first + arguments.rows_per_part;
    if (end > arguments.num_pixels) end = arguments.num_pixels;
    const float* norm = arguments.norm + (u64)chain * 4 * channels + channel;
    float mean = norm[2 * channels], inverse_std = norm[3 * channels];
    u64 start = (u64)chain * arguments.num_pixels * channels + channel;
    double sum = 0.0, product = 0.0;
    for (u32 pixel = first; pixel < end; pixel++) {
        u64 at = start + (u64)pixel * channels;
        float gradient = load_element(arguments.gradient, at);
        sum += gradient;
        product += (double)gradient * ((load_element(arguments.values, at) - mean) * inverse_std);
    }
    u64 to = 2 * ((u64)chain * arguments.num_parts * channels + number);
    arguments.parts[to] = (float)sum;
    arguments.parts[to + 1] = (float)product;
}
