//! A few Newton-like steps in log β, from β̂* towards the largest validation LPD of the posterior itself.
//!
//! ```text
//! s ← s − g/h,   g = d LPD/ds by Lemma B at the draws of the last chain,   s = log β
//! h: differences of g at s ± δ, from the same draws with weights exp((β' − β) J)
//! ```
//! Steps go on with the same draws for as long as these, weighted, are worth half their number, and where they come to rest the search
//! ends. Any other step is at most a factor of three, to a chain that goes on from the last one for less than a full chain. Once two
//! chains lie on both sides of the maximum, the next β is where the line through their slopes crosses zero.
//!
//! Slopes are this good in small models only: J has the standard deviation √(d/2)/β, and with the d = 641 of a table's network and
//! some hundreds of draws g is not known to better than a nat. Where two standard errors of g exceed a twentieth of a nat, or a
//! hundredth where g itself is smaller, β is moved by LPD itself: by factors of three (the slope says which way first) until LPD falls
//! on both sides of the best β seen, then to the vertex of the parabola through the best three, until that lies near a β seen. Chains
//! are compared by equal numbers of draws.
//!
//! LPD is noisy too: at a row far from all predictions it is the density of the one draw that comes nearest, and such a row alone
//! moves the SM LPD of a hundred rows by tenths of a nat from chain to chain, at the same β. So the search ends where it began unless
//! the best β seen is better by two standard errors of the difference, row by row. One would not do: a single row that differs has
//! a mean of one standard error. (Common random numbers do not help: chains whose β differ by 1e-4 are as far apart as any.)
//! Cost: a search, a chain, and the continued chains. Objective: validation LPD of SM-PD or TM-PD.

use super::curve::Curve;
use super::error::SelectionError;
use super::flatness::paired_loss;
use super::held_out_draws::HeldOutDraws;
use super::joint_selector::JointSelector;
use super::laboratory::{Laboratory, SampledStart};
use super::lpd_slope::{LpdSlope, reweighting_ess};
use super::selector::{Goal, Selection, Selector};
use crate::diagnostics::Warning;
use crate::predictive::PredictiveModel;

/// The share of draws that weighted ones must be worth.
const ENOUGH: f64 = 0.5;
/// The longest step in log β: the spacing of the usual grid.
const LONGEST_STEP: f64 = 1.098_612_288_668_11;
/// Chains on both sides of the maximum this near in log β end the search.
const NEAR: f64 = 0.4;
/// The most steps that are taken with the draws of one chain, and the length of one that ends them.
const MOST_NEWTON_STEPS: usize = 8;
const SMALL_STEP: f64 = 0.01;
/// Two standard errors of d LPD/d log β, in nats: slopes known less well do not lead.
const PRECISE: f64 = 0.05;
/// The same for a slope that is none: known less well, LPD at other β may yet be seen to be larger.
const FLAT: f64 = 0.01;
/// A β this near in log β to one seen need not be looked at.
const SEEN: f64 = 0.25;
/// Weights of held-out rows that are worth fewer draws than this make slopes doubtful.
const FEW_WEIGHTS: f64 = 10.0;
/// A slope within so many standard errors of the chain is none, and neither is a gain of LPD within so many of the rows.
const BELIEVED: f64 = 2.0;

/// Newton-like refinement of β by validation LPD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RefineSelector {
    /// Whose density.
    pub model: PredictiveModel,
    /// Where to start; at the β̂* of a joint search where none is given.
    pub start: Option<f64>,
    /// The most temperatures at which chains are run, the first included.
    pub most_chains: usize,
}

impl RefineSelector {
    /// From β̂*, with at most five temperatures.
    pub fn new(model: PredictiveModel) -> Self {
        Self { model, start: None, most_chains: 5 }
    }
}

/// A refined β and what was seen on the way.
#[derive(Clone, Debug, PartialEq)]
pub struct Refined {
    /// β.
    pub inverse_temperature: f64,
    /// The slopes at the temperatures of chains, in the order of visits.
    pub visits: Vec<LpdSlope>,
    /// Gradients of single rows that the chains took.
    pub row_gradients: f64,
    /// Whether the end is a maximum as far as can be told, and not only the last of the chains.
    pub converged: bool,
}

