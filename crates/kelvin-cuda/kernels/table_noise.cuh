// Philox blocks whole: four words, or four normal numbers. Specification: kelvin::random (philox.rs, normal.rs).

DEVICE uint4 philox(const NoiseKey& name, u32 block) {
    u32 a = block, b = (u32)name.step, c = name.chain;
    u32 d = name.purpose << 24 | ((u32)(name.step >> 32) & 0x00FFFFFFu);
    u32 key0 = (u32)name.seed, key1 = (u32)(name.seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const u64 low = (u64)a * 0xD2511F53u, high = (u64)c * 0xCD9E8D57u;
        a = (u32)(high >> 32) ^ b ^ key0;
        b = (u32)high;
        c = (u32)(low >> 32) ^ d ^ key1;
        d = (u32)low;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return make_uint4(a, b, c, d);
}

DEVICE float noise_ln(float x) {
    const u32 shifted = __float_as_uint(x) - 0x3F3504F3u;
    const float exponent = (float)((int)shifted >> 23);
    const float t = __uint_as_float((shifted & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f;
    float p = 7.0376836e-2f;
    p = fmaf(p, t, -1.151461e-1f);
    p = fmaf(p, t, 1.1676999e-1f);
    p = fmaf(p, t, -1.2420141e-1f);
    p = fmaf(p, t, 1.4249323e-1f);
    p = fmaf(p, t, -1.6668057e-1f);
    p = fmaf(p, t, 2.0000715e-1f);
    p = fmaf(p, t, -2.4999994e-1f);
    p = fmaf(p, t, 3.333333e-1f);
    const float square = t * t;
    const float tail = fmaf(p * t, square, -0.5f * square);
    return fmaf(exponent, 0.6931472f, t + tail);
}

DEVICE float2 box_muller_of(u32 first, u32 second) {
    const float u = ((float)(int)(first >> 1) + 0.5f) * (1.0f / 2147483648.0f);
    const float radius = sqrtf(-2.0f * noise_ln(u));
    const u32 word = second >> 8, quarter = (word + (1u << 21)) >> 22;
    const float angle = (float)(int)(word - (quarter << 22)) * (6.2831855f / 16777216.0f);
    const float square = angle * angle;
    float p = fmaf(fmaf(-1.9515296e-4f, square, 8.332161e-3f), square, -1.6666655e-1f);
    const float sine = fmaf(p * square, angle, angle);
    p = fmaf(fmaf(2.4433157e-5f, square, -1.3887316e-3f), square, 4.1666646e-2f);
    const float cosine = fmaf(p * square, square, fmaf(-0.5f, square, 1.0f));
    const bool odd = (quarter & 1) != 0;
    const float s = __uint_as_float(__float_as_uint(odd ? cosine : sine) ^ (quarter & 2u) << 30);
    const float c = __uint_as_float(__float_as_uint(odd ? sine : cosine) ^ ((quarter + 1) & 2u) << 30);
    return make_float2(radius * c, radius * s);
}

// The numbers of parameters 64 (block/16) + block%16 + 16 q, q < 4.
DEVICE float4 normals_of_block(const NoiseKey& key, u32 block) {
    const uint4 words = philox(key, block);
    const float2 first = box_muller_of(words.x, words.y), second = box_muller_of(words.z, words.w);
    return make_float4(first.x, first.y, second.x, second.y);
}
