// Hands dV of a sum or copy to one of its terms; one thread WIDTH numbers. Reads and writes a gradient once.
//
// Specification: network/images/backward.rs (give_gradient).

#include "pack.cuh"

struct GiveGradientArguments {
    Upstream output;
    Reading input;
    Downstream to;
};

extern "C" __global__ void give_gradient(const GiveGradientArguments arguments) {
    const Reading& input = arguments.input;
    u32 chain = blockIdx.y, number = (blockIdx.x * blockDim.x + threadIdx.x) * WIDTH;
    if (number >= input.num_images * input.len) return;
    downstream_pack(arguments.to, input, chain, number, upstream_pack(arguments.output, chain, number));
}
