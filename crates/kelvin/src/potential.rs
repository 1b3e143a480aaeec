//! U(θ) = −log p(θ) − Σ log p(y|x,θ) and its gradient: what every sampler and optimiser moves on.

use std::sync::Arc;

use thiserror::Error;

use crate::data::Examples;
use crate::held_out::{HeldOut, SpareWorkspaces};
use crate::likelihood::{DrawnScores, Given, Likelihood, LikelihoodError, LikelihoodSum, LogLikelihood};
use crate::network::{Evaluator, Layout, Mode, Network, PreparedInputs, Rows, Tensor, Workspace};
use crate::prior::Prior;
use crate::random::NoiseKey;

/// The rows of a step and what their log-likelihood counts for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batch<'a> {
    /// Which rows.
    pub rows: Rows<'a>,
    /// Multiplies the sum over the rows: n/|B|, times β where only the likelihood is tempered.
    pub likelihood_weight: f64,
    /// Whose statistics batch norm uses.
    pub mode: Mode<'a>,
}

impl Batch<'_> {
    /// All rows, each counted once.
    pub const ALL: Batch<'static> = Batch { rows: Rows::All, likelihood_weight: 1.0, mode: Mode::Training };
}

/// An energy to sample from. Bring your own: only `dim`, `evaluate` and `workspace` are needed.
pub trait Potential: Sync {
    /// What an evaluation writes to on the way; each thread has its own, so that steps allocate nothing.
    type Workspace: Send;

    /// Numbers in a position.
    fn dim(&self) -> usize;

    /// Overwrites `gradient` with ∇U of the batch and returns U.
    fn evaluate(&self, position: &[f32], batch: Batch<'_>, gradient: &mut [f32], work: &mut Self::Workspace) -> f64;

    /// Overwrites `gradient` with ∇U of the batch: what a step needs, where U itself costs more.
    fn gradient(&self, position: &[f32], batch: Batch<'_>, gradient: &mut [f32], work: &mut Self::Workspace) {
        self.evaluate(position, batch, gradient, work);
    }

    /// Overwrites `diagonal` with a random estimate of the diagonal of U's Gauss–Newton matrix, right on average; the key names its
    /// random numbers. `false` where the potential has no model of targets.
    fn gauss_newton_diagonal(
        &self,
        position: &[f32],
        batch: Batch<'_>,
        key: NoiseKey,
        diagonal: &mut [f32],
        work: &mut Self::Workspace,
    ) -> bool {
        let _ = (position, batch, key, diagonal, work);
        false
    }

    /// The share of 1/√λmax that chains which find their step size themselves may step by: less than all where the curvature depends on scales that are
    /// part of the position, and so may be larger than it was while they warmed up.
    fn step_share(&self) -> f64 {
        1.0
    }

    /// Whether places may curve far more than those that chains warm up in, as where widths of weights or of noise are part of the position: chains that
    /// found their step size themselves then watch it for as long as they run (`sampler/step_watch.rs`), for one gradient in eighty.
    fn curvature_grows(&self) -> bool {
        true
    }

    /// A fresh workspace.
    fn workspace(&self) -> Self::Workspace;

    /// A workspace for a chain that has several threads to itself; results must not depend on their number.
    fn workspace_over_threads(&self) -> Self::Workspace {
        self.workspace()
    }

    /// The named tensors of a position; temperatures are measured for each.
    fn layout(&self) -> Layout {
        Layout::flat(self.dim())
    }

    /// n: the rows an epoch visits, and the scale of the step size h₀ = √(ℓ/n).
    fn num_examples(&self) -> usize {
        1
    }

    /// What a chain carries beside its position before the first step: running statistics of batch norms.
    fn initial_statistics(&self) -> Vec<f32> {
        Vec::new()
    }

    /// Moves running statistics towards those of the batch that was evaluated last in training mode.
    fn update_statistics(&self, work: &Self::Workspace, statistics: &mut [f32]) {
        let _ = (work, statistics);
    }
}

/// A model whose likelihood can be tempered: what the joint choice of (θ, β) needs.
pub trait TemperedModel: Potential {
    /// Overwrites `gradient` with ∇_θ Σ_B log p(y|x,θ,β) (not weighted, no prior) and returns the sum and its
    /// derivative in log β.
    fn tempered_gradient(
        &self,
        position: &[f32],
        rows: Rows<'_>,
        mode: Mode<'_>,
        inverse_temperature: f64,
        gradient: &mut [f32],
        work: &mut Self::Workspace,
    ) -> LogLikelihood;

