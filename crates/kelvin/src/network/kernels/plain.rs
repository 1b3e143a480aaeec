//! Both products in plain loops: the reference in double precision, and what serves where there are no vectors.

use super::{Factors, Lines, Number, PIECE, Results, Start, panel_width};

/// [`Number::product`], sixteen columns at a time.
#[inline(always)]
pub(super) fn product<T: Number>(from: Factors<'_, T>, packed: &[T], start: Start<'_, T>, to: Results<'_, T>) {
    let depth = from.num_pieces * from.piece_len;
    for m in 0..to.num_rows {
        for column in (0..to.num_columns).step_by(PIECE) {
            let result = &mut to.values[m * to.step + column..][..PIECE];
            let mut sums = [T::default(); PIECE];
            match start {
                Start::Zero => {}
                Start::Row(row) => sums.copy_from_slice(&row[column..column + PIECE]),
                Start::Results => sums.copy_from_slice(result),
            }
            // Two pieces may share a wide panel.
            let panel_at = column / super::WIDE * super::WIDE;
            let width = panel_width(panel_at, to.num_columns);
            let panel = &packed[panel_at * depth..][..width * depth];
            for piece in 0..from.num_pieces {
                let factors = &from.values[m * from.step + piece * from.piece_stride..][..from.piece_len];
                let terms = panel[piece * from.piece_len * width..].chunks_exact(width);
                for (&factor, terms) in factors.iter().zip(terms) {
                    let terms = &terms[column - panel_at..][..PIECE];
                    for (sum, &term) in sums.iter_mut().zip(terms) {
                        *sum += factor * term;
                    }
                }
            }
            result.copy_from_slice(&sums);
        }
    }
}

/// [`Number::add_outer`], a pair of rows after the other.
#[inline(always)]
pub(super) fn add_outer<T: Number>(a: Lines<'_, T>, b: Lines<'_, T>, num_lines: usize, len: usize, to: Results<'_, T>) {
    for line in 0..num_lines {
        for p in 0..len {
            let factors = &a.values[line * a.line_stride + p * a.step..][..to.num_rows];
            let terms = &b.values[line * b.line_stride + p * b.step..][..to.num_columns];
            for (&factor, sums) in factors.iter().zip(to.values.chunks_mut(to.step)) {
                for (sum, &term) in sums[..to.num_columns].iter_mut().zip(terms) {
                    *sum += factor * term;
                }
            }
        }
    }
}
