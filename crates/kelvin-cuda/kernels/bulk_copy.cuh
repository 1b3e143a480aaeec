// Copies of whole runs of global memory into shared memory that the hardware makes by itself (Hopper only): one thread
// asks for them, all wait for them.
//
// An Arrival is eight bytes of shared memory that count phases. A phase begins when a thread says how many bytes are to
// come, and ends when they have come; phases are told apart by whether their number is odd.
//
// In order: `prepare_arrival` by the thread that will ask; by this thread `expect_bytes` and as many bytes of
// `copy_run`; a barrier after the first preparation, then `wait_arrival` by everyone. Before the next bytes are asked
// for into the same place, all must have read it: `first_warp_waits`.

#include "gpu.cuh"

typedef u64 Arrival;

#ifndef KELVIN_EMULATED

// Whether what is compiled has these instructions; without them a kernel stops with an error.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL

DEVICE void prepare_arrival(Arrival* arrival) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(shared_address(arrival)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

DEVICE void expect_bytes(Arrival* arrival, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :
                 : "r"(shared_address(arrival)), "r"(bytes)
                 : "memory");
}

// Asks for a run of bytes; places and length are multiples of sixteen.
DEVICE void copy_run(void* to, const void* from, u32 bytes, Arrival* arrival) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :
                 : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(arrival))
                 : "memory");
}

// Waits for the end of a phase: of the first one (number 0) `is_odd` is false.
DEVICE void wait_arrival(Arrival* arrival, bool is_odd) {
    u32 done;
    do {
        asm volatile(
            "{ .reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2; selp.u32 %0, 1, 0, done; }"
            : "=r"(done)
            : "r"(shared_address(arrival)), "r"((u32)is_odd)
            : "memory");
    } while (!done);
}

// Has a run of bytes on its way to the cache that all multiprocessors share.
DEVICE void prefetch_run(const void* from, u32 bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
                 :
                 : "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}

// The first warp waits until all others have come here; they go on.
DEVICE void first_warp_waits(int warp, int threads) {
    if (warp == 0)
        asm volatile("barrier.cta.sync 1, %0;" : : "r"(threads) : "memory");
    else
        asm volatile("barrier.cta.arrive 1, %0;" : : "r"(threads) : "memory");
}

#else

DEVICE void prepare_arrival(Arrival*) { __trap(); }
DEVICE void expect_bytes(Arrival*, u32) {}
DEVICE void copy_run(void*, const void*, u32, Arrival*) {}
DEVICE void wait_arrival(Arrival*, bool) {}
DEVICE void prefetch_run(const void*, u32) {}
DEVICE void first_warp_waits(int, int) {}

#endif
#endif
