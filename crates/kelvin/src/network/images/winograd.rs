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

use super::kernels::{Factors, Lines, Number, PIECE, Results, Start};

/// Places of a tile.
pub(super) const PLACES: usize = 16;
/// Tiles that are transformed before they are multiplied: they stay in the second cache.
const TILES_TOGETHER: usize = 64;

type Piece<T> = [T; PIECE];

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

#[inline(always)]
fn add<T: Number>(a: Piece<T>, b: Piece<T>) -> Piece<T> {
    let mut sum = a;
    for i in 0..PIECE {
        sum[i] = a[i] + b[i];
    }
    sum
}

#[inline(always)]
fn subtract<T: Number>(a: Piece<T>, b: Piece<T>) -> Piece<T> {
    let mut difference = a;
    for i in 0..PIECE {
        difference[i] = a[i] - b[i];
    }
    difference
}

/// Bᵀ of four pieces.
#[inline(always)]
fn spread_input<T: Number>([a, b, c, d]: [Piece<T>; 4]) -> [Piece<T>; 4] {
    [subtract(a, c), add(b, c), subtract(c, b), subtract(b, d)]
}

/// A of two pieces.
#[inline(always)]
fn spread_gradient<T: Number>([a, b]: [Piece<T>; 2]) -> [Piece<T>; 4] {
    [a, add(a, b), subtract(a, b), subtract([T::default(); PIECE], b)]
}

/// Aᵀ of four pieces.
#[inline(always)]
fn gather_output<T: Number>([a, b, c, d]: [Piece<T>; 4]) -> [Piece<T>; 2] {
    [add(add(a, b), c), subtract(subtract(b, c), d)]
}

/// Bᵀ X B of the tiles in rows `rows` of a canvas.
#[inline(always)]
fn transform_input<T: Number>(tiling: &Tiling, channels: usize, rows: std::ops::Range<usize>, canvas: &[T], to: &mut [T]) {
    let (line, stride) = (tiling.canvas_width() * channels, tiling.place_stride(channels));
    for (row, tile_row) in rows.enumerate() {
        for column in 0..tiling.across {
            let tile = row * tiling.across + column;
            for piece in (0..channels).step_by(PIECE) {
                let corner = 2 * tile_row * line + 2 * column * channels + piece;
                let mut lines = [[[T::default(); PIECE]; 4]; 4];
                for (i, pixels) in lines.iter_mut().enumerate() {
                    let mut read = [[T::default(); PIECE]; 4];
                    for (j, pixel) in read.iter_mut().enumerate() {
                        pixel.copy_from_slice(&canvas[corner + i * line + j * channels..][..PIECE]);
                    }
                    *pixels = spread_input(read);
                }
                let to = &mut to[tile * channels + piece..];
                for j in 0..4 {
                    let column = spread_input([lines[0][j], lines[1][j], lines[2][j], lines[3][j]]);
                    for (i, value) in column.iter().enumerate() {
                        to[(4 * i + j) * stride..][..PIECE].copy_from_slice(value);
                    }
                }
            }
        }
    }
}

/// A ∂z Aᵀ of the tiles in rows `rows` of a canvas whose image begins one pixel down and right.
#[inline(always)]
fn transform_gradient<T: Number>(
    tiling: &Tiling,
    channels: usize,
    rows: std::ops::Range<usize>,
    canvas: &[T],
    to: &mut [T],
) {
    let (line, stride) = (tiling.canvas_width() * channels, tiling.place_stride(channels));
    for (row, tile_row) in rows.enumerate() {
        for column in 0..tiling.across {
            let tile = row * tiling.across + column;
            for piece in (0..channels).step_by(PIECE) {
                let corner = (2 * tile_row + 1) * line + (2 * column + 1) * channels + piece;
                let mut lines = [[[T::default(); PIECE]; 4]; 2];
                for (i, pixels) in lines.iter_mut().enumerate() {
                    let mut read = [[T::default(); PIECE]; 2];
                    for (j, pixel) in read.iter_mut().enumerate() {
                        pixel.copy_from_slice(&canvas[corner + i * line + j * channels..][..PIECE]);
                    }
                    *pixels = spread_gradient(read);
                }
                let to = &mut to[tile * channels + piece..];
                for j in 0..4 {
                    let column = spread_gradient([lines[0][j], lines[1][j]]);
                    for (i, value) in column.iter().enumerate() {
                        to[(4 * i + j) * stride..][..PIECE].copy_from_slice(value);
                    }
                }
            }
        }
    }
}

