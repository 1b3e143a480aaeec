//! Kinetic temperature: what the momenta say the temperature is, with its band and the value the discretisation aims at.

use thiserror::Error;

use crate::quantile::{Tail, chi_squared_quantile};

/// Why a reading or a band of the kinetic temperature was refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum KineticError {
    /// A reading with another number of tensors than the layout.
    #[error("a reading has {found} tensors, the layout has {expected}")]
    WrongNumberOfTensors {
        /// Tensors in the reading.
        found: usize,
        /// Tensors in the layout.
        expected: usize,
    },
    /// A tensor (or a layout) without elements.
    #[error("a kinetic temperature needs at least one momentum, tensor {tensor} has none")]
    NoMomenta {
        /// The first empty tensor; 0 for an empty layout.
        tensor: usize,
    },
    /// A coverage outside (0, 1).
    #[error("a band covers a share strictly between 0 and 1, got {level}")]
    LevelOutOfRange {
        /// What was asked.
        level: f64,
    },
}

/// Online averages of T̂ = mᵀM⁻¹m / d, for each tensor and over all of them.
///
/// ```
/// use kelvin::diagnostics::KineticTemperature;
/// let mut kinetic = KineticTemperature::new(&[2, 1])?;
/// kinetic.record(&[3.0, 0.5])?; // Σ m²/M in each tensor
/// kinetic.record(&[1.0, 1.5])?;
/// assert_eq!(kinetic.tensor_means(), [1.0, 1.0]);
/// assert_eq!(kinetic.mean(), Some(1.0));
/// # Ok::<(), kelvin::diagnostics::KineticError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct KineticTemperature {
    tensor_sizes: Vec<usize>,
    tensor_means: Vec<f64>,
    num_readings: u64,
}

impl KineticTemperature {
    /// An average with no readings yet, for tensors of these sizes.
    ///
    /// # Errors
    /// When there is no tensor, or one without elements.
    pub fn new(tensor_sizes: &[usize]) -> Result<Self, KineticError> {
        let empty = tensor_sizes.iter().position(|&size| size == 0).or(tensor_sizes.is_empty().then_some(0));
        if let Some(tensor) = empty {
            return Err(KineticError::NoMomenta { tensor });
        }
        let tensor_means = vec![0.0; tensor_sizes.len()];
        Ok(Self { tensor_sizes: tensor_sizes.to_vec(), tensor_means, num_readings: 0 })
    }

    /// The averages as they were after so many readings; `None` where there is not one for each tensor.
    pub fn from_means(tensor_sizes: &[usize], tensor_means: &[f64], num_readings: u64) -> Option<Self> {
        let kinetic =
            Self::new(tensor_sizes).ok().filter(|kinetic| kinetic.tensor_means.len() == tensor_means.len())?;
        Some(Self { tensor_means: tensor_means.to_vec(), num_readings, ..kinetic })
    }

    /// Takes one reading, Σ m²/M of each tensor, and gives its overall T̂.
    ///
    /// # Errors
    /// When the number of tensors is not that of the layout.
    pub fn record(&mut self, weighted_squares: &[f64]) -> Result<f64, KineticError> {
        if weighted_squares.len() != self.tensor_sizes.len() {
            let expected = self.tensor_sizes.len();
            return Err(KineticError::WrongNumberOfTensors { found: weighted_squares.len(), expected });
        }
        self.num_readings += 1;
        for ((mean, square), &size) in self.tensor_means.iter_mut().zip(weighted_squares).zip(&self.tensor_sizes) {
            *mean += (square / size as f64 - *mean) / self.num_readings as f64;
        }
        Ok(weighted_squares.iter().sum::<f64>() / self.dim() as f64)
    }

    /// Takes `count` readings at once, given the sum over them of Σ m²/M of each tensor.
    ///
    /// ```
    /// use kelvin::diagnostics::KineticTemperature;
    /// let mut kinetic = KineticTemperature::new(&[2, 1])?;
    /// kinetic.record_sum(&[4.0, 2.0], 2)?; // two readings, [3.0, 0.5] and [1.0, 1.5]
    /// assert_eq!((kinetic.tensor_means(), kinetic.num_readings()), (&[1.0, 1.0][..], 2));
    /// # Ok::<(), kelvin::diagnostics::KineticError>(())
    /// ```
    ///
    /// # Errors
    /// When the number of tensors is not that of the layout.
    pub fn record_sum(&mut self, sums: &[f64], count: u64) -> Result<(), KineticError> {
        if sums.len() != self.tensor_sizes.len() {
            let expected = self.tensor_sizes.len();
            return Err(KineticError::WrongNumberOfTensors { found: sums.len(), expected });
        }
        if count == 0 {
            return Ok(());
        }
        self.num_readings += count;
        for ((mean, sum), &size) in self.tensor_means.iter_mut().zip(sums).zip(&self.tensor_sizes) {
            *mean += (sum / size as f64 - count as f64 * *mean) / self.num_readings as f64;
        }
        Ok(())
    }

