// A step of the joint ascent in θ; that in log β follows in finish_step. One block a parameter block.
//
//   v ← μ·v + w·clip·Σ∇log p      θ ← (1 − ℓλ)·θ + ℓ·v
//
// Reads the gradient, θ and v, writes θ, v and (HALF 1) the bf16 copy. Specification: sampler/joint_ascent.rs.

#include "chain.cuh"

struct AscentArguments {
    const ParameterBlock* blocks;
    float* positions;
    float* momenta;
    const float* gradients;
    bf16* weights;
    ChainCell* cells;
    const StepNumbers* steps;
    const double* squares;
    // [chain]: Σ log p and Σ ∂/∂log β.
    const double* sums;
    double clip_norm;
    double momentum;
    double weight_decay;
    u64 parameter_stride;
    u32 num_blocks;
    u32 num_rows;
    // Whether the norm is that of θ and log β together.
    u32 clips_all;
    u32 reserved;
};

extern "C" __global__ void ascent(const AscentArguments arguments) {
    SHARED_MEMORY(shared);
    u32 chain = blockIdx.y;
    ChainCell& cell = arguments.cells[chain];
    if (cell.stopped) return;
    ParameterBlock block = arguments.blocks[blockIdx.x];
    double weight = cell.likelihood_weight, log_beta_gradient = weight * arguments.sums[2 * chain + 1];
    const double* of_chain = arguments.squares + (u64)chain * arguments.num_blocks;
    double squares = weight * weight * sum_of(of_chain, arguments.num_blocks, (double*)shared);
    if (arguments.clips_all) squares += log_beta_gradient * log_beta_gradient;
    double norm = sqrt(squares);
    if (blockIdx.x == 0 && threadIdx.x == 0) cell.norm = norm;
    double rate = arguments.steps[(u64)chain * arguments.num_rows + cell.row].step_size;
    float keep = (float)arguments.momentum, kick = (float)(weight * clip_factor(norm, arguments.clip_norm));
    float decay = (float)(1.0 - rate * arguments.weight_decay), drift = (float)rate;
    for (u32 at = threadIdx.x; at < block.len; at += THREADS) {
        u64 place = chain * arguments.parameter_stride + block.first + at;
        float v = fmaf(kick, arguments.gradients[place], keep * arguments.momenta[place]);
        float theta = fmaf(drift, v, decay * arguments.positions[place]);
        arguments.momenta[place] = v;
        arguments.positions[place] = theta;
#if HALF
        arguments.weights[place] = to_bf16(theta);
#endif
    }
}
