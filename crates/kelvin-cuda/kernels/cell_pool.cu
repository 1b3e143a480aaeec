// An activation and the pool behind it, or a pool of maxima (cell_pool.cuh), forward.
//
// Reads the value and writes the result once, 16 bytes at a time where WIDTH is not 1. Specification: network/activation.rs,
// network/images/pool.rs (PoolForward), max_pool.rs (MaxPoolForward).

#include "cell_pool.cuh"

struct CellPoolArguments {
    Reading input;
    element* output;
    PooledCells cells;
};

extern "C" __global__ void cell_pool(const CellPoolArguments arguments) {
    const Reading& input = arguments.input;
    const PooledCells& cells = arguments.cells;
    const u32 chain = blockIdx.y, number = blockIdx.x * blockDim.x + threadIdx.x;
    const OwnCell own = own_cell(input, cells, number);
    if (own.image >= input.num_images) return;
    const NormPack norm = load_norm(input, chain, own.channel);
    Pack sum = {};
    Largest largest;
    for_cell(input, cells, own, chain, norm, [&](u32, u32, const Pack& value) {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) {
            const float y = result_of(value.of[i]);
            if (MAXIMA) {
                largest.takes(i, y);
            } else {
                sum.of[i] = fmaf(y, cells.share, sum.of[i]);
            }
        }
        ++largest.pixel;
    });
    const u64 count = (u64)input.num_images * cells.down * cells.across * input.channels;
    store_pack(arguments.output, chain * count + (u64)number * WIDTH, MAXIMA ? largest.value : sum);
}
