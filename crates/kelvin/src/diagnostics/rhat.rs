//! R̂: how much chains disagree, by comparing the spread between them with the spread within them.

use super::chains::{Chains, ChainsError, mean, sample_variance};

/// Fewest draws a chain that can be split into halves with a variance.
const SPLIT_DRAWS: usize = 4;

/// Rank-normalised split-R̂: the larger of [`bulk_rhat`] and [`tail_rhat`]. 1 means that the chains agree; on the
/// potential energy of a Bayesian neural network 1 to 4 is usual.
///
/// With chains of n draws, B the variance of the chain means times n and W the mean of the chain variances,
/// ```text
/// R̂ = √( (n − 1)/n + B / (n W) )
/// ```
/// of ranks turned into normal scores (Vehtari, Gelman, Simpson, Carpenter, Bürkner 2021), in the order of R's
/// `posterior`: fold around the median of the unsplit draws, then split.
///
/// # Errors
/// Without chains, with chains of unequal length or fewer than four draws, with a draw that is not finite, or when
/// all draws are equal. Chains that each stand still, at different places, have R̂ = ∞.
///
/// ```
/// let agreeing = [vec![0.1, 0.9, 0.4, 0.6, 0.2, 0.8], vec![0.8, 0.2, 0.7, 0.1, 0.9, 0.3]];
/// assert!(kelvin::diagnostics::rhat(&agreeing)? < 1.1);
/// # Ok::<(), kelvin::diagnostics::ChainsError>(())
/// ```
pub fn rhat<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    Ok(bulk_rhat(chains)?.max(tail_rhat(chains)?))
}

/// R̂ of the rank-normalised split draws: do the chains agree in location?
///
/// # Errors
/// As [`rhat`].
pub fn bulk_rhat<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    plain(&Chains::new(chains, SPLIT_DRAWS)?.split().rank_normalise())
}

/// R̂ of the rank-normalised split distances from the median: do the chains agree in spread?
///
/// # Errors
/// As [`rhat`]; also when all draws are equally far from the median.
pub fn tail_rhat<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    plain(&Chains::new(chains, SPLIT_DRAWS)?.fold().split().rank_normalise())
}

/// R̂ of the split draws as they are, without ranks.
///
/// # Errors
/// As [`rhat`].
pub fn split_rhat<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    plain(&Chains::new(chains, SPLIT_DRAWS)?.split())
}

/// R̂ of the chains as they are, neither split nor ranked (Gelman and Rubin 1992).
///
/// # Errors
/// With fewer than two chains or two draws a chain; otherwise as [`rhat`].
pub fn basic_rhat<C: AsRef<[f64]>>(chains: &[C]) -> Result<f64, ChainsError> {
    let chains = Chains::new(chains, 2)?;
    if chains.num_chains() < 2 {
        return Err(ChainsError::TooFewChains { found: chains.num_chains(), needed: 2 });
    }
    plain(&chains)
}

fn plain(chains: &Chains) -> Result<f64, ChainsError> {
    if chains.is_constant() {
        return Err(ChainsError::Constant);
    }
    let draws = chains.num_draws() as f64;
    let means: Vec<f64> = chains.iter().map(mean).collect();
    let variances: Vec<f64> = chains.iter().map(sample_variance).collect();
    let between = draws * sample_variance(&means);
    let within = mean(&variances);
    Ok(((between / within + draws - 1.0) / draws).sqrt())
}

#[cfg(test)]
mod tests {
    use super::super::chains::congruential_chains;
    use super::*;

    fn assert_relative(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn agrees_with_the_reference_on_an_odd_number_of_draws() {
        let chains = congruential_chains(4, 11, 0.1);
        assert_relative(rhat(&chains).unwrap(), 1.2313943321910343);
        assert_relative(bulk_rhat(&chains).unwrap(), 1.2313943321910343);
        assert_relative(tail_rhat(&chains).unwrap(), 0.9755622193380714);
        assert_relative(split_rhat(&chains).unwrap(), 1.2353911454918658);
        assert_relative(basic_rhat(&chains).unwrap(), 1.2560977014457488);
    }

    #[test]
    fn basic_rhat_of_a_hand_worked_case() {
        // Means 1 and 3, variances 1 and 1, n = 3: B = 6, W = 1, R̂² = (6 + 2) / 3.
        let chains = [[0.0, 1.0, 2.0], [2.0, 3.0, 4.0]];
        assert_relative(basic_rhat(&chains).unwrap(), (8.0_f64 / 3.0).sqrt());
    }

    #[test]
    fn edge_cases_are_values_not_panics() {
        let none: [&[f64]; 0] = [];
        assert!(rhat(&none).is_err());
        assert_eq!(rhat(&[[1.0; 8], [1.0; 8]]), Err(ChainsError::Constant));
        assert_eq!(split_rhat(&[[1.0; 8], [2.0; 8]]), Ok(f64::INFINITY));
        assert!(matches!(rhat(&[[1.0, f64::NAN, 2.0, 3.0]]), Err(ChainsError::NotFinite { chain: 0, draw: 1, .. })));
        assert_eq!(basic_rhat(&[[1.0, 2.0]]), Err(ChainsError::TooFewChains { found: 1, needed: 2 }));
        assert_eq!(rhat(&[[1.0, 2.0, 3.0]]), Err(ChainsError::TooFewDraws { found: 3, needed: 4 }));
    }

    #[test]
    fn one_chain_is_compared_with_itself() {
        let drifting: Vec<f64> = (0..100).map(f64::from).collect();
        assert!(rhat(&[drifting]).unwrap() > 1.5);
    }

    #[test]
    fn ranks_forgive_any_rising_transformation() {
        let chains = congruential_chains(3, 40, 0.2);
        let transformed: Vec<Vec<f64>> =
            chains.iter().map(|chain| chain.iter().map(|value| (9.0 * value).exp()).collect()).collect();
        assert_relative(bulk_rhat(&chains).unwrap(), bulk_rhat(&transformed).unwrap());
    }
}
