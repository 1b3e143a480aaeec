//! What each model of a division predicts at rows that it has not learned from: linear regression, networks, Gaussians around them, chains.

use kelvin::data::Targets;
use kelvin::draws::Draws;
use kelvin::held_out::HeldOut;
use kelvin::likelihood::TargetKind;
use kelvin::predictive::{NumberMixture, Predictive, PredictiveModel};

use crate::error::{ExperimentError, Result, refused};
use crate::experiment::{Baselines, ChainGroup, Experiment, SampledChain, lpd_error};
use crate::findings::{FinishedSearch, FoldPredictions, HeldOutModel, Method, ModelKind, ModelPredictions};
use crate::problem::{Units, in_units};

/// A division of the rows that was searched and sampled: the run's own, or a fold.
pub(crate) struct FinishedPart<'a> {
    pub experiment: &'a Experiment,
    pub searches: &'a [FinishedSearch],
    /// The index in `searches` of the network that was chosen.
    pub chosen: usize,
    /// Chains by temperature, as in the run's own table.
    pub groups: Vec<(Method, ChainGroup<'a>)>,
    /// β̂* of these rows.
    pub beta: f64,
    /// Simpler models of the same rows.
    pub baselines: Baselines,
}

/// Rows of a division that its chains have not learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldOutRows {
    /// Those that β was chosen on.
    Validation,
    /// Those that nothing has seen.
    Test,
}

/// Baselines that are draws of the network's weights.
pub(crate) fn of_weights(baselines: &Baselines) -> impl Iterator<Item = (ModelKind, &Draws)> {
    let all = [(ModelKind::Laplace, &baselines.last_layer), (ModelKind::Swag, &baselines.swag)];
    all.into_iter().filter_map(|(kind, draws)| Some((kind, draws.as_ref()?)))
}

/// Predictions of models at rows that an experiment holds out, with what is true there.
pub(crate) fn fold_predictions(
    experiment: &Experiment,
    rows: HeldOutRows,
    beta_star: f64,
    models: Vec<ModelPredictions>,
) -> Result<FoldPredictions> {
    let table = experiment.problem.table().ok_or_else(|| refused("images have no folds"))?;
    let units = units_of(experiment);
    let truths = match &rows.of(experiment).examples().targets {
        Targets::Real(numbers) => in_units(&units, numbers.iter().map(|&y| f64::from(y))),
        Targets::Classes(labels) => labels.iter().map(|&label| f64::from(label)).collect(),
    };
    let rows = match rows {
        HeldOutRows::Validation => table.split.val.clone(),
        HeldOutRows::Test => table.split.test.clone(),
    };
    let target_stds = units.iter().map(|units| units.std).collect();
    Ok(FoldPredictions { rows, truths, target_stds, beta_star, models })
}

/// The units of each target; those of classes are 1.
pub(crate) fn units_of(experiment: &Experiment) -> Vec<Units> {
    let units = experiment.problem.target_units();
    if units.is_empty() { vec![Units::ORIGINAL] } else { units }
}

impl HeldOutRows {
    pub(crate) fn of(self, experiment: &Experiment) -> &HeldOut {
        match self {
            Self::Validation => &experiment.validation,
            Self::Test => &experiment.test,
        }
    }
}

/// Ridge or logistic regression, as a model of the tables.
pub(crate) fn linear_model(kind: TargetKind) -> HeldOutModel {
    let label = match kind {
        TargetKind::Numbers => "ridge regression",
        TargetKind::Classes { .. } => "logistic regression",
    };
    HeldOutModel { kind: ModelKind::Linear, model: PredictiveModel::Standard, beta: None, label: label.into() }
}

/// The network that was chosen, and those of all starts together.
pub(crate) fn networks(num_starts: usize) -> [HeldOutModel; 2] {
    let of = |kind, label| HeldOutModel { kind, model: PredictiveModel::Tempered, beta: None, label };
    [of(ModelKind::Sgd, "SGD, one network".into()), of(ModelKind::Ensemble, format!("deep ensemble of {num_starts}"))]
}

/// A Gaussian over weights around the network that was chosen.
pub(crate) fn around_network(kind: ModelKind) -> HeldOutModel {
    let label = if kind == ModelKind::Swag { "SWAG" } else { "last-layer Laplace" };
    HeldOutModel { kind, model: PredictiveModel::Tempered, beta: None, label: label.into() }
}