impl Selector for RefineSelector {
    fn name(&self) -> &'static str {
        match self.model {
            PredictiveModel::Standard => "refine-sm",
            PredictiveModel::Tempered => "refine-tm",
        }
    }

    fn goal(&self) -> Goal {
        Goal::PredictiveDensity(self.model)
    }

    fn select(&self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError> {
        let (start, searched, mut warnings) = match self.start {
            Some(start) => (start, 0.0, Vec::new()),
            None => {
                let joint = JointSelector::default().select(laboratory)?;
                (joint.inverse_temperature, joint.cost.row_gradients, joint.warnings)
            }
        };
        let refined = self.refine(laboratory, start)?;
        let beta = refined.inverse_temperature;
        if !refined.converged {
            warnings.push(Warning::SelectionNotConverged { beta, num_checkpoints: refined.visits.len() });
        }
        if let Some(visit) = refined.visits.iter().find(|visit| visit.weights_ess < FEW_WEIGHTS) {
            warnings.push(Warning::FewEffectiveWeights {
                label: format!("β = {:.3}, weighted by the density of a held-out row,", visit.inverse_temperature),
                ess: visit.weights_ess,
                num_draws: visit.num_draws,
            });
        }
        Ok(Selection {
            method: self.name(),
            goal: self.goal(),
            inverse_temperature: beta,
            intervals: Vec::new(),
            cost: laboratory.prices().cost(searched + refined.row_gradients),
            warnings,
        })
    }
}

impl RefineSelector {
    /// Moves β from `start`.
    ///
    /// # Errors
    /// Where the laboratory fails, or no chain keeps draws.
    pub fn refine(&self, laboratory: &dyn Laboratory, start: f64) -> Result<Refined, SelectionError> {
        let prices = laboratory.prices();
        let mut chains = laboratory.sample(&[start])?.into_iter().next().unwrap_or_default();
        let mut row_gradients = prices.chain * chains.len() as f64;
        let mut visits: Vec<LpdSlope> = Vec::new();
        let mut beta = start;
        loop {
            let (visit, step) = self.look(laboratory, beta, &chains)?;
            let slope_error = visit.chain_error.unwrap_or(f64::INFINITY);
            let is_flat = visit.slope.abs() <= BELIEVED * slope_error;
            let is_precise = BELIEVED * slope_error * beta <= if is_flat { FLAT } else { PRECISE };
            visits.push(visit);
            if !is_precise {
                return self.refine_by_values(laboratory, Walk { visits, chains, row_gradients });
            }
            let end = |inverse_temperature, visits, converged| {
                Ok(Refined { inverse_temperature, visits, row_gradients, converged })
            };
            if is_flat {
                return end(beta, visits, true);
            }
            let next = match bracket(&visits) {
                Some((low, high)) => {
                    let (below, above) = (low.inverse_temperature, high.inverse_temperature);
                    let rest = beta * step.length.exp();
                    if step.needs_no_chain && rest > below && rest < above {
                        return end(rest, visits, true);
                    }
                    let crossing = crossing(low, high);
                    if (above / below).ln() <= NEAR {
                        return end(crossing, visits, true);
                    }
                    crossing
                }
                None => {
                    let next = beta * step.length.exp();
                    if step.needs_no_chain {
                        return end(next, visits, true);
                    }
                    next
                }
            };
            if visits.len() >= self.most_chains.max(1) {
                let bracketed = bracket(&visits).is_some();
                let best = visits.iter().max_by(|a, b| a.lpd.total_cmp(&b.lpd)).map_or(beta, |v| v.inverse_temperature);
                return end(if bracketed { next } else { best }, visits, bracketed);
            }
            chains = laboratory.continue_at(next, &chains)?;
            row_gradients += prices.continued_chain * chains.len() as f64;
            beta = next;
        }
    }

