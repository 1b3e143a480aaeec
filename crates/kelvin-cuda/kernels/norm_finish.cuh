// What follows from the parts' sums of a batch norm, forward and backward.
//
// Where a convolution is the first to need it, each of its blocks works it out for itself while its first tile is on
// its way, and the first block of a chain writes it for all who come later. Else it is worked out by the last block of
// a chain that leaves a part, or by a kernel of its own. The same numbers, to the last bit, whoever does it.
//
//   forward   training    mean, var of the batch     inference   mean = m − b (the bias that was not added), var = v
//             s = γ/√(var + ε)   t = β − s·mean      running: m, v move by 1 − momentum towards mean + b and var
//   back      dV = a·D + b·V + c     training    a = s   b = −s·r·Σ(D·ẑ)/N   c = −s·ΣD/N − b·mean      r = 1/√(var + ε)
//                                    inference   a = s   b = c = 0
//             ∂γ = Σ D·ẑ   ∂β = Σ D   ∂(bias before it) = 0 in training, s·ΣD in inference
//
// Reads the parts once a block, in f64, always in the same order, by four lanes a channel. Specification:
// network/images/batch_norm.rs (train, infer, update, turn_back).

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
    // 1/num_pixels: a division of f64 would be a function of its own, around which registers are put away.
    double share;
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
    // [chain][3][channel]: a, b, c; null where a convolution works them out for itself.
    float* slopes;
    // [chain][channel] each; that of the bias is null where there is none.
    float* gamma_gradient;
    float* beta_gradient;
    float* bias_gradient;
    // 1/num_pixels.
    double share;
    u32 channels;
    u32 num_parts;
    u32 training;
    u32 reserved;
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

// Threads that share a channel's parts: few enough that the channels of a convolution have all of theirs in one block.
constexpr u32 PART_LANES = 4;
// Parts that a thread has on their way at the same time.
constexpr u32 PARTS_AT_ONCE = 8;

// `add(part, own)` for the parts of a channel that are this lane's.
template <class Add>
DEVICE void for_parts(const float2* parts, u32 num_parts, u32 channels, const Add& add) {
    for (u32 first = threadIdx.x % PART_LANES; first < num_parts; first += PART_LANES * PARTS_AT_ONCE) {
        float2 own[PARTS_AT_ONCE];
#pragma unroll
        for (u32 i = 0; i < PARTS_AT_ONCE; ++i) {
            const u32 part = first + i * PART_LANES;
            if (part < num_parts) own[i] = __ldcg(parts + part * channels);
        }
#pragma unroll
        for (u32 i = 0; i < PARTS_AT_ONCE; ++i) {
            const u32 part = first + i * PART_LANES;
            if (part < num_parts) add(part, own[i]);
        }
    }
}

