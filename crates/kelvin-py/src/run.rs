//! `kelvin.run`: a preset or a file of settings, in a run folder as `kelvin run` writes it.

use std::path::PathBuf;
use std::sync::Arc;

use kelvin_report::{cases, present};
use kelvin_study::error::{ExperimentError, resume_command};
use kelvin_study::findings::RunCommand;
use kelvin_study::problem::Problem;
use kelvin_study::study::{Outcome, Study, StudyObserver};
use pyo3::prelude::*;

use crate::conduct::{Conduct, carry_out};
use crate::device::{Device, check_cost, cost};
use crate::request::Request;

/// Carries out a run, with or without its grid, or goes on with what its folder holds of it; the path of the folder.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the package calls it by keyword")]
#[pyo3(signature = (*, name, request, grid, device, threads, folder, data_folder, progress))]
pub fn run_experiment(
    py: Python<'_>,
    name: String,
    request: Request,
    grid: bool,
    device: &str,
    threads: Option<usize>,
    folder: Option<PathBuf>,
    data_folder: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PathBuf> {
    let device = Device::named(device)?;
    let command = if grid { RunCommand::RunGrid } else { RunCommand::Run };
    carry_out(py, Conduct { threads, progress }, move |cancel, told| {
        let device = device.open(told)?;
        let (prepared, data) = request.prepare_named(&name, data_folder.as_deref())?;
        let cost = cost(command, &prepared.settings, &data)?;
        let problem = Problem::new(data, &prepared.settings)?;
        let mut experiment = device.experiment(problem, prepared.settings, told)?;
        check_cost(&cost, &experiment)?;
        if let Some(time) = prepared.time {
            let temperatures = 2 + if grid { experiment.settings.run.grid.len() } else { 0 };
            experiment.spend(temperatures, time)?;
        }
        let study = Study {
            automatic: prepared.automatic,
            folder,
            data_folder,
            observer: Arc::clone(told) as Arc<dyn StudyObserver>,
            cancel: cancel.clone(),
            ..Study::new(command, experiment)
        };
        let study = study.open()?;
        let path = study.folder().to_path_buf();
        let Outcome::Finished(finished) = study.carry_out()? else {
            told.note(format!("stopped; `{}` goes on from there, and so does the same call", resume_command(&path)));
            return Err(ExperimentError::Interrupted.into());
        };
        cases::keep_pictures(&path, &finished.findings, &finished.problem)?;
        present::write_all(&path, finished.findings)?;
        Ok(path)
    })
}
