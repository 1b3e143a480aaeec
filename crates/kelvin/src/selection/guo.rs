//! Post-hoc temperature scaling: a plain SGD network, then one number fitted to the validation rows.
//!
//! ```text
//! θ̂ = argmax_θ Σ_train log p(y|x,θ)        β̂ = argmax_β Σ_validation log p(y|x,θ̂,β)
//! ```
//! (Guo, Pleiss, Sun, Weinberger, ICML 2017.) The sum is concave in β, so its slope in s = log β changes sign once: the change is
//! bracketed by doubling from β = 1 and found by Newton steps that fall back to halving where they leave the bracket, all in
//! f64. Where no β is best (every validation row is classified rightly, and larger is always better) the answer is the smallest
//! β that has all but a thousandth of a nat a row of what there is to gain, with a warning.
//! Cost: one SGD run for each start. Objective: held-out density of the tempered plug-in, not of the posterior.

use super::error::SelectionError;
use super::joint_selector::best_search;
use super::laboratory::Laboratory;
use super::selector::{BetaInterval, Goal, Selection, Selector};
use crate::data::Targets;
use crate::diagnostics::Warning;
use crate::likelihood::{Likelihood, LogBetaCurve};
use crate::sampler::{AscentObjective, LogBeta, PriorShare};

/// No β beyond 10^±6 is looked at.
const MOST_LOG_BETA: f64 = 13.815_510_557_964_274;
/// Nats a row that a bounded answer may leave where no β is best.
const LEFT_OVER: f64 = 1e-3;

/// Post-hoc temperature scaling of a network found by plain SGD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuoSelector;

impl Selector for GuoSelector {
    fn name(&self) -> &'static str {
        "guo"
    }

    fn goal(&self) -> Goal {
        Goal::PlugInDensity
    }

    fn select(&self, laboratory: &dyn Laboratory) -> Result<Selection, SelectionError> {
        let method = self.name();
        let frozen = AscentObjective { prior: PriorShare::None, log_beta: LogBeta::Frozen };
        let searched = laboratory.search(frozen)?;
        let best = best_search(method, &searched)?;
        let (validation, likelihood) = (laboratory.validation(), laboratory.posterior().likelihood());
        let weights: Vec<_> = searched.iter().map(|one| one.choice.weights()).collect();
        let outputs = laboratory.engine().outputs(validation, &weights)?;
        let scaled: Vec<Scaling> =
            outputs.iter().map(|outputs| best_scaling(likelihood, outputs, validation.targets())).collect();
        let position = searched.iter().position(|one| one.start == best.start);
        let scaling = scaled[position.unwrap_or(0)];
        let betas: Vec<f64> = scaled.iter().map(Scaling::inverse_temperature).collect();
        let prices = laboratory.prices();
        Ok(Selection {
            method,
            goal: self.goal(),
            inverse_temperature: scaling.inverse_temperature(),
            intervals: BetaInterval::over_starts(&betas).into_iter().collect(),
            cost: prices.cost(prices.search * searched.len() as f64),
            warnings: best.choice.not_converged().into_iter().chain(scaling.warning()).collect(),
        })
    }
}

/// The β that suits given outputs best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scaling {
    /// This one.
    Best(f64),
    /// None: the larger the better, up to this bounded answer.
    Rising(f64),
    /// None: the smaller the better, down to this bounded answer.
    Falling(f64),
}

impl Scaling {
    /// β, bounded in any case.
    pub fn inverse_temperature(&self) -> f64 {
        match *self {
            Self::Best(beta) | Self::Rising(beta) | Self::Falling(beta) => beta,
        }
    }

    /// Says so where no β is best.
    pub fn warning(&self) -> Option<Warning> {
        match *self {
            Self::Best(_) => None,
            Self::Rising(beta) => Some(Warning::BetaUnbounded { beta, larger_is_better: true }),
            Self::Falling(beta) => Some(Warning::BetaUnbounded { beta, larger_is_better: false }),
        }
    }
}

/// argmax_β Σ log p(y | outputs, β).
///
/// # Panics
/// If targets are of another kind than the likelihood's.
pub fn best_scaling(likelihood: Likelihood, outputs: &[f32], targets: &Targets) -> Scaling {
    let at = |log_beta: f64| likelihood.log_beta_curve(outputs, targets, log_beta);
    let num_rows = (outputs.len() / likelihood.num_values()) as f64;
    let rising = at(0.0).slope > 0.0;
    let step = if rising { std::f64::consts::LN_2 } else { -std::f64::consts::LN_2 };
    // From 0 outwards until the slope changes its sign.
    let mut near = 0.0;
    let bracket = loop {
        let far: f64 = near + step;
        if far.abs() > MOST_LOG_BETA {
            break None;
        }
        let slope = at(far).slope;
        if slope == 0.0 && at(far).curvature < 0.0 || (slope > 0.0) != rising && slope != 0.0 {
            break Some((near.min(far), near.max(far)));
        }
        near = far;
    };
    match bracket {
        Some((low, high)) => Scaling::Best(sign_change(at, low, high).exp()),
        None => {
            let end = MOST_LOG_BETA.copysign(step);
            let enough = at(end).value - LEFT_OVER * num_rows;
            // The sum rises all the way to `end`: halve towards the first place that has enough.
            let (mut short, mut reached) = (-end, end);
            while (reached - short).abs() > 1e-6 {
                let middle = 0.5 * (short + reached);
                if at(middle).value >= enough { reached = middle } else { short = middle }
            }
            if rising { Scaling::Rising(reached.exp()) } else { Scaling::Falling(reached.exp()) }
        }
    }
}

