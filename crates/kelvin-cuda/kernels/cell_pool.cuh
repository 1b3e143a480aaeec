// An activation and the pool behind it in one, or a pool of maxima: result = mean or largest of f(u) in a cell, a rectangle of pixels none
// of which is in another one. A thread takes WIDTH channels of a cell.
//
// Defines: BY (the activation f), CELL (4 for cells of 2×2, else 0), MAXIMA.

#include "activation_by.cuh"
#include "largest.cuh"

struct PooledCells {
    u32 input_width;
    // Cells of an image, in a column and in a line.
    u32 down;
    u32 across;
    // Pixels of a cell, and the inverse of their number; 1 of maxima.
    u32 height;
    u32 width;
    float share;
};

// A cell of all images, and a thread's first channel there.
struct OwnCell {
    u32 image, channel;
    // Numbers from the first of the chain's input to the first pixel's.
    u32 first;
};

DEVICE OwnCell own_cell(const Reading& input, const PooledCells& cells, u32 number) {
    const u32 units = input.channels / WIDTH, cell = number / units, line = cell / cells.across;
    OwnCell own;
    own.image = line / cells.down, own.channel = (number - cell * units) * WIDTH;
    const u32 y = line - own.image * cells.down, x = cell - line * cells.across;
    own.first = own.image * input.len + (y * cells.height * cells.input_width + x * cells.width) * input.channels + own.channel;
    return own;
}

// `body(pixel, at, value)` for each pixel of a cell, where `at` is the place of its numbers among the chain's: four are read before
// any is used.
template <class Body>
DEVICE void for_cell(const Reading& input, const PooledCells& cells, const OwnCell& own, u32 chain, const NormPack& norm,
                     const Body& body) {
    const u64 start = (u64)chain * input.num_images * input.len;
    const u32 width = CELL == 4 ? 2 : cells.width, count = CELL == 4 ? 4 : cells.height * cells.width;
    for (u32 first = 0; first < count; first += 4) {
        RawPack raw[4] = {};
        u32 at[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const u32 pixel = first + i;
            at[i] = own.first + (pixel / width * cells.input_width + pixel % width) * input.channels;
            if (CELL == 4 || pixel < count) raw[i] = load_raw(input.values, start + at[i]);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (CELL != 4 && first + i >= count) continue;
            Pack value = normed(norm, pack_of(raw[i]));
            if (input.relu) {
#pragma unroll
                for (int k = 0; k < WIDTH; k++) value.of[k] = value.of[k] < 0.0f ? 0.0f : value.of[k];
            }
            body(first + i, at[i], value);
        }
    }
}
