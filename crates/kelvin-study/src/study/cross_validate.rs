//! Cross-validation of a run: the same searches and chains with other rows left out, and what every model predicts at those.

use std::sync::Arc;

use kelvin::data::{Dataset, Split, Target};

use crate::error::{ExperimentError, Result, refused};
use crate::experiment::Experiment;
use crate::findings::{CrossValidation, FoldPredictions, HeldOutModel, JudgedOn, Predicting};
use crate::settings::{DrawsSetting, Settings};
use crate::study::held_out_models::{FinishedPart, HeldOutRows};

/// How a run's folds or repeated splits divide its rows; none where the settings ask for none.
pub(crate) fn splits(main: &Experiment) -> Result<Vec<Split>> {
    let Some(table) = main.problem.table() else { return Ok(Vec::new()) };
    let (num_rows, run) = (table.dataset.num_rows(), &main.settings.run);
    Ok(match (run.folds, run.splits) {
        (Some(folds), _) => Split::folds(num_rows, run.seed, folds as usize).map_err(ExperimentError::from)?,
        (None, Some(splits)) => (1..=u64::from(splits))
            .map(|repetition| Split::repeated(num_rows, run.seed, repetition))
            .collect::<Result<_, _>>()
            .map_err(ExperimentError::from)?,
        (None, None) => Vec::new(),
    })
}

/// The experiments of a run's folds or repeated splits; none where the settings ask for none. Their draws are scored and not stored.
pub(crate) fn fold_experiments(main: &Experiment) -> Result<Vec<Experiment>> {
    let settings = Settings {
        sampler: crate::settings::SamplerSettings { draws: DrawsSetting::Scored, ..main.settings.sampler.clone() },
        ..main.settings.clone()
    };
    let mut experiments = Vec::new();
    for split in splits(main)? {
        let problem = main.problem.divided(split, &settings)?.ok_or_else(|| refused("images have no folds"))?;
        experiments.push(Experiment::on(Arc::clone(&main.engine), problem, settings.clone())?);
    }
    Ok(experiments)
}

/// Scores every model at all rows that folds held out, and chooses the one that predicts: by those rows or, of no folds, by the run's own validation
/// rows. None of both for images.
pub(crate) fn judged(
    own: &FinishedPart<'_>,
    folds: &[FinishedPart<'_>],
) -> Result<(Option<CrossValidation>, Option<Predicting>)> {
    let Some(table) = own.experiment.problem.table() else { return Ok((None, None)) };
    let mut predictions: Vec<FoldPredictions> =
        folds.iter().map(|fold| fold.predictions(HeldOutRows::Test)).collect::<Result<_>>()?;
    keep_common(&mut predictions);
    let table_stds = standard_deviations(&table.dataset);
    let is_complete = own.experiment.settings.run.folds.is_some();
    let found = CrossValidation::of(&predictions, &table_stds, is_complete);
    let predicting = match (folds.is_empty(), is_complete) {
        (true, _) => {
            let validation = [own.predictions(HeldOutRows::Validation)?];
            Predicting::of(&validation, &table_stds, JudgedOn::Validation)
        }
        (false, true) => Predicting::of(&predictions, &table_stds, JudgedOn::Folds),
        (false, false) => Predicting::of(&predictions, &table_stds, JudgedOn::Splits),
    };
    Ok((found, predicting))
}

/// Leaves out models that some fold could not fit: the same are to stand in every fold.
fn keep_common(folds: &mut [FoldPredictions]) {
    let of_fold = |fold: &FoldPredictions| fold.models.iter().map(|model| model.what.clone()).collect::<Vec<_>>();
    let all: Vec<Vec<HeldOutModel>> = folds.iter().map(of_fold).collect();
    for fold in folds {
        fold.models.retain(|model| all.iter().all(|models| models.contains(&model.what)));
    }
}

/// The standard deviation of each target over all rows; 1 for classes.
pub(crate) fn standard_deviations(dataset: &Dataset) -> Vec<f64> {
    let Target::Real(numbers) = &dataset.target else { return vec![1.0] };
    let n = dataset.num_rows() as f64;
    let of_target = |target: usize| {
        let numbers = || numbers.iter().skip(target).step_by(dataset.num_targets());
        let mean = numbers().sum::<f64>() / n;
        (numbers().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt()
    };
    (0..dataset.num_targets()).map(of_target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{ModelKind, ModelPredictions};
    use kelvin::predictive::PredictiveModel;

    #[test]
    fn a_model_that_one_fold_lacks_is_left_out_of_all() {
        let fold = |kinds: &[ModelKind]| FoldPredictions {
            rows: vec![0],
            truths: vec![0.0],
            target_stds: vec![1.0],
            beta_star: 1.0,
            models: kinds
                .iter()
                .map(|&kind| ModelPredictions {
                    what: HeldOutModel { kind, model: PredictiveModel::Standard, beta: None, label: String::new() },
                    log_densities: vec![0.0],
                    points: vec![0.0],
                    pit: vec![0.5],
                    monte_carlo_error: 0.0,
                })
                .collect(),
        };
        let (linear, bayes) = (ModelKind::Linear, ModelKind::Bayes);
        let mut folds = [fold(&[linear, bayes]), fold(&[bayes])];
        keep_common(&mut folds);
        for fold in &folds {
            assert_eq!(fold.models.iter().map(|model| model.what.kind).collect::<Vec<_>>(), [bayes]);
        }
    }
}
