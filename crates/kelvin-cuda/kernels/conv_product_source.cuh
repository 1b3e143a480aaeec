// What the factors of a convolution's products are read from, eight numbers at a time, and what readers make of them.

#include "conv_product_view.cuh"
#include "tile.cuh"

// Eight numbers as they lie in memory.
struct Raw {
#if HALF
    uint4 words;
#else
    float4 low, high;
#endif
};

DEVICE Raw no_numbers() {
#if HALF
    return {make_uint4(0, 0, 0, 0)};
#else
    return {make_float4(0.0f, 0.0f, 0.0f, 0.0f), make_float4(0.0f, 0.0f, 0.0f, 0.0f)};
#endif
}

// Eight numbers from a multiple of sixteen bytes.
DEVICE Raw load_wide(const element* from) {
#if HALF
    return {*(const uint4*)from};
#else
    return {*(const float4*)from, *(const float4*)(from + 4)};
#endif
}

DEVICE Eight eight_of(const Raw& raw) {
#if HALF
    return unpacked(raw.words);
#else
    return {{raw.low.x, raw.low.y, raw.low.z, raw.low.w, raw.high.x, raw.high.y, raw.high.z, raw.high.w}};
#endif
}

DEVICE Raw raw_of(const Eight& of) {
#if HALF
    return {packed(of)};
#else
    return {make_float4(of.number[0], of.number[1], of.number[2], of.number[3]),
            make_float4(of.number[4], of.number[5], of.number[6], of.number[7])};
#endif
}

// What numbers are: a value as readers see it, dV, or weights as they are.
#define VALUE 0
#define GRADIENT 1
#define WEIGHT 2

// What a norm makes of eight neighbouring channels: s and t, or a, b and c.
struct Coefficients {
    Eight first, second, third;
};

// Numbers of a chain and what becomes of them.
template <int KIND>
struct Numbers {
    static constexpr bool HAS_NORM = KIND == VALUE ? INPUT_NORM : KIND == GRADIENT && OUTPUT_NORM;
    static constexpr bool HAS_RELU = KIND == VALUE && INPUT_RELU;
    // Whether they are made what readers see where they lie in shared memory; a ReLU alone cuts off on the way to products.
    static constexpr bool CHANGES = HAS_NORM || (HAS_RELU && !HALF);
    static constexpr bool HAS_OTHERS = KIND == GRADIENT && HAS_NORM;

    const element* values;
    // V beside D, where there is a norm.
    const element* others;
    // s and t, or a, b and c, `channels` apart, where there is a norm.
    const float* coefficients;
    u32 channels;

    DEVICE float single(u32 at, u32 channel) const {
        float number = load_element(values, at);
        if (HAS_NORM) {
            const float* const own = coefficients + channel % channels;
            if (KIND == GRADIENT) {
                number = fmaf(own[0], number, fmaf(own[channels], load_element(others, at), own[2 * channels]));
            } else {
                number = fmaf(own[0], number, own[channels]);
            }
        }
        return HAS_RELU && number < 0.0f ? 0.0f : number;
    }

    // Those of `channel`, a multiple of eight, and on.
    DEVICE Coefficients of(u32 channel) const {
        Coefficients eight;
        if (HAS_NORM) {
            const float* const own = coefficients + channel % channels;
            eight.first = eight_at(own), eight.second = eight_at(own + channels);
            if (KIND == GRADIENT) eight.third = eight_at(own + 2 * channels);
        }
        return eight;
    }
};

// Those from channel `first_channel` on.
DEVICE Numbers<VALUE> numbers_of(const Reading& from, u32 chain, u32 first_channel) {
    const float* const norm = from.norm + (u64)chain * 4 * from.channels + first_channel;
    return {from.values + (u64)chain * from.num_images * from.len + first_channel, nullptr, norm, from.channels};
}

DEVICE Numbers<GRADIENT> numbers_of(const Upstream& of, u32 chain, u32 first_channel) {
    const u64 first = (u64)chain * of.num_images * of.len + first_channel;
    const float* const slopes = of.slopes + (u64)chain * 3 * of.channels + first_channel;
    return {of.gradient + first, of.values + first, slopes, of.channels};
}

// A kernel from its number `first` on.
DEVICE Numbers<WEIGHT> weights_of(const element* kernel, u64 first) { return {kernel + first, nullptr, nullptr, 1}; }

// Eight numbers in shared memory.
DEVICE Raw raw_at(const uint4* from) {
#if HALF
    return {*from};
#else
    return {*(const float4*)from, *(const float4*)(from + 1)};
#endif
}

DEVICE void store_raw(uint4* to, const Raw& raw) {
#if HALF
    *to = raw.words;
#else
    *(float4*)to = raw.low, *(float4*)(to + 1) = raw.high;
#endif
}

// Asks for eight numbers from a multiple of sixteen bytes; zeros where they are not valid.
DEVICE void ask_wide(uint4* to, const element* from, bool valid) {
    copy_cached_async(to, from, valid);
    if (!HALF) copy_cached_async(to + 1, from + 4, valid);
}

// max(x, 0) of each.
DEVICE Raw cut_off_raw(const Raw& raw) {
#if HALF
    return {make_uint4(cut_off(raw.words.x), cut_off(raw.words.y), cut_off(raw.words.z), cut_off(raw.words.w))};
#else
    Eight x = eight_of(raw);
#pragma unroll
    for (int i = 0; i < 8; ++i) x.number[i] = x.number[i] < 0.0f ? 0.0f : x.number[i];
    return raw_of(x);
#endif
}

// What readers see of eight numbers, of a gradient with V beside it.
template <int KIND>
DEVICE Raw seen(const Raw& own, const Raw& other, const Coefficients& by) {
    using From = Numbers<KIND>;
    if (!From::HAS_NORM) return From::HAS_RELU ? cut_off_raw(own) : own;
    Eight x = eight_of(own);
    if (KIND == GRADIENT) {
        const Eight v = eight_of(other);
#pragma unroll
        for (int i = 0; i < 8; ++i)
            x.number[i] =
                fmaf(by.first.number[i], x.number[i], fmaf(by.second.number[i], v.number[i], by.third.number[i]));
    } else {
#pragma unroll
        for (int i = 0; i < 8; ++i) x.number[i] = fmaf(by.first.number[i], x.number[i], by.second.number[i]);
    }
    return From::HAS_RELU ? cut_off_raw(raw_of(x)) : raw_of(x);
}
