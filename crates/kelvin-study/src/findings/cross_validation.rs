//! Cross-validation: every row predicted by chains that have not seen it, and whether two models can be told apart there.
//!
//! ```text
//! row error           sd of the rows' differences / √rows: how much other rows might have changed the answer
//! Monte-Carlo error   jackknife over chains, fold by fold: how much more draws might change it
//! better, worse       the difference is at least two standard errors of both together; else it cannot be told
//! ```

use std::collections::BTreeMap;

use kelvin::predictive::PredictiveModel;
use serde::{Deserialize, Serialize};

/// A difference that is this many standard errors away from 0 counts as seen; by chance one in twenty does.
const SEEN: f64 = 2.0;
/// The probability of the central intervals whose coverage is reported.
const INTERVAL: f64 = 0.9;

/// How predictions were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// Ridge regression, or logistic regression.
    Linear,
    /// The network that the search found: a single one.
    Sgd,
    /// The networks that the searches from all starts found, averaged: a deep ensemble.
    Ensemble,
    /// The network that the search found, with a Gaussian over the weights of its last layer.
    Laplace,
    /// A Gaussian over the weights that the optimiser passes through after the search (SWAG).
    Swag,
    /// Draws at β = 1.
    Bayes,
    /// Draws at the β that the search chose.
    Chosen,
    /// Draws at a β of the grid.
    Grid,
}

/// Predictions that are scored: how they were made, and under which model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOutModel {
    /// How they were made.
    pub kind: ModelKind,
    /// Standard or tempered; at β = 1 and for linear models they are one.
    pub model: PredictiveModel,
    /// The inverse temperature, where it is the same in every fold.
    pub beta: Option<f64>,
    /// What people see in tables.
    pub label: String,
}

/// What one model predicts at the rows that a fold holds out.
pub(crate) struct ModelPredictions {
    pub what: HeldOutModel,
    /// Of each row's answers, in standardised units.
    pub log_densities: Vec<f64>,
    /// The predictive mean of each row's targets in original units, or the most probable class.
    pub points: Vec<f64>,
    /// The predictive probability of a value below each answer; empty for classes.
    pub pit: Vec<f64>,
    /// Of the mean log density, between chains.
    pub monte_carlo_error: f64,
}

/// One fold, or one of several splits.
pub(crate) struct FoldPredictions {
    /// The rows of the table that it holds out.
    pub rows: Vec<usize>,
    /// Their answers in original units, all of a row side by side, or their classes.
    pub truths: Vec<f64>,
    /// What each of its targets was divided by; 1 for classes.
    pub target_stds: Vec<f64>,
    /// β̂* of the fold.
    pub beta_star: f64,
    /// The same models in every fold.
    pub models: Vec<ModelPredictions>,
}

/// Scores of every model over all rows that were held out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossValidation {
    /// Folds, or repeated splits.
    pub divisions: usize,
    /// Whether each row was held out once; random splits hold out some rows several times and others never.
    pub is_complete: bool,
    /// Rows that were held out at least once.
    pub num_rows: usize,
    /// β̂* of each fold.
    pub betas: Vec<f64>,
    /// A line for each model.
    pub models: Vec<ModelScores>,
    /// Each other model minus β = 1.
    pub differences: Vec<ModelDifference>,
}

/// The scores of one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelScores {
    /// Which model.
    pub what: HeldOutModel,
    /// Mean log predictive density of a row in nats; numbers in units of the table's standard deviations.
    pub lpd: f64,
    /// Its standard error over rows.
    pub row_error: f64,
    /// Its Monte-Carlo standard error.
    pub monte_carlo_error: f64,
    /// Root mean squared error in the target's own units; none for classes, and of several targets.
    pub rmse: Option<f64>,
    /// Mean absolute error in the target's own units; none for classes, and of several targets.
    pub mae: Option<f64>,
    /// Share of rows whose most probable class is right; none for numbers.
    pub accuracy: Option<f64>,
    /// Share of rows inside their central 90 % interval; none for classes. Of several targets the mean of their shares.
    pub coverage: Option<f64>,
    /// The scores of each of several targets, in their order; empty where there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetScores>,
}

/// How well one of several targets is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetScores {
    /// Root mean squared error in the target's own units.
    pub rmse: f64,
    /// Mean absolute error in the target's own units.
    pub mae: f64,
    /// Share of rows inside their central 90 % interval.
    pub coverage: f64,
}

/// Whether one model predicts better than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// By at least two standard errors.
    Better,
    /// By at least two standard errors.
    Worse,
    /// The difference is inside two standard errors.
    CannotTell,
}

