// The primitives of gpu.cuh for the emulator: bf16, matrix fragments, copies that happen as late as they may.

#define DEVICE inline
#define SHARED_MEMORY(name) unsigned char* const name = emulator::shared_memory

namespace emulator {

// Rounds to nearest, ties to even; what is no number becomes the GPU's one.
inline unsigned round_to_bf16(float number) {
    const unsigned bits = __float_as_uint(number);
    if (number != number) return 0x7FFF;
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

constexpr unsigned ALL_LANES = 0xFFFFFFFFu;

inline void check_aligned(const void* pointer, const char* word, Place place) {
    if (reinterpret_cast<size_t>(pointer) % 16 != 0) fail(place, "%s of an address that is no multiple of 16", word);
}

// These need all lanes of a warp.
inline void check_all_present(unsigned present, const char* word, Place place) {
    if (present != ALL_LANES) fail(place, "%s by the lanes %08x only: it takes the whole warp", word, present);
}

struct LoadMatrices {
    const unsigned short* row;
    bool transposed;
    Place place;
    unsigned to[4];

    static void resolve(LoadMatrices* const* lanes, unsigned present);
};

inline void load_four_matrices(unsigned (&to)[4], const void* row, bool transposed, Place place) {
    check_aligned(row, "load_matrices", place);
    LoadMatrices own{static_cast<const unsigned short*>(row), transposed, place, {}};
    meet(ALL_LANES, own, transposed ? "load_matrices_transposed" : "load_matrices", place);
    memcpy(to, own.to, sizeof to);
}

inline float low_half(unsigned packed) { return __uint_as_float(packed << 16); }
inline float high_half(unsigned packed) { return __uint_as_float(packed & 0xFFFF0000u); }

struct MultiplyAdd {
    float* sum;
    const unsigned* a;
    unsigned b[2];
    Place place;

    // Products are exact; they are summed in double and rounded once.
    static void resolve(MultiplyAdd* const* lanes, unsigned present);
};

struct MultiplyAddTf32 {
    float* sum;
    const unsigned* a;
    unsigned b[2];
    Place place;

    // As above; numbers with more bits than TF32 has are a fault of the kernel.
    static void resolve(MultiplyAddTf32* const* lanes, unsigned present);
};

inline void copy_later(void* to, const void* from, bool valid, unsigned num_bytes) {
    memset(to, POISON, num_bytes);
    Fiber& self = fibers[current];
    self.copies.push_back({to, from, valid, self.num_groups, num_bytes});
}

#ifdef EMULATOR_BODIES
void LoadMatrices::resolve(LoadMatrices* const* lanes, unsigned present) {
    check_all_present(present, "load_matrices", lanes[__builtin_ctz(present)]->place);
    for (unsigned lane = 0; lane < WARP; lane++) {
        for (unsigned q = 0; q < 4; q++) {
            LoadMatrices* const* rows = lanes + 8 * q;
            const unsigned r = lane / 4, c = 2 * (lane % 4);
            const unsigned low = lanes[lane]->transposed ? rows[c]->row[r] : rows[r]->row[c];
            const unsigned high = lanes[lane]->transposed ? rows[c + 1]->row[r] : rows[r]->row[c + 1];
            lanes[lane]->to[q] = low | high << 16;
        }
    }
}

void MultiplyAdd::resolve(MultiplyAdd* const* lanes, unsigned present) {
    check_all_present(present, "multiply_add", lanes[__builtin_ctz(present)]->place);
    double a[16][16], b[16][8];
    for (unsigned lane = 0; lane < WARP; lane++) {
        const unsigned r = lane / 4, c = 2 * (lane % 4);
        for (unsigned q = 0; q < 4; q++) {
            double* to = &a[r + q % 2 * 8][c + q / 2 * 8];
            to[0] = low_half(lanes[lane]->a[q]);
            to[1] = high_half(lanes[lane]->a[q]);
        }
        for (unsigned q = 0; q < 2; q++) {
            b[8 * q + c][r] = low_half(lanes[lane]->b[q]);
            b[8 * q + c + 1][r] = high_half(lanes[lane]->b[q]);
        }
    }
    for (unsigned row = 0; row < 16; row++) {
        double sums[8] = {};
        for (unsigned k = 0; k < 16; k++)
            for (unsigned column = 0; column < 8; column++) sums[column] += a[row][k] * b[k][column];
        for (unsigned column = 0; column < 8; column++) {
            float& sum = lanes[row % 8 * 4 + column / 2]->sum[row / 8 * 2 + column % 2];
            sum = (float)(sum + sums[column]);
        }
    }
}

void MultiplyAddTf32::resolve(MultiplyAddTf32* const* lanes, unsigned present) {
    const Place place = lanes[__builtin_ctz(present)]->place;
    check_all_present(present, "multiply_add_tf32", place);
    const auto number = [&](unsigned bits) {
        const float value = __uint_as_float(bits);
        if (bits & 0x1FFF && value == value) fail(place, "multiply_add_tf32 of a number with more bits than TF32 has");
        return (double)value;
    };
    double a[16][8], b[8][8];
    for (unsigned lane = 0; lane < WARP; lane++) {
        const unsigned r = lane / 4, c = lane % 4;
        for (unsigned q = 0; q < 4; q++) a[r + q % 2 * 8][c + q / 2 * 4] = number(lanes[lane]->a[q]);
        for (unsigned q = 0; q < 2; q++) b[4 * q + c][r] = number(lanes[lane]->b[q]);
    }
    for (unsigned row = 0; row < 16; row++) {
        double sums[8] = {};
        for (unsigned k = 0; k < 8; k++)
            for (unsigned column = 0; column < 8; column++) sums[column] += a[row][k] * b[k][column];
        for (unsigned column = 0; column < 8; column++) {
            float& sum = lanes[row % 8 * 4 + column / 2]->sum[row / 8 * 2 + column % 2];
            sum = (float)(sum + sums[column]);
        }
    }
}
#endif

}  // namespace emulator

inline unsigned pack_bf16(float low, float high) {
    return emulator::round_to_bf16(low) | emulator::round_to_bf16(high) << 16;
}

inline unsigned max_bf16(unsigned first, unsigned second) {
    const float low = std::max(__uint_as_float(first << 16), __uint_as_float(second << 16));
    const float high = std::max(__uint_as_float(first & 0xFFFF0000u), __uint_as_float(second & 0xFFFF0000u));
    return pack_bf16(low, high);
}

inline unsigned scale_bf16(unsigned pair, float power) {
    return pack_bf16(__uint_as_float(pair << 16) * power, __uint_as_float(pair & 0xFFFF0000u) * power);
}

inline float max_or_none(float first, float second) {
    return first != first || first > second ? first : second;
}

inline void load_matrices(unsigned (&to)[4], const void* row, EMULATED_PLACE) {
    emulator::load_four_matrices(to, row, false, place);
}
inline void load_matrices_transposed(unsigned (&to)[4], const void* row, EMULATED_PLACE) {
    emulator::load_four_matrices(to, row, true, place);
}

inline void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, EMULATED_PLACE) {
    emulator::MultiplyAdd own{sum, a, {b0, b1}, place};
    emulator::meet(emulator::ALL_LANES, own, "multiply_add", place);
}

