// Strips of a tile: STRIP sixteens of pixels below each other, for which a warp reads every row of pixels once.
//
// A sixteen is sixteen neighbouring pixels of an output row (the last of a row may hang over its end), or eight pixels
// of the same row of two images. A row of pixels that was loaded for one horizontal tap is multiplied by the weights of
// all vertical taps at once: it belongs to as many sixteens. For STRIP sixteens that is STRIP + KERNEL − 1 loads
// instead of STRIP · KERNEL.

#include "conv_tile.cuh"

#if STRIP

namespace {

static_assert(STRIDE == 1 && OUT_W >= 8 && TILE_ROWS >= STRIP && TILE_IMAGES % SIXTEEN_IMAGES == 0, "a strip at least");

// The strips of a tile, cut into `strip` sixteens each. Where these do not divide the rows the last begins further up,
// and its first sixteens are another's.
template <int strip>
struct Strips {
    static constexpr int BELOW = (TILE_ROWS + strip - 1) / strip;
    static constexpr int COUNT = TILE_IMAGES / SIXTEEN_IMAGES * SEGMENTS * BELOW;
    // Whether all pixels of all sixteens are the strip's own.
    static constexpr bool FULL = TILE_ROWS % strip == 0 && (OUT_W % 16 == 0 || OUT_W == 8);
    // Rows of pixels that a strip reads.
    static constexpr int UNITS = strip + KERNEL - 1;

    int image, row, column;
    // Sixteens that belong to the strip above.
    int others;

    DEVICE explicit Strips(int number) {
        const int below = number % BELOW;
        image = number / (BELOW * SEGMENTS) * SIXTEEN_IMAGES;
        column = number / BELOW % SEGMENTS * 16;
        row = min(below * strip, TILE_ROWS - strip);
        others = below * strip - row;
    }

    // Where pixel `of` of a sixteen is: the image, and the column, of the tile.
    DEVICE int image_of(int of) const { return image + (SIXTEEN_IMAGES == 2 ? of >> 3 : 0); }
    DEVICE int column_of(int of) const { return column + (SIXTEEN_IMAGES == 2 ? of & 7 : of); }
    // Its number in the tile.
    DEVICE int pixel(int at, int of) const { return (image_of(of) * TILE_ROWS + row + at) * OUT_W + column_of(of); }
    // Whether it is this strip's.
    DEVICE bool owns(int at, int of) const { return FULL || (at >= others && column_of(of) < OUT_W); }
};

// sum[sixteen] += Σ over taps and channels: `from` is where this lane's pixel of the first row lies, rows are `below`
// chunks apart and columns `right`; `load` gives the weights of a vertical and a horizontal tap and sixteen channels.
template <int across, int depth, int n_tiles, int below, int right, class Load>
DEVICE void multiply_strip(float (&sum)[STRIP][n_tiles][4], const uint4* from, const Load& load) {
#pragma unroll
    for (int h = 0; h < across; ++h) {
#pragma unroll
        for (int k = 0; k < depth / 16; ++k) {
            u32 w[KERNEL][n_tiles][2];
#pragma unroll
            for (int v = 0; v < KERNEL; ++v) load(w[v], v, h, k);
#pragma unroll
            for (int unit = 0; unit < Strips<STRIP>::UNITS; ++unit) {
                u32 x[4];
                load_matrices(x, from + unit * below + h * right + 2 * k);
#pragma unroll
                for (int v = 0; v < KERNEL; ++v) {
                    if (unit < v || unit - v >= STRIP) continue;
#pragma unroll
                    for (int n = 0; n < n_tiles; ++n) multiply_add(sum[unit - v][n], x, w[v][n][0], w[v][n][1]);
                }
            }
        }
    }
}

}  // namespace

#endif
