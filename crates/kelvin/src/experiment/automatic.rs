//! Settings for a user's own table, derived from its size: no tuning for a few hundred to a hundred thousand rows.
//!
//! With n training rows and d features:
//! - Rows of a step: all up to 1500, then 256, then 512 from 20 000 on.
//! - σ²: a quarter of what ridge regression leaves unexplained of the training targets, between 0.01 and 0.5. β then
//!   starts near the truth; the search corrects it.
//! - Curvature of the energy grows as n/σ² (n for classes), so the search's rate is 0.02 σ²/n (0.05/n for classes) and
//!   the sampler's ℓ is 0.03 σ² (0.03): h₀ = √(ℓ/n). A pilot then halves ℓ until the measured kinetic temperature
//!   is right (`Experiment::tune_learning_rate`).
//! - Lengths: 15 000 steps of search; 30 000 steps a chain on full batches and 60 000 on minibatches, a sixth of them
//!   cold, a third burn-in, the rest cut into 100 cycles.

use super::settings::{
    BatchSize, DataSettings, ModelSettings, Preconditioner, RateSchedule, RunSettings, SamplerSettings,
    SelectionSettings, Settings,
};
use crate::data::{Dataset, Split, Standardiser, Targets, Task};
use crate::exact::LinearRegression;
use crate::sampler::{ClipScope, Integrator};
use crate::temperature::Tempering;

const SEARCH_STEPS: u64 = 15_000;
const DRAWS: u64 = 100;

/// Settings for a data set read from `data.source`.
pub fn automatic_settings(name: &str, data: DataSettings, dataset: &Dataset, run: RunSettings) -> Settings {
    let num_train = dataset.num_rows() * 4 / 5;
    let n = num_train as f64;
    let batch_size = match num_train {
        0..=1500 => BatchSize::FULL,
        1501..20_000 => BatchSize::Rows(256),
        _ => BatchSize::Rows(512),
    };
    let steps_per_epoch = batch_size.rows().map_or(1, |rows| num_train / rows) as u64;
    let chain_steps = if steps_per_epoch == 1 { 30_000 } else { 60_000u64 };
    let epochs_of = |steps: u64| steps.div_ceil(steps_per_epoch).max(1);
    let (noise_variance, search_rate, sampler_rate) = match dataset.task() {
        Task::Regression => {
            let noise_variance = noise_guess(dataset, run.seed);
            (noise_variance, 0.02 * noise_variance / n, 0.03 * noise_variance)
        }
        Task::Classification => (ModelSettings::default().noise_variance, 0.05 / n, 0.03),
    };
    let cycle = epochs_of(chain_steps * 2 / 3 / DRAWS);
    let burn_in = epochs_of(chain_steps / 3);
    let ramp_end = epochs_of(chain_steps / 6).min(burn_in);
    Settings {
        name: name.into(),
        data,
        model: ModelSettings { noise_variance, ..ModelSettings::default() },
        selection: SelectionSettings {
            learning_rate: search_rate,
            schedule: RateSchedule::Cosine,
            momentum: 0.9,
            weight_decay: 1.0,
            batch_size,
            epochs: epochs_of(SEARCH_STEPS).max(20),
            clip_norm: 1e6,
            clip_scope: ClipScope::All,
            checkpoints: 20,
        },
        sampler: SamplerSettings {
            integrator: Integrator::Sghmc,
            tempering: Tempering::Posterior,
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
        },
        run,
    }
}

/// A quarter of the variance that ridge regression leaves unexplained on the training rows, in standardised units.
fn noise_guess(dataset: &Dataset, seed: u64) -> f64 {
    const LEAST: f64 = 0.01;
    const MOST: f64 = 0.5;
    let unexplained = || -> Option<f64> {
        let split = Split::random(dataset.num_rows(), seed).ok()?;
        let standardiser = Standardiser::fit(dataset, &split.train).ok()?;
        let examples = standardiser.examples(dataset, &split.train).ok()?;
        let Targets::Real(targets) = &examples.targets else { return None };
        let inputs: Vec<f64> = examples.inputs.iter().map(|&x| f64::from(x)).collect();
        let targets: Vec<f64> = targets.iter().map(|&y| f64::from(y)).collect();
        let ridge = LinearRegression::new(&inputs, &targets, examples.num_features, 1.0, 1.0).ok()?;
        let squares = inputs.chunks_exact(examples.num_features).zip(&targets).map(|(row, target)| {
            let fitted: f64 = row.iter().zip(ridge.mean()).map(|(x, w)| x * w).sum();
            (target - fitted).powi(2)
        });
        Some(squares.sum::<f64>() / targets.len() as f64)
    };
    (unexplained().unwrap_or(1.0) / 4.0).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Table;

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
            let data =
                DataSettings { source: "t.csv".into(), target: "y".into(), drop: vec![], task: Default::default() };
            let settings = automatic_settings("t", data, &table(rows), RunSettings::default());
            settings.check().unwrap();
            assert_eq!(settings.draws_per_chain(), 100, "{rows} rows");
        }
    }

    #[test]
    fn a_nearly_linear_table_gets_a_small_noise_variance() {
        let guess = noise_guess(&table(500), 0);
        assert!((0.01..0.05).contains(&guess), "{guess}");
    }
}
