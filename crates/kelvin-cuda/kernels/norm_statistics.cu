// Mean and spread of each channel over parts of a batch, for batch norms whose value no kernel measured in passing.
//
// Part p holds pixels p·rows_per_part and on: [chain][part][channel] {mean, Σ (z − mean)²}. Reads the value twice.
// Specification: network/images/reading.rs (add_moments).

#include "reading.cuh"

struct NormStatisticsArguments {
    const element* values;
    float* parts;
    u32 num_pixels;
    u32 channels;
    u32 num_parts;
    u32 rows_per_part;
};

extern "C" __global__ void norm_statistics(const NormStatisticsArguments arguments) {
    u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channels = arguments.channels;
    if (number >= arguments.num_parts * channels) return;
    u32 channel = number % channels, part = number / channels;
    u32 first = part * arguments.rows_per_part, end = first + arguments.rows_per_part;
    if (end > arguments.num_pixels) end = arguments.num_pixels;
    u64 start = (u64)chain * arguments.num_pixels * channels + channel;
    double sum = 0.0, squares = 0.0;
    for (u32 pixel = first; pixel < end; pixel++) sum += load_element(arguments.values, start + (u64)pixel * channels);
    double mean = sum / (end - first);
    for (u32 pixel = first; pixel < end; pixel++) {
        double difference = load_element(arguments.values, start + (u64)pixel * channels) - mean;
        squares += difference * difference;
    }
    u64 to = 2 * ((u64)chain * arguments.num_parts * channels + number);
    arguments.parts[to] = (float)mean;
    arguments.parts[to + 1] = (float)squares;
}
