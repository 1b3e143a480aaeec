// The update of a table's chain: noise by name, gradient of the energy, clipping, one step of the rule.
//
//   SGHMC  m ← μ' m − h g + s √M R,  θ ← θ + h m/M           BAOA, BAOAB, SGLD, joint ascent: kelvin::sampler
//
// A thread makes the noise of whole Philox blocks (four numbers, 16 apart) and moves every THREADS-th parameter.

// Σ m² of a tensor's parameters, which other blocks may have written, in lane 0 of a warp.
DEVICE double tensor_sum(int tensor, const Places& at) {
    double sum = 0.0;
    for (int p = first_of_tensor(tensor) + threadIdx.x % 32; p < first_of_tensor(tensor + 1); p += 32) {
#if LAYERED
        sum += __ldcg(at.squares + p);
#else
        sum += at.squares[p];
#endif
    }
    return warp_sum_of_doubles(sum);
}

DEVICE bool is_finite(float number) { return fabsf(number) <= 3.402823466e38f; }
DEVICE bool is_finite(double number) { return fabs(number) <= 1.7976931348623157e308; }

// Turns the schedule's numbers into those of this chain, read from global memory one step ahead.
struct Coefficients {
    double next[2];    // of the first threads, one a tensor: drift and noise_std; of the one after them: kick and keep
    double factor[2];  // the chain's, of the same

    DEVICE Coefficients(const TableChainArguments& arguments, const TableChain& chain) {
        if (threadIdx.x < TENSORS) {
            factor[0] = chain.drift_factor[threadIdx.x];
            factor[1] = chain.noise_factor[threadIdx.x];
        }
        if (threadIdx.x == TENSORS) factor[0] = chain.kick_factor, factor[1] = chain.keep_factor;
        read(arguments.steps[0]);
    }

    DEVICE void read(const StepNumbers& step) {
        if (threadIdx.x < TENSORS) next[0] = step.drift, next[1] = step.noise_std;
        if (threadIdx.x == TENSORS) next[0] = step.kick, next[1] = step.keep;
    }

    DEVICE void write(const TableChainArguments& arguments, u32 step, const Places& at) {
        if (threadIdx.x < TENSORS) {
            at.scalars->drift[threadIdx.x] = (float)(next[0] * factor[0]);
            at.scalars->noise[threadIdx.x] = (float)(next[1] * factor[1]);
        }
        if (threadIdx.x == TENSORS) {
            if (RULE == BAOAB && step > 0) at.scalars->closing_kick = at.scalars->kick;
            at.scalars->kick = next[0] * factor[0];
            at.scalars->keep = (float)(next[1] * factor[1]);
        }
        if (step + 1 < arguments.num_steps) read(arguments.steps[step + 1]);
    }
};

DEVICE void make_noise(const TableChainArguments& arguments, u32 chain, u32 step, const Places& at) {
#if RULE != JOINT_ASCENT && RULE != MASS_ESTIMATE
    if (RULE == BAOAB && step == arguments.num_steps) return;
    NoiseKey key;
    key.seed = arguments.seed;
    key.purpose = STEP_NOISE;
    key.chain = chain;
    key.step = arguments.first_step + step;
    const int begin = begin_of_share(at.first_share), end = begin_of_share(at.first_share + OWN_SHARES);
    // The last threads take what is left over: the first ones also copy rows.
    for (int block = begin / 4 + THREADS - 1 - threadIdx.x; block < (end + 63) / 64 * 16; block += THREADS) {
        const float4 normal = normals_of_block(key, block);
        float* to = at.noise + first_parameter_of_block(block);
        // Neighbouring half-warps are 64 numbers apart: in this order they meet in different banks.
        const int odd = block >> 4 & 1;
        to[16 * odd] = odd ? normal.y : normal.x;
        to[16 - 16 * odd] = odd ? normal.x : normal.y;
        to[32 + 16 * odd] = odd ? normal.w : normal.z;
        to[48 - 16 * odd] = odd ? normal.z : normal.w;
    }
#endif
}

