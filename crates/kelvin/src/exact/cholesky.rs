//! A small dense Cholesky factorisation, A = L Lᵀ, for the closed forms.

/// The lower triangle L of a symmetric positive definite matrix, row-major.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cholesky {
    lower: Vec<f64>,
    size: usize,
}

impl Cholesky {
    /// Factors a row-major matrix, or `None` if it is not positive definite.
    pub(super) fn new(matrix: &[f64], size: usize) -> Option<Self> {
        let mut lower = vec![0.0; size * size];
        for row in 0..size {
            for column in 0..=row {
                let dot: f64 = (0..column).map(|k| lower[row * size + k] * lower[column * size + k]).sum();
                let rest = matrix[row * size + column] - dot;
                lower[row * size + column] = if row == column {
                    if !(rest > 0.0 && rest.is_finite()) {
                        return None;
                    }
                    rest.sqrt()
                } else {
                    rest / lower[column * size + column]
                };
            }
        }
        Some(Self { lower, size })
    }

    /// y with L y = b; so bᵀA⁻¹b = ‖y‖².
    pub(super) fn half_solve(&self, b: &[f64]) -> Vec<f64> {
        let mut y = b.to_vec();
        for row in 0..self.size {
            let dot: f64 = (0..row).map(|k| self.lower[row * self.size + k] * y[k]).sum();
            y[row] = (y[row] - dot) / self.lower[row * self.size + row];
        }
        y
    }

    /// x with A x = b.
    pub(super) fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x = self.half_solve(b);
        for row in (0..self.size).rev() {
            let dot: f64 = (row + 1..self.size).map(|k| self.lower[k * self.size + row] * x[k]).sum();
            x[row] = (x[row] - dot) / self.lower[row * self.size + row];
        }
        x
    }

    /// xᵀAx = ‖Lᵀx‖².
    pub(super) fn quadratic_form(&self, x: &[f64]) -> f64 {
        let column = |k: usize| (k..self.size).map(|row| self.lower[row * self.size + k] * x[row]).sum::<f64>();
        (0..self.size).map(|k| column(k).powi(2)).sum()
    }

    /// A⁻¹, row-major.
    pub(super) fn inverse(&self) -> Vec<f64> {
        let unit = |row: usize| (0..self.size).map(|column| f64::from(row == column)).collect::<Vec<_>>();
        (0..self.size).flat_map(|row| self.solve(&unit(row))).collect()
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
        assert_eq!(cholesky.solve(&[8.0, 12.0]), [1.0, 2.0]);
        assert_eq!(cholesky.quadratic_form(&[1.0, 2.0]), 32.0);
        // [[1, 0], [0, 2]] A⁻¹ has the trace (5 + 2 · 4)/16.
        assert_eq!(trace_of_product_with_inverse(&[1.0, 0.0, 0.0, 2.0], &[4.0, 2.0, 2.0, 5.0], 2), Some(13.0 / 16.0));
        assert_eq!(cholesky.half_solve(&[8.0, 12.0]), [4.0, 4.0]);
        assert_eq!(cholesky.inverse(), [5.0 / 16.0, -2.0 / 16.0, -2.0 / 16.0, 4.0 / 16.0]);
    }

    #[test]
    fn refuses_what_is_not_positive_definite() {
        assert_eq!(Cholesky::new(&[1.0, 2.0, 2.0, 1.0], 2), None);
        assert_eq!(Cholesky::new(&[f64::NAN], 1), None);
    }
}