impl<'a> FinishedPart<'a> {
    /// A part with its baselines, which are fitted here.
    pub fn new(
        experiment: &'a Experiment,
        searches: &'a [FinishedSearch],
        chosen: usize,
        groups: Vec<(Method, ChainGroup<'a>)>,
        beta: f64,
    ) -> Result<Self> {
        let baselines = Baselines::fit(experiment, &searches[chosen].choice)?;
        Ok(Self { experiment, searches, chosen, groups, beta, baselines })
    }

    /// What every model predicts at rows that were held out.
    pub fn predictions(&self, rows: HeldOutRows) -> Result<FoldPredictions> {
        let units = units_of(self.experiment);
        let mut models: Vec<ModelPredictions> = self.linear(rows, &units).into_iter().collect();
        models.extend(self.of_searches(rows, &units)?);
        models.extend(self.of_baselines(rows, &units)?);
        for (method, group) in &self.groups {
            models.extend(of_chains(*method, group, rows, self.experiment)?);
        }
        fold_predictions(self.experiment, rows, self.beta, models)
    }

    fn linear(&self, rows: HeldOutRows, units: &[Units]) -> Option<ModelPredictions> {
        let model = self.baselines.linear.as_ref()?;
        let rows = rows.of(self.experiment).examples();
        let outputs = model.outputs(rows);
        let (points, pit) = match &rows.targets {
            Targets::Real(targets) => {
                let below = |((mean, &y), &noise_variance): ((&f64, &f32), &f64)| {
                    let mixture = NumberMixture::normal(&[*mean as f32], noise_variance).ok()?;
                    Some(mixture.cumulative(f64::from(y)))
                };
                let variances = model.noise_variances.iter().cycle();
                let pit: Option<Vec<f64>> = outputs.iter().zip(targets).zip(variances).map(below).collect();
                (in_units(units, outputs.iter().copied()), pit?)
            }
            Targets::Classes(_) => (outputs.chunks_exact(model.num_outputs()).map(largest).collect(), Vec::new()),
        };
        let what = linear_model(self.experiment.problem.likelihood.kind());
        Some(ModelPredictions { what, log_densities: model.log_densities(rows), points, pit, monte_carlo_error: 0.0 })
    }

    /// Gaussians over weights around the chosen network, each with the noise or temperature that the search found.
    fn of_baselines(&self, rows: HeldOutRows, units: &[Units]) -> Result<Vec<ModelPredictions>> {
        let beta = self.searches[self.chosen].choice.inverse_temperature;
        let mut found = Vec::new();
        for (kind, draws) in of_weights(&self.baselines) {
            let predictive = [self.experiment.predictive(rows.of(self.experiment), beta, [draws])?];
            let HeldOutModel { model, label, .. } = around_network(kind);
            found.push(averaged(kind, model, None, label, &predictive, units)?);
        }
        Ok(found)
    }

    /// The chosen network alone, and the networks of all starts as an ensemble, each with the noise or temperature that it found.
    fn of_searches(&self, rows: HeldOutRows, units: &[Units]) -> Result<Vec<ModelPredictions>> {
        let experiment = self.experiment;
        let point = |search: &FinishedSearch| -> Result<Predictive, ExperimentError> {
            let draws = Draws::of_point(search.choice.weights());
            experiment.predictive(rows.of(experiment), search.choice.inverse_temperature, [&draws])
        };
        let predictives: Vec<Predictive> = self.searches.iter().map(point).collect::<Result<_, _>>()?;
        let single = std::slice::from_ref(&predictives[self.chosen]);
        let [network, ensemble] = networks(predictives.len());
        Ok(vec![
            averaged(network.kind, network.model, None, network.label, single, units)?,
            averaged(ensemble.kind, ensemble.model, None, ensemble.label, &predictives, units)?,
        ])
    }
}

fn largest(values: &[f64]) -> f64 {
    let found = values.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    found.map_or(0.0, |(class, _)| class as f64)
}

/// The draws of chains at one temperature, under the standard model and, where that is another, the tempered one.
pub(crate) fn of_chains(
    method: Method,
    group: &ChainGroup<'_>,
    rows: HeldOutRows,
    experiment: &Experiment,
) -> Result<Vec<ModelPredictions>> {
    let units = units_of(experiment);
    let kind = match method {
        Method::Bayes => ModelKind::Bayes,
        Method::Chosen => ModelKind::Chosen,
        Method::Grid => ModelKind::Grid,
        Method::Sgd => ModelKind::Sgd,
    };
    let beta = (kind != ModelKind::Chosen).then_some(group.inverse_temperature);
    let of_chain = |chain: &&'_ SampledChain| match rows {
        HeldOutRows::Validation => chain.scores.predictives.validation.clone(),
        HeldOutRows::Test => chain.scores.predictives.test.clone(),
    };
    let chains: Vec<Predictive> = group.chains.iter().map(of_chain).collect();
    let chains: Vec<&Predictive> = chains.iter().collect();
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
        let mut own = averaged(kind, model, beta, label, std::slice::from_ref(&pooled), &units)?;
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
    units: &[Units],
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
        points = in_units(units, points.into_iter());
    }
    let mixture = |row: usize| {
        let most = log_densities.iter().map(|own| own[row]).fold(f64::NEG_INFINITY, f64::max);
        most + (log_densities.iter().map(|own| (own[row] - most).exp()).sum::<f64>() * share).ln()
    };
    let log_densities = (0..log_densities[0].len()).map(mixture).collect();
    let what = HeldOutModel { kind, model, beta, label };
    Ok(ModelPredictions { what, log_densities, points, pit, monte_carlo_error: 0.0 })
}
