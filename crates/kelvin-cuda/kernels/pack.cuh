// WIDTH neighbouring channels of a pixel at a time: 8 of bf16 and 4 of f32 are sixteen bytes, 1 fits any number of channels.
//
// The same meaning as in reading.cuh; WIDTH must divide the number of channels.

#include "reading.cuh"

struct Pack {
    float of[WIDTH];
};

// The same as they lie in memory: fewer registers for what is still under way.
#if WIDTH == 1
typedef element RawPack;
#elif HALF
typedef uint4 RawPack;
#else
typedef float4 RawPack;
#endif

DEVICE RawPack load_raw(const element* from, u64 at) { return *(const RawPack*)(from + at); }

DEVICE Pack pack_of(const RawPack& raw) {
    Pack pack;
#if WIDTH == 1
    pack.of[0] = load_element(&raw, 0);
#elif HALF
    pack.of[0] = low_bf16(raw.x), pack.of[1] = high_bf16(raw.x);
    pack.of[2] = low_bf16(raw.y), pack.of[3] = high_bf16(raw.y);
    pack.of[4] = low_bf16(raw.z), pack.of[5] = high_bf16(raw.z);
    pack.of[6] = low_bf16(raw.w), pack.of[7] = high_bf16(raw.w);
#else
    pack.of[0] = raw.x, pack.of[1] = raw.y, pack.of[2] = raw.z, pack.of[3] = raw.w;
#endif
    return pack;
}

DEVICE Pack load_pack(const element* from, u64 at) { return pack_of(load_raw(from, at)); }

// As they will lie in memory.
DEVICE RawPack raw_of(const Pack& pack) {
#if WIDTH == 1 && HALF
    return to_bf16(pack.of[0]);
#elif WIDTH == 1
    return pack.of[0];
#elif HALF
    return make_uint4(pack_bf16(pack.of[0], pack.of[1]), pack_bf16(pack.of[2], pack.of[3]),
                      pack_bf16(pack.of[4], pack.of[5]), pack_bf16(pack.of[6], pack.of[7]));
#else
    return make_float4(pack.of[0], pack.of[1], pack.of[2], pack.of[3]);
#endif
}

// By name, since a compiler may take an assignment of sixteen bytes apart.
DEVICE void store_raw(element* to, u64 at, const RawPack& raw) {
#if WIDTH == 1
    to[at] = raw;
#else
    __stwb((RawPack*)(to + at), raw);
#endif
}

DEVICE void store_pack(element* to, u64 at, const Pack& pack) { store_raw(to, at, raw_of(pack)); }

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

// s and t of a chain's channels `channel` and on; 1 and 0 where there is no norm.
struct NormPack {
    Pack scale;
    Pack shift;
};

DEVICE NormPack load_norm(const Reading& from, u32 chain, u32 channel) {
    NormPack norm;
    if (from.norm) {
        const float* of = from.norm + (u64)chain * 4 * from.channels + channel;
        norm.scale = load_coefficients(of), norm.shift = load_coefficients(of + from.channels);
    } else {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) norm.scale.of[i] = 1.0f, norm.shift.of[i] = 0.0f;
    }
    return norm;
}

// What a norm makes of numbers as they lie in memory.
DEVICE Pack normed(const NormPack& norm, Pack pack) {
#pragma unroll
    for (int i = 0; i < WIDTH; i++) pack.of[i] = fmaf(norm.scale.of[i], pack.of[i], norm.shift.of[i]);
    return pack;
}
