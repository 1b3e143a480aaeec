//! The samplers of a table's posterior beside exact HMC, at the same number of gradients: bias, scores, effective predictions.
//!
//! `cargo bench -p kelvin-study --bench adaptive_sampler [-- GRADIENTS [PRESET] [samplers|steps|friction|grid] [exact=GRADIENTS] [betas=B,…] [every=STEPS] [KEY=VALUE ...]]`
//!
//! - `samplers` (default): the paper's SGHMC, adaptive BAOAB and adaptive MCLMC from random starts, a third of the steps burn-in;
//! - `steps`: both adaptive samplers with multiples of the warm-up's step size, from the end of one warm-up;
//! - `friction`: the same with other frictions;
//! - `grid`: the paper's chains, and every pair of `factors=F,…` and `frictions=G,…` of one `integrator=baoab` or `mclmc`, with the seconds they took.
//!
//! Four chains a temperature, GRADIENTS steps each (default 30 000), PRESET `concrete` (default) or `energy` (whose file is in the folder KELVIN_DATA). HMC has `exact` gradients a chain (default: five times as
//! many) and begins where the adaptive chains ended. Effective predictions are bulk ESS of what draws predict for a test row, for 1000 gradients after burn-in.
//! results/adaptive.md has a longer run.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use kelvin::draws::{Draws, Measurements};
use kelvin::potential::{Batch, Posterior, Potential};
use kelvin::sampler::{Batches, Chain, Integrator, Keep, Langevin, Plan, Silent, WarmUp, run_population};
use kelvin::temperature::Temperature;
use kelvin_study::experiment::{
    AuditPlan, AuditRow, ChainGroup, ChainSpec, Experiment, RunningScores, SampledChain, SamplerEstimates, Slot,
};
use kelvin_study::problem::Problem;
use kelvin_study::settings::{Settings, preset, with_override};

type Fallible<T> = Result<T, Box<dyn Error>>;

const CHAINS: u32 = 4;

struct Asked {
    gradients: u64,
    exact: u64,
    preset: String,
    what: String,
    /// Of `steps`, `friction` and `grid`.
    betas: Vec<f64>,
    factors: Vec<f64>,
    frictions: Vec<f64>,
    integrators: Vec<Integrator>,
    /// Steps from one draw of an adaptive chain to the next.
    every: u64,
    changes: Vec<String>,
}

impl Asked {
    fn read() -> Fallible<Self> {
        let words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
        let mut asked = Self {
            gradients: 30_000,
            exact: 0,
            preset: "concrete".into(),
            what: "samplers".into(),
            betas: Vec::new(),
            factors: Vec::new(),
            frictions: Vec::new(),
            integrators: vec![Integrator::Baoab, Integrator::Mclmc],
            every: 50,
            changes: Vec::new(),
        };
        for word in words {
            match word.split_once('=') {
                Some(("exact", number)) => asked.exact = number.parse()?,
                Some(("every", number)) => asked.every = number.parse()?,
                Some(("betas", list)) => asked.betas = numbers(list)?,
                Some(("factors", list)) => asked.factors = numbers(list)?,
                Some(("frictions", list)) => asked.frictions = numbers(list)?,
                Some(("integrator", "baoab")) => asked.integrators = vec![Integrator::Baoab],
                Some(("integrator", "mclmc")) => asked.integrators = vec![Integrator::Mclmc],
                Some(_) => asked.changes.push(word),
                None if ["samplers", "steps", "friction", "grid"].contains(&word.as_str()) => asked.what = word,
                None => match word.parse() {
                    Ok(number) => asked.gradients = number,
                    Err(_) => asked.preset = word,
                },
            }
        }
        if asked.exact == 0 {
            asked.exact = 5 * asked.gradients;
        }
        if asked.betas.is_empty() {
            asked.betas = if asked.preset == "energy" { vec![0.3, 1.0, 5.0] } else { vec![0.114, 0.3, 1.0] };
        }
        Ok(asked)
    }

    /// The paper's settings, with its shares of ramp and burn-in.
    fn paper(&self) -> Fallible<Settings> {
        let mut settings = preset(&self.preset)?.settings();
        let sampler = &mut settings.sampler;
        sampler.burn_in = self.gradients / 3;
        (sampler.ramp_start, sampler.ramp_end) = (sampler.burn_in * 48 / 100, sampler.burn_in / 2);
        sampler.epochs = sampler.burn_in + (self.gradients - sampler.burn_in) / sampler.cycle * sampler.cycle;
        Ok(settings)
    }

