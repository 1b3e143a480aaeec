// What the products of a convolution are given.

#include "conv_product_view.cuh"

struct ConvProductArguments {
    // What the layer reads.
    Reading input;
    // What it writes, in the backward pass.
    Upstream output;
    // The gradient of what it reads.
    Downstream to;
    // [tap][channel][filter] of the first chain.
    const element* kernel;
    // Null where a norm follows, which would take it away again.
    const float* bias;
    // V, or the sums of the weights' gradient.
    void* result;
    // Those of the bias's, [chain][split][filter]; null where it has none.
    float* bias_sums;
    u64 parameter_stride;
    ConvSizes sizes;
    u32 num_splits;
    u32 pixels_per_split;
    // Whether V is f32 whatever the elements are: the outputs of a network.
    u32 is_output;
    u32 reserved;
};
