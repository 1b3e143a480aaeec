// The words of cluster.cuh for the emulator.

inline unsigned block_of_cluster() { return emulator::block_of(emulator::current); }

inline void meet_cluster(EMULATED_PLACE) { emulator::wait_for_cluster("meet_cluster", place); }

template <class T>
inline T* in_block(T* shared, unsigned block, EMULATED_PLACE) {
    if (block >= emulator::num_blocks)
        emulator::fail(place, "in_block of block %u of a cluster of %u", block, emulator::num_blocks);
    const auto own = reinterpret_cast<size_t>(shared) - reinterpret_cast<size_t>(emulator::shared_memory);
    return reinterpret_cast<T*>(emulator::shared_of(block) + own);
}