    /// gradient ← scale · gradient − ∇ log p(θ), for objectives that count the prior.
    fn add_prior_energy_gradient(&self, position: &[f32], scale: f64, gradient: &mut [f32]);
}

/// Why a posterior cannot be built.
#[derive(Debug, Error, PartialEq)]
pub enum PosteriorError {
    /// Likelihood and targets do not fit.
    #[error(transparent)]
    Likelihood(#[from] LikelihoodError),
    /// The network does not fit the rows or the likelihood.
    #[error(
        "a network of {inputs} inputs and {outputs} outputs cannot serve rows of {features} features and a likelihood of {needed} outputs"
    )]
    Shape {
        /// Inputs of the network.
        inputs: usize,
        /// Its outputs.
        outputs: usize,
        /// Features of a row.
        features: usize,
        /// Outputs the likelihood needs.
        needed: usize,
    },
    /// There is nothing to learn from.
    #[error("the training set has no rows")]
    NoRows,
    /// There is not one weight for each row.
    #[error("{found} weights were given for {num_rows} rows; give one for each")]
    NumWeights {
        /// How many were given.
        found: usize,
        /// How many are needed.
        num_rows: usize,
    },
    /// Weights that rows cannot have.
    #[error("weights of rows must be finite numbers ≥ 0, and one of them > 0; {found}")]
    Weights {
        /// What was found instead.
        found: String,
    },
}

/// The posterior of θ given examples; owns what it needs, so that it can be kept and sent anywhere.
///
/// θ holds the network's parameters, then those of the prior (such as its scales), then those of the likelihood (such as log σ²);
/// [`Potential::layout`] names them all.
pub struct Posterior {
    network: Network,
    workspaces: Arc<SpareWorkspaces>,
    layout: Layout,
    /// Where the network's parameters end, and where the prior's do.
    network_end: usize,
    prior_end: usize,
    initial_statistics: Vec<f32>,
    inputs: PreparedInputs,
    examples: Examples,
    likelihood: Likelihood,
    prior: Box<dyn Prior>,
    row_weights: Option<Vec<f32>>,
}

impl Posterior {
    /// The posterior of `network` under `likelihood` and `prior`, given `examples`.
    pub fn new(
        network: &Network,
        likelihood: Likelihood,
        prior: impl Prior + 'static,
        examples: &Examples,
    ) -> Result<Self, PosteriorError> {
        Self::with_evaluator(network, network.evaluator(), likelihood, prior, examples)
    }

    /// The same with a chosen evaluator of the same network.
    pub fn with_evaluator(
        network: &Network,
        evaluator: Evaluator,
        likelihood: Likelihood,
        prior: impl Prior + 'static,
        examples: &Examples,
    ) -> Result<Self, PosteriorError> {
        likelihood.check(&examples.targets)?;
        let (inputs, outputs) = (network.num_inputs(), network.num_outputs());
        let (features, needed) = (examples.num_features, likelihood.num_outputs());
        if inputs != features || outputs != needed {
            return Err(PosteriorError::Shape { inputs, outputs, features, needed });
        }
        if examples.is_empty() {
            return Err(PosteriorError::NoRows);
        }
        let (needed, found) = (likelihood.num_targets(), examples.num_targets());
        if needed != found {
            return Err(LikelihoodError::TargetsOfRow { needed, found }.into());
        }
        let mut layout = network.layout();
        let network_end = layout.len();
        prior.add_tensors(&mut layout);
        let prior_end = layout.len();
        likelihood.add_tensors(&mut layout);
        Ok(Self {
            network: network.clone(),
            inputs: evaluator.prepare(&examples.inputs),
            workspaces: Arc::new(SpareWorkspaces::new(&evaluator)),
            layout,
            network_end,
            prior_end,
            initial_statistics: network.initial_statistics(),
            examples: examples.clone(),
            likelihood,
            prior: Box::new(prior),
            row_weights: None,
        })
    }

    /// The same where each row's log-likelihood counts as often as its weight says: U(θ) = −log p(θ) − Σ wᵢ log p(yᵢ|xᵢ,θ). A weight of 2 is that of
    /// two such rows, and of 0 that of none.
    ///
    /// # Errors
    /// If there is not a weight for each row, or one is negative or not finite, or all are 0.
    pub fn with_row_weights(self, weights: &[f32]) -> Result<Self, PosteriorError> {
        if weights.len() != self.examples.len() {
            return Err(PosteriorError::NumWeights { found: weights.len(), num_rows: self.examples.len() });
        }
        if let Some(row) = weights.iter().position(|weight| !weight.is_finite() || *weight < 0.0) {
            return Err(PosteriorError::Weights { found: format!("that of row {row} (from 0) is {}", weights[row]) });
        }
        if weights.iter().all(|&weight| weight == 0.0) {
            return Err(PosteriorError::Weights { found: "all are 0".into() });
        }
        Ok(Self { row_weights: Some(weights.to_vec()), ..self })
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// What it is given.
    pub fn examples(&self) -> &Examples {
        &self.examples
    }

    /// The prior.
    pub fn prior(&self) -> &dyn Prior {
        &*self.prior
    }

    /// The likelihood.
    pub fn likelihood(&self) -> Likelihood {
        self.likelihood
    }

    /// What each row counts for, where it is not once.
    pub fn row_weights(&self) -> Option<&[f32]> {
        self.row_weights.as_deref()
    }

    /// The evaluator in use.
    pub fn evaluator(&self) -> &Evaluator {
        self.workspaces.evaluator()
    }

    /// Its workspaces for single passes, to be shared.
    pub fn workspaces(&self) -> &Arc<SpareWorkspaces> {
        &self.workspaces
    }

    /// Tensors of θ that are not the network's: those of prior and likelihood.
    pub fn other_tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.layout.tensors().iter().filter(|tensor| tensor.range.start >= self.network_end)
    }

