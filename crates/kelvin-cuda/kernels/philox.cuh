// Philox4x32-10 and normal numbers by name. Specification: kelvin::random (philox.rs, normal.rs, permutation.rs).

#include "gpu.cuh"

// Names random numbers, as kelvin::random::NoiseKey does.
struct NoiseKey {
    u64 seed;
    u32 purpose;
    u32 chain;
    u64 step;
};
