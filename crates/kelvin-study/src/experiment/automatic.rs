//! Settings for a user's own table, derived from its size: no tuning for a few hundred to a hundred thousand rows.
//!
//! With n training rows and d features:
//! - Rows of a step: all up to 1500, then 256, then 1024 from 20 000 on; for classes all up to 256, then 128 and 256.
//! - σ²: the noise that a trial search for β finds, between 0.01 and 0.5; the trial's own σ² is a quarter of what ridge
//!   regression leaves unexplained. β then starts near the truth. Below 0.01 log β could not climb as far as it must:
//!   its rate is proportional to σ².
//! - σ_p²: the prior is tempered too, so at β it pulls as hard as a variance σ_p²/β. To pull no harder than one n-th of
//!   the trial's weights it is β|θ|²/n, between 0.1 and 1 (the paper's values), at most n/1000: fewer rows do not hold
//!   the weights of a wide prior.
//! - Curvature of the energy grows as n/σ² (n for classes). The search's rate is 0.02/n (0.05/n for classes) times the
//!   trial's σ², also after the trial: the tempered model depends on σ²/β alone. The sampler's ℓ is 0.03 σ² (0.03), with
//!   h₀ = √(ℓ/n); a pilot then halves it until the kinetic temperature is right (`Experiment::tune_learning_rate`).
//! - Chains start where the search ended, so that a small ℓ does not leave them far from any mode.
//! - Lengths: 15 000 steps of search (6000 for classes); 30 000 steps a chain on full batches, 60 000 on minibatches,
//!   80 000 from 20 000 rows on (20 000 for classes), a sixth of them cold, a third burn-in, the rest in 100 cycles.

use crate::experiment::prepared::Experiment;
use crate::problem::Problem;
use crate::settings::build_likelihood::standardised;
use crate::settings::{
    BatchSize, DataSettings, DrawStatistics, DrawsSetting, LikelihoodName, ModelSettings, Preconditioner,
    PreconditionerStatistics, PriorName, RateSchedule, RunSettings, SamplerSettings, SelectionObjective,
    SelectionSettings, Settings, Start, TaskSetting,
};
use kelvin::data::{Dataset, Split, Standardiser, Target, Targets, Task};
use kelvin::exact::LinearRegression;
use kelvin::likelihood::YeoJohnson;
use kelvin::sampler::{ClipScope, Integrator, Silent};
use kelvin::temperature::Tempering;

const DRAWS: u64 = 100;

/// Settings for a data set read from `data.source`.
pub fn automatic_settings(name: &str, data: DataSettings, dataset: &Dataset, run: RunSettings) -> Settings {
    after_a_trial(provisional_settings(name, data, dataset, run), dataset)
}

/// The same before the trial: all lengths, so that what they cost can be told first.
pub fn provisional_settings(name: &str, data: DataSettings, dataset: &Dataset, run: RunSettings) -> Settings {
    let linear_noise = linear_noise(dataset, run.seed);
    let model = ModelSettings { noise_variance: linear_noise, ..ModelSettings::default() }.spelled_out();
    settings_for(name, data, dataset, run, linear_noise, model)
}

/// Provisional settings with the σ² and σ_p² that a trial of the search suggests; classes have no σ², and no trial.
pub fn after_a_trial(provisional: Settings, dataset: &Dataset) -> Settings {
    if dataset.task() == Task::Classification {
        return provisional;
    }
    match trial_model(dataset, &provisional) {
        None => provisional,
        Some(model) => {
            let Settings { name, data, run, .. } = &provisional;
            let linear_noise = provisional.model.noise_variance;
            settings_for(name, data.clone(), dataset, run.clone(), linear_noise, model)
        }
    }
}

/// Likelihoods of numbers that are tried, the simplest first.
const OF_NUMBERS: [LikelihoodName; 4] = [
    LikelihoodName::LearnedGaussian,
    LikelihoodName::VaryingGaussian,
    LikelihoodName::StudentT,
    LikelihoodName::VaryingStudentT,
];
/// Those of counts, which come before; the negative binomial has Poisson as its limit, and so costs nothing where that is the truth.
const OF_COUNTS: [LikelihoodName; 2] = [LikelihoodName::NegativeBinomial, LikelihoodName::Poisson];
/// Targets beyond this are no counts of events, whatever they are.
const LARGEST_COUNT: f64 = 1000.0;

