// Moves whole chains of a small network, one block or one cluster a chain, by many steps in one launch; the state stays on
// the chip.
//
//   z_k = c_k + Σ_j x_j W_jk,  h_k = max(z_k, 0),  o = b + Σ_k v_k h_k,  e = ∂ log p(y|o)/∂o
//   g = −w Σ_rows ∂ log p + θ/σ_p²,  clipped by its norm;  then SGHMC, BAOA, BAOAB, SGLD or joint ascent in (θ, log β)
//
// Specification: kelvin::sampler::{Langevin, JointAscent} over kelvin::network::Evaluator::{OneHidden, Dense}, with the
// same random numbers and the same rows.
//
// Where sums over rows are made depends on the sizes: with one output and up to 64 units backward on the tensor cores
// (table_gradient_tensor.cuh), else all in registers (table_gradient.cuh), else chunk by chunk in shared memory
// (table_gradient_wide.cuh); of several hidden layers chunk by chunk on the tensor cores (table_gradient_layers.cuh).
// How a chain is shared out over the blocks of a cluster is in table_shares.cuh: each sums over its rows, then moves its
// parameters and tells all of them the new weights.
//
// Arithmetic of a step, d inputs, H units, n rows: n H (d + 1) multiply-adds forward and as many backward, 0.95 M for
// 8-64-1 with 824 rows: 7,400 cycles of a multiprocessor's f32 units. With the backward half on the tensor cores a warp
// issues 498 instructions (288 of them multiply-adds) for 16 rows of 8-64-1, 728 of 14-64-1; four warps issue at a
// time, so that 824 rows take 6,500 cycles and a batch of 128 rows of 14-64-1 1,500, if nothing waits. The rest of a
// step (noise, weights into registers, sums of eight warps, norm, update, three barriers) is 800 instructions of each
// warp, 1,600 cycles. Shared memory: a row is read once, 16 bytes for 4 inputs, and used by 8 units of each of 8 lanes.
// Global memory: nothing but the next batch's rows, copied while this one is computed, and 24 bytes of schedule.
// BAOAB kicks at both ends of a step, so a launch of S steps takes S + 1 gradients: the last one closes its last step, and
// the next launch begins with the same one, computed again to the same bits. The closing kick costs a step one more barrier.
//
// Expects: INPUTS, OUTPUTS, CATEGORICAL, GRADIENT, WARPS, STRIDE, RULE, ROW_PLACE, SHARES, BLOCKS, the places AT_… in
// shared memory (bytes), and HIDDEN, LANES, UNITS, ROWS, or of several hidden layers LAYERS, WIDTH_0 to WIDTH_4, CHUNK, all
// chosen by tables/shape.rs.

#include "philox.cuh"

#define THREADS (32 * WARPS)
// Values of GRADIENT: where sums over rows are made.
#define IN_REGISTERS 0
#define ON_TENSOR_CORES 1
#define IN_SHARED_MEMORY 2
#define LAYER_BY_LAYER 3

#define WIDE (GRADIENT == IN_SHARED_MEMORY)
#define LAYERED (GRADIENT == LAYER_BY_LAYER)

// Networks too large for registers keep weights and rows in shared memory, the rest of the state in global memory.
#define STATE_IN_MEMORY (WIDE || LAYERED)
#define PARTS (STATE_IN_MEMORY ? 1 : WARPS)

// The most tensors of a network: weights and biases of four layers.
#define MOST_TENSORS 8

#if LAYERED
#include "table_layers.cuh"
#else
#include "table_network.cuh"
#endif
#include "table_shares.cuh"

// Values of RULE.
#define SGHMC 0
#define BAOA 1
#define SGLD 2
#define JOINT_ASCENT 3
#define MASS_ESTIMATE 4  // moves nothing: Σ g² takes the place of Σ m²
#define BAOAB 5

// Values of ROW_PLACE: all rows lie in shared memory; each batch is copied there; rows are read where they are.
#define RESIDENT 0
#define COPIED 1
#define IN_PLACE 2

// What a step multiplies by, the same for all chains: kelvin::sampler::Coefficients for temperature and mass 1, or, where
// each chain has its own, how they change from step to step.
struct StepNumbers {
    double drift;
    double noise_std;
    double kick;  // of joint ascent: the learning rate
    double keep;
};

// What a chain brings along: its factors multiply the numbers of each step.
struct TableChain {
    double noise_factor[MOST_TENSORS];  // for each tensor
    double drift_factor[MOST_TENSORS];
    double kick_factor;
    double keep_factor;
    double likelihood_weight;
    double log_beta;
    double log_beta_velocity;
    u32 id;
    u32 slot;  // where its position and momentum lie
};

