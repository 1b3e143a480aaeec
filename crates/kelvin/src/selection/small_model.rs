//! A model small enough to be refitted many times: what the generalized-Bayes selectors work on.
//!
//! All of them see a model whose outputs are linear in its parameters, f(x) = o(x) + Φ(x) θ, under θ ~ N(0, σ_p² I):
//!
//! ```text
//! linear regression   f = xᵀθ                                        posteriors are exact
//! logistic            logits = xᵀθ, two classes or more              posteriors by Laplace's method at their one mode
//! dense network       f(x,θ̃) + ∇f(x,θ̃)(θ − θ̃), linearised at θ̃      the same two, by the kind of answers
//! ```
//! θ̃ is the best checkpoint of the laboratory's MAP search at β = 1. The linearised network has a mode of its own, with a gradient that
//! vanishes, whether or not θ̃ is one of the network's (Immer, Korzepa, Bauer, AISTATS 2021; Antorán et al., ICML 2022). Its features have
//! seen every training row, so that methods which need rows a fit has not seen take the validation rows.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::cost::Prices;
use super::error::SelectionError;
use super::joint_selector::best_search;
use super::laboratory::Laboratory;
use super::row_loss::{Answer, RowLoss};
use super::selector::{Goal, Selection};
use super::small_fit::{Energy, FeatureRows, Fit, dot};
use super::tangent::Tangent;
use crate::data::{Examples, Targets};
use crate::diagnostics::Warning;
use crate::likelihood::TargetKind;
use crate::random::{NoiseKey, Purpose};
use crate::sampler::{AscentObjective, LogBeta, PriorShare};
use crate::temperature::Tempering;

/// Beyond this a curvature is too large to be factored again and again.
const MOST_PARAMETERS: usize = 2000;
/// Multiplications that a method may take: about a minute of one core.
const MOST_WORK: f64 = 2e11;
/// Numbers in all features together: 800 megabytes.
const MOST_FEATURES: usize = 100_000_000;
/// Newton steps of a fit that is no quadratic.
const USUAL_STEPS: f64 = 5.0;

/// What a method's cost depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModelSize {
    /// Whether it is a network, linearised.
    pub is_network: bool,
    pub tempering: Tempering,
}

/// The training rows of a small model, and where it is a network the validation rows.
pub(super) struct SmallModel {
    method: &'static str,
    pub loss: RowLoss,
    pub prior_variance: f64,
    pub tempering: Tempering,
    pub tangent: Tangent,
    /// Inputs of the training rows, row after row.
    pub inputs: Vec<f64>,
    pub training: FeatureRows,
    /// None where the model is linear as it is.
    pub validation: Option<FeatureRows>,
    /// Where fits of all rows start.
    start: Vec<f64>,
    num_visits: AtomicUsize,
    search_price: f64,
    prices: Prices,
    warnings: Vec<Warning>,
}

