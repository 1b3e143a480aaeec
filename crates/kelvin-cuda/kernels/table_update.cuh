// The update of a table's chain: noise by name, gradient of the energy, clipping, one step of the rule.
//
//   SGHMC  m ← μ' m − h g + s √M R,  θ ← θ + h m/M           BAOA, SGLD, joint ascent: kelvin::sampler
//
// A thread has the parameters of whole Philox blocks: block b makes the numbers of parameters 64 (b/16) + b%16 + 16 q,
// q < 4. Neighbouring half-warps visit q in another order, so that they meet in different banks.

#define NOISE_BLOCKS (NOISE_NUMBERS / 4)

#define AT_BIAS (INPUTS * HIDDEN)
#define AT_LAST (AT_BIAS + HIDDEN)
#define AT_LAST_BIAS (AT_LAST + HIDDEN * OUTPUTS)

// Parameter i of a Philox block.
DEVICE int parameter_of(int block, int i) {
    const int q = i ^ (block >> 4 & 1);
    return 64 * (block >> 4) + (block & 15) + 16 * q;
}

DEVICE int tensor_of(int p) { return p < AT_BIAS ? 0 : p < AT_LAST ? 1 : p < AT_LAST_BIAS ? 2 : 3; }

// Where a parameter lies among the padded ones.
DEVICE int padded_place(int p) {
    if (OUTPUTS == 1 && HIDDEN == PADDED_HIDDEN) return p;
    if (p < AT_LAST) return p / HIDDEN * PADDED_HIDDEN + p % HIDDEN;
    if (p < AT_LAST_BIAS) return (INPUTS + 1 + (p - AT_LAST) % OUTPUTS) * PADDED_HIDDEN + (p - AT_LAST) / OUTPUTS;
    return AT_OUTPUT_BIAS + p - AT_LAST_BIAS;
}

// The sum over a tensor's parameters, in their order.
DEVICE double tensor_sum(int tensor, const double* numbers) {
    const int first = tensor == 0 ? 0 : tensor == 1 ? AT_BIAS : tensor == 2 ? AT_LAST : AT_LAST_BIAS;
    const int end = tensor == 0 ? AT_BIAS : tensor == 1 ? AT_LAST : tensor == 2 ? AT_LAST_BIAS : PARAMETERS;
    double sum = 0.0;
    for (int p = first; p < end; ++p) sum += numbers[p];
    return sum;
}

DEVICE bool is_finite(float number) { return fabsf(number) <= 3.402823466e38f; }
DEVICE bool is_finite(double number) { return fabs(number) <= 1.7976931348623157e308; }

// Turns the schedule's numbers into those of this chain, read from global memory one step ahead.
struct Coefficients {
    double noise_factor, inverse_mass;
    StepNumbers next;

    DEVICE Coefficients(const TableChainArguments& arguments, const TableChain& chain) {
        if (threadIdx.x < 4) {
            noise_factor = chain.noise_factor[threadIdx.x];
            inverse_mass = chain.inverse_mass[threadIdx.x];
            next = arguments.steps[0];
        }
    }

    DEVICE void write(const TableChainArguments& arguments, u32 step, const Places& at) {
        if (threadIdx.x < 4) {
            const double part = RULE == BAOA ? 0.5 : 1.0;
            at.scalars->noise[threadIdx.x] = (float)(next.noise_scale * noise_factor);
            at.scalars->drift[threadIdx.x] = (float)(part * next.step_size * inverse_mass);
            if (threadIdx.x == 0) {
                at.scalars->step_size = next.step_size;
                at.scalars->keep = (float)next.keep;
            }
            if (step + 1 < arguments.num_steps) next = arguments.steps[step + 1];
        }
    }
};

DEVICE void make_noise(const TableChainArguments& arguments, u32 chain, u32 step, const Places& at) {
#if RULE != JOINT_ASCENT && RULE != MASS_ESTIMATE
    NoiseKey key;
    key.seed = arguments.seed;
    key.purpose = STEP_NOISE;
    key.chain = chain;
    key.step = arguments.first_step + step;
    for (int block = threadIdx.x; block < NOISE_BLOCKS; block += THREADS) {
        const float4 normal = normals_of_block(key, block);
        const bool swapped = (block >> 4 & 1) != 0;
        at.noise[parameter_of(block, 0)] = swapped ? normal.y : normal.x;
        at.noise[parameter_of(block, 1)] = swapped ? normal.x : normal.y;
        at.noise[parameter_of(block, 2)] = swapped ? normal.w : normal.z;
        at.noise[parameter_of(block, 3)] = swapped ? normal.z : normal.w;
    }
#endif
}

