// What the kernels of a convolution's gradients are given.

#include "conv_tile.cuh"
#include "norm_finish.cuh"

struct ConvBackwardArguments {
    const bf16* input;    // V(from)
    const bf16* weights;  // [chain] parameter_stride apart
    const float* norm;    // of the input: s and t, [chain][4][channel]
    const bf16* output;   // V(to), where it has a norm or a pool and ReLU; bits (conv_tile.cuh) where OUTPUT_BITS
    const bf16* output_gradient;  // D(to), or that of the pool that reads it
    bf16* input_gradient;         // D(from)
    float* weight_gradient;       // [chain][block][tap][channel][filter]
    float* bias_gradient;         // [chain][block][filter]
    const bf16* normed;           // the value whose norm D(from) goes through: V(from), or a term of that sum
    float2* parts;                // of this norm: Σ D and Σ D·ẑ, [chain][block][channel]
    u32* tickets;                 // [chain], 0 between launches
    NormBackwardFinish finish;    // what follows from them
    u64 parameter_stride;
    u32 num_images;
    u32 tiles_per_block;
    // Where D(from) goes through the norms of both terms of a sum, the same of the second.
    const bf16* other_normed;
    float2* other_parts;
    NormBackwardFinish other_finish;
    NormBackwardFinish pending;  // through the output's norm, where there is one: each block works it out
};

// Has the input's s and t and the means of each norm on their way, in a group of copies that is yet to be ended.
DEVICE void copy_coefficients(float* scale, float* means, const ConvBackwardArguments& arguments, u32 chain,
                              int thread) {
    const u32 own = chain * (4 * CHANNELS), of_means = own + 2 * CHANNELS;
    for (int i = thread * 4; i < 2 * CHANNELS; i += THREADS * 4) {
        if (INPUT_NORM) copy_async(scale + i, arguments.norm + own + i, true);
        if (NORM_SUMS && i < CHANNELS) copy_async(means + i, arguments.finish.norm + of_means + i, true);
        if (NORM_SUMS > 1 && i < CHANNELS)
            copy_async(means + CHANNELS + i, arguments.other_finish.norm + of_means + i, true);
    }
}

// Once all parts of a block are written: the last of a chain works out what is not left to others. `flag` lies in
// shared memory. Defines: FINISH (0 or 1), whether there is any such thing; merely to ask costs registers of the main
// loop.
DEVICE void finish_norms(const ConvBackwardArguments& arguments, u32 chain, u32* flag) {
    if (!FINISH || !is_last_block(arguments.tickets + chain, gridDim.x, flag)) return;
    finish_last(arguments.finish, chain);
    if (NORM_SUMS > 1) finish_last(arguments.other_finish, chain);
}