    fn adaptive(&self, integrator: Integrator) -> Fallible<Settings> {
        let mut settings = self.paper()?;
        let sampler = &mut settings.sampler;
        (sampler.integrator, sampler.adapt, sampler.cycle) = (integrator, true, self.every);
        Ok(self.changes.iter().try_fold(settings, |settings, change| with_override(&settings, change))?)
    }
}

fn numbers(list: &str) -> Fallible<Vec<f64>> {
    Ok(list.split(',').map(str::parse).collect::<Result<_, _>>()?)
}

fn main() -> Fallible<()> {
    let asked = Asked::read()?;
    println!("{}, {} steps a chain, {CHAINS} chains, {:?}", asked.preset, asked.gradients, asked.changes);
    match asked.what.as_str() {
        "samplers" => samplers(&asked),
        "steps" => variations(&asked, &[0.5, 0.75, 1.0, 1.25, 1.5, 1.75], &[None]),
        "grid" => {
            paper_alone(&asked)?;
            let frictions: Vec<Option<f64>> = asked.frictions.iter().copied().map(Some).collect();
            variations(&asked, &asked.factors, &frictions)
        }
        _ => variations(&asked, &[1.0], &[Some(1.0), Some(4.0), Some(9.0), Some(18.0), Some(36.0)]),
    }
}

fn experiment(settings: Settings) -> Fallible<Experiment> {
    let folder = std::env::var_os("KELVIN_DATA").map(PathBuf::from);
    let dataset = Problem::read_dataset(&settings, folder.as_deref())?;
    Ok(Experiment::new(Problem::new(dataset, &settings)?, settings)?)
}

/// All samplers from random starts, and HMC from where adaptive BAOAB ended.
fn samplers(asked: &Asked) -> Fallible<()> {
    let runs = [
        ("paper", asked.paper()?),
        ("BAOAB", asked.adaptive(Integrator::Baoab)?),
        ("MCLMC", asked.adaptive(Integrator::Mclmc)?),
    ];
    let mut all = Vec::new();
    for (name, settings) in runs {
        let experiment = experiment(settings)?;
        let specs: Vec<ChainSpec> = asked.betas.iter().copied().enumerate().flat_map(specs).collect();
        let began = Instant::now();
        let chains = experiment.sample(&specs, &Silent)?;
        eprintln!("{name}: {:.0} s", began.elapsed().as_secs_f64());
        for chain in chains.iter().filter(|chain| chain.chain.state.adapted.num_looks > 0) {
            let found = &chain.chain.state.adapted;
            eprintln!("  {}: h = {:.2e}, λmax = {:.2e}", chain.spec.label, found.step_size, found.largest);
        }
        let gradients = (experiment.settings.sampler.epochs - experiment.settings.sampler.burn_in) * u64::from(CHAINS);
        all.push((name, experiment, chains, gradients));
    }
    let exact = audit(asked, &all[1].1, &all[1].2)?;
    head();
    for (index, audited) in exact.iter().enumerate() {
        for (name, experiment, chains, gradients) in &all {
            let chains: Vec<&SampledChain> = group(chains, index).iter().collect();
            let found = SamplerEstimates::of_chains(experiment, audited.inverse_temperature, &chains)?;
            row(audited, name, &found, *gradients);
        }
        row(audited, "HMC", &audited.exact, audited.hmc.num_gradients);
    }
    Ok(())
}

fn specs((index, beta): (usize, f64)) -> Vec<ChainSpec> {
    let slot = Slot::Grid(index as u32);
    let spec = |repetition| ChainSpec {
        label: format!("β = {beta}, chain {repetition}"),
        repetition,
        slot,
        inverse_temperature: beta,
        start: None,
    };
    (0..CHAINS).map(spec).collect()
}

fn group(chains: &[SampledChain], index: usize) -> &[SampledChain] {
    let first = index * CHAINS as usize;
    &chains[first..first + CHAINS as usize]
}

