// Group norm, a block a group of an image: y = γ·(u − mean)·r + β with r = 1/√(variance + ε) over pixels and the group's channels.
//
// Reads the value twice, writes it once. Specification: network/images/group_norm.rs (GroupNormalise).

#include "group_norm.cuh"

struct GroupNormArguments {
    Reading input;
    const float* gamma;
    const float* beta;
    element* output;
    double epsilon;
    u64 parameter_stride;
    u32 groups;
    u32 reserved;
};

extern "C" __global__ void group_norm(const GroupNormArguments arguments) {
    SHARED_MEMORY(shared);
    const Reading& input = arguments.input;
    const u32 chain = blockIdx.y;
    const Group group = group_of(input, arguments.groups);
    const Moments moments = moments_of(input, chain, group, arguments.epsilon, (double*)shared);
    const u64 parameter = chain * arguments.parameter_stride + group.number * group.channels;
    element* const to = arguments.output + (u64)chain * input.num_images * input.len;
    each_number(group, [&](u32 at, u32 channel) {
        const float normed = (read_value(input, chain, at) - moments.mean) * moments.root;
        store_element(to, at, fmaf(arguments.gamma[parameter + channel], normed, arguments.beta[parameter + channel]));
    });
}
