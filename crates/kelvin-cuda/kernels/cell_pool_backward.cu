// The backward pass of an activation and the pool behind it, or of a pool of maxima (cell_pool.cuh): f'(u) times dV of the cell, over its
// size, or where u is the first to have the largest f(u).
//
// Reads the value once (twice where cells are large or of maxima, the second time from the cache) and dV of the result, writes
// the gradient once, 16 bytes at a time where WIDTH is not 1. Specification: network/activation.rs (times_slope),
// network/images/pool.rs (PoolBackward), max_pool.rs (MaxPoolBackward).

#include "cell_pool.cuh"

struct CellPoolBackwardArguments {
    // Of the result.
    Upstream output;
    Reading input;
    Downstream to;
    PooledCells cells;
};

extern "C" __global__ void cell_pool_backward(const CellPoolBackwardArguments arguments) {
    const Reading& input = arguments.input;
    const PooledCells& cells = arguments.cells;
    const Downstream& to = arguments.to;
    const u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    const OwnCell own = own_cell(input, cells, number);
    if (own.image >= input.num_images) return;
    const NormPack norm = load_norm(input, chain, own.channel);
    Pack gradient = upstream_pack(arguments.output, chain, number * WIDTH);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) gradient.of[i] *= cells.share;
    Largest largest;
    if (MAXIMA) {
        for_cell(input, cells, own, chain, norm, [&](u32, u32, const Pack& value) {
#pragma unroll
            for (int i = 0; i < WIDTH; i++) largest.takes(i, result_of(value.of[i]));
            ++largest.pixel;
        });
    }
    const u64 start = (u64)chain * input.num_images * input.len;
    for_cell(input, cells, own, chain, norm, [&](u32 pixel, u32 at, const Pack& value) {
        Pack term = {};
        if (to.adds) term = load_pack(to.gradient, start + at);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            const bool counts = !MAXIMA || is_largest(largest.places, i, pixel);
            if (counts) term.of[i] = fmaf(gradient.of[i], slope_of(value.of[i]), term.of[i]);
            if (to.masks && input.relu && !(value.of[i] > 0.0f)) term.of[i] = 0.0f;
        }
        store_pack(to.gradient, start + at, term);
    });
}
