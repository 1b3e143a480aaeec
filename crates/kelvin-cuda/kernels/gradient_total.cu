// Adds up the partial sums of each tensor's gradient, weighs them and adds the prior's; one block a parameter block.
//
//   g = scale·Σ over splits + θ/σ_p² (without the second where there is no prior)      Σ g² of the block, and of all blocks
//
// Reads each partial sum once, in their order, and θ, and writes g where there are several: 4·splits + 8 bytes a
// parameter (8 of a single one), sixteen bytes at a time where all four parameters lie so. The last block to end adds
// up the blocks' Σ g², in their order whichever it is. Specification: potential.rs (evaluate), prior.rs
// (add_energy_gradient).
//
// Defines: TOGETHER, partial sums that a thread reads at the same time: many where there are many, few where there are few, so that
// more blocks run on a multiprocessor.

#include "chain.cuh"

struct GradientTotalArguments {
    const ParameterBlock* blocks;
    const GradientSource* sources;
    const float* positions;
    float* gradients;
    const ChainCell* cells;
    // [chain][block].
    double* squares;
    // [chain]: those of all blocks, and how many blocks have ended, 0 again when all have.
    double* square_sums;
    u32* tickets;
    u64 parameter_stride;
    float inverse_variance;
    u32 num_blocks;
    // Whether to add to the sum of the passes before, and whether this is the last of them.
    u32 adds;
    u32 finishes;
    // Off where there is no pass at all: the prior's gradient alone.
    u32 has_sources;
    // Whether g is wanted where a tensor has one partial sum: else who wants it takes it from there, and only Σ g² is
    // found.
    u32 keeps;
};


// Four parameters of a thread: neighbours where WIDE, else THREADS apart, of which those at `len` and beyond are none.
template <bool WIDE>
struct Four {
    float of[4];

    DEVICE static u32 first(u32 four) {
        return WIDE ? (four * THREADS + threadIdx.x) * 4 : four * THREADS * 4 + threadIdx.x;
    }

    DEVICE static Four load(const float* from, u32 at, u32 len) {
        Four four = {};
        if (WIDE) {
            if (at < len) {
                const float4 numbers = *(const float4*)(from + at);
                four.of[0] = numbers.x, four.of[1] = numbers.y, four.of[2] = numbers.z, four.of[3] = numbers.w;
            }
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (at + i * THREADS < len) four.of[i] = from[at + i * THREADS];
            }
        }
        return four;
    }

    DEVICE void add(const Four& other) {
#pragma unroll
        for (int i = 0; i < 4; i++) of[i] += other.of[i];
    }

    DEVICE void store(float* to, u32 at, u32 len) const {
        if (WIDE) {
            if (at < len) *(float4*)(to + at) = make_float4(of[0], of[1], of[2], of[3]);
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if (at + i * THREADS < len) to[at + i * THREADS] = of[i];
            }
        }
    }
};

// The gradient of this thread's parameters; returns their Σ g².
template <bool WIDE>
DEVICE float total(const GradientTotalArguments& arguments, const ParameterBlock& block, const GradientSource& source) {
    const int COUNT = PARAMETERS_OF_A_THREAD / 4;
    const u32 chain = blockIdx.y;
    const u64 place = chain * arguments.parameter_stride + block.first;
    float* gradients = arguments.gradients + place;
    const float* terms = source.sums + (u64)chain * source.num_splits * source.len + (block.first - block.tensor_first);
    Four<WIDE> sums[COUNT] = {}, positions[COUNT] = {}, first[COUNT] = {};
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        const u32 at = Four<WIDE>::first(k);
        if (arguments.adds) sums[k] = Four<WIDE>::load(gradients, at, block.len);
        if (arguments.finishes) positions[k] = Four<WIDE>::load(arguments.positions + place, at, block.len);
        if (source.num_splits > 0) first[k] = Four<WIDE>::load(terms, at, block.len);
    }
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        const u32 at = Four<WIDE>::first(k);
        if (at >= block.len) break;
        sums[k].add(first[k]);
        for (u32 split = 1; split < source.num_splits; split += TOGETHER) {
            // All are under way before the first is waited for; what is beyond the last is 0.
            Four<WIDE> some[TOGETHER] = {};
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) {
                if (split + i >= source.num_splits) break;
                some[i] = Four<WIDE>::load(terms + (u64)(split + i) * source.len, at, block.len);
            }
#pragma unroll
            for (int i = 0; i < TOGETHER; i++) sums[k].add(some[i]);
        }
    }
    const float scale = (float)arguments.cells[chain].gradient_scale;
    const float inverse_variance = block.has_prior ? arguments.inverse_variance : 0.0f;
    const bool stores = arguments.keeps || source.num_splits != 1;
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
        if (arguments.finishes) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                sums[k].of[i] = fmaf(inverse_variance, positions[k].of[i], scale * sums[k].of[i]);
                squares = fmaf(sums[k].of[i], sums[k].of[i], squares);
            }
        }
        if (stores) sums[k].store(gradients, Four<WIDE>::first(k), block.len);
    }
    return squares;
}

extern "C" __global__ void gradient_total(const GradientTotalArguments arguments) {
    SHARED_MEMORY(shared);
    double* scratch = (double*)shared;
    const u32 chain = blockIdx.y, num_blocks = arguments.num_blocks;
    const ParameterBlock block = arguments.blocks[blockIdx.x];
    GradientSource source = {nullptr, 0, 0};
    if (arguments.has_sources) source = arguments.sources[block.tensor];
    const bool wide = (block.first | block.tensor_first | source.len | block.len) % 4 == 0;
    const float of_thread = wide ? total<true>(arguments, block, source) : total<false>(arguments, block, source);
    if (!arguments.finishes) return;
    double* squares = arguments.squares + (u64)chain * num_blocks;
    const double of_block = block_sum(of_thread, scratch);
    u32* is_last = (u32*)(scratch + THREADS / 32);
    if (threadIdx.x == 0) {
        squares[blockIdx.x] = of_block;
        __threadfence();
        *is_last = atomicInc(arguments.tickets + chain, num_blocks - 1) == num_blocks - 1;
    }
    __syncthreads();
    if (!*is_last) return;
    __threadfence();
    double sum = 0.0;
    for (u32 at = threadIdx.x; at < num_blocks; at += THREADS) sum += __ldcg(squares + at);
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) arguments.square_sums[chain] = sum;
}
