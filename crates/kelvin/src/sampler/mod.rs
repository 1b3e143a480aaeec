//! Moves a population of chains: update rules, the loop that runs them, and what it reports.

mod adapted;
mod baoa;
mod baoab;
mod batched_potential;
mod batches;
mod chain;
mod dual_averaging;
mod dynamics;
mod engine;
mod hmc;
mod integrator;
mod joint_ascent;
mod langevin;
mod lockstep;
mod lockstep_look;
mod mass;
mod mclmc;
mod motion;
mod population;
mod rule;
mod sghmc;
mod sgld;
mod sgnht;
mod step_watch;
mod trajectory;
mod warm_up;
#[cfg(test)]
mod worked_steps;

pub use adapted::Adapted;
pub use batched_potential::BatchedPotential;
pub use batches::{BatchSizeError, Batches};
pub use chain::{Chain, ChainState, Divergence};
pub use dynamics::{Coefficients, Conditions};
pub use engine::{CpuEngine, Engine, EngineError, FirstFailure, Floor, evaluated_together};
pub use hmc::{Hmc, HmcRecord};
pub use integrator::Integrator;
pub use joint_ascent::{AscentObjective, ClipScope, JointAscent, LogBeta, PriorShare};
pub use langevin::Langevin;
pub use lockstep::{LockstepObserver, LockstepPlan, run_lockstep};
pub use mass::{LayerwiseMass, MassRule};
pub use motion::Motion;
pub use population::{DrawReading, Keep, Observer, Plan, Silent, run_population};
pub use rule::{Rule, Scratch, StepName};
pub use warm_up::WarmUp;
