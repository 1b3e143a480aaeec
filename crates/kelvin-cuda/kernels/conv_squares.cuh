// Squares of eight rows and eight columns of output pixels, the 64 rows of a product of a warpgroup: from one row of a square
// to the next it is as far as from one line of the tile to the next.

#include "conv_tile.cuh"
#include "wgmma.cuh"

namespace {

static_assert(OUT_W % 8 == 0 && TILE_ROWS % 8 == 0 && WARPS % 4 == 0, "whole squares and whole warpgroups");

// Squares of a tile.
constexpr int SQUARES_DOWN = TILE_ROWS / 8, SQUARES_ACROSS = OUT_W / 8;
constexpr int SQUARES = TILE_IMAGES * SQUARES_DOWN * SQUARES_ACROSS;
constexpr int WARPGROUPS = WARPS / 4;

struct Square {
    int image, row, column;
    DEVICE explicit Square(int number)
        : image(number / (SQUARES_DOWN * SQUARES_ACROSS)),
          row(number / SQUARES_ACROSS % SQUARES_DOWN * 8),
          column(number % SQUARES_ACROSS * 8) {}
};

// What does not come from memory is zeros, in every tile.
DEVICE void zero_room(uint4* room, int chunks, int thread) {
    for (int index = thread; index < chunks; index += THREADS) room[index] = make_uint4(0, 0, 0, 0);
}

}  // namespace
