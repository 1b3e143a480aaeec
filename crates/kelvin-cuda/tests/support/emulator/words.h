// CUDA's words for the emulator: qualifiers, vectors, arithmetic, atomics, barriers, shuffles, votes.

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

constexpr int warpSize = 32;

#define EMULATED_VECTOR2(vector, number) \
    struct __align__(2 * sizeof(number)) vector { number x, y; }; \
    inline vector make_##vector(number x, number y) { return vector{x, y}; }
#define EMULATED_VECTOR3(vector, number) \
    struct vector { number x, y, z; }; \
    inline vector make_##vector(number x, number y, number z) { return vector{x, y, z}; }
#define EMULATED_VECTOR4(vector, number, alignment) \
    struct __align__(alignment) vector { number x, y, z, w; }; \
    inline vector make_##vector(number x, number y, number z, number w) { return vector{x, y, z, w}; }

EMULATED_VECTOR2(float2, float)
EMULATED_VECTOR2(double2, double)
EMULATED_VECTOR2(int2, int)
EMULATED_VECTOR2(uint2, unsigned)
EMULATED_VECTOR2(ushort2, unsigned short)
EMULATED_VECTOR2(uchar2, unsigned char)
EMULATED_VECTOR2(ulonglong2, unsigned long long)
EMULATED_VECTOR3(float3, float)
EMULATED_VECTOR3(int3, int)
EMULATED_VECTOR4(float4, float, 16)
EMULATED_VECTOR4(int4, int, 16)
EMULATED_VECTOR4(uint4, unsigned, 16)
EMULATED_VECTOR4(ushort4, unsigned short, 8)
EMULATED_VECTOR4(uchar4, unsigned char, 4)
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return uint3{x, y, z}; }

namespace emulator {

template <class To, class From>
inline To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

// Keeps an argument out of the deduction of a template's types.
template <class T>
struct Same {
    typedef T type;
};

}  // namespace emulator

inline float __uint_as_float(unsigned bits) { return emulator::bits_as<float>(bits); }
inline unsigned __float_as_uint(float number) { return emulator::bits_as<unsigned>(number); }
inline float __int_as_float(int bits) { return emulator::bits_as<float>(bits); }
inline int __float_as_int(float number) { return emulator::bits_as<int>(number); }
inline long long __double_as_longlong(double number) { return emulator::bits_as<long long>(number); }
inline double __longlong_as_double(long long bits) { return emulator::bits_as<double>(bits); }

inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz((unsigned)bits) : 32; }
inline int __ffs(int bits) { return __builtin_ffs(bits); }

inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fdividef(float a, float b) { return a / b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float rsqrtf(float a) { return 1.0f / sqrtf(a); }
inline double rsqrt(double a) { return 1.0 / sqrt(a); }
inline float __saturatef(float a) { return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f; }
inline int __float2int_rn(float a) { return (int)rintf(a); }
inline int __float2int_rd(float a) { return (int)floorf(a); }
inline int __float2int_rz(float a) { return (int)a; }
inline unsigned __float2uint_rz(float a) { return (unsigned)a; }
inline float __int2float_rn(int a) { return (float)a; }
inline float __uint2float_rn(unsigned a) { return (float)a; }
inline float __double2float_rn(double a) { return (float)a; }
// The C library has some of these names for itself.
#define __expf(a) expf(a)
#define __exp10f(a) powf(10.0f, a)
#define __logf(a) logf(a)
#define __log2f(a) log2f(a)
#define __log10f(a) log10f(a)
#define __powf(a, b) powf(a, b)
#define __sinf(a) sinf(a)
#define __cosf(a) cosf(a)
#define __tanf(a) tanf(a)
#define __sincosf(a, sine, cosine) (*(sine) = sinf(a), *(cosine) = cosf(a), (void)0)

#define EMULATED_MIN_MAX(number) \
    inline number min(number a, number b) { return b < a ? b : a; } \
    inline number max(number a, number b) { return a < b ? b : a; }
EMULATED_MIN_MAX(int)
EMULATED_MIN_MAX(unsigned)
EMULATED_MIN_MAX(long)
EMULATED_MIN_MAX(unsigned long)
EMULATED_MIN_MAX(long long)
EMULATED_MIN_MAX(unsigned long long)
inline unsigned min(int a, unsigned b) { return min((unsigned)a, b); }
inline unsigned min(unsigned a, int b) { return min(a, (unsigned)b); }
inline unsigned max(int a, unsigned b) { return max((unsigned)a, b); }
inline unsigned max(unsigned a, int b) { return max(a, (unsigned)b); }
// A number wins over what is none, as in CUDA.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

template <class T>
inline T __ldg(const T* address) { return *address; }
template <class T>
inline T __ldcg(const T* address) { return *address; }
template <class T>
inline T __ldcs(const T* address) { return *address; }
template <class T>
inline void __stwb(T* address, typename emulator::Same<T>::type value) { *address = value; }
template <class T>
inline void __stcg(T* address, typename emulator::Same<T>::type value) { *address = value; }
template <class T>
inline void __stcs(T* address, typename emulator::Same<T>::type value) { *address = value; }

inline void __threadfence() {}
inline void __threadfence_block() {}

// One thread runs at a time: plain arithmetic is atomic.
#define EMULATED_ATOMIC(word, result) \
    template <class T> \
    inline T word(T* address, typename emulator::Same<T>::type value) { \
        const T old = *address; \
        *address = (result); \
        return old; \
    }
EMULATED_ATOMIC(atomicAdd, old + value)
EMULATED_ATOMIC(atomicSub, old - value)
EMULATED_ATOMIC(atomicExch, value)
EMULATED_ATOMIC(atomicMax, old < value ? value : old)
EMULATED_ATOMIC(atomicMin, value < old ? value : old)
EMULATED_ATOMIC(atomicOr, old | value)
EMULATED_ATOMIC(atomicAnd, old & value)
EMULATED_ATOMIC(atomicXor, old ^ value)
EMULATED_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
template <class T>
inline T atomicCAS(T* address, typename emulator::Same<T>::type expected, typename emulator::Same<T>::type value) {
    const T old = *address;
    if (old == expected) *address = value;
    return old;
}

#define EMULATED_PLACE emulator::Place place = emulator::Place::here()

inline void __trap(EMULATED_PLACE) { emulator::fail(place, "__trap"); }

inline void __syncthreads(EMULATED_PLACE) { emulator::wait_for_block("__syncthreads", place); }

namespace emulator {

struct Predicate {
    int value;

    // Everyone learns how many are true.
    static void count(void* const* operations, unsigned num_present) {
        int count = 0;
        for (unsigned i = 0; i < num_present; i++) count += static_cast<Predicate*>(operations[i])->value != 0;
        for (unsigned i = 0; i < num_present; i++) static_cast<Predicate*>(operations[i])->value = count;
    }
    static int counted(int value, const char* word, Place place) {
        Predicate own{value};
        wait_for_block(word, place, &own, &count);
        return own.value;
    }
};

struct SyncWarp {
    static void resolve(SyncWarp* const*, unsigned) {}
};

struct Shuffle {
    unsigned long long value;
    unsigned from;

    static void resolve(Shuffle* const* lanes, unsigned present) {
        unsigned long long values[WARP];
        for (unsigned lane = 0; lane < WARP; lane++)
            values[lane] = present >> lane & 1 ? lanes[lane]->value : 0xFFFFFFFFFFFFFFFFull;
        for (unsigned lane = 0; lane < WARP; lane++)
            if (present >> lane & 1) lanes[lane]->value = values[lanes[lane]->from];
    }
};

struct Vote {
    bool yes;
    unsigned ballot, present;

    static void resolve(Vote* const* lanes, unsigned present) {
        unsigned ballot = 0;
        for (unsigned lane = 0; lane < WARP; lane++)
            if (present >> lane & 1 && lanes[lane]->yes) ballot |= 1u << lane;
        for (unsigned lane = 0; lane < WARP; lane++)
            if (present >> lane & 1) lanes[lane]->ballot = ballot, lanes[lane]->present = present;
    }
    static Vote taken(unsigned mask, int predicate, const char* word, Place place) {
        Vote own{predicate != 0, 0, 0};
        meet(mask, own, word, place);
        return own;
    }
};

template <class T>
inline T shuffle(unsigned mask, T value, unsigned from, const char* word, Place place) {
    static_assert(sizeof(T) <= 8, "a shuffle moves up to eight bytes");
    Shuffle own{0, from};
    memcpy(&own.value, &value, sizeof value);
    meet(mask, own, word, place);
    memcpy(&value, &own.value, sizeof value);
    return value;
}

inline unsigned lane() { return threadIdx.x % WARP; }

}  // namespace emulator

inline int __syncthreads_count(int predicate, EMULATED_PLACE) {
    return emulator::Predicate::counted(predicate, "__syncthreads_count", place);
}
inline int __syncthreads_or(int predicate, EMULATED_PLACE) {
    return emulator::Predicate::counted(predicate, "__syncthreads_or", place) > 0;
}
inline int __syncthreads_and(int predicate, EMULATED_PLACE) {
    return emulator::Predicate::counted(!predicate, "__syncthreads_and", place) == 0;
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, EMULATED_PLACE) {
    emulator::SyncWarp own;
    emulator::meet(mask, own, "__syncwarp", place);
}

template <class T>
inline T __shfl_sync(unsigned mask, T value, int from, int width = 32, EMULATED_PLACE) {
    const unsigned first = emulator::lane() & ~(width - 1u);
    return emulator::shuffle(mask, value, first + ((unsigned)from & (width - 1u)), "__shfl_sync", place);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32, EMULATED_PLACE) {
    const unsigned lane = emulator::lane(), within = lane & (width - 1u);
    return emulator::shuffle(mask, value, within >= distance ? lane - distance : lane, "__shfl_up_sync", place);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32, EMULATED_PLACE) {
    const unsigned lane = emulator::lane(), within = lane & (width - 1u);
    const bool inside = within + distance < (unsigned)width;
    return emulator::shuffle(mask, value, inside ? lane + distance : lane, "__shfl_down_sync", place);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, EMULATED_PLACE) {
    const unsigned lane = emulator::lane(), from = lane ^ (unsigned)lanes;
    // Earlier groups may be read, later ones not.
    const bool inside = (from & ~(width - 1u)) <= (lane & ~(width - 1u)) && from < 32;
    return emulator::shuffle(mask, value, inside ? from : lane, "__shfl_xor_sync", place);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATED_PLACE) {
    return emulator::Vote::taken(mask, predicate, "__ballot_sync", place).ballot;
}
inline int __any_sync(unsigned mask, int predicate, EMULATED_PLACE) {
    return emulator::Vote::taken(mask, predicate, "__any_sync", place).ballot != 0;
}
inline int __all_sync(unsigned mask, int predicate, EMULATED_PLACE) {
    const emulator::Vote vote = emulator::Vote::taken(mask, predicate, "__all_sync", place);
    return vote.ballot == vote.present;
}
