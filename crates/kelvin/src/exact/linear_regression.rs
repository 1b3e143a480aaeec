//! Bayesian linear regression at any temperature: posterior, predictions, the bound of Lemma 3.1 and the best β.

use thiserror::Error;

use super::cholesky::Cholesky;
use super::gaussian::Gaussian;

/// Why a regression has no closed form.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum LinearRegressionError {
    /// Inputs that are not `targets × features`.
    #[error("{num_inputs} input numbers do not make {num_targets} rows of {num_features}")]
    WrongShape {
        /// Numbers in the input array.
        num_inputs: usize,
        /// Rows there should be.
        num_targets: usize,
        /// Numbers a row.
        num_features: usize,
    },
    /// A variance that is not positive.
    #[error("the {which} variance must be a finite number > 0, got {found}")]
    NotAVariance {
        /// `noise` or `prior`.
        which: &'static str,
        /// What was given.
        found: f64,
    },
    /// Inputs with numbers that are not finite, or too large to square.
    #[error("the inputs are not finite numbers of a reasonable size: XᵀX has no Cholesky factor")]
    NotFinite,
}

/// What is to be as large as possible on held-out points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// log SM-PD.
    StandardModel,
    /// log TM-PD.
    TemperedModel,
    /// Lemma 3.1's bound from below on log TM-PD.
    LowerBound,
}

/// The exact posterior of a linear regression; β is given to each question, and a single input must have the
/// regression's number of features (a shorter one panics).
///
/// Model N(y | xᵀθ, σ²), prior θ ~ N(0, σ_p² I), both tempered. With Σ = (XᵀX + σ²/σ_p² I)⁻¹ and θ̂ = Σ Xᵀy,
///
/// ```text
/// posterior    N(θ̂, σ²/β Σ)
/// SM-PD        N(y | xᵀθ̂, σ² + σ²/β xᵀΣx)
/// TM-PD        N(y | xᵀθ̂, σ²/β (1 + xᵀΣx))
/// Lemma 3.1    log TM-PD ≥ log N(y | xᵀθ̂, σ²/β) − ½ log(1 + xᵀΣx)
/// ```
///
/// (Ng, van der Heide, Hodgkinson, Wei, UAI 2025, Section 3.)
///
/// ```
/// use kelvin::exact::LinearRegression;
/// // One feature, y = 2x exactly, a wide prior.
/// let fit = LinearRegression::new(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0], 1, 0.1, 1e9)?;
/// assert!((fit.mean()[0] - 2.0).abs() < 1e-9);
/// # Ok::<(), kelvin::exact::LinearRegressionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LinearRegression {
    precision: Cholesky,
    mean: Vec<f64>,
    noise_variance: f64,
    log_joint_at_mean: f64,
}

impl LinearRegression {
    /// Solves the regression; `inputs` has a row of `num_features` numbers for each target.
    ///
    /// # Errors
    /// When the shapes do not fit, a variance is not positive, or the inputs are not finite.
    pub fn new(
        inputs: &[f64],
        targets: &[f64],
        num_features: usize,
        noise_variance: f64,
        prior_variance: f64,
    ) -> Result<Self, LinearRegressionError> {
        if num_features == 0 || inputs.len() != targets.len() * num_features {
            let (num_inputs, num_targets) = (inputs.len(), targets.len());
            return Err(LinearRegressionError::WrongShape { num_inputs, num_targets, num_features });
        }
        for (which, found) in [("noise", noise_variance), ("prior", prior_variance)] {
            if !(found > 0.0 && found.is_finite()) {
                return Err(LinearRegressionError::NotAVariance { which, found });
            }
        }
        let mut matrix = vec![0.0; num_features * num_features];
        let mut right_side = vec![0.0; num_features];
        for (row, target) in inputs.chunks_exact(num_features).zip(targets) {
            for i in 0..num_features {
                right_side[i] += row[i] * target;
                for j in 0..num_features {
                    matrix[i * num_features + j] += row[i] * row[j];
                }
            }
        }
        for i in 0..num_features {
            matrix[i * num_features + i] += noise_variance / prior_variance;
        }
        let precision = Cholesky::new(&matrix, num_features).ok_or(LinearRegressionError::NotFinite)?;
        let mean = precision.solve(&right_side);

        let likelihood = |(row, &target): (&[f64], &f64)| {
            Gaussian { mean: dot(row, &mean), variance: noise_variance }.log_density(target)
        };
        let prior = Gaussian { mean: 0.0, variance: prior_variance };
        let log_joint_at_mean = inputs.chunks_exact(num_features).zip(targets).map(likelihood).sum::<f64>()
            + mean.iter().map(|&theta| prior.log_density(theta)).sum::<f64>();
        Ok(Self { precision, mean, noise_variance, log_joint_at_mean })
    }

