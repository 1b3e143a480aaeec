//! Convolutions with 3×3 kernels and stride 1 by Winograd's F(2×2, 3×3): 16 products for four pixels instead of 36
//! (Lavin and Gray 2016).
//!
//! ```text
//! z = Aᵀ[(G W Gᵀ) ⊙ (Bᵀ X B)]A          X: 4×4 pixels of the padded input, z: 2×2 pixels of the output
//! ∂W = Gᵀ[Σ (A ∂z Aᵀ) ⊙ (Bᵀ X B)]G      and ∂x like z, from ∂z and the turned, transposed kernel
//!
//! Bᵀ = 1  0 −1  0     G = 1   0   0      Aᵀ = 1  1  1  0
//!      0  1  1  0         ½   ½   ½           0  1 −1 −1
//!      0 −1  1  0         ½  −½   ½
//!      0  1  0 −1         0   0   1
//! ```
//! ⊙ is a product of matrices for each of the 16 places of a tile: rows are tiles, columns channels. The transforms only
//! add and halve, so that little precision is lost.

use std::ops::Range;

use pulp::Simd;

use super::kernels::{Factors, Lines, Number, Results, Start};

/// Places of a tile.
pub(super) const PLACES: usize = 16;
/// Tiles that are transformed before they are multiplied: they stay in the second cache.
const TILES_TOGETHER: usize = 64;

/// Tiles of 2×2 pixels that cover an output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiling {
    pub height: usize,
    pub width: usize,
    /// Tiles of a row, and rows of tiles.
    pub across: usize,
    pub down: usize,
}

impl Tiling {
    pub fn new(height: usize, width: usize) -> Self {
        Self { height, width, across: width.div_ceil(2), down: height.div_ceil(2) }
    }

    /// Pixels of a line of the padded image, which begins one pixel above and to the left of the image.
    pub fn canvas_width(&self) -> usize {
        2 * self.across + 2
    }

    pub fn canvas_height(&self) -> usize {
        2 * self.down + 2
    }

    /// Rows of tiles that are worked on together.
    fn rows_together(&self) -> usize {
        (TILES_TOGETHER / self.across).clamp(1, self.down)
    }

    /// Numbers from one place to the next; one tile more than there are, so that places do not share cache lines.
    fn place_stride(&self, channels: usize) -> usize {
        (self.rows_together() * self.across + 1) * channels
    }

    /// Numbers of transformed tiles.
    pub fn scratch(&self, channels: usize) -> usize {
        PLACES * self.place_stride(channels)
    }
}

/// Bᵀ of four vectors.
#[inline(always)]
fn spread_input<S: Simd, T: Number>(simd: S, [a, b, c, d]: [T::Vector<S>; 4]) -> [T::Vector<S>; 4] {
    [T::minus(simd, a, c), T::plus(simd, b, c), T::minus(simd, c, b), T::minus(simd, b, d)]
}

/// Bᵀ of the four pixels at and below `x`. (A closure would not be compiled for the vectors of `S`.)
#[inline(always)]
fn spread_column<S: Simd, T: Number>(simd: S, corner: &[T::Vector<S>], line: usize, x: usize) -> [T::Vector<S>; 4] {
    spread_input::<S, T>(simd, [corner[x], corner[line + x], corner[2 * line + x], corner[3 * line + x]])
}

/// A of two vectors.
#[inline(always)]
fn spread_gradient<S: Simd, T: Number>(simd: S, [a, b]: [T::Vector<S>; 2]) -> [T::Vector<S>; 4] {
    let zero = T::splat(simd, T::default());
    [a, T::plus(simd, a, b), T::minus(simd, a, b), T::minus(simd, zero, b)]
}

/// Aᵀ of four vectors.
#[inline(always)]
fn gather_output<S: Simd, T: Number>(simd: S, [a, b, c, d]: [T::Vector<S>; 4]) -> [T::Vector<S>; 2] {
    let sum = T::plus(simd, T::plus(simd, a, b), c);
    [sum, T::minus(simd, T::minus(simd, b, c), d)]
}

