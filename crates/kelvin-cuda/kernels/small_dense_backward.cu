// The whole backward pass of a dense layer of few units, over some of the images: a thread an input, a block a split.
//
//   D of the input: Σ over units of k·dV      of the kernel: Σ over images of u·dV      of the bias: Σ over images of dV
//
// Split s of a chain takes images s·images_per_split and on; the sums go to [chain][split][input][unit] and
// [chain][split][unit]. Reads the input and dV and writes the input's gradient once. Specification: network/images/dense.rs.

#include "reading.cuh"

struct SmallDenseBackwardArguments {
    Upstream output;
    Reading input;
    // Its gradient is null where nobody wants it.
    Downstream to;
    const element* kernel;
    float* kernel_sums;
    float* bias_sums;
    u64 parameter_stride;
    u32 num_splits;
    u32 images_per_split;
};

// Numbers from one input's weights to the next's in shared memory: odd, so that lanes meet different banks.
#define STRIDE (UNITS | 1)
// Images that are read at the same time.
#define TOGETHER 8

extern "C" __global__ void small_dense_backward(const SmallDenseBackwardArguments arguments) {
    SHARED_MEMORY(shared);
    float* gradients = (float*)shared;
    // [input][unit] of this block, first the weights and then the sums.
    float* turned = gradients + TOGETHER * UNITS;
    const Reading& input = arguments.input;
    const Downstream& to = arguments.to;
    const u32 chain = blockIdx.y, split = blockIdx.x, first_input = blockIdx.z * blockDim.x;
    const u32 own = first_input + threadIdx.x, count = min(input.len - first_input, blockDim.x);
    const bool is_input = own < input.len;
    float weights[UNITS] = {}, sums[UNITS] = {}, bias = 0.0f;
    if (to.gradient) {
        const element* kernel = arguments.kernel + chain * arguments.parameter_stride + (u64)first_input * UNITS;
#pragma unroll
        for (int k = 0; k < UNITS; k++) {
            const u32 at = k * blockDim.x + threadIdx.x;
            if (at < count * UNITS) weights[k] = load_element(kernel, at);
        }
#pragma unroll
        for (int k = 0; k < UNITS; k++) {
            const u32 at = k * blockDim.x + threadIdx.x;
            if (at < count * UNITS) turned[at / UNITS * STRIDE + at % UNITS] = weights[k];
        }
        __syncthreads();
#pragma unroll
        for (int unit = 0; unit < UNITS; unit++) {
            if (is_input) weights[unit] = turned[threadIdx.x * STRIDE + unit];
        }
    }
    const u32 begin = split * arguments.images_per_split;
    const u32 end = min(begin + arguments.images_per_split, input.num_images);
    for (u32 first = begin; first < end; first += TOGETHER) {
        const u32 together = min(end - first, (u32)TOGETHER);
        float seen[TOGETHER], before[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            if (k >= together || !is_input) continue;
            seen[k] = uncut(input, chain, (first + k) * input.len + own);
            const u64 place = ((u64)chain * input.num_images + first + k) * input.len + own;
            if (to.adds) before[k] = load_element(to.gradient, place);
        }
        __syncthreads();
        for (u32 at = threadIdx.x; at < together * UNITS; at += blockDim.x) {
            gradients[at] = upstream(arguments.output, chain, first * UNITS + at);
        }
        __syncthreads();
        if (threadIdx.x < UNITS) {
            for (u32 k = 0; k < together; k++) bias += gradients[k * UNITS + threadIdx.x];
        }
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            if (k >= together || !is_input) continue;
            const float value = input.relu && seen[k] < 0.0f ? 0.0f : seen[k];
            float term = 0.0f;
#pragma unroll
            for (int unit = 0; unit < UNITS; unit++) {
                const float gradient = gradients[k * UNITS + unit];
                sums[unit] = fmaf(value, gradient, sums[unit]);
                term = fmaf(weights[unit], gradient, term);
            }
            if (!to.gradient) continue;
            if (to.adds) term += before[k];
            if (to.masks && input.relu && !(seen[k] > 0.0f)) term = 0.0f;
            store_element(to.gradient, ((u64)chain * input.num_images + first + k) * input.len + own, term);
        }
    }
    const u64 part = (u64)chain * arguments.num_splits + split;
    if (blockIdx.z == 0 && threadIdx.x < UNITS) arguments.bias_sums[part * UNITS + threadIdx.x] = bias;
    __syncthreads();
    if (is_input) {
#pragma unroll
        for (int unit = 0; unit < UNITS; unit++) turned[threadIdx.x * STRIDE + unit] = sums[unit];
    }
    __syncthreads();
    float* kernel_sums = arguments.kernel_sums + (part * input.len + first_input) * UNITS;
    for (u32 at = threadIdx.x; at < count * UNITS; at += blockDim.x) {
        kernel_sums[at] = turned[at / UNITS * STRIDE + at % UNITS];
    }
}