/// The LPD of one model minus that of another, row by row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelDifference {
    /// The model.
    pub of: HeldOutModel,
    /// The one it is compared with.
    pub from: HeldOutModel,
    /// Mean difference of a row in nats.
    pub mean: f64,
    /// Its standard error over rows.
    pub row_error: f64,
    /// Its Monte-Carlo standard error.
    pub monte_carlo_error: f64,
    /// What can be said of it.
    pub told: Told,
}

impl ModelDifference {
    fn new(of: &HeldOutModel, from: &HeldOutModel, mean: f64, row_error: f64, monte_carlo_error: f64) -> Self {
        let error = row_error.hypot(monte_carlo_error);
        let told = match mean {
            mean if mean >= SEEN * error && mean > 0.0 => Told::Better,
            mean if mean <= -SEEN * error && mean < 0.0 => Told::Worse,
            _ => Told::CannotTell,
        };
        Self { of: of.clone(), from: from.clone(), mean, row_error, monte_carlo_error, told }
    }

    /// The standard error over rows and draws together.
    pub fn standard_error(&self) -> f64 {
        self.row_error.hypot(self.monte_carlo_error)
    }

    /// How many times as many rows would decide a difference of this size, with draws enough; none where more draws alone would, or
    /// the difference is no more than rounding.
    pub fn rows_wanted(&self) -> Option<f64> {
        let factor = (SEEN * self.row_error / self.mean).powi(2);
        (self.told == Told::CannotTell && factor > 1.0 && factor.is_finite()).then_some(factor)
    }

    /// How many times as many draws would bring the Monte-Carlo error down to where it does not matter beside the rows', or
    /// decides the difference; none where it already is.
    pub fn draws_wanted(&self) -> Option<f64> {
        let bearable = (0.5 * self.row_error).max(0.5 * (self.mean.abs() / SEEN));
        let factor = (self.monte_carlo_error / bearable).powi(2);
        (self.told == Told::CannotTell && factor > 1.0 && factor.is_finite()).then_some(factor)
    }
}

/// Numbers of rows, averaged over the folds that held a row out.
#[derive(Default)]
struct ByRow(BTreeMap<usize, (f64, f64)>);

impl ByRow {
    fn add(&mut self, row: usize, value: f64) {
        let (sum, count) = self.0.entry(row).or_default();
        *sum += value;
        *count += 1.0;
    }

    /// The mean over rows, with its standard error.
    fn mean_and_error(&self) -> (f64, f64) {
        let values = || self.0.values().map(|(sum, count)| sum / count);
        let n = self.0.len() as f64;
        let mean = values().sum::<f64>() / n;
        let squares: f64 = values().map(|value| (value - mean).powi(2)).sum();
        (mean, (squares / (n - 1.0) / n).sqrt())
    }
}

impl CrossValidation {
    /// Of all folds; `table_stds` are the standard deviations of the targets over all rows, 1 for classes. None of no folds.
    pub(crate) fn of(folds: &[FoldPredictions], table_stds: &[f64], is_complete: bool) -> Option<Self> {
        let first = folds.first()?;
        let scores = |index: usize| Self::scores(folds, index, table_stds);
        let models: Vec<ModelScores> = (0..first.models.len()).map(scores).collect();
        let one = first.models.iter().position(|model| model.what.kind == ModelKind::Bayes)?;
        let others = (0..first.models.len()).filter(|&index| index != one);
        let mut rows: Vec<usize> = folds.iter().flat_map(|fold| fold.rows.iter().copied()).collect();
        rows.sort_unstable();
        rows.dedup();
        Some(Self {
            divisions: folds.len(),
            is_complete,
            num_rows: rows.len(),
            betas: folds.iter().map(|fold| fold.beta_star).collect(),
            differences: others.map(|index| Self::difference(folds, index, one)).collect(),
            models,
        })
    }

