// The input of a convolution where it is a sum that is yet to be worked out (SUM_INPUT): tiles add its terms on the way
// in, as add_values.cu does, and write the sum in their own rows for its other readers.
//
// The first term comes through the stage, the second straight from memory, where it was asked for at the same time.
//
// Defines: SUM_INPUT LEFT_NORM LEFT_RELU RIGHT_NORM RIGHT_RELU (0 or 1): how the terms are read; all 0 where there is
// no sum. INPUT_PENDING (of the input or the first term) OTHER_PENDING (of the second): whether this kernel finishes
// the norm.

#include "conv_forward_arguments.cuh"
#include "conv_tile.cuh"

namespace {

static_assert((!INPUT_PENDING || INPUT_NORM || LEFT_NORM) && (!OTHER_PENDING || RIGHT_NORM), "norms to finish");
static_assert(!SUM_INPUT || (!INPUT_NORM && !PACKED && STEP == 1 && KERNEL - PAD_TOP >= STRIDE &&
                             KERNEL - PAD_LEFT >= STRIDE),
              "tiles cover the input of a sum");

// s and t of the first term (or of the input), and of the second: [2][2][channel].
DEVICE void prepare_coefficients(float* to, const ConvForwardArguments& arguments, u32 chain, int thread) {
    const bool writes = blockIdx.x == 0;
    if (INPUT_PENDING) finish_norm(arguments.pending, chain, to, writes);
    if (OTHER_PENDING) finish_norm(arguments.other_pending, chain, to + 2 * CHANNELS, writes);
    for (int i = thread; i < 2 * CHANNELS; i += THREADS) {
        if ((INPUT_NORM || LEFT_NORM) && !INPUT_PENDING) to[i] = arguments.norm[chain * (4 * CHANNELS) + i];
        if (RIGHT_NORM && !OTHER_PENDING)
            to[2 * CHANNELS + i] = arguments.other_norm[chain * (4 * CHANNELS) + i];
    }
}

// How a thread reads its chunk of a term, the same of every pixel.
template <bool norm, bool relu>
struct Term {
    Eight scale, shift;

    DEVICE explicit Term(const float* coefficients) {
        if (norm) scale = eight_at(coefficients), shift = eight_at(coefficients + CHANNELS);
    }

    DEVICE Eight operator()(uint4 chunk) const {
        Eight read = unpacked(chunk);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (norm) read.number[i] = fmaf(scale.number[i], read.number[i], shift.number[i]);
            if (relu) read.number[i] = read.number[i] < 0.0f ? 0.0f : read.number[i];
        }
        return read;
    }
};

struct InputSum {
    const uint4* other;
    uint4* sum;
    Term<LEFT_NORM, LEFT_RELU> left;
    Term<RIGHT_NORM, RIGHT_RELU> right;

    // `numbers` lie before the chain's.
    DEVICE InputSum(const ConvForwardArguments& arguments, u64 numbers, const float* coefficients, int thread)
        : other((const uint4*)(arguments.other + numbers)),
          sum((uint4*)(arguments.sum + numbers)),
          left(coefficients + thread % CHUNKS * 8),
          right(coefficients + 2 * CHANNELS + thread % CHUNKS * 8) {}

    // The second term's chunk `place` of the chain.
    DEVICE uint4 ask(u32 place) const { return SUM_INPUT ? __ldg(other + place) : make_uint4(0, 0, 0, 0); }

    // The sum's, which is written in a row of the tile's own.
    DEVICE uint4 operator()(uint4 staged, uint4 asked, u32 place, bool own) const {
        if (!SUM_INPUT) return staged;
        Eight added = left(staged);
        const Eight term = right(asked);
#pragma unroll
        for (int i = 0; i < 8; ++i) added.number[i] += term.number[i];
        const uint4 chunk = packed(added);
        if (own) sum[place] = chunk;
        return chunk;
    }
};

}  // namespace
