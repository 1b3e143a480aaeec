//! `kelvin bench`: µs per chain-step of the paper's networks, on one thread and on all.

use std::sync::Mutex;
use std::time::Instant;

use kelvin::data::{Examples, Inputs, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::Network;
use kelvin::potential::{Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::sampler::{Batches, Chain, Integrator, Keep, Langevin, MassRule, Plan, run_population};
use kelvin::temperature::{Schedule, Temperature, Tempering};
use serde::Serialize;

use crate::arguments::BenchArguments;
use crate::output::print_result;

/// Readings of a case; the median counts.
const TIMES: usize = 9;
const HIDDEN: usize = 64;

struct Case {
    name: &'static str,
    kind: Kind,
    num_examples: usize,
    batch_size: Option<usize>,
    learning_rate: f64,
    /// From one reading to the next.
    num_steps: u64,
}

#[derive(Clone, Copy)]
enum Kind {
    Table { num_inputs: usize },
    MnistCnn,
    Resnet20,
}

const CASES: [Case; 4] = [
    Case {
        name: "8-64-1/824",
        kind: Kind::Table { num_inputs: 8 },
        num_examples: 824,
        batch_size: None,
        learning_rate: 1e-3,
        num_steps: 4000,
    },
    Case {
        name: "14-64-1/128",
        kind: Kind::Table { num_inputs: 14 },
        num_examples: 9547,
        batch_size: Some(128),
        learning_rate: 1e-4,
        num_steps: 4000,
    },
    Case {
        name: "mnist-cnn",
        kind: Kind::MnistCnn,
        num_examples: 1024,
        batch_size: Some(128),
        learning_rate: 0.01,
        num_steps: 8,
    },
    Case {
        name: "resnet20",
        kind: Kind::Resnet20,
        num_examples: 1024,
        batch_size: Some(128),
        learning_rate: 0.1,
        num_steps: 4,
    },
];

#[derive(Serialize)]
struct Timing {
    case: &'static str,
    threads: usize,
    chains: usize,
    us_per_chain_step: f64,
}

pub fn bench(arguments: &BenchArguments) -> anyhow::Result<()> {
    let all = arguments
        .threads
        .map_or_else(|| std::thread::available_parallelism().map_or(1, |cores| cores.get()), usize::from);
    for case in CASES.iter().filter(|case| arguments.case.is_none_or(|asked| asked.name() == case.name)) {
        // One chain on one thread; a chain for each thread; one chain that has all threads.
        let mut settings = vec![(1, 1)];
        if all > 1 {
            settings.push((all, all));
            if !matches!(case.kind, Kind::Table { .. }) {
                settings.push((all, 1));
            }
        }
        for (threads, num_chains) in settings {
            let timing = time(case, threads, num_chains)?;
            let line = if arguments.json {
                serde_json::to_string(&timing)?
            } else {
                let Timing { case, threads, chains, us_per_chain_step } = timing;
                format!(
                    "{case:<12}  threads {threads:>2}  chains {chains:>2}  {us_per_chain_step:10.2} µs per chain-step"
                )
            };
            print_result(&format!("{line}\n"))?;
        }
    }
    Ok(())
}

fn time(case: &Case, threads: usize, num_chains: usize) -> anyhow::Result<Timing> {
    let (network, examples, likelihood) = match case.kind {
        Kind::Table { num_inputs } => (
            Network::dense(num_inputs, &[HIDDEN], 1)?,
            synthetic_rows(case.num_examples, num_inputs),
            Likelihood::Gaussian { noise_variance: 0.1 },
        ),
        Kind::MnistCnn | Kind::Resnet20 => {
            let network = if matches!(case.kind, Kind::MnistCnn) { Network::mnist_cnn() } else { Network::resnet(20)? };
            let examples = synthetic_images(case.num_examples, network.num_inputs());
            (network, examples, Likelihood::Categorical { num_classes: 10 })
        }
    };
    let posterior = Posterior::new(&network, likelihood, IsotropicGaussian::new(0.1)?, &examples)?;
    let rule = Langevin {
        integrator: Integrator::Sghmc,
        learning_rate: case.learning_rate,
        momentum: 0.98,
        step_scale: Schedule::Constant { value: 1.0 },
        temperature_scale: Schedule::Constant { value: 1.0 },
        tempering: Tempering::Posterior,
        clip_norm: 1e6,
        mass: MassRule::Fixed,
    };
    let batches = Batches::new(case.num_examples, case.batch_size)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let mut chains: Vec<Chain> = (0..num_chains as u32)
        .map(|id| Chain::new(id, Temperature::BAYES, network.initial_parameters(0, id), &posterior.layout()))
        .collect();
    // One run, read at every kept state: a new run would first have to touch all its memory.
    let keep = Keep { burn_in: 0, every: case.num_steps };
    let plan = Plan { seed: 0, batches, num_steps: (TIMES as u64 + 1) * case.num_steps, keep };
    let readings = Mutex::new(vec![Vec::new(); num_chains]);
    let read = |index: usize, _: &Chain| {
        let mut readings = readings.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        readings[index].push(Instant::now());
    };
    pool.install(|| run_population(&posterior, &rule, &plan, &mut chains, &read));
    anyhow::ensure!(chains.iter().all(|chain| chain.divergence.is_none()), "a chain of the benchmark diverged");
    let readings = readings.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    // What lies before the first reading warms up.
    let intervals = readings.iter().flat_map(|times| times.windows(2).map(|pair| pair[1] - pair[0]));
    let steps = case.num_steps as f64 * num_chains as f64;
    let mut microseconds: Vec<f64> = intervals.map(|time| time.as_secs_f64() * 1e6 / steps).collect();
    microseconds.sort_by(f64::total_cmp);
    Ok(Timing {
        case: case.name,
        threads,
        chains: chains.len(),
        us_per_chain_step: (microseconds[microseconds.len() / 2] * 1e3).round() / 1e3,
    })
}

/// Random pixels with random labels: the time of a step does not depend on them.
fn synthetic_images(n: usize, len: usize) -> Examples {
    let key = |step| NoiseKey { seed: 0, purpose: Purpose::Synthetic, chain: u32::MAX, step };
    let (pixels, labels) = (key(0), key(1));
    let bytes: Vec<u8> = (0..(n * len) as u32 / 4).flat_map(|block| pixels.words(block).map(|word| word as u8)).collect();
    let labels = (0..n as u32).map(|row| labels.words(row)[0] % 10).collect();
    Examples { inputs: Inputs::Bytes(bytes.into()), num_features: len, targets: Targets::Classes(labels) }
}

/// Rows that a ReLU network can fit: one linear and one bent direction, and a little noise.
fn synthetic_rows(n: usize, d: usize) -> Examples {
    let key = |step| NoiseKey { seed: 0, purpose: Purpose::InitialPosition, chain: u32::MAX, step };
    let mut inputs = vec![0.0; n * d];
    key(0).fill_normal(&mut inputs);
    let mut directions = vec![0.0; 2 * d];
    key(1).fill_normal(&mut directions);
    let mut targets = vec![0.0; n];
    key(2).fill_normal(&mut targets);
    for (row, target) in inputs.chunks_exact(d).zip(&mut targets) {
        let along = |direction: &[f32]| -> f32 {
            row.iter().zip(direction).map(|(x, w)| x * w).sum::<f32>() / (d as f32).sqrt()
        };
        *target = 0.05 * *target + along(&directions[..d]) + 0.5 * along(&directions[d..]).abs();
    }
    let mean = targets.iter().sum::<f32>() / n as f32;
    let std = (targets.iter().map(|y| (y - mean).powi(2)).sum::<f32>() / n as f32).sqrt();
    targets.iter_mut().for_each(|y| *y = (*y - mean) / std);
    Examples { inputs: inputs.into(), num_features: d, targets: Targets::Real(targets) }
}
