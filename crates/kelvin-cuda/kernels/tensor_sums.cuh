// Sums over the blocks of each tensor, a warp a tensor, always in the same order.

#include "chain.cuh"

// Tensors that are summed at the same time.
#define TENSORS_TOGETHER (THREADS / 32)

// The sum of tensor `first + warp`'s blocks, in lane 0 of the warp; every thread of the block must call it.
DEVICE double tensor_sum(const TensorBlocks* tensors, u32 num_tensors, u32 first, const double* blocks, double* scratch) {
    u32 tensor = first + threadIdx.x / 32, lane = threadIdx.x % 32;
    double sum = 0.0;
    if (tensor < num_tensors) {
        TensorBlocks of = tensors[tensor];
        for (u32 at = lane; at < of.count; at += 32) sum += blocks[of.first + at];
    }
    __syncthreads();
    scratch[threadIdx.x] = sum;
    __syncthreads();
    if (lane == 0) {
        for (u32 other = 1; other < 32; other++) sum += scratch[threadIdx.x + other];
    }
    return sum;
}