impl SmallModel {
    /// The laboratory's model, if it is small enough for so many fits.
    pub fn new(
        method: &'static str,
        laboratory: &dyn Laboratory,
        num_fits: impl Fn(ModelSize) -> f64,
    ) -> Result<Self, SelectionError> {
        let refused = |reason: String| SelectionError::DoesNotSuit { method, reason: reason.into() };
        let posterior = laboratory.posterior();
        let (network, examples) = (posterior.network(), posterior.examples());
        let likelihood = posterior.likelihood();
        if likelihood.num_targets() > 1 {
            let num_targets = likelihood.num_targets();
            return Err(refused(format!(
                "its fits are of one target a row, and there are {num_targets}; choose by LPD"
            )));
        }
        let loss = match (likelihood.kind(), likelihood.known_noise_variance()) {
            (TargetKind::Numbers, Some(noise_variance)) => RowLoss::Gaussian { noise_variance },
            (TargetKind::Numbers, None) => {
                let reason =
                    "its fits need Gaussian noise of a known variance, and this likelihood has none; choose by LPD";
                return Err(refused(reason.into()));
            }
            (TargetKind::Classes { num_classes: 0 | 1 }, _) => {
                return Err(refused("there is a single class, and nothing to be sure or unsure of".into()));
            }
            (TargetKind::Classes { num_classes }, _) => RowLoss::classes(num_classes),
        };
        let Some(tangent) = Tangent::new(network, loss.num_outputs()) else {
            return Err(refused(format!(
                "it refits models of dense layers alone, and this network ({}) has others; choose by LPD",
                network.describe()
            )));
        };
        let d = tangent.num_parameters();
        if d > MOST_PARAMETERS {
            return Err(refused(format!(
                "its fits factor the curvature of all parameters, {} has {d} of them, and it stops at {MOST_PARAMETERS}; take fewer \
                 hidden units (model.hidden) or choose by LPD",
                network.describe()
            )));
        }
        let prior_variance = posterior.prior().isotropic_variance().ok_or_else(|| {
            refused(
                "it needs the isotropic Gaussian prior (model.prior = \"gaussian\"), for which its fits are written"
                    .into(),
            )
        })?;
        let size = ModelSize { is_network: !tangent.is_linear(), tempering: laboratory.tempering() };
        let (fits, steps) = (num_fits(size), if loss.is_quadratic() { 1.0 } else { USUAL_STEPS });
        let of_one = (examples.len() * loss.num_outputs()) as f64 * (d * d) as f64 / 2.0 + (d as f64).powi(3) / 6.0;
        if fits * steps * of_one > MOST_WORK {
            let hint = if size.tempering == Tempering::Likelihood {
                "sampler.tempering = \"posterior\" needs a fit where \"likelihood\" needs one for each β; or "
            } else {
                ""
            };
            return Err(refused(format!(
                "its {fits:.0} fits of {d} parameters to {} rows would take {:.0e} multiplications, and it stops at {MOST_WORK:.0e}; \
                 {hint}take fewer hidden units or rows, or choose by LPD",
                examples.len(),
                fits * steps * of_one
            )));
        }
        let num_features = (examples.len() * loss.num_outputs()).saturating_mul(d);
        if num_features > MOST_FEATURES {
            return Err(refused(format!(
                "the derivatives of {} rows in {d} parameters are {num_features} numbers, and it stops at {MOST_FEATURES}; take fewer \
                 rows or hidden units, or choose by LPD",
                examples.len()
            )));
        }
        let mut model = Self {
            method,
            loss,
            prior_variance,
            tempering: laboratory.tempering(),
            inputs: Vec::new(),
            training: FeatureRows::default(),
            validation: None,
            start: vec![0.0; d],
            tangent,
            num_visits: AtomicUsize::new(0),
            search_price: 0.0,
            prices: laboratory.prices(),
            warnings: Vec::new(),
        };
        if size.is_network {
            let map = AscentObjective { prior: PriorShare::Once, log_beta: LogBeta::Frozen };
            let searched = laboratory.search(map)?;
            let best = &best_search(method, &searched)?.choice;
            model.search_price = model.prices.search * searched.len() as f64;
            model.warnings.extend(best.not_converged());
            model.start = model.contrasted(&best.position);
            model.validation = Some(model.linearised(laboratory.validation().examples()));
        }
        model.training = model.linearised(examples);
        model.inputs = numbers(examples);
        Ok(model)
    }

    /// Parameters of the laboratory's network as those of this model, whose last layer has an output less where there are classes.
    fn contrasted(&self, position: &[f32]) -> Vec<f64> {
        let (last_at, width) = self.tangent.last_layer();
        let position: Vec<f64> = position.iter().map(|&value| f64::from(value)).collect();
        let (before, last) = position.split_at(last_at);
        // The bias is one more row of the kernel.
        let rows = last.chunks_exact(last.len() / (width + 1));
        before.iter().copied().chain(rows.flat_map(|row| self.loss.contrasted(row))).collect()
    }

    /// Rows as the linear model at `start` sees them.
    fn linearised(&self, examples: &Examples) -> FeatureRows {
        let (q, d) = (self.loss.num_outputs(), self.tangent.num_parameters());
        let mut features = vec![0.0; examples.len() * q * d];
        let mut offsets = Vec::with_capacity(examples.len() * q);
        let inputs = numbers(examples);
        for (input, features) in inputs.chunks_exact(examples.num_features).zip(features.chunks_exact_mut(q * d)) {
            let outputs = self.tangent.linearise(&self.start, input, features);
            offsets.extend(outputs.iter().zip(features.chunks_exact(d)).map(|(f, phi)| f - dot(phi, &self.start)));
        }
        let answers = match &examples.targets {
            Targets::Real(targets) => targets.iter().map(|&target| Answer::Number(f64::from(target))).collect(),
            Targets::Classes(labels) => labels.iter().map(|&label| Answer::Class(label as usize)).collect(),
        };
        FeatureRows { num_outputs: q, num_parameters: d, offsets, features, answers }
    }

