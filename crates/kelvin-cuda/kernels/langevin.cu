// A step of a sampler from its gradient, with noise by name; one block a parameter block.
//
//   INTEGRATOR 0 SGHMC   m ← μ'm − h·g + √(2(1−μ')TM)·R      θ ← θ + (h/M)·m
//   INTEGRATOR 1 BAOA    m ← m − h·g   θ ← θ + ½(h/M)·m   m ← μ'm + √(T(1−μ'²)M)·R   θ ← θ + ½(h/M)·m
//   INTEGRATOR 2 SGLD    θ ← θ − (ε/M)·g + √(2Tε/M)·R
//
// with g clipped by its norm. Reads g, θ and m, writes θ, m and (HALF 1) the bf16 copy that products read: 20 or 22
// bytes a parameter (12 or 14 without m), in runs of sixteen parameters; and Σ m²/M of the block. Specification:
// sampler/dynamics.rs, sghmc.rs, baoa.rs, sgld.rs; random/normal.rs.

#include "chain.cuh"
#include "philox.cuh"

struct LangevinArguments {
    const ParameterBlock* blocks;
    float* positions;
    float* momenta;
    const float* gradients;
    // Of each tensor, null where all of g lies in `gradients`: that of a tensor with one partial sum is found from it.
    const GradientSource* sources;
    // [chain][parameter]; null where products read θ itself.
    bf16* weights;
    ChainCell* cells;
    // [chain][row].
    const StepNumbers* steps;
    // [chain][tensor].
    const double* masses;
    // [chain]: Σ g².
    const double* square_sums;
    // [chain][block].
    double* kinetic;
    double clip_norm;
    u64 parameter_stride;
    u64 seed;
    u32 num_blocks;
    u32 num_tensors;
    u32 num_rows;
    float inverse_variance;
};

// A step's numbers for the parameters of a block: masses and clipping come in here, all else is the host's.
struct Coefficients {
    float keep;
    float kick;
    float drift;
    float spread;
};

DEVICE Coefficients coefficients(const StepNumbers& at, double mass, double clip) {
    const double drift = at.drift / mass;
#if INTEGRATOR != 2
    return Coefficients{(float)at.keep, (float)(at.kick * clip), (float)drift, (float)sqrt(at.heat * mass)};
#else
    return Coefficients{0.0f, (float)(at.kick * drift * clip), 0.0f, (float)sqrt(at.heat * drift)};
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) langevin(const LangevinArguments arguments) {
    SHARED_MEMORY(shared);
    double* scratch = (double*)shared;
    Coefficients* of_block = (Coefficients*)(scratch + THREADS / 32);
    const int QUADS = PARAMETERS_OF_A_THREAD / 4;
    const u32 chain = blockIdx.y;
    const ParameterBlock block = arguments.blocks[blockIdx.x];
    // Sixty-four parameters share sixteen Philox blocks; each thread takes the four of one of them, 16 apart.
    const u32 first = block.first / 64 * 64 + threadIdx.x / 16 * 64 + threadIdx.x % 16;
    const u32 end = block.first + block.len;
    const u64 own = chain * arguments.parameter_stride + first;
    GradientSource source = {nullptr, 0, 0};
    if (arguments.sources) source = arguments.sources[block.tensor];
    const bool is_single = source.num_splits == 1;
    const float* gradients = is_single ? source.sums + ((u64)chain * source.len + first - block.tensor_first)
                                       : arguments.gradients + own;
    float* positions = arguments.positions + own;
    float g[QUADS][4], theta[QUADS][4];
#if INTEGRATOR != 2
    float* momenta = arguments.momenta + own;
    float m[QUADS][4];
#endif
    // All numbers are under way before anything is asked of the chain.
#pragma unroll
    for (int i = 0; i < 4 * QUADS; i++) {
        const u32 offset = i / 4 * 4 * THREADS + i % 4 * 16;
        if (first + offset < block.first || first + offset >= end) continue;
        theta[i / 4][i % 4] = positions[offset];
#if INTEGRATOR != 2
        m[i / 4][i % 4] = momenta[offset];
#endif
        g[i / 4][i % 4] = gradients[offset];
    }
    ChainCell& cell = arguments.cells[chain];
    if (cell.stopped) return;
    const StepNumbers at = arguments.steps[(u64)chain * arguments.num_rows + cell.row];
    const float scale = (float)cell.gradient_scale;
    const float inverse_variance = block.has_prior ? arguments.inverse_variance : 0.0f;
    const double mass = arguments.masses[(u64)chain * arguments.num_tensors + block.tensor];
    if (threadIdx.x == 0) {
        const double norm = sqrt(arguments.square_sums[chain]);
        if (blockIdx.x == 0) cell.norm = norm;
        *of_block = coefficients(at, mass, clip_factor(norm, arguments.clip_norm));
    }
    const NoiseKey key = {arguments.seed, STEP_NOISE, cell.id, cell.step};
    float noise[QUADS][4] = {};
#pragma unroll
    for (int quad = 0; quad < QUADS; quad++) {
        const u32 from = first + quad * 4 * THREADS;
        if (at.heat > 0.0 && from < end) {
            const float4 normals = normals_of_block(key, from / 64 * 16 + from % 16);
            noise[quad][0] = normals.x, noise[quad][1] = normals.y;
            noise[quad][2] = normals.z, noise[quad][3] = normals.w;
        }
    }
    __syncthreads();
    const Coefficients by = *of_block;
    float squares = 0.0f;
#pragma unroll
    for (int i = 0; i < 4 * QUADS; i++) {
        const u32 offset = i / 4 * 4 * THREADS + i % 4 * 16;
        if (first + offset < block.first || first + offset >= end) continue;
        float force = g[i / 4][i % 4], position = theta[i / 4][i % 4];
        const float normal = noise[i / 4][i % 4];
        if (is_single) force = fmaf(inverse_variance, position, scale * force);
#if INTEGRATOR == 0
        const float momentum = fmaf(by.spread, normal, fmaf(by.kick, force, by.keep * m[i / 4][i % 4]));
        position = fmaf(by.drift, momentum, position);
#elif INTEGRATOR == 1
        float momentum = fmaf(by.kick, force, m[i / 4][i % 4]);
        position = fmaf(by.drift, momentum, position);
        momentum = fmaf(by.spread, normal, by.keep * momentum);
        position = fmaf(by.drift, momentum, position);
#else
        position = fmaf(by.spread, normal, fmaf(by.kick, force, position));
#endif
#if INTEGRATOR != 2
        momenta[offset] = momentum;
        // Where it overflows f32 the chain has left, as on the CPU.
        squares = fmaf(momentum, momentum, squares);
#endif
        positions[offset] = position;
#if HALF
        arguments.weights[own + offset] = to_bf16(position);
#endif
    }
    const double sum = block_sum(squares, scratch);
    if (threadIdx.x == 0) arguments.kinetic[(u64)chain * arguments.num_blocks + blockIdx.x] = sum / mass;
}
