// Sums of each channel over the pixels of a block's share, always in the same order.
//
// A thread takes WIDTH channels (a unit) of every rows-th pixel; of more than THREADS units a block takes one tile, which blockIdx.z
// names where nothing else is said.

#include "pack.cuh"
#include "threads.cuh"

struct PixelShare {
    // Units of a pixel that this block takes, and the first of them.
    u32 units;
    u32 first_unit;
    // Pixels that are read at the same time.
    u32 rows;
    // Of this thread.
    u32 row;
    u32 unit;
};

DEVICE PixelShare pixel_share(u32 channels, u32 tile) {
    PixelShare share;
    const u32 all = channels / WIDTH;
    share.first_unit = tile * THREADS;
    share.units = min(all - share.first_unit, (u32)THREADS);
    share.rows = THREADS / share.units;
    share.row = threadIdx.x / share.units;
    share.unit = share.first_unit + threadIdx.x % share.units;
    return share;
}

DEVICE PixelShare pixel_share(u32 channels) { return pixel_share(channels, blockIdx.z); }

// Adds up `sums` over the rows; those of row 0 hold the totals. `scratch` has THREADS numbers for each sum.
template <int COUNT>
DEVICE void sum_rows(float (&sums)[COUNT], float* scratch, const PixelShare& share) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) scratch[i * THREADS + threadIdx.x] = sums[i];
    for (u32 count = share.rows; count > 1;) {
        const u32 half = (count + 1) / 2;
        __syncthreads();
        if (share.row + half < count) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                float* place = scratch + i * THREADS + threadIdx.x;
                place[0] += place[half * share.units];
            }
        }
        count = half;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < COUNT; i++) sums[i] = scratch[i * THREADS + threadIdx.x];
}
