//! Chains as `kelvin run` samples them beside exact HMC and the paper's chains, on one split of a table: a line of JSON for each temperature, as it is done.
//!
//! `cargo bench -p kelvin-study --bench audits -- PRESET [seed=S] [betas=B,…] [exact=GRADIENTS] [KEY=VALUE …]`
//!
//! The data are in the folder KELVIN_DATA. HMC has four chains of `exact` gradients each (default 500 000) and begins where the run's chains ended; 0 leaves it out. The paper's chains
//! are those of the preset. `results/reproduce.sh audits` runs it for five splits of Concrete and Energy, and results/audits_table.py reads what it prints.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use kelvin::potential::Potential;
use kelvin::sampler::Silent;
use kelvin_study::experiment::{AuditPlan, ChainGroup, ChainSpec, Experiment, SampledChain, SamplerEstimates, Slot};
use kelvin_study::problem::{Problem, SourceData};
use kelvin_study::settings::{Settings, preset, with_override};
use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn Error>>;

struct Asked {
    preset: String,
    seed: u64,
    betas: Vec<f64>,
    exact: u64,
    changes: Vec<String>,
}

impl Asked {
    fn read() -> Fallible<Self> {
        let mut asked = Self {
            preset: "concrete".into(),
            seed: 0,
            betas: vec![0.1, 0.3, 1.0, 5.0],
            exact: AuditPlan::default().gradients,
            changes: Vec::new(),
        };
        for word in std::env::args().skip(1).filter(|word| !word.starts_with("--")) {
            match word.split_once('=') {
                Some(("seed", number)) => asked.seed = number.parse()?,
                Some(("exact", number)) => asked.exact = number.parse()?,
                Some(("betas", list)) => asked.betas = list.split(',').map(str::parse).collect::<Result<_, _>>()?,
                Some(_) => asked.changes.push(word),
                None => asked.preset = word,
            }
        }
        Ok(asked)
    }
}

fn main() -> Fallible<()> {
    let asked = Asked::read()?;
    let mut paper = preset(&asked.preset)?.settings();
    paper.run.seed = asked.seed;
    let folder = std::env::var_os("KELVIN_DATA").map(PathBuf::from);
    let data = Problem::read_dataset(&paper, folder.as_deref())?;
    let SourceData::Table(table) = &data else { return Err("audits are of tables".into()) };
    let adaptive = paper.clone().adaptive(table.num_rows(), data.network(&paper)?.layout().len());
    let adaptive = asked.changes.iter().try_fold(adaptive, |settings, change| with_override(&settings, change))?;
    let of = |settings: Settings| -> Fallible<Experiment> {
        Ok(Experiment::new(Problem::new(Problem::read_dataset(&settings, folder.as_deref())?, &settings)?, settings)?)
    };
    let (adaptive, paper) = (of(adaptive)?, of(paper)?);
    for &beta in &asked.betas {
        let (own, chains) = sampled(&adaptive, beta)?;
        let (of_paper, _) = sampled(&paper, beta)?;
        let mut line = json!({ "data": asked.preset, "seed": asked.seed, "beta": beta, "run": own, "paper": of_paper });
        if asked.exact > 0 {
            let group =
                ChainGroup {
                    label: format!("β = {beta}"), inverse_temperature: beta, chains: chains.iter().collect()
                };
            let plan = AuditPlan { gradients: asked.exact, ..AuditPlan::default() };
            line["audit"] = serde_json::to_value(&adaptive.audit(&[group], &plan, &Silent)?[0])?;
        }
        println!("{line}");
    }
    Ok(())
}

/// The chains of a temperature, with what they estimate, what they took, and at which step their burn-in ended.
fn sampled(experiment: &Experiment, beta: f64) -> Fallible<(Value, Vec<SampledChain>)> {
    let spec = |repetition| ChainSpec {
        label: format!("β = {beta}, chain {repetition}"),
        repetition,
        slot: Slot::Chosen,
        inverse_temperature: beta,
        start: None,
    };
    let specs: Vec<ChainSpec> = (0..experiment.settings.run.chains).map(spec).collect();
    let began = Instant::now();
    let chains = experiment.sample(&specs, &Silent)?;
    let seconds = began.elapsed().as_secs_f64();
    let sound: Vec<&SampledChain> = chains.iter().filter(|chain| !chain.draws.is_empty()).collect();
    let estimates = SamplerEstimates::of_chains(experiment, beta, &sound)?;
    let epoch = experiment.settings.sampler.batch_size.rows();
    let epoch = epoch.map_or(1, |rows| experiment.posterior.num_examples() / rows) as u64;
    let steps: u64 = chains.iter().map(|chain| chain.chain.state.step).sum();
    let draws: u64 = sound.iter().map(|chain| chain.draws.len() as u64).sum();
    let after_burn_in = draws * experiment.settings.sampler.cycle * epoch;
    let looks: u64 = chains.iter().map(|chain| chain.chain.state.adapted.num_looks).sum();
    let found = json!({ "estimates": estimates, "steps": steps, "after_burn_in": after_burn_in, "looks": looks, "seconds": seconds });
    Ok((found, chains))
}
