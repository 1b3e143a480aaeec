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

use pulp::{Simd, WithSimd};

use crate::network::kernels::{Factors, Lines, Number, PIECE, Results, Start};

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

    /// Numbers of transformed tiles.
    pub fn scratch(&self, channels: usize) -> usize {
        self.rows_together() * self.across * tile_stride(channels)
    }
}

/// Numbers from one transformed tile to the next: its 16 places, and a gap, or the same place of all tiles would want the
/// same lines of the cache.
const fn tile_stride(channels: usize) -> usize {
    PLACES * channels + PIECE
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

/// Applies B to four columns that Bᵀ was applied to.
#[inline(always)]
fn spread_columns<S: Simd, T: Number>(simd: S, [a, b, c, d]: [[T::Vector<S>; 4]; 4]) -> [T::Vector<S>; PLACES] {
    let mut places = [a[0]; PLACES];
    for i in 0..4 {
        places[4 * i..4 * i + 4].copy_from_slice(&spread_input::<S, T>(simd, [a[i], b[i], c[i], d[i]]));
    }
    places
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

/// Tiles in rows `rows` of a canvas, and where they go once transformed.
struct Tiles<'a, T> {
    tiling: Tiling,
    channels: usize,
    rows: Range<usize>,
    canvas: &'a [T],
    to: &'a mut [T],
}

/// Bᵀ X B.
struct InputTransform<'a, T>(Tiles<'a, T>);

impl<T: Number> WithSimd for InputTransform<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match T::num_vectors::<S>(self.0.channels) {
            1 => transform_input::<S, T, 1>(simd, self.0),
            2 => transform_input::<S, T, 2>(simd, self.0),
            4 => transform_input::<S, T, 4>(simd, self.0),
            _ => transform_input::<S, T, 0>(simd, self.0),
        }
    }
}

/// `COUNT` is the number of vectors of a pixel where it is not 0: places the compiler knows stay in registers.
#[inline(always)]
fn transform_input<S: Simd, T: Number, const COUNT: usize>(simd: S, tiles: Tiles<'_, T>) {
    let Tiles { tiling, channels, rows, canvas, to } = tiles;
    let count = if COUNT > 0 { COUNT } else { T::num_vectors::<S>(channels) };
    let (line, stride) = (tiling.canvas_width() * count, T::num_vectors::<S>(tile_stride(channels)));
    let canvas = T::vectors::<S>(canvas);
    let mut tiles = T::vectors_mut::<S>(to).chunks_exact_mut(stride);
    for tile_row in rows {
        let corner = &canvas[2 * tile_row * line..][..4 * line];
        for (across, tile) in tiles.by_ref().take(tiling.across).enumerate() {
            for at in 0..count {
                let x = 2 * across * count + at;
                let mut columns = [[T::splat(simd, T::default()); 4]; 4];
                for (number, column) in columns.iter_mut().enumerate() {
                    *column = spread_column::<S, T>(simd, corner, line, x + number * count);
                }
                store_places(spread_columns::<S, T>(simd, columns), &mut tile[at..], count);
            }
        }
    }
}

/// A ∂z Aᵀ, of a canvas whose image begins one pixel down and right.
struct GradientTransform<'a, T>(Tiles<'a, T>);

impl<T: Number> WithSimd for GradientTransform<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match T::num_vectors::<S>(self.0.channels) {
            1 => transform_gradient::<S, T, 1>(simd, self.0),
            2 => transform_gradient::<S, T, 2>(simd, self.0),
            4 => transform_gradient::<S, T, 4>(simd, self.0),
            _ => transform_gradient::<S, T, 0>(simd, self.0),
        }
    }
}

#[inline(always)]
fn transform_gradient<S: Simd, T: Number, const COUNT: usize>(simd: S, tiles: Tiles<'_, T>) {
    let Tiles { tiling, channels, rows, canvas, to } = tiles;
    let count = if COUNT > 0 { COUNT } else { T::num_vectors::<S>(channels) };
    let (line, stride) = (tiling.canvas_width() * count, T::num_vectors::<S>(tile_stride(channels)));
    let canvas = T::vectors::<S>(canvas);
    let mut tiles = T::vectors_mut::<S>(to).chunks_exact_mut(stride);
    for tile_row in rows {
        let (upper, lower) = canvas[(2 * tile_row + 1) * line..][..2 * line].split_at(line);
        for (across, tile) in tiles.by_ref().take(tiling.across).enumerate() {
            for at in 0..count {
                let x = (2 * across + 1) * count + at;
                let left = spread_gradient::<S, T>(simd, [upper[x], lower[x]]);
                let right = spread_gradient::<S, T>(simd, [upper[x + count], lower[x + count]]);
                let mut places = [left[0]; PLACES];
                for i in 0..4 {
                    places[4 * i..4 * i + 4].copy_from_slice(&spread_gradient::<S, T>(simd, [left[i], right[i]]));
                }
                store_places(places, &mut tile[at..], count);
            }
        }
    }
}

