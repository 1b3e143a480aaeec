//! Effective sample size (ESS): how many independent draws would estimate a quantity as well as these dependent ones.
//!
//! All but [`basic_ess`] split each chain in two first (Vehtari, Gelman, Simpson, Carpenter, Bürkner 2021; R's
//! `posterior`). None has a value without chains, on chains of unequal length or too short (six draws, three in
//! [`basic_ess`]), on draws that are not finite, and on draws (or indicators) that are all equal.

use super::chains::{Chains, ChainsError, mean, sample_variance};

/// Fewest draws a chain whose halves have an ESS.
const SPLIT_DRAWS: usize = 6;

/// ESS of the rank-normalised split draws: how well the bulk of the distribution is known.
///
/// # Errors
/// A [`ChainsError`] where the draws have none.
///
/// ```
/// let chain: Vec<f64> = (0..100).map(|draw| f64::from(draw * 37 % 101)).collect();
/// assert!(kelvin::diagnostics::bulk_ess(&[chain])? > 50.0);
/// # Ok::<(), kelvin::diagnostics::ChainsError>(())
/// ```
pub fn bulk_ess<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    effective_draws(&Chains::new(chains, SPLIT_DRAWS)?.split().rank_normalise())
}

/// The smaller ESS of the 5 % and the 95 % quantile: how well the tails are known.
///
/// # Errors
/// A [`ChainsError`] where the draws have none.
pub fn tail_ess<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    Ok(quantile_ess(chains, 0.05)?.min(quantile_ess(chains, 0.95)?))
}

/// ESS of the mean (split draws, not ranked).
///
/// With S draws in all and ρ̂_t the autocorrelation at lag t, pooled over chains so that disagreement counts,
/// ```text
/// ESS = S / τ,   τ = −1 + 2 Σ_{t < k} ρ̂_t + ρ̂_k,   τ ≥ 1/log₁₀ S
/// ```
/// where k ends Geyer's initial positive, monotone sequence of the pairs ρ̂_{2t} + ρ̂_{2t+1}.
///
/// # Errors
/// A [`ChainsError`] where the draws have none.
pub fn mean_ess<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    effective_draws(&Chains::new(chains, SPLIT_DRAWS)?.split())
}

/// ESS of the standard deviation: that of the squared distances from the mean, (x − x̄)².
///
/// # Errors
/// A [`ChainsError`] where the draws have none.
pub fn standard_deviation_ess<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    let chains = Chains::new(chains, SPLIT_DRAWS)?;
    let centre = mean(&chains.sorted());
    effective_draws(&chains.map(|value| (value - centre).powi(2)).split())
}

/// ESS of a quantile: that of the indicator x ≤ q.
///
/// # Errors
/// A [`ChainsError`] where the draws have none; also when the probability is not in [0, 1], or so near 1 that all
/// draws lie on one side.
pub fn quantile_ess<C: AsRef<[f64]>>(chains: &[C], probability: f64) -> Result<f64, ChainsError> {
    if !(0.0..=1.0).contains(&probability) {
        return Err(ChainsError::NotAProbability { probability });
    }
    let chains = Chains::new(chains, SPLIT_DRAWS)?;
    let quantile = chains.quantile(probability);
    effective_draws(&chains.map(|value| f64::from(value <= quantile)).split())
}

/// ESS of the median.
///
/// # Errors
/// A [`ChainsError`] where the draws have none.
pub fn median_ess<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    quantile_ess(chains, 0.5)
}

/// ESS of the chains as they are, neither split nor ranked.
///
/// # Errors
/// A [`ChainsError`] where the draws have none.
pub fn basic_ess<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    effective_draws(&Chains::new(chains, 3)?)
}

/// Integrated autocorrelation time τ = S / ESS of the mean, in draws: how many draws make one independent draw.
///
/// # Errors
/// A [`ChainsError`] where the draws have none.
pub fn autocorrelation_time<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    let split = Chains::new(chains, SPLIT_DRAWS)?.split();
    Ok(split.total_draws() as f64 / effective_draws(&split)?)
}

fn effective_draws(chains: &Chains) -> Result<f64, ChainsError> {
    if chains.is_constant() {
        return Err(ChainsError::Constant);
    }
    let draws = chains.num_draws();
    let means: Vec<f64> = chains.iter().map(mean).collect();
    let centred: Vec<Vec<f64>> =
        chains.iter().zip(&means).map(|(chain, centre)| chain.iter().map(|value| value - centre).collect()).collect();

    let biased = mean_autocovariance(&centred, 0);
    let within = biased * draws as f64 / (draws as f64 - 1.0);
    let between = if means.len() > 1 { sample_variance(&means) } else { 0.0 };
    // Lags are computed as they are asked for: the sequence usually ends long before the chain does.
    let correlation = |lag: usize| 1.0 - (within - mean_autocovariance(&centred, lag)) / (biased + between);

    let total = chains.total_draws() as f64;
    let time = truncated_sum(draws, correlation).max(1.0 / total.log10());
    Ok(total / time)
}

