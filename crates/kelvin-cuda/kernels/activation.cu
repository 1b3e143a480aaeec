// An activation, one thread WIDTH numbers: y = f(u).
//
// Reads and writes the value once. Specification: network/activation.rs (activate).

#include "activation.cuh"

struct ActivationArguments {
    Reading input;
    element* output;
    u32 by;
    u32 reserved;
};

extern "C" __global__ void activation(const ActivationArguments arguments) {
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y, number = (blockIdx.x * blockDim.x + threadIdx.x) * WIDTH;
    if (number >= input.num_images * input.len) return;
    Pack x = read_pack(input, chain, number);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) x.of[i] = activated(arguments.by, x.of[i]);
    store_pack(arguments.output, (u64)chain * input.num_images * input.len + number, x);
}
