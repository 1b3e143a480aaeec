// Hands dV of a sum or copy to one of its terms; one thread a number. Reads and writes a gradient once.
//
// Specification: network/images/backward.rs (give_gradient).

#include "reading.cuh"

struct GiveGradientArguments {
    Upstream output;
    Reading input;
    Downstream to;
};

extern "C" __global__ void give_gradient(const GiveGradientArguments arguments) {
    const Reading& input = arguments.input;
    u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= input.num_images * input.len) return;
    downstream(arguments.to, input, chain, number, upstream(arguments.output, chain, number));
}
