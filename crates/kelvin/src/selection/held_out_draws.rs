//! Draws of chains at one β, as far as rows see them: what Lemma B, reweighting and learning theory are computed from.

use super::error::SelectionError;
use super::laboratory::Laboratory;
use crate::data::Targets;
use crate::diagnostics::{LearningTheory, TrainingDensities};
use crate::draws::Draws;
use crate::held_out::HeldOut;
use crate::likelihood::Likelihood;
use crate::predictive::{LogMeanExp, PredictiveModel, for_each_output};
use crate::temperature::Tempering;

/// Draws of chains at one β with their outputs at some rows: those to choose by, or the training rows themselves.
pub struct HeldOutDraws<'a> {
    inverse_temperature: f64,
    likelihood: Likelihood,
    targets: &'a Targets,
    chains: Vec<ChainOutputs>,
}

struct ChainOutputs {
    /// The log of what β is the power of.
    log_joint: Vec<f64>,
    outputs: Vec<Vec<f32>>,
}

/// Densities of one chain's draws at held-out rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChainDensities {
    /// J_s: log p(D, θ_s), or log p(D|θ_s) where only the likelihood is tempered.
    pub log_joint: Vec<f64>,
    /// log p(y_i|x_i,θ_s), draw after draw.
    pub log_densities: Vec<f64>,
    /// d/dβ of the same; zero for the standard model.
    pub slopes: Vec<f64>,
}

impl<'a> HeldOutDraws<'a> {
    /// Evaluates draws of chains at β at these rows.
    ///
    /// # Errors
    /// Where draws cannot be read or evaluated.
    pub fn new<'d>(
        laboratory: &dyn Laboratory,
        rows: &'a HeldOut,
        inverse_temperature: f64,
        draws: impl IntoIterator<Item = &'d Draws>,
    ) -> Result<Self, SelectionError> {
        let posterior = laboratory.posterior();
        let mut chains = Vec::new();
        for draws in draws {
            let mut log_joint: Vec<f64> = draws.potential_energy.iter().map(|energy| -energy).collect();
            if laboratory.tempering() == Tempering::Likelihood {
                let lot = draws.all()?;
                for (log_joint, weights) in log_joint.iter_mut().zip(lot.iter()) {
                    *log_joint -= posterior.log_prior(weights.parameters);
                }
            }
            let mut outputs = Vec::with_capacity(draws.len());
            for_each_output(laboratory.engine(), rows, draws, |of_draw| -> Result<(), SelectionError> {
                outputs.push(of_draw);
                Ok(())
            })?;
            chains.push(ChainOutputs { log_joint, outputs });
        }
        Ok(Self { inverse_temperature, likelihood: posterior.likelihood(), targets: rows.targets(), chains })
    }

    /// β of the chains.
    pub fn inverse_temperature(&self) -> f64 {
        self.inverse_temperature
    }

    /// The fewest draws of a chain.
    pub fn shortest_chain(&self) -> usize {
        self.chains.iter().map(|chain| chain.outputs.len()).min().unwrap_or(0)
    }

    /// log p̂(y_i|x_i) of every row, from the last so many draws of each chain: a mean of few densities has a smaller logarithm
    /// than one of many, so that only equal numbers can be compared.
    pub fn predictive_log_densities(&self, model: PredictiveModel, last: usize) -> Vec<f64> {
        let mut found = ChainDensities::default();
        let mut means: Vec<LogMeanExp> = Vec::new();
        for chain in &self.chains {
            for outputs in &chain.outputs[chain.outputs.len().saturating_sub(last)..] {
                found.log_densities.clear();
                self.add_densities(model, self.inverse_temperature, outputs, &mut found);
                means.resize(found.log_densities.len(), LogMeanExp::new());
                means.iter_mut().zip(&found.log_densities).for_each(|(mean, &density)| mean.add(density));
            }
        }
        means.iter().map(|mean| mean.value().unwrap_or(f64::NEG_INFINITY)).collect()
    }

    /// Densities of every chain's draws at β', which for the tempered model need not be that of the chains.
    pub fn densities(&self, model: PredictiveModel, inverse_temperature: f64) -> Vec<ChainDensities> {
        let of_chain = |chain: &ChainOutputs| {
            let mut found = ChainDensities { log_joint: chain.log_joint.clone(), ..ChainDensities::default() };
            for outputs in &chain.outputs {
                self.add_densities(model, inverse_temperature, outputs, &mut found);
            }
            found
        };
        self.chains.iter().map(of_chain).collect()
    }

    /// WAIC, functional variance and the like, where the rows are the training rows.
    pub fn learning_theory(&self) -> Option<LearningTheory> {
        let mut gathered: Option<TrainingDensities> = None;
        let mut found = ChainDensities::default();
        for outputs in self.chains.iter().flat_map(|chain| &chain.outputs) {
            found.log_densities.clear();
            self.add_densities(PredictiveModel::Standard, self.inverse_temperature, outputs, &mut found);
            gathered
                .get_or_insert_with(|| TrainingDensities::new(self.inverse_temperature, found.log_densities.len()))
                .add_draw(&found.log_densities);
        }
        gathered?.summary()
    }

    fn add_densities(&self, model: PredictiveModel, beta: f64, outputs: &[f32], found: &mut ChainDensities) {
        let moves = f64::from(u8::from(model == PredictiveModel::Tempered));
        self.likelihood.tempered_densities(outputs, self.targets, model.power(beta), |row| {
            found.log_densities.push(row.log_density);
            found.slopes.push(moves * row.slope);
        });
    }
}
