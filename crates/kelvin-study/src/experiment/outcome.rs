//! What chains at one temperature measured, and what a user should know of it.

use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use crate::experiment::convergence::Convergence;
use crate::experiment::prepared::Experiment;
use crate::experiment::reach::energy_trend;
use crate::experiment::running_scores::{HeldOutPredictives, RunningScores};
use crate::experiment::sampling::SampledChain;
use kelvin::diagnostics::{self, Limits, Reading, Warning};
use kelvin::draws::Draws;
use kelvin::potential::Potential;

/// h√λmax from which on no step is stable.
const UNSTABLE: f64 = 2.0;

/// Temperatures and agreement of the chains at one inverse temperature.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// 1/mean kinetic temperature at the cycle ends.
    pub beta_at_cycle_ends: Option<f64>,
    /// 1/mean kinetic temperature over all steps after burn-in.
    pub beta_over_all_steps: Option<f64>,
    /// What the discretisation should show over all steps, without gradient noise.
    pub expected_beta_over_all_steps: f64,
    /// 1/mean configurational temperature ⟨θ, ∇U⟩/d of the draws.
    #[serde(default = "not_measured", deserialize_with = "diagnostics::number_or_nan")]
    pub configurational_beta: f64,
    /// Mean kinetic temperature of each tensor at the cycle ends.
    #[serde(default)]
    pub tensor_temperatures: Vec<f64>,
    /// Rank-normalised split-R̂ of the potential energy.
    pub rhat: Option<f64>,
    /// Bulk effective sample size of the potential energy.
    pub bulk_ess: Option<f64>,
    /// Tail effective sample size of the potential energy.
    pub tail_ess: Option<f64>,
    /// How well predictions are known; none in runs of older kelvins, and of chains of unequal length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub convergence: Option<Convergence>,
    /// h√λmax where the chains ended, the median of them, with the largest step of a cycle; none of images, and in runs of older kelvins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_ratio: Option<f64>,
}

/// What a file of a kelvin that did not measure something has in its place.
fn not_measured() -> f64 {
    f64::NAN
}

/// Chains at one inverse temperature.
pub struct ChainGroup<'a> {
    /// What to call them.
    pub label: String,
    /// The inverse temperature that they share.
    pub inverse_temperature: f64,
    /// Those that kept draws; scores pool them.
    pub chains: Vec<&'a SampledChain>,
}