    pub fn num_rows(&self) -> usize {
        self.training.len()
    }

    pub fn num_parameters(&self) -> usize {
        self.training.num_parameters
    }

    /// The posterior of all rows, each counted once, with the likelihood to this power.
    pub fn fit_all(&self, likelihood_weight: f64) -> Result<Fit, SelectionError> {
        self.fit(&vec![1.0; self.num_rows()], likelihood_weight, &self.start)
    }

    /// The posterior of weighted rows, from a start.
    pub fn fit(&self, weights: &[f64], likelihood_weight: f64, start: &[f64]) -> Result<Fit, SelectionError> {
        self.fit_energy(weights, Energy { scale: 1.0, likelihood_weight, prior_weight: 1.0 }, start)
    }

    /// The Laplace evidence of all rows under the tempered model at β.
    pub fn log_evidence(&self, inverse_temperature: f64) -> Result<f64, SelectionError> {
        let prior_weight = match self.tempering {
            Tempering::Posterior => inverse_temperature,
            Tempering::Likelihood => 1.0,
        };
        let energy = Energy { scale: inverse_temperature, likelihood_weight: 1.0, prior_weight };
        Ok(self.fit_energy(&vec![1.0; self.num_rows()], energy, &self.start)?.log_evidence)
    }

    fn fit_energy(&self, weights: &[f64], energy: Energy, start: &[f64]) -> Result<Fit, SelectionError> {
        let fit = Fit::new(&self.training, weights, &self.loss, self.prior_variance, energy, start)
            .ok_or_else(|| self.nothing("a fit left the finite numbers; look for extreme inputs or targets"))?;
        self.count_visits(fit.num_visits);
        Ok(fit)
    }

    /// How often each row is drawn when as many rows as there are are drawn with replacement.
    pub fn resampled(&self, seed: u64, sample: u32) -> Vec<f64> {
        let key = NoiseKey { seed, purpose: Purpose::Bootstrap, chain: sample, step: 0 };
        let count = self.num_rows();
        let mut weights = vec![0.0; count];
        for index in 0..count {
            weights[((key.uniform(index as u32) * count as f64) as usize).min(count - 1)] += 1.0;
        }
        weights
    }

    /// Rows that a fit of these weights has not seen: those it left out, or for a network the validation rows.
    pub fn unseen<'m>(&'m self, weights: &'m [f64]) -> (&'m FeatureRows, Vec<usize>) {
        match &self.validation {
            Some(validation) => (validation, (0..validation.len()).collect()),
            None => (&self.training, (0..self.num_rows()).filter(|&row| weights[row] == 0.0).collect()),
        }
    }

    /// Adds to the rows visited.
    pub fn count_visits(&self, rows: usize) {
        self.num_visits.fetch_add(rows, Ordering::Relaxed);
    }

    /// β with what it took: the search, and a gradient for each row visited.
    pub fn selection(&self, goal: Goal, inverse_temperature: f64) -> Selection {
        let row_gradients = self.search_price + self.num_visits.load(Ordering::Relaxed) as f64;
        Selection {
            method: self.method,
            goal,
            inverse_temperature,
            intervals: Vec::new(),
            cost: self.prices.cost(row_gradients),
            warnings: self.warnings.clone(),
        }
    }

    /// An error for answers that are no numbers.
    pub fn nothing(&self, reason: &'static str) -> SelectionError {
        SelectionError::NothingFound { method: self.method, reason: reason.into() }
    }
}

/// Standard normal vectors by name, each with its mirror image, so that their mean is 0.
pub(super) fn normal_vectors(step: u64, count: u32, size: usize) -> Vec<Vec<f64>> {
    let pair = |chain: u32| {
        let mut numbers = vec![0.0f32; size];
        NoiseKey { seed: 0, purpose: Purpose::GaussianDraw, chain, step }.fill_normal(&mut numbers);
        let vector: Vec<f64> = numbers.into_iter().map(f64::from).collect();
        let mirrored = vector.iter().map(|value| -value).collect();
        [vector, mirrored]
    };
    (0..count / 2).flat_map(pair).collect()
}

fn numbers(examples: &Examples) -> Vec<f64> {
    examples.inputs.numbers().iter().map(|&value| f64::from(value)).collect()
}