/// The mean over chains of (1/n) Σ_i x_i x_{i+lag}.
fn mean_autocovariance(centred: &[Vec<f64>], lag: usize) -> f64 {
    let of_chain = |chain: &Vec<f64>| {
        chain[lag..].iter().zip(chain).map(|(late, early)| late * early).sum::<f64>() / chain.len() as f64
    };
    centred.iter().map(of_chain).sum::<f64>() / centred.len() as f64
}

/// −1 + 2 Σ_{t < k} ρ_t + ρ_k over Geyer's initial positive sequence, made monotone.
fn truncated_sum(draws: usize, correlation: impl Fn(usize) -> f64) -> f64 {
    let mut rho = vec![0.0; draws + 1];
    let (mut even, mut odd) = (1.0, correlation(1));
    (rho[0], rho[1]) = (even, odd);
    let mut end = 0;
    while end + 5 < draws && even + odd > 0.0 {
        end += 2;
        (even, odd) = (correlation(end), correlation(end + 1));
        if even + odd >= 0.0 {
            (rho[end], rho[end + 1]) = (even, odd);
        }
    }
    // The first even lag past the positive pairs still counts, once: it lowers the variance of antithetic chains.
    if even > 0.0 {
        rho[end] = even;
    }
    for t in (2..end.saturating_sub(1)).step_by(2) {
        let before = rho[t - 2] + rho[t - 1];
        if rho[t] + rho[t + 1] > before {
            (rho[t], rho[t + 1]) = (before / 2.0, before / 2.0);
        }
    }
    -1.0 + 2.0 * rho[..end].iter().sum::<f64>() + rho[end]
}

#[cfg(test)]
mod tests {
    use super::super::chains::congruential_chains;
    use super::*;

    fn assert_relative(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn agrees_with_the_reference() {
        let chains = congruential_chains(5, 100, 0.05);
        assert_relative(bulk_ess(&chains).unwrap(), 124.50852852340714);
        assert_relative(tail_ess(&chains).unwrap(), 240.4396230688604);
        assert_relative(mean_ess(&chains).unwrap(), 191.42679030271063);
        assert_relative(autocorrelation_time(&chains).unwrap(), 500.0 / 191.42679030271063);
    }

    #[test]
    fn is_capped_at_s_log_s() {
        let chains = congruential_chains(4, 10, 0.0);
        assert_relative(bulk_ess(&chains).unwrap(), 40.0 * 40.0_f64.log10());
    }

    #[test]
    fn a_slow_chain_has_the_autocorrelation_time_of_its_recursion() {
        // x ← 0.9 x + noise has τ = (1 + 0.9) / (1 − 0.9) = 19; the seed is fixed, the band is three standard errors wide.
        let noise = congruential_chains(4, 20_000, 0.0);
        let slow: Vec<Vec<f64>> = noise
            .iter()
            .map(|chain| {
                let mut x = 0.0;
                chain
                    .iter()
                    .map(|u| {
                        x = 0.9 * x + (u - 0.5);
                        x
                    })
                    .collect()
            })
            .collect();
        let time = autocorrelation_time(&slow).unwrap();
        assert!((16.0..22.0).contains(&time), "{time}");
    }

    #[test]
    fn edge_cases_are_values_not_panics() {
        let none: [&[f64]; 0] = [];
        assert!(bulk_ess(&none).is_err());
        assert_eq!(mean_ess(&[[2.0; 9]]), Err(ChainsError::Constant));
        assert_eq!(mean_ess(&[[1.0, 2.0, 3.0]]), Err(ChainsError::TooFewDraws { found: 3, needed: 6 }));
        assert!(matches!(
            bulk_ess(&[[1.0, 2.0, 3.0, 4.0, 5.0, f64::NAN]]),
            Err(ChainsError::NotFinite { draw: 5, .. })
        ));
        assert!(mean_ess(&[[1.0, 2.0, 4.0, 1.0, 3.0, 2.0]]).unwrap().is_finite());
        assert!(basic_ess(&[[1.0, 2.0, 1.5]]).unwrap().is_finite());
        assert_eq!(quantile_ess(&[[1.0; 9]], 1.5), Err(ChainsError::NotAProbability { probability: 1.5 }));
        // Chains that each stand still, at different places, hold next to nothing.
        assert!(mean_ess(&[[1.0; 20], [2.0; 20]]).unwrap() < 4.0);
        for draws in 6..40 {
            for chains in 1..4 {
                assert!(bulk_ess(&congruential_chains(chains, draws, 0.3)).unwrap() > 0.0);
            }
        }
    }
}