    /// Moves on from the last visit by LPD itself.
    fn refine_by_values(&self, laboratory: &dyn Laboratory, walk: Walk) -> Result<Refined, SelectionError> {
        let Walk { mut visits, mut chains, mut row_gradients } = walk;
        let (prices, validation) = (laboratory.prices(), laboratory.validation());
        let Some(first) = visits.last() else { unreachable!("a walk goes on from a visit") };
        let (start, uphill) = (first.inverse_temperature, LONGEST_STEP.copysign(first.slope));
        let mut seen = vec![HeldOutDraws::new(laboratory, validation, start, SampledStart::draws_of(&chains))?];
        // Those before the walk were chains too; the one it begins at is counted once.
        let most_seen = (self.most_chains + 1).saturating_sub(visits.len()).max(1);
        loop {
            let compared = Compared::new(self.model, &seen);
            let Some(curve) = Curve::new(compared.lpd()) else {
                let reason = "no chain has a finite density at every validation row; lower sampler.learning_rate";
                return Err(SelectionError::NothingFound { method: self.name(), reason: reason.into() });
            };
            let (best, at) = curve.best_point();
            let is_bracketed = best > 0 && best + 1 < curve.inverse_temperatures().len();
            let inverse_temperature = curve.best_inverse_temperature();
            let next = match best {
                _ if seen.len() == 1 => at.ln() + uphill,
                _ if is_bracketed => inverse_temperature.ln(),
                0 => at.ln() - LONGEST_STEP,
                _ => at.ln() + LONGEST_STEP,
            };
            let is_near = seen.iter().any(|seen| (seen.inverse_temperature().ln() - next).abs() < SEEN);
            if is_bracketed && is_near || seen.len() >= most_seen {
                let is_better = compared.gain(at).is_some_and(Gain::is_believed);
                let inverse_temperature = if is_better { inverse_temperature } else { start };
                return Ok(Refined { inverse_temperature, visits, row_gradients, converged: is_bracketed });
            }
            let beta = next.exp();
            chains = laboratory.continue_at(beta, &chains)?;
            row_gradients += prices.continued_chain * chains.len() as f64;
            let held_out = HeldOutDraws::new(laboratory, validation, beta, SampledStart::draws_of(&chains))?;
            visits.extend(LpdSlope::new(beta, &held_out.densities(self.model, beta)));
            seen.push(held_out);
        }
    }

    /// The slope at β, and the step that it suggests.
    fn look(
        &self,
        laboratory: &dyn Laboratory,
        beta: f64,
        chains: &[SampledStart],
    ) -> Result<(LpdSlope, Step), SelectionError> {
        let method = self.name();
        let missing = || SelectionError::NothingFound {
            method,
            reason: format!("no draw at β = {beta} has a finite density; lower sampler.learning_rate").into(),
        };
        let held_out = HeldOutDraws::new(laboratory, laboratory.validation(), beta, SampledStart::draws_of(chains))?;
        let densities = held_out.densities(self.model, beta);
        let visit = LpdSlope::new(beta, &densities).ok_or_else(missing)?;
        let is_worth = |at: f64| reweighting_ess(&densities, beta, at) >= ENOUGH * visit.num_draws as f64;
        let slope = |at: f64| Some(LpdSlope::reweighted(beta, at, &held_out.densities(self.model, at))?.by_log_beta());
        let mut at = beta;
        for _ in 0..MOST_NEWTON_STEPS {
            let Some(here) = slope(at) else { break };
            // The widest δ for which both sides can be seen from here.
            let reach = std::iter::successors(Some(0.2), |reach: &f64| Some(0.5 * reach))
                .take(6)
                .find(|reach| is_worth(at * reach.exp()) && is_worth(at * (-reach).exp()));
            let curvature = reach
                .and_then(|reach| Some((slope(at * reach.exp())? - slope(at * (-reach).exp())?) / (2.0 * reach)))
                .filter(|curvature| *curvature < 0.0);
            let step = match curvature {
                Some(curvature) => -here / curvature,
                None if at == beta => LONGEST_STEP.copysign(here),
                None => break,
            };
            let moved = (at / beta).ln() + step;
            let length = moved.clamp(-LONGEST_STEP, LONGEST_STEP);
            at = beta * length.exp();
            if !is_worth(at) {
                return Ok((visit, Step { length, needs_no_chain: false }));
            }
            if step.abs() < SMALL_STEP {
                return Ok((visit, Step { length, needs_no_chain: true }));
            }
        }
        // No end within sight of these draws: a chain there will tell.
        Ok((visit, Step { length: (at / beta).ln(), needs_no_chain: false }))
    }
}

/// Log densities of validation rows at every β seen, from equal numbers of draws, the start's first.
struct Compared {
    rows: Vec<(f64, Vec<f64>)>,
}

/// How much more LPD there is at a β than at the start.
#[derive(Clone, Copy)]
struct Gain {
    mean: f64,
    /// Of the difference, row by row.
    standard_error: f64,
}

impl Gain {
    fn is_believed(self) -> bool {
        self.mean > BELIEVED * self.standard_error
    }
}

