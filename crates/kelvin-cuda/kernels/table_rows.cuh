// Where a table's kernel keeps things in shared memory, and the rows of its steps: all at hand, or copied a step ahead.
// Specification: kelvin::sampler::Batches and kelvin::random::Permutation.

// Scalars that one thread writes and all read, a barrier apart.
struct Scalars {
    double step_size;
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

// The parts of shared memory.
struct Places {
    double* squares;  // Σ m² over steps, for each parameter
    Scalars* scalars;
    float* position;
    float* momentum;
    float* noise;
    float* weights;  // padded
    float* sums;     // padded, one for each warp
    float* rows;
    int* failed;

    DEVICE explicit Places(u8* memory) {
        squares = (double*)(memory + AT_SQUARES);
        scalars = (Scalars*)(memory + AT_SCALARS);
        position = (float*)(memory + AT_POSITION);
        momentum = (float*)(memory + AT_MOMENTUM);
        noise = (float*)(memory + AT_NOISE);
        weights = (float*)(memory + AT_WEIGHTS);
        sums = (float*)(memory + AT_SUMS);
        rows = (float*)(memory + AT_ROWS);
        failed = (int*)(memory + AT_FAILED);
    }
};

// Rows that a sweep of the whole block visits; what lies in shared memory is padded to whole sweeps.
#define GROUPS (32 / LANES)
#define SWEEP (WARPS * GROUPS * ROWS)

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
            copy_async(at.rows + 4 * i, arguments.rows + 4 * i, i < arguments.num_rows * (STRIDE / 4));
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
        if (step + 1 < arguments.num_steps) {
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

    // Row r of the step. Beyond the last there are rows of zeros, or some other row.
    DEVICE const float* row(const TableChainArguments& arguments, const Places& at, u32 r) const {
#if ROW_PLACE == IN_PLACE
        if (r >= arguments.batch_rows) return arguments.rows;
        const u32 row = arguments.is_full
                            ? r
                            : permutation_at(at.scalars->order, batch * arguments.batch_rows + r);
        return arguments.rows + (u64)row * STRIDE;
#elif ROW_PLACE == COPIED
        return at.rows + (parity * padded_rows + r) * STRIDE;
#else
        return at.rows + r * STRIDE;
#endif
    }
};