fn audit(asked: &Asked, experiment: &Experiment, chains: &[SampledChain]) -> Fallible<Vec<AuditRow>> {
    let groups: Vec<ChainGroup<'_>> = asked
        .betas
        .iter()
        .copied()
        .enumerate()
        .map(|(index, beta)| {
            let chains = group(chains, index).iter().collect();
            ChainGroup { label: format!("β = {beta}"), inverse_temperature: beta, chains }
        })
        .collect();
    let plan = AuditPlan { num_chains: CHAINS, gradients: asked.exact, ..AuditPlan::default() };
    let began = Instant::now();
    let rows = experiment.audit(&groups, &plan, &Silent)?;
    eprintln!("HMC: {:.0} s", began.elapsed().as_secs_f64());
    for row in &rows {
        eprintln!("  {}\n  {:?}", row.sentence, row.hmc);
    }
    Ok(rows)
}

/// The paper's chains, without HMC beside them.
fn paper_alone(asked: &Asked) -> Fallible<()> {
    let experiment = experiment(asked.paper()?)?;
    let specs: Vec<ChainSpec> = asked.betas.iter().copied().enumerate().flat_map(specs).collect();
    let began = Instant::now();
    let chains = experiment.sample(&specs, &Silent)?;
    eprintln!("paper: {:.2} s", began.elapsed().as_secs_f64());
    let gradients = (experiment.settings.sampler.epochs - experiment.settings.sampler.burn_in) * u64::from(CHAINS);
    for (index, &beta) in asked.betas.iter().enumerate() {
        let chains: Vec<&SampledChain> = group(&chains, index).iter().collect();
        let found = SamplerEstimates::of_chains(&experiment, beta, &chains)?;
        let mixing = found.predictions.ok_or("too few draws")?;
        println!(
            "paper β {beta}: U {} SM {} TM {} effective {:.3} {:.3} R̂ {:.3} {:.3}",
            found.potential_energy,
            found.lpd.standard,
            found.lpd.tempered,
            1000.0 * mixing.median_ess / gradients as f64,
            1000.0 * mixing.low_ess / gradients as f64,
            mixing.median_rhat,
            mixing.worst_rhat
        );
    }
    Ok(())
}

/// Chains that go on from one warm-up of each sampler, with other step sizes and frictions.
fn variations(asked: &Asked, factors: &[f64], frictions: &[Option<f64>]) -> Fallible<()> {
    let experiment = experiment(asked.adaptive(Integrator::Baoab)?)?;
    let mut starts = Vec::new();
    for &integrator in &asked.integrators {
        for (index, beta) in asked.betas.iter().copied().enumerate() {
            let mut chains = Vec::new();
            for repetition in 0..CHAINS {
                let position = experiment.posterior.initial_position(experiment.settings.run.seed, repetition);
                let id = repetition * 64 + index as u32;
                chains.push(Chain::new(id, Temperature::from_inverse(beta)?, position, &experiment.posterior.layout()));
            }
            let num_steps = asked.gradients / 3;
            let rule = rule(integrator, num_steps, None);
            let keep = Keep { burn_in: num_steps, every: 1 };
            run_population(&experiment.posterior, &rule, &plan(&experiment, num_steps, keep), &mut chains, &Silent);
            starts.push((integrator, index, beta, chains));
        }
    }
    let mut fast = Vec::new();
    for (_, index, beta, chains) in starts.iter().filter(|(integrator, ..)| *integrator == asked.integrators[0]) {
        fast.extend(sample(asked, &experiment, asked.integrators[0], (*index, *beta), chains, 1.0, None)?);
    }
    let exact = audit(asked, &experiment, &fast)?;
    head();
    for (integrator, index, beta, chains) in &starts {
        row(&exact[*index], "HMC", &exact[*index].exact, exact[*index].hmc.num_gradients);
        for &factor in factors {
            for &friction in frictions {
                let began = Instant::now();
                let found = sample(asked, &experiment, *integrator, (*index, *beta), chains, factor, friction)?;
                let seconds = began.elapsed().as_secs_f64();
                let found: Vec<&SampledChain> = found.iter().collect();
                let estimates = SamplerEstimates::of_chains(&experiment, *beta, &found)?;
                let gradients = (asked.gradients - asked.gradients / 3) * u64::from(CHAINS);
                let friction = friction.map_or(String::new(), |friction| format!(", γ = {friction}"));
                row(&exact[*index], &format!("{integrator} {factor}{friction}"), &estimates, gradients);
                eprintln!("time β {beta} {integrator} {factor}{friction}: {seconds:.2} s");
            }
        }
    }
    Ok(())
}

