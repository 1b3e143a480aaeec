// The update of a table's chain: noise by name, gradient of the energy, clipping, one step of the rule.
//
//   SGHMC  m ← μ' m − h g + s √M R,  θ ← θ + h m/M           BAOA, BAOAB, SGLD, joint ascent: kelvin::sampler
//
// A thread makes the noise of whole Philox blocks (four numbers, 16 apart) and moves every THREADS-th parameter.

#define NOISE_BLOCKS (NOISE_NUMBERS / 4)

#define AT_BIAS (INPUTS * HIDDEN)
#define AT_LAST (AT_BIAS + HIDDEN)
#define AT_LAST_BIAS (AT_LAST + HIDDEN * OUTPUTS)

DEVICE int tensor_of(int p) { return p < AT_BIAS ? 0 : p < AT_LAST ? 1 : p < AT_LAST_BIAS ? 2 : 3; }

// Where a parameter lies among the padded ones.
DEVICE int padded_place(int p) {
    if (OUTPUTS == 1 && HIDDEN == PADDED_HIDDEN) return p;
    if (p < AT_LAST) return p / HIDDEN * PADDED_HIDDEN + p % HIDDEN;
    if (p < AT_LAST_BIAS) return (INPUTS + 1 + (p - AT_LAST) % OUTPUTS) * PADDED_HIDDEN + (p - AT_LAST) / OUTPUTS;
    return AT_OUTPUT_BIAS + p - AT_LAST_BIAS;
}

// The sum over a tensor's parameters, in lane 0 of a warp.
DEVICE double tensor_sum(int tensor, const double* numbers) {
    const int first = tensor == 0 ? 0 : tensor == 1 ? AT_BIAS : tensor == 2 ? AT_LAST : AT_LAST_BIAS;
    const int end = tensor == 0 ? AT_BIAS : tensor == 1 ? AT_LAST : tensor == 2 ? AT_LAST_BIAS : PARAMETERS;
    double sum = 0.0;
    for (int p = first + threadIdx.x % 32; p < end; p += 32) sum += numbers[p];
    return warp_sum_of_doubles(sum);
}

DEVICE bool is_finite(float number) { return fabsf(number) <= 3.402823466e38f; }
DEVICE bool is_finite(double number) { return fabs(number) <= 1.7976931348623157e308; }

// Turns the schedule's numbers into those of this chain, read from global memory one step ahead.
struct Coefficients {
    double next[2];    // of the four threads of the tensors: drift and noise_std; of the one after them: kick and keep
    double factor[2];  // the chain's, of the same

    DEVICE Coefficients(const TableChainArguments& arguments, const TableChain& chain) {
        if (threadIdx.x < 4) {
            factor[0] = chain.drift_factor[threadIdx.x];
            factor[1] = chain.noise_factor[threadIdx.x];
        }
        if (threadIdx.x == 4) factor[0] = chain.kick_factor, factor[1] = chain.keep_factor;
        read(arguments.steps[0]);
    }

    DEVICE void read(const StepNumbers& step) {
        if (threadIdx.x < 4) next[0] = step.drift, next[1] = step.noise_std;
        if (threadIdx.x == 4) next[0] = step.kick, next[1] = step.keep;
    }

    DEVICE void write(const TableChainArguments& arguments, u32 step, const Places& at) {
        if (threadIdx.x < 4) {
            at.scalars->drift[threadIdx.x] = (float)(next[0] * factor[0]);
            at.scalars->noise[threadIdx.x] = (float)(next[1] * factor[1]);
        }
        if (threadIdx.x == 4) {
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
    // The last threads take what is left over: the first ones also copy rows.
    for (int block = THREADS - 1 - threadIdx.x; block < NOISE_BLOCKS; block += THREADS) {
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

// Parameters of a thread, and those that it reads before it writes any: so that it waits for memory once.
#define PARAMETERS_OF_THREAD ((PARAMETERS + THREADS - 1) / THREADS)
#define TOGETHER (PARAMETERS_OF_THREAD < 5 ? PARAMETERS_OF_THREAD : 5)

// Σ_rows ∂ log p / ∂θ_p from the sums of the parts.
DEVICE float likelihood_gradient(int p, const Places& at) {
    const int from = padded_place(p);
    float sum = at.sums[from];
#pragma unroll
    for (int part = 1; part < PARTS; ++part) sum += at.sums[part * PADDED_PARAMETERS + from];
#if OUTPUTS == 1 && !WIDE
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
    for (int p = threadIdx.x; p < PARAMETERS; p += THREADS) {
        const float m = fmaf(kick, at.sums[padded_place(p)], at.momentum[p]);
        at.momentum[p] = m;
        is_good = is_good && is_finite(m * m);
    }
    if (!is_good) *at.failed = 1;
    __syncthreads();
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
    float squares = 0.0f;
    for (int first = threadIdx.x; first < PARAMETERS; first += TOGETHER * THREADS) {
        float g[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            // Beyond the last parameter the thread's first one is read, for nothing: so all threads do the same.
            const bool is_one = first + i * THREADS < PARAMETERS;
            const int p = is_one ? first + i * THREADS : first;
            g[i] = likelihood_gradient(p, at);
            if (RULE != JOINT_ASCENT) g[i] = fmaf(arguments.prior_precision, at.position[p], -weight * g[i]);
            squares = is_one ? fmaf(g[i], g[i], squares) : squares;
        }
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            const int p = first + i * THREADS;
            if (p < PARAMETERS) at.sums[padded_place(p)] = g[i];
            if (RULE == MASS_ESTIMATE && p < PARAMETERS) at.squares[p] += (double)g[i] * (double)g[i];
        }
    }
    if (RULE == MASS_ESTIMATE) return;
    squares = warp_sum(squares);
    if (lane == 0) at.scalars->squared_norms[warp] = squares;
    __syncthreads();

    squares = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) squares += scalars.squared_norms[w];
    double squared_norm = (double)squares;
#if RULE == JOINT_ASCENT
    squared_norm *= likelihood_weight * likelihood_weight;
    double log_beta_gradient = 0.0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) log_beta_gradient += scalars.log_beta_gradients[w];
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
    for (int first = threadIdx.x; first < PARAMETERS; first += TOGETHER * THREADS) {
        float theta[TOGETHER], m[TOGETHER];
#if RULE != JOINT_ASCENT
        double sum_of_squares[TOGETHER];
#endif
#pragma unroll
        for (int i = 0; i < TOGETHER; ++i) {
            const int p = first + i * THREADS < PARAMETERS ? first + i * THREADS : first;
            const float g = at.sums[padded_place(p)];
            theta[i] = at.position[p];
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
            if (p < PARAMETERS) {
                at.momentum[p] = m[i];
                at.position[p] = theta[i];
                at.weights[padded_place(p)] = theta[i];
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
    if (!is_good) *at.failed = 1;
}
