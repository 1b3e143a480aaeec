// The bf16 copy of positions that products read, one thread a number. Reads 4 and writes 2 bytes a parameter.

#include "gpu.cuh"

struct RoundWeightsArguments {
    const float* positions;
    bf16* weights;
    u64 parameter_stride;
};

extern "C" __global__ void round_weights(const RoundWeightsArguments arguments) {
    u64 number = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (number >= arguments.parameter_stride) return;
    u64 place = blockIdx.y * arguments.parameter_stride + number;
    arguments.weights[place] = to_bf16(arguments.positions[place]);
}
