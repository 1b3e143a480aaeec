// From the parts' means and spreads, or from running statistics, to how a batch norm is read; one block eight channels.
//
//   training    mean, var of the batch     inference   mean = m − b (the bias that was not added), var = v
//   s = γ/√(var + ε)   t = β − s·mean      running: m, v move by 1 − momentum towards mean + b and var
//
// Reads the parts twice, in f64. Specification: network/images/batch_norm.rs (train, infer, update).

#include "chain.cuh"
#include "part_sums.cuh"

struct NormFinaliseArguments {
    // [chain][part][channel] {mean, Σ (z − mean)²}; null in inference mode.
    const float* parts;
    // [chain][4][channel]: s, t, mean, 1/√(var + ε).
    float* norm;
    // Of the first chain; null where no convolution stands before the norm.
    const float* bias;
    const float* gamma;
    const float* beta;
    float* running_mean;
    float* running_variance;
    const ChainCell* cells;
    double momentum;
    double epsilon;
    u64 parameter_stride;
    u64 statistics_stride;
    u32 channels;
    u32 num_parts;
    u32 rows_per_part;
    u32 num_pixels;
    // Whether running statistics move; those of a chain at rest never do.
    u32 moves;
    u32 reserved;
};

extern "C" __global__ void norm_finalise(const NormFinaliseArguments arguments) {
    SHARED_MEMORY(shared);
    double* scratch = (double*)shared;
    u32 chain = blockIdx.y, channel = part_channel(), channels = arguments.channels;
    bool exists = channel < channels;
    double mean = 0.0, variance = 0.0;
    if (arguments.parts) {
        u32 rows_per_part = arguments.rows_per_part;
        const float* parts = arguments.parts + 2 * ((u64)chain * arguments.num_parts * channels + channel);
        for (u32 part = part_lane(); exists && part < arguments.num_parts; part += PART_LANES) {
            double rows = min(arguments.num_pixels - part * rows_per_part, rows_per_part);
            mean += rows * parts[2 * (u64)part * channels];
        }
        mean = sum_lanes(mean, scratch) / arguments.num_pixels;
        for (u32 part = part_lane(); exists && part < arguments.num_parts; part += PART_LANES) {
            double rows = min(arguments.num_pixels - part * rows_per_part, rows_per_part);
            double difference = parts[2 * (u64)part * channels] - mean;
            variance += parts[2 * (u64)part * channels + 1] + rows * difference * difference;
        }
        variance = sum_lanes(variance, scratch) / arguments.num_pixels;
    }
    if (!exists || part_lane() != 0) return;
    u64 parameter = chain * arguments.parameter_stride + channel;
    u64 statistic = chain * arguments.statistics_stride + channel;
    float* running_mean = arguments.running_mean + statistic;
    float* running_variance = arguments.running_variance + statistic;
    double bias = arguments.bias ? arguments.bias[parameter] : 0.0;
    if (!arguments.parts) {
        mean = *running_mean - bias;
        variance = *running_variance;
    } else if (arguments.moves && !arguments.cells[chain].stopped) {
        double keep = arguments.momentum;
        *running_mean = (float)(keep * *running_mean + (1.0 - keep) * (mean + bias));
        *running_variance = (float)(keep * *running_variance + (1.0 - keep) * variance);
    }
    double inverse_std = 1.0 / sqrt(variance + arguments.epsilon);
    double scale = arguments.gamma[parameter] * inverse_std;
    float* norm = arguments.norm + (u64)chain * 4 * channels + channel;
    norm[0] = (float)scale;
    norm[channels] = (float)(arguments.beta[parameter] - scale * mean);
    norm[2 * channels] = (float)mean;
    norm[3 * channels] = (float)inverse_std;
}
