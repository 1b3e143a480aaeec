//! The predictive distribution at each test point, as predictions/NAME.csv: what scores, calibration and comparisons come from.

use crate::error::{Context, Result, refused};
use std::path::Path;

use crate::csv_text::csv_text;
use crate::experiment::Experiment;
use kelvin::data::Targets;
use kelvin::draws::Draws;
use kelvin::predictive::{
    ByModel, ClassificationPredictive, NumberMixture, Predictive, PredictiveModel, RegressionPredictive,
};
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::findings::row_blocks::{RowBlocks, outputs_of_draws};
use crate::problem::{Problem, Units};

/// The probability of the central predictive interval that is written.
const INTERVAL: f64 = 0.9;

/// The predictive distribution at each test point, in the order of the test rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Predictions {
    /// Test points of a regression: those of each target.
    Numbers(Vec<TargetPredictions>),
    /// Test points of a classification.
    Classes(Vec<ClassPrediction>),
}

/// What is predicted of one target at all test points.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetPredictions {
    /// The name of its column; empty where it is the only one.
    pub target: String,
    /// The test points.
    pub points: Vec<NumberPrediction>,
}

/// A number and its predictive distribution, in original units; densities are of standardised units, as LPD is.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberPrediction {
    /// The row of the table, from 0.
    pub row: usize,
    /// The target of this row, in original units.
    pub truth: f64,
    /// The predictive mean, in original units; the standard and the tempered model have the same.
    pub mean: f64,
    /// The predictive standard deviation, in original units.
    pub sd: ByModel<f64>,
    /// The ends of the central 90 % interval; NaN where nobody asked for them, or draws were scored and not stored.
    pub interval: ByModel<(f64, f64)>,
    /// Log predictive density of the truth in nats, of the standardised target; of several targets that of all of the row together.
    pub log_density: ByModel<f64>,
    /// The probability integral transform: the predictive probability of a value below the truth.
    pub pit: ByModel<f64>,
}

/// A class and its predictive probabilities.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassPrediction {
    /// The row of the table, or the test image, from 0.
    pub row: usize,
    /// The true class, from 0.
    pub label: usize,
    /// The most probable class, from 0.
    pub predicted: ByModel<usize>,
    /// Log predictive probability of the true class, in nats.
    pub log_density: ByModel<f64>,
    /// Entropy of the averaged probabilities in nats: the total uncertainty.
    pub entropy: ByModel<f64>,
    /// Mutual information of label and parameters in nats: how much the draws disagree.
    pub information: ByModel<f64>,
    /// Predictive probabilities of the classes, in the order of their labels.
    pub probabilities: ByModel<Vec<f64>>,
}