    /// θ̂ = Σ Xᵀy, the posterior mean at every temperature.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Σ = (XᵀX + σ²/σ_p² I)⁻¹, row-major.
    pub fn unit_covariance(&self) -> Vec<f64> {
        self.precision.inverse()
    }

    /// σ²/β Σ, the covariance of the tempered posterior, row-major.
    pub fn posterior_covariance(&self, inverse_temperature: f64) -> Vec<f64> {
        let scale = self.noise_variance / inverse_temperature;
        self.precision.inverse().into_iter().map(|entry| scale * entry).collect()
    }

    /// Var xᵀθ = σ²/β xᵀΣx under the tempered posterior.
    pub fn spread(&self, input: &[f64], inverse_temperature: f64) -> f64 {
        self.noise_variance / inverse_temperature * self.leverage(input)
    }

    /// δᵀ Cov⁻¹ δ of a displacement from the mean, with the covariance of the tempered posterior.
    pub fn squared_distance(&self, displacement: &[f64], inverse_temperature: f64) -> f64 {
        self.precision.quadratic_form(displacement) * inverse_temperature / self.noise_variance
    }

    /// xᵀΣx, how far from the data an input lies.
    fn leverage(&self, input: &[f64]) -> f64 {
        self.precision.half_solve(input).iter().map(|y| y * y).sum()
    }

    /// The SM-PD at an input: N(xᵀθ̂, σ² + σ²/β xᵀΣx).
    pub fn standard_predictive(&self, input: &[f64], inverse_temperature: f64) -> Gaussian {
        let variance = self.noise_variance * (1.0 + self.leverage(input) / inverse_temperature);
        Gaussian { mean: dot(input, &self.mean), variance }
    }

    /// The TM-PD at an input: N(xᵀθ̂, σ²/β (1 + xᵀΣx)).
    pub fn tempered_predictive(&self, input: &[f64], inverse_temperature: f64) -> Gaussian {
        let variance = self.noise_variance / inverse_temperature * (1.0 + self.leverage(input));
        Gaussian { mean: dot(input, &self.mean), variance }
    }

    /// An objective at one point (x, y).
    pub fn log_density(&self, objective: Objective, input: &[f64], target: f64, inverse_temperature: f64) -> f64 {
        match objective {
            Objective::StandardModel => self.standard_predictive(input, inverse_temperature).log_density(target),
            Objective::TemperedModel => self.tempered_predictive(input, inverse_temperature).log_density(target),
            Objective::LowerBound => {
                let variance = self.noise_variance / inverse_temperature;
                let plug_in = Gaussian { mean: dot(input, &self.mean), variance };
                plug_in.log_density(target) - 0.5 * self.leverage(input).ln_1p()
            }
        }
    }

    /// The derivative of [`log_density`](Self::log_density) in β.
    pub fn log_density_slope(&self, objective: Objective, input: &[f64], target: f64, inverse_temperature: f64) -> f64 {
        let point = self.point(input, target);
        point.slope(objective, inverse_temperature)
    }

