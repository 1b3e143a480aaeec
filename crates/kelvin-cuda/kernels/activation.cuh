// Activations other than ReLU: what each makes of a number, and its slope there. Specification: network/activation.rs.

#include "pack.cuh"

#define TANH 0
#define GELU 1
#define SILU 2

// Φ(x) of a standard normal, and 1/(1 + e^{−x}).
DEVICE float normal_below(float x) { return 0.5f * erfcf(-0.70710678118654752f * x); }
DEVICE float logistic(float x) { return 1.0f / (1.0f + expf(-x)); }

DEVICE float activated(u32 by, float x) {
    if (by == TANH) return tanhf(x);
    return x * (by == GELU ? normal_below(x) : logistic(x));
}

DEVICE float activation_slope(u32 by, float x) {
    if (by == TANH) {
        const float y = tanhf(x);
        return 1.0f - y * y;
    }
    if (by == GELU) return normal_below(x) + x * 0.39894228040143268f * expf(-0.5f * x * x);
    const float share = logistic(x);
    return share * (1.0f + x * (1.0f - share));
}