impl Predictions {
    /// Of draws at the test rows, whose accumulated distribution is `predictive`; intervals are those of `draws`, and there are none
    /// where none are given: quantiles of mixtures are dear.
    ///
    /// # Errors
    /// If the likelihood does not fit the targets, or draws cannot be read or evaluated.
    pub fn of<'d>(
        experiment: &Experiment,
        inverse_temperature: f64,
        predictive: &Predictive,
        draws: impl IntoIterator<Item = &'d Draws>,
    ) -> Result<Self> {
        let problem = &experiment.problem;
        let rows: Vec<usize> = match problem.table() {
            Some(table) => table.split.test.clone(),
            None => (0..problem.test.len()).collect(),
        };
        match (predictive, &problem.test.targets) {
            (Predictive::Regression(predictive), Targets::Real(targets)) => {
                let intervals = intervals(experiment, inverse_temperature, draws)?;
                Ok(Self::Numbers(numbers(problem, &rows, targets, predictive, &intervals)?))
            }
            (Predictive::Classification(predictive), Targets::Classes(labels)) => {
                Ok(Self::Classes(classes(&rows, labels, predictive)?))
            }
            _ => Err(refused("the likelihood does not fit the targets")),
        }
    }

    /// log p̂(y|x) of the truth at each test point, in nats.
    pub fn log_densities(&self, model: PredictiveModel) -> Vec<f64> {
        match self {
            Self::Numbers(targets) => first_target(targets).iter().map(|point| *point.log_density.get(model)).collect(),
            Self::Classes(points) => points.iter().map(|point| *point.log_density.get(model)).collect(),
        }
    }

    /// Which rows they are, with their truths as numbers: two runs can be compared where these are the same.
    pub fn truths(&self) -> Vec<(usize, f64)> {
        match self {
            Self::Numbers(targets) => {
                targets.iter().flat_map(|own| &own.points).map(|point| (point.row, point.truth)).collect()
            }
            Self::Classes(points) => points.iter().map(|point| (point.row, point.label as f64)).collect(),
        }
    }

    /// CSV with one line for each test point; numbers have enough digits to be read back exactly.
    pub fn to_csv(&self) -> String {
        let mut lines = vec![self.header()];
        let line = |cells: Vec<f64>| cells.iter().map(f64::to_string).collect::<Vec<_>>();
        match self {
            Self::Numbers(targets) => {
                lines.extend((0..first_target(targets).len()).map(|at| line(number_cells(targets, at))));
            }
            Self::Classes(points) => lines.extend(points.iter().map(|point| line(point.cells()))),
        }
        csv_text(lines)
    }

    fn header(&self) -> Vec<String> {
        match self {
            Self::Numbers(targets) => number_columns(targets.iter().map(|own| own.target.as_str())),
            Self::Classes(points) => {
                let num_classes = points.first().map_or(0, |point| point.probabilities.standard.len());
                let of_model = |model: &'static str| (0..num_classes).map(move |class| format!("p{class}_{model}"));
                CLASS_COLUMNS.iter().map(|&name| name.to_owned()).chain(of_model("sm")).chain(of_model("tm")).collect()
            }
        }
    }

    /// Reads what [`Predictions::to_csv`] wrote.
    ///
    /// # Errors
    /// If the file cannot be read, or its columns are not those of predictions.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let (header, after) = header_cells(&text);
        let mut rows = Vec::new();
        for (number, line) in text[after..].lines().enumerate() {
            let cells: Result<Vec<f64>, _> = line.split(',').map(str::parse).collect();
            match cells {
                Ok(cells) if cells.len() == header.len() => rows.push(cells),
                _ => {
                    return Err(refused(format!(
                        "{}, line {}: {} numbers wanted, found `{line}`",
                        path.display(),
                        number + 2,
                        header.len()
                    )));
                }
            }
        }
        let num_classes = header.len().saturating_sub(CLASS_COLUMNS.len()) / 2;
        let targets = target_names(&header);
        if header == number_columns(targets.iter().map(String::as_str)) {
            Ok(Self::Numbers(numbers_of_cells(&targets, &rows)))
        } else if num_classes > 0
            && header[..CLASS_COLUMNS.len()] == CLASS_COLUMNS
            && header.len() == CLASS_COLUMNS.len() + 2 * num_classes
        {
            Ok(Self::Classes(rows.iter().map(|cells| ClassPrediction::from_cells(cells, num_classes)).collect()))
        } else {
            Err(refused(format!(
                "{}, line 1: these are not the columns of predictions that kelvin writes",
                path.display()
            )))
        }
    }
}

const NUMBER_COLUMNS: [&str; 13] = [
    "row",
    "truth",
    "mean",
    "sd_sm",
    "sd_tm",
    "low90_sm",
    "high90_sm",
    "low90_tm",
    "high90_tm",
    "log_density_sm",
    "log_density_tm",
    "pit_sm",
    "pit_tm",
];
/// Those of a row, whatever its targets.
const OF_ROW: [&str; 3] = ["row", "log_density_sm", "log_density_tm"];
const CLASS_COLUMNS: [&str; 10] = [
    "row",
    "label",
    "predicted_sm",
    "predicted_tm",
    "log_density_sm",
    "log_density_tm",
    "entropy_sm",
    "entropy_tm",
    "information_sm",
    "information_tm",
];

