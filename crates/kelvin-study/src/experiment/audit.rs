//! The audit: Metropolis-corrected HMC at the temperatures of a sampler's chains, begun where these ended, and both side by side.
//!
//! HMC has no bias from its step (`sampler/hmc.rs` of `kelvin`), so that what differs beyond the errors of both is the sampler's. It needs all rows for every gradient, and
//! tens of them for a draw: an audit of small data.

use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use crate::experiment::chain_spec::{ChainSpec, Slot};
use crate::experiment::estimates::{SamplerComparison, SamplerEstimates};
use crate::experiment::kept_draws::{DrawEnergy, KeepDraws, Keepsake};
use crate::experiment::outcome::ChainGroup;
use crate::experiment::prepared::Experiment;
use crate::experiment::running_scores::RunningScores;
use crate::experiment::sampling::SampledChain;
use crate::number::significant;
use kelvin::draws::Draws;
use kelvin::potential::Potential;
use kelvin::sampler::{Batches, Chain, Hmc, HmcRecord, Keep, Observer, Plan, run_population};

/// The most multiply-adds of a gradient, about a hundredth of a second: 70 times those of the paper's Concrete.
const MOST_MULTIPLY_ADDS: u64 = 100_000_000;
/// A gradient is a pass forward and one backward, which costs two.
const PASSES: u64 = 3;
/// The share of gradients that the warm-up may take, and the fewest trajectories of one.
const WARM_UP_SHARE: f64 = 0.2;
const FEWEST_WARM_UP: u64 = 50;
/// The share of trajectories after the warm-up that nothing is kept of.
const BURN_IN_SHARE: f64 = 0.1;
/// Numbers of all kept draws: 256 MiB.
const MOST_NUMBERS: u64 = 64 << 20;
/// R̂ of predictions asks for so many draws a chain.
const FEWEST_DRAWS: u64 = 20;

/// How much an audit is to do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditPlan {
    /// Chains of HMC at each temperature.
    pub num_chains: u32,
    /// Gradients of a chain, warm-up included; on average over all of them.
    pub gradients: u64,
    /// The most draws that a chain keeps.
    pub most_draws: u64,
    /// Mean length of a trajectory, in units of time where masses have the geometric mean 1.
    pub trajectory: f64,
}

impl Default for AuditPlan {
    /// Two million gradients a temperature: some minutes for the paper's tables on two cores.
    fn default() -> Self {
        Self { num_chains: 4, gradients: 500_000, most_draws: 1000, trajectory: Hmc::default().trajectory }
    }
}

/// What an audit will cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditCost {
    /// Of all chains at all temperatures.
    pub gradients: u64,
    /// Of one gradient over all training rows.
    pub multiply_adds_per_gradient: u64,
    /// From the time that a few gradients took, with chains spread over the threads there are.
    pub seconds: f64,
}

/// How trajectories went at one temperature.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HmcSummary {
    /// Mean probability of acceptance after the warm-up.
    pub acceptance: f64,
    /// Mean step size h.
    pub step_size: f64,
    /// Trajectories of a chain, warm-up included.
    pub num_trajectories: u64,
    /// Gradients of all chains.
    pub num_gradients: u64,
    /// Trajectories of all chains whose energy left all bounds; they were rejected.
    pub num_divergences: u64,
}

/// A sampler's chains at one inverse temperature beside exact ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditRow {
    /// The sampler's label of its chains.
    pub label: String,
    /// The inverse temperature of both.
    pub inverse_temperature: f64,
    /// What the sampler estimates.
    pub sampled: SamplerEstimates,
    /// What HMC does.
    pub exact: SamplerEstimates,
    /// How HMC went.
    pub hmc: HmcSummary,
    /// The difference of both.
    pub comparison: SamplerComparison,
    /// What a person is told.
    pub sentence: String,
}

impl Experiment {
    /// What an audit at so many temperatures will cost.
    ///
    /// # Errors
    /// [`ExperimentError::DoesNotApply`] where U is not a function of the weights alone, or a gradient is too dear; says what it would cost.
    pub fn audit_cost(&self, num_temperatures: usize, plan: &AuditPlan) -> Result<AuditCost, ExperimentError> {
        let refuse =
            |reason: String| Err(ExperimentError::DoesNotApply { key: "the exact audit", reason: reason.into() });
        if self.problem.network.has_batch_norm() {
            return refuse(
                "HMC needs an energy that depends on the weights alone, and with batch norm it depends on the batches"
                    .into(),
            );
        }
        if self.settings.data.augmentation > 0.0 {
            return refuse(
                "HMC needs an energy that depends on the weights alone, and augmented images change at each step"
                    .into(),
            );
        }
        let num_rows = self.posterior.num_examples();
        let multiply_adds = PASSES * num_rows as u64 * self.problem.network.program().multiply_adds();
        let num_chains = num_temperatures as u64 * u64::from(plan.num_chains);
        let gradients = num_chains * plan.gradients;
        if let Some(rows) = self.settings.sampler.batch_size.rows().filter(|&rows| rows != num_rows) {
            return refuse(format!(
                "it is for chains whose steps see all rows, as HMC's must, and sampler.batch_size is {rows} of {num_rows}; \
                 set it to \"full\" where that can be paid: {gradients} gradients of {} multiply-adds",
                significant(multiply_adds as f64, 2)
            ));
        }
        if multiply_adds > MOST_MULTIPLY_ADDS {
            return refuse(format!(
                "a gradient over all {num_rows} rows takes {} multiply-adds, at most {} can be paid {gradients} times; \
                 audit a smaller network or fewer rows",
                significant(multiply_adds as f64, 2),
                significant(MOST_MULTIPLY_ADDS as f64, 2)
            ));
        }
        let threads = (rayon::current_num_threads() as u64).min(num_chains).max(1);
        let seconds = self.seconds_of_gradient() * gradients as f64 / threads as f64;
        Ok(AuditCost { gradients, multiply_adds_per_gradient: multiply_adds, seconds })
    }