    /// The starting position named by seed and chain.
    pub fn initial_position(&self, seed: u64, chain: u32) -> Vec<f32> {
        let mut position = self.network.initial_parameters(seed, chain);
        position.extend(self.prior.initial_parameters());
        position.extend(self.likelihood.initial_parameters());
        position
    }

    /// Rows to be judged on, by the network and the likelihood's own parameters.
    pub fn held_out(&self, examples: &Examples) -> HeldOut {
        let num_own = self.layout.len() - self.prior_end;
        HeldOut::sharing(&self.workspaces, &self.network, examples).followed_by(num_own)
    }

    /// log p(θ).
    pub fn log_prior(&self, position: &[f32]) -> f64 {
        let (position, own) = position.split_at(self.prior_end);
        self.prior.log_density(position) + self.likelihood.log_prior(own)
    }

    /// Overwrites `gradient` with ∇(−log p(θ) − w Σ log p(y|x,θ)), the sum over several batches in training mode, each a
    /// batch of its own to batch norm; returns that sum without its weight w.
    pub fn gradient_over_batches<'r>(
        &self,
        position: &[f32],
        batches: impl IntoIterator<Item = Rows<'r>>,
        likelihood_weight: f64,
        gradient: &mut [f32],
        work: &mut Workspace,
    ) -> f64 {
        let mut part = Vec::new();
        let mut sum = None;
        for rows in batches {
            sum = Some(match sum {
                None => self.tempered_gradient(position, rows, Mode::Training, 1.0, gradient, work).value,
                Some(sum) => {
                    part.resize(gradient.len(), 0.0);
                    let value = self.tempered_gradient(position, rows, Mode::Training, 1.0, &mut part, work).value;
                    gradient.iter_mut().zip(&part).for_each(|(sum, part)| *sum += part);
                    sum + value
                }
            });
        }
        if sum.is_none() {
            gradient.fill(0.0);
        }
        self.add_prior_energy_gradient(position, -likelihood_weight, gradient);
        sum.unwrap_or(0.0)
    }

    /// z ⊙ (−∇² log p(θ)) z with random signs z, by differences: the diagonal exactly where parameters are independent, on average otherwise.
    fn prior_curvature(&self, position: &[f32], key: NoiseKey) -> impl Iterator<Item = f64> {
        // As in `curvature/hessian.rs`; a sign moves every parameter as far.
        const LEAST: f64 = 1.0 / 65_536.0;
        let mean_square = position.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / position.len().max(1) as f64;
        let epsilon = mean_square.sqrt() / 1024.0 + LEAST;
        let signs: Vec<f64> = (0..position.len()).map(|index| key.sign(index as u32)).collect();
        let gradient = |direction: f64| {
            let moved = position.iter().zip(&signs).map(|(&x, z)| (f64::from(x) + direction * epsilon * z) as f32);
            let (moved, mut gradient): (Vec<f32>, _) = (moved.collect(), vec![0.0; position.len()]);
            self.add_prior_energy_gradient(&moved, 0.0, &mut gradient);
            gradient
        };
        let (ahead, behind) = (gradient(1.0), gradient(-1.0));
        let quotient =
            move |((ahead, behind), z): ((f32, f32), f64)| z * (f64::from(ahead) - f64::from(behind)) / (2.0 * epsilon);
        ahead.into_iter().zip(behind).zip(signs).map(quotient)
    }

    /// Means and variances of batch norms at a position: the plain average of those of each batch.
    pub fn average_statistics<'r>(
        &self,
        position: &[f32],
        batches: impl IntoIterator<Item = Rows<'r>>,
        work: &mut Workspace,
    ) -> Vec<f32> {
        let mut gradient = vec![0.0; position.len()];
        let mut of_batch = vec![0.0; self.initial_statistics.len()];
        let mut sums = vec![0.0; of_batch.len()];
        let mut num_batches = 0.0;
        for rows in batches {
            // The gradient goes unused: no pass in training mode stops after the way forward.
            self.tempered_gradient(position, rows, Mode::Training, 1.0, &mut gradient, work);
            self.evaluator().batch_statistics(work, &mut of_batch);
            sums.iter_mut().zip(&of_batch).for_each(|(sum, &value)| *sum += f64::from(value));
            num_batches += 1.0;
        }
        sums.iter().map(|sum| (sum / num_batches) as f32).collect()
    }
}