impl Compared {
    fn new(model: PredictiveModel, seen: &[HeldOutDraws<'_>]) -> Self {
        let last = seen.iter().map(HeldOutDraws::shortest_chain).min().unwrap_or(0);
        let rows =
            |draws: &HeldOutDraws<'_>| (draws.inverse_temperature(), draws.predictive_log_densities(model, last));
        Self { rows: seen.iter().map(rows).collect() }
    }

    /// β with the LPD there.
    fn lpd(&self) -> impl Iterator<Item = (f64, f64)> {
        self.rows.iter().map(|(beta, rows)| (*beta, rows.iter().sum::<f64>() / rows.len() as f64))
    }

    /// What is gained by going from the start to a β seen; none at the start.
    fn gains(&self) -> impl Iterator<Item = (f64, Gain)> {
        let (start, others) = self.rows.split_first().map_or((&[][..], &[][..]), |(first, rest)| (&first.1[..], rest));
        others.iter().map(move |(beta, rows)| {
            let (mean, standard_error) = paired_loss(rows, start);
            (*beta, Gain { mean, standard_error })
        })
    }

    fn gain(&self, at: f64) -> Option<Gain> {
        self.gains().find(|(beta, _)| (beta / at).ln().abs() < 1e-9).map(|(_, gain)| gain)
    }
}

/// Where a search has come.
struct Walk {
    visits: Vec<LpdSlope>,
    chains: Vec<SampledStart>,
    row_gradients: f64,
}

/// A step in log β.
struct Step {
    length: f64,
    /// Whether the draws at hand can be weighted to stand for its end.
    needs_no_chain: bool,
}

/// The nearest visits on both sides of a maximum: uphill to the right at the first, to the left at the second.
fn bracket(visits: &[LpdSlope]) -> Option<(&LpdSlope, &LpdSlope)> {
    let beta = |visit: &&LpdSlope| visit.inverse_temperature;
    let low = visits.iter().filter(|visit| visit.slope > 0.0).max_by(|a, b| beta(a).total_cmp(&beta(b)))?;
    let above = visits.iter().filter(|visit| visit.slope < 0.0 && visit.inverse_temperature > low.inverse_temperature);
    Some((low, above.min_by(|a, b| beta(a).total_cmp(&beta(b)))?))
}

/// Where the line through two slopes in log β crosses zero.
fn crossing(low: &LpdSlope, high: &LpdSlope) -> f64 {
    let (left, right) = (low.by_log_beta(), high.by_log_beta());
    let distance = (high.inverse_temperature / low.inverse_temperature).ln();
    low.inverse_temperature * (distance * left / (left - right)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_is_no_gain_and_all_rows_are() {
        let start: Vec<f64> = (0..100).map(|row| -0.1 * f64::from(row % 7)).collect();
        let mut one = start.clone();
        one[3] += 25.0;
        let all: Vec<f64> = start.iter().enumerate().map(|(row, value)| value + 0.01 * (1 + row % 3) as f64).collect();
        let compared = Compared { rows: vec![(0.5, start), (1.5, one), (3.0, all)] };
        let gain = compared.gain(1.5).unwrap();
        assert!((gain.mean - 0.25).abs() < 1e-12 && !gain.is_believed());
        let gain = compared.gain(3.0).unwrap();
        assert!((gain.mean - 0.02).abs() < 2e-4 && gain.is_believed());
        assert!(compared.gain(0.5).is_none(), "the start is no gain over itself");
    }

    #[test]
    fn rows_that_stay_the_same_are_no_gain_and_their_mean_is_the_lpd() {
        let rows = vec![-3.0, -4.0, -6.5];
        let compared = Compared { rows: vec![(0.5, rows.clone()), (1.5, rows)] };
        assert!(!compared.gain(1.5).unwrap().is_believed());
        assert_eq!(compared.lpd().collect::<Vec<_>>(), [(0.5, -4.5), (1.5, -4.5)]);
    }

    /// Slopes that are a straight line in log β cross zero where it does.
    #[test]
    fn a_line_through_two_slopes_crosses_where_it_does() {
        let slope_of = |beta: f64| -0.6 * (beta.ln() - 0.4);
        let visit = |beta: f64| LpdSlope {
            inverse_temperature: beta,
            slope: slope_of(beta) / beta,
            chain_error: None,
            rows_error: 0.0,
            weights_ess: 100.0,
            num_draws: 100,
            lpd: 0.0,
            per_row: Vec::new(),
        };
        for (low, high) in [(0.3, 2.0), (1.0, 5.0), (1.4, 1.6)] {
            let found = crossing(&visit(low), &visit(high));
            assert!((found.ln() - 0.4).abs() < 1e-12, "{low} {high}: {found}");
        }
        let visits = [0.1, 4.0, 0.9, 2.5].map(visit);
        let (low, high) = bracket(&visits).unwrap();
        assert_eq!((low.inverse_temperature, high.inverse_temperature), (0.9, 2.5), "the nearest on both sides");
        assert!(bracket(&[visit(0.1), visit(0.5)]).is_none());
    }
}
