// Filter response norm image by image, together with what cuts its result off (a learned threshold, or a ReLU) and the pool behind
// it, where nobody else reads what lies between.
//
//   r = 1/√(mean u² + ε) over the pixels     y = γ·u·r + β     z = max(y, τ)     result = mean of z over a cell

#include "image_cells.cuh"

struct CutOff {
    // Of the learned threshold of the first chain; null where there is none.
    const float* threshold;
    // What is cut off where there is none: below 0, or nothing below −∞.
    float floor;
    u32 reserved;
};

// γ·r and β of a thread's channels, and what its result is cut off at.
struct ResponseCoefficients {
    Pack scale, offset, floor;

    // Of channels whose parameters begin at `parameter`, and their r at `roots`.
    DEVICE ResponseCoefficients(const CutOff& cut_off, const float* gamma, const float* beta, u64 parameter,
                                const double* roots) {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            scale.of[i] = (float)(gamma[parameter + i] * roots[i]), offset.of[i] = beta[parameter + i];
            floor.of[i] = cut_off.threshold ? cut_off.threshold[parameter + i] : cut_off.floor;
        }
    }

    // y of number i of a pack.
    DEVICE float result(const Pack& value, int i) const { return fmaf(scale.of[i], value.of[i], offset.of[i]); }
};