/// Writes the 16 places of a tile, `count` vectors apart.
#[inline(always)]
fn store_places<V: Copy>(places: [V; PLACES], tile: &mut [V], count: usize) {
    let tile = &mut tile[..(PLACES - 1) * count + 1];
    for place in 0..PLACES {
        tile[place * count] = places[place];
    }
}

/// Reads the 16 places of a tile, `count` vectors apart.
#[inline(always)]
fn load_places<V: Copy>(tile: &[V], count: usize) -> [V; PLACES] {
    let tile = &tile[..(PLACES - 1) * count + 1];
    let mut places = [tile[0]; PLACES];
    for place in 1..PLACES {
        places[place] = tile[place * count];
    }
    places
}

/// Aᵀ M A of the tiles in rows `rows`, to an image without padding.
struct OutputTransform<'a, T> {
    tiling: Tiling,
    channels: usize,
    rows: Range<usize>,
    products: &'a [T],
    bias: Option<&'a [T]>,
    /// Whether products are added to what is there.
    adds: bool,
    image: &'a mut [T],
}

impl<T: Number> WithSimd for OutputTransform<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match T::num_vectors::<S>(self.channels) {
            1 => self.run::<S, 1>(simd),
            2 => self.run::<S, 2>(simd),
            4 => self.run::<S, 4>(simd),
            _ => self.run::<S, 0>(simd),
        }
    }
}

impl<T: Number> OutputTransform<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const COUNT: usize>(self, simd: S) {
        let Self { tiling, channels, rows, products, bias, adds, image } = self;
        let count = if COUNT > 0 { COUNT } else { T::num_vectors::<S>(channels) };
        let (line, stride) = (tiling.width * count, T::num_vectors::<S>(tile_stride(channels)));
        let mut tiles = T::vectors::<S>(products).chunks_exact(stride);
        let (image, bias) = (T::vectors_mut::<S>(image), bias.map(T::vectors::<S>));
        for tile_row in rows {
            let (upper, lower) = image[2 * tile_row * line..].split_at_mut(line);
            for (across, tile) in tiles.by_ref().take(tiling.across).enumerate() {
                for at in 0..count {
                    let places = load_places(&tile[at..], count);
                    let mut columns = [[places[0]; 2]; 4];
                    for (j, column) in columns.iter_mut().enumerate() {
                        *column =
                            gather_output::<S, T>(simd, [places[j], places[4 + j], places[8 + j], places[12 + j]]);
                    }
                    let [a, b, c, d] = columns;
                    let mut lines = [gather_output::<S, T>(simd, [a[0], b[0], c[0], d[0]]); 2];
                    lines[1] = gather_output::<S, T>(simd, [a[1], b[1], c[1], d[1]]);
                    if let Some(bias) = bias {
                        for pixel in lines.iter_mut().flatten() {
                            *pixel = T::plus(simd, *pixel, bias[at]);
                        }
                    }
                    let x = 2 * across * count + at;
                    // The last tiles may reach over the edge.
                    let last_row = 2 * tile_row + 1 == tiling.height;
                    let last_column = 2 * across + 1 == tiling.width;
                    put::<S, T>(simd, adds, lines[0][0], &mut upper[x]);
                    if !last_column {
                        put::<S, T>(simd, adds, lines[0][1], &mut upper[x + count]);
                    }
                    if !last_row {
                        put::<S, T>(simd, adds, lines[1][0], &mut lower[x]);
                        if !last_column {
                            put::<S, T>(simd, adds, lines[1][1], &mut lower[x + count]);
                        }
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn put<S: Simd, T: Number>(simd: S, adds: bool, value: T::Vector<S>, to: &mut T::Vector<S>) {
    *to = if adds { T::plus(simd, value, *to) } else { value };
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
            simd.vectorize(InputTransform(Tiles { tiling, channels: from, rows: rows.clone(), canvas, to: tiles }));
            for place in 0..PLACES {
                let (values, step) = (&tiles[place * from..], tile_stride(from));
                let factors = Factors { values, step, num_pieces: 1, piece_stride: 0, piece_len: from };
                let values = &mut products[place * to..];
                let results = Results { values, step: tile_stride(to), num_rows, num_columns: to };
                T::product(simd, factors, &packed[place * from * to..][..from * to], Start::Zero, results);
            }
            simd.vectorize(OutputTransform { tiling, channels: to, rows, products, bias, adds, image });
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
            simd.vectorize(InputTransform(Tiles { tiling, channels: from, rows: rows.clone(), canvas, to: tiles }));
            let (canvas, tiles_to) = (gradient_canvas, &mut *gradient_tiles);
            simd.vectorize(GradientTransform(Tiles { tiling, channels: to, rows, canvas, to: tiles_to }));
            for place in 0..PLACES {
                let factors = Lines { values: &tiles[place * from..], step: tile_stride(from), line_stride: 0 };
                let values = &gradient_tiles[place * to..];
                let terms = Lines { values, step: tile_stride(to), line_stride: 0 };
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
    let columns: [[T; 4]; 3] =
        [spread(taps[0], taps[3], taps[6]), spread(taps[1], taps[4], taps[7]), spread(taps[2], taps[5], taps[8])];
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
