//! `kelvin bench`: µs per chain-step of the paper's networks, on one thread and on all, or on GPUs.

use std::sync::Mutex;
use std::time::Instant;

use kelvin::data::{Examples, Inputs, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::Network;
use kelvin::potential::{Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::sampler::{Batches, Chain, Engine, Integrator, Keep, Langevin, Motion, Observer, Plan};
use kelvin::temperature::Temperature;
use serde::Serialize;

use crate::arguments::BenchArguments;
use crate::device;
use crate::output::print_result;

/// Readings of a case on the CPU, where the median counts, and on GPUs.
const CPU_READINGS: u64 = 9;
const GPU_READINGS: u64 = 2;
/// About how long a reading on GPUs takes.
const GPU_SECONDS: f64 = 1.0;
const HIDDEN: usize = 64;

struct Case {
    name: &'static str,
    kind: Kind,
    num_examples: usize,
    batch_size: Option<usize>,
    learning_rate: f64,
    /// From one reading to the next, on the CPU.
    num_steps: u64,
    /// On GPUs, for a first look at how long a step takes.
    pilot_steps: u64,
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
        pilot_steps: 2000,
    },
    Case {
        name: "14-64-1/128",
        kind: Kind::Table { num_inputs: 14 },
        num_examples: 9547,
        batch_size: Some(128),
        learning_rate: 1e-4,
        num_steps: 4000,
        pilot_steps: 2000,
    },
    Case {
        name: "mnist-cnn",
        kind: Kind::MnistCnn,
        num_examples: 1024,
        batch_size: Some(128),
        learning_rate: 0.01,
        num_steps: 8,
        pilot_steps: 100,
    },
    Case {
        name: "resnet20",
        kind: Kind::Resnet20,
        num_examples: 1024,
        batch_size: Some(128),
        learning_rate: 0.1,
        num_steps: 4,
        pilot_steps: 20,
    },
];

#[derive(Serialize)]
struct Timing {
    case: &'static str,
    device: String,
    /// On the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<usize>,
    chains: usize,
    us_per_chain_step: f64,
}

/// Chains on GPUs: alone, a few, the paper's sweep; for tables also one and two for each multiprocessor of a large chip.
const GPU_CHAINS: [usize; 5] = [1, 10, 50, 132, 264];
const GPU_IMAGE_CHAINS: [usize; 3] = [1, 10, 50];

pub fn bench(arguments: &BenchArguments) -> anyhow::Result<()> {
    let engine = device::open(arguments.device, arguments.json)?;
    let readings = arguments.readings.map(u64::from);
    let asked: Vec<usize> = arguments.chains.iter().copied().map(usize::from).collect();
    let all = arguments
        .threads
        .map_or_else(|| std::thread::available_parallelism().map_or(1, |cores| cores.get()), usize::from);
    for case in CASES.iter().filter(|case| arguments.case.is_none_or(|asked| asked.names().contains(&case.name))) {
        let is_table = matches!(case.kind, Kind::Table { .. });
        let work = Work::of(case)?;
        if engine.moves_chains_together() {
            let counts = if is_table { &GPU_CHAINS[..] } else { &GPU_IMAGE_CHAINS };
            let counts = if asked.is_empty() { counts } else { &asked };
            for &num_chains in counts {
                print_timing(
                    &work.time_together(&*engine, num_chains, readings.unwrap_or(GPU_READINGS))?,
                    arguments.json,
                )?;
            }
            continue;
        }
        // What was asked for, on all threads; else one chain on one thread, a chain for each thread, one chain that has all.
        let mut settings: Vec<(usize, usize)> = asked.iter().map(|&num_chains| (all, num_chains)).collect();
        if asked.is_empty() {
            settings.push((1, 1));
        }
        if asked.is_empty() && all > 1 {
            settings.push((all, all));
            if !is_table {
                settings.push((all, 1));
            }
        }
        for (threads, num_chains) in settings {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
            let readings = readings.unwrap_or(CPU_READINGS);
            let timing = pool.install(|| work.time_on_threads(&*engine, threads, num_chains, readings))?;
            print_timing(&timing, arguments.json)?;
        }
    }
    Ok(())
}

fn print_timing(timing: &Timing, json: bool) -> anyhow::Result<()> {
    if json {
        return print_result(&format!("{}\n", serde_json::to_string(timing)?));
    }
    let Timing { case, device, threads, chains, us_per_chain_step } = timing;
    let place = threads.map_or_else(|| device.clone(), |threads| format!("threads {threads:>2}"));
    print_result(&format!("{case:<12}  {place}  chains {chains:>3}  {us_per_chain_step:10.3} µs per chain-step\n"))
}

/// A case with its data.
struct Work<'a> {
    case: &'a Case,
    network: Network,
    examples: Examples,
    likelihood: Likelihood,
}

impl<'a> Work<'a> {
    fn of(case: &'a Case) -> anyhow::Result<Self> {
        let (network, examples, likelihood) = match case.kind {
            Kind::Table { num_inputs } => (
                Network::dense(num_inputs, &[HIDDEN], 1)?,
                synthetic_rows(case.num_examples, num_inputs),
                Likelihood::Gaussian { noise_variance: 0.1 },
            ),
            Kind::MnistCnn | Kind::Resnet20 => {
                let network =
                    if matches!(case.kind, Kind::MnistCnn) { Network::mnist_cnn() } else { Network::resnet(20)? };
                let examples = synthetic_images(case.num_examples, network.num_inputs());
                (network, examples, Likelihood::Categorical { num_classes: 10 })
            }
        };
        Ok(Self { case, network, examples, likelihood })
    }

