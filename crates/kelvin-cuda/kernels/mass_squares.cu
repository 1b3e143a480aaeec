// Adds Σ g² of each tensor of a batch to the estimate of its mass, and names the next batch; one block a chain.
//
// Reads a number for each block. Specification: sampler/mass.rs (LayerwiseMass::update).

#include "tensor_sums.cuh"

struct MassSquaresArguments {
    const TensorBlocks* tensors;
    ChainCell* cells;
    // [chain][block].
    const double* squares;
    // [chain][tensor].
    double* totals;
    u32 num_tensors;
    u32 num_blocks;
    // After so many batches the names begin anew.
    u32 num_batches;
    u32 reserved;
};

extern "C" __global__ void mass_squares(const MassSquaresArguments arguments) {
    const u32 chain = blockIdx.y;
    const double* blocks = arguments.squares + (u64)chain * arguments.num_blocks;
    for (u32 tensor = threadIdx.x / 32; tensor < arguments.num_tensors; tensor += blockDim.x / 32) {
        const double sum = tensor_sum(arguments.tensors[tensor], blocks);
        if (threadIdx.x % 32 == 0) arguments.totals[(u64)chain * arguments.num_tensors + tensor] += sum;
    }
    if (threadIdx.x == 0) {
        ChainCell& cell = arguments.cells[chain];
        cell.mass_batch = (cell.mass_batch + 1) % arguments.num_batches;
    }
}
