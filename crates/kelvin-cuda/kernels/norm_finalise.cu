// From the parts' means and spreads, or from running statistics, to how a batch norm is read, where no kernel did so in
// passing; one block eight channels.
//
// Reads the parts once. Specification: network/images/batch_norm.rs (train, infer, update).

#include "norm_finish.cuh"

#define CHANNELS_TOGETHER 8

extern "C" __global__ void norm_finalise(const NormFinish arguments) {
    SHARED_MEMORY(shared);
    finish_norm(arguments, blockIdx.y, blockIdx.x * CHANNELS_TOGETHER, CHANNELS_TOGETHER, (double*)shared);
}