// The sum over the lanes of a channel, in every one of them.
DEVICE double sum_lanes(double value) {
#pragma unroll
    for (u32 distance = PART_LANES / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
    return value;
}

// `body(channel, exists)` for every channel, by the lanes of whole warps of this block; where it does not exist, the
// channel is another that does, so that its numbers can be asked for.
template <class Body>
DEVICE void for_channels(u32 channels, const Body& body) {
    for (u32 first = 0; first < channels; first += blockDim.x / PART_LANES) {
        if (first + threadIdx.x / 32 * (32 / PART_LANES) >= channels) break;
        const u32 channel = first + threadIdx.x / PART_LANES;
        body(min(channel, channels - 1), channel < channels);
    }
}

// How a norm is read, by a whole block: s and t for itself, [2][channel], unless `own` is null; and where it `writes`,
// all there is for everyone, of which there is one block a chain.
DEVICE void finish_norm(const NormFinish& of, u32 chain, float* own, bool writes) {
    const u32 channels = of.channels;
    for_channels(channels, [&](u32 channel, bool exists) {
        const u64 parameter = chain * of.parameter_stride + channel, statistic = chain * of.statistics_stride + channel;
        float* const running_mean = of.running_mean + statistic;
        float* const running_variance = of.running_variance + statistic;
        // All at once, before the parts, and whatever will be needed: who waits for one after the other waits long.
        const float gamma = of.gamma[parameter], beta = of.beta[parameter];
        const float old_mean = *running_mean, old_variance = *running_variance;
        const float bias_or_other = (of.bias ? of.bias : of.gamma)[parameter];
        const u32 stopped = of.cells[chain].stopped;
        double mean = 0.0, variance = 0.0;
        if (of.parts) {
            double sum = 0.0, squares = 0.0;
            for_parts(of.parts + (u64)chain * of.num_parts * channels + channel, of.num_parts, channels,
                      [&](u32 part, float2 moments) {
                          const double rows = min(of.num_pixels - part * of.rows_per_part, of.rows_per_part);
                          const double center = moments.x;
                          sum += rows * center;
                          squares += moments.y + rows * center * center;
                      });
            mean = sum_lanes(sum) * of.share;
            const double spread = sum_lanes(squares) * of.share - mean * mean;
            variance = spread < 0.0 ? 0.0 : spread;
        }
        if (!exists || threadIdx.x % PART_LANES != 0) return;
        const double bias = of.bias ? bias_or_other : 0.0f;
        if (!of.parts) {
            mean = old_mean - bias;
            variance = old_variance;
        } else if (writes && of.moves && !stopped) {
            const double keep = of.momentum;
            *running_mean = (float)(keep * old_mean + (1.0 - keep) * (mean + bias));
            *running_variance = (float)(keep * old_variance + (1.0 - keep) * variance);
        }
        const double inverse_std = rsqrt(variance + of.epsilon), scale = gamma * inverse_std;
        const float s = (float)scale, t = (float)(beta - scale * mean);
        if (own) own[channel] = s, own[channels + channel] = t;
        if (!writes) return;
        float* norm = of.norm + (u64)chain * 4 * channels + channel;
        norm[0] = s;
        norm[channels] = t;
        norm[2 * channels] = (float)mean;
        norm[3 * channels] = (float)inverse_std;
    });
}

// The same in the backward pass: a, b and c to `slopes`, [3][channel]; the block that `writes` leaves the parameters'
// gradients.
DEVICE void finish_norm_backward(const NormBackwardFinish& of, u32 chain, float* slopes, bool writes) {
    const u32 channels = of.channels;
    for_channels(channels, [&](u32 channel, bool exists) {
        const float* norm = of.norm + (u64)chain * 4 * channels + channel;
        const float s = norm[0], mean = norm[2 * channels], inverse_std = norm[3 * channels];
        double sum = 0.0, product = 0.0;
        for_parts(of.parts + (u64)chain * of.num_parts * channels + channel, of.num_parts, channels,
                  [&](u32, float2 sums) { sum += sums.x, product += sums.y; });
        sum = sum_lanes(sum);
        product = sum_lanes(product);
        if (!exists || threadIdx.x % PART_LANES != 0) return;
        const double scale = s;
        double b = 0.0, c = 0.0;
        if (of.training) {
            b = -scale * inverse_std * product * of.share;
            c = -scale * sum * of.share - b * mean;
        }
        slopes[channel] = s;
        slopes[channels + channel] = (float)b;
        slopes[2 * channels + channel] = (float)c;
        if (!writes) return;
        const u64 to = (u64)chain * channels + channel;
        of.gamma_gradient[to] = (float)product;
        of.beta_gradient[to] = (float)sum;
        if (of.bias_gradient) of.bias_gradient[to] = of.training ? 0.0f : (float)(scale * sum);
    });
}

// The same by the last block, where it is left to it.
DEVICE void finish_last(const NormBackwardFinish& of, u32 chain) {
    if (of.slopes) finish_norm_backward(of, chain, of.slopes + (u64)chain * 3 * of.channels, true);
}