    pub(super) fn scores(folds: &[FoldPredictions], index: usize, table_stds: &[f64]) -> ModelScores {
        let (mut densities, mut right) = (ByRow::default(), ByRow::default());
        let num_targets = table_stds.len();
        let mut of_targets: Vec<[ByRow; 3]> = (0..num_targets).map(|_| Default::default()).collect();
        let is_classes = folds.iter().all(|fold| fold.models[index].pit.is_empty());
        for fold in folds {
            let model = &fold.models[index];
            let scale: f64 = table_stds.iter().zip(&fold.target_stds).map(|(table, fold)| (table / fold).ln()).sum();
            for (place, &row) in fold.rows.iter().enumerate() {
                densities.add(row, model.log_densities[place] + scale);
                for (target, [squares, distances, inside]) in of_targets.iter_mut().enumerate() {
                    let point = place * num_targets + target;
                    let error = model.points[point] - fold.truths[point];
                    if is_classes {
                        right.add(row, f64::from(u8::from(error == 0.0)));
                    } else {
                        squares.add(row, error * error);
                        distances.add(row, error.abs());
                        inside.add(row, f64::from(u8::from((model.pit[point] - 0.5).abs() <= 0.5 * INTERVAL)));
                    }
                }
            }
        }
        let (lpd, row_error) = densities.mean_and_error();
        let mean = |rows: &ByRow| rows.mean_and_error().0;
        let of_target = |[squares, distances, inside]: &[ByRow; 3]| TargetScores {
            rmse: mean(squares).sqrt(),
            mae: mean(distances),
            coverage: mean(inside),
        };
        let of_targets: Vec<TargetScores> =
            if is_classes { Vec::new() } else { of_targets.iter().map(of_target).collect() };
        let coverages = || of_targets.iter().map(|own| own.coverage);
        let only = if let [own] = of_targets[..] { Some(own) } else { None };
        ModelScores {
            what: folds[0].models[index].what.clone(),
            lpd,
            row_error,
            monte_carlo_error: monte_carlo_error(folds, |fold| fold.models[index].monte_carlo_error),
            rmse: only.map(|own| own.rmse),
            mae: only.map(|own| own.mae),
            accuracy: is_classes.then(|| mean(&right)),
            coverage: (!is_classes).then(|| coverages().sum::<f64>() / num_targets as f64),
            targets: if only.is_some() { Vec::new() } else { of_targets },
        }
    }

    pub(super) fn difference(folds: &[FoldPredictions], of: usize, from: usize) -> ModelDifference {
        let mut rows = ByRow::default();
        for fold in folds {
            let pairs = fold.models[of].log_densities.iter().zip(&fold.models[from].log_densities);
            fold.rows.iter().zip(pairs).for_each(|(&row, (a, b))| rows.add(row, a - b));
        }
        let (mean, row_error) = rows.mean_and_error();
        let chains =
            |fold: &FoldPredictions| fold.models[of].monte_carlo_error.hypot(fold.models[from].monte_carlo_error);
        let what = |index: usize| &folds[0].models[index].what;
        ModelDifference::new(what(of), what(from), mean, row_error, monte_carlo_error(folds, chains))
    }

    /// The Monte-Carlo error of a model's LPD over all folds.
    pub(super) fn monte_carlo_error(folds: &[FoldPredictions], of: usize) -> f64 {
        monte_carlo_error(folds, |fold| fold.models[of].monte_carlo_error)
    }

    /// The scores of the model of this kind that has the larger LPD: standard or tempered.
    pub fn best_of(&self, kind: ModelKind) -> Option<&ModelScores> {
        let own = self.models.iter().filter(|scores| scores.what.kind == kind);
        own.max_by(|a, b| a.lpd.total_cmp(&b.lpd))
    }

    /// How a model compares with β = 1.
    pub fn difference_of(&self, what: &HeldOutModel) -> Option<&ModelDifference> {
        self.differences.iter().find(|difference| difference.of == *what)
    }
}

