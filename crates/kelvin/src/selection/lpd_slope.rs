//! Which way to move β: d LPD/dβ at the β of one chain, from its draws alone (the paper's Lemma B).
//!
//! ```text
//! d LPD/dβ = mean_i { E_w[J] − E[J] },   w ∝ p(y_i|x_i,θ),   J = log p(D,θ)          E over draws of p_β(θ|D)
//! ```
//! The inner expectation is over the posterior that has also seen (x_i, y_i), by importance weights. For the tempered model
//! w ∝ p(y_i|x_i,θ,β), and the mean of ∂ log p(y_i|x_i,θ,β)/∂β under w is added. Where only the likelihood is tempered J is
//! log p(D|θ). (Ng, van der Heide, Hodgkinson, Wei, UAI 2025, Appendix B.)
//!
//! Several chains are a mixture with fixed shares: chains of a network keep to the modes they found, whatever β is, so J is
//! compared with the mean of its own chain. (Pooled, the differences between modes would swamp the slope.)
//!
//! Draws at β also stand for a nearby β' with weights exp((β' − β) J) inside their chain, as long as these are worth enough draws.
//!
//! Two standard errors: that of finite chains from these starts, from the influence of each draw on the slope,
//! ```text
//! φ_s = mean_i {(w_si/w̄_i)(J_s − J̄ + t_si − slope_i)} − share · (J_s − J̄)          t = ∂ log p(y_i|x_i,θ,β)/∂β, tempered model
//! ```
//! and the effective sample size of the φ_s in each chain, so that autocorrelation counts; and that of the finite validation set.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::held_out_draws::ChainDensities;
use crate::diagnostics::mean_mcse;

/// Standard errors beyond which a slope is believed.
const BELIEVED: f64 = 2.0;

/// d LPD/dβ with its errors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LpdSlope {
    /// β.
    pub inverse_temperature: f64,
    /// d LPD/dβ.
    pub slope: f64,
    /// Standard error from the finite length of these chains, autocorrelation counted; none of draws too few to tell.
    pub chain_error: Option<f64>,
    /// Standard error from the finite number of held-out rows.
    pub rows_error: f64,
    /// Median over rows of the effective sample size of the weights.
    pub weights_ess: f64,
    /// Draws in all.
    pub num_draws: usize,
    /// LPD itself.
    pub lpd: f64,
    /// d/dβ of each row's log density.
    pub per_row: Vec<f64>,
}

/// Which way to move β for a larger LPD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To a larger β.
    Colder,
    /// To a smaller β.
    Warmer,
    /// Neither is known to be better.
    Flat,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Colder => "colder: a larger β would predict better",
            Self::Warmer => "warmer: a smaller β would predict better",
            Self::Flat => "flat: no nearby β is known to predict better",
        })
    }
}

impl LpdSlope {
    /// The slope at the β of the chains; none without draws or rows, or where densities are not finite.
    pub fn new(inverse_temperature: f64, chains: &[ChainDensities]) -> Option<Self> {
        Self::reweighted(inverse_temperature, inverse_temperature, chains)
    }

