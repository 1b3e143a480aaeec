// The backward pass of an activation, one thread WIDTH numbers: x = f'(u)·dV.
//
// Reads value and gradient once, writes once. Specification: network/activation.rs (times_slope).

#include "activation.cuh"

struct ActivationBackwardArguments {
    Upstream output;
    Reading input;
    Downstream to;
    u32 by;
    u32 reserved;
};

extern "C" __global__ void activation_backward(const ActivationBackwardArguments arguments) {
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y, number = (blockIdx.x * blockDim.x + threadIdx.x) * WIDTH;
    if (number >= input.num_images * input.len) return;
    const Pack x = read_pack(input, chain, number);
    Pack term = upstream_pack(arguments.output, chain, number);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) term.of[i] *= activation_slope(arguments.by, x.of[i]);
    downstream_pack(arguments.to, input, chain, number, term);
}
