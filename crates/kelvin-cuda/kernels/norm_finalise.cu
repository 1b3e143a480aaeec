// From the parts' means and spreads, or from running statistics, to how a batch norm is read, where no kernel did so in
// passing; one block a chain.
//
// Reads the parts once. Specification: network/images/batch_norm.rs (train, infer, update).

#include "norm_finish.cuh"

extern "C" __global__ void norm_finalise(const NormFinish arguments) {
    finish_norm(arguments, blockIdx.y, nullptr, true);
}