/// Folds are independent, and count by their rows.
fn monte_carlo_error(folds: &[FoldPredictions], error: impl Fn(&FoldPredictions) -> f64) -> f64 {
    let total: usize = folds.iter().map(|fold| fold.rows.len()).sum();
    let share = |fold: &FoldPredictions| fold.rows.len() as f64 / total as f64;
    folds.iter().map(|fold| (share(fold) * error(fold)).powi(2)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(kind: ModelKind) -> HeldOutModel {
        HeldOutModel { kind, model: PredictiveModel::Standard, beta: None, label: format!("{kind:?}") }
    }

    fn model(kind: ModelKind, log_densities: &[f64], points: &[f64], error: f64) -> ModelPredictions {
        let pit = points.iter().map(|_| 0.97).collect();
        ModelPredictions {
            what: what(kind),
            log_densities: log_densities.into(),
            points: points.into(),
            pit,
            monte_carlo_error: error,
        }
    }

    fn fold(rows: &[usize], target_std: f64, chosen: &[f64], bayes: &[f64]) -> FoldPredictions {
        let points: Vec<f64> = rows.iter().map(|&row| row as f64 + 1.0).collect();
        FoldPredictions {
            rows: rows.into(),
            truths: rows.iter().map(|&row| row as f64).collect(),
            target_stds: vec![target_std],
            beta_star: 0.1,
            models: vec![
                model(ModelKind::Bayes, bayes, &points, 0.03),
                model(ModelKind::Chosen, chosen, &points, 0.04),
            ],
        }
    }

    #[test]
    fn scores_and_differences_worked_by_hand() {
        let folds = [fold(&[0, 1], 2.0, &[0.0, 1.0], &[-1.0, -1.0]), fold(&[2, 3], 1.0, &[0.0, 1.0], &[-1.0, -1.0])];
        let found = CrossValidation::of(&folds, &[2.0], true).unwrap();
        assert_eq!((found.num_rows, found.divisions, found.betas.len()), (4, 2, 2));
        let chosen = found.best_of(ModelKind::Chosen).unwrap();
        // Densities 0 and 1 in units of 2, and 0 and 1 in units of 1 where the table's unit is 2.
        assert!((chosen.lpd - (0.5 + 0.5 * 2f64.ln())).abs() < 1e-12);
        assert_eq!(
            (chosen.rmse, chosen.mae, chosen.coverage, chosen.accuracy),
            (Some(1.0), Some(1.0), Some(0.0), None)
        );
        // Differences 1, 2, 1, 2: mean 1.5, sd √(1/3), error √(1/12); between chains 0.05 a fold, halved twice.
        let difference = found.difference_of(&what(ModelKind::Chosen)).unwrap();
        assert!((difference.mean - 1.5).abs() < 1e-12);
        assert!((difference.row_error - (1.0_f64 / 12.0).sqrt()).abs() < 1e-12);
        assert!((difference.monte_carlo_error - 0.05 / 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(difference.told, Told::Better);
    }

    /// Two rows of two targets, whose units are 2 and 5 in the fold and 4 and 5 in the table: errors 1 and 1, then 3 and 1.
    #[test]
    fn targets_have_scores_of_their_own_and_one_density() {
        let own = model(ModelKind::Bayes, &[0.5, 1.5], &[1.0, 4.0, 1.0, 1.0], 0.0);
        let models = vec![ModelPredictions { pit: vec![0.5, 0.97, 0.5, 0.5], ..own }];
        let truths = vec![0.0, 1.0, 0.0, 0.0];
        let fold = FoldPredictions { rows: vec![0, 1], truths, target_stds: vec![2.0, 5.0], beta_star: 1.0, models };
        let found = CrossValidation::of(&[fold], &[4.0, 5.0], true).unwrap().models.remove(0);
        assert!((found.lpd - (1.0 + 2f64.ln())).abs() < 1e-12);
        assert_eq!((found.rmse, found.mae, found.accuracy, found.coverage), (None, None, None, Some(0.75)));
        let expected = [
            TargetScores { rmse: 1.0, mae: 1.0, coverage: 1.0 },
            TargetScores { rmse: 5f64.sqrt(), mae: 2.0, coverage: 0.5 },
        ];
        for (found, expected) in found.targets.iter().zip(expected) {
            let close = (found.rmse - expected.rmse).abs() < 1e-12;
            assert!(close && (found.mae, found.coverage) == (expected.mae, expected.coverage), "{found:?}");
        }
        assert_eq!(found.targets.len(), 2);
    }

    #[test]
    fn rows_that_come_twice_count_once() {
        let folds = [fold(&[7, 1], 1.0, &[1.0, 0.0], &[0.0, 0.0]), fold(&[7, 2], 1.0, &[3.0, 4.0], &[0.0, 0.0])];
        let found = CrossValidation::of(&folds, &[1.0], false).unwrap();
        assert_eq!(found.num_rows, 3);
        // Rows 1, 2 and 7 differ by 0, 4 and 2.
        assert!((found.differences[0].mean - 2.0).abs() < 1e-12);
        assert!((found.differences[0].row_error - 2.0 / 3f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn two_standard_errors_decide_and_what_would_is_said() {
        let told = |mean, rows, chains| {
            ModelDifference::new(&what(ModelKind::Chosen), &what(ModelKind::Bayes), mean, rows, chains)
        };
        assert_eq!(told(0.2, 0.06, 0.08).told, Told::Better);
        assert_eq!(told(-0.2, 0.06, 0.08).told, Told::Worse);
        let rows = told(0.1, 0.1, 0.01);
        assert_eq!((rows.told, rows.draws_wanted()), (Told::CannotTell, None));
        assert!((rows.rows_wanted().unwrap() - 4.0).abs() < 1e-12);
        let draws = told(0.19, 0.06, 0.08);
        assert_eq!((draws.told, draws.rows_wanted()), (Told::CannotTell, None));
        assert!(draws.draws_wanted().unwrap() > 1.0);
        assert_eq!(told(0.0, 0.0, 0.0).told, Told::CannotTell);
    }
}