// What a launch says of a chain.
struct TableResult {
    double squares[MOST_TENSORS];  // Σ m² of each tensor over the steps after the burn-in
    double log_beta;
    double log_beta_velocity;
    u32 steps_done;
    u32 failed;
};

struct TableChainArguments {
    const float* rows;  // each: inputs, target, zeros up to STRIDE
    const StepNumbers* steps;
    const TableChain* chains;
    TableResult* results;
    float* positions;
    float* momenta;
    double* squares;  // where STATE_IN_MEMORY: Σ m² of each parameter of a chain
    float* noise;     // where STATE_IN_MEMORY: room for the noise of a step
    float* sums;      // where LAYERED: room for the sums of each share
    double clip_norm;
    double noise_variance;
    double momentum;  // of joint ascent
    double weight_decay;
    u64 seed;
    u64 first_step;
    u64 burn_in;
    float prior_precision;
    u32 num_steps;
    u32 num_rows;        // of the data set
    u32 batch_rows;      // of a step
    u32 steps_per_epoch;
    u32 is_full;         // each step visits all rows in their own order
    u32 clips_log_beta;  // joint ascent: the norm is that of θ and log β together
    u32 order_purpose;   // whose batches: the sampler's or the mass estimate's
};

// Gradients of a launch.
DEVICE u32 num_gradients(const TableChainArguments& arguments) { return arguments.num_steps + (RULE == BAOAB ? 1 : 0); }

#include "table_rows.cuh"
#include "table_likelihood.cuh"
#include "table_vectors.cuh"
#if GRADIENT == IN_SHARED_MEMORY
#include "table_gradient_wide.cuh"
#elif GRADIENT == LAYER_BY_LAYER
#include "table_gradient_layers.cuh"
#elif GRADIENT == ON_TENSOR_CORES
#include "table_gradient_tensor.cuh"
#else
#include "table_gradient.cuh"
#endif
#include "table_update.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1) table_chain(const TableChainArguments arguments) {
    SHARED_MEMORY(memory);
    const TableChain& chain = arguments.chains[chain_of_block()];
    const u64 state = (u64)chain.slot * PARAMETERS;
    const Places at(memory, arguments, chain.slot);
    const int thread = threadIdx.x;
    const int begin = begin_of_share(at.first_share), end = begin_of_share(at.first_share + OWN_SHARES);

    for (int i = thread; i < PADDED_PARAMETERS; i += THREADS) at.weights[i] = 0.0f;
    if (thread == 0) *at.failed = 0;
    // Nobody writes to another block's memory before that block is there.
    meet_blocks();
    for (int p = thread; p < PARAMETERS; p += THREADS) at.weights[padded_place(p)] = arguments.positions[state + p];
    for (int p = begin + thread; p < end; p += THREADS) {
        if (!LAYERED) at.position[p] = arguments.positions[state + p];
        at.momentum[p] = arguments.momenta[state + p];
        at.squares[p] = 0.0;
    }
    Temper temper(arguments, chain, at);
    RowsOfSteps rows(arguments, chain.id, at);
    Coefficients coefficients(arguments, chain);

    const double likelihood_weight = chain.likelihood_weight;
    const u32 id = chain.id;
    u32 step = 0;
    for (; step < num_gradients(arguments); ++step) {
        coefficients.write(arguments, step, at);
        make_noise(arguments, id, step, at);
        rows.prepare_next(arguments, id, step, at);
        add_gradient(arguments, rows, temper, at);
        meet_blocks();
        update(arguments, likelihood_weight, step, temper, at);
        rows.wait();
        meet_blocks();
        if (*at.failed) break;
        rows.advance();
    }

    const bool failed = *at.failed != 0;
    // A gradient of BAOAB ends the step before it.
    const u32 steps_done = RULE == BAOAB && step > 0 ? step - 1 : step;
    const bool counts = RULE != MASS_ESTIMATE && !failed && arguments.first_step + steps_done > arguments.burn_in;
    for (int p = begin + thread; p < end; p += THREADS) {
        const float m = at.momentum[p];
        arguments.positions[state + p] = position_of(p, at);
        arguments.momenta[state + p] = m;
        if (counts) at.squares[p] += (double)m * (double)m;
    }
    meet_blocks();
    TableResult& result = arguments.results[chain_of_block()];
    if (at.first_share == 0 && thread < TENSORS * 32) {
        const double sum = tensor_sum(thread / 32, at);
        if (thread % 32 == 0) result.squares[thread / 32] = sum;
    }
    if (at.first_share == 0 && thread == 0) {
        result.log_beta = at.scalars->log_beta;
        result.log_beta_velocity = at.scalars->log_beta_velocity;
        result.steps_done = steps_done;
        result.failed = failed;
    }
}