/// The logarithm is tried where it takes this much of the targets' skewness, and they have as much.
const WORTH_A_LOGARITHM: f64 = 0.5;

/// A power is tried where it makes the targets as much more probable, in nats a row.
const WORTH_A_POWER: f64 = 0.03;

/// Likelihoods that suit the target of a table, the simplest first: those of numbers, the log-normal one where they are positive and less skewed as logarithms, that of a power where one makes them more normal, and those of counts where all are whole numbers from 0 to 1000; those of
/// counts alone where the task says so; of several targets those that each of them can have. None of classes.
pub fn suitable_likelihoods(dataset: &Dataset, task: TaskSetting) -> Vec<LikelihoodName> {
    let Target::Real(numbers) = &dataset.target else { return Vec::new() };
    if task == TaskSetting::Counts {
        return OF_COUNTS.to_vec();
    }
    if dataset.num_targets() > 1 {
        return LikelihoodName::OF_SEVERAL.to_vec();
    }
    let is_count = |number: &f64| number.fract() == 0.0 && (0.0..=LARGEST_COUNT).contains(number);
    let of_counts: &[LikelihoodName] = if numbers.iter().all(is_count) { &OF_COUNTS } else { &[] };
    let mut found: Vec<LikelihoodName> = of_counts.iter().chain(&OF_NUMBERS).copied().collect();
    let is_positive = numbers.iter().all(|&number| number > 0.0);
    let logs = || numbers.iter().map(|number| number.ln()).collect::<Vec<f64>>();
    if is_positive && skewness(numbers) - skewness(&logs()).abs() > WORTH_A_LOGARITHM {
        // No simpler than noise that varies, which comes before.
        found.insert(found.len() - 1, LikelihoodName::LogNormal);
    }
    let standardised = standardised(numbers);
    if YeoJohnson::most_likely(&standardised).gain(&standardised) > WORTH_A_POWER {
        found.insert(found.len() - 1, LikelihoodName::PowerNormal);
    }
    found
}

/// The third moment in standard deviations; 0 where there are none.
fn skewness(numbers: &[f64]) -> f64 {
    let n = numbers.len() as f64;
    let mean = numbers.iter().sum::<f64>() / n;
    let moment = |power: i32| numbers.iter().map(|number| (number - mean).powi(power)).sum::<f64>() / n;
    let found = moment(3) / moment(2).powf(1.5);
    if found.is_finite() { found } else { 0.0 }
}

/// Provisional settings that learn the scales of the weights, and of numbers the noise, with a linear skip beside the hidden layers. Of several
/// likelihoods the run chooses; there are none for classes. Only the likelihood is tempered: a prior whose scales are integrated out has no power that is a
/// prior of such scales. With p(θ | s)^β, normalised, beside p(s) in place of it, β would divide A² and nothing else, and the scales are learned.
pub fn learning_scales(mut provisional: Settings, likelihoods: &[LikelihoodName]) -> Settings {
    let model = &mut provisional.model;
    model.likelihood = likelihoods.first().copied();
    model.skip = true;
    (model.prior, model.prior_variance) = (PriorName::LearnedScales, 1.0);
    provisional.sampler.tempering = Tempering::Likelihood;
    provisional.run.likelihoods = if likelihoods.len() > 1 { likelihoods.to_vec() } else { Vec::new() };
    provisional
}

/// Hidden layers that are tried where they are to be chosen: the default first, which is kept unless another scores better by more than an error.
const HIDDEN_TO_TRY: [&[usize]; 3] = [&[64], &[128], &[64, 64]];

/// The same settings, to choose among hidden layers by short chains: the first of them until then.
pub fn choosing_hidden(mut settings: Settings) -> Settings {
    settings.model.hidden = Some(HIDDEN_TO_TRY[0].to_vec());
    settings.run.hidden_layers = HIDDEN_TO_TRY.iter().map(|widths| widths.to_vec()).collect();
    settings
}

