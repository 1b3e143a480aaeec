// What the device knows of a chain beside its numbers, and how the parameter vector is cut into blocks.

#include "gpu.cuh"

struct ChainCell {
    // What the sum of gradients is multiplied by: −w for an energy, 1 for an ascent.
    double gradient_scale;
    // w: what the log-likelihood of a batch counts for.
    double likelihood_weight;
    // β of the tempered likelihood.
    double inverse_temperature;
    double log_beta;
    double log_beta_velocity;
    // The norm that was compared with the limit at the last step.
    double norm;
    u64 step;
    // Readings of the kinetic temperature among the sums.
    u64 num_readings;
    u32 id;
    // 0 while it moves, 1 if it was stopped, 2 if it left the finite numbers.
    u32 stopped;
    // The next row of its table of step numbers.
    u32 row;
    // The next batch of an estimate of masses.
    u32 mass_batch;
};

// Schedules already read: h or the learning rate, the share of momentum that is kept, T of the noise.
struct StepNumbers {
    double step_size;
    double retained_momentum;
    double temperature;
};

// A piece of one tensor, at most 1024 parameters that lie within 1024 from a multiple of 1024.
struct ParameterBlock {
    u32 tensor;
    u32 first;
    u32 len;
    // Where the tensor begins.
    u32 tensor_first;
};

// Blocks of a tensor.
struct TensorBlocks {
    u32 first;
    u32 count;
};

#define THREADS 256

// The sum over a block of THREADS threads in every thread, always in the same order.
DEVICE double block_sum(double value, double* scratch) {
    __syncthreads();
    scratch[threadIdx.x] = value;
    for (u32 half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
    }
    __syncthreads();
    return scratch[0];
}

// The sum of `count` numbers in every thread of a block, always in the same order.
DEVICE double sum_of(const double* numbers, u32 count, double* scratch) {
    double sum = 0.0;
    for (u32 at = threadIdx.x; at < count; at += THREADS) sum += numbers[at];
    return block_sum(sum, scratch);
}

DEVICE bool is_number(double value) { return value - value == 0.0; }

// What a norm must be multiplied by so as not to exceed the limit.
DEVICE double clip_factor(double norm, double limit) { return norm < limit ? 1.0 : limit / norm; }
