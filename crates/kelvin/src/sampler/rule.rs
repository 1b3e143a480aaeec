//! The contract of an update rule: one step of one chain.

use super::adapted::LookScratch;
use super::batches::{Batches, RowStore};
use super::chain::{Chain, Divergence};
use super::trajectory::TrajectoryStart;
use crate::network::Layout;
use crate::potential::Potential;

/// Names a step's random numbers and rows.
#[derive(Clone, Copy, Debug)]
pub struct StepName {
    /// The run's seed.
    pub seed: u64,
    /// How epochs are cut.
    pub batches: Batches,
}

/// What a step writes to on the way; made once for each chain, so that steps allocate nothing.
pub struct Scratch<W> {
    pub(super) layout: Layout,
    pub(super) gradient: Vec<f32>,
    /// The step whose gradient `gradient` is, with its norm, where the next step can begin with it.
    pub(super) gradient_of: Option<(u64, f64)>,
    pub(super) noise: Vec<f32>,
    pub(super) rows: RowStore,
    pub(super) work: W,
    /// Σ m²/M of each tensor after the last step; zero for rules without momentum.
    pub(super) kinetic: Vec<f64>,
    /// The masses being estimated, one for each tensor.
    pub(super) mass: Vec<f64>,
    /// What looks of a warm-up write to; made at the first.
    pub(super) look: Option<Box<LookScratch>>,
    /// Where a trajectory began that may be rejected; made at the first.
    pub(super) start: Option<Box<TrajectoryStart>>,
}

impl<W> Scratch<W> {
    /// Scratch for a chain of this potential, which may have several threads to itself.
    pub fn new<P: Potential<Workspace = W>>(potential: &P, has_threads_to_spare: bool) -> Self {
        let layout = potential.layout();
        Self {
            gradient: vec![0.0; layout.len()],
            gradient_of: None,
            noise: vec![0.0; layout.len()],
            rows: RowStore::default(),
            work: if has_threads_to_spare { potential.workspace_over_threads() } else { potential.workspace() },
            kinetic: vec![0.0; layout.tensors().len()],
            mass: vec![0.0; layout.tensors().len()],
            look: None,
            start: None,
            layout,
        }
    }
}

/// A way to move a chain by one step. Samplers and optimisers differ here and nowhere else.
pub trait Rule<P: Potential>: Sync {
    /// Moves the chain; its step counter has not been advanced yet.
    fn step(
        &self,
        potential: &P,
        name: &StepName,
        chain: &mut Chain,
        scratch: &mut Scratch<P::Workspace>,
    ) -> Result<(), Divergence>;

    /// Whether the momentum has a temperature worth measuring.
    fn has_momentum_temperature(&self) -> bool {
        false
    }
}
