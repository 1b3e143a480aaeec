//! Where an experiment runs: on a GPU where one is asked for or found, else on the CPU.

use std::sync::Arc;

use kelvin::network::{Evaluator, Network};
use kelvin::sampler::{CpuEngine, Engine, EngineError};
use kelvin::vector::{ENVIRONMENT_VARIABLE, Instructions};
use kelvin_study::error::ExperimentError;
use kelvin_study::experiment::Experiment;
use kelvin_study::problem::Problem;
use kelvin_study::settings::Settings;

use crate::arguments::{DeviceArgument, DeviceArguments, PrecisionArgument};
use crate::output::say;
use kelvin_report::text::wrapped;

/// About a GPU that was asked for and cannot be had.
const WHAT_TO_DO: &str = if cfg!(feature = "cuda") {
    "needed: an NVIDIA GPU, its driver (libcuda) and NVRTC (libnvrtc, of the CUDA toolkit)\n  \
     --device cpu runs on the processor"
} else {
    "--device cpu runs on the processor"
};

/// An experiment on the device asked for; where a GPU is there and cannot be used, a line on standard error says why.
pub fn experiment(
    asked: DeviceArguments,
    quiet: bool,
    problem: impl Into<Arc<Problem>>,
    settings: Settings,
) -> anyhow::Result<Experiment> {
    let engine = open(asked, quiet)?;
    let mut experiment = Experiment::on(engine, problem, settings)?;
    match (asked.device, experiment.check_engine()) {
        (_, Ok(())) => {}
        (DeviceArgument::Auto, Err(ExperimentError::Engine(reason @ EngineError::Unsupported { .. }))) => {
            experiment.engine = Arc::new(CpuEngine);
            say_why(quiet, &reason);
        }
        (_, Err(error)) => return Err(error.into()),
    }
    Ok(experiment)
}

/// The engine for predictions of a network; dense ones need no GPU.
pub fn for_predictions(asked: DeviceArguments, network: &Network) -> anyhow::Result<Arc<dyn Engine>> {
    match asked.device {
        DeviceArgument::Auto if !matches!(network.evaluator(), Evaluator::Images(_)) => Ok(Arc::new(CpuEngine)),
        _ => open(asked, false),
    }
}

/// The engine asked for.
pub fn open(asked: DeviceArguments, quiet: bool) -> anyhow::Result<Arc<dyn Engine>> {
    let engine = open_device(asked, quiet)?;
    if !quiet && !engine.moves_chains_together() {
        say_how_slow();
    }
    Ok(engine)
}

/// Says so where the processor runs without vectors.
fn say_how_slow() {
    let used = Instructions::in_use();
    if used != Instructions::Scalar {
        return;
    }
    let why = match Instructions::widest() {
        Instructions::Scalar => "this processor has neither AVX2 with fused multiply-adds nor NEON".to_owned(),
        widest => format!("{ENVIRONMENT_VARIABLE}={used} is set, though this processor has {widest}"),
    };
    say(&wrapped(&format!("note: {why}: numbers are worked on one by one, about ten times slower"), "  "));
}

fn open_device(asked: DeviceArguments, quiet: bool) -> anyhow::Result<Arc<dyn Engine>> {
    match asked.device {
        DeviceArgument::Cpu => Ok(Arc::new(CpuEngine)),
        DeviceArgument::Cuda => {
            gpu(asked.precision).map_err(|reason| anyhow::anyhow!("--device cuda: {reason}\n  {WHAT_TO_DO}"))
        }
        DeviceArgument::Auto => Ok(gpu(asked.precision).unwrap_or_else(|reason| {
            // Nobody misses a GPU that was not there, nor one that this kelvin was built without.
            say_why(quiet || matches!(reason, EngineError::Absent { .. }), &reason);
            Arc::new(CpuEngine)
        })),
    }
}

fn say_why(quiet: bool, reason: &EngineError) {
    if !quiet {
        say(&format!("running on the {}: {reason}\n", CpuEngine.describe()));
    }
}

#[cfg(feature = "cuda")]
fn gpu(asked: PrecisionArgument) -> Result<Arc<dyn Engine>, EngineError> {
    let precision = match asked {
        PrecisionArgument::Bf16 => kelvin_cuda::Precision::Half,
        PrecisionArgument::F32 => kelvin_cuda::Precision::Single,
    };
    Ok(Arc::new(kelvin_cuda::CudaEngine::open(precision)?))
}

#[cfg(not(feature = "cuda"))]
fn gpu(_: PrecisionArgument) -> Result<Arc<dyn Engine>, EngineError> {
    let reason = "this kelvin was built without CUDA; build it with the feature `cuda`, which is on by default \
                  (cargo install --path crates/kelvin-cli)";
    Err(EngineError::Absent { reason: reason.into() })
}
