//! SWAG: a Gaussian fitted to the weights that SGD passes through after the search, at a constant rate and with minibatches.
//!
//! ```text
//! θ ~ N(θ̄, ½ (diag(s²) + D Dᵀ/(K−1)))    θ̄, s² mean and variance of all iterates, D the last K less θ̄
//! ```
//! The optimiser goes on from the best network of the search with a quarter of the rows at a step, at most 64, half the search's rate and β held
//! still. The tempered model at that β predicts. (Maddox et al., NeurIPS 2019.)

use std::sync::Mutex;

use kelvin::draws::Draws;
use kelvin::mutex::{into_inner, lock};
use kelvin::potential::Potential;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::sampler::{AscentObjective, Batches, Chain, JointAscent, Keep, LogBeta, Motion, Plan};
use kelvin::selection::JointChoice;
use kelvin::temperature::{Schedule, Temperature};

use crate::error::ExperimentError;
use crate::experiment::baselines::{NUM_DRAWS, unmeasured};
use crate::experiment::chain_spec::Slot;
use crate::experiment::prepared::Experiment;

/// Steps between two iterates, and how many there are.
const EVERY: u64 = 50;
const NUM_ITERATES: u64 = 60;
/// K, the columns of D.
const RANK: usize = 20;
/// Rows of a step at most.
const MOST_ROWS: usize = 64;

impl Experiment {
    /// Draws of the Gaussian; none of networks with statistics of batch norms, which would have to be taken anew for each, or where SGD leaves the
    /// finite numbers.
    ///
    /// # Errors
    /// If the engine fails.
    pub(super) fn swag_draws(&self, choice: &JointChoice) -> Result<Option<Draws>, ExperimentError> {
        if self.problem.network.has_batch_norm() {
            return Ok(None);
        }
        let iterates = self.iterates(choice)?;
        let Some(gaussian) = Swag::of(&iterates) else { return Ok(None) };
        let draw = |number: usize| gaussian.draw(self.settings.run.seed, number as u64);
        Ok(Some(unmeasured((0..NUM_DRAWS).map(draw), choice)?))
    }

    /// Weights that SGD passes through.
    fn iterates(&self, choice: &JointChoice) -> Result<Vec<Vec<f32>>, ExperimentError> {
        let settings = &self.settings.selection;
        let num_examples = self.problem.train.len();
        let rows = (num_examples / 4).clamp(1, MOST_ROWS);
        let value = 0.5 * settings.learning_rate;
        let rule = JointAscent {
            objective: AscentObjective { log_beta: LogBeta::Frozen, ..self.ascent_objective() },
            learning_rate: Schedule::Constant { value }.checked()?,
            momentum: settings.momentum,
            weight_decay: settings.weight_decay,
            clip_norm: settings.clip_norm,
            clip_scope: settings.clip_scope,
        };
        let plan = Plan {
            seed: self.settings.run.seed,
            batches: Batches::new(num_examples, Some(rows))?,
            num_steps: EVERY * NUM_ITERATES,
            keep: Keep { burn_in: 0, every: EVERY },
        };
        let one = Temperature::from_inverse(1.0)?;
        let mut chain = Chain::new(Slot::Pilot.id(2), one, choice.position.clone(), &self.posterior.layout());
        chain.state.log_beta = choice.inverse_temperature.ln();
        chain.state.statistics.clone_from(&choice.statistics);
        let kept = Mutex::new(Vec::new());
        let keep = |_: usize, chain: &Chain| lock(&kept).push(chain.state.position.clone());
        let mut chains = [chain];
        self.engine.run(&self.posterior, Motion::Search(&rule), &plan, &mut chains, &keep)?;
        let finite = |position: &Vec<f32>| position.iter().all(|value| value.is_finite());
        Ok(into_inner(kept).into_iter().filter(finite).collect())
    }
}

/// The Gaussian of some iterates.
struct Swag {
    mean: Vec<f64>,
    std: Vec<f64>,
    deviations: Vec<Vec<f64>>,
}

impl Swag {
    /// None of fewer than two iterates.
    fn of(iterates: &[Vec<f32>]) -> Option<Self> {
        let count = iterates.len() as f64;
        let dim = iterates.first().filter(|_| iterates.len() > 1)?.len();
        let average = |value: &dyn Fn(&[f32], usize) -> f64| -> Vec<f64> {
            (0..dim).map(|at| iterates.iter().map(|position| value(position, at)).sum::<f64>() / count).collect()
        };
        let mean = average(&|position, at| f64::from(position[at]));
        let std = average(&|position, at| (f64::from(position[at]) - mean[at]).powi(2));
        let std = std.into_iter().map(f64::sqrt).collect();
        let last = &iterates[iterates.len().saturating_sub(RANK)..];
        let deviation =
            |position: &Vec<f32>| position.iter().zip(&mean).map(|(&x, mean)| f64::from(x) - mean).collect();
        let deviations = last.iter().map(deviation).collect();
        Some(Self { mean, std, deviations })
    }

    fn draw(&self, seed: u64, number: u64) -> Vec<f32> {
        let (dim, rank) = (self.mean.len(), self.deviations.len());
        let mut noise = vec![0.0f32; dim + rank];
        NoiseKey { seed, purpose: Purpose::GaussianDraw, chain: 2, step: number }.fill_normal(&mut noise);
        let (own, shared) = noise.split_at(dim);
        let scale = 1.0 / (2.0 * (rank as f64 - 1.0).max(1.0)).sqrt();
        let mut position: Vec<f64> = self.mean.clone();
        for ((x, std), &z) in position.iter_mut().zip(&self.std).zip(own) {
            *x += std::f64::consts::FRAC_1_SQRT_2 * std * f64::from(z);
        }
        for (deviation, &z) in self.deviations.iter().zip(shared) {
            position.iter_mut().zip(deviation).for_each(|(x, d)| *x += scale * f64::from(z) * d);
        }
        position.into_iter().map(|x| x as f32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Iterates along one line: the Gaussian has their mean, their spread along it, and half of that (from the diagonal) across.
    #[test]
    fn draws_have_the_mean_and_spread_of_the_iterates() {
        let wave = |i: usize| (i as f32 * 2.399).sin();
        let iterates: Vec<Vec<f32>> = (0..60).map(|i| vec![3.0 + wave(i), 1.0 - wave(i)]).collect();
        let gaussian = Swag::of(&iterates).unwrap();
        let draws: Vec<Vec<f32>> = (0..4000).map(|number| gaussian.draw(5, number)).collect();
        let moment = |f: &dyn Fn(&[f32]) -> f64| draws.iter().map(|draw| f(draw)).sum::<f64>() / 4000.0;
        let mean = gaussian.mean[0];
        assert!((moment(&|draw| f64::from(draw[0])) - mean).abs() < 0.05);
        let along = moment(&|draw| f64::from(draw[0] - draw[1] - 2.0).powi(2));
        let across = moment(&|draw| f64::from(draw[0] + draw[1] - 4.0).powi(2));
        // The variance of an iterate is ½: along the line ½(2·½) + ½(4·½) = 1.5, across ½(2·½) = 0.5.
        assert!((along - 1.5).abs() < 0.2 && (across - 0.5).abs() < 0.1, "{along} {across}");
        assert!(Swag::of(&iterates[..1]).is_none());
    }
}