    fn posterior(&self) -> anyhow::Result<Posterior<'_>> {
        Ok(Posterior::new(&self.network, self.likelihood, IsotropicGaussian::new(0.1)?, &self.examples)?)
    }

    /// Chains with threads of their own: the median over chains of the time between two readings.
    fn time_on_threads(
        &self,
        engine: &dyn Engine,
        threads: usize,
        num_chains: usize,
        num_readings: u64,
    ) -> anyhow::Result<Timing> {
        let readings = Mutex::new(vec![Vec::new(); num_chains]);
        let read = |index: usize, _: &Chain| {
            let mut readings = readings.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            readings[index].push(Instant::now());
        };
        let case = self.case;
        self.run(&self.posterior()?, engine, num_chains, [case.num_steps, num_readings], &read)?;
        let readings = readings.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        // What lies before the first reading warms up.
        let intervals = readings.iter().flat_map(|times| times.windows(2).map(|pair| pair[1] - pair[0]));
        // Each thread has one chain at a time.
        let steps = case.num_steps as f64 * num_chains.min(threads) as f64;
        let mut microseconds: Vec<f64> = intervals.map(|time| time.as_secs_f64() * 1e6 / steps).collect();
        microseconds.sort_by(f64::total_cmp);
        Ok(Timing {
            case: case.name,
            device: "CPU".into(),
            threads: Some(threads),
            chains: num_chains,
            us_per_chain_step: rounded(microseconds[microseconds.len() / 2]),
        })
    }

    /// Chains that share a device. A reading copies the states of all chains, which is no part of a step: short readings tell
    /// what it costs, and it is taken off the long ones.
    fn time_together(&self, engine: &dyn Engine, num_chains: usize, num_readings: u64) -> anyhow::Result<Timing> {
        let posterior = self.posterior()?;
        let few = self.case.pilot_steps;
        let with_short = self.seconds_together(&posterior, engine, num_chains, [few, 2])?;
        let many = ((GPU_SECONDS / (with_short * num_chains as f64)) as u64).clamp(4 * few, 1000 * few);
        let with_long = self.seconds_together(&posterior, engine, num_chains, [many, num_readings])?;
        let (few, many) = (few as f64, many as f64);
        let seconds = (many * with_long - few * with_short) / (many - few);
        Ok(Timing {
            case: self.case.name,
            device: engine.describe_for(&posterior),
            threads: None,
            chains: num_chains,
            us_per_chain_step: rounded(seconds * 1e6),
        })
    }

    /// Seconds of a chain-step with its share of the readings: the time from the first reading to the last over the chain-steps
    /// read in it. A chain's own first reading does not count as work done, so that lots which follow each other are not
    /// flattered.
    fn seconds_together(
        &self,
        posterior: &Posterior<'_>,
        engine: &dyn Engine,
        num_chains: usize,
        [steps, num_readings]: [u64; 2],
    ) -> anyhow::Result<f64> {
        let readings = Mutex::new((Vec::new(), vec![0_u64; num_chains]));
        let read = |index: usize, _: &Chain| {
            let mut readings = readings.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            readings.0.push(Instant::now());
            readings.1[index] += 1;
        };
        self.run(posterior, engine, num_chains, [steps, num_readings], &read)?;
        let (times, counts) = readings.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (first, last) = (times.iter().min(), times.iter().max());
        let seconds = first.zip(last).map_or(f64::NAN, |(first, last)| (*last - *first).as_secs_f64());
        let chain_steps = steps * counts.iter().map(|count| count.saturating_sub(1)).sum::<u64>();
        Ok(seconds / chain_steps as f64)
    }

    /// Moves chains; `read` is called after every so many steps, once more than there are readings. One run: a new one
    /// would first have to touch all its memory.
    fn run(
        &self,
        posterior: &Posterior<'_>,
        engine: &dyn Engine,
        num_chains: usize,
        [steps_between, num_readings]: [u64; 2],
        read: &dyn Observer,
    ) -> anyhow::Result<()> {
        let case = self.case;
        let rule = Langevin { clip_norm: 1e6, ..Langevin::new(Integrator::Sghmc, case.learning_rate, 0.98) };
        let batches = Batches::new(case.num_examples, case.batch_size)?;
        let mut chains: Vec<Chain> = (0..num_chains as u32)
            .map(|id| Chain::new(id, Temperature::BAYES, self.network.initial_parameters(0, id), &posterior.layout()))
            .collect();
        let keep = Keep { burn_in: 0, every: steps_between };
        let plan = Plan { seed: 0, batches, num_steps: (num_readings + 1) * steps_between, keep };
        engine.run(posterior, Motion::Sample(&rule), &plan, &mut chains, read)?;
        anyhow::ensure!(chains.iter().all(|chain| chain.divergence.is_none()), "a chain of the benchmark diverged");
        Ok(())
    }
}

fn rounded(microseconds: f64) -> f64 {
    (microseconds * 1e4).round() / 1e4
}

/// Random pixels with random labels: the time of a step does not depend on them.
fn synthetic_images(n: usize, len: usize) -> Examples {
    let key = |step| NoiseKey { seed: 0, purpose: Purpose::Synthetic, chain: u32::MAX, step };
    let (pixels, labels) = (key(0), key(1));
    let bytes: Vec<u8> =
        (0..(n * len) as u32 / 4).flat_map(|block| pixels.words(block).map(|word| word as u8)).collect();
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