impl Potential for Posterior {
    type Workspace = Workspace;

    fn dim(&self) -> usize {
        self.layout.len()
    }

    fn evaluate(&self, position: &[f32], batch: Batch<'_>, gradient: &mut [f32], work: &mut Workspace) -> f64 {
        let sum = self.tempered_gradient(position, batch.rows, batch.mode, 1.0, gradient, work);
        self.add_prior_energy_gradient(position, -batch.likelihood_weight, gradient);
        -self.log_prior(position) - batch.likelihood_weight * sum.value
    }

    fn gradient(&self, position: &[f32], batch: Batch<'_>, gradient: &mut [f32], work: &mut Workspace) {
        self.tempered_gradient(position, batch.rows, batch.mode, 1.0, gradient, work);
        self.add_prior_energy_gradient(position, -batch.likelihood_weight, gradient);
    }

    fn gauss_newton_diagonal(
        &self,
        position: &[f32],
        batch: Batch<'_>,
        key: NoiseKey,
        diagonal: &mut [f32],
        work: &mut Workspace,
    ) -> bool {
        let num_rows = batch.rows.listed().map_or(self.examples.len(), <[u32]>::len);
        let mut scores = DrawnScores::new(self.likelihood, &position[self.prior_end..], num_rows, key)
            .weighed(self.row_weights(), batch.rows);
        let (of_network, others) = diagonal.split_at_mut(self.network_end);
        let parameters = &position[..self.network_end];
        self.evaluator().gradient(parameters, &self.inputs, batch.rows, batch.mode, &mut scores, of_network, work);
        let (of_prior, of_likelihood) = others.split_at_mut(self.prior_end - self.network_end);
        of_prior.fill(0.0);
        scores.own_gradient(of_likelihood);
        let prior = self.prior_curvature(position, key);
        for (value, prior) in diagonal.iter_mut().zip(prior) {
            *value = (batch.likelihood_weight * f64::from(*value).powi(2) + prior) as f32;
        }
        true
    }

    fn step_share(&self) -> f64 {
        // With all of it one chain in eight left its noise's posterior for a while: h√λmax, 1 when it was found, had become 1.4 in the median and 2 in some.
        const WHERE_NOISE_IS_LEARNED: f64 = 0.7;
        if self.likelihood.identifies_beta() { 1.0 } else { WHERE_NOISE_IS_LEARNED }
    }

    fn curvature_grows(&self) -> bool {
        !self.likelihood.identifies_beta() || self.prior.isotropic_variance().is_none()
    }

    fn workspace(&self) -> Workspace {
        self.evaluator().workspace()
    }

    fn workspace_over_threads(&self) -> Workspace {
        self.evaluator().workspace_over_threads(true)
    }

    fn layout(&self) -> Layout {
        self.layout.clone()
    }

    fn num_examples(&self) -> usize {
        self.examples.len()
    }

    fn initial_statistics(&self) -> Vec<f32> {
        self.initial_statistics.clone()
    }

    fn update_statistics(&self, work: &Workspace, statistics: &mut [f32]) {
        self.evaluator().update_statistics(work, statistics);
    }
}

impl TemperedModel for Posterior {
    fn tempered_gradient(
        &self,
        position: &[f32],
        rows: Rows<'_>,
        mode: Mode<'_>,
        inverse_temperature: f64,
        gradient: &mut [f32],
        work: &mut Workspace,
    ) -> LogLikelihood {
        let given = Given { beta: inverse_temperature, own: &position[self.prior_end..] };
        let mut sum =
            LikelihoodSum::new(self.likelihood, given, &self.examples.targets, rows).weighed(self.row_weights());
        let (of_network, others) = gradient.split_at_mut(self.network_end);
        let parameters = &position[..self.network_end];
        self.evaluator().gradient(parameters, &self.inputs, rows, mode, &mut sum, of_network, work);
        let (of_prior, of_likelihood) = others.split_at_mut(self.prior_end - self.network_end);
        of_prior.fill(0.0);
        sum.own_gradient(of_likelihood);
        sum.total()
    }

    fn add_prior_energy_gradient(&self, position: &[f32], scale: f64, gradient: &mut [f32]) {
        let ((position, own), (gradient, of_own)) =
            (position.split_at(self.prior_end), gradient.split_at_mut(self.prior_end));
        self.prior.add_energy_gradient(position, scale, gradient);
        self.likelihood.add_prior_energy_gradient(own, scale, of_own);
    }
}
