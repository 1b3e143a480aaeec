// The numbers that values and gradients consist of: f32, or bf16 in memory and f32 in arithmetic (HALF 1).

#include "gpu.cuh"

#if HALF
typedef bf16 element;
DEVICE float load_element(const element* from, u64 at) { return from_bf16(from[at]); }
DEVICE void store_element(element* to, u64 at, float number) { to[at] = to_bf16(number); }
#else
typedef float element;
DEVICE float load_element(const element* from, u64 at) { return from[at]; }
DEVICE void store_element(element* to, u64 at, float number) { to[at] = number; }
#endif
