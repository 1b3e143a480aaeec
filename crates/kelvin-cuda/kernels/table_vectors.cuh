// Numbers of a lane to and from memory, in vectors as wide as their count allows.

template <int count>
DEVICE void load_floats(float (&to)[count], const float* from) {
    if constexpr (count % 4 == 0) {
#pragma unroll
        for (int i = 0; i < count; i += 4) {
            const float4 four = *(const float4*)(from + i);
            to[i] = four.x;
            to[i + 1] = four.y;
            to[i + 2] = four.z;
            to[i + 3] = four.w;
        }
    } else if constexpr (count == 2) {
        const float2 two = *(const float2*)from;
        to[0] = two.x;
        to[1] = two.y;
    } else {
#pragma unroll
        for (int i = 0; i < count; ++i) to[i] = from[i];
    }
}

template <int count, int all>
DEVICE void store_floats(float* to, const float (&from)[all]) {
    if constexpr (count % 4 == 0) {
#pragma unroll
        for (int i = 0; i < count; i += 4) {
            *(float4*)(to + i) = make_float4(from[i], from[i + 1], from[i + 2], from[i + 3]);
        }
    } else if constexpr (count == 2) {
        *(float2*)to = make_float2(from[0], from[1]);
    } else {
#pragma unroll
        for (int i = 0; i < count; ++i) to[i] = from[i];
    }
}