// Σ_rows ∂ log p / ∂θ_p from the sums of the parts.
DEVICE float likelihood_gradient(int p, const Places& at) {
    const int from = padded_place(p);
    float sum = at.sums[from];
#pragma unroll
    for (int part = 1; part < PARTS; ++part) sum += at.sums[part * PADDED_PARAMETERS + from];
#if OUTPUTS == 1 && !WIDE
    // Sums over the rows where a unit is on lack the unit's output weight.
    if (p < AT_LAST) sum *= at.weights[(INPUTS + 1) * PADDED_HIDDEN + p % HIDDEN];
#endif
    return sum;
}

// Moves position and momentum; a barrier must follow.
DEVICE void update(const TableChainArguments& arguments, double likelihood_weight, u32 step, const Temper& temper,
                   const Places& at) {
    const Scalars& scalars = *at.scalars;
    const float weight = (float)likelihood_weight;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Every thread has read an output weight before another one moves it: gradients are kept at the first sums.
    float squares = 0.0f;
    for (int block = threadIdx.x; block < NOISE_BLOCKS; block += THREADS) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int p = parameter_of(block, i);
            if (p < PARAMETERS) {
                float g = likelihood_gradient(p, at);
                if (RULE != JOINT_ASCENT) g = fmaf(arguments.prior_precision, at.position[p], -weight * g);
                if (RULE == MASS_ESTIMATE) at.squares[p] += (double)g * (double)g;
                at.sums[padded_place(p)] = g;
                squares = fmaf(g, g, squares);
            }
        }
    }
    if (RULE == MASS_ESTIMATE) return;
    squares = warp_sum(squares);
    if (lane == 0) at.scalars->squared_norms[warp] = squares;
    __syncthreads();

    double squared_norm = 0.0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) squared_norm += (double)scalars.squared_norms[w];
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

    const float keep = scalars.keep;
#if RULE == JOINT_ASCENT
    const float kick = (float)(likelihood_weight * clip);
    const float decay = (float)(1.0 - scalars.step_size * arguments.weight_decay), rate = (float)scalars.step_size;
#else
    const float kick = (float)(RULE == SGLD ? -clip : -scalars.step_size * clip);
    const bool counts = step > 0 && arguments.first_step + step > arguments.burn_in;
#endif
    for (int block = threadIdx.x; block < NOISE_BLOCKS; block += THREADS) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int p = parameter_of(block, i);
            if (p < PARAMETERS) {
                const int place = padded_place(p);
                const float g = at.sums[place];
                float theta = at.position[p], m = at.momentum[p];
#if RULE == JOINT_ASCENT
                m = fmaf(kick, g, keep * m);
                theta = fmaf(rate, m, decay * theta);
#else
                const int tensor = tensor_of(p);
                const float scale = scalars.noise[tensor], r = at.noise[p], drift = scalars.drift[tensor];
                // The reading of the step before: one that fails takes none.
                if (RULE != SGLD && counts) at.squares[p] += (double)m * (double)m;
#if RULE == SGHMC
                m = fmaf(scale, r, fmaf(kick, g, keep * m));
                theta = fmaf(drift, m, theta);
#elif RULE == BAOA
                m = fmaf(kick, g, m);
                theta = fmaf(drift, m, theta);
                m = fmaf(scale, r, keep * m);
                theta = fmaf(drift, m, theta);
#else
                theta = fmaf(scale, r, fmaf(kick * drift, g, theta));
#endif
                is_good = is_good && is_finite(m * m);
#endif
                at.momentum[p] = m;
                at.position[p] = theta;
                at.weights[place] = theta;
            }
        }
    }
#if RULE == JOINT_ASCENT
    if (threadIdx.x == 0) {
        const double log_beta_clip = arguments.clips_log_beta ? clip : 1.0;
        const double velocity =
            arguments.momentum * at.scalars->log_beta_velocity + log_beta_clip * log_beta_gradient;
        const double log_beta = at.scalars->log_beta + at.scalars->step_size * velocity;
        at.scalars->log_beta_velocity = velocity;
        at.scalars->log_beta = log_beta;
        Temper::publish(arguments, log_beta, at);
        is_good = is_good && is_finite(log_beta);
    }
#endif
    if (!is_good) *at.failed = 1;
}
