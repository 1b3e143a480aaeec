// Where a table's kernel keeps things in shared memory, and the rows of its steps: all at hand, or copied a step ahead.
// Specification: kelvin::sampler::Batches and kelvin::random::Permutation.

// Scalars that one thread writes and all read, a barrier apart.
struct Scalars {
    double kick;  // joint ascent: the learning rate
    double closing_kick;  // BAOAB: that of the step before
    double log_beta;
    double log_beta_velocity;
    double log_beta_gradients[SHARES * WARPS];  // a part from each warp of each share
    float squared_norms[SHARES * WARPS];        // of the gradient, a part from each warp of each share
    float noise[MOST_TENSORS];                  // for each tensor: what multiplies the noise
    float drift[MOST_TENSORS];                  // for each tensor: what multiplies the momentum (SGLD: the gradient)
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

// The parts of shared memory; where STATE_IN_MEMORY, some lie in global memory.
struct Places {
    int first_share;  // of the block's own
#if WIDE
    Chunk* chunk;
#elif LAYERED
    float* chunk;
#endif
    double* squares;  // Σ m² over steps, for each parameter
    Scalars* scalars;
    float* position;
    float* momentum;
    float* noise;
    float* weights;  // padded
    float* sums;     // padded, PARTS of them; where LAYERED in global memory, one of each of the block's shares
    float* rows;
    int* failed;

    DEVICE Places(u8* memory, const TableChainArguments& arguments, u32 slot) {
        first_share = own_block() * OWN_SHARES;
#if STATE_IN_MEMORY
        squares = arguments.squares + (u64)slot * PARAMETERS;
        position = arguments.positions + (u64)slot * PARAMETERS;
        momentum = arguments.momenta + (u64)slot * PARAMETERS;
        noise = arguments.noise + (u64)slot * NOISE_NUMBERS;
#else
        squares = (double*)(memory + AT_SQUARES);
        position = (float*)(memory + AT_POSITION);
        momentum = (float*)(memory + AT_MOMENTUM);
        noise = (float*)(memory + AT_NOISE);
#endif
        scalars = (Scalars*)(memory + AT_SCALARS);
        weights = (float*)(memory + AT_WEIGHTS);
#if WIDE
        chunk = (Chunk*)(memory + AT_CHUNK);
#elif LAYERED
        chunk = (float*)(memory + AT_CHUNK);
#endif
#if LAYERED
        sums = arguments.sums + ((u64)slot * SHARES + first_share) * PARAMETERS;
#else
        sums = (float*)(memory + AT_SUMS);
#endif
        rows = (float*)(memory + AT_ROWS);
        failed = (int*)(memory + AT_FAILED);
    }

    // Where this warp puts its part of ∂/∂ log β of one of the block's shares.
    DEVICE double* log_beta_gradient(int own_share) const {
        return scalars->log_beta_gradients + (first_share + own_share) * WARPS + threadIdx.x / 32;
    }
};

// Rows that a sweep of the whole block visits; what lies in shared memory is padded to whole sweeps.
#if WIDE || LAYERED
#define SWEEP CHUNK
#else
#define GROUPS (32 / LANES)
#define SWEEP (WARPS * GROUPS * ROWS)
#endif

// The rows of the block's shares of this step and, while it is computed, of the next; they are counted from the block's first.
struct RowsOfSteps {
    u32 share_rows;
    u32 first_row;    // of the step's
    u32 own_rows;
    u32 padded_rows;  // the last share in whole sweeps
    u32 parity;
    u32 batch;  // within the epoch, of the step prepared last
    u64 epoch;

    // Prepares the rows of the first step; ends with a barrier.
    DEVICE RowsOfSteps(const TableChainArguments& arguments, u32 chain, const Places& at) {
        share_rows = (arguments.batch_rows + SHARES - 1) / SHARES;
        first_row = min(at.first_share * share_rows, arguments.batch_rows);
        own_rows = min(OWN_SHARES * share_rows, arguments.batch_rows - first_row);
        padded_rows = (OWN_SHARES - 1) * share_rows + (share_rows + SWEEP - 1) / SWEEP * SWEEP;
        parity = 0;
        epoch = arguments.first_step / arguments.steps_per_epoch;
        batch = (u32)(arguments.first_step % arguments.steps_per_epoch);
        if (!arguments.is_full) name_order(arguments, chain, at);
#if ROW_PLACE == RESIDENT
        for (u32 i = threadIdx.x; i < padded_rows * (STRIDE / 4); i += THREADS) {
            const bool valid = i < own_rows * (STRIDE / 4);
            copy_async(at.rows + 4 * i, arguments.rows + (valid ? first_row * STRIDE + 4 * i : 0), valid);
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
            const bool valid = r < own_rows;
            const u32 row = valid ? row_of_data(arguments, at, r) : 0;
            for (int i = 0; i < STRIDE; i += 4) {
                copy_async(target + r * STRIDE + i, arguments.rows + (u64)row * STRIDE + i, valid);
            }
        }
        copy_async_commit();
    }

    // Which row of the data set row r of a minibatch is.
    DEVICE u32 row_of_data(const TableChainArguments& arguments, const Places& at, u32 r) const {
        return permutation_at(at.scalars->order, batch * arguments.batch_rows + first_row + r);
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
    DEVICE void wait() const { copy_async_wait<0>(); }

    DEVICE void advance() {
#if ROW_PLACE == COPIED
        parity ^= 1;
#endif
    }

    DEVICE u32 begin_of_share(int own) const { return min(own * share_rows, own_rows); }
    DEVICE u32 end_of_share(int own) const { return begin_of_share(own + 1); }

    // Where row r starts, counted from `origin`. Beyond the last one lie zeros, or some other row.
    DEVICE u32 place(const TableChainArguments& arguments, const Places& at, u32 r) const {
#if ROW_PLACE == IN_PLACE
        if (r >= own_rows) return 0;
        return (arguments.is_full ? first_row + r : row_of_data(arguments, at, r)) * STRIDE;
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