    /// The slope at β', from draws at β with weights exp((β' − β) J); densities are those at β'.
    pub fn reweighted(sampled_beta: f64, inverse_temperature: f64, chains: &[ChainDensities]) -> Option<Self> {
        let num_draws: usize = chains.iter().map(|chain| chain.log_joint.len()).sum();
        let num_rows = chains.first()?.log_densities.len() / chains.first()?.log_joint.len().max(1);
        if num_draws == 0 || num_rows == 0 {
            return None;
        }
        let base = base_weights(chains, inverse_temperature - sampled_beta);
        // J less the mean of its chain: J is a sum over all training rows, and digits would be lost without.
        let centred = centred_in_chains(chains, &base);
        let mut influence = vec![0.0; num_draws];
        let (mut per_row, mut sizes, mut lpd) = (Vec::with_capacity(num_rows), Vec::new(), 0.0);
        let mut terms = vec![(0.0, 0.0); num_draws];
        let mut shares = vec![0.0; chains.len()];
        for row in 0..num_rows {
            let of_row = chains.iter().flat_map(|chain| {
                let at = (0..chain.log_joint.len()).map(move |draw| draw * num_rows + row);
                at.map(|at| (chain.log_densities[at], chain.slopes[at]))
            });
            terms.iter_mut().zip(of_row).for_each(|(term, found)| *term = found);
            let largest = terms.iter().map(|term| term.0).fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> =
                terms.iter().zip(&base).map(|(term, base)| base * (term.0 - largest).exp()).collect();
            let total: f64 = weights.iter().sum();
            let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
            let moved = |draw: usize| centred[draw] + terms[draw].1;
            let slope = (0..num_draws).map(|draw| weights[draw] * moved(draw)).sum::<f64>() / total;
            for (draw, influence) in influence.iter_mut().enumerate() {
                *influence += num_draws as f64 * weights[draw] / total * (moved(draw) - slope) / num_rows as f64;
            }
            let mut rest = &weights[..];
            for (share, chain) in shares.iter_mut().zip(chains) {
                let (own, others) = rest.split_at(chain.log_joint.len());
                *share += own.iter().sum::<f64>() / total / num_rows as f64;
                rest = others;
            }
            lpd += (largest + total.ln()) / num_rows as f64;
            sizes.push(total * total / squares);
            per_row.push(slope);
        }
        let slope = mean(&per_row);
        if !(slope.is_finite() && lpd.is_finite()) {
            return None;
        }
        let (mut first, mut variance) = (0, Some(0.0));
        for (chain, share) in chains.iter().zip(&shares) {
            let own = first..first + chain.log_joint.len();
            let in_chain = num_draws as f64 / own.len() as f64;
            for draw in own.clone() {
                influence[draw] -= share * in_chain * num_draws as f64 * base[draw] * centred[draw];
            }
            let error = mean_mcse(&[&influence[own.clone()]]).ok();
            variance = variance.zip(error).map(|(sum, error)| sum + (error / in_chain).powi(2));
            first = own.end;
        }
        sizes.sort_by(f64::total_cmp);
        Some(Self {
            inverse_temperature,
            slope,
            chain_error: variance.map(f64::sqrt),
            rows_error: standard_error(&per_row),
            weights_ess: sizes[sizes.len() / 2],
            num_draws,
            lpd,
            per_row,
        })
    }

    /// d LPD/d log β.
    pub fn by_log_beta(&self) -> f64 {
        self.inverse_temperature * self.slope
    }

    /// Both standard errors together.
    pub fn standard_error(&self) -> f64 {
        self.chain_error.unwrap_or(f64::INFINITY).hypot(self.rows_error)
    }

    /// Which way to move: flat within two standard errors.
    pub fn direction(&self) -> Direction {
        match self.slope {
            slope if slope > BELIEVED * self.standard_error() => Direction::Colder,
            slope if slope < -BELIEVED * self.standard_error() => Direction::Warmer,
            _ => Direction::Flat,
        }
    }
}

/// Weights ∝ exp(distance · J) inside each chain; a chain has its share of all draws, and all sum to 1.
fn base_weights(chains: &[ChainDensities], distance: f64) -> Vec<f64> {
    let num_draws: usize = chains.iter().map(|chain| chain.log_joint.len()).sum();
    let mut all = Vec::with_capacity(num_draws);
    for ChainDensities { log_joint, .. } in chains {
        let largest = log_joint.iter().map(|joint| distance * joint).fold(f64::NEG_INFINITY, f64::max);
        let weights = log_joint.iter().map(|joint| (distance * joint - largest).exp());
        let total: f64 = weights.clone().sum();
        let share = log_joint.len() as f64 / num_draws as f64;
        all.extend(weights.map(|weight| share * weight / total));
    }
    all
}

/// J less its weighted mean in the chain.
fn centred_in_chains(chains: &[ChainDensities], base: &[f64]) -> Vec<f64> {
    let mut centred = Vec::with_capacity(base.len());
    for ChainDensities { log_joint, .. } in chains {
        let weights = &base[centred.len()..centred.len() + log_joint.len()];
        let total: f64 = weights.iter().sum();
        let mean = weights.iter().zip(log_joint).map(|(weight, joint)| weight * joint).sum::<f64>() / total;
        centred.extend(log_joint.iter().map(|joint| joint - mean));
    }
    centred
}

/// How many draws those at β are worth when they are weighted to stand for β'.
pub fn reweighting_ess(chains: &[ChainDensities], sampled_beta: f64, inverse_temperature: f64) -> f64 {
    let weights = base_weights(chains, inverse_temperature - sampled_beta);
    1.0 / weights.iter().map(|weight| weight * weight).sum::<f64>()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn standard_error(values: &[f64]) -> f64 {
    let (count, centre) = (values.len() as f64, mean(values));
    if values.len() < 2 {
        return f64::INFINITY;
    }
    (values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (count - 1.0) / count).sqrt()
}