    /// The mean of an objective over held-out points; NaN without points.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn mean_log_density(
        &self,
        objective: Objective,
        inputs: &[f64],
        targets: &[f64],
        inverse_temperature: f64,
    ) -> Result<f64, LinearRegressionError> {
        self.check_shape(inputs, targets)?;
        let rows = inputs.chunks_exact(self.mean.len()).zip(targets);
        let sum: f64 = rows.map(|(x, &y)| self.log_density(objective, x, y, inverse_temperature)).sum();
        Ok(sum / targets.len() as f64)
    }

    /// E log p(D, θ) under the tempered posterior, constants included: log p(D, θ̂) − d/(2β).
    pub fn mean_log_joint(&self, inverse_temperature: f64) -> f64 {
        self.log_joint_at_mean - self.mean.len() as f64 / (2.0 * inverse_temperature)
    }

    /// The β in (0, ∞) at which an objective's mean over held-out points is largest, or `None` if it has no inner
    /// maximum.
    ///
    /// TM-PD and lower bound: β = n / Σ r²/(σ²(1 + xᵀΣx)) and n / Σ r²/σ². SM-PD: the best zero of the slope between
    /// β = 1e-9 and 1e9.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn best_inverse_temperature(
        &self,
        objective: Objective,
        inputs: &[f64],
        targets: &[f64],
    ) -> Result<Option<f64>, LinearRegressionError> {
        self.check_shape(inputs, targets)?;
        let rows = inputs.chunks_exact(self.mean.len()).zip(targets);
        let points: Vec<HeldOut> = rows.map(|(x, &y)| self.point(x, y)).collect();
        let count = points.len() as f64;
        let best = match objective {
            Objective::LowerBound => count / points.iter().map(|p| p.squared_error).sum::<f64>(),
            Objective::TemperedModel => {
                count / points.iter().map(|p| p.squared_error / (1.0 + p.leverage)).sum::<f64>()
            }
            Objective::StandardModel => return Ok(best_standard(&points)),
        };
        Ok((best.is_finite() && best > 0.0).then_some(best))
    }

    fn point(&self, input: &[f64], target: f64) -> HeldOut {
        let squared_error = (target - dot(input, &self.mean)).powi(2) / self.noise_variance;
        HeldOut { leverage: self.leverage(input), squared_error }
    }

    fn check_shape(&self, inputs: &[f64], targets: &[f64]) -> Result<(), LinearRegressionError> {
        let num_features = self.mean.len();
        if inputs.len() == targets.len() * num_features {
            return Ok(());
        }
        let (num_inputs, num_targets) = (inputs.len(), targets.len());
        Err(LinearRegressionError::WrongShape { num_inputs, num_targets, num_features })
    }
}

/// All that β needs to know of a held-out point.
struct HeldOut {
    /// q = xᵀΣx.
    leverage: f64,
    /// r²/σ².
    squared_error: f64,
}

impl HeldOut {
    /// d/dβ of the objective.
    fn slope(&self, objective: Objective, beta: f64) -> f64 {
        let (q, e) = (self.leverage, self.squared_error);
        match objective {
            Objective::StandardModel => {
                let spread = 1.0 + q / beta; // the variance in units of σ²
                0.5 * q / (beta * beta * spread) * (1.0 - e / spread)
            }
            Objective::TemperedModel => 0.5 / beta - 0.5 * e / (1.0 + q),
            Objective::LowerBound => 0.5 / beta - 0.5 * e,
        }
    }

    /// log SM-PD up to a constant.
    fn standard(&self, beta: f64) -> f64 {
        let spread = 1.0 + self.leverage / beta;
        -0.5 * spread.ln() - 0.5 * self.squared_error / spread
    }
}

