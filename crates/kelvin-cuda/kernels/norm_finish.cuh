// What follows from the parts' sums of a batch norm, on the way forward and back: worked out by the last block of a
// chain that leaves a part, or by a kernel of its own.
//
//   forward   training    mean, var of the batch     inference   mean = m − b (the bias that was not added), var = v
//             s = γ/√(var + ε)   t = β − s·mean      running: m, v move by 1 − momentum towards mean + b and var
//   back      dV = a·D + b·V + c     training    a = s   b = −s·r·Σ(D·ẑ)/N   c = −s·ΣD/N − b·mean      r = 1/√(var + ε)
//                                    inference   a = s   b = c = 0
//             ∂γ = Σ D·ẑ   ∂β = Σ D   ∂(bias before it) = 0 in training, s·ΣD in inference
//
// Reads the parts once, in f64, always in the same order. Specification: network/images/batch_norm.rs (train, infer,
// update, turn_back).

#include "cell.cuh"

struct NormFinish {
    // [chain][part][channel] {mean, Σ (z − mean)²}; null in inference mode.
    const float2* parts;
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

struct NormBackwardFinish {
    // [chain][part][channel] {Σ D, Σ D·ẑ}.
    const float2* parts;
    const float* norm;
    // [chain][3][channel]: a, b, c.
    float* slopes;
    // [chain][channel] each; that of the bias is null where there is none.
    float* gamma_gradient;
    float* beta_gradient;
    float* bias_gradient;
    u32 channels;
    u32 num_parts;
    u32 num_pixels;
    u32 training;
};

// Whether this block is the last of `count` of its chain to come here, so that it can read (by __ldcg) what all have
// written before. The ticket is 0 again afterwards. `flag` lies in shared memory.
DEVICE bool is_last_block(u32* ticket, u32 count, u32* flag) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) *flag = atomicInc(ticket, count - 1) == count - 1;
    __syncthreads();
    __threadfence();
    return *flag;
}

// Channels that a block finishes at a time, the other threads being their lanes: a power of 2.
DEVICE u32 channels_together(u32 channels) {
    u32 together = 8;
    while (together < channels && together < 64) together *= 2;
    return together;
}

// The sum over the lanes of this thread's channel, in every lane.
DEVICE double sum_lanes(double value, double* scratch, u32 together) {
    __syncthreads();
    scratch[threadIdx.x] = value;
    for (u32 half = blockDim.x / 2; half >= together; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
    }
    __syncthreads();
    return scratch[threadIdx.x % together];
}

// Channels `first` to `first + together`, by a whole block; `scratch` has a number for each thread.
DEVICE void finish_norm(const NormFinish& of, u32 chain, u32 first, u32 together, double* scratch) {
    const u32 channels = of.channels, channel = first + threadIdx.x % together, lane = threadIdx.x / together;
    const bool exists = channel < channels;
    double mean = 0.0, variance = 0.0;
    if (of.parts) {
        const float2* parts = of.parts + (u64)chain * of.num_parts * channels + channel;
        double sum = 0.0, squares = 0.0;
#pragma unroll 4
        for (u32 part = lane; part < of.num_parts; part += blockDim.x / together) {
            if (!exists) break;
            const float2 own = __ldcg(parts + part * channels);
            const double rows = min(of.num_pixels - part * of.rows_per_part, of.rows_per_part), center = own.x;
            sum += rows * center;
            squares += own.y + rows * center * center;
        }
        mean = sum_lanes(sum, scratch, together) / of.num_pixels;
        const double spread = sum_lanes(squares, scratch, together) / of.num_pixels - mean * mean;
        variance = spread < 0.0 ? 0.0 : spread;
    }
    if (!exists || lane != 0) return;
    const u64 parameter = chain * of.parameter_stride + channel, statistic = chain * of.statistics_stride + channel;
    float *running_mean = of.running_mean + statistic, *running_variance = of.running_variance + statistic;
    const double bias = of.bias ? of.bias[parameter] : 0.0;
    if (!of.parts) {
        mean = *running_mean - bias;
        variance = *running_variance;
    } else if (of.moves && !of.cells[chain].stopped) {
        const double keep = of.momentum;
        *running_mean = (float)(keep * *running_mean + (1.0 - keep) * (mean + bias));
        *running_variance = (float)(keep * *running_variance + (1.0 - keep) * variance);
    }
    const double inverse_std = 1.0 / sqrt(variance + of.epsilon), scale = of.gamma[parameter] * inverse_std;
    float* norm = of.norm + (u64)chain * 4 * channels + channel;
    norm[0] = (float)scale;
    norm[channels] = (float)(of.beta[parameter] - scale * mean);
    norm[2 * channels] = (float)mean;
    norm[3 * channels] = (float)inverse_std;
}

// The same on the way back.
DEVICE void finish_norm_backward(const NormBackwardFinish& of, u32 chain, u32 first, u32 together, double* scratch) {
    const u32 channels = of.channels, channel = first + threadIdx.x % together, lane = threadIdx.x / together;
    const bool exists = channel < channels;
    const float2* parts = of.parts + (u64)chain * of.num_parts * channels + channel;
    double sum = 0.0, product = 0.0;
#pragma unroll 4
    for (u32 part = lane; part < of.num_parts; part += blockDim.x / together) {
        if (!exists) break;
        const float2 own = __ldcg(parts + part * channels);
        sum += own.x, product += own.y;
    }
    sum = sum_lanes(sum, scratch, together);
    product = sum_lanes(product, scratch, together);
    if (!exists || lane != 0) return;
    const float* norm = of.norm + (u64)chain * 4 * channels + channel;
    const double scale = norm[0], mean = norm[2 * channels], inverse_std = norm[3 * channels];
    double b = 0.0, c = 0.0;
    if (of.training) {
        b = -scale * inverse_std * product / of.num_pixels;
        c = -scale * sum / of.num_pixels - b * mean;
    }
    float* slopes = of.slopes + (u64)chain * 3 * channels + channel;
    slopes[0] = norm[0];
    slopes[channels] = (float)b;
    slopes[2 * channels] = (float)c;
    const u64 to = (u64)chain * channels + channel;
    of.gamma_gradient[to] = (float)product;
    of.beta_gradient[to] = (float)sum;
    if (of.bias_gradient) of.bias_gradient[to] = of.training ? 0.0f : (float)(scale * sum);
}

// Every channel, by the block that is the last of its chain.
DEVICE void finish_whole_norm(const NormFinish& of, u32 chain, double* scratch) {
    const u32 together = channels_together(of.channels);
    for (u32 first = 0; first < of.channels; first += together) finish_norm(of, chain, first, together, scratch);
}
DEVICE void finish_whole_norm_backward(const NormBackwardFinish& of, u32 chain, double* scratch) {
    const u32 together = channels_together(of.channels);
    for (u32 first = 0; first < of.channels; first += together)
        finish_norm_backward(of, chain, first, together, scratch);
}
