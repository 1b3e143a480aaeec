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

// Numbers of a chain and what becomes of them: a value as readers see it, or dV (IS_GRADIENT), or weights as they are.
template <bool IS_GRADIENT>
struct Numbers {
    const element* values;
    // V beside D; null where there is no norm.
    const element* others;
    // s and t, or a, b and c, `channels` apart; null where there is no norm.
    const float* coefficients;
    u32 channels;
    bool relu;

    DEVICE float single(u32 at, u32 channel) const {
        float number = load_element(values, at);
        if (coefficients) {
            const float* const own = coefficients + channel % channels;
            if (IS_GRADIENT) {
                number = fmaf(own[0], number, fmaf(own[channels], load_element(others, at), own[2 * channels]));
            } else {
                number = fmaf(own[0], number, own[channels]);
            }
        }
        return relu && number < 0.0f ? 0.0f : number;
    }
};

// Those from channel `first_channel` on.
DEVICE Numbers<false> numbers_of(const Reading& from, u32 chain, u32 first_channel) {
    const float* const norm = from.norm ? from.norm + (u64)chain * 4 * from.channels + first_channel : nullptr;
    const element* const values = from.values + (u64)chain * from.num_images * from.len + first_channel;
    return {values, nullptr, norm, from.channels, from.relu != 0};
}

DEVICE Numbers<true> numbers_of(const Upstream& of, u32 chain, u32 first_channel) {
    const u64 first = (u64)chain * of.num_images * of.len + first_channel;
    if (!of.slopes) return {of.gradient + first, nullptr, nullptr, of.channels, false};
    const float* const slopes = of.slopes + (u64)chain * 3 * of.channels + first_channel;
    return {of.gradient + first, of.values + first, slopes, of.channels, false};
}

// A kernel from its number `first` on.
DEVICE Numbers<false> weights_of(const element* kernel, u64 first) { return {kernel + first, nullptr, nullptr, 1, false}; }

// Eight numbers that were asked for, and are made what readers see once they are there.
template <bool IS_GRADIENT>
struct Fetched {
    Raw own, other;
    bool valid;

    // All eight at `at`, a multiple of sixteen bytes.
    DEVICE void fetch(const Numbers<IS_GRADIENT>& from, int at, bool is_valid) {
        valid = is_valid;
        own = is_valid ? load_wide(from.values + at) : no_numbers();
        if (IS_GRADIENT && from.others) other = is_valid ? load_wide(from.others + at) : no_numbers();
    }

    // `channel` is that of the first, a multiple of eight.
    DEVICE Raw seen(const Numbers<IS_GRADIENT>& from, u32 channel) const {
        if (!valid) return own;
        if (from.coefficients) {
            const float* const coefficients = from.coefficients + channel % from.channels;
            Eight x = eight_of(own);
            const Eight first = eight_at(coefficients), second = eight_at(coefficients + from.channels);
            if (IS_GRADIENT) {
                const Eight third = eight_at(coefficients + 2 * from.channels), v = eight_of(other);
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    x.number[i] = fmaf(first.number[i], x.number[i], fmaf(second.number[i], v.number[i], third.number[i]));
            } else {
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    x.number[i] = fmaf(first.number[i], x.number[i], second.number[i]);
                    if (from.relu && x.number[i] < 0.0f) x.number[i] = 0.0f;
                }
            }
            return raw_of(x);
        }
        if (IS_GRADIENT || !from.relu) return own;
#if HALF
        return {make_uint4(cut_off(own.words.x), cut_off(own.words.y), cut_off(own.words.z), cut_off(own.words.w))};
#else
        Eight x = eight_of(own);
#pragma unroll
        for (int i = 0; i < 8; ++i) x.number[i] = x.number[i] < 0.0f ? 0.0f : x.number[i];
        return raw_of(x);
#endif
    }
};
