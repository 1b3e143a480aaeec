// Sums over the parts of a norm, thirty-two lanes for each of eight channels, always in the same order.

#include "threads.cuh"

#define CHANNELS_TOGETHER 8
#define PART_LANES (THREADS / CHANNELS_TOGETHER)

// The channel and the lane of this thread.
DEVICE u32 part_channel() { return blockIdx.x * CHANNELS_TOGETHER + threadIdx.x % CHANNELS_TOGETHER; }
DEVICE u32 part_lane() { return threadIdx.x / CHANNELS_TOGETHER; }

// The sum over the lanes of this thread's channel, in every lane.
DEVICE double sum_lanes(double value, double* scratch) {
    __syncthreads();
    scratch[threadIdx.x] = value;
    for (u32 half = THREADS / 2; half >= CHANNELS_TOGETHER; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
    }
    __syncthreads();
    return scratch[threadIdx.x % CHANNELS_TOGETHER];
}
