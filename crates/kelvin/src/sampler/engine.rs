//! Where a population lives and moves, and where its draws are evaluated: the CPU here, a GPU in `kelvin-cuda`.

use std::error::Error as StdError;
use std::sync::Mutex;

use rayon::prelude::*;
use thiserror::Error;

use super::chain::Chain;
use super::motion::Motion;
use super::population::{Observer, Plan, run_population};
use crate::held_out::HeldOut;
use crate::network::{Rows, Weights};
use crate::potential::Posterior;

/// Why an engine did not do what was asked.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The machine has no such device.
    #[error("{reason}")]
    Absent {
        /// What was not found.
        reason: String,
    },
    /// The device cannot be used as it is.
    #[error("{reason}")]
    Unavailable {
        /// What is missing, and what to do.
        reason: String,
    },
    /// An engine that has no way to do that.
    #[error("{engine} cannot do that: {reason}")]
    Unsupported {
        /// Its name.
        engine: String,
        /// What it cannot do, and what to do.
        reason: String,
    },
    /// It failed on the way.
    #[error("{engine} failed: {source}")]
    Failed {
        /// Its name.
        engine: String,
        /// What it said.
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// What a step of one chain takes at least, in seconds, however good the kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// For its multiply-adds.
    pub arithmetic: f64,
    /// For what goes to and from memory.
    pub memory: f64,
}

impl Floor {
    /// The longer of the two, which go on at the same time.
    pub fn seconds(&self) -> f64 {
        self.arithmetic.max(self.memory)
    }

    /// Whether it is memory that a step waits for.
    pub fn is_memory(&self) -> bool {
        self.memory > self.arithmetic
    }
}

/// Where a population of a network's chains lives and moves, and where its draws are evaluated.
///
/// Everything takes several chains or draws at a time: an engine may spread them over threads or make one batch of them.
/// [`run_population`] moves any potential by any rule on the CPU; an engine moves a network's posterior by the rules of [`Motion`].
pub trait Engine: Send + Sync {
    /// For people and provenance: "CPU, 16 threads", "NVIDIA H200".
    fn describe(&self) -> String;

    /// The same with what depends on the posterior: "NVIDIA H200 (bf16)".
    fn describe_for(&self, posterior: &Posterior) -> String {
        let _ = posterior;
        self.describe()
    }

    /// Whether all chains of a population move at the same time on one device, so that the time of one is its share.
    fn moves_chains_together(&self) -> bool {
        false
    }

    /// Whether populations of this posterior can be moved so here; a rule may be one that the CPU alone has.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] says why not.
    fn accepts(&self, posterior: &Posterior, motion: Motion<'_>) -> Result<(), EngineError> {
        let _ = (posterior, motion);
        Ok(())
    }

    /// How so many chains would be arranged, for people: which step together, and what they take. Nothing where there is
    /// nothing to choose.
    fn arrangement(
        &self,
        posterior: &Posterior,
        plan: &Plan,
        num_chains: usize,
    ) -> Result<Option<String>, EngineError> {
        let _ = (posterior, plan, num_chains);
        Ok(None)
    }

    /// What a step of a chain of this posterior takes at least here, over so many rows; nothing where that is not known.
    fn floor(&self, posterior: &Posterior, num_rows: usize) -> Result<Option<Floor>, EngineError> {
        let _ = (posterior, num_rows);
        Ok(None)
    }

    /// Layers that have no kernels for their shape here, and take longer for it, as people know them.
    fn slow_layers(&self, posterior: &Posterior) -> Result<Vec<String>, EngineError> {
        let _ = posterior;
        Ok(Vec::new())
    }

    /// Moves every chain to `plan.num_steps`; a chain that diverges stops and says so, the others go on.
    fn run(
        &self,
        posterior: &Posterior,
        motion: Motion<'_>,
        plan: &Plan,
        chains: &mut [Chain],
        observer: &dyn Observer,
    ) -> Result<(), EngineError>;