    /// The number of momenta of each tensor.
    pub fn tensor_sizes(&self) -> &[usize] {
        &self.tensor_sizes
    }

    /// The number of momenta d.
    pub fn dim(&self) -> usize {
        self.tensor_sizes.iter().sum()
    }

    /// How many readings the averages hold.
    pub fn num_readings(&self) -> u64 {
        self.num_readings
    }

    /// The average T̂ of each tensor; zeros before the first reading.
    pub fn tensor_means(&self) -> &[f64] {
        &self.tensor_means
    }

    /// The average T̂ of all momenta, or `None` before the first reading.
    pub fn mean(&self) -> Option<f64> {
        let total: f64 = self.tensor_means.iter().zip(&self.tensor_sizes).map(|(mean, &size)| mean * size as f64).sum();
        (self.num_readings > 0).then(|| total / self.dim() as f64)
    }

    /// The inverse of the average T̂, as the paper's table prints it.
    pub fn inverse_temperature(&self) -> Option<f64> {
        self.mean().map(f64::recip)
    }
}

/// Σ m²/M of one tensor whose mass is a scalar, summed in f64.
pub fn weighted_square(momentum: &[f32], mass: f64) -> f64 {
    momentum.iter().map(|&m| f64::from(m) * f64::from(m)).sum::<f64>() / mass
}

/// The interval that holds a share `level` of single readings T̂ of `dim` momenta at temperature T:
/// T·χ²_d((1 − level)/2) / d to T·χ²_d((1 + level)/2) / d.
///
/// ```
/// let (low, high) = kelvin::diagnostics::temperature_band(641, 1.0, 0.99)?;
/// assert!((low - 0.86198).abs() < 1e-5 && (high - 1.14973).abs() < 1e-5);
/// # Ok::<(), kelvin::diagnostics::KineticError>(())
/// ```
///
/// # Errors
/// When `dim` is 0 or `level` is not strictly between 0 and 1.
pub fn temperature_band(dim: usize, temperature: f64, level: f64) -> Result<(f64, f64), KineticError> {
    if dim == 0 {
        return Err(KineticError::NoMomenta { tensor: 0 });
    }
    if !(level > 0.0 && level < 1.0) {
        return Err(KineticError::LevelOutOfRange { level });
    }
    let tail = 0.5 * (1.0 - level);
    let scale = temperature / dim as f64;
    Ok((scale * chi_squared_quantile(dim, Tail::Lower, tail), scale * chi_squared_quantile(dim, Tail::Upper, tail)))
}

/// How many independent readings the mean kinetic temperature of `num_readings` is worth, γt apart in friction times.
///
/// Kinetic energy goes back and forth with the potential and is forgotten as e^{−γt} at the slowest. A band is one of chains that
/// are right, so it takes this rate and not the autocorrelation of the readings, which grows where a chain is wrong.
///
/// ```
/// let worth = kelvin::diagnostics::independent_readings(100, 2.0);
/// assert!((worth - 100.0 * 1f64.tanh()).abs() < 1e-12);
/// ```
pub fn independent_readings(num_readings: usize, friction_times: f64) -> f64 {
    let correlation = (-friction_times).exp();
    (num_readings as f64 * (1.0 - correlation) / (1.0 + correlation)).max(1.0)
}

/// The interval that holds a share `level` of means of T̂/T over so many independent readings of `size` momenta.
///
/// A reading of d momenta at temperature T is T·χ²_d/d, and the mean of n independent ones T·χ²_{nd}/(nd).
///
/// # Errors
/// When `size` is 0 or `level` is not strictly between 0 and 1.
pub fn mean_temperature_band(size: usize, independent_readings: f64, level: f64) -> Result<(f64, f64), KineticError> {
    let degrees = (independent_readings * size as f64).round() as usize;
    temperature_band(if size == 0 { 0 } else { degrees.max(1) }, 1.0, level)
}

