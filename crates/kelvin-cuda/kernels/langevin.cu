// A step of a sampler from its gradient, with noise by name; one block a parameter block.
//
//   INTEGRATOR 0 SGHMC   m ← μ'm − h·g + √(2(1−μ')TM)·R      θ ← θ + (h/M)·m
//   INTEGRATOR 1 BAOA    m ← m − h·g   θ ← θ + ½(h/M)·m   m ← μ'm + √(T(1−μ'²)M)·R   θ ← θ + ½(h/M)·m
//   INTEGRATOR 2 SGLD    θ ← θ − (ε/M)·g + √(2Tε/M)·R
//
// with g clipped by its norm. Reads g, θ and m, writes θ, m and (HALF 1) the bf16 copy that products read, and Σ m²/M of
// the block. Specification: sampler/langevin.rs, sghmc.rs, baoa.rs, sgld.rs; random/normal.rs.

#include "chain.cuh"
#include "philox.cuh"

struct LangevinArguments {
    const ParameterBlock* blocks;
    float* positions;
    float* momenta;
    const float* gradients;
    // [chain][parameter]; null where products read θ itself.
    bf16* weights;
    ChainCell* cells;
    // [chain][row].
    const StepNumbers* steps;
    // [chain][tensor].
    const double* masses;
    // [chain][block].
    const double* squares;
    double* kinetic;
    double clip_norm;
    u64 parameter_stride;
    u64 seed;
    u32 num_blocks;
    u32 num_tensors;
    u32 num_rows;
    u32 reserved;
};

extern "C" __global__ void langevin(const LangevinArguments arguments) {
    SHARED_MEMORY(shared);
    double* scratch = (double*)shared;
    u32 chain = blockIdx.y;
    ChainCell& cell = arguments.cells[chain];
    if (cell.stopped) return;
    ParameterBlock block = arguments.blocks[blockIdx.x];
    double norm = sqrt(sum_of(arguments.squares + (u64)chain * arguments.num_blocks, arguments.num_blocks, scratch));
    if (blockIdx.x == 0 && threadIdx.x == 0) cell.norm = norm;
    StepNumbers at = arguments.steps[(u64)chain * arguments.num_rows + cell.row];
    double mass = arguments.masses[(u64)chain * arguments.num_tensors + block.tensor];
    double h = at.step_size, clip = clip_factor(norm, arguments.clip_norm);
#if INTEGRATOR == 0
    double kept = at.retained_momentum;
    float keep = (float)kept, kick = (float)(-h * clip), drift = (float)(h / mass);
    float spread = (float)sqrt(2.0 * (1.0 - kept) * at.temperature * mass);
#elif INTEGRATOR == 1
    double kept = at.retained_momentum;
    float keep = (float)kept, kick = (float)(-h * clip), drift = (float)(0.5 * h / mass);
    float spread = (float)sqrt(at.temperature * (1.0 - kept * kept) * mass);
#else
    double epsilon = h / mass;
    float kick = (float)(-epsilon * clip), spread = (float)sqrt(2.0 * at.temperature * epsilon);
#endif
    NoiseKey key = {arguments.seed, STEP_NOISE, cell.id, cell.step};
    double squares = 0.0;
    // Sixty-four parameters share sixteen Philox blocks; each thread takes the four of one of them.
    u32 quad = threadIdx.x, first = block.first - block.first % 64 + quad / 16 * 64 + quad % 16;
    u32 end = block.first + block.len;
    if (first < end) {
        float noise[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (at.temperature > 0.0) {
            float4 normals = normals_of_block(key, first / 64 * 16 + first % 16);
            noise[0] = normals.x, noise[1] = normals.y, noise[2] = normals.z, noise[3] = normals.w;
        }
        for (u32 word = 0; word < 4; word++) {
            u32 parameter = first + 16 * word;
            if (parameter < block.first || parameter >= end) continue;
            u64 place = chain * arguments.parameter_stride + parameter;
            float theta = arguments.positions[place], g = arguments.gradients[place];
#if INTEGRATOR == 0
            float m = fmaf(spread, noise[word], fmaf(kick, g, keep * arguments.momenta[place]));
            theta = fmaf(drift, m, theta);
#elif INTEGRATOR == 1
            float m = fmaf(kick, g, arguments.momenta[place]);
            theta = fmaf(drift, m, theta);
            m = fmaf(spread, noise[word], keep * m);
            theta = fmaf(drift, m, theta);
#else
            theta = fmaf(spread, noise[word], fmaf(kick, g, theta));
#endif
#if INTEGRATOR != 2
            arguments.momenta[place] = m;
            // Where it overflows f32 the chain has left, as on the CPU.
            squares += m * m;
#endif
            arguments.positions[place] = theta;
#if HALF
            arguments.weights[place] = to_bf16(theta);
#endif
        }
    }
    squares = block_sum(squares, scratch);
    if (threadIdx.x == 0) arguments.kinetic[(u64)chain * arguments.num_blocks + blockIdx.x] = squares / mass;
}