    /// About how many trajectories each chain of an audit takes, for a bar of its progress.
    pub fn audit_trajectories(groups: &[ChainGroup<'_>], plan: &AuditPlan) -> u64 {
        let chains = groups.iter().flat_map(|group| &group.chains);
        let steps: Vec<f64> = chains.map(|chain| chain.chain.state.adapted.step_size).filter(|h| *h > 0.0).collect();
        let mean = steps.iter().sum::<f64>() / steps.len().max(1) as f64;
        // The accepted step is about half of the one that such chains find.
        let leapfrog_steps = if mean > 0.0 { (2.0 * plan.trajectory / mean).max(1.0) } else { 30.0 };
        ((plan.gradients as f64 / leapfrog_steps) as u64).max(1)
    }

    /// Runs HMC at the temperature of each group and compares. Its chains begin where those of the group ended and, if there are more, at their draws, with
    /// their masses where they have found some. All on the CPU, whatever the experiment's engine. `progress` sees trajectories as steps, and chains of the first group first.
    ///
    /// # Errors
    /// As [`Experiment::audit_cost`]; [`ExperimentError::Interrupted`] where `progress` stopped it; and if draws cannot be read or evaluated.
    ///
    /// # Panics
    /// If a group has no chains.
    pub fn audit(
        &self,
        groups: &[ChainGroup<'_>],
        plan: &AuditPlan,
        progress: &dyn Observer,
    ) -> Result<Vec<AuditRow>, ExperimentError> {
        self.audit_cost(groups.len(), plan)?;
        let mut specs = Vec::new();
        let mut chains = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            for number in 0..plan.num_chains {
                let (label, slot) = (group.label.clone(), Slot::Grid(index as u32));
                let inverse_temperature = group.inverse_temperature;
                chains.push(self.audit_chain(group, number, slot)?);
                specs.push(ChainSpec { label, repetition: number, slot, inverse_temperature, start: None });
            }
        }
        let have_masses = chains.iter().all(|chain| chain.state.adapted.step_size > 0.0);
        let hmc = Hmc {
            num_warm_up: warm_up_trajectories(plan, &chains),
            num_looks: if have_masses { 0 } else { Hmc::default().num_looks },
            trajectory: plan.trajectory,
            tempering: self.settings.sampler.tempering,
            ..Hmc::default()
        };
        let num_warm_up = hmc.num_warm_up;
        let mut steps = Plan {
            seed: self.settings.run.seed,
            batches: Batches::full(self.posterior.num_examples()),
            num_steps: num_warm_up,
            keep: Keep { burn_in: num_warm_up, every: 1 },
        };
        run_population(&self.posterior, &hmc, &steps, &mut chains, progress);
        stopped(&chains, &steps)?;

        let total = plan.gradients * chains.len() as u64;
        (steps.num_steps, steps.keep) = self.trajectories(&hmc, plan, total, &chains);
        let keepsakes = specs.iter().map(|spec| {
            let scores = RunningScores::new(self, spec.inverse_temperature)?;
            Ok(Keepsake { draws: Draws::in_memory(self.posterior.dim()), scores })
        });
        let keepsakes = keepsakes.collect::<Result<Vec<_>, ExperimentError>>()?;
        let energy = DrawEnergy::new(&*self.engine, &self.posterior, &self.settings.sampler, false);
        let num_draws = (steps.num_steps - steps.keep.burn_in) / steps.keep.every;
        let kept = KeepDraws::new(self, energy, None, false, progress, keepsakes, num_draws);
        run_population(&self.posterior, &hmc, &steps, &mut chains, &kept);
        let (draws, scores) = kept.into_parts()?;
        stopped(&chains, &steps)?;

        let sampled = specs.into_iter().zip(chains).zip(draws.into_iter().zip(scores));
        let exact: Vec<SampledChain> = sampled
            .map(|((spec, chain), (draws, scores))| SampledChain { spec, chain, draws, scores, seconds: 0.0 })
            .collect();
        let of_groups = groups.iter().zip(exact.chunks(plan.num_chains as usize));
        of_groups.map(|(group, exact)| self.audit_row(group, &hmc, exact)).collect()
    }

    /// A chain of HMC at rest where chain `number` of the group ended, or at a draw of it.
    fn audit_chain(&self, group: &ChainGroup<'_>, number: u32, slot: Slot) -> Result<Chain, ExperimentError> {
        let (count, number_of) = (group.chains.len(), number as usize);
        let from = group.chains[number_of % count];
        let mut chain = self.chain(number, slot, group.inverse_temperature)?;
        let rounds_back = number_of / count;
        let draws = from.draws.len();
        if rounds_back == 0 || !from.draws.are_stored() || draws < 2 {
            chain.state.position.clone_from(&from.chain.state.position);
        } else {
            // The middle draw, then those at a quarter and so on.
            let at = draws >> rounds_back.min(draws.ilog2() as usize);
            if let Some(weights) = from.draws.all()?.iter().nth(at) {
                chain.state.position.copy_from_slice(weights.parameters);
            }
        }
        if from.chain.state.adapted.num_looks > 0 {
            chain.state.mass.clone_from(&from.chain.state.mass);
            chain.state.adapted.step_size = from.chain.state.adapted.step_size;
        }
        Ok(chain)
    }

    /// Trajectories of a chain in the end, and which are kept, so that all chains together spend so many gradients.
    fn trajectories(&self, hmc: &Hmc, plan: &AuditPlan, total: u64, chains: &[Chain]) -> (u64, Keep) {
        let records: Vec<HmcRecord> = chains.iter().filter_map(|chain| hmc.record(&chain.state)).collect();
        let spent: u64 = records.iter().map(|record| record.num_gradients).sum();
        let most = hmc.most_leapfrog_steps as f64;
        let of_one: f64 = records.iter().map(|record| (hmc.trajectory / record.step_size).clamp(1.0, most)).sum();
        let affordable = (total.saturating_sub(spent) as f64 / of_one.max(1.0)) as u64;
        let by_memory = (MOST_NUMBERS / (self.posterior.dim() * chains.len()) as u64).max(FEWEST_DRAWS);
        let after_warm_up = affordable.max(2 * FEWEST_DRAWS);
        let burn_in = (BURN_IN_SHARE * after_warm_up as f64) as u64;
        let every = (after_warm_up - burn_in).div_ceil(plan.most_draws.max(FEWEST_DRAWS).min(by_memory));
        let num_draws = (after_warm_up - burn_in) / every;
        let burn_in = hmc.num_warm_up + burn_in;
        (burn_in + num_draws * every, Keep { burn_in, every })
    }

    fn audit_row(
        &self,
        group: &ChainGroup<'_>,
        hmc: &Hmc,
        exact: &[SampledChain],
    ) -> Result<AuditRow, ExperimentError> {
        let ChainGroup { label, inverse_temperature, chains } = group;
        let beta = *inverse_temperature;
        let kept: Vec<&SampledChain> = exact.iter().filter(|chain| !chain.draws.is_empty()).collect();
        if kept.is_empty() {
            let learning_rate = self.settings.sampler.learning_rate;
            return Err(ExperimentError::SamplingDiverged { beta, chains: exact.len(), learning_rate });
        }
        let records: Vec<HmcRecord> = kept.iter().filter_map(|chain| hmc.record(&chain.chain.state)).collect();
        let mean = |of: fn(&HmcRecord) -> f64| records.iter().map(of).sum::<f64>() / records.len() as f64;
        let sampled = SamplerEstimates::of_chains(self, beta, chains)?;
        let exact = SamplerEstimates::of_chains(self, beta, &kept)?;
        let comparison = SamplerComparison::new(&sampled, &exact);
        Ok(AuditRow {
            label: label.clone(),
            inverse_temperature: beta,
            hmc: HmcSummary {
                acceptance: mean(|record| record.acceptance),
                step_size: mean(|record| record.step_size),
                num_trajectories: kept.iter().map(|chain| chain.chain.state.step).max().unwrap_or(0),
                num_gradients: records.iter().map(|record| record.num_gradients).sum(),
                num_divergences: records.iter().map(|record| record.num_divergences).sum(),
            },
            sentence: format!("{label}: the sampler {}", comparison.sentence(exact.is_accuracy)),
            sampled,
            exact,
            comparison,
        })
    }
}

/// Trajectories of the warm-up: as many as HMC would have, but about a fifth of the gradients at most where the step size to begin with is known.
fn warm_up_trajectories(plan: &AuditPlan, chains: &[Chain]) -> u64 {
    // The accepted step is about half of the one that such chains find.
    let leapfrog_steps = chains.iter().map(|chain| 2.0 * plan.trajectory / chain.state.adapted.step_size);
    let mean = leapfrog_steps.sum::<f64>() / chains.len() as f64;
    let affordable = (WARM_UP_SHARE * plan.gradients as f64 / mean) as u64;
    affordable.clamp(FEWEST_WARM_UP, Hmc::default().num_warm_up)
}

/// An error where a chain was stopped on its way.
fn stopped(chains: &[Chain], plan: &Plan) -> Result<(), ExperimentError> {
    let all_done = chains.iter().all(|chain| chain.is_done(plan.num_steps));
    if all_done { Ok(()) } else { Err(ExperimentError::Interrupted) }
}