inline void multiply_add_tf32(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, EMULATED_PLACE) {
    emulator::MultiplyAddTf32 own{sum, a, {b0, b1}, place};
    emulator::meet(emulator::ALL_LANES, own, "multiply_add_tf32", place);
}

// The bytes arrive when they are waited for; until then there is poison.
inline void copy_async(void* to, const void* from, bool valid, EMULATED_PLACE) {
    emulator::check_aligned(to, "copy_async", place);
    if (valid) emulator::check_aligned(from, "copy_async", place);
    emulator::copy_later(to, from, valid, 16);
}
inline void copy_cached_async(void* to, const void* from, bool valid, EMULATED_PLACE) {
    copy_async(to, from, valid, place);
}
inline void copy_word_async(void* to, const void* from, bool valid, EMULATED_PLACE) {
    if (reinterpret_cast<size_t>(to) % 4 != 0 || (valid && reinterpret_cast<size_t>(from) % 4 != 0))
        emulator::fail(place, "copy_word_async of an address that is no multiple of 4");
    emulator::copy_later(to, from, valid, 4);
}

inline void prefetch(const void*) {}

inline void copy_async_commit() { emulator::fibers[emulator::current].num_groups++; }

template <int pending>
inline void copy_async_wait() {
    emulator::Fiber& self = emulator::fibers[emulator::current];
    size_t done = 0;
    for (; done < self.copies.size() && self.copies[done].group + pending < self.num_groups; done++) {
        const emulator::Copy& copy = self.copies[done];
        if (copy.valid) memcpy(copy.to, copy.from, copy.num_bytes);
        else memset(copy.to, 0, copy.num_bytes);
    }
    self.copies.erase(self.copies.begin(), self.copies.begin() + done);
}
