//! Cross-validation of a run: the same searches and chains with other rows left out, and what every model predicts at those.

use std::sync::Arc;

use kelvin::data::Split;

use crate::error::{ExperimentError, Result, refused};
use crate::experiment::Experiment;
use crate::findings::{CrossValidation, FoldPredictions, JudgedOn, Predicting};
use crate::settings::{DrawsSetting, Settings};
use crate::study::held_out_models::{FinishedPart, HeldOutRows};

/// The experiments of a run's folds or repeated splits; none where the settings ask for none. Their draws are scored and not stored.
pub(crate) fn fold_experiments(main: &Experiment) -> Result<Vec<Experiment>> {
    let settings = Settings {
        sampler: crate::settings::SamplerSettings { draws: DrawsSetting::Scored, ..main.settings.sampler.clone() },
        ..main.settings.clone()
    };
    let Some(table) = main.problem.table() else { return Ok(Vec::new()) };
    let (num_rows, run) = (table.dataset.num_rows(), &settings.run);
    let splits = match (run.folds, run.splits) {
        (Some(folds), _) => Split::folds(num_rows, run.seed, folds as usize).map_err(ExperimentError::from)?,
        (None, Some(splits)) => (1..=u64::from(splits))
            .map(|repetition| Split::repeated(num_rows, run.seed, repetition))
            .collect::<Result<_, _>>()
            .map_err(ExperimentError::from)?,
        (None, None) => Vec::new(),
    };
    let mut experiments = Vec::new();
    for split in splits {
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
    let predictions: Vec<FoldPredictions> =
        folds.iter().map(|fold| fold.predictions(HeldOutRows::Test)).collect::<Result<_>>()?;
    let table_std = match &table.dataset.target {
        kelvin::data::Target::Real(numbers) => standard_deviation(numbers),
        kelvin::data::Target::Classes { .. } => 1.0,
    };
    let is_complete = own.experiment.settings.run.folds.is_some();
    let found = CrossValidation::of(&predictions, table_std, is_complete);
    let predicting = match (folds.is_empty(), is_complete) {
        (true, _) => {
            let validation = [own.predictions(HeldOutRows::Validation)?];
            Predicting::of(&validation, table_std, JudgedOn::Validation)
        }
        (false, true) => Predicting::of(&predictions, table_std, JudgedOn::Folds),
        (false, false) => Predicting::of(&predictions, table_std, JudgedOn::Splits),
    };
    Ok((found, predicting))
}

fn standard_deviation(numbers: &[f64]) -> f64 {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    (numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt()
}
