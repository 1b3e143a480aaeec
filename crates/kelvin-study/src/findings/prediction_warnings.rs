//! What may be wrong with predictions at held-out rows: chains that disagree, intervals that do not hold, densities worse than none.

use kelvin::diagnostics::{Limits, Stated, Warning};
use kelvin::draws::Draws;
use kelvin::likelihood::TargetKind;
use kelvin::potential::Potential;
use kelvin::predictive::{BaseRate, PitValues, PredictionAgreement, PredictiveModel};

use crate::error::{ExperimentError, Result};
use crate::experiment::{ChainGroup, Experiment};
use crate::findings::predictions::{Predictions, TargetPredictions};
use crate::findings::row::Row;

/// Draws of larger networks are not evaluated once more for R̂ of predictions.
const MOST_PARAMETERS: usize = 10_000;

/// Whether the chains of one temperature predict the same at the test rows; nothing of images and large networks, of draws that were
/// not stored, and of chains too short to tell.
pub(crate) fn agreement_warning(experiment: &Experiment, group: &ChainGroup<'_>) -> Result<Option<Warning>> {
    let sound = group.chains.iter().filter(|chain| chain.chain.divergence.is_none());
    let chains: Vec<&Draws> = sound.map(|chain| &chain.draws).collect();
    let is_small = experiment.problem.table().is_some() && experiment.posterior.dim() <= MOST_PARAMETERS;
    if !is_small || chains.len() < 2 || !chains.iter().all(|draws| draws.are_stored()) {
        return Ok(None);
    }
    let likelihood = experiment.problem.likelihood;
    let found =
        PredictionAgreement::of_draws::<ExperimentError>(&*experiment.engine, likelihood, &experiment.test, &chains)?;
    Ok(found.and_then(|PredictionAgreement { median_rhat, worst_rhat, num_rows }| {
        Limits::default().check_predictions(&group.label, median_rhat, worst_rhat, num_rows)
    }))
}

/// What the test rows say about the predictions of a row: their coverage under the model that `predict` takes, and both that model
/// and TM beside a prediction that ignores the inputs.
pub(crate) fn prediction_warnings(
    experiment: &Experiment,
    row: &Row,
    predictions: &Predictions,
) -> Result<Vec<Warning>> {
    let lpd = row.validation.lpd();
    let taken = if lpd.standard > lpd.tempered { PredictiveModel::Standard } else { PredictiveModel::Tempered };
    let label = |model| match model {
        PredictiveModel::Standard => format!("{} (SM)", row.label),
        PredictiveModel::Tempered => format!("{} (TM)", row.label),
    };
    let limits = Limits::default();
    let mut warnings = Vec::new();
    if let Predictions::Numbers(targets) = predictions {
        for TargetPredictions { target, points } in targets {
            let values = PitValues::new(points.iter().map(|point| *point.pit.get(taken)).collect());
            let values = values.map_err(ExperimentError::from)?;
            let (worst_interval, worst_quantile) = (values.worst_interval(), values.worst_quantile());
            let label = if target.is_empty() { label(taken) } else { format!("{}, `{target}`", label(taken)) };
            let check = |stated, worst| limits.check_coverage(&label, stated, worst, points.len());
            let off = check(Stated::CentralInterval, worst_interval);
            warnings.extend(off.or_else(|| check(Stated::Quantile, worst_quantile)));
        }
    }
    let problem = &experiment.problem;
    let are_classes = problem.likelihood.kind() != TargetKind::Numbers;
    let base = BaseRate::of(&problem.train.targets, problem.likelihood)
        .and_then(|base| base.log_densities(&problem.test.targets))
        .unwrap_or_default();
    for model in PredictiveModel::BOTH {
        let densities = predictions.log_densities(model);
        if (model == taken || model == PredictiveModel::Tempered) && densities.len() == base.len() {
            warnings.extend(limits.check_base_rate(&label(model), &densities, &base, are_classes));
        }
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::predictions::NumberPrediction;
    use crate::problem::Problem;
    use crate::settings::preset;
    use kelvin::predictive::ByModel;

    /// Concrete's 103 test rows, with a small network.
    fn experiment() -> Experiment {
        let mut settings = preset("concrete").unwrap().settings();
        settings.model.hidden = Some(vec![8]);
        let problem = Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap();
        Experiment::new(problem, settings).unwrap()
    }

    /// SM: flat PIT values and a density like that of the truth. TM: PIT values from 0.4 to 0.6, and the density given.
    fn predictions(tempered_density: f64) -> Predictions {
        let point = |row: usize| NumberPrediction {
            row,
            truth: 0.0,
            mean: 0.0,
            sd: ByModel { standard: 1.0, tempered: 1.0 },
            interval: ByModel { standard: (0.0, 0.0), tempered: (0.0, 0.0) },
            log_density: ByModel { standard: 0.5, tempered: tempered_density },
            pit: ByModel::from_fn(|model| match model {
                PredictiveModel::Standard => (row as f64 + 0.5) / 103.0,
                PredictiveModel::Tempered => 0.4 + 0.2 * (row as f64 + 0.5) / 103.0,
            }),
        };
        let points = (0..103).map(point).collect();
        Predictions::Numbers(vec![TargetPredictions { target: String::new(), points }])
    }

    fn row(validation_sm: f64, validation_tm: f64) -> Row {
        let scores = |lpd_sm: f64, lpd_tm: f64| serde_json::json!({"regression": {"standard": {"lpd": lpd_sm}, "tempered": {"lpd": lpd_tm}}});
        let row = serde_json::json!({
            "method": "chosen", "label": "β̂*", "repetition": null, "beta": 2.0, "num_draws": 100, "seconds": 1.0,
            "validation": scores(validation_sm, validation_tm), "test": scores(0.0, 0.0), "measured": null,
        });
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn what_predict_takes_is_looked_at_and_the_tempered_density_in_any_case() {
        let experiment = experiment();
        let raised = |row: &Row, density| -> Vec<String> {
            let warnings = prediction_warnings(&experiment, row, &predictions(density)).unwrap();
            warnings.iter().map(|warning| format!("{}: {}", warning.name(), warning.seen())).collect()
        };
        assert_eq!(raised(&row(-1.0, -2.0), 0.5), [""; 0]);
        let [worse] = &raised(&row(-1.0, -2.0), -43.6)[..] else { panic!("SM is taken, and TM is worse than nothing") };
        assert!(worse.starts_with("worse than base rate: held-out LPD of β̂* (TM) is -43.6"), "{worse}");
        let [off] = &raised(&row(-2.0, -1.0), 0.5)[..] else { panic!("all targets are in the 20 % intervals of TM") };
        assert!(off.starts_with("coverage off: the 20 % intervals of β̂* (TM) hold 100 % of the 103"), "{off}");
        assert_eq!(raised(&row(-2.0, -1.0), -43.6).len(), 2);
    }
}
