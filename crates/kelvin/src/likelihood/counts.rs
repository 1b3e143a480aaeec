//! Counts: y ~ Poisson or negative binomial with mean e^η, η = log m + 10 tanh(o/10), o the network's one output and m the mean of the training counts.
//!
//! ```text
//! tempered   p(y)^β/Z(β), Z by the sums of `count.rs`; at β = 1 nothing is summed
//! ∂/∂η log p = β (∂ log p₁(y)/∂η − E_β ∂ log p₁/∂η),     ∂ log p₁/∂η = y − e^η (Poisson), (y − e^η) r/(r + e^η) (negative binomial)
//! ∂/∂β       = log p₁(y) − E_β log p₁                      p₁ the model itself, E_β the mean under its power
//! ```
//! Targets are the counts as they are, never standardised: the output is relative to log m instead, so that 0 predicts the mean, and it is bounded, so that rows
//! far from all others are given at most e^10 times as much. The negative binomial's r is a parameter: s = log r under N(0, 4). A power of counts is another spread
//! of counts, which is what r is for: β is chosen by held-out scores and not by a joint maximum.

use statrs::function::gamma::digamma;

use super::count::{CountLaw, PowerSums};
use super::model::{LikelihoodError, LogBetaCurve, LogLikelihood, Model, TargetKind, TemperedDensity};
use super::normal;
use super::number::NumberDistribution;
use super::rows::{Given, RowSums, TargetRows};
use super::targets::numbers;
use crate::data::Targets;
use crate::network::{Layout, Role};

/// Poisson counts, or negative binomial ones.
pub(super) struct Counts {
    /// log m.
    pub log_mean: f64,
    /// Whether r is learned; Poisson otherwise.
    pub has_size: bool,
}

/// The largest |η − log m|.
const BOUND: f64 = 10.0;
/// The variance of s before the data.
const PRIOR_VARIANCE: f64 = 4.0;

impl Counts {
    /// The law of a row, and dη/do.
    fn law(&self, output: f32, own: &[f32]) -> (CountLaw, f64) {
        let bent = (f64::from(output) / BOUND).tanh();
        let size = own.first().map_or(f64::INFINITY, |&s| f64::from(s).exp());
        (CountLaw { log_mean: self.log_mean + BOUND * bent, size }, 1.0 - bent * bent)
    }

    fn rows<'v>(&'v self, values: &'v [f32], targets: &'v Targets) -> impl Iterator<Item = (CountLaw, f64)> + 'v {
        let width = 1 + usize::from(self.has_size);
        let row = move |(row, &y): (&[f32], &f32)| (self.law(row[0], &row[1..]).0, f64::from(y));
        values.chunks_exact(width).zip(numbers(targets)).map(row)
    }
}

/// ∂ log p₁(k)/∂ log r.
fn size_slope(law: &CountLaw, k: f64) -> f64 {
    const FEW: f64 = 64.0;
    let (mean, r) = (law.mean(), law.size);
    let rising = match k <= FEW {
        true => (0..k as u32).map(|factor| 1.0 / (r + f64::from(factor))).sum(),
        false => digamma(k + r) - digamma(r),
    };
    r * (rising - (mean / r).ln_1p() + (mean - k) / (r + mean))
}