// Parameters of a thread in a share, and those that it reads before it writes any: so that it waits for memory once.
#define PARAMETERS_OF_THREAD ((SHARE_PARAMETERS + THREADS - 1) / THREADS)
#define TOGETHER (PARAMETERS_OF_THREAD < 5 ? PARAMETERS_OF_THREAD : 5)

// Where θ_p lies, for the block that moves it.
DEVICE float& position_of(int p, const Places& at) {
#if LAYERED
    return at.weights[padded_place(p)];
#else
    return at.position[p];
#endif
}

// Σ_rows ∂ log p / ∂θ_p from the sums of all shares or parts.
DEVICE float likelihood_gradient(int p, const Places& at) {
    const int from = place_of_sum(p);
#if LAYERED
    float sum = 0.0f;
#pragma unroll
    for (int share = 0; share < SHARES; ++share) {
        sum += __ldcg(at.sums + (share - at.first_share) * PARAMETERS + from);
    }
#else
    float sum = at.sums[from];
#pragma unroll
    for (int part = 1; part < PARTS; ++part) sum += at.sums[part * PADDED_PARAMETERS + from];
#endif
#if OUTPUTS == 1 && !WIDE && !LAYERED
    // Sums over the rows where a unit is on lack the unit's output weight.
    const float output_weight = at.weights[(INPUTS + 1) * PADDED_HIDDEN + p % HIDDEN];
    sum *= p < AT_LAST ? output_weight : 1.0f;
#endif
    return sum;
}

#if RULE == BAOAB
// The last kick of a step, by the gradient at its new position; ends with a barrier. Returns whether the momentum is finite.
DEVICE bool close_step(double clip, bool is_good, const Places& at) {
    const float kick = (float)(at.scalars->closing_kick * clip);
    const int end = begin_of_share(at.first_share + OWN_SHARES);
    for (int p = begin_of_share(at.first_share) + threadIdx.x; p < end; p += THREADS) {
        const float m = fmaf(kick, at.sums[place_of_sum(p)], at.momentum[p]);
        at.momentum[p] = m;
        is_good = is_good && is_finite(m * m);
    }
    if (!is_good) tell_blocks(at.failed, 1);
    meet_blocks();
    return *at.failed == 0;
}
#endif

// Moves position and momentum; a barrier must follow.
DEVICE void update(const TableChainArguments& arguments, double likelihood_weight, u32 step, const Temper& temper,
                   const Places& at) {
    const Scalars& scalars = *at.scalars;
    const float weight = (float)likelihood_weight;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Every thread has read an output weight before another one moves it: gradients are kept at the first sums.
#pragma unroll 1
    for (int share = at.first_share; share < at.first_share + OWN_SHARES; ++share) {
        const int end = begin_of_share(share + 1);
        float squares = 0.0f;
        for (int first = begin_of_share(share) + threadIdx.x; first < end; first += TOGETHER * THREADS) {
            float g[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) {
                // Beyond the last parameter the thread's first one is read, for nothing: so all threads do the same.
                const bool is_one = first + i * THREADS < end;
                const int p = is_one ? first + i * THREADS : first;
                g[i] = likelihood_gradient(p, at);
                if (RULE != JOINT_ASCENT) g[i] = fmaf(arguments.prior_precision, position_of(p, at), -weight * g[i]);
                squares = is_one ? fmaf(g[i], g[i], squares) : squares;
            }
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) {
                const int p = first + i * THREADS;
                if (p < end) at.sums[place_of_sum(p)] = g[i];
                if (RULE == MASS_ESTIMATE && p < end) at.squares[p] += (double)g[i] * (double)g[i];
            }
        }
        squares = warp_sum(squares);
        if (RULE != MASS_ESTIMATE && lane == 0) tell_blocks(&at.scalars->squared_norms[share * WARPS + warp], squares);
    }
    if (RULE == MASS_ESTIMATE) return;
    meet_blocks();

    float squares = 0.0f;
#pragma unroll
    for (int w = 0; w < SHARES * WARPS; ++w) squares += scalars.squared_norms[w];
    double squared_norm = (double)squares;
#if RULE == JOINT_ASCENT
    squared_norm *= likelihood_weight * likelihood_weight;
    double log_beta_gradient = 0.0;
