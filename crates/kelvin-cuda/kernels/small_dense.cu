// A dense layer of few units, a warp an image: z = b + Σ k·u. UNITS are known, so that a lane keeps all sums of its inputs.
//
// A block reads its images' values and the kernel once, 256 inputs at a time, the kernel into shared memory.
// SINGLE_OUTPUT 1 writes f32 whatever the elements are. Specification: network/images/dense.rs.

#include "reading.cuh"
#include "threads.cuh"

struct SmallDenseArguments {
    Reading input;
    // [input][unit] of the first chain.
    const element* kernel;
    const float* bias;
    void* output;
    u64 parameter_stride;
};

// Numbers from one input's weights to the next's in shared memory: odd, so that lanes meet different banks.
#define STRIDE (UNITS | 1)
#define INPUTS_OF_A_LANE (THREADS / 32)

extern "C" __global__ void small_dense(const SmallDenseArguments arguments) {
    SHARED_MEMORY(shared);
    float* weights = (float*)shared;
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y, lane = threadIdx.x % 32;
    const u32 image = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    const u64 parameters = chain * arguments.parameter_stride;
    float sums[UNITS] = {};
    for (u32 first = 0; first < input.len; first += THREADS) {
        const u32 count = min(input.len - first, (u32)THREADS);
        // All is under way before anything is waited for.
        float values[INPUTS_OF_A_LANE], staged[UNITS];
        const element* kernel = arguments.kernel + parameters + (u64)first * UNITS;
#pragma unroll
        for (int k = 0; k < UNITS; k++) {
            const u32 at = k * THREADS + threadIdx.x;
            if (at < count * UNITS) staged[k] = load_element(kernel, at);
        }
#pragma unroll
        for (int k = 0; k < INPUTS_OF_A_LANE; k++) {
            const u32 at = k * 32 + lane;
            const bool is_there = at < count && image < input.num_images;
            values[k] = is_there ? read_value(input, chain, image * input.len + first + at) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < UNITS; k++) {
            const u32 at = k * THREADS + threadIdx.x;
            if (at < count * UNITS) weights[at / UNITS * STRIDE + at % UNITS] = staged[k];
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < INPUTS_OF_A_LANE; k++) {
            const u32 at = k * 32 + lane;
            if (at >= count) break;
#pragma unroll
            for (int unit = 0; unit < UNITS; unit++) {
                sums[unit] = fmaf(weights[at * STRIDE + unit], values[k], sums[unit]);
            }
        }
    }
    float own = 0.0f;
#pragma unroll
    for (int unit = 0; unit < UNITS; unit++) {
        const float sum = warp_sum(sums[unit]);
        if (lane == unit) own = sum;
    }
    if (lane >= UNITS || image >= input.num_images) return;
    own += arguments.bias[parameters + lane];
    const u64 place = ((u64)chain * input.num_images + image) * UNITS + lane;
#if SINGLE_OUTPUT
    ((float*)arguments.output)[place] = own;
#else
    store_element((element*)arguments.output, place, own);
#endif
}
