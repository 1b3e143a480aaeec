//! What moves a posterior's chains on one device: the engine of tables or that of images.

use std::sync::Arc;

use kelvin::network::Evaluator;
use kelvin::potential::Posterior;
use kelvin::sampler::{Chain, EngineError, Motion, Observer, Plan};

use super::at_fault;
use crate::cuda::CudaDevice;
use crate::device::{Device, DeviceError};
use crate::images::{ImageEngine, ImageEngineError, Precision};
use crate::tables::{TableEngine, TableError};

/// Moves populations of one posterior on one device.
pub enum Population {
    /// Networks with one hidden layer.
    Tables(TableEngine),
    /// All others that a device has room for.
    Images(Arc<ImageEngine>),
}

impl Population {
    /// What [`kelvin::sampler::Engine::run`] promises.
    pub fn run(
        &self,
        motion: Motion<'_>,
        plan: &Plan,
        chains: &mut [Chain],
        observer: &dyn Observer,
    ) -> Result<(), DeviceError> {
        match (self, motion) {
            (Self::Tables(engine), Motion::Sample(rule)) => engine.sample(rule, plan, chains, observer),
            (Self::Tables(engine), Motion::Search(rule)) => engine.search(rule, plan, chains, observer),
            (Self::Images(engine), Motion::Sample(rule)) => engine.sample(rule, plan, chains, observer),
            (Self::Images(engine), Motion::Search(rule)) => engine.search(rule, plan, chains, observer),
        }
    }
}

/// The engine of tables, where it serves a posterior.
pub fn tables(device: &Arc<dyn Device>, posterior: &Posterior<'_>) -> Result<Option<TableEngine>, EngineError> {
    if !matches!(posterior.evaluator(), Evaluator::OneHidden(_)) {
        return Ok(None);
    }
    match TableEngine::new(Arc::clone(device), posterior) {
        Ok(engine) => Ok(Some(engine)),
        Err(TableError::Unsupported { .. }) => Ok(None),
        Err(TableError::Device(error)) => Err(at_fault(&device.name(), error)),
    }
}

/// The engine of images for a posterior.
pub fn images(
    device: &Arc<dyn Device>,
    posterior: &Posterior<'_>,
    precision: Precision,
) -> Result<ImageEngine, EngineError> {
    ImageEngine::new(Arc::clone(device), posterior, precision).map_err(|error| match error {
        ImageEngineError::Device(error) => at_fault(&device.name(), error),
        ImageEngineError::Prior => EngineError::Unsupported { engine: device.name(), reason: error.to_string() },
    })
}

/// All usable GPUs of this machine, at least one.
pub fn devices() -> Result<Vec<Arc<dyn Device>>, DeviceError> {
    let mut devices: Vec<Arc<dyn Device>> = Vec::new();
    for ordinal in 0..CudaDevice::count()?.max(1) {
        devices.push(Arc::new(CudaDevice::open(ordinal)?));
    }
    Ok(devices)
}
