// The sum of what readers of two values see, or what readers of one see; one thread WIDTH numbers.
//
// Reads each value once. Specification: network/images/reading.rs (add_readings).

#include "pack.cuh"

struct AddValuesArguments {
    Reading left;
    // Its values are null for a copy.
    Reading right;
    element* output;
};

extern "C" __global__ void add_values(const AddValuesArguments arguments) {
    const Reading& left = arguments.left;
    u32 chain = blockIdx.y, number = (blockIdx.x * blockDim.x + threadIdx.x) * WIDTH;
    if (number >= left.num_images * left.len) return;
    Pack sum = read_pack(left, chain, number);
    if (arguments.right.values) {
        const Pack term = read_pack(arguments.right, chain, number);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) sum.of[i] += term.of[i];
    }
    store_pack(arguments.output, (u64)chain * left.num_images * left.len + number, sum);
}
