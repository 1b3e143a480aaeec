// Norms of single images go through them cell by cell, twice: a cell is a rectangle of pixels that a pool behind the norm makes one
// number of, or a single pixel where there is no such pool.
//
// A block takes an image and some channels of it; what a thread has read lies in shared memory until the second time where there is
// room.

#include "pixel_sums.cuh"

struct Cells {
    u32 input_width;
    // Cells of an image, and of a line of it.
    u32 num_cells;
    u32 cells_across;
    // Pixels of a cell, and the inverse of their number.
    u32 height;
    u32 width;
    float share;
    // Units of WIDTH channels of a block.
    u32 units;
    // Whether there is room for what a thread reads.
    u32 keeps;
};

// What a block does, and a thread of it.
struct CellShare {
    PixelShare share;
    // Number of the image's first pixel in the unit's channels, and the cells of this thread from the first to the last.
    u32 first;
    u32 begin;
};

DEVICE CellShare cell_share(const Reading& input, const Cells& cells) {
    CellShare own;
    const u32 all = input.channels / WIDTH;
    PixelShare& share = own.share;
    share.first_unit = blockIdx.z * cells.units;
    share.units = min(all - share.first_unit, cells.units);
    share.rows = THREADS / share.units;
    share.row = threadIdx.x / share.units;
    share.unit = share.first_unit + threadIdx.x % share.units;
    own.first = blockIdx.x * input.len + share.unit * WIDTH;
    // Threads beyond the last whole row have nothing to do.
    own.begin = share.row < share.rows ? share.row : cells.num_cells;
    return own;
}

// The pixels of a thread's cells in turn, those of CELLS cells at a time: `ask(slot, cell)` for each of these cells, then
// `body(raw, slot, cell, number, is_last)` for each pixel, where `number` is that of its first channel among the chain's and `is_last`
// says that the cell ends with it. AREA is 1, 4 (2×2) or 0 for any rectangle. With LOADS pixels are read, and kept if there is
// room, else they are taken from there.
template <int AREA, int CELLS, bool LOADS, class Ask, class Body>
DEVICE void for_pixels(const Reading& input, const Cells& cells, const CellShare& own, u32 chain, RawPack* kept,
                       const Ask& ask, const Body& body) {
    // Of a rectangle of any size four at a time.
    constexpr int PIXELS = AREA > 0 ? AREA * CELLS : 4;
    static_assert(AREA > 0 || CELLS == 1, "one rectangle after the other");
    const u64 start = (u64)chain * input.num_images * input.len;
    const u32 width = AREA == 4 ? 2 : cells.width, area = AREA > 0 ? AREA : cells.height * cells.width;
    RawPack* place = kept + threadIdx.x;
    for (u32 first = own.begin; first < cells.num_cells; first += CELLS * own.share.rows) {
        u32 corner[CELLS];
#pragma unroll
        for (int slot = 0; slot < CELLS; slot++) {
            const u32 cell = first + slot * own.share.rows;
            const u32 y = cell / cells.cells_across, x = cell - y * cells.cells_across;
            corner[slot] = AREA == 1 ? cell : y * cells.height * cells.input_width + x * width;
            if (cell < cells.num_cells) ask(slot, cell);
        }
        for (u32 done = 0; done < (AREA > 0 ? 1 : area); done += PIXELS) {
            RawPack raw[PIXELS] = {};
            u32 at[PIXELS];
            bool is_there[PIXELS];
#pragma unroll
            for (int i = 0; i < PIXELS; i++) {
                const int slot = AREA > 0 ? i / AREA : 0;
                const u32 pixel = AREA > 0 ? i % AREA : done + i;
                is_there[i] = first + slot * own.share.rows < cells.num_cells && pixel < area;
                const u32 along = AREA == 1 ? 0 : pixel / width * cells.input_width + pixel % width;
                at[i] = own.first + (corner[slot] + along) * input.channels;
                if (!is_there[i]) continue;
                raw[i] = LOADS || !cells.keeps ? load_raw(input.values, start + at[i]) : place[i * THREADS];
            }
#pragma unroll
            for (int i = 0; i < PIXELS; i++) {
                if (LOADS && cells.keeps && is_there[i]) place[i * THREADS] = raw[i];
            }
            place += PIXELS * THREADS;
#pragma unroll
            for (int i = 0; i < PIXELS; i++) {
                const int slot = AREA > 0 ? i / AREA : 0;
                const bool is_last = AREA > 0 ? i % AREA == AREA - 1 : done + i + 1 == area;
                if (is_there[i]) body(raw[i], slot, first + slot * own.share.rows, at[i], is_last);
            }
        }
    }
}

// What readers of the input see; its norm is known to be there or not.
template <bool NORM>
DEVICE Pack seen_pack(const RawPack& raw, const NormPack& norm, const Reading& input) {
    Pack pack = pack_of(raw);
    if (NORM) pack = normed(norm, pack);
    if (input.relu) {
#pragma unroll
        for (int i = 0; i < WIDTH; i++) pack.of[i] = pack.of[i] < 0.0f ? 0.0f : pack.of[i];
    }
    return pack;
}
