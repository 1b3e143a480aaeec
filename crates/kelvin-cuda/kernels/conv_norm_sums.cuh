// What the ways back of a convolution leave of the norms whose sums they took in passing (NORM_SUMS): a part of each
// block.
//
// Comes behind the header that has ChannelSums, leave_warp_sums and SUM_WARPS.

#include "conv_backward_arguments.cuh"

#if NORM_SUMS

namespace {

// Adds up warps, in their order.
template <int number>
DEVICE void write_norm_sums(const ChannelSums& sums, float2* room, const float* norm, float2* part, int warp,
                            int lane) {
    leave_warp_sums<number>(sums, room, warp, lane);
    __syncthreads();
    for (int channel = warp * 32 + lane; channel < CHANNELS; channel += THREADS) {
        float2 sum = make_float2(0.0f, 0.0f);
        for (int w = 0; w < SUM_WARPS; ++w) {
            const float2 own = room[w * CHANNELS + channel];
            sum.x += own.x, sum.y += own.y;
        }
        part[channel] = make_float2(sum.x, sum.y * norm[3 * CHANNELS + channel]);
    }
}

// `shared` is shared memory that nobody needs any more, before and after.
DEVICE void leave_norm_sums(const ChannelSums& sums, const ConvBackwardArguments& arguments, void* shared, u32 chain,
                            u64 part, int warp, int lane) {
    write_norm_sums<0>(sums, (float2*)shared, arguments.finish.norm + chain * (4 * CHANNELS),
                       arguments.parts + part * CHANNELS, warp, lane);
#if NORM_SUMS > 1
    __syncthreads();
    write_norm_sums<1>(sums, (float2*)shared, arguments.other_finish.norm + chain * (4 * CHANNELS),
                       arguments.other_parts + part * CHANNELS, warp, lane);
#endif
    __syncthreads();
}

}  // namespace

#endif