/// Bᵀ X B of the tiles in rows `rows` of a canvas.
#[inline(always)]
fn transform_input<S: Simd, T: Number>(
    simd: S,
    tiling: &Tiling,
    channels: usize,
    rows: Range<usize>,
    canvas: &[T],
    to: &mut [T],
) {
    let count = T::num_vectors::<S>(channels);
    let (line, stride) = (tiling.canvas_width() * count, T::num_vectors::<S>(tiling.place_stride(channels)));
    let (canvas, to) = (T::vectors::<S>(canvas), T::vectors_mut::<S>(to));
    for (row, tile_row) in rows.enumerate() {
        for at in 0..count {
            let corner = &canvas[2 * tile_row * line + at..][..4 * line - at];
            // Neighbouring tiles share two columns.
            let first = spread_column::<S, T>(simd, corner, line, 0);
            let mut shared = [first, spread_column::<S, T>(simd, corner, line, count)];
            for across in 0..tiling.across {
                let [a, b] = shared;
                let x = (2 * across + 2) * count;
                let c = spread_column::<S, T>(simd, corner, line, x);
                let d = spread_column::<S, T>(simd, corner, line, x + count);
                shared = [c, d];
                let to = &mut to[(row * tiling.across + across) * count + at..][..15 * stride + 1];
                for i in 0..4 {
                    let places = spread_input::<S, T>(simd, [a[i], b[i], c[i], d[i]]);
                    for (j, place) in places.into_iter().enumerate() {
                        to[(4 * i + j) * stride] = place;
                    }
                }
            }
        }
    }
}

/// A ∂z Aᵀ of the tiles in rows `rows` of a canvas whose image begins one pixel down and right.
#[inline(always)]
fn transform_gradient<S: Simd, T: Number>(
    simd: S,
    tiling: &Tiling,
    channels: usize,
    rows: Range<usize>,
    canvas: &[T],
    to: &mut [T],
) {
    let count = T::num_vectors::<S>(channels);
    let (line, stride) = (tiling.canvas_width() * count, T::num_vectors::<S>(tiling.place_stride(channels)));
    let (canvas, to) = (T::vectors::<S>(canvas), T::vectors_mut::<S>(to));
    let zero = T::splat(simd, T::default());
    for (row, tile_row) in rows.enumerate() {
        for column in 0..tiling.across {
            let tile = row * tiling.across + column;
            for at in 0..count {
                let corner = (2 * tile_row + 1) * line + (2 * column + 1) * count + at;
                let mut lines = [[zero; 4]; 2];
                for (i, pixels) in lines.iter_mut().enumerate() {
                    let read = &canvas[corner + i * line..][..count + 1];
                    *pixels = spread_gradient::<S, T>(simd, [read[0], read[count]]);
                }
                let to = &mut to[tile * count + at..][..15 * stride + 1];
                for j in 0..4 {
                    let column = spread_gradient::<S, T>(simd, [lines[0][j], lines[1][j]]);
                    for (i, value) in column.into_iter().enumerate() {
                        to[(4 * i + j) * stride] = value;
                    }
                }
            }
        }
    }
}

/// Where the products of tiles go: an image without padding.
struct Image<'a, T> {
    values: &'a mut [T],
    bias: Option<&'a [T]>,
    /// Whether products are added to what is there.
    adds: bool,
}

/// Aᵀ M A of the tiles in rows `rows`.
#[inline(always)]
fn transform_output<S: Simd, T: Number>(
    simd: S,
    tiling: &Tiling,
    channels: usize,
    rows: Range<usize>,
    from: &[T],
    image: Image<'_, T>,
) {
    let count = T::num_vectors::<S>(channels);
    let (line, stride) = (tiling.width * count, T::num_vectors::<S>(tiling.place_stride(channels)));
    let from = T::vectors::<S>(from);
    let Image { values, bias, adds } = image;
    let (values, bias) = (T::vectors_mut::<S>(values), bias.map(|bias| T::vectors::<S>(bias)));
    let zero = T::splat(simd, T::default());
    for (row, tile_row) in rows.enumerate() {
        for column in 0..tiling.across {
            let tile = row * tiling.across + column;
            for at in 0..count {
                let from = &from[tile * count + at..][..15 * stride + 1];
                let mut lines = [[zero; 4]; 2];
                for j in 0..4 {
                    let read = [from[j * stride], from[(4 + j) * stride], from[(8 + j) * stride], from[(12 + j) * stride]];
                    [lines[0][j], lines[1][j]] = gather_output::<S, T>(simd, read);
                }
                for (i, pixels) in lines.into_iter().enumerate() {
                    let y = 2 * tile_row + i;
                    if y == tiling.height {
                        break;
                    }
                    for (j, mut pixel) in gather_output::<S, T>(simd, pixels).into_iter().enumerate() {
                        let x = 2 * column + j;
                        if x == tiling.width {
                            break;
                        }
                        let to = &mut values[y * line + x * count + at];
                        if let Some(bias) = bias {
                            pixel = T::plus(simd, pixel, bias[at]);
                        }
                        *to = if adds { T::plus(simd, pixel, *to) } else { pixel };
                    }
                }
            }
        }
    }
}

