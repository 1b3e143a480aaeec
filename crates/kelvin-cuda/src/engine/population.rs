//! What moves a posterior's chains on one device: the engine of small tables or that of any network.

use std::sync::Arc;

use kelvin::likelihood::Likelihood;
use kelvin::network::{Evaluator, Network, Operation, Tensor};
use kelvin::potential::Posterior;
use kelvin::sampler::{Chain, EngineError, Motion, Observer, Plan};

use super::faults::at_fault;
use crate::general::{GeneralEngine, GeneralEngineError, Precision};
use crate::gpu::cuda::CudaDevice;
use crate::gpu::device::{Device, DeviceError};
use crate::tables::{TableEngine, TableError};

/// Moves populations of one posterior on one device.
pub enum Population {
    /// Small dense networks.
    Tables(Box<TableEngine>),
    /// All others that a device has room for.
    General(Arc<GeneralEngine>),
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
            (Self::General(engine), Motion::Sample(rule)) => engine.sample(rule, plan, chains, observer),
            (Self::General(engine), Motion::Search(rule)) => engine.search(rule, plan, chains, observer),
        }
    }
}

/// What of a network the kernels do not have, if anything: a sum as its output.
pub fn unknown_network(network: &Network) -> Option<String> {
    let ends_in_sum = matches!(network.program().operations.last(), Some(Operation::Add { .. }));
    ends_in_sum.then(|| "its kernels have no skip connection to the outputs".to_owned())
}

/// What of a posterior the kernels do not have, if anything.
pub fn unknown_model(posterior: &Posterior) -> Option<String> {
    let remedy = "sample on the CPU (--device cpu)";
    if let Likelihood::Independent { num_targets, .. } = posterior.likelihood() {
        return Some(format!("its kernels have one target a row, and there are {num_targets}; {remedy}"));
    }
    if let Some(Tensor { name, .. }) = posterior.other_tensors().next() {
        return Some(format!("its kernels know a network's parameters alone, and θ also holds `{name}`; {remedy}"));
    }
    if posterior.row_weights().is_some() {
        return Some(format!("its kernels count each row once, and rows have weights; {remedy}"));
    }
    if let Some(reason) = unknown_network(posterior.network()) {
        return Some(format!("{reason}; {remedy}"));
    }
    match posterior.likelihood() {
        Likelihood::Gaussian { .. } | Likelihood::Categorical { .. } => None,
        other => Some(format!("its kernels have no likelihood {other:?}; {remedy}")),
    }
}

/// The engine of tables, where it serves a posterior.
pub fn tables(device: &Arc<dyn Device>, posterior: &Posterior) -> Result<Option<Box<TableEngine>>, EngineError> {
    let is_dense = matches!(posterior.evaluator(), Evaluator::OneHidden(_) | Evaluator::Dense(_));
    if !is_dense || unknown_model(posterior).is_some() {
        return Ok(None);
    }
    match TableEngine::new(Arc::clone(device), posterior) {
        Ok(engine) => Ok(Some(Box::new(engine))),
        Err(TableError::Unsupported { .. }) => Ok(None),
        Err(TableError::Device(error)) => Err(at_fault(&device.name(), error)),
    }
}

/// The engine of any network for a posterior.
pub fn general(
    device: &Arc<dyn Device>,
    posterior: &Posterior,
    precision: Precision,
) -> Result<GeneralEngine, EngineError> {
    if let Some(reason) = unknown_model(posterior) {
        return Err(EngineError::Unsupported { engine: device.name(), reason });
    }
    GeneralEngine::new(Arc::clone(device), posterior, precision).map_err(|error| match error {
        GeneralEngineError::Device(error) => at_fault(&device.name(), error),
        GeneralEngineError::Prior => EngineError::Unsupported { engine: device.name(), reason: error.to_string() },
    })
}

/// All usable GPUs of this machine, at least one.
pub fn devices() -> Result<Vec<Arc<dyn Device>>, DeviceError> {
    let ordinals = 0..CudaDevice::count()?.max(1);
    usable(ordinals.map(|ordinal| Ok(Arc::new(CudaDevice::open(ordinal)?) as Arc<dyn Device>)))
}

/// Those that can be opened: an old or busy one beside them is left out. If none can, why the first cannot.
fn usable<D>(opened: impl Iterator<Item = Result<D, DeviceError>>) -> Result<Vec<D>, DeviceError> {
    let (mut devices, mut first_error) = (Vec::new(), None);
    for device in opened {
        match device {
            Ok(device) => devices.push(device),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    match first_error {
        Some(error) if devices.is_empty() => Err(error),
        _ => Ok(devices),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_cannot_be_opened_is_left_out() {
        let broken = |reason: &str| Err(DeviceError::Failed { doing: "opening", reason: reason.into() });
        assert_eq!(usable([broken("old"), Ok(1), broken("busy"), Ok(3)].into_iter()).unwrap(), [1, 3]);
        let error = usable::<u8>([broken("old"), broken("busy")].into_iter()).unwrap_err();
        assert!(error.to_string().contains("old"), "{error}");
    }
}
