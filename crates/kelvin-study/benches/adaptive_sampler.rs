//! The paper's sampler beside the adaptive one on Concrete, at the same number of gradients: bias, scores, effective predictions.
//!
//! `cargo bench -p kelvin-study --bench adaptive_sampler [-- GRADIENTS [paper|adaptive] [KEY=VALUE ...]]`
//!
//! Four chains a temperature, GRADIENTS steps each (default 30 000: half a minute on two cores), a third of them burn-in. KEY=VALUE are settings
//! of the adaptive run, such as `sampler.friction=10.0`. Effective predictions are bulk ESS of what draws predict for a test row, for 1000 gradients
//! after burn-in. results/adaptive.md has a longer run.

use std::error::Error;
use std::time::Instant;

use kelvin::diagnostics::{Limits, bulk_ess, rhat};
use kelvin::sampler::{Adapted, Silent};
use kelvin_study::experiment::{ChainSpec, Experiment, SampledChain, Slot};
use kelvin_study::problem::Problem;
use kelvin_study::settings::{Settings, preset, with_override};
use rayon::prelude::*;

type Fallible<T> = Result<T, Box<dyn Error>>;

const BETAS: [f64; 3] = [0.114, 0.3, 1.0];
const CHAINS: u32 = 4;

fn main() -> Fallible<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let (changes, numbers): (Vec<String>, Vec<String>) = arguments.into_iter().partition(|word| word.contains('='));
    let only = numbers.iter().find(|word| ["paper", "adaptive"].contains(&word.as_str()));
    let num_gradients: u64 =
        numbers.first().filter(|&word| Some(word) != only).map_or(Ok(30_000), |word| word.parse())?;
    println!("{num_gradients} steps a chain, {CHAINS} chains, {changes:?}");
    println!(
        "|    β | sampler  | U ± error       |     SM |     TM |    MSE | eff. median | eff. 5 % | R̂ median | R̂ worst | ⟨θ,∇U⟩/dT | T̂/T | gradients | s |"
    );
    println!("|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    let papers = paper(num_gradients)?;
    let adaptive =
        changes.iter().try_fold(adaptive(num_gradients)?, |settings, change| with_override(&settings, change))?;
    let runs = [("paper", papers), ("adaptive", adaptive)];
    for (name, settings) in runs.iter().filter(|(name, _)| only.is_none_or(|only| only == name)) {
        report(name, settings)?;
    }
    Ok(())
}

/// The paper's settings, with its shares of ramp and burn-in.
fn paper(num_gradients: u64) -> Fallible<Settings> {
    let mut settings = preset("concrete")?.settings();
    let sampler = &mut settings.sampler;
    sampler.burn_in = num_gradients / 3;
    (sampler.ramp_start, sampler.ramp_end) = (sampler.burn_in * 48 / 100, sampler.burn_in / 2);
    sampler.epochs = sampler.burn_in + (num_gradients - sampler.burn_in) / sampler.cycle * sampler.cycle;
    Ok(settings)
}

fn adaptive(num_gradients: u64) -> Fallible<Settings> {
    let mut settings = paper(num_gradients)?;
    let sampler = &mut settings.sampler;
    sampler.integrator = kelvin::sampler::Integrator::Baoab;
    sampler.adapt = true;
    sampler.cycle = 50;
    Ok(settings)
}

