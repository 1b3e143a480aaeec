//! A dense Cholesky factorisation, A = L Lᵀ, for closed forms and for models of some hundred parameters.

use pulp::{Simd, WithSimd};

use crate::vector::{dispatch, mul_add_f64};

/// Sums run in so many lanes whatever the processor, so that results do not depend on its vector width.
const LANES: usize = 8;

/// The lower triangle L of a symmetric positive definite matrix, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Cholesky {
    lower: Vec<f64>,
    size: usize,
}

impl Cholesky {
    /// Factors a row-major matrix, of which only the lower triangle is read, or `None` if it is not positive definite.
    pub fn new(matrix: &[f64], size: usize) -> Option<Self> {
        let mut lower = vec![0.0; size * size];
        for row in 0..size {
            lower[row * size..=row * size + row].copy_from_slice(&matrix[row * size..=row * size + row]);
        }
        dispatch(Factorise { lower: &mut lower, size }).then_some(Self { lower, size })
    }

    fn row(&self, row: usize) -> &[f64] {
        &self.lower[row * self.size..=row * self.size + row]
    }

    /// y with L y = b; so bᵀA⁻¹b = ‖y‖².
    pub(crate) fn half_solve(&self, b: &[f64]) -> Vec<f64> {
        dispatch(HalfSolve { factor: self, b })
    }

    /// x with A x = b.
    pub(crate) fn solve(&self, b: &[f64]) -> Vec<f64> {
        self.half_solve_transposed(&self.half_solve(b))
    }

    /// x with Lᵀ x = y: of standard normal y, x is normal with covariance A⁻¹.
    pub fn half_solve_transposed(&self, y: &[f64]) -> Vec<f64> {
        let mut x = y.to_vec();
        for row in (0..self.size).rev() {
            let entries = self.row(row);
            x[row] /= entries[row];
            let value = x[row];
            x.iter_mut().zip(&entries[..row]).for_each(|(x, entry)| *x -= entry * value);
        }
        x
    }

    /// xᵀAx = ‖Lᵀx‖².
    pub(crate) fn quadratic_form(&self, x: &[f64]) -> f64 {
        let mut sums = vec![0.0; self.size];
        for (row, &value) in x.iter().enumerate() {
            sums.iter_mut().zip(self.row(row)).for_each(|(sum, entry)| *sum += entry * value);
        }
        sums.iter().map(|sum| sum * sum).sum()
    }

    /// log det A.
    pub(crate) fn log_determinant(&self) -> f64 {
        (0..self.size).map(|row| 2.0 * self.row(row)[row].ln()).sum()
    }

    /// A⁻¹, row-major.
    pub(crate) fn inverse(&self) -> Vec<f64> {
        let unit = |row: usize| (0..self.size).map(|column| f64::from(row == column)).collect::<Vec<_>>();
        (0..self.size).flat_map(|row| self.solve(&unit(row))).collect()
    }
}

#[inline(always)]
fn dot<S: Simd>(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f64 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane = mul_add_f64::<S>(*a, *b, *lane);
        }
    }
    lanes.iter().sum::<f64>() + rest
}

/// Turns the lower triangle of A into L; whether A was positive definite.
struct Factorise<'a> {
    lower: &'a mut [f64],
    size: usize,
}

impl WithSimd for Factorise<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> bool {
        let Self { lower, size } = self;
        for row in 0..size {
            let (before, own) = lower.split_at_mut(row * size);
            for column in 0..row {
                let other = &before[column * size..=column * size + column];
                own[column] = (own[column] - dot::<S>(&other[..column], &own[..column])) / other[column];
            }
            let rest = own[row] - dot::<S>(&own[..row], &own[..row]);
            if !(rest > 0.0 && rest.is_finite()) {
                return false;
            }
            own[row] = rest.sqrt();
        }
        true
    }
}

struct HalfSolve<'a> {
    factor: &'a Cholesky,
    b: &'a [f64],
}

impl WithSimd for HalfSolve<'_> {
    type Output = Vec<f64>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Vec<f64> {
        let mut y = self.b.to_vec();
        for row in 0..self.factor.size {
            let entries = self.factor.row(row);
            y[row] = (y[row] - dot::<S>(&entries[..row], &y[..row])) / entries[row];
        }
        y
    }
}

/// tr(B A⁻¹) of row-major symmetric matrices, or `None` if A is not positive definite.
pub fn trace_of_product_with_inverse(b: &[f64], a: &[f64], size: usize) -> Option<f64> {
    let factor = Cholesky::new(a, size)?;
    Some((0..size).map(|row| factor.solve(&b[row * size..(row + 1) * size])[row]).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solves_and_inverts_a_hand_worked_matrix() {
        // [[4, 2], [2, 5]] = L Lᵀ with L = [[2, 0], [1, 2]]; the determinant is 16.
        let cholesky = Cholesky::new(&[4.0, 2.0, 2.0, 5.0], 2).unwrap();
        assert_eq!(cholesky.lower, [2.0, 0.0, 1.0, 2.0]);
        assert!((cholesky.log_determinant() - 16f64.ln()).abs() < 1e-15);
        assert_eq!(cholesky.solve(&[8.0, 12.0]), [1.0, 2.0]);
        assert_eq!(cholesky.quadratic_form(&[1.0, 2.0]), 32.0);
        // [[1, 0], [0, 2]] A⁻¹ has the trace (5 + 2 · 4)/16.
        assert_eq!(trace_of_product_with_inverse(&[1.0, 0.0, 0.0, 2.0], &[4.0, 2.0, 2.0, 5.0], 2), Some(13.0 / 16.0));
        assert_eq!(cholesky.half_solve(&[8.0, 12.0]), [4.0, 4.0]);
        assert_eq!(cholesky.inverse(), [5.0 / 16.0, -2.0 / 16.0, -2.0 / 16.0, 4.0 / 16.0]);
    }

    /// Beyond the lanes of a sum: A = D + 1 1ᵀ has the inverse D⁻¹ − D⁻¹1 1ᵀD⁻¹/(1 + Σ 1/d), by hand.
    #[test]
    fn larger_matrices_have_their_inverse() {
        let (size, diagonal) = (37, |i: usize| 1.0 + i as f64);
        let matrix: Vec<f64> =
            (0..size * size).map(|at| 1.0 + if at / size == at % size { diagonal(at / size) } else { 0.0 }).collect();
        let factor = Cholesky::new(&matrix, size).unwrap();
        let sum: f64 = (0..size).map(|i| 1.0 / diagonal(i)).sum();
        for (at, &found) in factor.inverse().iter().enumerate() {
            let (i, j) = (at / size, at % size);
            let own = if i == j { 1.0 / diagonal(i) } else { 0.0 };
            let expected = own - 1.0 / (diagonal(i) * diagonal(j) * (1.0 + sum));
            assert!((found - expected).abs() < 1e-14, "{i}, {j}: {found} instead of {expected}");
        }
        let ones = vec![1.0; size];
        let expected = (0..size).map(diagonal).sum::<f64>() + (size * size) as f64;
        assert!((factor.quadratic_form(&ones) - expected).abs() < 1e-10);
    }

    #[test]
    fn refuses_what_is_not_positive_definite() {
        assert_eq!(Cholesky::new(&[1.0, 2.0, 2.0, 1.0], 2), None);
        assert_eq!(Cholesky::new(&[f64::NAN], 1), None);
    }
}
