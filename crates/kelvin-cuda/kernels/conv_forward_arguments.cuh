// What the kernels of a convolution are given.

#include "norm_finish.cuh"

struct ConvForwardArguments {
    const bf16* input;     // [chain][image][row][column][channel]
    const bf16* weights;   // [chain] parameter_stride apart, [tap][channel][filter]
    const float* bias;     // [chain] parameter_stride apart
    const float* norm;     // of the input: s and t, [chain][4][channel]
    bf16* output;          // [chain][image][row][column][filter], of the pool where POOL is 2
    uint4* bits;           // of the pool's ReLU (conv_tile.cuh), where there are both
    float2* parts;         // mean and Σ(y − mean)² of each block's pixels: [chain][block][filter]
    u32* tickets;          // [chain], 0 between launches
    NormFinish finish;     // how the output is read; its `norm` is null where the parts are all that is wanted
    u64 parameter_stride;  // of weights and bias
    u32 num_images;
    u32 tiles_per_block;
    // Where the input is a sum yet to be worked out (conv_sum.cuh), `input` and `norm` are the first term's.
    const bf16* other;        // the second term
    const float* other_norm;  // of it: s and t, [chain][4][channel]
    bf16* sum;
    // Instead of `norm` and `other_norm`, where these are yet to be worked out (INPUT_PENDING, OTHER_PENDING).
    NormFinish pending;
    NormFinish other_pending;
};
