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

    /// A⁻¹, row-major.
    pub(super) fn inverse(&self) -> Vec<f64> {
        let unit = |row: usize| (0..self.size).map(|column| f64::from(row == column)).collect::<Vec<_>>();
        (0..self.size).flat_map(|row| self.solve(&unit(row))).collect()
    }
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
        assert_eq!(cholesky.half_solve(&[8.0, 12.0]), [4.0, 4.0]);
        assert_eq!(cholesky.inverse(), [5.0 / 16.0, -2.0 / 16.0, -2.0 / 16.0, 4.0 / 16.0]);
    }

    #[test]
    fn refuses_what_is_not_positive_definite() {
        assert_eq!(Cholesky::new(&[1.0, 2.0, 2.0, 1.0], 2), None);
        assert_eq!(Cholesky::new(&[f64::NAN], 1), None);
    }
}