/// The kinetic temperature SGHMC (symplectic Euler) shows at temperature T even as h → 0: 2T / (1 + μ'), with
/// μ' = 1 − hγ the share of momentum a step retains.
///
/// ```
/// let target = kelvin::diagnostics::discretised_kinetic_target(1.0, 0.98);
/// assert!((target - 1.0101).abs() < 1e-4);
/// ```
pub fn discretised_kinetic_target(temperature: f64, retained_momentum: f64) -> f64 {
    2.0 * temperature / (1.0 + retained_momentum)
}

/// What shifts the kinetic temperature of SGHMC (symplectic Euler, unit mass) on U = kθ²/2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Discretisation {
    /// h.
    pub step_size: f64,
    /// μ' = 1 − hγ.
    pub retained_momentum: f64,
    /// k, the second derivative of the energy.
    pub curvature: f64,
    /// V_g, the variance of the minibatch gradient.
    pub gradient_noise_variance: f64,
}

impl Discretisation {
    /// T_e = T + h² V_g / (2 (1 − μ')): gradient noise heats the chain.
    pub fn effective_temperature(&self, temperature: f64) -> f64 {
        let h = self.step_size;
        temperature + h * h * self.gradient_noise_variance / (2.0 * (1.0 - self.retained_momentum))
    }

