// Σ log p(y|x,θ,β) of a chain's batch, its derivative in log β, and D of the outputs; one block a chain.
//
//   Gaussian      D = (β/σ²)(y − μ)            categorical   D = β(1{class = y} − softmax(β·logits))
//
// Reads the outputs twice. Sums in f64: each thread its rows in order, then the threads in a fixed order.
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

extern "C" __global__ void loss(const LossArguments arguments) {
    SHARED_MEMORY(shared);
    double* scratch = (double*)shared;
    u32 chain = blockIdx.y, num_outputs = arguments.num_outputs;
    double beta = arguments.cells[chain].inverse_temperature;
    double value = 0.0, slope = 0.0;
    for (u32 image = threadIdx.x; image < arguments.num_images; image += THREADS) {
        u64 at = (u64)chain * arguments.num_images + image;
        const float* outputs = arguments.outputs + at * num_outputs;
        u32 row = arguments.rows[at];
        if (arguments.noise_variance > 0.0) {
            double precision = beta / arguments.noise_variance;
            float difference = ((const float*)arguments.targets)[row] - outputs[0];
            double quadratic = 0.5 * precision * ((double)difference * difference);
            value += 0.5 * log(precision / 6.283185307179586) - quadratic;
            slope += 0.5 - quadratic;
            store_element(arguments.gradient, at, (float)precision * difference);
            continue;
        }
        u32 label = ((const u32*)arguments.targets)[row];
        float largest = outputs[0];
        for (u32 output = 1; output < num_outputs; output++) largest = fmaxf(largest, outputs[output]);
        double total = 0.0, weighted = 0.0, own = (double)(outputs[label] - largest);
        for (u32 output = 0; output < num_outputs; output++) {
            double shifted = (double)(outputs[output] - largest), weight = exp(beta * shifted);
            total += weight;
            weighted += weight * shifted;
        }
        value += beta * own - log(total);
        slope += beta * (own - weighted / total);
        for (u32 output = 0; output < num_outputs; output++) {
            double probability = exp(beta * (double)(outputs[output] - largest)) / total;
            float gradient = (float)(beta * ((output == label ? 1.0 : 0.0) - probability));
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
