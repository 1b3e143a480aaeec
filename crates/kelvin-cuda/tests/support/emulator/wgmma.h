// The products of wgmma.cuh for the emulator: they happen as late as they may.

namespace emulator {

struct WaitProducts {
    unsigned thread, pending;
    Place place;

    static void resolve(WaitProducts* const* lanes, unsigned present);
};

#ifdef EMULATOR_BODIES
// Number (row, k) of an operand, `row` being a column of B: core matrices of eight times sixteen bytes.
static double operand_number(const Operand& of, unsigned row, unsigned k) {
    size_t bytes = of.first + (size_t)of.along_k * (k / 8) + (size_t)of.across * (row / 8);
    bytes += of.is_across ? k % 8 * 16 + row % 8 * 2 : row % 8 * 16 + k % 8 * 2;
    unsigned short bits;
    memcpy(&bits, shared_memory + bytes, 2);
    return __uint_as_float((unsigned)bits << 16);
}

// Works out the oldest product of a warp, whose rows of A are its own sixteen.
static void work_out(Fiber* const* lanes, unsigned warp_of_four) {
    Product& like = lanes[0]->products[0];
    std::vector<double> b(16 * like.columns);
    for (unsigned k = 0; k < 16; k++)
        for (unsigned column = 0; column < like.columns; column++)
            b[k * like.columns + column] = operand_number(like.b, column, k);
    for (unsigned lane = 0; lane < WARP; lane++) {
        Product& own = lanes[lane]->products[0];
        if (!own.held.empty()) memcpy(own.sum, own.held.data(), own.held.size() * sizeof(float));
    }
    for (unsigned row = 0; row < 16; row++) {
        std::vector<double> sums(like.columns);
        for (unsigned k = 0; k < 16; k++) {
            const double a = operand_number(like.a, 16 * warp_of_four + row, k);
            for (unsigned column = 0; column < like.columns; column++) sums[column] += a * b[k * like.columns + column];
        }
        for (unsigned column = 0; column < like.columns; column++) {
            float& sum = lanes[row % 8 * 4 + column % 8 / 2]->products[0].sum[column / 8 * 4 + row / 8 * 2 + column % 2];
            sum = (float)((like.adds ? sum : 0.0) + sums[column]);
        }
    }
    for (unsigned lane = 0; lane < WARP; lane++) {
        std::vector<Product>& asked = lanes[lane]->products;
        Product done = std::move(asked[0]);
        asked.erase(asked.begin());
        for (Product& next : asked) {
            if (next.sum != done.sum) continue;
            next.held.assign(done.sum, done.sum + done.columns / 2);
            memset(done.sum, POISON, done.columns / 2 * sizeof(float));
            break;
        }
    }
}

void WaitProducts::resolve(WaitProducts* const* lanes, unsigned present) {
    check_all_present(present, "wait_products", lanes[__builtin_ctz(present)]->place);
    Fiber* own[WARP];
    for (unsigned lane = 0; lane < WARP; lane++) own[lane] = &fibers[lanes[lane]->thread];
    for (unsigned lane = 1; lane < WARP; lane++) {
        bool same = own[lane]->products.size() == own[0]->products.size() &&
                    own[lane]->num_product_groups == own[0]->num_product_groups;
        for (size_t i = 0; same && i < own[0]->products.size(); i++)
            same = own[lane]->products[i].is_like(own[0]->products[i]);
        if (!same) fail(lanes[lane]->place, "lanes of a warp ask for different products");
    }
    while (!own[0]->products.empty() &&
           own[0]->products[0].group + lanes[0]->pending < own[0]->num_product_groups)
        work_out(own, lanes[0]->thread / WARP % 4);
}
#endif

}  // namespace emulator

// Those of wgmma.cuh.
enum class Major;
inline constexpr int along_k_bit(Major);
inline constexpr int across_bit(Major);

inline unsigned shared_address(const void* pointer) {
    return (unsigned)(static_cast<const unsigned char*>(pointer) - emulator::shared_memory);
}

inline void show_to_products() {}
inline void begin_products() {}
inline void commit_products() { emulator::fibers[emulator::current].num_product_groups++; }

template <int pending>
inline void wait_products(EMULATED_PLACE) {
    emulator::WaitProducts own{emulator::current, pending, place};
    emulator::meet(emulator::ALL_LANES, own, "wait_products", place);
}

template <int count>
inline void settle(float (&)[count]) {}

template <Major major>
inline emulator::Operand emulated_operand(unsigned long long operand) {
    const auto bytes = [&](int bit) { return (unsigned)(operand >> bit & 0x3FFF) * 16; };
    return {bytes(0), bytes(along_k_bit(major)), bytes(across_bit(major)), (int)major == 1};
}

template <Major a_major, Major b_major, int count>
inline void multiply_add_async(float (&sum)[count], unsigned long long a, unsigned long long b, bool adds,
                               EMULATED_PLACE) {
    if (blockDim.x % 128 != 0) emulator::fail(place, "multiply_add_async by a block that is not made of warpgroups");
    emulator::Fiber& self = emulator::fibers[emulator::current];
    emulator::Product asked{sum, 2 * count, emulated_operand<a_major>(a), emulated_operand<b_major>(b), adds,
                            self.num_product_groups, {}};
    bool under_way = false;
    for (const emulator::Product& other : self.products) under_way |= other.sum == sum;
    if (!under_way) {
        asked.held.assign(sum, sum + count);
        memset(sum, emulator::POISON, count * sizeof(float));
    }
    self.products.push_back(asked);
}
