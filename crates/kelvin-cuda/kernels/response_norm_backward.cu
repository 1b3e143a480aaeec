// The backward pass of a filter response norm with what cut it off and the pool behind it (response_norm.cuh): with g = dV of the result,
// over a cell's size and 0 where y was cut off, x = γ·r·(g − u·r²·mean(g·u)).
//
// ∂γ = Σ g·u·r, ∂β = Σ g and ∂τ = Σ g of what was cut off go to [chain][image][channel]. Reads the value once, or twice where a block's
// share is too large to keep, dV of the result twice (both a second time from the cache), writes once, 16 bytes at a time where
// WIDTH is not 1. Specification: network/images/response_norm.rs (NormaliseBack, CutOffBack), pool.rs (PoolBackward), max_pool.rs (MaxPoolBackward).

#include "response_norm.cuh"

struct ResponseNormBackwardArguments {
    // Of the result.
    Upstream output;
    Reading input;
    Downstream to;
    const float* gamma;
    const float* beta;
    const double* roots;
    float* gamma_gradient;
    float* beta_gradient;
    // Null where there is no threshold.
    float* threshold_gradient;
    u64 parameter_stride;
    CutOff cut_off;
    Cells cells;
    // Whether anything stands before it that wants a gradient.
    u32 has_input_gradient;
};

template <bool NORM>
DEVICE void respond_backward(const ResponseNormBackwardArguments& arguments, float* scratch) {
    constexpr int TOGETHER = CELL == 1 ? 2 : 1;
    const Reading& input = arguments.input;
    const Cells& cells = arguments.cells;
    const u32 chain = blockIdx.y;
    const CellShare own = cell_share(input, cells);
    const PixelShare& share = own.share;
    const NormPack norm = NORM ? load_norm(input, chain, share.unit * WIDTH) : NormPack();
    // Which pixels of this thread's cells have the largest numbers, and what is kept.
    u32* const places = (u32*)(scratch + 3 * WIDTH * THREADS) + threadIdx.x;
    RawPack* const kept = (RawPack*)(places - threadIdx.x + (MAXIMA ? cells.turns * THREADS : 0));
    const u64 parameter = chain * arguments.parameter_stride + share.unit * WIDTH;
    const u64 image_at = ((u64)chain * input.num_images + blockIdx.x) * input.channels + share.unit * WIDTH;
    const double* const roots = arguments.roots + image_at;
    const ResponseCoefficients by(arguments.cut_off, arguments.gamma, arguments.beta, parameter, roots);
    const u32 first_cell = blockIdx.x * cells.num_cells * input.channels + share.unit * WIDTH;
    Pack gradient[TOGETHER];
    u32 turn = 0, pixel = 0;
    const auto ask = [&](int slot, u32 cell) {
        gradient[slot] = upstream_pack(arguments.output, chain, first_cell + cell * input.channels);
        pixel = 0, turn += MAXIMA;
    };
    Largest largest;
    Pack of_largest;
    // g of number i of a cell's gradient, and what is handed on of it where the result is `y`.
    const auto whole = [&](int slot, int i) { return gradient[slot].of[i] * cells.share; };
    const auto passed = [&](int slot, int i, float y) { return y <= by.floor.of[i] ? 0.0f : whole(slot, i); };
    // Σ g·u, Σ g of what was not cut off, and of what was.
    float sums[3 * WIDTH] = {};
    for_pixels<CELL, TOGETHER, true>(input, cells, own, chain, kept, ask, [&](const RawPack& raw, int slot, u32, u32, bool is_last) {
        Pack value = seen_pack<NORM>(raw, norm, input);
        if (MAXIMA) {
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                const float y = by.result(value, i);
                if (largest.takes(i, y < by.floor.of[i] ? by.floor.of[i] : y)) of_largest.of[i] = value.of[i];
            }
            ++largest.pixel;
            if (!is_last) return;
            places[(turn - 1) * THREADS] = largest.places;
            largest = Largest(), value = of_largest;
        }
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            const float own_share = passed(slot, i, by.result(value, i));
            sums[i] = fmaf(own_share, value.of[i], sums[i]);
            sums[WIDTH + i] += own_share;
            sums[2 * WIDTH + i] += whole(slot, i) - own_share;
        }
    });
    sum_rows(sums, scratch, share);
    const float* const totals = scratch + share.unit - share.first_unit;
    const double pixels = input.len / input.channels;
    Pack b;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        const double product = totals[i * THREADS];
        if (share.row == 0) {
            arguments.gamma_gradient[image_at + i] = (float)(product * roots[i]);
            arguments.beta_gradient[image_at + i] = totals[(WIDTH + i) * THREADS];
            if (arguments.threshold_gradient)
                arguments.threshold_gradient[image_at + i] = totals[(2 * WIDTH + i) * THREADS];
        }
        const double scale = arguments.gamma[parameter + i] * roots[i];
        b.of[i] = (float)(-scale * roots[i] * roots[i] * product / pixels);
    }
    if (!arguments.has_input_gradient) return;
    turn = 0;
    for_pixels<CELL, TOGETHER, false>(input, cells, own, chain, kept, ask, [&](const RawPack& raw, int slot, u32, u32 at, bool) {
        const Pack value = seen_pack<NORM>(raw, norm, input);
        Pack term;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            const bool counts = !MAXIMA || is_largest(places[(turn - 1) * THREADS], i, pixel);
            const float own_share = counts ? passed(slot, i, by.result(value, i)) : 0.0f;
            term.of[i] = fmaf(by.scale.of[i], own_share, b.of[i] * value.of[i]);
        }
        ++pixel;
        downstream_pack(arguments.to, input, chain, at, term);
    });
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) response_norm_backward(const ResponseNormBackwardArguments arguments) {
    SHARED_MEMORY(shared);
    if (arguments.input.norm) {
        respond_backward<true>(arguments, (float*)shared);
    } else {
        respond_backward<false>(arguments, (float*)shared);
    }
}
