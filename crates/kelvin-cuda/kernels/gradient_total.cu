// Adds up the partial sums of each tensor's gradient, weighs them and adds the prior's; one block a parameter block.
//
//   g = scale·Σ over splits + θ/σ_p²       Σ g² of the block, for the norm
//
// Reads each partial sum once, in their order. Specification: potential.rs (evaluate), prior.rs (add_energy_gradient).

#include "chain.cuh"

// The partial sums of a tensor: [chain][split][number].
struct GradientSource {
    const float* sums;
    u32 num_splits;
    u32 len;
};

struct GradientTotalArguments {
    const ParameterBlock* blocks;
    const GradientSource* sources;
    const float* positions;
    float* gradients;
    const ChainCell* cells;
    // [chain][block].
    double* squares;
    u64 parameter_stride;
    float inverse_variance;
    u32 num_blocks;
    // Whether to add to the sum of the passes before, and whether this is the last of them.
    u32 adds;
    u32 finishes;
    // Off where there is no pass at all: the prior's gradient alone.
    u32 has_sources;
    u32 reserved;
};

extern "C" __global__ void gradient_total(const GradientTotalArguments arguments) {
    SHARED_MEMORY(shared);
    u32 chain = blockIdx.y;
    ParameterBlock block = arguments.blocks[blockIdx.x];
    GradientSource source = {nullptr, 0, 0};
    if (arguments.has_sources) source = arguments.sources[block.tensor];
    float scale = (float)arguments.cells[chain].gradient_scale;
    double squares = 0.0;
    for (u32 at = threadIdx.x; at < block.len; at += THREADS) {
        u64 place = chain * arguments.parameter_stride + block.first + at;
        float sum = arguments.adds ? arguments.gradients[place] : 0.0f;
        u64 terms = (u64)chain * source.num_splits * source.len + block.first - block.tensor_first + at;
        for (u32 split = 0; split < source.num_splits; split++) sum += source.sums[terms + (u64)split * source.len];
        if (arguments.finishes) sum = fmaf(arguments.inverse_variance, arguments.positions[place], scale * sum);
        arguments.gradients[place] = sum;
        squares += sum * sum;
    }
    if (!arguments.finishes) return;
    squares = block_sum(squares, (double*)shared);
    if (threadIdx.x == 0) arguments.squares[(u64)chain * arguments.num_blocks + blockIdx.x] = squares;
}
