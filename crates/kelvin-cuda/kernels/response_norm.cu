// Filter response norm with what cuts it off and the pool behind it (response_norm.cuh), forward.
//
// 1/√(mean u² + ε) of each image goes to [chain][image][channel] for the backward pass. Reads the value once, or twice where a block's
// share is too large to keep (the second time from the cache), writes the result once, 16 bytes at a time where WIDTH is not
// 1. Specification: network/images/response_norm.rs (Normalise, CutOff), pool.rs (PoolForward).

#include "response_norm.cuh"

struct ResponseNormArguments {
    Reading input;
    const float* gamma;
    const float* beta;
    double* roots;
    element* output;
    double epsilon;
    u64 parameter_stride;
    CutOff cut_off;
    Cells cells;
};

template <int AREA, int CELLS, bool NORM>
DEVICE void respond(const ResponseNormArguments& arguments, float* scratch) {
    const Reading& input = arguments.input;
    const Cells& cells = arguments.cells;
    const u32 chain = blockIdx.y;
    const CellShare own = cell_share(input, cells);
    const PixelShare& share = own.share;
    const NormPack norm = NORM ? load_norm(input, chain, share.unit * WIDTH) : NormPack();
    RawPack* const kept = (RawPack*)(scratch + WIDTH * THREADS);
    float squares[WIDTH] = {};
    const auto nothing = [](int, u32) {};
    for_pixels<AREA, CELLS, true>(input, cells, own, chain, kept, nothing,
                                  [&](const RawPack& raw, int, u32, u32, bool) {
                                      const Pack value = seen_pack<NORM>(raw, norm, input);
#pragma unroll
                                      for (int i = 0; i < WIDTH; i++)
                                          squares[i] = fmaf(value.of[i], value.of[i], squares[i]);
                                  });
    sum_rows(squares, scratch, share);
    const u64 parameter = chain * arguments.parameter_stride + share.unit * WIDTH;
    const u64 root_at = ((u64)chain * input.num_images + blockIdx.x) * input.channels + share.unit * WIDTH;
    const double pixels = input.len / input.channels;
    double roots[WIDTH];
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        const double total = scratch[i * THREADS + share.unit - share.first_unit];
        roots[i] = 1.0 / sqrt(total / pixels + arguments.epsilon);
        if (share.row == 0) arguments.roots[root_at + i] = roots[i];
    }
    const ResponseCoefficients by(arguments.cut_off, arguments.gamma, arguments.beta, parameter, roots);
    const u64 to = ((u64)chain * input.num_images + blockIdx.x) * cells.num_cells * input.channels + share.unit * WIDTH;
    Pack sum = {};
    for_pixels<AREA, CELLS, false>(
        input, cells, own, chain, kept, nothing, [&](const RawPack& raw, int, u32 cell, u32, bool is_last) {
            const Pack value = seen_pack<NORM>(raw, norm, input);
#pragma unroll
            for (int i = 0; i < WIDTH; i++) {
                const float y = by.result(value, i), z = y < by.floor.of[i] ? by.floor.of[i] : y;
                sum.of[i] = AREA == 1 ? z : fmaf(z, cells.share, sum.of[i]);
            }
            if (!is_last) return;
            store_pack(arguments.output, to + cell * input.channels, sum);
            sum = {};
        });
}

template <bool NORM>
DEVICE void respond_to(const ResponseNormArguments& arguments, float* scratch) {
    const Cells& cells = arguments.cells;
    if (cells.height * cells.width == 1) {
        respond<1, 4, NORM>(arguments, scratch);
    } else if (cells.height == 2 && cells.width == 2) {
        respond<4, 1, NORM>(arguments, scratch);
    } else {
        respond<0, 1, NORM>(arguments, scratch);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) response_norm(const ResponseNormArguments arguments) {
    SHARED_MEMORY(shared);
    if (arguments.input.norm) {
        respond_to<true>(arguments, (float*)shared);
    } else {
        respond_to<false>(arguments, (float*)shared);
    }
}
