// Where the parameters of a network of one hidden layer lie: in kelvin's order, and padded as its kernels read them.

#if WIDE
#define PADDED_HIDDEN ((HIDDEN + 3) / 4 * 4)
#else
#define PADDED_HIDDEN (LANES * UNITS)
#endif
#define PARAMETERS ((INPUTS + 1) * HIDDEN + (HIDDEN + 1) * OUTPUTS)
// Weights and sums in shared memory: kernel, bias, one row of output weights for each output, output biases.
#define AT_OUTPUT_BIAS ((INPUTS + 1 + OUTPUTS) * PADDED_HIDDEN)
#define PADDED_PARAMETERS (AT_OUTPUT_BIAS + (OUTPUTS + 3) / 4 * 4)

#define TENSORS 4
#define AT_BIAS (INPUTS * HIDDEN)
#define AT_LAST (AT_BIAS + HIDDEN)
#define AT_LAST_BIAS (AT_LAST + HIDDEN * OUTPUTS)

DEVICE int tensor_of(int p) { return p < AT_BIAS ? 0 : p < AT_LAST ? 1 : p < AT_LAST_BIAS ? 2 : 3; }

// Of the tensor after the last one: the number of parameters.
DEVICE int first_of_tensor(int tensor) {
    return tensor == 0   ? 0
           : tensor == 1 ? AT_BIAS
           : tensor == 2 ? AT_LAST
           : tensor == 3 ? AT_LAST_BIAS
                         : PARAMETERS;
}

// Where a parameter lies among the padded ones.
DEVICE int padded_place(int p) {
    if (OUTPUTS == 1 && HIDDEN == PADDED_HIDDEN) return p;
    if (p < AT_LAST) return p / HIDDEN * PADDED_HIDDEN + p % HIDDEN;
    if (p < AT_LAST_BIAS) return (INPUTS + 1 + (p - AT_LAST) % OUTPUTS) * PADDED_HIDDEN + (p - AT_LAST) / OUTPUTS;
    return AT_OUTPUT_BIAS + p - AT_LAST_BIAS;
}

// Where its gradient's sums lie.
DEVICE int place_of_sum(int p) { return padded_place(p); }
