// The copies of bulk_copy.cuh for the emulator: the bytes arrive when they are waited for, at once in some blocks and at
// last in others (`may_arrive`); until then there is poison.

namespace emulator {

struct Run {
    void* to;
    const void* from;
    unsigned bytes;
};

// Of the block that runs: runs of the phase under way, the bytes that it was said to have, and phases that are over.
EMULATOR_STATE std::vector<Run> runs;
EMULATOR_STATE unsigned long long expected_bytes;
EMULATOR_STATE unsigned num_phases;

void make_arrive(Place place);

#ifdef EMULATOR_BODIES
void make_arrive(Place place) {
    unsigned long long bytes = 0;
    for (const Run& run : runs) {
        memcpy(run.to, run.from, run.bytes);
        bytes += run.bytes;
    }
    if (bytes == 0 || bytes != expected_bytes)
        fail(place, "wait_arrival for %llu bytes, of which %llu were asked for", expected_bytes, bytes);
    runs.clear();
    expected_bytes = 0;
    num_phases++;
}
#endif

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

// Of those who wait for a phase one has its bytes arrive; nobody waits for other threads.
inline void wait_arrival(unsigned long long*, bool is_odd, EMULATED_PLACE) {
    const unsigned own = emulator::fibers[emulator::current].num_phases++;
    if (is_odd != (own % 2 == 1)) emulator::fail(place, "wait_arrival for another phase than number %u", own);
    emulator::wait_until("wait_arrival", place, [&] {
        const bool was_asked = emulator::expected_bytes > 0 || !emulator::runs.empty();
        return emulator::num_phases > own || (emulator::may_arrive && was_asked);
    });
    if (emulator::num_phases > own + 1) emulator::fail(place, "wait_arrival for phase %u, when the next is over", own);
    if (emulator::num_phases == own) emulator::make_arrive(place);
}

inline void prefetch_run(const void*, unsigned) {}

inline void first_warp_waits(int warp, int threads, EMULATED_PLACE) {
    const unsigned own = ++emulator::fibers[emulator::current].num_arrivals;
    if (warp > 0) return;
    emulator::wait_until("first_warp_waits", place, [&] {
        for (int i = 0; i < threads; i++)
            if (emulator::fibers[i].num_arrivals < own) return false;
        return true;
    });
}