/// The columns of predictions of these targets: of several, those of each carry its name, and those of the row stand once.
fn number_columns<'t>(targets: impl Iterator<Item = &'t str>) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for target in targets {
        for column in NUMBER_COLUMNS {
            let column = match OF_ROW.contains(&column) || target.is_empty() {
                true => column.to_owned(),
                false => format!("{column}({target})"),
            };
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
    }
    columns
}

/// The targets that a header names; one without a name where it names none.
fn target_names(header: &[String]) -> Vec<String> {
    let named = |column: &String| Some(column.strip_prefix("truth(")?.strip_suffix(')')?.to_owned());
    let found: Vec<String> = header.iter().filter_map(named).collect();
    if found.is_empty() { vec![String::new()] } else { found }
}

/// The cells of a header, of which those with names of columns may be quoted, and where the lines after it begin.
fn header_cells(text: &str) -> (Vec<String>, usize) {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let mut cells = csv::StringRecord::new();
    let is_there = reader.read_record(&mut cells).is_ok_and(|is_there| is_there);
    let after = if is_there { reader.position().byte() as usize } else { text.len() };
    (cells.iter().map(str::to_owned).collect(), after.min(text.len()))
}

fn first_target(targets: &[TargetPredictions]) -> &[NumberPrediction] {
    targets.first().map_or(&[], |own| &own.points)
}

/// The cells of one test point, in the order of [`number_columns`].
fn number_cells(targets: &[TargetPredictions], at: usize) -> Vec<f64> {
    let mut cells = Vec::new();
    for (place, own) in targets.iter().enumerate() {
        let all = own.points[at].cells();
        let is_new = |column: &str| place == 0 || !OF_ROW.contains(&column);
        cells.extend(NUMBER_COLUMNS.iter().zip(all).filter(|(column, _)| is_new(column)).map(|(_, cell)| cell));
    }
    cells
}

/// The points of lines that [`number_cells`] gave.
fn numbers_of_cells(targets: &[String], rows: &[Vec<f64>]) -> Vec<TargetPredictions> {
    let num_first = NUMBER_COLUMNS.len();
    let of_target = |place: usize| {
        let point = |cells: &Vec<f64>| {
            let mut own = cells[..num_first].to_vec();
            let start = num_first + place.saturating_sub(1) * (num_first - OF_ROW.len());
            let mut others = cells[start..].iter();
            for (cell, column) in own.iter_mut().zip(NUMBER_COLUMNS) {
                if place > 0 && !OF_ROW.contains(&column) {
                    *cell = *others.next().unwrap_or(&f64::NAN);
                }
            }
            NumberPrediction::from_cells(&own)
        };
        rows.iter().map(point).collect()
    };
    let named =
        |(place, target): (usize, &String)| TargetPredictions { target: target.clone(), points: of_target(place) };
    targets.iter().enumerate().map(named).collect()
}

impl NumberPrediction {
    fn cells(&self) -> [f64; NUMBER_COLUMNS.len()] {
        let Self { row, truth, mean, sd, interval, log_density, pit } = self;
        let (standard, tempered) = (interval.standard, interval.tempered);
        [
            *row as f64,
            *truth,
            *mean,
            sd.standard,
            sd.tempered,
            standard.0,
            standard.1,
            tempered.0,
            tempered.1,
            log_density.standard,
            log_density.tempered,
            pit.standard,
            pit.tempered,
        ]
    }

    fn from_cells(cells: &[f64]) -> Self {
        let pair = |at: usize| ByModel { standard: cells[at], tempered: cells[at + 1] };
        Self {
            row: cells[0] as usize,
            truth: cells[1],
            mean: cells[2],
            sd: pair(3),
            interval: ByModel { standard: (cells[5], cells[6]), tempered: (cells[7], cells[8]) },
            log_density: pair(9),
            pit: pair(11),
        }
    }
}

