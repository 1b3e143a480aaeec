//! What a device's fault means to who runs an experiment, and what to do about it.

use std::error::Error;

use kelvin::sampler::EngineError;

use crate::gpu::device::DeviceError;

/// The engine's words for a fault of a device, with what to do.
pub(crate) fn at_fault(name: &str, error: DeviceError) -> EngineError {
    let failed = |source: Box<dyn Error + Send + Sync>| EngineError::Failed { engine: name.to_owned(), source };
    match error {
        DeviceError::Absent { .. } => EngineError::Absent { reason: error.to_string() },
        DeviceError::Unavailable { .. } => EngineError::Unavailable { reason: error.to_string() },
        DeviceError::OutOfMemory { .. } => {
            failed(format!("{error}; run fewer chains, take smaller batches, or free what other programs hold").into())
        }
        DeviceError::Failed { .. } => {
            failed(format!("{error}; run again, and if it fails again without the GPU (--device cpu)").into())
        }
        DeviceError::Compile { .. } => failed(error.into()),
    }
}
