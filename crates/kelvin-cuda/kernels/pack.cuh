// WIDTH neighbouring channels of a pixel at a time: 8 of bf16 and 4 of f32 are sixteen bytes, 1 fits any number of channels.
//
// The same meaning as in reading.cuh; WIDTH must divide the number of channels.

#include "reading.cuh"

struct Pack {
    float of[WIDTH];
};

DEVICE Pack load_pack(const element* from, u64 at) {
    Pack pack;
#if WIDTH == 1
    pack.of[0] = load_element(from, at);
#elif HALF
    const uint4 words = *(const uint4*)(from + at);
    pack.of[0] = low_bf16(words.x), pack.of[1] = high_bf16(words.x);
    pack.of[2] = low_bf16(words.y), pack.of[3] = high_bf16(words.y);
    pack.of[4] = low_bf16(words.z), pack.of[5] = high_bf16(words.z);
    pack.of[6] = low_bf16(words.w), pack.of[7] = high_bf16(words.w);
#else
    const float4 numbers = *(const float4*)(from + at);
    pack.of[0] = numbers.x, pack.of[1] = numbers.y, pack.of[2] = numbers.z, pack.of[3] = numbers.w;
#endif
    return pack;
}

DEVICE void store_pack(element* to, u64 at, const Pack& pack) {
#if WIDTH == 1
    store_element(to, at, pack.of[0]);
#elif HALF
    *(uint4*)(to + at) = make_uint4(pack_bf16(pack.of[0], pack.of[1]), pack_bf16(pack.of[2], pack.of[3]),
                                    pack_bf16(pack.of[4], pack.of[5]), pack_bf16(pack.of[6], pack.of[7]));
#else
    *(float4*)(to + at) = make_float4(pack.of[0], pack.of[1], pack.of[2], pack.of[3]);
#endif
}

// Coefficients of neighbouring channels.
DEVICE Pack load_coefficients(const float* from) {
    Pack pack;
#if WIDTH == 1
    pack.of[0] = from[0];
#else
#pragma unroll
    for (int at = 0; at < WIDTH; at += 4) {
        const float4 numbers = *(const float4*)(from + at);
        pack.of[at] = numbers.x, pack.of[at + 1] = numbers.y, pack.of[at + 2] = numbers.z, pack.of[at + 3] = numbers.w;
    }
#endif
    return pack;
}

// Numbers `at` and on of a chain's images after the norm, before the ReLU.
DEVICE Pack uncut_pack(const Reading& from, u32 chain, u32 at) {
    Pack pack = load_pack(from.values, (u64)chain * from.num_images * from.len + at);
    if (from.norm) {
        const float* norm = from.norm + (u64)chain * 4 * from.channels + at % from.channels;
        const Pack scale = load_coefficients(norm), shift = load_coefficients(norm + from.channels);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) pack.of[i] = fmaf(scale.of[i], pack.of[i], shift.of[i]);
    }
    return pack;
}

// The same as readers see them.
DEVICE Pack read_pack(const Reading& from, u32 chain, u32 at) {
    Pack pack = uncut_pack(from, chain, at);
    if (from.relu) {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) pack.of[i] = pack.of[i] < 0.0f ? 0.0f : pack.of[i];
    }
    return pack;
}

// dV of numbers `at` and on.
DEVICE Pack upstream_pack(const Upstream& of, u32 chain, u32 at) {
    const u64 place = (u64)chain * of.num_images * of.len + at;
    Pack pack = load_pack(of.gradient, place);
    if (of.slopes) {
        const float* slopes = of.slopes + (u64)chain * 3 * of.channels + at % of.channels;
        const Pack a = load_coefficients(slopes), b = load_coefficients(slopes + of.channels);
        const Pack c = load_coefficients(slopes + 2 * of.channels), value = load_pack(of.values, place);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) pack.of[i] = fmaf(a.of[i], pack.of[i], fmaf(b.of[i], value.of[i], c.of[i]));
    }
    return pack;
}

// Hands terms to D of numbers `at` and on of the value that was read.
DEVICE void downstream_pack(const Downstream& to, const Reading& from, u32 chain, u32 at, Pack term) {
    const u64 place = (u64)chain * from.num_images * from.len + at;
    if (to.adds) {
        const Pack before = load_pack(to.gradient, place);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) term.of[i] += before.of[i];
    }
    if (to.masks && from.relu) {
        const Pack value = uncut_pack(from, chain, at);
#pragma unroll
        for (int i = 0; i < WIDTH; i++) term.of[i] = value.of[i] > 0.0f ? term.of[i] : 0.0f;
    }
    store_pack(to.gradient, place, term);
}
