// From running statistics to how a batch norm is read, where no convolution works it out; one block a chain.
//
// Specification: network/images/batch_norm.rs (infer).

#include "norm_finish.cuh"

extern "C" __global__ void norm_finalise(const NormFinish arguments) {
    finish_norm(arguments, blockIdx.y, nullptr, true);
}