/// Where the slope falls through zero between `low` and `high`.
fn sign_change(at: impl Fn(f64) -> LogBetaCurve, mut low: f64, mut high: f64) -> f64 {
    let mut s = 0.5 * (low + high);
    for _ in 0..100 {
        let LogBetaCurve { slope, curvature, .. } = at(s);
        if slope > 0.0 {
            low = s
        } else {
            high = s
        }
        let newton = s - slope / curvature;
        let next = if newton >= low && newton <= high { newton } else { 0.5 * (low + high) };
        let moved = (next - s).abs();
        s = next;
        if moved < 1e-13 || slope == 0.0 {
            break;
        }
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Likelihood = Likelihood::Categorical { num_classes: 3 };

    /// Sixty rows whose logits are right about two times of three.
    fn unsure() -> (Vec<f32>, Targets) {
        let logits: Vec<f32> = (0..180).map(|i| ((i * 37 % 101) as f32 - 50.0) / 12.0).collect();
        let top = |row: &[f32]| (0..3).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as u32;
        let labels =
            logits.chunks(3).enumerate().map(|(i, row)| if i % 3 == 0 { i as u32 % 2 } else { top(row) }).collect();
        (logits, Targets::Classes(labels))
    }

    #[test]
    fn a_regression_has_the_closed_form() {
        let (outputs, targets) = ([0.5f32, -1.0, 0.75, 2.0], [1.0f32, -2.0, 0.5, 2.5]);
        let squares = 0.25 + 1.0 + 0.0625 + 0.25;
        for noise_variance in [1e-4, 0.01, 30.0] {
            let likelihood = Likelihood::Gaussian { noise_variance };
            let found = best_scaling(likelihood, &outputs, &Targets::Real(targets.to_vec()));
            let Scaling::Best(beta) = found else { panic!("{found:?}") };
            assert!((beta / (noise_variance * 4.0 / squares) - 1.0).abs() < 1e-12, "{beta}");
        }
    }

    #[test]
    fn a_classification_agrees_with_brute_force() {
        let (logits, targets) = unsure();
        for scale in [0.01, 1.0, 300.0] {
            let scaled: Vec<f32> = logits.iter().map(|logit| logit * scale).collect();
            let Scaling::Best(beta) = best_scaling(THREE, &scaled, &targets) else { panic!("scale {scale}") };
            let score = |log_beta: f64| THREE.log_likelihood(&scaled, &targets, log_beta.exp()).value;
            let lattice = (-16_000..16_000).map(|i| f64::from(i) * 5e-4);
            let brute = lattice.max_by(|&a, &b| score(a).total_cmp(&score(b))).unwrap();
            assert!((beta.ln() - brute).abs() < 1e-3, "{beta} {}", brute.exp());
            let sums = THREE.log_beta_curve(&scaled, &targets, beta.ln());
            assert!(sums.slope.abs() < 1e-9 && sums.curvature < 0.0, "{sums:?}");
        }
    }

    #[test]
    fn derivatives_are_those_of_the_sum() {
        let (logits, targets) = unsure();
        let at = |s: f64| THREE.log_beta_curve(&logits, &targets, s);
        for s in [-2.0, 0.3, 1.5] {
            let slope = (at(s + 1e-5).value - at(s - 1e-5).value) / 2e-5;
            let curvature = (at(s + 1e-5).slope - at(s - 1e-5).slope) / 2e-5;
            assert!((slope - at(s).slope).abs() < 1e-6 && (curvature - at(s).curvature).abs() < 1e-6);
        }
    }

    #[test]
    fn separable_rows_get_a_bounded_answer_and_a_warning() {
        let logits = [2.0f32, 0.0, -1.0, 0.0, 3.0, 0.5, -1.0, 0.0, 1.0];
        let right = Targets::Classes(vec![0, 1, 2]);
        let found = best_scaling(THREE, &logits, &right);
        let Scaling::Rising(beta) = found else { panic!("{found:?}") };
        let left = -THREE.log_likelihood(&logits, &right, beta).value / 3.0;
        assert!((left - LEFT_OVER).abs() < 1e-6, "{left}");
        assert!(matches!(found.warning(), Some(Warning::BetaUnbounded { larger_is_better: true, .. })));
        // Logits that point away from the labels are best ignored.
        let wrong = best_scaling(THREE, &logits, &Targets::Classes(vec![2, 0, 0]));
        let Scaling::Falling(beta) = wrong else { panic!("{wrong:?}") };
        assert!(beta > 0.0 && beta < 0.01 && wrong.warning().is_some(), "{beta}");
        // Logits so large that nothing is left to gain.
        let sure: Vec<f32> = logits.iter().map(|logit| logit * 1e4).collect();
        assert!(best_scaling(THREE, &sure, &right).inverse_temperature() < 1.0);
    }
}