impl Model for Counts {
    fn name(&self) -> &'static str {
        if self.has_size { "negative binomial" } else { "Poisson" }
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Numbers
    }

    fn are_counts(&self) -> bool {
        true
    }

    fn num_outputs(&self) -> usize {
        1
    }

    fn check_settings(&self) -> Result<(), LikelihoodError> {
        let found = self.log_mean;
        if found.is_finite() { Ok(()) } else { Err(LikelihoodError::MeanCount { found }) }
    }

    fn add_tensors(&self, layout: &mut Layout) {
        if self.has_size {
            layout.push("counts", Role::LogSize, &[1]);
        }
    }

    fn initial_parameters(&self) -> Vec<f32> {
        vec![0.0; usize::from(self.has_size)]
    }

    fn log_prior(&self, own: &[f32]) -> f64 {
        own.iter().map(|&s| normal::log_density(f64::from(s), PRIOR_VARIANCE)).sum()
    }

    fn add_prior_energy_gradient(&self, own: &[f32], scale: f64, gradient: &mut [f32]) {
        for (gradient, &s) in gradient.iter_mut().zip(own) {
            *gradient = (scale * f64::from(*gradient) + f64::from(s) / PRIOR_VARIANCE) as f32;
        }
    }

    fn hides_beta(&self) -> Option<&'static str> {
        Some("a power of counts is another spread of counts, which the negative binomial learns")
    }

    /// The first sum is Σ log p, the second Σ ∂ log p/∂ log r, the third Σ ∂ log p/∂ log β, which nobody asks for at β = 1 and which is no number
    /// there: it would be a sum over all counts for each row.
    fn differentiate(&self, targets: TargetRows<'_>, given: Given<'_>, outputs: &mut [f32], sums: &mut RowSums) {
        let (counts, beta) = (numbers(targets.targets), given.beta);
        for (index, output) in outputs.iter_mut().enumerate() {
            let y = f64::from(counts[targets.place(index)]);
            let (law, bend) = self.law(*output, given.own);
            let share = if self.has_size { law.size / (law.size + law.mean()) } else { 1.0 };
            let log_mass = law.log_mass(y);
            let mean = if beta == 1.0 {
                sums.first += log_mass;
                sums.third = f64::NAN;
                if self.has_size {
                    sums.second += size_slope(&law, y);
                }
                law.mean()
            } else {
                let of = |k: f64| if self.has_size { size_slope(&law, k) } else { 0.0 };
                let PowerSums { log_total, mean, mean_log_mass, mean_of, .. } = law.sums(beta, of);
                sums.first += beta * log_mass - log_total;
                sums.second += beta * (of(y) - mean_of);
                sums.third += beta * (log_mass - mean_log_mass);
                mean
            };
            *output = (beta * share * (y - mean) * bend) as f32;
        }
        sums.count += outputs.len();
    }

    fn total(&self, _: Given<'_>, sums: &RowSums) -> LogLikelihood {
        LogLikelihood { value: sums.first, log_beta_gradient: sums.third }
    }

    fn own_gradient(&self, _: Given<'_>, sums: &RowSums, gradient: &mut [f32]) {
        gradient.fill(sums.second as f32);
    }

    fn log_densities(&self, values: &[f32], targets: &Targets) -> Vec<f64> {
        self.rows(values, targets).map(|(law, y)| law.log_mass(y)).collect()
    }

    fn tempered_densities(&self, values: &[f32], targets: &Targets, beta: f64, show: &mut dyn FnMut(TemperedDensity)) {
        for (law, y) in self.rows(values, targets) {
            let (log_mass, sums) = (law.log_mass(y), law.sums(beta, |_| 0.0));
            show(TemperedDensity {
                log_density: beta * log_mass - sums.log_total,
                slope: log_mass - sums.mean_log_mass,
            });
        }
    }

    fn log_beta_curve(&self, values: &[f32], targets: &Targets, log_beta: f64) -> LogBetaCurve {
        let beta = log_beta.exp();
        let mut curve = LogBetaCurve::default();
        for (law, y) in self.rows(values, targets) {
            let (log_mass, sums) = (law.log_mass(y), law.sums(beta, |_| 0.0));
            curve.value += beta * log_mass - sums.log_total;
            curve.slope += beta * (log_mass - sums.mean_log_mass);
            curve.curvature += beta * (log_mass - sums.mean_log_mass) - beta * beta * sums.log_mass_variance;
        }
        curve
    }

    fn number_distribution(&self, values: &[f32], power: f64) -> NumberDistribution {
        NumberDistribution::count(self.law(values[0], &values[1..]).0, power)
    }
}
