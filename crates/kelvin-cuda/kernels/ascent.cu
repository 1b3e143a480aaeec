// A step of the joint ascent in θ; that in log β follows in finish_step. One block a parameter block.
//
//   v ← μ·v + w·clip·g      θ ← (1 − ℓλ)·θ + ℓ·v      g = Σ∇log p, with the prior's share over w
//
// Reads the gradient, θ and v, writes θ, v and (HALF 1) the bf16 copy: 20 or 22 bytes a parameter.
// Specification: sampler/joint_ascent.rs.

#include "chain.cuh"

struct AscentArguments {
    const ParameterBlock* blocks;
    float* positions;
    float* momenta;
    const float* gradients;
    bf16* weights;
    ChainCell* cells;
    const StepNumbers* steps;
    // [chain]: Σ g².
    const double* square_sums;
    // [chain]: Σ log p and Σ ∂/∂log β.
    const double* sums;
    double clip_norm;
    double momentum;
    double weight_decay;
    LogBetaRule log_beta;
    u64 parameter_stride;
    u32 num_blocks;
    u32 num_rows;
    // Whether the norm is that of θ and log β together.
    u32 clips_all;
    u32 reserved;
};

extern "C" __global__ void ascent(const AscentArguments arguments) {
    const int COUNT = PARAMETERS_OF_A_THREAD;
    const u32 chain = blockIdx.y;
    const ParameterBlock block = arguments.blocks[blockIdx.x];
    const u64 own = chain * arguments.parameter_stride + block.first;
    float *momenta = arguments.momenta + own, *positions = arguments.positions + own;
    float g[COUNT], v[COUNT], theta[COUNT];
    // All numbers are under way before anything is asked of the chain.
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        if (at < block.len) g[i] = arguments.gradients[own + at], v[i] = momenta[at], theta[i] = positions[at];
    }
    ChainCell& cell = arguments.cells[chain];
    if (cell.stopped) return;
    const double weight = cell.likelihood_weight;
    double squares = weight * weight * arguments.square_sums[chain];
    if (arguments.clips_all) {
        const double of_log_beta =
            log_beta_gradient(arguments.log_beta, cell.log_beta, weight * arguments.sums[2 * chain + 1]);
        squares += of_log_beta * of_log_beta;
    }
    const double norm = sqrt(squares);
    if (blockIdx.x == 0 && threadIdx.x == 0) cell.norm = norm;
    const double rate = arguments.steps[(u64)chain * arguments.num_rows + cell.row].drift;
    const float keep = (float)arguments.momentum, kick = (float)(weight * clip_factor(norm, arguments.clip_norm));
    const float decay = (float)(1.0 - rate * arguments.weight_decay), drift = (float)rate;
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const u32 at = i * THREADS + threadIdx.x;
        if (at >= block.len) break;
        const float velocity = fmaf(kick, g[i], keep * v[i]), moved = fmaf(drift, velocity, decay * theta[i]);
        momenta[at] = velocity;
        positions[at] = moved;
#if HALF
        arguments.weights[own + at] = to_bf16(moved);
#endif
    }
}