fn rule(integrator: Integrator, num_steps: u64, friction: Option<f64>) -> Langevin {
    Langevin { warm_up: Some(WarmUp { num_steps, friction }), ..Langevin::new(integrator, f64::NAN, f64::NAN) }
}

fn plan(experiment: &Experiment, num_steps: u64, keep: Keep) -> Plan {
    let batches = Batches::full(experiment.posterior.num_examples());
    Plan { seed: experiment.settings.run.seed, batches, num_steps, keep }
}

/// Goes on from the end of a warm-up, a tenth of the steps before the first draw.
fn sample(
    asked: &Asked,
    experiment: &Experiment,
    integrator: Integrator,
    of_beta: (usize, f64),
    starts: &[Chain],
    factor: f64,
    friction: Option<f64>,
) -> Fallible<Vec<SampledChain>> {
    let (posterior, warm_up) = (&experiment.posterior, asked.gradients / 3);
    let mut chains = starts.to_vec();
    chains.iter_mut().for_each(|chain| chain.state.adapted.step_size *= factor);
    let rule = rule(integrator, warm_up, friction);
    let burn_in = warm_up + (asked.gradients - warm_up) / 10;
    let keep = Keep { burn_in, every: asked.every };
    let mut kept = Vec::new();
    for spec in specs(of_beta) {
        let scores = RunningScores::new(experiment, spec.inverse_temperature)?;
        kept.push(Mutex::new((Draws::in_memory(posterior.dim()), scores)));
    }
    run_population(
        posterior,
        &rule,
        &plan(experiment, asked.gradients, keep),
        &mut chains,
        &|index: usize, chain: &Chain| {
            let mut kept = kept[index].lock().unwrap();
            let (draws, scores) = &mut *kept;
            let weights = chain.state.weights();
            let measured = Measurements {
                potential_energy: energy(posterior, weights.parameters),
                configurational_temperature: f64::NAN,
                kinetic_temperature: None,
            };
            draws.push(weights, measured).unwrap();
            scores.predictives.test.add_draw(&experiment.test.outputs(weights)).unwrap();
        },
    );
    let kept = kept.into_iter().map(|kept| kept.into_inner().unwrap());
    let of_chain = |((spec, chain), (draws, scores))| SampledChain { spec, chain, draws, scores, seconds: 0.0 };
    Ok(specs(of_beta).into_iter().zip(chains).zip(kept).map(of_chain).collect())
}

fn energy(posterior: &Posterior, position: &[f32]) -> f64 {
    let (mut gradient, mut work) = (vec![0.0; position.len()], posterior.workspace());
    posterior.evaluate(position, Batch::ALL, &mut gradient, &mut work)
}

fn head() {
    println!(
        "| β | sampler | U ± error | minus HMC, of ½dT | SM ± error | TM ± error | MSE ± error | effective predictions: median | 5 % | R̂: median | worst | R̂ of U |"
    );
    println!("|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
}

fn row(audited: &AuditRow, name: &str, found: &SamplerEstimates, gradients: u64) {
    let exact = audited.exact.potential_energy;
    let difference = found.potential_energy.value - exact.value;
    let percent = 100.0 / audited.exact.thermal_energy;
    let error = exact.error.hypot(found.potential_energy.error);
    let against = format!("{:+.1} ± {:.1} %", percent * difference, percent * error);
    let mixing = found.predictions;
    let number = |of: Option<f64>| of.map_or("–".into(), |number| format!("{number:.3}"));
    let effective = |ess: f64| 1000.0 * ess / gradients as f64;
    println!(
        "| {} | {name} | {} | {against} | {} | {} | {} | {} | {} | {} | {} | {} |",
        audited.inverse_temperature,
        found.potential_energy,
        found.lpd.standard,
        found.lpd.tempered,
        found.point_metric,
        number(mixing.map(|mixing| effective(mixing.median_ess))),
        number(mixing.map(|mixing| effective(mixing.low_ess))),
        number(mixing.map(|mixing| mixing.median_rhat)),
        number(mixing.map(|mixing| mixing.worst_rhat)),
        number(found.energy_rhat),
    );
}