/// The best maximum of the SM-PD: the slope may cross zero more than once, so all crossings of a grid are refined.
fn best_standard(points: &[HeldOut]) -> Option<f64> {
    let slope = |log_beta: f64| {
        let beta = log_beta.exp();
        beta * points.iter().map(|point| point.slope(Objective::StandardModel, beta)).sum::<f64>()
    };
    let score = |beta: &f64| points.iter().map(|point| point.standard(*beta)).sum::<f64>();
    let edge = 1e9_f64.ln();
    let num_cells = 400;
    let at = |cell: i32| edge * (2.0 * f64::from(cell) / f64::from(num_cells) - 1.0);
    (0..num_cells)
        .filter(|&cell| slope(at(cell)) > 0.0 && slope(at(cell + 1)) <= 0.0)
        .map(|cell| {
            let (mut low, mut high) = (at(cell), at(cell + 1));
            for _ in 0..60 {
                let middle = 0.5 * (low + high);
                if slope(middle) > 0.0 { low = middle } else { high = middle }
            }
            (0.5 * (low + high)).exp()
        })
        .filter(|beta| score(beta) >= score(&1e9))
        .max_by(|a, b| score(a).total_cmp(&score(b)))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECTIVES: [Objective; 3] = [Objective::StandardModel, Objective::TemperedModel, Objective::LowerBound];

    fn two_features() -> LinearRegression {
        let inputs = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, -1.0];
        LinearRegression::new(&inputs, &[1.0, 2.0, 3.5, -0.5], 2, 0.5, 2.0).unwrap()
    }

    fn assert_near(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
    }

    #[test]
    fn posterior_of_a_hand_worked_case() {
        // XᵀX = 3 I, σ²/σ_p² = 1/4: Σ = I / 3.25; Xᵀy = (4, 6).
        let fit = two_features();
        assert_near(fit.mean()[0], 4.0 / 3.25, 1e-15);
        assert_near(fit.mean()[1], 6.0 / 3.25, 1e-15);
        assert_near(fit.unit_covariance()[3], 1.0 / 3.25, 1e-15);
        assert_near(fit.posterior_covariance(2.0)[0], 0.25 / 3.25, 1e-15);
        let tempered = fit.tempered_predictive(&[1.0, 2.0], 2.0);
        assert_near(tempered.mean, 16.0 / 3.25, 1e-14);
        assert_near(tempered.variance, 0.25 * (1.0 + 5.0 / 3.25), 1e-15);
        assert_near(fit.standard_predictive(&[1.0, 2.0], 2.0).variance, 0.5 + 0.25 * 5.0 / 3.25, 1e-15);
    }

    #[test]
    fn spreads_and_distances_are_those_of_the_covariance() {
        // The covariance at β = 2 is 0.25/3.25 I.
        let fit = two_features();
        assert_near(fit.spread(&[1.0, 2.0], 2.0), 5.0 * 0.25 / 3.25, 1e-15);
        assert_near(fit.squared_distance(&[1.0, 2.0], 2.0), 5.0 * 3.25 / 0.25, 1e-12);
    }

    #[test]
    fn the_bound_holds_and_slopes_are_derivatives() {
        let fit = two_features();
        for beta in [0.1, 1.0, 7.0] {
            let (input, target) = ([0.5, -2.0], 1.0);
            let value = |objective, beta| fit.log_density(objective, &input, target, beta);
            assert!(value(Objective::LowerBound, beta) < value(Objective::TemperedModel, beta));
            for objective in OBJECTIVES {
                let h = 1e-5 * beta;
                let numeric = (value(objective, beta + h) - value(objective, beta - h)) / (2.0 * h);
                let slope = fit.log_density_slope(objective, &input, target, beta);
                assert_near(slope, numeric, 1e-7 * (1.0 + numeric.abs()));
            }
        }
        assert_eq!(two_features().tempered_predictive(&[1.0, 2.0], 1.0), fit.standard_predictive(&[1.0, 2.0], 1.0));
    }

    #[test]
    fn the_best_inverse_temperature_beats_its_neighbours() {
        let fit = two_features();
        let (inputs, targets) = ([0.5, -2.0, 1.0, 1.0, -1.0, 3.0], [-4.5, 3.9, 3.0]);
        for objective in OBJECTIVES {
            let best = fit.best_inverse_temperature(objective, &inputs, &targets).unwrap().unwrap();
            let score = |beta| fit.mean_log_density(objective, &inputs, &targets, beta).unwrap();
            assert!(score(best) > score(0.99 * best) && score(best) > score(1.01 * best), "{objective:?} {best}");
        }
    }

    #[test]
    fn perfect_predictions_want_no_temperature() {
        let fit = two_features();
        let target = fit.mean()[0];
        for objective in OBJECTIVES {
            assert_eq!(fit.best_inverse_temperature(objective, &[1.0, 0.0], &[target]), Ok(None));
        }
    }

    #[test]
    fn refuses_what_has_no_closed_form() {
        let wrong = LinearRegressionError::WrongShape { num_inputs: 3, num_targets: 2, num_features: 2 };
        assert_eq!(LinearRegression::new(&[1.0; 3], &[1.0; 2], 2, 1.0, 1.0).unwrap_err(), wrong);
        assert!(LinearRegression::new(&[], &[], 0, 1.0, 1.0).is_err());
        let error = LinearRegression::new(&[1.0], &[1.0], 1, 0.0, 1.0).unwrap_err();
        assert_eq!(error.to_string(), "the noise variance must be a finite number > 0, got 0");
        assert_eq!(
            LinearRegression::new(&[f64::NAN], &[1.0], 1, 1.0, 1.0).unwrap_err(),
            LinearRegressionError::NotFinite
        );
        assert!(two_features().mean_log_density(Objective::LowerBound, &[1.0], &[1.0], 1.0).is_err());
    }

    #[test]
    fn no_data_leaves_the_prior() {
        let prior = LinearRegression::new(&[], &[], 3, 0.5, 2.0).unwrap();
        assert_eq!(prior.mean(), [0.0; 3]);
        assert_near(prior.posterior_covariance(4.0)[0], 0.5, 1e-15);
        // E log p(θ) with θ ~ N(0, σ_p²/β): −3/2 log(2πσ_p²) − 3/(2β).
        assert_near(prior.mean_log_joint(4.0), -1.5 * (4.0 * std::f64::consts::PI).ln() - 0.375, 1e-14);
    }
}
