// How a chain is shared out: a step's rows and the parameters are cut into SHARES, and each of its BLOCKS takes as many.
//
// Sums are made share by share and added in the order of shares, so that no bit depends on the number of blocks. Networks of one
// hidden layer are one share: two blocks a chain took 0.9 of the time of one (50 chains of 8-64-1) and 1.2 (14-64-1).

#if BLOCKS > 1
#include "cluster.cuh"
#endif

static_assert(LAYERED || SHARES == 1, "only sums of several hidden layers are made share by share");

#define OWN_SHARES (SHARES / BLOCKS)
// Parameters of a share, in whole groups of sixteen Philox blocks.
#define SHARE_PARAMETERS (((PARAMETERS + SHARES - 1) / SHARES + 63) / 64 * 64)

DEVICE u32 chain_of_block() { return blockIdx.x / BLOCKS; }

DEVICE int own_block() {
#if BLOCKS > 1
    return (int)block_of_cluster();
#else
    return 0;
#endif
}

// The parameters of a share, from its first to the next one's.
DEVICE int begin_of_share(int share) { return min(share * SHARE_PARAMETERS, PARAMETERS); }

// Waits for all threads of the chain.
DEVICE void meet_blocks() {
#if BLOCKS > 1
    meet_cluster();
#else
    __syncthreads();
#endif
}

// Writes a number to the same place of every block's shared memory.
template <class T>
DEVICE void tell_blocks(T* shared, T number) {
#if BLOCKS > 1
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block) *in_block(shared, block) = number;
#else
    *shared = number;
#endif
}