#pragma unroll
    for (int w = 0; w < SHARES * WARPS; ++w) log_beta_gradient += scalars.log_beta_gradients[w];
#if !CATEGORICAL
    log_beta_gradient = 0.5 * (double)arguments.batch_rows - 0.5 * (double)temper.precision * log_beta_gradient;
#endif
    log_beta_gradient *= likelihood_weight;
    if (arguments.clips_log_beta) squared_norm += log_beta_gradient * log_beta_gradient;
#endif
    const double limit = arguments.clip_norm;
    const double clip = squared_norm < limit * limit ? 1.0 : limit / sqrt(squared_norm);
    bool is_good = is_finite(squared_norm);
#if RULE == BAOAB
    if (step > 0 && !close_step(clip, is_good, at)) return;
    if (step == arguments.num_steps) return;
#endif

    const float keep = scalars.keep;
#if RULE == JOINT_ASCENT
    const float kick = (float)(likelihood_weight * clip);
    const float decay = (float)(1.0 - scalars.kick * arguments.weight_decay), rate = (float)scalars.kick;
#else
    const float kick = (float)(scalars.kick * clip);
    const bool counts = step > 0 && arguments.first_step + step > arguments.burn_in;
#endif
    const int end = begin_of_share(at.first_share + OWN_SHARES);
    for (int first = begin_of_share(at.first_share) + threadIdx.x; first < end; first += TOGETHER * THREADS) {
        float theta[TOGETHER], m[TOGETHER];
#if RULE != JOINT_ASCENT
        double sum_of_squares[TOGETHER];
#endif
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            const int p = first + i * THREADS < end ? first + i * THREADS : first;
            const float g = at.sums[place_of_sum(p)];
            theta[i] = position_of(p, at);
            m[i] = at.momentum[p];
#if RULE == JOINT_ASCENT
            m[i] = fmaf(kick, g, keep * m[i]);
            theta[i] = fmaf(rate, m[i], decay * theta[i]);
#else
            const int tensor = tensor_of(p);
            const float scale = scalars.noise[tensor], r = at.noise[p], drift = scalars.drift[tensor];
            // The reading of the step before: one that fails takes none.
            const double reading = RULE != SGLD && counts ? (double)m[i] : 0.0;
            sum_of_squares[i] = fma(reading, reading, at.squares[p]);
#if RULE == SGHMC
            m[i] = fmaf(scale, r, fmaf(kick, g, keep * m[i]));
            theta[i] = fmaf(drift, m[i], theta[i]);
#elif RULE == BAOA || RULE == BAOAB
            m[i] = fmaf(kick, g, m[i]);
            theta[i] = fmaf(drift, m[i], theta[i]);
            m[i] = fmaf(scale, r, keep * m[i]);
            theta[i] = fmaf(drift, m[i], theta[i]);
#else
            theta[i] = fmaf(scale, r, fmaf(kick * drift, g, theta[i]));
#endif
            // A step of BAOAB ends with its closing kick.
            is_good = is_good && (RULE == BAOAB || is_finite(m[i] * m[i]));
#endif
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            const int p = first + i * THREADS;
            if (p < end) {
                at.momentum[p] = m[i];
                if (!LAYERED) at.position[p] = theta[i];
                tell_blocks(&at.weights[padded_place(p)], theta[i]);
#if RULE != JOINT_ASCENT && RULE != SGLD
                at.squares[p] = sum_of_squares[i];
#endif
            }
        }
    }
#if RULE == JOINT_ASCENT
    if (threadIdx.x == 0) {
        const double log_beta_clip = arguments.clips_log_beta ? clip : 1.0;
        const double velocity =
            arguments.momentum * at.scalars->log_beta_velocity + log_beta_clip * log_beta_gradient;
        const double log_beta = at.scalars->log_beta + at.scalars->kick * velocity;
        at.scalars->log_beta_velocity = velocity;
        at.scalars->log_beta = log_beta;
        Temper::publish(arguments, log_beta, at);
        is_good = is_good && is_finite(log_beta);
    }
#endif
    if (!is_good) tell_blocks(at.failed, 1);
}
