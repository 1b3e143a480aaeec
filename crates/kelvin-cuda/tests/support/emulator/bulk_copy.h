// The copies of bulk_copy.cuh for the emulator: the bytes arrive when they are waited for; until then there is poison.

namespace emulator {

struct Run {
    void* to;
    const void* from;
    unsigned bytes;
};

// Of the block that runs: runs of the phase under way, the bytes that it was said to have, and phases that are over.
static std::vector<Run> runs;
static unsigned long long expected_bytes;
static unsigned num_phases;

struct WaitArrival {
    bool is_odd;
    Place place;

    static void resolve(void* const* threads, unsigned count) {
        for (unsigned i = 0; i < count; i++) {
            const WaitArrival& own = *static_cast<const WaitArrival*>(threads[i]);
            if (own.is_odd != (num_phases % 2 == 1))
                fail(own.place, "wait_arrival for another phase than number %u", num_phases);
        }
        unsigned long long bytes = 0;
        for (const Run& run : runs) {
            memcpy(run.to, run.from, run.bytes);
            bytes += run.bytes;
        }
        const Place place = static_cast<const WaitArrival*>(threads[0])->place;
        if (bytes == 0 || bytes != expected_bytes)
            fail(place, "wait_arrival for %llu bytes, of which %llu were asked for", expected_bytes, bytes);
        runs.clear();
        expected_bytes = 0;
        num_phases++;
    }
};

}  // namespace emulator

inline void prepare_arrival(unsigned long long*) {
    emulator::runs.clear();
    emulator::expected_bytes = 0;
    emulator::num_phases = 0;
}

inline void expect_bytes(unsigned long long*, unsigned bytes) { emulator::expected_bytes += bytes; }

inline void copy_run(void* to, const void* from, unsigned bytes, unsigned long long*, EMULATED_PLACE) {
    emulator::check_aligned(to, "copy_run", place);
    emulator::check_aligned(from, "copy_run", place);
    if (bytes % 16 != 0) emulator::fail(place, "copy_run of %u bytes, which are not sixteens", bytes);
    memset(to, emulator::POISON, bytes);
    emulator::runs.push_back({to, from, bytes});
}

// All threads wait together, which on a GPU they need not.
inline void wait_arrival(unsigned long long*, bool is_odd, EMULATED_PLACE) {
    emulator::WaitArrival own{is_odd, place};
    emulator::wait_for_block("wait_arrival", place, &own, emulator::WaitArrival::resolve);
}

inline void prefetch_run(const void*, unsigned) {}

inline void first_warp_waits(int, int, EMULATED_PLACE) { emulator::wait_for_block("first_warp_waits", place); }
