//! `kelvin bench`: µs per chain-step of the benchmark's networks or an experiment's, on one thread and on all, or on GPUs.

mod work;

use std::sync::Mutex;
use std::time::Instant;

use kelvin::network::Evaluator;
use kelvin::potential::{Posterior, Potential};
use kelvin::sampler::{Batches, Chain, Engine, Floor, Integrator, Keep, Langevin, Motion, Observer, Plan};
use kelvin::temperature::Temperature;
use kelvin::vector::{ENVIRONMENT_VARIABLE, Instructions};
use serde::Serialize;

use crate::arguments::BenchArguments;
use crate::output::{WrongFlags, print_result, say};
use crate::{device, source};
use work::{CASES, Work};

/// Readings of a case on the CPU, where the median counts, and on GPUs.
const CPU_READINGS: u64 = 9;
const GPU_READINGS: u64 = 2;
/// About how long a reading takes on the CPU and on GPUs.
const CPU_SECONDS: f64 = 0.07;
const GPU_SECONDS: f64 = 1.0;

#[derive(Serialize)]
struct Timing {
    case: String,
    device: String,
    /// The vector instructions in use; none on GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    vector_instructions: Option<&'static str>,
    /// Threads that chains are spread over; none on GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<usize>,
    chains: usize,
    us_per_chain_step: f64,
    /// What a step takes at least, where that is known.
    #[serde(flatten)]
    limit: Option<Limit>,
    /// Layers that have no kernels for their shape.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    slow_layers: Vec<String>,
}

/// What a step of a chain takes at least on a device, and how near to it a reading came.
#[derive(Clone, Copy, Debug, Serialize)]
struct Limit {
    /// µs per chain-step if everything went at the device's peak.
    limit_us: f64,
    /// What would be waited for: memory, or arithmetic.
    limited_by: &'static str,
    /// The limit over the reading.
    share_of_limit: f64,
}

impl Limit {
    fn of(floor: Floor, us_per_chain_step: f64) -> Self {
        let limit_us = floor.seconds() * 1e6;
        Self {
            limit_us: rounded(limit_us),
            limited_by: if floor.is_memory() { "memory" } else { "arithmetic" },
            share_of_limit: rounded(limit_us / us_per_chain_step),
        }
    }
}

/// Chains on GPUs: alone, a few, the paper's sweep; for tables also one and two for each multiprocessor of a large chip.
const GPU_CHAINS: [usize; 5] = [1, 10, 50, 132, 264];
const GPU_IMAGE_CHAINS: [usize; 3] = [1, 10, 50];

