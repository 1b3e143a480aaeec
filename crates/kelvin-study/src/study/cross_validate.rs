//! Cross-validation of a run: the same searches and chains with other rows left out, and what every model predicts at those.

use std::sync::Arc;

use kelvin::data::{Split, Targets};
use kelvin::draws::Draws;
use kelvin::likelihood::TargetKind;
use kelvin::predictive::{NumberMixture, Predictive, PredictiveModel};

use crate::error::{ExperimentError, Result, refused};
use crate::experiment::{ChainGroup, Experiment, LinearBaseline, SampledChain, lpd_error};
use crate::findings::{
    CrossValidation, FinishedSearch, FoldPredictions, HeldOutModel, Method, ModelKind, ModelPredictions,
};
use crate::problem::{Problem, Units};
use crate::settings::{DrawsSetting, Settings};

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

/// A fold that was searched and sampled.
pub(crate) struct FinishedFold<'a> {
    pub experiment: &'a Experiment,
    pub searches: &'a [FinishedSearch],
    /// The index in `searches` of the network that was chosen.
    pub chosen: usize,
    /// Chains by temperature, as in the run's own table.
    pub groups: Vec<(Method, ChainGroup<'a>)>,
}

/// Scores every model at all rows that folds held out; none of no folds.
pub(crate) fn cross_validation(main: &Experiment, folds: &[FinishedFold<'_>]) -> Result<Option<CrossValidation>> {
    let predictions: Vec<FoldPredictions> = folds.iter().map(FinishedFold::predictions).collect::<Result<_>>()?;
    let table_std = match &main.problem.table().map(|table| &table.dataset.target) {
        Some(kelvin::data::Target::Real(numbers)) => standard_deviation(numbers),
        _ => 1.0,
    };
    Ok(CrossValidation::of(&predictions, table_std, main.settings.run.folds.is_some()))
}

fn standard_deviation(numbers: &[f64]) -> f64 {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    (numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt()
}

impl FinishedFold<'_> {
    fn predictions(&self) -> Result<FoldPredictions> {
        let problem = &self.experiment.problem;
        let table = problem.table().ok_or_else(|| refused("images have no folds"))?;
        let units = Units::of(problem).unwrap_or(Units { mean: 0.0, std: 1.0 });
        let truths = match &problem.test.targets {
            Targets::Real(numbers) => numbers.iter().map(|&y| units.original(f64::from(y))).collect(),
            Targets::Classes(labels) => labels.iter().map(|&label| f64::from(label)).collect(),
        };
        let mut models: Vec<ModelPredictions> = self.linear(units).into_iter().collect();
        models.extend(self.of_searches(units)?);
        for (method, group) in &self.groups {
            models.extend(of_chains(*method, group, units)?);
        }
        Ok(FoldPredictions {
            rows: table.split.test.clone(),
            truths,
            target_std: units.std,
            beta_star: self.searches[self.chosen].choice.inverse_temperature,
            models,
        })
    }

    fn linear(&self, units: Units) -> Option<ModelPredictions> {
        let Problem { train, validation, test, likelihood, .. } = &*self.experiment.problem;
        let (num_classes, label) = match likelihood.kind() {
            TargetKind::Numbers => (0, "ridge regression"),
            TargetKind::Classes { num_classes } => (num_classes, "logistic regression"),
        };
        let model = LinearBaseline::fit(train, validation, num_classes)?;
        let outputs = model.outputs(test);
        let (points, pit) = match &test.targets {
            Targets::Real(targets) => {
                let below = |(mean, &y): (&f64, &f32)| {
                    let mixture = NumberMixture::normal(&[*mean as f32], model.noise_variance).ok()?;
                    Some(mixture.cumulative(f64::from(y)))
                };
                let pit: Option<Vec<f64>> = outputs.iter().zip(targets).map(below).collect();
                (outputs.iter().map(|&mean| units.original(mean)).collect(), pit?)
            }
            Targets::Classes(_) => (outputs.chunks_exact(num_classes).map(largest).collect(), Vec::new()),
        };
        let what =
            HeldOutModel { kind: ModelKind::Linear, model: PredictiveModel::Standard, beta: None, label: label.into() };
        Some(ModelPredictions { what, log_densities: model.log_densities(test), points, pit, monte_carlo_error: 0.0 })
    }

    /// The chosen network alone, and the networks of all starts as an ensemble, each with the noise or temperature that it found.
    fn of_searches(&self, units: Units) -> Result<Vec<ModelPredictions>> {
        let experiment = self.experiment;
        let point = |search: &FinishedSearch| -> Result<Predictive, ExperimentError> {
            let draws = Draws::of_point(search.choice.weights());
            experiment.predictive(&experiment.test, search.choice.inverse_temperature, [&draws])
        };
        let predictives: Vec<Predictive> = self.searches.iter().map(point).collect::<Result<_, _>>()?;
        let single = std::slice::from_ref(&predictives[self.chosen]);
        let model = PredictiveModel::Tempered;
        let ensemble = format!("deep ensemble of {}", predictives.len());
        Ok(vec![
            averaged(ModelKind::Sgd, model, None, "SGD, one network".into(), single, units)?,
            averaged(ModelKind::Ensemble, model, None, ensemble, &predictives, units)?,
        ])
    }
}

fn largest(values: &[f64]) -> f64 {
    let found = values.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    found.map_or(0.0, |(class, _)| class as f64)
}

/// The draws of chains at one temperature, under the standard model and, where that is another, the tempered one.
fn of_chains(method: Method, group: &ChainGroup<'_>, units: Units) -> Result<Vec<ModelPredictions>> {
    let kind = match method {
        Method::Bayes => ModelKind::Bayes,
        Method::Chosen => ModelKind::Chosen,
        Method::Grid => ModelKind::Grid,
        Method::Sgd => ModelKind::Sgd,
    };
    let beta = (kind != ModelKind::Chosen).then_some(group.inverse_temperature);
    let chains: Vec<&Predictive> =
        group.chains.iter().map(|chain: &&SampledChain| &chain.scores.predictives.test).collect();
    let Some((first, others)) = chains.split_first() else {
        return Err(refused(format!("{} has no chain", group.label)));
    };
    let mut pooled = (*first).clone();
    others.iter().try_for_each(|other| pooled.merge(other)).map_err(ExperimentError::from)?;
    let models =
        if group.inverse_temperature == 1.0 { &PredictiveModel::BOTH[..1] } else { &PredictiveModel::BOTH[..] };
    let errors = if chains.len() > 1 { Some(lpd_error(&chains).map_err(ExperimentError::from)?) } else { None };
    let mut found = Vec::new();
    for &model in models {
        let label = match (models.len(), model) {
            (1, _) => group.label.clone(),
            (_, PredictiveModel::Standard) => format!("{} SM", group.label),
            (_, PredictiveModel::Tempered) => format!("{} TM", group.label),
        };
        let mut own = averaged(kind, model, beta, label, std::slice::from_ref(&pooled), units)?;
        // Of a single chain nothing is known.
        own.monte_carlo_error = errors.as_ref().map_or(0.0, |errors| *errors.get(model));
        found.push(own);
    }
    Ok(found)
}

/// An equal mixture of predictive distributions at the same rows.
fn averaged(
    kind: ModelKind,
    model: PredictiveModel,
    beta: Option<f64>,
    label: String,
    parts: &[Predictive],
    units: Units,
) -> Result<ModelPredictions> {
    let mut log_densities: Vec<Vec<f64>> = Vec::new();
    let (mut points, mut pit, mut votes): (Vec<f64>, Vec<f64>, Vec<f64>) = Default::default();
    let share = 1.0 / parts.len() as f64;
    let add = |sums: &mut Vec<f64>, values: Vec<f64>| {
        sums.resize(values.len(), 0.0);
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += share * value);
    };
    let mut num_classes = 0;
    for part in parts {
        log_densities.push(part.log_densities(model).map_err(ExperimentError::from)?);
        match part {
            Predictive::Regression(numbers) => {
                add(&mut points, numbers.means().map_err(ExperimentError::from)?);
                add(&mut pit, numbers.pit_values(model).map_err(ExperimentError::from)?.values().to_vec());
            }
            Predictive::Classification(classes) => {
                num_classes = classes.num_classes();
                add(&mut votes, classes.probabilities(model).map_err(ExperimentError::from)?);
            }
        }
    }
    if num_classes > 0 {
        points = votes.chunks_exact(num_classes).map(largest).collect();
    } else {
        points.iter_mut().for_each(|mean| *mean = units.original(*mean));
    }
    let mixture = |row: usize| {
        let most = log_densities.iter().map(|own| own[row]).fold(f64::NEG_INFINITY, f64::max);
        most + (log_densities.iter().map(|own| (own[row] - most).exp()).sum::<f64>() * share).ln()
    };
    let log_densities = (0..log_densities[0].len()).map(mixture).collect();
    let what = HeldOutModel { kind, model, beta, label };
    Ok(ModelPredictions { what, log_densities, points, pit, monte_carlo_error: 0.0 })
}
