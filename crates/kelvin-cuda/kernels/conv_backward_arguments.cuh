// What the kernels of a convolution's gradients are given.

#include "norm_finish.cuh"

struct ConvBackwardArguments {
    const bf16* input;    // V(from)
    const bf16* weights;  // [chain] parameter_stride apart
    const float* norm;    // of the input: s and t, [chain][4][channel]
    const bf16* output;   // V(to), where it has a norm or a pool and ReLU; bits (conv_tile.cuh) where OUTPUT_BITS
    const bf16* output_gradient;  // D(to), or that of the pool that reads it
    const float* slopes;          // through the output's norm: a, b and c, [chain][3][filter]
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
};
