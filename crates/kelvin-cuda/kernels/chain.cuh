// The numbers of a chain's next steps, how the parameter vector is cut into blocks, and sums over a block.

#include "cell.cuh"
#include "threads.cuh"

// What a step multiplies by, for mass 1: kelvin::sampler::Coefficients. Of joint ascent: drift, its learning rate.
struct StepNumbers {
    double keep;
    double kick;
    double drift;
    double heat;
};

// What a joint ascent does with log β: free 1, 0 (it moves by its gradient), held still 0, 0; with a prior 1, its 1/variance.
struct LogBetaRule {
    double likelihood;
    double precision;
    double mean;
};

// ∂/∂log β of the objective, given that of the likelihood.
DEVICE double log_beta_gradient(const LogBetaRule& rule, double log_beta, double of_likelihood) {
    return rule.likelihood * of_likelihood - rule.precision * (log_beta - rule.mean);
}

// Parameters of a block that a thread takes.
#define PARAMETERS_OF_A_THREAD 8

// A piece of one tensor, at most 8·THREADS parameters that lie between two neighbouring multiples of 8·THREADS.
struct ParameterBlock {
    u32 tensor;
    u32 first;
    u32 len;
    // Where the tensor begins.
    u32 tensor_first;
    // Whether the prior says anything of the tensor.
    u32 has_prior;
};

// The partial sums of a tensor's gradient: [chain][split][number].
struct GradientSource {
    const float* sums;
    u32 num_splits;
    u32 len;
};

// Blocks of a tensor.
struct TensorBlocks {
    u32 first;
    u32 count;
};

// The sum over a warp in every lane, always in the same order.
DEVICE double warp_sum(double value) {
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
    return value;
}

// The sum over a block in every thread, always in the same order; `scratch` has a number for each warp.
DEVICE double block_sum(double value, double* scratch) {
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    double sum = scratch[0];
    for (u32 warp = 1; warp < blockDim.x / 32; warp++) sum += scratch[warp];
    return sum;
}

DEVICE bool is_number(double value) { return value - value == 0.0; }

// What a norm must be multiplied by so as not to exceed the limit.
DEVICE double clip_factor(double norm, double limit) { return norm < limit ? 1.0 : limit / norm; }
