// From the parts' means and spreads, or from running statistics, to how a batch norm is read; one thread a channel.
//
//   training    mean, var of the batch     inference   mean = m − b (the bias that was not added), var = v
//   s = γ/√(var + ε)   t = β − s·mean      running: m, v move by 1 − momentum towards mean + b and var
//
// Reads the parts once, in their order, in f64. Specification: network/images/batch_norm.rs (train, infer, update).

#include "chain.cuh"

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
    u32 chain = blockIdx.y, channel = blockIdx.x * blockDim.x + threadIdx.x;
    u32 channels = arguments.channels;
    if (channel >= channels) return;
    u64 parameter = chain * arguments.parameter_stride + channel;
    u64 statistic = chain * arguments.statistics_stride + channel;
    double bias = arguments.bias ? arguments.bias[parameter] : 0.0;
    double mean = 0.0, variance = 0.0;
    if (arguments.parts) {
        double squares = 0.0, count = 0.0;
        for (u32 part = 0; part < arguments.num_parts; part++) {
            u64 from = 2 * (((u64)chain * arguments.num_parts + part) * channels + channel);
            u32 left = arguments.num_pixels - part * arguments.rows_per_part;
            double rows = left < arguments.rows_per_part ? left : arguments.rows_per_part;
            double difference = arguments.parts[from] - mean, together = count + rows;
            squares += arguments.parts[from + 1] + difference * difference * (count * rows / together);
            mean += difference * (rows / together);
            count = together;
        }
        variance = squares / count;
        if (arguments.moves && !arguments.cells[chain].stopped) {
            double keep = arguments.momentum;
            float* running_mean = arguments.running_mean + statistic;
            float* running_variance = arguments.running_variance + statistic;
            *running_mean = (float)(keep * *running_mean + (1.0 - keep) * (mean + bias));
            *running_variance = (float)(keep * *running_variance + (1.0 - keep) * variance);
        }
    } else {
        mean = arguments.running_mean[statistic] - bias;
        variance = arguments.running_variance[statistic];
    }
    double inverse_std = 1.0 / sqrt(variance + arguments.epsilon);
    double scale = arguments.gamma[parameter] * inverse_std;
    float* norm = arguments.norm + (u64)chain * 4 * channels + channel;
    norm[0] = (float)scale;
    norm[channels] = (float)(arguments.beta[parameter] - scale * mean);
    norm[2 * channels] = (float)mean;
    norm[3 * channels] = (float)inverse_std;
}
