//! Fits a table: the run that `kelvin run --data` makes of the same rows and settings, in a folder of its own.

use std::path::PathBuf;
use std::sync::Arc;

use kelvin::data::{Dataset, Split};
use kelvin_report::text::few_names;
use kelvin_report::{cases, present};
use kelvin_study::error::ExperimentError;
use kelvin_study::findings::RunCommand;
use kelvin_study::problem::{Problem, SourceData};
use kelvin_study::study::{Cancel, Outcome, Study, StudyObserver};
use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::conduct::{Conduct, Told, carry_out};
use crate::device::{Device, check_cost, cost};
use crate::error::Failure;
use crate::model::{Model, kind_named};
use crate::request::Request;
use crate::table::{Answers, GivenColumn, dataset, owned};

/// Two rows to learn from, one to choose β by and one to be judged on.
const FEWEST_ROWS: usize = 4;

/// Where to work, and what is to come of it.
struct Place {
    device: Device,
    folder: Option<PathBuf>,
    /// Which of the run's models is to predict, by name.
    model: Option<String>,
}

/// Fits a table and returns the model; `labels` are given with the names of classes, `numbers` (a column for each target, which `targets` may name) without, and `weights` say what rows count for.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the package calls it by keyword")]
#[pyo3(signature = (*, columns, request, device, threads, folder, progress, model=None, numbers=None, targets=None, labels=None, classes=None, weights=None))]
pub fn fit_table(
    py: Python<'_>,
    columns: Vec<GivenColumn<'_>>,
    request: Request,
    device: &str,
    threads: Option<usize>,
    folder: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
    model: Option<String>,
    numbers: Option<PyReadonlyArray2<'_, f64>>,
    targets: Option<Vec<String>>,
    labels: Option<PyReadonlyArray1<'_, u32>>,
    classes: Option<Vec<String>>,
    weights: Option<PyReadonlyArray1<'_, f64>>,
) -> PyResult<Model> {
    let columns = owned(columns);
    let answers = match (numbers, labels) {
        (Some(numbers), _) => {
            let (rows, num_targets) = (numbers.as_array(), numbers.shape()[1]);
            let numbered = || (0..num_targets).map(|number| format!("y{number}")).collect();
            Answers::Numbers(rows.iter().copied().collect(), targets.unwrap_or_else(numbered))
        }
        (None, Some(labels)) => Answers::Classes(labels.as_array().to_vec(), classes.unwrap_or_default()),
        (None, None) => return Err(Failure::question("fit needs numbers or labels to learn").into()),
    };
    let weights = weights.map(|weights| weights.as_array().to_vec());
    // Refused before the fit, and not after it.
    model.as_deref().map(kind_named).transpose()?;
    let place = Place { device: Device::named(device)?, folder, model };
    let conduct = Conduct { threads, progress };
    carry_out(py, conduct, move |cancel, told| {
        let dataset = Dataset { row_weights: weights, ..dataset(&columns, answers)? };
        fit(dataset, &request, place, cancel, told)
    })
}

fn fit(dataset: Dataset, request: &Request, place: Place, cancel: &Cancel, told: &Arc<Told>) -> Result<Model, Failure> {
    let device = place.device.open(told)?;
    notes_of(&dataset).into_iter().for_each(|note| told.note(note));
    let prepared = request.prepare(&dataset)?;
    let settings = prepared.settings;
    let cost = cost(RunCommand::Run, &settings, &SourceData::Table(dataset.clone()))?;
    let problem = match dataset.num_rows() {
        few if few < Split::FEWEST_ROWS => Problem::of_division(dataset, few_rows(few)?, &settings)?,
        _ => Problem::new(dataset, &settings)?,
    };
    let mut experiment = device.experiment(problem, settings, told)?;
    check_cost(&cost, &experiment)?;
    if let Some(time) = prepared.time {
        experiment.spend(2, time)?;
    }
    let own = tempfile::tempdir()?;
    let folder = place.folder.unwrap_or_else(|| own.path().join("run"));
    let study = Study {
        automatic: prepared.automatic,
        folder: Some(folder.clone()),
        observer: Arc::clone(told) as Arc<dyn StudyObserver>,
        cancel: cancel.clone(),
        ..Study::new(RunCommand::Run, experiment)
    };
    let Outcome::Finished(finished) = study.carry_out()? else { return Err(ExperimentError::Interrupted.into()) };
    if folder != own.path().join("run") {
        cases::keep_pictures(&folder, &finished.findings, &finished.problem)?;
        present::write_all(&folder, finished.findings)?;
    }
    Model::read(&folder, place.model)
}

/// What a person should know of how columns were read.
fn notes_of(dataset: &Dataset) -> Vec<String> {
    let mut notes = Vec::new();
    if !dataset.dropped_constant.is_empty() {
        notes.push(format!("left out, since the same in every row: {}", few_names(&dataset.dropped_constant)));
    }
    let told: Vec<String> = dataset.left_out.iter().map(|left| format!("`{}` {}", left.column, left.reason)).collect();
    if !told.is_empty() {
        notes.push(format!("left out: {}", few_names(&told)));
    }
    notes.extend(dataset.notes.iter().cloned());
    notes
}

/// The division of too few rows to be divided at random: the last is tested, the one before it is for choosing β.
fn few_rows(num_rows: usize) -> Result<Split, Failure> {
    if num_rows < FEWEST_ROWS {
        return Err(Failure::question(format!(
            "{num_rows} rows are too few: at least {FEWEST_ROWS} are needed, of which two are held out\n  add rows"
        )));
    }
    let last = num_rows - 1;
    Ok(Split { train: (0..last - 1).collect(), val: vec![last - 1], test: vec![last] })
}
