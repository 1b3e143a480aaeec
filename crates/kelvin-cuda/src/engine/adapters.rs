//! The only place that knows how devices are found and what the engines of tables and of images are called.

use std::sync::Arc;

use kelvin::data::Examples;
use kelvin::network::{Rows, Weights};
use kelvin::potential::Posterior;
use kelvin::sampler::{Chain, EngineError, Motion, Observer, Plan};

use super::Precision;
use crate::device::{Device, DeviceError};

/// Moves populations of one posterior on one device.
pub trait Population {
    /// What [`kelvin::sampler::Engine::run`] promises.
    fn run(
        &mut self,
        motion: Motion<'_>,
        plan: &Plan,
        chains: &mut [Chain],
        observer: &dyn Observer,
    ) -> Result<(), DeviceError>;
}

/// Evaluates draws of one posterior on one device; what the functions of [`kelvin::sampler::Engine`] promise.
pub trait Evaluations: Send {
    /// Outputs of any rows.
    fn outputs(&mut self, examples: &Examples, weights: &[Weights<'_>]) -> Result<Vec<Vec<f32>>, DeviceError>;

    /// Sums and gradients over the posterior's rows.
    fn gradients(
        &mut self,
        positions: &[&[f32]],
        likelihood_weights: &[f64],
        batches: &[Rows<'_>],
    ) -> Result<Vec<(f64, Vec<f32>)>, DeviceError>;

    /// Means and variances of batch norms over the posterior's rows.
    fn batch_statistics(
        &mut self,
        positions: &[&[f32]],
        batches: &[Vec<Rows<'_>>],
    ) -> Result<Vec<Vec<f32>>, DeviceError>;
}

/// All usable GPUs of this machine, at least one.
pub fn devices() -> Result<Vec<Arc<dyn Device>>, DeviceError> {
    // CONNECT: the driver's devices.
    Err(DeviceError::Unavailable { reason: "this build does not know the CUDA driver yet".into() })
}

/// The engine of networks with one hidden layer.
pub fn tables<'p>(
    device: &Arc<dyn Device>,
    posterior: &'p Posterior<'_>,
) -> Result<Box<dyn Population + 'p>, EngineError> {
    // CONNECT: `tables::TableEngine::new(device, posterior)`; `Motion::Sample` is its `sample`, `Motion::Search` its `search`.
    Err(unsupported(device, posterior))
}

/// The engine of all other networks, to move populations.
pub fn images<'p>(
    device: &Arc<dyn Device>,
    posterior: &'p Posterior<'_>,
    precision: Precision,
) -> Result<Box<dyn Population + 'p>, EngineError> {
    // CONNECT: `images::ImageEngine::new(device, posterior, precision)`, as above.
    let _ = precision;
    Err(unsupported(device, posterior))
}

/// The same to evaluate draws.
pub fn evaluations(
    device: &Arc<dyn Device>,
    posterior: &Posterior<'_>,
    precision: Precision,
) -> Result<Box<dyn Evaluations>, EngineError> {
    // CONNECT: `images::ImageEngine::new(device, posterior, precision)`.
    let _ = precision;
    Err(unsupported(device, posterior))
}

fn unsupported(device: &Arc<dyn Device>, posterior: &Posterior<'_>) -> EngineError {
    EngineError::Unsupported {
        engine: device.name(),
        reason: format!("it has no way to run a network of {}; use --device cpu", posterior.network().describe()),
    }
}
