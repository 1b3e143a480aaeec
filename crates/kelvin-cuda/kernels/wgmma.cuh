// Products of a warpgroup (four warps, Hopper only) whose operands lie in shared memory, and which run while the warps do
// something else.
//
// A product is sum += A B with A of 64 × 16, B of 16 × N numbers in bf16 and the sum in f32. An operand is made of core
// matrices, eight times sixteen bytes that follow each other: eight rows (of A) or columns (of B) of eight numbers along
// the sum's index k each (Major::k), or eight numbers k of eight rows or columns each (Major::across). From one core
// matrix to the next it is `along_k` bytes in the direction of k and `across` bytes in the other one, any multiples of
// sixteen; so the first may begin at any sixteen bytes.
//
// Thread t of the warpgroup holds of the sum: rows 16(t / 32) + t % 32 / 4 and 8 further down, columns 8j + 2(t % 4) and
// the next one for each j, as sum[4j] = {(r, c), (r, c + 1), (r + 8, c), (r + 8, c + 1)}.
//
// In order: write shared memory, `show_to_products`, a barrier; `begin_products`, products, `commit_products`;
// `wait_products`, `settle` for each sum that is read next. Until then sums and operands are to be left alone.

#include "gpu.cuh"

enum class Major { k = 0, across = 1 };

// Where the descriptor of an operand without swizzle has the two distances, in sixteens of bytes: PTX's leading byte
// offset is the one along k, its stride byte offset the other. The only place that knows; the emulator asks here as well.
DEVICE constexpr int along_k_bit(Major) { return 16; }
DEVICE constexpr int across_bit(Major) { return 32; }

// Describes an operand whose first core matrix is at `first`; that of one `bytes` further on is `+ bytes / 16`.
template <Major major>
DEVICE u64 operand(const void* first, int along_k, int across) {
    return (u64)((shared_address(first) & 0x3FFFF) >> 4) | (u64)(along_k >> 4) << along_k_bit(major) |
           (u64)(across >> 4) << across_bit(major);
}

#ifndef KELVIN_EMULATED

// Whether what is compiled has these instructions; without them a kernel stops with an error.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Lets products see what this thread has written to shared memory.
DEVICE void show_to_products() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }

// Before the first product of several, and where registers of sums have been written since.
DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }

// Ends a group of products.
DEVICE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }

// Waits until at most `pending` groups are still under way.
template <int pending>
DEVICE void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(pending) : "memory");
}

// Keeps the compiler from reading a sum before this point.
template <int count>
DEVICE void settle(float (&sum)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) asm volatile("" : "+f"(sum[i]) : : "memory");
}