/// A convolution of one padded image; `packed` holds the 16 transformed kernels one after the other.
pub(super) struct TileProduct<'a, T> {
    pub tiling: Tiling,
    pub from: usize,
    pub to: usize,
    pub canvas: &'a [T],
    pub packed: &'a [T],
    pub bias: Option<&'a [T]>,
    pub adds: bool,
    pub image: &'a mut [T],
    pub tiles: &'a mut [T],
    pub products: &'a mut [T],
}

impl<T: Number> TileProduct<'_, T> {
    #[inline(always)]
    pub fn run<S: Simd>(self, simd: S) {
        let Self { tiling, from, to, canvas, packed, bias, adds, image, tiles, products } = self;
        let together = tiling.rows_together();
        for first in (0..tiling.down).step_by(together) {
            let rows = first..(first + together).min(tiling.down);
            let num_rows = rows.len() * tiling.across;
            transform_input(simd, &tiling, from, rows.clone(), canvas, tiles);
            for place in 0..PLACES {
                let values = &tiles[place * tiling.place_stride(from)..];
                let factors = Factors { values, step: from, num_pieces: 1, piece_stride: 0, piece_len: from };
                let values = &mut products[place * tiling.place_stride(to)..];
                let results = Results { values, step: to, num_rows, num_columns: to };
                T::product(simd, factors, &packed[place * from * to..][..from * to], Start::Zero, results);
            }
            transform_output(simd, &tiling, to, rows, products, Image { values: &mut *image, bias, adds });
        }
    }
}

/// The gradient of the transformed kernels from one image and the gradient of its output, both padded.
pub(super) struct TileOuterProduct<'a, T> {
    pub tiling: Tiling,
    pub from: usize,
    pub to: usize,
    pub canvas: &'a [T],
    pub gradient_canvas: &'a [T],
    /// 16 matrices of `from` rows and `to` columns.
    pub sums: &'a mut [T],
    pub tiles: &'a mut [T],
    pub gradient_tiles: &'a mut [T],
}

impl<T: Number> TileOuterProduct<'_, T> {
    #[inline(always)]
    pub fn run<S: Simd>(self, simd: S) {
        let Self { tiling, from, to, canvas, gradient_canvas, sums, tiles, gradient_tiles } = self;
        let together = tiling.rows_together();
        for first in (0..tiling.down).step_by(together) {
            let rows = first..(first + together).min(tiling.down);
            let num_tiles = rows.len() * tiling.across;
            transform_input(simd, &tiling, from, rows.clone(), canvas, tiles);
            transform_gradient(simd, &tiling, to, rows, gradient_canvas, gradient_tiles);
            for place in 0..PLACES {
                let values = &tiles[place * tiling.place_stride(from)..];
                let factors = Lines { values, step: from, line_stride: 0 };
                let values = &gradient_tiles[place * tiling.place_stride(to)..];
                let terms = Lines { values, step: to, line_stride: 0 };
                let values = &mut sums[place * from * to..][..from * to];
                let results = Results { values, step: to, num_rows: from, num_columns: to };
                T::add_outer(simd, factors, terms, 1, num_tiles, results);
            }
        }
    }
}

/// G W Gᵀ: the 16 places of a kernel's nine taps.
#[inline(always)]
pub(super) fn transform_kernel<T: Number>(taps: [T; 9]) -> [T; PLACES] {
    let half = T::from_f64(0.5);
    let spread = |a: T, b: T, c: T| [a, half * (a + b + c), half * (a - b + c), c];
    let mut places = [T::default(); PLACES];
    let columns: [[T; 4]; 3] = [
        spread(taps[0], taps[3], taps[6]),
        spread(taps[1], taps[4], taps[7]),
        spread(taps[2], taps[5], taps[8]),
    ];
    for i in 0..4 {
        places[4 * i..4 * i + 4].copy_from_slice(&spread(columns[0][i], columns[1][i], columns[2][i]));
    }
    places
}

/// Gᵀ S G: the gradient of the nine taps from that of the 16 places.
#[inline(always)]
pub(super) fn gather_kernel<T: Number>(places: [T; PLACES]) -> [T; 9] {
    let half = T::from_f64(0.5);
    let gather = |a: T, b: T, c: T, d: T| [a + half * (b + c), half * (b - c), half * (b + c) + d];
    let mut lines = [[T::default(); 3]; 4];
    for (i, line) in lines.iter_mut().enumerate() {
        *line = gather(places[4 * i], places[4 * i + 1], places[4 * i + 2], places[4 * i + 3]);
    }
    let mut taps = [T::default(); 9];
    for j in 0..3 {
        let column = gather(lines[0][j], lines[1][j], lines[2][j], lines[3][j]);
        for (i, &tap) in column.iter().enumerate() {
            taps[3 * i + j] = tap;
        }
    }
    taps
}