    /// Outputs of all held-out rows for each set of weights, row-major, each row followed by the likelihood's own parameters.
    fn outputs(&self, held_out: &HeldOut, weights: &[Weights<'_>]) -> Result<Vec<Vec<f32>>, EngineError>;

    /// For each position and its weight w: Σ log p(y|x,θ) over the batches in training mode, each a batch of its own to
    /// batch norm, and ∇(−log p(θ) − w Σ log p(y|x,θ)).
    fn gradients(
        &self,
        posterior: &Posterior,
        positions: &[&[f32]],
        likelihood_weights: &[f64],
        batches: &[Rows<'_>],
    ) -> Result<Vec<(f64, Vec<f32>)>, EngineError>;

    /// For each position and its batches: means and variances of batch norms, the plain average of those of each batch.
    fn batch_statistics(
        &self,
        posterior: &Posterior,
        positions: &[&[f32]],
        batches: &[Vec<Rows<'_>>],
    ) -> Result<Vec<Vec<f32>>, EngineError>;
}

/// This machine's processor: chains and draws are spread over threads, and results do not depend on their number.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuEngine;

impl Engine for CpuEngine {
    fn describe(&self) -> String {
        match rayon::current_num_threads() {
            1 => "CPU, 1 thread".into(),
            threads => format!("CPU, {threads} threads"),
        }
    }

    fn run(
        &self,
        posterior: &Posterior,
        motion: Motion<'_>,
        plan: &Plan,
        chains: &mut [Chain],
        observer: &dyn Observer,
    ) -> Result<(), EngineError> {
        match motion {
            Motion::Sample(rule) => run_population(posterior, rule, plan, chains, observer),
            Motion::Search(rule) => run_population(posterior, rule, plan, chains, observer),
        }
        Ok(())
    }

    fn outputs(&self, held_out: &HeldOut, weights: &[Weights<'_>]) -> Result<Vec<Vec<f32>>, EngineError> {
        Ok(weights.par_iter().with_max_len(1).map(|&weights| held_out.outputs(weights)).collect())
    }

    fn gradients(
        &self,
        posterior: &Posterior,
        positions: &[&[f32]],
        likelihood_weights: &[f64],
        batches: &[Rows<'_>],
    ) -> Result<Vec<(f64, Vec<f32>)>, EngineError> {
        let evaluated = positions.par_iter().zip(likelihood_weights).with_max_len(1).map(|(position, &weight)| {
            let mut gradient = vec![0.0; position.len()];
            let sum = posterior.workspaces().lend(|_, work| {
                posterior.gradient_over_batches(position, batches.iter().copied(), weight, &mut gradient, work)
            });
            (sum, gradient)
        });
        Ok(evaluated.collect())
    }

    fn batch_statistics(
        &self,
        posterior: &Posterior,
        positions: &[&[f32]],
        batches: &[Vec<Rows<'_>>],
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        let averaged = positions.par_iter().zip(batches).with_max_len(1).map(|(position, batches)| {
            posterior.workspaces().lend(|_, work| posterior.average_statistics(position, batches.iter().copied(), work))
        });
        Ok(averaged.collect())
    }
}

/// The most chains or draws that are evaluated together, and the most bytes of results; more go one lot after the other.
const MOST_TOGETHER: usize = 64;
const MOST_BYTES: usize = 256 << 20;

/// How many chains or draws to evaluate together where each results in so many `f32`.
pub fn evaluated_together(num_results: usize) -> usize {
    (MOST_BYTES / size_of::<f32>() / num_results.max(1)).clamp(1, MOST_TOGETHER)
}

/// The first failure inside an observer, which has nobody to return it to.
#[derive(Debug)]
pub struct FirstFailure<E = EngineError>(Mutex<Option<E>>);

impl<E> Default for FirstFailure<E> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<E> FirstFailure<E> {
    /// What went well; a failure is noted.
    pub fn note<T>(&self, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| _ = self.lock().get_or_insert(error)).ok()
    }

    /// Whether something failed: there is no use in going on.
    pub fn is_noted(&self) -> bool {
        self.lock().is_some()
    }

    /// The failure, if there was one.
    pub fn into_result(self) -> Result<(), E> {
        self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).map_or(Ok(()), Err)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<E>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_results_are_taken_in_smaller_lots() {
        assert_eq!(evaluated_together(0), MOST_TOGETHER);
        assert_eq!(evaluated_together(100_000), MOST_TOGETHER);
        assert_eq!(evaluated_together(10_000_000), 6);
        assert_eq!(evaluated_together(usize::MAX), 1);
    }

    #[test]
    fn the_first_failure_is_the_one_reported() {
        let failure = FirstFailure::<EngineError>::default();
        let failed = |reason: &str| Err::<(), _>(EngineError::Unavailable { reason: reason.into() });
        assert_eq!((failure.note(Ok(3)), failure.is_noted()), (Some(3), false));
        assert_eq!((failure.note(failed("first")), failure.note(failed("second"))), (None, None));
        assert!(failure.is_noted());
        assert_eq!(failure.into_result().unwrap_err().to_string(), "first");
        assert!(FirstFailure::<EngineError>::default().into_result().is_ok());
    }

    #[test]
    fn a_floor_is_the_longer_of_two_times() {
        let floor = |arithmetic, memory| Floor { arithmetic, memory };
        assert_eq!((floor(2.0, 3.5).seconds(), floor(4.0, 3.5).seconds()), (3.5, 4.0));
        assert_eq!(
            [floor(2.0, 3.5), floor(4.0, 3.5), floor(2.0, 2.0)].map(|floor| floor.is_memory()),
            [true, false, false]
        );
    }
}