fn settings_for(
    name: &str,
    data: DataSettings,
    dataset: &Dataset,
    run: RunSettings,
    linear_noise: f64,
    model: ModelSettings,
) -> Settings {
    let num_train = dataset.num_rows() * 4 / 5;
    let n = num_train as f64;
    let (small, medium, large) = match dataset.task() {
        Task::Regression => (BatchSize::FULL, BatchSize::Rows(256), BatchSize::Rows(1024)),
        Task::Classification => (BatchSize::FULL, BatchSize::Rows(128), BatchSize::Rows(256)),
    };
    let full_batch_limit = if dataset.task() == Task::Regression { 1500 } else { 256 };
    let batch_size = match num_train {
        n if n <= full_batch_limit => small,
        n if n < 20_000 => medium,
        _ => large,
    };
    let steps_per_epoch = batch_size.rows().map_or(1, |rows| num_train / rows) as u64;
    let (search_steps, chain_steps) = match dataset.task() {
        Task::Regression if steps_per_epoch == 1 => (15_000, 30_000),
        Task::Regression => (15_000, if num_train < 20_000 { 60_000 } else { 80_000 }),
        Task::Classification => (6_000, 20_000),
    };
    let epochs_of = |steps: u64| steps.div_ceil(steps_per_epoch).max(1);
    let (search_rate, sampler_rate) = match dataset.task() {
        Task::Regression => (0.02 * linear_noise / n, 0.03 * model.noise_variance),
        Task::Classification => (0.05 / n, 0.03),
    };
    let cycle = epochs_of(chain_steps * 2 / 3 / DRAWS);
    let burn_in = epochs_of(chain_steps / 3);
    let ramp_end = epochs_of(chain_steps / 6).min(burn_in);
    Settings {
        name: name.into(),
        data,
        model,
        selection: SelectionSettings {
            objective: SelectionObjective::Likelihood,
            log_beta_prior: None,
            beta: None,
            learning_rate: search_rate,
            schedule: RateSchedule::Cosine,
            momentum: 0.9,
            weight_decay: 1.0,
            batch_size,
            epochs: epochs_of(search_steps).max(20),
            clip_norm: 1e6,
            clip_scope: ClipScope::All,
            checkpoints: 20,
        },
        sampler: SamplerSettings {
            integrator: Integrator::Sghmc,
            adapt: false,
            friction: None,
            tempering: Tempering::Posterior,
            start: Start::Search,
            learning_rate: sampler_rate,
            momentum: 0.98,
            batch_size,
            ramp_start: epochs_of(chain_steps / 6 * 24 / 25).min(ramp_end),
            ramp_end,
            burn_in,
            epochs: burn_in + DRAWS * cycle,
            cycle,
            clip_norm: 1e6,
            preconditioner: Preconditioner::None,
            preconditioner_batches: 32,
            preconditioner_statistics: PreconditionerStatistics::Running,
            draw_statistics: DrawStatistics::Running,
            energy_rows: None,
            draws: DrawsSetting::Stored,
        },
        stopping: None,
        run,
    }
}

/// σ² and σ_p² as one trial of the search suggests them; nothing where the trial fails.
fn trial_model(dataset: &Dataset, settings: &Settings) -> Option<ModelSettings> {
    let problem = Problem::new(dataset.clone(), settings).ok()?;
    let experiment = Experiment::new(problem, settings.clone()).ok()?;
    let choice = experiment.select(&[0], &Silent).ok()?.into_iter().next()?;
    if choice.diverged_at_once(1).is_some() {
        return None;
    }
    let found = settings.model.noise_variance / choice.inverse_temperature;
    let noise_variance = found.clamp(LEAST_NOISE, MOST_NOISE);
    let expected_beta = noise_variance / found;
    let squares: f64 = choice.position.iter().map(|&weight| f64::from(weight).powi(2)).sum();
    let n = experiment.problem.train.len() as f64;
    let most = (n / 1000.0).clamp(LEAST_PRIOR, MOST_PRIOR);
    let prior_variance = (expected_beta * squares / n).clamp(LEAST_PRIOR, most);
    Some(ModelSettings { noise_variance, prior_variance, ..settings.model.clone() })
}

const LEAST_NOISE: f64 = 0.01;
const MOST_NOISE: f64 = 0.5;
const LEAST_PRIOR: f64 = 0.1;
const MOST_PRIOR: f64 = 1.0;