fn report(name: &str, settings: &Settings) -> Fallible<()> {
    let dataset = Problem::read_dataset(settings, None)?;
    let experiment = Experiment::new(Problem::new(dataset, settings)?, settings.clone())?;
    let mut specs = Vec::new();
    for (index, beta) in BETAS.into_iter().enumerate() {
        for repetition in 0..CHAINS {
            let label = format!("β = {beta}, chain {repetition}");
            let slot = Slot::Grid(index as u32);
            specs.push(ChainSpec { label, repetition, slot, inverse_temperature: beta, start: None });
        }
    }
    let began = Instant::now();
    let chains = experiment.sample(&specs, &Silent)?;
    let seconds = began.elapsed().as_secs_f64();
    for (beta, chains) in BETAS.into_iter().zip(chains.chunks(CHAINS as usize)) {
        row(&experiment, name, beta, chains, seconds)?;
    }
    for chain in &chains {
        let Adapted { num_looks, step_size, largest, .. } = chain.chain.state.adapted;
        if num_looks == 0 {
            continue;
        }
        let masses: Vec<String> = chain.chain.state.mass.iter().map(|mass| format!("{mass:.2}")).collect();
        let warning = Limits::default().check_trend("it", chain.chain.state.adapted.energy_trend());
        println!(
            "  {}: h = {step_size:.2e}, λmax = {largest:.2e}, M = [{}]. {}",
            chain.spec.label,
            masses.join(", "),
            warning.map_or_else(String::new, |warning| warning.seen())
        );
    }
    Ok(())
}

fn row(experiment: &Experiment, name: &str, beta: f64, chains: &[SampledChain], seconds: f64) -> Fallible<()> {
    let settings = &experiment.settings.sampler;
    let predicted: Vec<Vec<Vec<f32>>> =
        chains.iter().map(|chain| outputs(experiment, chain)).collect::<Fallible<_>>()?;
    let num_rows = experiment.test.num_rows();
    let of_row = |row: usize| -> Vec<Vec<f64>> {
        predicted.iter().map(|draws| draws.iter().map(|outputs| f64::from(outputs[row])).collect()).collect()
    };
    let found: Vec<(f64, f64)> = (0..num_rows)
        .into_par_iter()
        .map(|row| {
            let chains = of_row(row);
            (bulk_ess(&chains).unwrap_or(f64::NAN), rhat(&chains).unwrap_or(f64::NAN))
        })
        .collect();
    let sampled_gradients = (settings.epochs - settings.burn_in) as f64 * f64::from(CHAINS);
    let sorted = |mut numbers: Vec<f64>| {
        numbers.sort_by(f64::total_cmp);
        numbers
    };
    let effective = sorted(found.iter().map(|(ess, _)| 1000.0 * ess / sampled_gradients).collect());
    let disagreement = sorted(found.iter().map(|(_, rhat)| *rhat).collect());

    let means: Vec<f64> = chains.iter().map(|chain| mean(chain.draws.series()[0])).collect();
    let energy = mean(&means);
    let variance = means.iter().map(|x| (x - energy).powi(2)).sum::<f64>() / (means.len() as f64 - 1.0);
    let draws = chains.iter().map(|chain| &chain.draws);
    let scores = experiment.predictive(&experiment.test, beta, draws)?.scores()?;
    let heat = mean(&chains.iter().filter_map(|chain| chain.chain.kinetic_all.mean()).collect::<Vec<_>>()) * beta;
    let configurational = mean(&chains.iter().map(|chain| mean(chain.draws.series()[1])).collect::<Vec<_>>()) * beta;
    let looks: u64 = chains.iter().map(|chain| chain.chain.state.adapted.num_looks).sum::<u64>() / u64::from(CHAINS);
    let gradients = settings.epochs + looks * 8 + if looks > 0 { 34 } else { 0 };
    println!(
        "| {beta} | {name} | {energy:.1} ± {:.1} | {:.3} | {:.3} | {:.4} | {:.3} | {:.3} | {:.3} | {:.3} | {configurational:.3} | {heat:.3} | {gradients} | {seconds:.0} |",
        (variance / means.len() as f64).sqrt(),
        scores.lpd().standard,
        scores.lpd().tempered,
        scores.point_metric(),
        effective[num_rows / 2],
        effective[num_rows / 20],
        disagreement[num_rows / 2],
        disagreement[num_rows - 1],
    );
    Ok(())
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// What each draw of a chain predicts for each test row.
fn outputs(experiment: &Experiment, chain: &SampledChain) -> Fallible<Vec<Vec<f32>>> {
    let mut all = Vec::new();
    for lot in chain.draws.lots(1000) {
        let lot = lot?;
        let weights: Vec<_> = lot.iter().collect();
        all.extend(experiment.engine.outputs(&experiment.test, &weights)?);
    }
    Ok(all)
}
