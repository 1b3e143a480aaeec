// The backward pass of a filter response norm with what cut it off and the pool behind it (response_norm.cuh): with g = dV of the result,
// over a cell's size and 0 where y was cut off, x = γ·r·(g − u·r²·mean(g·u)).
//
// ∂γ = Σ g·u·r, ∂β = Σ g and ∂τ = Σ g of what was cut off go to [chain][image][channel]. Reads the value once, or twice where a block's
// share is too large to keep, dV of the result twice (both a second time from the cache), writes once, 16 bytes at a time where
// WIDTH is not 1. Specification: network/images/response_norm.rs (NormaliseBack, CutOffBack), pool.rs (PoolBackward).

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
    u32 reserved;
};

template <int AREA, int CELLS, bool NORM>
DEVICE void respond_backward(const ResponseNormBackwardArguments& arguments, float* scratch) {
    const Reading& input = arguments.input;
    const Cells& cells = arguments.cells;
    const u32 chain = blockIdx.y;
    const CellShare own = cell_share(input, cells);
    const PixelShare& share = own.share;
    const NormPack norm = NORM ? load_norm(input, chain, share.unit * WIDTH) : NormPack();
    RawPack* const kept = (RawPack*)(scratch + 3 * WIDTH * THREADS);
    const u64 parameter = chain * arguments.parameter_stride + share.unit * WIDTH;
    const u64 image_at = ((u64)chain * input.num_images + blockIdx.x) * input.channels + share.unit * WIDTH;
    const double* const roots = arguments.roots + image_at;
    const ResponseCoefficients by(arguments.cut_off, arguments.gamma, arguments.beta, parameter, roots);
    const u32 first_cell = blockIdx.x * cells.num_cells * input.channels + share.unit * WIDTH;
    Pack gradient[CELLS];
    const auto ask = [&](int slot, u32 cell) {
        gradient[slot] = upstream_pack(arguments.output, chain, first_cell + cell * input.channels);
    };
    // g of number i of a cell's gradient, and what is handed on of it where the result is `y`.
    const auto whole = [&](int slot, int i) { return gradient[slot].of[i] * cells.share; };
    const auto passed = [&](int slot, int i, float y) { return y <= by.floor.of[i] ? 0.0f : whole(slot, i); };
    // Σ g·u, Σ g of what was not cut off, and of what was.
    float sums[3 * WIDTH] = {};
    for_pixels<AREA, CELLS, true>(input, cells, own, chain, kept, ask,
                                  [&](const RawPack& raw, int slot, u32, u32, bool) {
                                      const Pack value = seen_pack<NORM>(raw, norm, input);
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
    for_pixels<AREA, CELLS, false>(
        input, cells, own, chain, kept, ask, [&](const RawPack& raw, int slot, u32, u32 at, bool) {
            const Pack value = seen_pack<NORM>(raw, norm, input);
            Pack term;
#pragma unroll
            for (int i = 0; i < WIDTH; i++)
                term.of[i] = fmaf(by.scale.of[i], passed(slot, i, by.result(value, i)), b.of[i] * value.of[i]);
            downstream_pack(arguments.to, input, chain, at, term);
        });
}

template <bool NORM>
DEVICE void respond_backward_to(const ResponseNormBackwardArguments& arguments, float* scratch) {
    const Cells& cells = arguments.cells;
    if (cells.height * cells.width == 1) {
        respond_backward<1, 2, NORM>(arguments, scratch);
    } else if (cells.height == 2 && cells.width == 2) {
        respond_backward<4, 1, NORM>(arguments, scratch);
    } else {
        respond_backward<0, 1, NORM>(arguments, scratch);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    response_norm_backward(const ResponseNormBackwardArguments arguments) {
    SHARED_MEMORY(shared);
    if (arguments.input.norm) {
        respond_backward_to<true>(arguments, (float*)shared);
    } else {
        respond_backward_to<false>(arguments, (float*)shared);
    }
}