impl ClassPrediction {
    fn cells(&self) -> Vec<f64> {
        let Self { row, label, predicted, log_density, entropy, information, probabilities } = self;
        let mut cells = vec![*row as f64, *label as f64, predicted.standard as f64, predicted.tempered as f64];
        for both in [log_density, entropy, information] {
            cells.extend([both.standard, both.tempered]);
        }
        cells.extend(&probabilities.standard);
        cells.extend(&probabilities.tempered);
        cells
    }

    fn from_cells(cells: &[f64], num_classes: usize) -> Self {
        let pair = |at: usize| ByModel { standard: cells[at], tempered: cells[at + 1] };
        let (standard, tempered) = cells[CLASS_COLUMNS.len()..].split_at(num_classes);
        Self {
            row: cells[0] as usize,
            label: cells[1] as usize,
            predicted: ByModel { standard: cells[2] as usize, tempered: cells[3] as usize },
            log_density: pair(4),
            entropy: pair(6),
            information: pair(8),
            probabilities: ByModel { standard: standard.to_vec(), tempered: tempered.to_vec() },
        }
    }
}

/// The ends of the central interval of each target at each test row, in standardised units; NaN where there are no draws to tell.
fn intervals<'d>(
    experiment: &Experiment,
    inverse_temperature: f64,
    draws: impl IntoIterator<Item = &'d Draws>,
) -> Result<Vec<ByModel<(f64, f64)>>> {
    let draws: Vec<&Draws> = draws.into_iter().collect();
    let problem = &experiment.problem;
    let num_targets = problem.likelihood.num_targets();
    if draws.is_empty() || !draws.iter().all(|draws| draws.are_stored()) {
        let unknown = ByModel { standard: (f64::NAN, f64::NAN), tempered: (f64::NAN, f64::NAN) };
        return Ok(vec![unknown; num_targets * experiment.test.num_rows()]);
    }
    let num_draws = draws.iter().map(|draws| draws.len()).sum();
    let model = (&problem.network, problem.likelihood);
    let width = problem.likelihood.num_values();
    let mut intervals = Vec::new();
    for block in RowBlocks::new(&problem.network, problem.likelihood, &problem.test.inputs, num_draws) {
        let outputs = outputs_of_draws(&*experiment.engine, model, &block, draws.iter().copied())?;
        let of_point = |point: usize| {
            let (row, target) = (point / num_targets, point % num_targets);
            by_model(|model| {
                let power = model.power(inverse_temperature);
                let of_row = outputs.iter().map(|outputs| (&outputs[row * width..][..width], power));
                NumberMixture::of_powers(problem.likelihood, target, of_row)?.central_interval(INTERVAL)
            })
        };
        let of_block: Result<Vec<_>, _> = (0..block.len() * num_targets).into_par_iter().map(of_point).collect();
        intervals.extend(of_block?);
    }
    Ok(intervals)
}

fn numbers(
    problem: &Problem,
    rows: &[usize],
    targets: &[f32],
    predictive: &RegressionPredictive,
    intervals: &[ByModel<(f64, f64)>],
) -> Result<Vec<TargetPredictions>> {
    let num_targets = predictive.num_targets();
    let units = problem.target_units();
    let means = predictive.means()?;
    let variances = by_model(|model| predictive.variances(model))?;
    let log_densities = by_model(|model| predictive.log_densities(model))?;
    let pits = by_model(|model| Ok(predictive.pit_values(model)?.values().to_vec()))?;
    let point = |row: usize, target: usize| {
        let at = row * num_targets + target;
        let units = units.get(target).copied().unwrap_or(Units::ORIGINAL);
        let number = |values: &ByModel<Vec<f64>>, at: usize| ByModel::from_fn(|model| values.get(model)[at]);
        let original = |(low, high)| (units.original(low), units.original(high));
        NumberPrediction {
            row: rows[row],
            truth: units.original(f64::from(targets[at])),
            mean: units.original(means[at]),
            sd: ByModel::from_fn(|model| units.std * variances.get(model)[at].sqrt()),
            interval: ByModel::from_fn(|model| original(*intervals[at].get(model))),
            log_density: number(&log_densities, row),
            pit: number(&pits, at),
        }
    };
    let names = problem.table().map_or(&[][..], |table| &table.dataset.target_names);
    let of_target = |target: usize| TargetPredictions {
        target: if num_targets > 1 { names[target].clone() } else { String::new() },
        points: (0..rows.len()).map(|row| point(row, target)).collect(),
    };
    Ok((0..num_targets).map(of_target).collect())
}

