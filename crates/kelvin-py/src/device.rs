//! The engine that a device's name stands for.

use std::sync::Arc;

use kelvin::sampler::{CpuEngine, Engine, EngineError};
use kelvin_study::error::ExperimentError;
use kelvin_study::experiment::Experiment;
use kelvin_study::findings::RunCommand;
use kelvin_study::problem::{Problem, SourceData};
use kelvin_study::settings::Settings;
use kelvin_study::study::{Cost, Worker, Workload};

use crate::conduct::Told;
use crate::error::Failure;

/// Where to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// A GPU where one is found and can do it, else the processor.
    Auto,
    /// The processor.
    Cpu,
    /// A GPU, or an error.
    Cuda,
}

impl Device {
    /// The device of a name.
    pub fn named(name: &str) -> Result<Self, Failure> {
        match name {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            other => Err(Failure::question(format!("device must be \"auto\", \"cpu\" or \"cuda\", got {other:?}"))),
        }
    }

    /// Its engine, asked for before any work: what is missing is told at once.
    pub fn open(self, told: &Told) -> Result<Opened, Failure> {
        let engine = self.engine(told)?;
        Ok(Opened { device: self, engine })
    }

    fn engine(self, told: &Told) -> Result<Arc<dyn Engine>, Failure> {
        if self == Self::Cpu {
            return Ok(Arc::new(CpuEngine));
        }
        match gpu() {
            Ok(engine) => Ok(engine),
            Err(reason) if self == Self::Auto => {
                // Nobody misses a GPU that was not there.
                if !matches!(reason, EngineError::Absent { .. }) {
                    told.note(format!("running on the processor: {reason}"));
                }
                Ok(Arc::new(CpuEngine))
            }
            Err(reason) => Err(Failure::other(format!(
                "device=\"cuda\": {reason}\n  needed: an NVIDIA GPU, its driver (libcuda) and NVRTC (libnvrtc, of the CUDA \
                 toolkit)\n  device=\"cpu\" runs on the processor"
            ))),
        }
    }
}

/// A device that is there.
pub struct Opened {
    device: Device,
    engine: Arc<dyn Engine>,
}

impl Opened {
    /// An experiment on this device; where a GPU was not insisted on and cannot run it, the processor does.
    pub fn experiment(self, problem: Problem, settings: Settings, told: &Told) -> Result<Experiment, Failure> {
        let mut experiment = Experiment::on(self.engine, problem, settings)?;
        match (self.device, experiment.check_engine()) {
            (_, Ok(())) => {}
            (Device::Auto, Err(ExperimentError::Engine(reason @ EngineError::Unsupported { .. }))) => {
                experiment.engine = Arc::new(CpuEngine);
                told.note(format!("running on the processor: {reason}"));
            }
            (_, Err(error)) => return Err(error.into()),
        }
        Ok(experiment)
    }
}

/// What a study costs, to be told from its data before they are taken.
pub fn cost(command: RunCommand, settings: &Settings, data: &SourceData) -> Result<Cost, Failure> {
    Ok(Cost::of(&Workload::Study(command), settings, data, false)?)
}

/// Refuses what would take more hours than `run.most_hours`, before anything long is begun.
pub fn check_cost(cost: &Cost, experiment: &Experiment) -> Result<(), Failure> {
    let worker = match experiment.engine.moves_chains_together() {
        true => Worker::Gpu,
        false => Worker::Cores(rayon::current_num_threads()),
    };
    Ok(cost.check(worker, experiment.settings.run.most_hours)?)
}

#[cfg(feature = "cuda")]
fn gpu() -> Result<Arc<dyn Engine>, EngineError> {
    Ok(Arc::new(kelvin_cuda::CudaEngine::open(kelvin_cuda::Precision::Half)?))
}

#[cfg(not(feature = "cuda"))]
fn gpu() -> Result<Arc<dyn Engine>, EngineError> {
    Err(EngineError::Absent { reason: "this kelvin was built without CUDA".into() })
}