/// A quarter of the variance that ridge regression leaves unexplained on the training rows, in standardised units; the mean over targets.
fn linear_noise(dataset: &Dataset, seed: u64) -> f64 {
    let unexplained = || -> Option<f64> {
        let split = Split::random(dataset.num_rows(), seed).ok()?;
        let standardiser = Standardiser::fit(dataset, &split.train).ok()?;
        let examples = standardiser.examples(dataset, &split.train).ok()?;
        let Targets::Real(targets) = &examples.targets else { return None };
        let inputs: Vec<f64> = examples.inputs.numbers().iter().map(|&x| f64::from(x)).collect();
        let num_targets = examples.num_targets();
        let mut sum = 0.0;
        for target in 0..num_targets {
            let own: Vec<f64> = targets.iter().skip(target).step_by(num_targets).map(|&y| f64::from(y)).collect();
            let ridge = LinearRegression::new(&inputs, &own, examples.num_features, 1.0, 1.0).ok()?;
            let squares = inputs.chunks_exact(examples.num_features).zip(&own).map(|(row, target)| {
                let fitted: f64 = row.iter().zip(ridge.mean()).map(|(x, w)| x * w).sum();
                (target - fitted).powi(2)
            });
            sum += squares.sum::<f64>() / own.len() as f64;
        }
        Some(sum / num_targets as f64)
    };
    (unexplained().unwrap_or(1.0) / 4.0).clamp(LEAST_NOISE, MOST_NOISE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelvin::data::Table;

    fn table(rows: usize) -> Dataset {
        let mut text = String::from("a,b,y\n");
        for i in 0..rows {
            let (a, b) = ((i as f64 * 0.37).sin(), (i as f64 * 0.91).cos());
            text.push_str(&format!("{a},{b},{}\n", 2.0 * a - b + 0.3 * (i as f64 * 7.7).sin()));
        }
        Dataset::from_table(&Table::from_bytes("t.csv", text.as_bytes()).unwrap(), "y", &[], None).unwrap()
    }

    #[test]
    fn settings_make_sense_from_few_to_many_rows() {
        for rows in [20, 300, 2000, 30_000] {
            let data = DataSettings { source: "t.csv".into(), target: "y".into(), ..DataSettings::default() };
            let settings = automatic_settings("t", data, &table(rows), RunSettings::default());
            settings.check().unwrap();
            assert_eq!(settings.draws_per_chain(), 100, "{rows} rows");
        }
    }

    #[test]
    fn the_logarithm_is_tried_where_targets_are_positive_and_skewed() {
        let tried = |of: fn(f64) -> f64| {
            let text: String = (0..60).map(|i| format!("{i},{}\n", of(f64::from(i)))).collect();
            let table = Table::from_bytes("t.csv", format!("a,y\n{text}").as_bytes()).unwrap();
            let dataset = Dataset::from_table(&table, "y", &[], Some(Task::Regression)).unwrap();
            suitable_likelihoods(&dataset, TaskSetting::Auto).contains(&LikelihoodName::LogNormal)
        };
        assert!(tried(|x| (0.07 * x).exp() + 0.001));
        assert!(!tried(|x| (0.07 * x).exp() - 1.5), "some are negative");
        assert!(!tried(|x| 100.5 + x), "they are not skewed");
    }

    #[test]
    fn a_power_is_tried_where_it_makes_targets_more_probable() {
        let tried = |of: fn(f64) -> f64| {
            let text: String = (0..60).map(|i| format!("{i},{}\n", of(f64::from(i)))).collect();
            let table = Table::from_bytes("t.csv", format!("a,y\n{text}").as_bytes()).unwrap();
            let dataset = Dataset::from_table(&table, "y", &[], Some(Task::Regression)).unwrap();
            suitable_likelihoods(&dataset, TaskSetting::Auto).contains(&LikelihoodName::PowerNormal)
        };
        assert!(tried(|x| (0.07 * x).exp() - 1.5), "above");
        assert!(tried(|x| 1.5 - (0.07 * x).exp()), "below");
        assert!(!tried(|x| 100.5 + x), "they are not skewed");
    }

    #[test]
    fn a_nearly_linear_table_gets_a_small_noise_variance() {
        let guess = linear_noise(&table(500), 0);
        assert!((0.01..0.05).contains(&guess), "{guess}");
    }
}
