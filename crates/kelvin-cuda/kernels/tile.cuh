// Tiles of bf16 pixels in shared memory, and what goes through them: chunks of eight channels, sixteen bytes each.

#include "gpu.cuh"

// Where chunk `chunk` of row `row` lies (in chunks) in a tile of `chunks` chunks a row, an even number. Rows are an odd number
// of chunks apart, so that the same chunk of eight neighbouring rows lies in eight different groups of banks.
template <int chunks>
DEVICE int padded(int row, int chunk) {
    return row * (chunks + 1) + chunk;
}

// Eight numbers as f32.
struct Eight {
    float number[8];
};

DEVICE Eight unpacked(uint4 chunk) {
    Eight eight;
    const u32 words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        eight.number[2 * i] = low_bf16(words[i]);
        eight.number[2 * i + 1] = high_bf16(words[i]);
    }
    return eight;
}

DEVICE uint4 packed(const Eight& eight) {
    return make_uint4(pack_bf16(eight.number[0], eight.number[1]), pack_bf16(eight.number[2], eight.number[3]),
                      pack_bf16(eight.number[4], eight.number[5]), pack_bf16(eight.number[6], eight.number[7]));
}

// Eight f32 from shared memory.
DEVICE Eight eight_at(const float* from) {
    Eight eight;
    const float4 first = *(const float4*)from, second = *(const float4*)(from + 4);
    eight.number[0] = first.x, eight.number[1] = first.y, eight.number[2] = first.z, eight.number[3] = first.w;
    eight.number[4] = second.x, eight.number[5] = second.y, eight.number[6] = second.z, eight.number[7] = second.w;
    return eight;
}

// max(x, 0) of two numbers.
DEVICE u32 cut_off(u32 pair) { return max_bf16(pair, 0u); }

// `pair` where `seen`, two numbers ≥ 0, is above 0, else 0. A half that is not 0 carries into its highest bit.
DEVICE u32 masked(u32 pair, u32 seen) { return pair & ((((seen + 0x7FFF7FFFu) & 0x80008000u) >> 15) * 0xFFFFu); }

// What readers of a value see: scale · x + shift of its batch norm, then max(x, 0).
template <bool norm, bool relu>
DEVICE uint4 read_value(uint4 chunk, const Eight& s, const Eight& t) {
    if (norm) {
        Eight x = unpacked(chunk);
#pragma unroll
        for (int i = 0; i < 8; ++i) x.number[i] = fmaf(s.number[i], x.number[i], t.number[i]);
        chunk = packed(x);
    }
    if (relu) chunk = make_uint4(cut_off(chunk.x), cut_off(chunk.y), cut_off(chunk.z), cut_off(chunk.w));
    return chunk;
}

template <bool norm, bool relu>
DEVICE uint4 read_value(uint4 chunk, const float* scale, const float* shift) {
    Eight s, t;
    if (norm) s = eight_at(scale), t = eight_at(shift);
    return read_value<norm, relu>(chunk, s, t);
}

// Four lanes of a quad hold column pairs of four 8-column rows; afterwards lane q holds all four pairs of row q.
DEVICE uint4 gather_quad(u32 x0, u32 x1, u32 x2, u32 x3, int lane) {
    const bool odd = lane & 1, upper = lane & 2;
    u32 first = __shfl_xor_sync(0xFFFFFFFFu, odd ? x0 : x1, 1), second = __shfl_xor_sync(0xFFFFFFFFu, odd ? x2 : x3, 1);
    if (odd) {
        x0 = first, x2 = second;
    } else {
        x1 = first, x3 = second;
    }
    first = __shfl_xor_sync(0xFFFFFFFFu, upper ? x0 : x2, 2), second = __shfl_xor_sync(0xFFFFFFFFu, upper ? x1 : x3, 2);
    if (upper) {
        x0 = first, x1 = second;
    } else {
        x2 = first, x3 = second;
    }
    return make_uint4(x0, x1, x2, x3);
}

// The sum over the lanes of a warp that hold the same columns (lane % 4), in all of them.
DEVICE float column_sum(float value) {
    value += __shfl_xor_sync(0xFFFFFFFFu, value, 4);
    value += __shfl_xor_sync(0xFFFFFFFFu, value, 8);
    return value + __shfl_xor_sync(0xFFFFFFFFu, value, 16);
}