    /// `E[m²] = 2 T_e / (1 + μ' − h²k/2)`; `None` where the chain is unstable (h²k ≥ 2(1 + μ') or μ' ≥ 1).
    pub fn kinetic_temperature(&self, temperature: f64) -> Option<f64> {
        let h = self.step_size;
        let denominator = 1.0 + self.retained_momentum - 0.5 * h * h * self.curvature;
        let stable = denominator > 0.0 && self.retained_momentum.abs() < 1.0;
        stable.then(|| 2.0 * self.effective_temperature(temperature) / denominator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile::normal_quantile;
    use statrs::function::gamma::{gamma_lr, gamma_ur};

    fn assert_near(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance * expected.abs(), "{found} is not {expected}");
    }

    #[test]
    fn bands_agree_with_the_reference() {
        for (dim, level, low, high) in [
            (10, 0.99, 0.21558564813046394, 2.518817957197117),
            (641, 0.95, 0.8935047033090958, 1.1124044400517548),
            (824_458, 0.99, 0.9959926776985277, 1.0040164351896015),
        ] {
            let (found_low, found_high) = temperature_band(dim, 1.0, level).unwrap();
            assert_near(found_low, low, 1e-10);
            assert_near(found_high, high, 1e-10);
            let (hot_low, _) = temperature_band(dim, 3.0, level).unwrap();
            assert_near(hot_low, 3.0 * low, 1e-10);
        }
    }

    #[test]
    fn bands_of_few_momenta() {
        // χ²₂ is exponential: quantile −2 log(1 − p). χ²₁ is a squared normal.
        let (low, high) = temperature_band(2, 1.0, 0.99).unwrap();
        assert_near(low, -(0.995_f64.ln()), 1e-12);
        assert_near(high, -(0.005_f64.ln()), 1e-12);
        for level in [0.01, 0.5, 0.99, 0.999_999] {
            let (low, high) = temperature_band(1, 1.0, level).unwrap();
            assert_near(low, normal_quantile(0.5 + 0.25 * (1.0 - level)).powi(2), 1e-8);
            assert_near(high, normal_quantile(0.25 * (1.0 - level)).powi(2), 1e-8);
        }
    }

    #[test]
    fn a_wide_range_of_bands_inverts_its_distribution() {
        for dim in [1, 2, 3, 5, 17, 100, 10_000, 3_000_000] {
            for level in [0.001, 0.5, 0.9, 0.999, 0.999_999] {
                let (low, high) = temperature_band(dim, 1.0, level).unwrap();
                let half = 0.5 * dim as f64;
                let outside = gamma_lr(half, half * low) + gamma_ur(half, half * high);
                assert!((outside - (1.0 - level)).abs() < 1e-9, "dim {dim}, level {level}: {outside}");
            }
        }
    }

    #[test]
    fn readings_far_apart_count_in_full_and_close_ones_hardly() {
        assert_near(independent_readings(100, 20.0), 100.0, 1e-7);
        assert_near(independent_readings(100, 2.0), 76.159_415_595_576_49, 1e-12); // tanh 1
        assert_eq!(independent_readings(10, 1e-9), 1.0);
    }

    #[test]
    fn the_band_of_a_mean_is_that_of_all_its_momenta() {
        assert_eq!(mean_temperature_band(10, 3.04, 0.99), temperature_band(30, 1.0, 0.99));
        assert_eq!(mean_temperature_band(1, 0.2, 0.99), temperature_band(1, 1.0, 0.99));
        assert!(mean_temperature_band(0, 5.0, 0.99).is_err());
    }

    #[test]
    fn refuses_impossible_bands_and_layouts() {
        assert_eq!(temperature_band(0, 1.0, 0.99), Err(KineticError::NoMomenta { tensor: 0 }));
        assert_eq!(temperature_band(3, 1.0, 1.0), Err(KineticError::LevelOutOfRange { level: 1.0 }));
        assert!(temperature_band(3, 1.0, f64::NAN).is_err());
        assert_eq!(KineticTemperature::new(&[]), Err(KineticError::NoMomenta { tensor: 0 }));
        assert_eq!(KineticTemperature::new(&[3, 0]), Err(KineticError::NoMomenta { tensor: 1 }));
        let mut kinetic = KineticTemperature::new(&[3]).unwrap();
        assert_eq!(kinetic.mean(), None);
        assert!(kinetic.record(&[1.0, 2.0]).is_err());
        assert_eq!(kinetic.num_readings(), 0);
    }

    #[test]
    fn averages_are_those_of_all_momenta() {
        let mut kinetic = KineticTemperature::new(&[3, 1]).unwrap();
        let first = weighted_square(&[1.0, 2.0, 3.0], 2.0); // 7
        assert_eq!(kinetic.record(&[first, 5.0]), Ok(3.0));
        assert_eq!(kinetic.record(&[2.0, 3.0]), Ok(1.25));
        assert_eq!(kinetic.tensor_means(), [1.5, 4.0]);
        assert_eq!(kinetic.mean(), Some(2.125));
        assert_eq!(kinetic.inverse_temperature(), Some(1.0 / 2.125));
    }

    #[test]
    fn many_readings_at_once_average_as_one_by_one() {
        let mut one_by_one = KineticTemperature::new(&[3, 1]).unwrap();
        for reading in [[7.0, 5.0], [2.0, 3.0], [4.0, 0.5]] {
            one_by_one.record(&reading).unwrap();
        }
        let mut at_once = KineticTemperature::new(&[3, 1]).unwrap();
        at_once.record(&[7.0, 5.0]).unwrap();
        at_once.record_sum(&[6.0, 3.5], 2).unwrap();
        at_once.record_sum(&[9.0, 9.0], 0).unwrap();
        assert_eq!(at_once.num_readings(), 3);
        for (found, expected) in at_once.tensor_means().iter().zip(one_by_one.tensor_means()) {
            assert_near(*found, *expected, 1e-15);
        }
        assert!(at_once.record_sum(&[1.0], 1).is_err());
    }

    #[test]
    fn discretised_targets() {
        let quiet =
            Discretisation { step_size: 0.0, retained_momentum: 0.98, curvature: 5.0, gradient_noise_variance: 4.0 };
        assert_eq!(quiet.kinetic_temperature(0.3), Some(discretised_kinetic_target(0.3, 0.98)));
        let reference = Discretisation { step_size: 0.05, curvature: 1.0, gradient_noise_variance: 0.0, ..quiet };
        assert_near(reference.kinetic_temperature(1.0).unwrap(), 1.010739102969046, 1e-14);
        assert_eq!(Discretisation { step_size: 2.0, ..quiet }.kinetic_temperature(1.0), None);
        assert_eq!(Discretisation { retained_momentum: 1.0, ..quiet }.kinetic_temperature(1.0), None);
    }

    /// h²k = 2(1 + μ') is the border itself, and belongs to what is unstable.
    #[test]
    fn a_chain_at_its_border_has_no_temperature() {
        let at = |curvature| Discretisation {
            step_size: 1.0,
            retained_momentum: 0.5,
            curvature,
            gradient_noise_variance: 0.0,
        };
        assert_eq!(at(3.0).kinetic_temperature(1.0), None);
        assert_near(at(2.0).kinetic_temperature(1.5).unwrap(), 6.0, 1e-12);
    }
}
