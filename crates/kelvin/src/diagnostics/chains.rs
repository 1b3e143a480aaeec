//! Chains of one quantity, checked once (equal lengths, finite numbers), then split, folded and rank-normalised.

use thiserror::Error;

use crate::quantile::normal_quantile;

/// Why a diagnostic of several chains has no value.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ChainsError {
    /// Fewer chains than the diagnostic compares.
    #[error("{found} chains given, at least {needed} needed; run more chains or use a split diagnostic")]
    TooFewChains {
        /// How many were given.
        found: usize,
        /// How many are needed.
        needed: usize,
    },
    /// Chains of different lengths.
    #[error("chain {chain} has {found} draws, chain 0 has {expected}; cut all chains to one length")]
    UnequalLengths {
        /// The first chain that differs, from 0.
        chain: usize,
        /// Its number of draws.
        found: usize,
        /// The number of draws of chain 0.
        expected: usize,
    },
    /// Chains too short for the diagnostic.
    #[error("{found} draws a chain given, at least {needed} needed; keep more draws")]
    TooFewDraws {
        /// Draws a chain.
        found: usize,
        /// Draws a chain needed.
        needed: usize,
    },
    /// A draw that is not a finite number.
    #[error("draw {draw} of chain {chain} is {value}; a diverged chain has to be left out")]
    NotFinite {
        /// The chain, from 0.
        chain: usize,
        /// The draw, from 0.
        draw: usize,
        /// What was found there.
        value: f64,
    },
    /// All draws are the same number (or lie all on one side of the asked quantile), so no spread can be compared.
    #[error("all draws are equal, so the diagnostic is undefined; did the chain move at all?")]
    Constant,
    /// A probability outside [0, 1].
    #[error("a quantile needs a probability between 0 and 1, got {probability}")]
    NotAProbability {
        /// What was asked.
        probability: f64,
    },
}

/// Chains of equal length with finite draws.
pub(super) struct Chains(Vec<Vec<f64>>);

impl Chains {
    /// Checks and copies the draws.
    pub(super) fn new<C: AsRef<[f64]>>(chains: &[C], needed_draws: usize) -> Result<Self, ChainsError> {
        let Some(first) = chains.first() else {
            return Err(ChainsError::TooFewChains { found: 0, needed: 1 });
        };
        let expected = first.as_ref().len();
        for (chain, draws) in chains.iter().enumerate() {
            let draws = draws.as_ref();
            if draws.len() != expected {
                return Err(ChainsError::UnequalLengths { chain, found: draws.len(), expected });
            }
            if let Some(draw) = draws.iter().position(|value| !value.is_finite()) {
                return Err(ChainsError::NotFinite { chain, draw, value: draws[draw] });
            }
        }
        if expected < needed_draws {
            return Err(ChainsError::TooFewDraws { found: expected, needed: needed_draws });
        }
        Ok(Self(chains.iter().map(|draws| draws.as_ref().to_vec()).collect()))
    }

    pub(super) fn num_chains(&self) -> usize {
        self.0.len()
    }

    /// Draws in one chain.
    pub(super) fn num_draws(&self) -> usize {
        self.0[0].len()
    }

    /// Draws in all chains together.
    pub(super) fn total_draws(&self) -> usize {
        self.num_chains() * self.num_draws()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[f64]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// All draws in rising order.
    pub(super) fn sorted(&self) -> Vec<f64> {
        let mut all = self.0.concat();
        all.sort_by(f64::total_cmp);
        all
    }

    pub(super) fn is_constant(&self) -> bool {
        let first = self.0[0][0];
        self.0.iter().flatten().all(|&value| value == first)
    }

    pub(super) fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self(self.0.iter().map(|draws| draws.iter().map(|&value| f(value)).collect()).collect())
    }

    /// Each chain cut into two; the middle draw of an odd number is left out.
    pub(super) fn split(&self) -> Self {
        let draws = self.num_draws();
        let half = draws / 2;
        let first = self.0.iter().map(|chain| chain[..half].to_vec());
        let second = self.0.iter().map(|chain| chain[draws - half..].to_vec());
        Self(first.chain(second).collect())
    }

