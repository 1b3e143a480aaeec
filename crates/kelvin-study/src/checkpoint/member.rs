//! One chain in a checkpoint: its state, its averages, its divergence, and what it has chosen so far.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use kelvin::diagnostics::KineticTemperature;
use kelvin::sampler::{Chain, ChainState, Divergence};
use kelvin::selection::JointChoice;

/// A chain with what belongs to it: borrowed to be written, owned once it is read. A new field needs a new format number.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Member<'a> {
    temperature: f64,
    state: Cow<'a, ChainState>,
    kinetic_all: Averages<'a>,
    kinetic_kept: Averages<'a>,
    divergence: Option<Divergence>,
    /// Draws kept so far.
    pub num_draws: u64,
    /// Time spent on it so far.
    pub seconds: f64,
    /// The best of a search so far.
    pub choice: Option<Cow<'a, JointChoice>>,
    /// What the draws of a sampled chain predict so far.
    pub scores: Cow<'a, [Vec<f64>]>,
    /// What was measured at its draws, where these are not stored.
    pub series: [Cow<'a, [f64]>; 3],
}

/// Means of each tensor over so many readings.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Averages<'a> {
    tensor_means: Cow<'a, [f64]>,
    num_readings: u64,
}

impl<'a> Averages<'a> {
    fn of(kinetic: &'a KineticTemperature) -> Self {
        Self { tensor_means: kinetic.tensor_means().into(), num_readings: kinetic.num_readings() }
    }

    fn restore(&self, tensor_sizes: &[usize]) -> Option<KineticTemperature> {
        KineticTemperature::from_means(tensor_sizes, &self.tensor_means, self.num_readings)
    }
}

impl<'a> Member<'a> {
    /// A search on which so much time was spent, with the best it has seen.
    pub fn of_search(chain: &'a Chain, seconds: f64, choice: Option<&'a JointChoice>) -> Self {
        Self { choice: choice.map(Cow::Borrowed), ..Self::of(chain, seconds) }
    }

    /// A sampled chain on which so much time was spent, with what its draws predict and what was measured at them.
    pub fn of_sampled(
        chain: &'a Chain,
        seconds: f64,
        num_draws: usize,
        scores: &'a [Vec<f64>],
        series: [&'a [f64]; 3],
    ) -> Self {
        let (scores, series) = (Cow::Borrowed(scores), series.map(Cow::Borrowed));
        Self { num_draws: num_draws as u64, scores, series, ..Self::of(chain, seconds) }
    }

    fn of(chain: &'a Chain, seconds: f64) -> Self {
        Self {
            temperature: chain.temperature.value(),
            state: Cow::Borrowed(&chain.state),
            kinetic_all: Averages::of(&chain.kinetic_all),
            kinetic_kept: Averages::of(&chain.kinetic_kept),
            divergence: chain.divergence,
            num_draws: 0,
            seconds,
            choice: None,
            scores: Cow::default(),
            series: [Cow::default(), Cow::default(), Cow::default()],
        }
    }

    /// Whether what it has chosen is a place on its path.
    pub fn has_seen_its_choice(&self) -> bool {
        self.choice.as_ref().is_none_or(|choice| choice.best < choice.path.len())
    }

    /// The chain as it was, given the same chain at its start; `None` where it is another's.
    pub fn restore(&self, start: &Chain) -> Option<Chain> {
        let same = self.temperature == start.temperature.value()
            && self.state.position.len() == start.state.position.len()
            && self.state.momentum.len() == start.state.momentum.len()
            && self.state.mass.len() == start.state.mass.len()
            && self.choice.as_ref().is_none_or(|choice| choice.position.len() == start.state.position.len());
        let sizes = start.kinetic_all.tensor_sizes();
        same.then_some(Chain {
            id: start.id,
            temperature: start.temperature,
            state: self.state.clone().into_owned(),
            kinetic_all: self.kinetic_all.restore(sizes)?,
            kinetic_kept: self.kinetic_kept.restore(sizes)?,
            divergence: self.divergence,
        })
    }
}