// Begins sum += A B, or sum = A B without `adds`; the length of `sum` is N / 2.
template <Major a_major, Major b_major>
DEVICE void multiply_add_async(float (&sum)[32], u64 a, u64 b, bool adds) {
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %34, 0; "
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, adds, 1, 1, %35, %36; }"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
          "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
          "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]),
          "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
          "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]),
          "+f"(sum[30]), "+f"(sum[31])
        : "l"(a), "l"(b), "r"((int)adds), "n"((int)a_major), "n"((int)b_major));
}
template <Major a_major, Major b_major>
DEVICE void multiply_add_async(float (&sum)[16], u64 a, u64 b, bool adds) {
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %18, 0; "
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, %16, %17, adds, 1, 1, %19, %20; }"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
          "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
          "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15])
        : "l"(a), "l"(b), "r"((int)adds), "n"((int)a_major), "n"((int)b_major));
}
template <Major a_major, Major b_major>
DEVICE void multiply_add_async(float (&sum)[48], u64 a, u64 b, bool adds) {
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %50, 0; "
        "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
        "}, %48, %49, adds, 1, 1, %51, %52; }"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
          "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
          "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]),
          "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
          "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]),
          "+f"(sum[30]), "+f"(sum[31]), "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]), "+f"(sum[35]),
          "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]), "+f"(sum[40]), "+f"(sum[41]),
          "+f"(sum[42]), "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47])
        : "l"(a), "l"(b), "r"((int)adds), "n"((int)a_major), "n"((int)b_major));
}
template <Major a_major, Major b_major>
DEVICE void multiply_add_async(float (&sum)[96], u64 a, u64 b, bool adds) {
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %98, 0; "
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
        "}, %96, %97, adds, 1, 1, %99, %100; }"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
          "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
          "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]),
          "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23]),
          "+f"(sum[24]), "+f"(sum[25]), "+f"(sum[26]), "+f"(sum[27]), "+f"(sum[28]), "+f"(sum[29]),
          "+f"(sum[30]), "+f"(sum[31]), "+f"(sum[32]), "+f"(sum[33]), "+f"(sum[34]), "+f"(sum[35]),
          "+f"(sum[36]), "+f"(sum[37]), "+f"(sum[38]), "+f"(sum[39]), "+f"(sum[40]), "+f"(sum[41]),
          "+f"(sum[42]), "+f"(sum[43]), "+f"(sum[44]), "+f"(sum[45]), "+f"(sum[46]), "+f"(sum[47]),
          "+f"(sum[48]), "+f"(sum[49]), "+f"(sum[50]), "+f"(sum[51]), "+f"(sum[52]), "+f"(sum[53]),
          "+f"(sum[54]), "+f"(sum[55]), "+f"(sum[56]), "+f"(sum[57]), "+f"(sum[58]), "+f"(sum[59]),
          "+f"(sum[60]), "+f"(sum[61]), "+f"(sum[62]), "+f"(sum[63]), "+f"(sum[64]), "+f"(sum[65]),
          "+f"(sum[66]), "+f"(sum[67]), "+f"(sum[68]), "+f"(sum[69]), "+f"(sum[70]), "+f"(sum[71]),
          "+f"(sum[72]), "+f"(sum[73]), "+f"(sum[74]), "+f"(sum[75]), "+f"(sum[76]), "+f"(sum[77]),
          "+f"(sum[78]), "+f"(sum[79]), "+f"(sum[80]), "+f"(sum[81]), "+f"(sum[82]), "+f"(sum[83]),
          "+f"(sum[84]), "+f"(sum[85]), "+f"(sum[86]), "+f"(sum[87]), "+f"(sum[88]), "+f"(sum[89]),
          "+f"(sum[90]), "+f"(sum[91]), "+f"(sum[92]), "+f"(sum[93]), "+f"(sum[94]), "+f"(sum[95])
        : "l"(a), "l"(b), "r"((int)adds), "n"((int)a_major), "n"((int)b_major));
}
template <Major a_major, Major b_major>
DEVICE void multiply_add_async(float (&sum)[8], u64 a, u64 b, bool adds) {
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %10, 0; "
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7"
        "}, %8, %9, adds, 1, 1, %11, %12; }"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
          "+f"(sum[6]), "+f"(sum[7])
        : "l"(a), "l"(b), "r"((int)adds), "n"((int)a_major), "n"((int)b_major));
}
template <Major a_major, Major b_major>
DEVICE void multiply_add_async(float (&sum)[24], u64 a, u64 b, bool adds) {
    asm volatile(
        "{ .reg .pred adds; setp.ne.b32 adds, %26, 0; "
        "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23"
        "}, %24, %25, adds, 1, 1, %27, %28; }"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3]), "+f"(sum[4]), "+f"(sum[5]),
          "+f"(sum[6]), "+f"(sum[7]), "+f"(sum[8]), "+f"(sum[9]), "+f"(sum[10]), "+f"(sum[11]),
          "+f"(sum[12]), "+f"(sum[13]), "+f"(sum[14]), "+f"(sum[15]), "+f"(sum[16]), "+f"(sum[17]),
          "+f"(sum[18]), "+f"(sum[19]), "+f"(sum[20]), "+f"(sum[21]), "+f"(sum[22]), "+f"(sum[23])
        : "l"(a), "l"(b), "r"((int)adds), "n"((int)a_major), "n"((int)b_major));
}

#else

DEVICE void show_to_products() { __trap(); }
DEVICE void begin_products() {}
DEVICE void commit_products() {}
template <int pending>
DEVICE void wait_products() {}
template <int count>
DEVICE void settle(float (&)[count]) {}
template <Major a_major, Major b_major, int count>
DEVICE void multiply_add_async(float (&)[count], u64, u64, bool) {}

#endif
#endif
