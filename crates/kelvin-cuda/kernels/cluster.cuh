// Blocks of a cluster: they run at the same time and reach each other's shared memory (Hopper only).

#include "gpu.cuh"

#ifndef KELVIN_EMULATED

// Whether what is compiled has clusters; without them a kernel stops with an error.
#if __CUDA_ARCH__ >= 900

// The number of this block in its cluster.
DEVICE u32 block_of_cluster() {
    u32 number;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(number));
    return number;
}

// Waits for all threads of the cluster; what any of them has written before, in whatever memory, all of them read after.
DEVICE void meet_cluster() {
    asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" : : : "memory");
}

// The same place in the shared memory of another block.
template <class T>
DEVICE T* in_block(T* shared, u32 block) {
    u64 place;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(place) : "l"(shared), "r"(block));
    return (T*)place;
}

#else

DEVICE u32 block_of_cluster() { return 0; }
DEVICE void meet_cluster() { __trap(); }
template <class T>
DEVICE T* in_block(T* shared, u32) {
    return shared;
}

#endif
#endif