pub fn bench(arguments: &BenchArguments) -> anyhow::Result<()> {
    let works = asked(arguments)?;
    let engine = device::open(arguments.device, arguments.json)?;
    if !engine.moves_chains_together() {
        warn_of_narrow_vectors();
    }
    let readings = arguments.readings.map(u64::from);
    let asked: Vec<usize> = arguments.chains.iter().copied().map(usize::from).collect();
    let all = arguments
        .threads
        .map_or_else(|| std::thread::available_parallelism().map_or(1, |cores| cores.get()), usize::from);
    for work in works {
        let work = work()?;
        let (is_table, timer) = (work.is_table(), Timer { work: &work });
        if engine.moves_chains_together() {
            let counts = if is_table { &GPU_CHAINS[..] } else { &GPU_IMAGE_CHAINS };
            let counts = if asked.is_empty() { counts } else { &asked };
            for &num_chains in counts {
                print_timing(
                    &timer.time_together(&*engine, num_chains, readings.unwrap_or(GPU_READINGS))?,
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
            let timing = pool.install(|| timer.time_on_threads(&*engine, threads, num_chains, readings))?;
            print_timing(&timing, arguments.json)?;
        }
    }
    Ok(())
}

/// Makes a network and its rows when its turn comes, so that only one set of rows is in memory.
type MakeWork = Box<dyn FnOnce() -> anyhow::Result<Work>>;

/// What is to be timed: cases of the benchmark, or the network of an experiment.
fn asked(arguments: &BenchArguments) -> anyhow::Result<Vec<MakeWork>> {
    let case = |name: &'static str| -> MakeWork { Box::new(move || Work::of_case(name)) };
    let Some(asked) = arguments.case.as_deref() else {
        return Ok(CASES.into_iter().map(case).collect());
    };
    if asked == "dense" {
        return Ok(CASES.into_iter().filter(|name| name.contains('/')).map(case).collect());
    }
    if let Some(name) = CASES.into_iter().find(|name| *name == asked) {
        return Ok(vec![case(name)]);
    }
    let settings = source::named(asked).map_err(|error| {
        let cases = CASES.join(", ");
        WrongFlags(format!("{error}\n  cases of the benchmark: dense, {cases}"))
    })?;
    settings.check()?;
    let (problem, is_made_up) = work::problem_of(&settings, arguments.data_dir.as_deref())?;
    if is_made_up {
        let source = &settings.data.source;
        say(&format!(
            "note: no files of `{source}` here: timed on made-up images of their shape, which take as long\n"
        ));
    }
    Ok(vec![Box::new(move || Ok(Work::of_experiment(problem, settings)))])
}

/// Says so where the instructions in use are not the widest: a figure that was measured so is no measure of the processor.
fn warn_of_narrow_vectors() {
    let (used, widest) = (Instructions::in_use(), Instructions::widest());
    if used != widest {
        say(&format!(
            "warning: timed with {used} vector instructions ({ENVIRONMENT_VARIABLE}={used}); this processor has {widest}\n  unset {ENVIRONMENT_VARIABLE} to use them\n"
        ));
    }
}

fn print_timing(timing: &Timing, json: bool) -> anyhow::Result<()> {
    if json {
        return print_result(&format!("{}\n", serde_json::to_string(timing)?));
    }
    let Timing { case, device, vector_instructions, threads, chains, us_per_chain_step, limit, slow_layers } = timing;
    let place = threads.map_or_else(|| device.clone(), |threads| format!("threads {threads:>2}"));
    let instructions = vector_instructions.map_or_else(String::new, |name| format!("  {name}"));
    let share = limit.map_or_else(String::new, |Limit { limit_us, limited_by, share_of_limit }| {
        format!("  {:3.0} % of the limit ({limit_us:.2} µs, by {limited_by})", 100.0 * share_of_limit)
    });
    let slow = match &slow_layers[..] {
        [] => String::new(),
        layers => format!("  by the general products, no kernels for their shape: {}\n", layers.join("; ")),
    };
    print_result(&format!(
        "{case:<16}  {place}{instructions}  chains {chains:>3}  {us_per_chain_step:10.3} µs per chain-step{share}\n{slow}"
    ))
}

/// Times the steps of chains on some work.
struct Timer<'a> {
    work: &'a Work,
}

impl Timer<'_> {
    /// Chains with threads of their own: the median over chains of the time between two readings.
    fn time_on_threads(
        &self,
        engine: &dyn Engine,
        threads: usize,
        num_chains: usize,
        num_readings: u64,
    ) -> anyhow::Result<Timing> {
        let posterior = self.work.posterior()?;
        let num_steps = self.steps_of_a_reading(&posterior, engine)?;
        let readings = self.readings_on_threads(&posterior, engine, num_chains, [num_steps, num_readings])?;
        // What lies before the first reading warms up.
        let intervals = readings.iter().flat_map(|times| times.windows(2).map(|pair| pair[1] - pair[0]));
        // Each thread has one chain at a time.
        let steps = num_steps as f64 * num_chains.min(threads) as f64;
        let mut microseconds: Vec<f64> = intervals.map(|time| time.as_secs_f64() * 1e6 / steps).collect();
        microseconds.sort_by(f64::total_cmp);
        Ok(Timing {
            case: self.work.name.clone(),
            device: "CPU".into(),
            vector_instructions: Some(Instructions::in_use().name()),
            threads: Some(threads),
            chains: num_chains,
            us_per_chain_step: rounded(microseconds[microseconds.len() / 2]),
            limit: None,
            slow_layers: Vec::new(),
        })
    }

    /// When each chain was read.
    fn readings_on_threads(
        &self,
        posterior: &Posterior,
        engine: &dyn Engine,
        num_chains: usize,
        steps_and_readings: [u64; 2],
    ) -> anyhow::Result<Vec<Vec<Instant>>> {
        let readings = Mutex::new(vec![Vec::new(); num_chains]);
        let read = |index: usize, _: &Chain| {
            let mut readings = readings.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            readings[index].push(Instant::now());
        };
        self.run(posterior, engine, num_chains, steps_and_readings, &read)?;
        Ok(readings.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Steps that take about [`CPU_SECONDS`], from one chain that takes four times as many steps until they can be timed.
    fn steps_of_a_reading(&self, posterior: &Posterior, engine: &dyn Engine) -> anyhow::Result<u64> {
        let mut num_steps = 1;
        loop {
            let readings = self.readings_on_threads(posterior, engine, 1, [num_steps, 1])?;
            let times = &readings[0];
            let seconds = (times[times.len() - 1] - times[0]).as_secs_f64();
            if seconds > 0.1 * CPU_SECONDS {
                return Ok(((num_steps as f64 * CPU_SECONDS / seconds).ceil() as u64).max(2));
            }
            num_steps *= 4;
        }
    }

    /// Chains that share a device. A reading copies the states of all chains, which is no part of a step: short readings tell
    /// what it costs, and it is taken off the long ones.
    fn time_together(&self, engine: &dyn Engine, num_chains: usize, num_readings: u64) -> anyhow::Result<Timing> {
        let posterior = self.work.posterior()?;
        let few = if matches!(self.work.network.evaluator(), Evaluator::OneHidden(_)) { 2000 } else { 50 };
        let with_short = self.seconds_together(&posterior, engine, num_chains, [few, 2])?;
        let many = ((GPU_SECONDS / (with_short * num_chains as f64)) as u64).clamp(4 * few, 1000 * few);
        let with_long = self.seconds_together(&posterior, engine, num_chains, [many, num_readings])?;
        let (few, many) = (few as f64, many as f64);
        let seconds = (many * with_long - few * with_short) / (many - few);
        let num_rows = self.work.batch_size.unwrap_or(self.work.examples.len());
        let floor = engine.floor(&posterior, num_rows)?;
        Ok(Timing {
            case: self.work.name.clone(),
            device: engine.describe_for(&posterior),
            vector_instructions: None,
            threads: None,
            chains: num_chains,
            us_per_chain_step: rounded(seconds * 1e6),
            limit: floor.map(|floor| Limit::of(floor, seconds * 1e6)),
            slow_layers: engine.slow_layers(&posterior)?,
        })
    }

    /// Seconds of a chain-step with its share of the readings: the time from the first reading to the last over the chain-steps
    /// read in it. A chain's own first reading does not count as work done, so that lots which follow each other are not
    /// flattered.
    fn seconds_together(
        &self,
        posterior: &Posterior,
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
        posterior: &Posterior,
        engine: &dyn Engine,
        num_chains: usize,
        [steps_between, num_readings]: [u64; 2],
        read: &dyn Observer,
    ) -> anyhow::Result<()> {
        let work = self.work;
        let rule = Langevin { clip_norm: 1e6, ..Langevin::new(Integrator::Sghmc, work.learning_rate, 0.98) };
        let batches = Batches::new(work.examples.len(), work.batch_size)?;
        let mut chains: Vec<Chain> = (0..num_chains as u32)
            .map(|id| Chain::new(id, Temperature::BAYES, posterior.initial_position(0, id), &posterior.layout()))
            .collect();
        let keep = Keep { burn_in: 0, every: steps_between };
        let plan = Plan { seed: 0, batches, num_steps: (num_readings + 1) * steps_between, keep };
        engine.run(posterior, Motion::Sample(&rule), &plan, &mut chains, read)?;
        anyhow::ensure!(
            chains.iter().all(|chain| chain.divergence.is_none()),
            "a chain of {} diverged: its step size is too large to be timed",
            work.name
        );
        Ok(())
    }
}

fn rounded(microseconds: f64) -> f64 {
    (microseconds * 1e4).round() / 1e4
}
