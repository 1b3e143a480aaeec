// The GPU's own instructions under plain names: bf16 numbers, matrix fragments, copies into shared memory.
//
// Tests run the kernels without a GPU: where KELVIN_EMULATED is defined, the emulator supplies everything below (and
// CUDA's own words) with the same meaning.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// A bf16 number in memory: the upper half of an f32.
struct bf16 {
    u16 bits;
};

#ifndef KELVIN_EMULATED

#define DEVICE __device__ __forceinline__
// The dynamic shared memory of a block.
#define SHARED_MEMORY(name) extern __shared__ __align__(128) u8 name[]

// Two f32 rounded to bf16 (nearest, ties to even); `low` lies first in memory.
DEVICE u32 pack_bf16(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

// The larger of each of two pairs.
DEVICE u32 max_bf16(u32 first, u32 second) {
    u32 larger;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(first), "r"(second));
    return larger;
}

// Each of two times a power of two, which is exact.
DEVICE u32 scale_bf16(u32 pair, float power) {
    const u32 factor = pack_bf16(power, power);
    u32 scaled;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(scaled) : "r"(pair), "r"(factor), "r"(0x80008000u));
    return scaled;
}

// The larger of two; what is no number stays none.
DEVICE float max_or_none(float first, float second) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(first), "f"(second));
    return larger;
}

DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// Four 8×8 matrices of bf16 from shared memory: lane i names row i%8 of matrix i/8 (16 bytes, aligned to 16).
// Register q of lane i receives columns 2(i%4) and 2(i%4)+1 of row i/4 of matrix q.
DEVICE void load_matrices(u32 (&to)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row)));
}

// The same, each matrix transposed.
DEVICE void load_matrices_transposed(u32 (&to)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row)));
}

// sum += A B on the tensor cores: A is 16×16 (row-major fragment), B 16×8 (column fragment), sum 16×8 in f32. Lane i
// holds of sum: rows i/4 and i/4+8, columns 2(i%4) and 2(i%4)+1, as {(r,c), (r,c+1), (r+8,c), (r+8,c+1)}. a[0]: rows
// 0–7, columns 0–7; a[1]: rows 8–15, columns 0–7; a[2]: rows 0–7, columns 8–15; a[3]: rows 8–15, columns 8–15. b0: rows
// 0–7, b1: rows 8–15 of B, each as the transposed 8×8 matrix.
DEVICE void multiply_add(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same in TF32: A is 16×8, B 8×8, numbers are f32 whose lower 13 bits are 0. a[0]: rows 0–7, columns 0–3; a[1]: rows 8–15,
// columns 0–3; a[2]: rows 0–7, columns 4–7; a[3]: rows 8–15, columns 4–7; lane i holds row i/4 and column i%4 of each. b0:
// rows 0–3, b1: rows 4–7 of B; lane i holds row i%4 and column i/4 of each.
DEVICE void multiply_add_tf32(float (&sum)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Sixteen bytes from global to shared memory without waiting; zeros where not `valid` (nothing is read then).
DEVICE void copy_async(void* to, const void* from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
                 : "memory");
}

// The same through the cache of the multiprocessor: for what other threads of it ask for as well.
DEVICE void copy_cached_async(void* to, const void* from, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
                 : "memory");
}

// The same of four bytes.
DEVICE void copy_word_async(void* to, const void* from, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(valid ? 4 : 0)
                 : "memory");
}

// Asks for the line of global memory that holds an address to be brought into the cache that all multiprocessors share.
DEVICE void prefetch(const void* address) {
    asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(address)));
}

// Ends a group of copies.
DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }

// Waits until at most `pending` groups of this thread are still under way.
template <int pending>
DEVICE void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory");
}

#endif

DEVICE float from_bf16(bf16 number) { return __uint_as_float((u32)number.bits << 16); }
DEVICE float low_bf16(u32 packed) { return __uint_as_float(packed << 16); }
DEVICE float high_bf16(u32 packed) { return __uint_as_float(packed & 0xFFFF0000u); }
DEVICE bf16 to_bf16(float number) {
    bf16 rounded;
    rounded.bits = (u16)pack_bf16(number, 0.0f);
    return rounded;
}

// The sum over a warp, in every lane; always in the same order.
DEVICE float warp_sum(float value) {
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
    return value;
}
