//! h√λmax where chains ended: whether their step fits the curvature that they met.

use kelvin::curvature::LargestCurvature;
use kelvin::network::{Mode, Rows};
use kelvin::potential::{Batch, Potential};
use kelvin::random::{NoiseKey, Purpose};
use kelvin::temperature::Temperature;
use rayon::prelude::*;

use crate::error::ExperimentError;
use crate::experiment::outcome::ChainGroup;
use crate::experiment::prepared::Experiment;
use crate::experiment::sampling::SampledChain;

/// Rounds of power iteration, from a random direction.
const ROUNDS: usize = 20;
/// Rows times parameters beyond which a pass over all rows is too much to look.
const MOST_WORK: usize = 50_000_000;

impl ChainGroup<'_> {
    /// The median over chains, with the largest step of a cycle; none of images, of large tables, and of samplers without momentum.
    ///
    /// # Errors
    /// If β is not a finite positive number.
    pub(crate) fn step_ratio(&self, experiment: &Experiment) -> Result<Option<f64>, ExperimentError> {
        let (rule, _) = experiment.sampler()?;
        let work = experiment.problem.train.len() * experiment.posterior.dim();
        if experiment.problem.table().is_none() || work > MOST_WORK || !rule.integrator.has_momentum() {
            return Ok(None);
        }
        let num_examples = experiment.posterior.num_examples();
        let temperature = Temperature::from_inverse(self.inverse_temperature)?;
        let usual = rule.conditions(0, num_examples, temperature.value()).step_size;
        let weight = experiment.settings.sampler.tempering.likelihood_power(temperature);
        let ratio = |chain: &&SampledChain| {
            let state = &chain.chain.state;
            let h = if rule.warm_up.is_some() { state.adapted.step_size } else { usual };
            let layout = experiment.posterior.layout();
            let mut direction = vec![0.0; layout.len()];
            let key = NoiseKey { seed: 0, purpose: Purpose::Curvature, chain: chain.chain.id, step: state.step };
            key.fill_normal(&mut direction);
            let batch = Batch { rows: Rows::All, likelihood_weight: weight, mode: Mode::Training };
            let mut work = experiment.posterior.workspace();
            let (mut search, position) = (LargestCurvature::new(layout.len()), &state.position);
            let posterior = &experiment.posterior;
            let largest =
                search.find(posterior, position, batch, &layout, &state.mass, ROUNDS, &mut direction, &mut work);
            h * largest.sqrt()
        };
        let mut found: Vec<f64> = self.chains.par_iter().map(ratio).filter(|ratio| ratio.is_finite()).collect();
        found.sort_by(f64::total_cmp);
        Ok(found.get(found.len() / 2).copied())
    }
}
