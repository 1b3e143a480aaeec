// Random numbers by name: Philox4x32-10 words, normal numbers, keyed permutations.
//
// Specification: kelvin::random (philox.rs, normal.rs, permutation.rs). The numbers are the same bit for bit: every
// fused multiply-add is spelled out, and no product here can be fused with a sum of the caller's.

#include "gpu.cuh"

// What a random number is for, as kelvin::random::Purpose.
enum Purpose : u32 {
    STEP_NOISE = 1,
    BATCH_ORDER = 2,
    INITIAL_POSITION = 3,
    SPLIT = 4,
    PRECONDITIONER = 5,
    AUGMENTATION = 6,
    PRECONDITIONER_AUGMENTATION = 7,
    SYNTHETIC = 8,
    STATISTICS_ORDER = 9,
};

// Names random numbers, as kelvin::random::NoiseKey does.
struct NoiseKey {
    u64 seed;
    u32 purpose;
    u32 chain;
    u64 step;
};

// Block `block` of four random words.
DEVICE uint4 random_words(const NoiseKey& name, u32 block) {
    uint4 counter = make_uint4(block, (u32)name.step, name.chain, name.purpose << 24 | ((u32)(name.step >> 32) & 0xFFFFFFu));
    u32 key0 = (u32)name.seed, key1 = (u32)(name.seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const u64 low = (u64)counter.x * 0xD2511F53u;
        const u64 high = (u64)counter.z * 0xCD9E8D57u;
        counter = make_uint4((u32)(high >> 32) ^ counter.y ^ key0, (u32)high, (u32)(low >> 32) ^ counter.w ^ key1, (u32)low);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

// ln x for x in (0, 1].
DEVICE float normal_logarithm(float x) {
    const u32 shifted = __float_as_uint(x) - 0x3F3504F3u;  // bits of √½
    const float exponent = (float)((int)shifted >> 23);
    const float t = __uint_as_float((shifted & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f;
    float polynomial = 7.0376836e-2f;
    polynomial = __fmaf_rn(polynomial, t, -1.151461e-1f);
    polynomial = __fmaf_rn(polynomial, t, 1.1676999e-1f);
    polynomial = __fmaf_rn(polynomial, t, -1.2420141e-1f);
    polynomial = __fmaf_rn(polynomial, t, 1.4249323e-1f);
    polynomial = __fmaf_rn(polynomial, t, -1.6668057e-1f);
    polynomial = __fmaf_rn(polynomial, t, 2.0000715e-1f);
    polynomial = __fmaf_rn(polynomial, t, -2.4999994e-1f);
    polynomial = __fmaf_rn(polynomial, t, 3.333333e-1f);
    const float square = __fmul_rn(t, t);
    const float tail = __fmaf_rn(__fmul_rn(polynomial, t), square, __fmul_rn(-0.5f, square));
    return __fmaf_rn(exponent, 0.693147180559945309f, __fadd_rn(t, tail));
}

// Two normal numbers from two words: √(−2 ln u) (cos 2πv, sin 2πv).
DEVICE float2 normal_pair(u32 first, u32 second) {
    const float u = __fmul_rn(__fadd_rn((float)(int)(first >> 1), 0.5f), 1.0f / 2147483648.0f);
    const float radius = __fsqrt_rn(__fmul_rn(-2.0f, normal_logarithm(u)));
    // v = quarter/4 + rest with |rest| ≤ 1/8, both exact; the angle of the rest lies within ±π/4.
    const u32 word = second >> 8;
    const u32 quarter = (word + (1u << 21)) >> 22;
    const float angle = __fmul_rn((float)(int)(word - (quarter << 22)), 6.28318530717958648f / 16777216.0f);
    const float square = __fmul_rn(angle, angle);
    const float p = __fmaf_rn(__fmaf_rn(-1.9515296e-4f, square, 8.332161e-3f), square, -1.6666655e-1f);
    const float sine = __fmaf_rn(__fmul_rn(p, square), angle, angle);
    const float q = __fmaf_rn(__fmaf_rn(2.4433157e-5f, square, -1.3887316e-3f), square, 4.1666646e-2f);
    const float cosine = __fmaf_rn(__fmul_rn(q, square), square, __fmaf_rn(-0.5f, square, 1.0f));
    const bool odd = quarter & 1;
    const float s = __uint_as_float(__float_as_uint(odd ? cosine : sine) ^ ((quarter & 2) << 30));
    const float c = __uint_as_float(__float_as_uint(odd ? sine : cosine) ^ (((quarter + 1) & 2) << 30));
    return make_float2(__fmul_rn(radius, c), __fmul_rn(radius, s));
}

// The four normal numbers of Philox block 16 g + l (l < 16): those of parameters 64 g + l, + 16, + 32 and + 48.
// A thread that takes a whole block does a quarter of the work of four calls of normal_at.
DEVICE float4 normals_of_block(const NoiseKey& name, u32 block) {
    const uint4 words = random_words(name, block);
    const float2 ab = normal_pair(words.x, words.y), cd = normal_pair(words.z, words.w);
    return make_float4(ab.x, ab.y, cd.x, cd.y);
}

// The first of the four parameters of a block; the others follow 16 apart.
DEVICE u32 first_parameter_of_block(u32 block) { return block / 16 * 64 + block % 16; }

// How many blocks hold the numbers of `len` parameters; parameters of the last ones may lie beyond `len`.
DEVICE u32 num_normal_blocks(u32 len) { return (len + 63) / 64 * 16; }

// Normal number `index` of NoiseKey::fill_normal: word (index/16) % 4 of block 16 (index/64) + index % 16.
DEVICE float normal_at(const NoiseKey& name, u32 index) {
    const uint4 words = random_words(name, index / 64 * 16 + index % 16);
    const u32 word = index / 16 % 4;
    const float2 pair = word < 2 ? normal_pair(words.x, words.y) : normal_pair(words.z, words.w);
    return word % 2 == 0 ? pair.x : pair.y;
}

// A random order of `len` things: a Feistel network over left × right ≥ len places.
struct Permutation {
    u32 len;
    u32 left;
    u32 right;
    u32 keys[8];
};

// The order named by seed, purpose, chain and epoch (the key's step), of fewer than 2³¹ things.
DEVICE Permutation permutation_of(const NoiseKey& name, u32 len) {
    Permutation order;
    order.len = len;
    order.right = max((u32)ceil(sqrt((double)len)), 16u);
    order.left = max((len + order.right - 1) / order.right, 16u);
    const uint4 a = random_words(name, 0), b = random_words(name, 1);
    order.keys[0] = a.x, order.keys[1] = a.y, order.keys[2] = a.z, order.keys[3] = a.w;
    order.keys[4] = b.x, order.keys[5] = b.y, order.keys[6] = b.z, order.keys[7] = b.w;
    return order;
}

// A well-mixed hash of one word under a key.
DEVICE u32 permutation_mixed(u32 value, u32 key) {
    u32 word = value ^ key;
    word = (word ^ word >> 16) * 0x7FEB352Du;
    word = (word ^ word >> 15) * 0x846CA68Bu;
    return word ^ word >> 16;
}

// (value + a random number below modulus) mod modulus, for a modulus below 2¹⁶.
DEVICE u32 permutation_shifted(u32 value, u32 random, u32 modulus) {
    const u32 sum = value + (((random >> 16) * modulus) >> 16);
    return min(sum, sum - modulus);  // below the modulus the difference wraps round and is the larger one
}

// The thing at `position`: rounds until it lands inside.
DEVICE u32 permutation_at(const Permutation& order, u32 position) {
    u32 index = position;
    do {
        u32 left = index / order.right, right = index % order.right;
#pragma unroll
        for (int pair = 0; pair < 8; pair += 2) {
            left = permutation_shifted(left, permutation_mixed(right, order.keys[pair]), order.left);
            right = permutation_shifted(right, permutation_mixed(left, order.keys[pair + 1]), order.right);
        }
        index = left * order.right + right;
    } while (index >= order.len);
    return index;
}
