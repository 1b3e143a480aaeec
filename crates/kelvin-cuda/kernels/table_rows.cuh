// Where a table's kernel keeps things in shared memory, and the rows of its steps: all at hand, or copied a step ahead.
// Specification: kelvin::sampler::Batches and kelvin::random::Permutation.

// Scalars that one thread writes and all read, a barrier apart.
struct Scalars {
    double kick;  // joint ascent: the learning rate
    double closing_kick;  // BAOAB: that of the step before
    double log_beta;
    double log_beta_velocity;
    double log_beta_gradients[WARPS];  // a part from each warp
    float squared_norms[WARPS];        // of the gradient, a part from each warp
    float noise[4];                    // for each tensor: what multiplies the noise
    float drift[4];                    // for each tensor: what multiplies the momentum (SGLD: the gradient)
    float keep;
    float beta;       // joint ascent
    float precision;  // β/σ²
    Permutation order;  // of the epoch
};

#if WIDE
// Rows that are computed together.
#define CHUNK 32

struct Chunk {
    float hidden[CHUNK][PADDED_HIDDEN];
    float gradient[CHUNK][PADDED_HIDDEN];  // of z
    float outputs[CHUNK][OUTPUTS];         // then their gradients
    u32 places[CHUNK];                     // where the rows start
};
#endif

// Noise is made in whole Philox blocks.
#define NOISE_NUMBERS ((PARAMETERS + 63) / 64 * 64)

// The parts of shared memory; where WIDE, some lie in global memory.
struct Places {
#if WIDE
    Chunk* chunk;
#endif
    double* squares;  // Σ m² over steps, for each parameter
    Scalars* scalars;
    float* position;
    float* momentum;
    float* noise;
    float* weights;  // padded
    float* sums;     // padded, PARTS of them
    float* rows;
    int* failed;

    DEVICE Places(u8* memory, const TableChainArguments& arguments, u32 slot) {
#if WIDE
        squares = arguments.squares + (u64)slot * PARAMETERS;
        position = arguments.positions + (u64)slot * PARAMETERS;
        momentum = arguments.momenta + (u64)slot * PARAMETERS;
        noise = arguments.noise + (u64)slot * NOISE_NUMBERS;
        chunk = (Chunk*)(memory + AT_CHUNK);
#else
        squares = (double*)(memory + AT_SQUARES);
        position = (float*)(memory + AT_POSITION);
        momentum = (float*)(memory + AT_MOMENTUM);
        noise = (float*)(memory + AT_NOISE);
#endif
        scalars = (Scalars*)(memory + AT_SCALARS);
        weights = (float*)(memory + AT_WEIGHTS);
        sums = (float*)(memory + AT_SUMS);
        rows = (float*)(memory + AT_ROWS);
        failed = (int*)(memory + AT_FAILED);
    }
};

// Rows that a sweep of the whole block visits; what lies in shared memory is padded to whole sweeps.
#if WIDE
#define SWEEP CHUNK
#else
#define GROUPS (32 / LANES)
#define SWEEP (WARPS * GROUPS * ROWS)
#endif

// The rows of this step and, while it is computed, those of the next.
struct RowsOfSteps {
    u32 padded_rows;  // of a step, in whole sweeps
    u32 parity;
    u32 batch;  // within the epoch, of the step prepared last
    u64 epoch;

    // Prepares the rows of the first step; ends with a barrier.
    DEVICE RowsOfSteps(const TableChainArguments& arguments, u32 chain, const Places& at) {
        padded_rows = (arguments.batch_rows + SWEEP - 1) / SWEEP * SWEEP;
        parity = 0;
        epoch = arguments.first_step / arguments.steps_per_epoch;
        batch = (u32)(arguments.first_step % arguments.steps_per_epoch);
        if (!arguments.is_full) name_order(arguments, chain, at);
#if ROW_PLACE == RESIDENT
        for (u32 i = threadIdx.x; i < padded_rows * (STRIDE / 4); i += THREADS) {
            const bool valid = i < arguments.num_rows * (STRIDE / 4);
            copy_async(at.rows + 4 * i, arguments.rows + (valid ? 4 * i : 0), valid);
        }
        copy_async_commit();
#elif ROW_PLACE == COPIED
        copy(arguments, at, 0);
#endif
        wait();
        __syncthreads();
    }

    // The epoch's order; ends with a barrier.
    DEVICE void name_order(const TableChainArguments& arguments, u32 chain, const Places& at) {
        if (threadIdx.x == 0) {
            NoiseKey key;
            key.seed = arguments.seed;
            key.purpose = arguments.order_purpose;
            key.chain = chain;
            key.step = epoch;
            at.scalars->order = permutation_of(key, arguments.num_rows);
        }
        __syncthreads();
    }

    // Copies the rows of the batch to one of the two places, zeros after them.
    DEVICE void copy(const TableChainArguments& arguments, const Places& at, u32 to) {
        float* target = at.rows + to * padded_rows * STRIDE;
        for (u32 r = threadIdx.x; r < padded_rows; r += THREADS) {
            const bool valid = r < arguments.batch_rows;
            const u32 row = valid ? permutation_at(at.scalars->order, batch * arguments.batch_rows + r) : 0;
            for (int i = 0; i < STRIDE; i += 4) {
                copy_async(target + r * STRIDE + i, arguments.rows + (u64)row * STRIDE + i, valid);
            }
        }
        copy_async_commit();
    }

    // Starts to bring the rows of the step after `step`.
    DEVICE void prepare_next(const TableChainArguments& arguments, u32 chain, u32 step, const Places& at) {
#if ROW_PLACE == COPIED
        if (step + 1 < num_gradients(arguments)) {
            step_on(arguments, chain, at);
            copy(arguments, at, parity ^ 1);
        }
#elif ROW_PLACE == IN_PLACE
        if (step > 0 && !arguments.is_full) step_on(arguments, chain, at);
#endif
    }

    DEVICE void step_on(const TableChainArguments& arguments, u32 chain, const Places& at) {
        if (++batch == arguments.steps_per_epoch) {
            batch = 0;
            ++epoch;
            name_order(arguments, chain, at);
        }
    }

    // Waits for this thread's copies; a barrier must follow.
    DEVICE void wait() { copy_async_wait<0>(); }

    DEVICE void advance() {
#if ROW_PLACE == COPIED
        parity ^= 1;
#endif
    }

    // Where row r of the step starts, counted from `origin`. Beyond the last one lie zeros, or some other row.
    DEVICE u32 place(const TableChainArguments& arguments, const Places& at, u32 r) const {
#if ROW_PLACE == IN_PLACE
        if (r >= arguments.batch_rows) return 0;
        if (arguments.is_full) return r * STRIDE;
        return permutation_at(at.scalars->order, batch * arguments.batch_rows + r) * STRIDE;
#elif ROW_PLACE == COPIED
        return (parity * padded_rows + r) * STRIDE;
#else
        return r * STRIDE;
#endif
    }

    static DEVICE const float* origin(const TableChainArguments& arguments, const Places& at) {
#if ROW_PLACE == IN_PLACE
        return arguments.rows;
#else
        return at.rows;
#endif
    }
};
