// Rescales the momenta of each tensor where its mass has changed: m ← √(M_new/M_old)·m; one block a parameter block.
//
// Reads and writes m once. Specification: sampler/chain.rs (set_mass).

#include "chain.cuh"

struct ScaleMomentaArguments {
    const ParameterBlock* blocks;
    float* momenta;
    // [chain][tensor].
    const float* factors;
    u64 parameter_stride;
    u32 num_tensors;
    u32 reserved;
};

extern "C" __global__ void scale_momenta(const ScaleMomentaArguments arguments) {
    u32 chain = blockIdx.y;
    ParameterBlock block = arguments.blocks[blockIdx.x];
    float factor = arguments.factors[(u64)chain * arguments.num_tensors + block.tensor];
    for (u32 at = threadIdx.x; at < block.len; at += THREADS) {
        arguments.momenta[chain * arguments.parameter_stride + block.first + at] *= factor;
    }
}
