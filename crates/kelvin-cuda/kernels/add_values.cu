// The sum of what readers of two values see, or what readers of one see; one thread a number.
//
// Reads each value once. Specification: network/images/reading.rs (add_readings).

#include "reading.cuh"

struct AddValuesArguments {
    Reading left;
    // Its values are null for a copy.
    Reading right;
    element* output;
};

extern "C" __global__ void add_values(const AddValuesArguments arguments) {
    const Reading& left = arguments.left;
    u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= left.num_images * left.len) return;
    float sum = read_value(left, chain, number);
    if (arguments.right.values) sum += read_value(arguments.right, chain, number);
    store_element(arguments.output, (u64)chain * left.num_images * left.len + number, sum);
}
