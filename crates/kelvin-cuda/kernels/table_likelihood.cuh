// The likelihood of a row: its gradient in the outputs and in log β. Specification: kelvin::likelihood.

#define ALL_LANES 0xFFFFFFFFu

// What tempers the likelihood: β and β/σ².
struct Temper {
    float beta;
    float precision;

    DEVICE Temper(const TableChainArguments& arguments, const TableChain& chain, const Places& at) {
        if (threadIdx.x == 0) {
            at.scalars->log_beta = chain.log_beta;
            at.scalars->log_beta_velocity = chain.log_beta_velocity;
#if RULE == JOINT_ASCENT
            publish(arguments, chain.log_beta, at);
#endif
        }
        beta = 1.0f;
        precision = (float)(1.0 / arguments.noise_variance);
    }

    // Called by one thread, a barrier before the next `read`.
    static DEVICE void publish(const TableChainArguments& arguments, double log_beta, const Places& at) {
        const double inverse_temperature = exp(log_beta);
        at.scalars->beta = (float)inverse_temperature;
        at.scalars->precision = (float)(inverse_temperature / arguments.noise_variance);
    }

    DEVICE void read(const Places& at) {
#if RULE == JOINT_ASCENT
        beta = at.scalars->beta;
        precision = at.scalars->precision;
#endif
    }
};

// Replaces a row's outputs by the gradient of its log-likelihood; returns what the row adds to ∂/∂ log β (Gaussian:
// the square of the residual, to be finished once for all rows).
DEVICE double differentiate(float (&outputs)[OUTPUTS], float target, const Temper& temper) {
#if CATEGORICAL
    const int label = (int)target;
    float largest = outputs[0], own = 0.0f, total = 0.0f, weighted = 0.0f;
#pragma unroll
    for (int c = 1; c < OUTPUTS; ++c) largest = fmaxf(largest, outputs[c]);
#pragma unroll
    for (int c = 0; c < OUTPUTS; ++c) {
        const float shifted = outputs[c] - largest;
        if (c == label) own = shifted;
        outputs[c] = expf(temper.beta * shifted);
        total += outputs[c];
        weighted = fmaf(outputs[c], shifted, weighted);
    }
#pragma unroll
    for (int c = 0; c < OUTPUTS; ++c) outputs[c] = temper.beta * ((c == label ? 1.0f : 0.0f) - outputs[c] / total);
    return (double)temper.beta * ((double)own - (double)weighted / (double)total);
#else
    const float difference = target - outputs[0];
    outputs[0] = temper.precision * difference;
    return (double)difference * (double)difference;
#endif
}

// The sum over a warp of f64 numbers, in lane 0.
DEVICE double warp_sum_of_doubles(double value) {
    for (int distance = 16; distance > 0; distance /= 2) {
        // Two f32 hold 48 bits of an f64.
        const float high = (float)value;
        const float low = (float)(value - (double)high);
        value += (double)__shfl_xor_sync(ALL_LANES, high, distance) + (double)__shfl_xor_sync(ALL_LANES, low, distance);
    }
    return value;
}
