// Single wgmma products for probe_wgmma.py: which numbers of shared memory they multiply, and how long they take.

#include "wgmma.cuh"

struct ProbeArguments {
    const uint4* input;  // ROOM chunks of shared memory
    float* output;       // 64 × 64, row after row
    u64 a;               // descriptors, with the place in shared memory counted from its start
    u64 b;
};

constexpr int ROOM = 2 * 8 * 91;

template <Major a_major, Major b_major>
DEVICE void probe(const ProbeArguments& arguments) {
    SHARED_MEMORY(shared);
    for (int i = threadIdx.x; i < ROOM; i += 128) ((uint4*)shared)[i] = arguments.input[i];
    show_to_products();
    __syncthreads();
    const u64 first = (shared_address(shared) & 0x3FFFF) >> 4;
    float sum[32];
    begin_products();
    multiply_add_async<a_major, b_major>(sum, arguments.a + first, arguments.b + first, false);
    commit_products();
    wait_products<0>();
    settle(sum);
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = 2 * (threadIdx.x % 4);
#pragma unroll
    for (int i = 0; i < 32; ++i) arguments.output[(row + i / 2 % 2 * 8) * 64 + i / 4 * 8 + column + i % 2] = sum[i];
}

extern "C" __global__ void probe_00(const ProbeArguments arguments) { probe<Major::k, Major::k>(arguments); }
extern "C" __global__ void probe_01(const ProbeArguments arguments) { probe<Major::k, Major::across>(arguments); }
extern "C" __global__ void probe_10(const ProbeArguments arguments) { probe<Major::across, Major::k>(arguments); }
extern "C" __global__ void probe_11(const ProbeArguments arguments) { probe<Major::across, Major::across>(arguments); }

constexpr int TURNS = 200;

// Clocks of TURNS · 8 products of each of two warpgroups, in so many sums; output[0] is what a multiprocessor needs for one.
template <Major a_major, Major b_major, int count, int num_sums>
DEVICE void probe_rate(const ProbeArguments& arguments) {
    SHARED_MEMORY(shared);
    for (int i = threadIdx.x; i < ROOM; i += 256) ((uint4*)shared)[i] = make_uint4(0, 0, 0, 0);
    show_to_products();
    __syncthreads();
    const u64 first = (shared_address(shared) & 0x3FFFF) >> 4;
    const u64 a = arguments.a + first, b = arguments.b + first;
    float sums[num_sums][count] = {};
    const long long start = clock64();
#pragma unroll 1
    for (int turn = 0; turn < TURNS; ++turn) {
        begin_products();
#pragma unroll
        for (int i = 0; i < 8; ++i) multiply_add_async<a_major, b_major>(sums[i % num_sums], a + i % 3, b, true);
        commit_products();
        wait_products<1>();
    }
    wait_products<0>();
#pragma unroll
    for (int i = 0; i < num_sums; ++i) settle(sums[i]);
    __syncthreads();
    const long long clocks = clock64() - start;
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < num_sums * count; ++i) total += sums[i / count][i % count];
    if (threadIdx.x == 0) arguments.output[0] = (float)clocks / (TURNS * 8 * 2) + total;
}

// Clocks until a warpgroup goes on that has begun `products` products, and until they are done; it is alone.
template <int products>
DEVICE void probe_depth(const ProbeArguments& arguments) {
    SHARED_MEMORY(shared);
    for (int i = threadIdx.x; i < ROOM; i += 128) ((uint4*)shared)[i] = make_uint4(0, 0, 0, 0);
    show_to_products();
    __syncthreads();
    const u64 first = (shared_address(shared) & 0x3FFFF) >> 4;
    float sum[32] = {};
    const long long start = clock64();
    begin_products();
#pragma unroll
    for (int i = 0; i < products; ++i)
        multiply_add_async<Major::k, Major::k>(sum, arguments.a + first, arguments.b + first, true);
    commit_products();
    const long long begun = clock64();
    wait_products<0>();
    settle(sum);
    const long long done = clock64();
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < 32; ++i) total += sum[i];
    if (threadIdx.x == 0) {
        arguments.output[0] = (float)(begun - start) + total;
        arguments.output[1] = (float)(done - start);
    }
}

#define RATE(name, a, b, count, num_sums) \
    extern "C" __global__ void __launch_bounds__(256, 1) name(const ProbeArguments arguments) { \
        probe_rate<Major::a, Major::b, count, num_sums>(arguments); \
    }
RATE(rate_k_64, k, k, 32, 4)
RATE(rate_k_32, k, k, 16, 4)
RATE(rate_across_64, across, across, 32, 4)
RATE(rate_across_96, across, across, 48, 2)
RATE(rate_across_192, across, across, 96, 1)

#define DEPTH_OF(name, products) \
    extern "C" __global__ void name(const ProbeArguments arguments) { probe_depth<products>(arguments); }
DEPTH_OF(depth_1, 1)
DEPTH_OF(depth_4, 4)
DEPTH_OF(depth_16, 16)
DEPTH_OF(depth_64, 64)