    /// |x − median|: how far out a draw lies, so that R̂ sees chains that differ in spread only.
    pub(super) fn fold(&self) -> Self {
        let median = self.quantile(0.5);
        self.map(|value| (value - median).abs())
    }

    /// z = Φ⁻¹((r − 3/8) / (S + 1/4)), r the rank among all S draws, ties sharing their average.
    pub(super) fn rank_normalise(&self) -> Self {
        let sorted = self.sorted();
        let size = sorted.len() as f64;
        self.map(|value| {
            let below = sorted.partition_point(|&other| other < value);
            let up_to = sorted.partition_point(|&other| other <= value);
            let rank = (below + 1 + up_to) as f64 / 2.0;
            normal_quantile((rank - 0.375) / (size + 0.25))
        })
    }

    /// The quantile of all draws, between order statistics linear (R's type 7).
    pub(super) fn quantile(&self, probability: f64) -> f64 {
        let sorted = self.sorted();
        let at = (sorted.len() - 1) as f64 * probability;
        let low = sorted[at.floor() as usize];
        let high = sorted[at.ceil() as usize];
        low + (at - at.floor()) * (high - low)
    }
}

/// The arithmetic mean.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The sample variance (divided by the number less one).
pub(super) fn sample_variance(values: &[f64]) -> f64 {
    let centre = mean(values);
    values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

/// Chains from a linear congruential generator, as in `golden/diagnostics/lcg.json` with seed 1.
#[cfg(test)]
pub(super) fn congruential_chains(num_chains: usize, num_draws: usize, shift: f64) -> Vec<Vec<f64>> {
    let mut state = 1u64;
    let mut chain = |index: usize| {
        let mut draw = || {
            state = (1_103_515_245 * state + 12_345) % (1 << 31);
            state as f64 / (1u64 << 31) as f64 + shift * index as f64
        };
        (0..num_draws).map(|_| draw()).collect()
    };
    (0..num_chains).map(&mut chain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_has_no_answer_and_says_where() {
        let none: [Vec<f64>; 0] = [];
        assert_eq!(Chains::new(&none, 1).err(), Some(ChainsError::TooFewChains { found: 0, needed: 1 }));
        let unequal = [vec![1.0, 2.0], vec![1.0]];
        let expected = ChainsError::UnequalLengths { chain: 1, found: 1, expected: 2 };
        assert_eq!(Chains::new(&unequal, 1).err(), Some(expected));
        let short = [[1.0, 2.0]];
        assert_eq!(Chains::new(&short, 4).err(), Some(ChainsError::TooFewDraws { found: 2, needed: 4 }));
        let infinite = [[1.0, 2.0], [f64::INFINITY, 2.0]];
        let expected = ChainsError::NotFinite { chain: 1, draw: 0, value: f64::INFINITY };
        assert_eq!(Chains::new(&infinite, 1).err(), Some(expected));
    }

    #[test]
    fn splitting_an_odd_chain_leaves_out_its_middle() {
        let chains = Chains::new(&[[1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]], 1).unwrap();
        assert_eq!(chains.split().0, [[1.0, 2.0], [6.0, 7.0], [4.0, 5.0], [9.0, 10.0]]);
    }

    #[test]
    fn ranks_share_ties_and_are_symmetric() {
        let chains = Chains::new(&[[3.0, 1.0, 2.0, 2.0, 9.0]], 1).unwrap();
        let ranked = &chains.rank_normalise().0[0];
        assert_eq!(ranked[2], ranked[3]);
        // ranks 4, 1, 2.5, 2.5, 5 of 5: Φ⁻¹(0.625 / 5.25) and its mirror image
        assert!((ranked[1] + 1.179_761_117_611_738).abs() < 1e-6, "{}", ranked[1]);
        assert!((ranked[1] + ranked[4]).abs() < 1e-14);
    }

    #[test]
    fn quantiles_are_linear_between_order_statistics() {
        let chains = Chains::new(&[[4.0, 1.0], [3.0, 2.0]], 1).unwrap();
        assert_eq!(chains.quantile(0.0), 1.0);
        assert_eq!(chains.quantile(0.5), 2.5);
        assert!((chains.quantile(0.9) - 3.7).abs() < 1e-15);
        assert_eq!(chains.quantile(1.0), 4.0);
    }
}
