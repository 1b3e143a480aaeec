// Sums over the blocks of each tensor, a warp a tensor, always in the same order.

#include "chain.cuh"

// The sum of a tensor's blocks in every lane of the warp.
DEVICE double tensor_sum(const TensorBlocks& of, const double* blocks) {
    double sum = 0.0;
#pragma unroll 4
    for (u32 at = threadIdx.x % 32; at < of.count; at += 32) sum += blocks[of.first + at];
    return warp_sum(sum);
}
