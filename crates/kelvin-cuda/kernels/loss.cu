// Σ log p(y|x,θ,β) of a chain's batch, its derivative in log β, and D of the outputs; one block a chain.
//
//   Gaussian      D = (β/σ²)(y − μ)            categorical   D = β(1{class = y} − softmax(β·logits))
//
// A few lanes share an image. Reads the outputs three times, of which two from a cache. Sums in f64, always in the same order.
// Specification: likelihood.rs (LikelihoodSum).

#include "chain.cuh"
#include "element.cuh"

struct LossArguments {
    // [chain][image][output], f32 whatever the elements are.
    const float* outputs;
    element* gradient;
    // Of every example: f32 numbers, or u32 classes.
    const void* targets;
    // [chain][image]: which example each image is.
    const u32* rows;
    const ChainCell* cells;
    // [chain]: Σ log p and Σ ∂/∂log β.
    double* sums;
    // σ², 0 for a categorical likelihood.
    double noise_variance;
    u32 num_images;
    u32 num_outputs;
    // Whether to add to the sums of the pass before.
    u32 adds;
    u32 reserved;
};

#define LANES 4

// The sum over the lanes of an image, in each of them.
DEVICE double sum_of_image(double value) {
    for (int distance = 1; distance < LANES; distance *= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
    return value;
}

extern "C" __global__ void loss(const LossArguments arguments) {
    SHARED_MEMORY(shared);
    double* scratch = (double*)shared;
    const u32 chain = blockIdx.y, num_outputs = arguments.num_outputs, lane = threadIdx.x % LANES;
    const double beta = exp(arguments.cells[chain].log_power);
    double value = 0.0, slope = 0.0;
    // Lanes without an image look at the last one, and keep what they find to themselves.
    for (u32 first = 0; first < arguments.num_images; first += blockDim.x / LANES) {
        const u32 image = first + threadIdx.x / LANES;
        const bool is_image = image < arguments.num_images;
        const u64 at = (u64)chain * arguments.num_images + min(image, arguments.num_images - 1);
        const float* outputs = arguments.outputs + at * num_outputs;
        const u32 row = arguments.rows[at];
        if (arguments.noise_variance > 0.0) {
            if (lane != 0 || !is_image) continue;
            const double precision = beta / arguments.noise_variance;
            const float difference = ((const float*)arguments.targets)[row] - outputs[0];
            const double quadratic = 0.5 * precision * ((double)difference * difference);
            value += 0.5 * log(precision / 6.283185307179586) - quadratic;
            slope += 0.5 - quadratic;
            store_element(arguments.gradient, at, (float)precision * difference);
            continue;
        }
        const u32 label = ((const u32*)arguments.targets)[row];
        float largest = outputs[0];
        for (u32 output = lane; output < num_outputs; output += LANES) largest = fmaxf(largest, outputs[output]);
        for (int distance = 1; distance < LANES; distance *= 2) {
            largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, distance));
        }
        double total = 0.0, weighted = 0.0;
        for (u32 output = lane; output < num_outputs; output += LANES) {
            const double shifted = (double)(outputs[output] - largest), weight = exp(beta * shifted);
            total += weight;
            weighted += weight * shifted;
        }
        total = sum_of_image(total);
        weighted = sum_of_image(weighted);
        if (!is_image) continue;
        if (lane == 0) {
            const double own = (double)(outputs[label] - largest);
            value += beta * own - log(total);
            slope += beta * (own - weighted / total);
        }
        for (u32 output = lane; output < num_outputs; output += LANES) {
            const double probability = exp(beta * (double)(outputs[output] - largest)) / total;
            const float gradient = (float)(beta * ((output == label ? 1.0 : 0.0) - probability));
            store_element(arguments.gradient, at * num_outputs + output, gradient);
        }
    }
    value = block_sum(value, scratch);
    slope = block_sum(slope, scratch);
    if (threadIdx.x == 0) {
        double* sums = arguments.sums + 2 * chain;
        sums[0] = arguments.adds ? sums[0] + value : value;
        sums[1] = arguments.adds ? sums[1] + slope : slope;
    }
}
