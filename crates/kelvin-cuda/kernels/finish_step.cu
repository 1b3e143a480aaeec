// Ends a step of each chain: kinetic sums of the tensors, log β, whether all is finite, and the counters; one block a chain.
//
// ASCENT 1: v_β ← μ·v_β + clip·G_β, log β ← log β + ℓ·v_β. A chain whose norm, kinetic sums or log β are no numbers stops
// where it is. Reads a number for each block, a warp a tensor. Specification: sampler/langevin.rs, joint_ascent.rs, population.rs.

#include "tensor_sums.cuh"

struct FinishStepArguments {
    const TensorBlocks* tensors;
    ChainCell* cells;
    const StepNumbers* steps;
    // [chain][block]: Σ m²/M.
    const double* kinetic;
    // [chain][tensor]: that of the last step, and the sum over steps after the burn-in.
    double* last_kinetic;
    double* kinetic_sums;
    // [chain]: Σ log p and Σ ∂/∂log β.
    const double* sums;
    double clip_norm;
    double momentum;
    LogBetaRule log_beta;
    u64 burn_in;
    u32 num_tensors;
    u32 num_blocks;
    u32 num_rows;
    u32 clips_all;
};

extern "C" __global__ void finish_step(const FinishStepArguments arguments) {
    const u32 chain = blockIdx.y;
    ChainCell& cell = arguments.cells[chain];
    if (cell.stopped) return;
    bool finite = is_number(cell.norm);
#if ASCENT
    if (threadIdx.x == 0) {
        const double clip = arguments.clips_all ? clip_factor(cell.norm, arguments.clip_norm) : 1.0;
        const double of_likelihood = cell.likelihood_weight * arguments.sums[2 * chain + 1];
        const double gradient = log_beta_gradient(arguments.log_beta, cell.log_beta, of_likelihood);
        const double rate = arguments.steps[(u64)chain * arguments.num_rows + cell.row].drift;
        cell.log_beta_velocity = arguments.momentum * cell.log_beta_velocity + clip * gradient;
        cell.log_beta += rate * cell.log_beta_velocity;
        cell.log_power = cell.log_beta;
        finite = finite && is_number(cell.log_beta);
    }
#else
    const u64 own = (u64)chain * arguments.num_tensors;
    const double* blocks = arguments.kinetic + (u64)chain * arguments.num_blocks;
    for (u32 tensor = threadIdx.x / 32; tensor < arguments.num_tensors; tensor += blockDim.x / 32) {
        const double sum = tensor_sum(arguments.tensors[tensor], blocks);
        if (threadIdx.x % 32 == 0) arguments.last_kinetic[own + tensor] = sum;
        finite = finite && is_number(sum);
    }
#endif
    const bool all_finite = __syncthreads_and(finite);
    if (!all_finite) {
        if (threadIdx.x == 0) cell.stopped = 2;
        return;
    }
#if !ASCENT
    if (cell.step >= arguments.burn_in) {
        for (u32 tensor = threadIdx.x; tensor < arguments.num_tensors; tensor += blockDim.x) {
            arguments.kinetic_sums[own + tensor] += arguments.last_kinetic[own + tensor];
        }
    }
    // All have read the step.
    __syncthreads();
#endif
    if (threadIdx.x == 0) {
        if (cell.step >= arguments.burn_in) cell.num_readings += 1;
        cell.step += 1;
        cell.row += 1;
    }
}