fn classes(rows: &[usize], labels: &[u32], predictive: &ClassificationPredictive) -> Result<Vec<ClassPrediction>> {
    let predicted = by_model(|model| predictive.predicted_classes(model))?;
    let log_densities = by_model(|model| predictive.log_densities(model))?;
    let entropies = by_model(|model| predictive.entropies(model))?;
    let informations = by_model(|model| predictive.mutual_informations(model))?;
    let probabilities = by_model(|model| predictive.probabilities(model))?;
    let num_classes = predictive.num_classes();
    let point = |at: usize| {
        let number = |values: &ByModel<Vec<f64>>| ByModel::from_fn(|model| values.get(model)[at]);
        ClassPrediction {
            row: rows[at],
            label: labels[at] as usize,
            predicted: ByModel::from_fn(|model| predicted.get(model)[at] as usize),
            log_density: number(&log_densities),
            entropy: number(&entropies),
            information: number(&informations),
            probabilities: ByModel::from_fn(|model| {
                probabilities.get(model)[at * num_classes..][..num_classes].to_vec()
            }),
        }
    };
    Ok((0..labels.len()).map(point).collect())
}

fn by_model<T>(
    mut of: impl FnMut(PredictiveModel) -> Result<T, kelvin::predictive::PredictiveError>,
) -> Result<ByModel<T>, kelvin::predictive::PredictiveError> {
    Ok(ByModel { standard: of(PredictiveModel::Standard)?, tempered: of(PredictiveModel::Tempered)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(standard: f64, tempered: f64) -> ByModel<f64> {
        ByModel { standard, tempered }
    }

    fn examples() -> [Predictions; 3] {
        let number = NumberPrediction {
            row: 7,
            truth: 0.1 + 0.2,
            mean: -1e-7,
            sd: both(1.0, 2.0),
            interval: ByModel { standard: (-1.0, 1.5), tempered: (-2.0, 2.5) },
            log_density: both(-1.5, f64::NEG_INFINITY),
            pit: both(0.25, 0.5),
        };
        let class = ClassPrediction {
            row: 3,
            label: 1,
            predicted: ByModel { standard: 0, tempered: 1 },
            log_density: both(-0.5, -0.25),
            entropy: both(0.5, 0.25),
            information: both(0.0, 0.1),
            probabilities: ByModel { standard: vec![0.625, 0.375], tempered: vec![0.25, 0.75] },
        };
        let one = TargetPredictions { target: String::new(), points: vec![number.clone()] };
        let named = |target: &str, pit| {
            let points = [7, 9].map(|row| NumberPrediction { row, pit: both(pit, row as f64), ..number.clone() });
            TargetPredictions { target: target.into(), points: points.to_vec() }
        };
        let three = vec![named("a", 0.25), named("b, c", 0.75), named("d", 0.5)];
        [Predictions::Numbers(vec![one]), Predictions::Numbers(three), Predictions::Classes(vec![class])]
    }

    #[test]
    fn predictions_survive_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.csv");
        for predictions in examples() {
            std::fs::write(&path, predictions.to_csv()).unwrap();
            assert_eq!(Predictions::read(&path).unwrap(), predictions);
        }
    }

    #[test]
    fn a_broken_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.csv");
        std::fs::write(&path, examples()[0].to_csv() + "1,2,three\n").unwrap();
        let error = Predictions::read(&path).unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains("1,2,three"), "{error}");
        std::fs::write(&path, "a,b\n").unwrap();
        assert!(Predictions::read(&path).unwrap_err().to_string().contains("line 1"));
    }
}