impl ChainGroup<'_> {
    /// The draws of each chain.
    pub fn draws(&self) -> impl Iterator<Item = &Draws> {
        self.chains.iter().map(|chain| &chain.draws)
    }

    /// What all their draws predict together; `None` where there is no chain.
    ///
    /// # Errors
    /// [`ExperimentError::OutputsNotFinite`] where a draw gave outputs that are no numbers.
    pub fn predictives(&self) -> Result<Option<HeldOutPredictives>, ExperimentError> {
        let mut pooled: Option<HeldOutPredictives> = None;
        for chain in &self.chains {
            if let Some(step) = chain.scores.failed_at {
                return Err(ExperimentError::OutputsNotFinite { label: chain.spec.label.clone(), step });
            }
            match &mut pooled {
                None => pooled = Some(chain.scores.predictives.clone()),
                Some(pooled) => pooled.merge(&chain.scores.predictives)?,
            }
        }
        Ok(pooled)
    }

    /// How many draws there are.
    pub fn num_draws(&self) -> usize {
        self.chains.iter().map(|chain| chain.draws.len()).sum()
    }

    /// What the chains measured; `expected_inflation` is the mean of 2/(1+μ') over a cycle.
    pub fn measured(&self, sampler_temperature: f64, expected_inflation: f64) -> Measured {
        let scores: Vec<&RunningScores> = self
            .chains
            .iter()
            .filter(|chain| chain.chain.divergence.is_none() && chain.scores.failed_at.is_none())
            .map(|chain| &chain.scores)
            .collect();
        let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let kept = self.chains.iter().filter_map(|chain| chain.chain.kinetic_kept.mean()).collect();
        let all = self.chains.iter().filter_map(|chain| chain.chain.kinetic_all.mean()).collect();
        let configurational =
            self.chains.iter().flat_map(|chain| chain.draws.configurational_temperature.clone()).collect();
        let measured_chains = self.chains.iter().filter(|chain| chain.chain.kinetic_kept.num_readings() > 0);
        let tensors: Vec<&[f64]> = measured_chains.map(|chain| chain.chain.kinetic_kept.tensor_means()).collect();
        let tensor_temperatures = (0..tensors.first().map_or(0, |first| first.len()))
            .map(|index| tensors.iter().map(|means| means[index]).sum::<f64>() / tensors.len() as f64)
            .collect();
        let energies: Vec<&[f64]> = self
            .chains
            .iter()
            .filter(|chain| chain.chain.divergence.is_none())
            .map(|chain| &chain.draws.potential_energy[..])
            .collect();
        Measured {
            beta_at_cycle_ends: mean(kept).map(|temperature| 1.0 / temperature),
            beta_over_all_steps: mean(all).map(|temperature| 1.0 / temperature),
            expected_beta_over_all_steps: 1.0 / (sampler_temperature * expected_inflation),
            configurational_beta: mean(configurational).map_or(f64::NAN, |temperature| 1.0 / temperature),
            tensor_temperatures,
            rhat: diagnostics::rhat(&energies).ok(),
            bulk_ess: diagnostics::bulk_ess(&energies).ok(),
            tail_ess: diagnostics::tail_ess(&energies).ok(),
            convergence: Convergence::of(&scores).ok().filter(|_| !scores.is_empty()),
            step_ratio: None,
        }
    }

    /// What a user should know before believing the group; chains that diverged are reported one by one elsewhere.
    pub fn warnings(&self, experiment: &Experiment, measured: &Measured, sampler_temperature: f64) -> Vec<Warning> {
        let limits = Limits::default();
        let mut warnings = Vec::new();
        warnings.extend(self.temperature_warnings(measured, sampler_temperature));
        let energies: Vec<&[f64]> = self
            .chains
            .iter()
            .map(|chain| &chain.chain.state.adapted.energies[..])
            .filter(|energies| !energies.is_empty())
            .collect();
        let still_moving = limits.check_trend(&self.label, energy_trend(&energies));
        // A chain that still falls comes to sharper places than those that its step was found in: that it falls is what there is to say.
        if let Some(ratio) = measured.step_ratio.filter(|&ratio| still_moving.is_none() || ratio >= UNSTABLE) {
            warnings.extend(limits.check_step(&self.label, ratio));
        }
        warnings.extend(still_moving);
        if let Some(found) = &measured.convergence {
            warnings.extend(self.target_warning(experiment, found));
            let gained = found.few_draws_bias.filter(|_| experiment.settings.stopping.is_some());
            warnings.extend(gained.and_then(|gained| limits.check_few_draws(&self.label, gained.standard)));
        }
        if let Some(rhat) = measured.rhat {
            warnings.extend(limits.check_agreement(&self.label, rhat));
        }
        // Where sampling had targets, those of predictions have judged what the draws are worth.
        if let Some(ess) = measured.bulk_ess.filter(|_| experiment.settings.stopping.is_none()) {
            warnings.extend(limits.check_effective_draws(&self.label, ess, self.num_draws()));
        }
        warnings
    }

    /// Warnings where momenta do not have the temperature of the sampler.
    fn temperature_warnings(&self, measured: &Measured, sampler_temperature: f64) -> Vec<Warning> {
        let limits = Limits::default();
        if let Some(heating) = self.heat_that_no_step_explains(measured) {
            return Vec::from_iter(limits.check_rest(&self.label, heating, self.takes_minibatches()));
        }
        let mut warnings = Vec::new();
        let target = 1.0 / sampler_temperature;
        if let Some(beta) = measured.beta_at_cycle_ends {
            warnings.extend(limits.check_temperature(&self.label, target, beta, Reading::CycleEnds));
        }
        if let Some(beta) = measured.beta_over_all_steps {
            let expected = 1.0 / measured.expected_beta_over_all_steps;
            let at_small_steps = measured.beta_at_cycle_ends.map(|beta| target / beta);
            warnings.extend(limits.check_heating(&self.label, 1.0 / beta, expected, at_small_steps));
        }
        warnings
    }

    /// The kinetic temperature over the expected one, of chains that found a step which fits the curvature where they ended.
    fn heat_that_no_step_explains(&self, measured: &Measured) -> Option<f64> {
        let adapt = self.chains.iter().all(|chain| chain.chain.state.adapted.num_looks > 0);
        let fits = |ratio| Limits::default().check_step(&self.label, ratio).is_none();
        let explains_nothing = adapt && measured.step_ratio.is_none_or(fits);
        measured
            .beta_over_all_steps
            .filter(|_| explains_nothing)
            .map(|beta| measured.expected_beta_over_all_steps / beta)
    }

    fn takes_minibatches(&self) -> bool {
        self.chains.iter().any(|chain| chain.chain.state.adapted.gradient_noise > 0.0)
    }

    /// A warning where sampling ended before its targets.
    fn target_warning(&self, experiment: &Experiment, found: &Convergence) -> Option<Warning> {
        let targets = experiment.settings.stopping?;
        let missed = found.missed(&targets);
        let draws_wanted = found.draws_wanted(&targets).unwrap_or(f64::NAN);
        (!missed.is_empty()).then(|| Warning::TargetsMissed { label: self.label.clone(), missed, draws_wanted })
    }

    /// A warning where the momenta of tensors do not have the temperature of the sampler at the ends of cycles; none where the chains are not at rest,
    /// which says it of all of them.
    ///
    /// # Errors
    /// If β is not a finite positive number, or batches do not fit the rows.
    pub fn tensor_warning(
        &self,
        experiment: &Experiment,
        measured: &Measured,
    ) -> Result<Option<Warning>, ExperimentError> {
        let temperature = experiment.sampler_temperature(self.inverse_temperature)?;
        let of_all = self.temperature_warnings(measured, temperature);
        if of_all.iter().any(|warning| matches!(warning, Warning::NotInEquilibrium { .. })) {
            return Ok(None);
        }
        let friction_times = experiment.friction_times(self.chains.iter().map(|chain| &chain.chain))?;
        let readings = self.chains.iter().map(|chain| chain.chain.kinetic_kept.num_readings() as usize);
        let worth = |count: usize| diagnostics::independent_readings(count, friction_times);
        let independent_readings = readings.filter(|&count| count > 0).map(worth).sum();
        let layout = experiment.posterior.layout();
        // Without momenta there are none.
        let tensors = layout.tensors().iter().zip(&measured.tensor_temperatures);
        let ratios = tensors.map(|(tensor, found)| (tensor.name.as_str(), tensor.range.len(), found / temperature));
        Ok(Limits::default().check_tensors(&self.label, &ratios.collect::<Vec<_>>(), independent_readings))
    }
}