/// Aᵀ M A of the tiles in rows `rows`, written to (or added to) an image without padding.
#[inline(always)]
fn transform_output<T: Number>(
    tiling: &Tiling,
    channels: usize,
    rows: std::ops::Range<usize>,
    from: &[T],
    bias: Option<&[T]>,
    adds: bool,
    image: &mut [T],
) {
    let (line, stride) = (tiling.width * channels, tiling.place_stride(channels));
    for (row, tile_row) in rows.enumerate() {
        for column in 0..tiling.across {
            let tile = row * tiling.across + column;
            for piece in (0..channels).step_by(PIECE) {
                let from = &from[tile * channels + piece..];
                let mut lines = [[[T::default(); PIECE]; 4]; 2];
                for j in 0..4 {
                    let mut read = [[T::default(); PIECE]; 4];
                    for (i, value) in read.iter_mut().enumerate() {
                        value.copy_from_slice(&from[(4 * i + j) * stride..][..PIECE]);
                    }
                    let [upper, lower] = gather_output(read);
                    lines[0][j] = upper;
                    lines[1][j] = lower;
                }
                for (i, pixels) in lines.iter().enumerate() {
                    let y = 2 * tile_row + i;
                    if y == tiling.height {
                        break;
                    }
                    let pair = gather_output(*pixels);
                    for (j, pixel) in pair.iter().enumerate() {
                        let x = 2 * column + j;
                        if x == tiling.width {
                            break;
                        }
                        let to = &mut image[y * line + x * channels + piece..][..PIECE];
                        let mut value = *pixel;
                        if let Some(bias) = bias {
                            for i in 0..PIECE {
                                value[i] += bias[piece + i];
                            }
                        }
                        if adds {
                            for i in 0..PIECE {
                                value[i] += to[i];
                            }
                        }
                        to.copy_from_slice(&value);
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
    pub fn run<S: pulp::Simd>(self, simd: S) {
        let Self { tiling, from, to, canvas, packed, bias, adds, image, tiles, products } = self;
        let together = tiling.rows_together();
        for first in (0..tiling.down).step_by(together) {
            let rows = first..(first + together).min(tiling.down);
            let num_rows = rows.len() * tiling.across;
            transform_input(&tiling, from, rows.clone(), canvas, tiles);
            for place in 0..PLACES {
                let values = &tiles[place * tiling.place_stride(from)..];
                let factors = Factors { values, step: from, num_pieces: 1, piece_stride: 0, piece_len: from };
                let values = &mut products[place * tiling.place_stride(to)..];
                let results = Results { values, step: to, num_rows, num_columns: to };
                T::product(simd, factors, &packed[place * from * to..][..from * to], Start::Zero, results);
            }
            transform_output(&tiling, to, rows, products, bias, adds, image);
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
    pub fn run<S: pulp::Simd>(self, simd: S) {
        let Self { tiling, from, to, canvas, gradient_canvas, sums, tiles, gradient_tiles } = self;
        let together = tiling.rows_together();
        for first in (0..tiling.down).step_by(together) {
            let rows = first..(first + together).min(tiling.down);
            let num_tiles = rows.len() * tiling.across;
            transform_input(&tiling, from, rows.clone(), canvas, tiles);
            transform_gradient(&tiling, to, rows, gradient_canvas, gradient_tiles);
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
