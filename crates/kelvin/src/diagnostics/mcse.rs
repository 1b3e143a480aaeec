//! Monte Carlo standard error (MCSE): how far an average of the kept draws may lie from the posterior's own.

use statrs::function::beta::beta_reg;

use super::chains::{Chains, ChainsError, mean, sample_variance};
use super::ess::{mean_ess, quantile_ess, standard_deviation_ess};

/// Standard error of the mean of all draws: sd / √ESS.
///
/// # Errors
/// As [`mean_ess`].
pub fn mean_mcse<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    let effective = mean_ess(chains)?;
    Ok((sample_variance(&Chains::new(chains, 2)?.sorted()) / effective).sqrt())
}

/// Standard error of the standard deviation of all draws, by the delta method from that of the variance:
/// √(Var[(x − x̄)²] / ESS) / (2 sd), ESS that of (x − x̄)².
///
/// # Errors
/// As [`standard_deviation_ess`].
pub fn standard_deviation_mcse<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    let effective = standard_deviation_ess(chains)?;
    let draws = Chains::new(chains, 2)?.sorted();
    let centre = mean(&draws);
    let squares: Vec<f64> = draws.iter().map(|value| (value - centre).powi(2)).collect();
    let variance = mean(&squares);
    let fourth = squares.iter().map(|square| square * square).sum::<f64>() / squares.len() as f64;
    Ok(((fourth - variance * variance) / effective / variance).sqrt() / 2.0)
}

/// Standard error of a quantile: half the distance between the draws that bound its central 68 % interval.
///
/// # Errors
/// As [`quantile_ess`].
pub fn quantile_mcse<C: AsRef<[f64]>>(chains: &[C], probability: f64) -> Result<f64, ChainsError> {
    let effective = quantile_ess(chains, probability)?;
    let draws = Chains::new(chains, 2)?.sorted();
    let (a, b) = (effective * probability + 1.0, effective * (1.0 - probability) + 1.0);
    let rank = |level: f64| beta_quantile(a, b, level) * draws.len() as f64;
    let low = rank(ONE_SIGMA_BELOW).floor().max(1.0);
    let high = rank(1.0 - ONE_SIGMA_BELOW).ceil().min(draws.len() as f64);
    Ok((draws[high as usize - 1] - draws[low as usize - 1]) / 2.0)
}

/// Standard error of the median.
///
/// # Errors
/// As [`quantile_ess`].
pub fn median_mcse<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    quantile_mcse(chains, 0.5)
}

/// Φ(−1), to the digits R's `posterior` uses.
const ONE_SIGMA_BELOW: f64 = 0.158_655_3;

/// The quantile of Beta(a, b), a and b ≥ 1, by bisection to the last bit.
fn beta_quantile(a: f64, b: f64, level: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if beta_reg(a, b, middle) < level {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::super::chains::congruential_chains;
    use super::*;

    #[test]
    fn beta_quantiles_of_powers() {
        // Beta(a, 1) has the distribution function x^a.
        assert!((beta_quantile(3.0, 1.0, 0.2) - 0.2_f64.cbrt()).abs() < 1e-14);
        assert!((beta_quantile(1.0, 1.0, 0.7) - 0.7).abs() < 1e-14);
    }

    #[test]
    fn errors_shrink_with_the_draws_and_scale_with_them() {
        let few = congruential_chains(4, 100, 0.0);
        let many = congruential_chains(4, 10_000, 0.0);
        for mcse in [mean_mcse, median_mcse, standard_deviation_mcse] {
            assert!(mcse(&many).unwrap() < 0.3 * mcse(&few).unwrap());
            let tenfold: Vec<Vec<f64>> = few.iter().map(|c| c.iter().map(|x| 10.0 * x).collect()).collect();
            assert!((mcse(&tenfold).unwrap() / mcse(&few).unwrap() - 10.0).abs() < 1e-6);
        }
    }

    #[test]
    fn constant_and_broken_draws_have_none() {
        assert_eq!(mean_mcse(&[[1.0; 10]]), Err(ChainsError::Constant));
        assert!(quantile_mcse(&[[f64::NAN; 10]], 0.1).is_err());
    }
}
