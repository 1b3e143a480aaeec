//! `kelvin sweep`: the population of the paper's experiment, with its tables and figures.

use kelvin::diagnostics::{Limits, Warning};
use kelvin::experiment::{ChainGroup, ChainSpec, Experiment, ExperimentError, SampledChain, Slot};
use kelvin::predictive::PredictiveError;
use kelvin::selection::JointChoice;
use serde::Serialize;

use super::{Request, threads};
use crate::arguments::SweepArguments;
use crate::chart::significant;
use crate::interrupt::Interrupt;
use crate::output::{print_result, say};
use crate::paper_tables::{Agreement, Sweep};
use crate::population::{choose, divergence_warnings, sample, selection_warnings};
use crate::report::RunReport;
use crate::row::{BETA_STAR, Method, Row, with_draws};
use crate::run_record::RunCommand;
use crate::{doubts, figures, metrics, source};

#[derive(Serialize)]
struct SweepResult<'a> {
    command: &'static str,
    name: &'a str,
    folder: String,
    repetitions: u32,
    beta_star: Vec<f64>,
    rows: &'a [Row],
    warnings: &'a [Warning],
}

pub fn sweep(arguments: &SweepArguments) -> anyhow::Result<()> {
    let common = &arguments.common;
    threads(common.conduct.threads)?;
    let mut source = source::read(&arguments.source, common)?;
    if let Some(repetitions) = arguments.repetitions {
        source.settings.run.repetitions = repetitions;
    }
    let (out, fresh) = (common.out.as_deref(), common.fresh);
    carry_out(Request { command: RunCommand::Sweep, source, out, fresh, conduct: &common.conduct })
}

/// Sweeps, or goes on with what the folder holds.
pub fn carry_out(request: Request<'_>) -> anyhow::Result<()> {
    let conduct = request.conduct;
    let (problem, question) = request.split()?;
    let interrupt = Interrupt::listen()?;
    let (mut experiment, mut folder) = question.open(&problem)?;

    let repetitions: Vec<u32> = (0..experiment.settings.run.repetitions).collect();
    let (choices, search_seconds) = choose(&experiment, &folder, &interrupt, &repetitions, conduct.quiet)?;
    if folder.record().wants_pilot()
        && let Some(first) = choices.iter().flatten().next()
    {
        experiment.tune_learning_rate(&first.position, first.inverse_temperature)?;
        folder.write_tuned(&experiment.settings)?;
    }

    let specs = chain_specs(&experiment, &choices);
    let stage = "sampling the population";
    let (chains, seconds) = sample(&experiment, &folder, &interrupt, &specs, stage, conduct.quiet)?;

    let mut rows = Vec::new();
    let mut warnings = selection_warnings(&choices, choices.iter().flatten());
    warnings.extend(divergence_warnings(&chains));
    for ((repetition, choice), &seconds) in choices.iter().enumerate().zip(&search_seconds) {
        if let Some(choice) = choice {
            rows.push(Row::sgd(&experiment, choice, Some(repetition as u32), seconds)?);
        }
    }
    for (chain, &seconds) in chains.iter().zip(&seconds) {
        let group = ChainGroup {
            label: chain.spec.label.clone(),
            inverse_temperature: chain.spec.inverse_temperature,
            chains: with_draws(std::iter::once(chain)),
        };
        if group.chains.is_empty() {
            continue;
        }
        interrupt.check(folder.path())?;
        let method = match chain.spec.slot {
            Slot::Chosen => Method::Chosen,
            Slot::Bayes => Method::Bayes,
            _ => Method::Grid,
        };
        let row = match Row::posterior(&experiment, method, &group, Some(chain.spec.repetition), seconds) {
            Ok((row, _)) => row,
            // Finite weights whose outputs are not: as good as diverged, and no reason to lose the others.
            Err(error) if is_not_finite(&error) => {
                warnings.push(Warning::ChainDiverged { label: group.label, step: chain.chain.state.step });
                continue;
            }
            Err(error) => return Err(error),
        };
        if let (Slot::Chosen, Some(measured)) = (chain.spec.slot, &row.measured) {
            warnings.extend(group.warnings(measured, experiment.sampler_temperature(group.inverse_temperature)?));
        }
        rows.push(row);
    }
    let agreement = agreement(&experiment, &chains, &mut warnings)?;
    let betas: Vec<f64> = choices.iter().flatten().map(|choice| choice.inverse_temperature).collect();
    let sweep = Sweep {
        rows: &rows,
        repetitions: experiment.settings.run.repetitions,
        chains_share_time: experiment.engine.moves_chains_together(),
    };
    let limits = Limits::default();
    for (metric, chosen) in sweep.grid_choices_by_lpd() {
        let at_edge = chosen.iter().find_map(|&beta| limits.check_grid(&experiment.settings.run.grid, beta, metric));
        warnings.extend(at_edge);
    }

    let name = &experiment.settings.name;
    let mut files = vec!["results", "kinetic_temperature", "agreement", "wall_clock"];
    let mut tables = vec![sweep.results(), sweep.kinetic(), sweep.agreement(&agreement), sweep.wall_clock()];
    if let Some(other) = problem.out_of_distribution_name() {
        files.push("out_of_distribution");
        tables.push(sweep.out_of_distribution(other));
    }
    for (file, table) in files.iter().zip(&tables) {
        folder.write(&format!("{file}.csv"), table.to_csv().as_bytes())?;
    }
    folder.write("summary.csv", sweep.summary_csv().as_bytes())?;
    folder.write("metrics.csv", metrics::to_csv(&rows, problem.target_std()).as_bytes())?;
    folder.write_json("warnings.json", &warnings)?;
    let mut drawn = figures::of_grid(name, &rows);
    drawn.push(figures::selection_path(name, &choices));
    for figure in &drawn {
        folder.write_figure(figure.name, &figure.svg)?;
    }
    let chosen = betas.iter().map(|beta| significant(*beta, 3)).collect::<Vec<_>>().join(", ");
    let verdict = format!("{BETA_STAR} of the {} repetitions: {chosen}.", repetitions.len());
    let report = RunReport {
        experiment: &experiment,
        verdict: &verdict,
        table: &tables[0],
        tables: &tables[1..],
        figures: &drawn,
        warnings: &warnings,
    };
    folder.write("report.html", report.page()?.to_html().as_bytes())?;

    if conduct.json {
        let result = SweepResult {
            command: "sweep",
            name,
            folder: folder.path().display().to_string(),
            repetitions: experiment.settings.run.repetitions,
            beta_star: betas,
            rows: &rows,
            warnings: &warnings,
        };
        return print_result(&format!("{}\n", serde_json::to_string(&result)?));
    }
    let mut text = format!("# {name}\n\n{verdict}\n\n");
    for table in &tables {
        text.push_str(&table.to_markdown());
        text.push('\n');
    }
    print_result(&text)?;
    say(&doubts::in_short(&warnings));
    print_result(&format!("run folder: {0} (open {0}/report.html)\n", folder.path().display()))
}

fn is_not_finite(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref::<ExperimentError>(),
        Some(ExperimentError::Predictive(PredictiveError::NonFiniteOutput { .. }))
    )
}

fn chain_specs(experiment: &Experiment<'_>, choices: &[Option<JointChoice>]) -> Vec<ChainSpec> {
    let grid = &experiment.settings.run.grid;
    let mut specs = Vec::new();
    for (repetition, choice) in choices.iter().enumerate() {
        let start = experiment.start(choices, repetition as u32);
        let mut push = |slot, inverse_temperature: f64, name: &str| {
            let label = format!("{name}{}, repetition {}", significant(inverse_temperature, 3), repetition + 1);
            let repetition = repetition as u32;
            let start = start.clone();
            specs.push(ChainSpec { label, repetition, slot, inverse_temperature, start });
        };
        for (index, &beta) in grid.iter().enumerate() {
            push(Slot::Grid(index as u32), beta, "β = ");
        }
        if !grid.contains(&1.0) {
            push(Slot::Bayes, 1.0, "β = ");
        }
        if let Some(choice) = choice {
            push(Slot::Chosen, choice.inverse_temperature, &format!("{BETA_STAR} = "));
        }
    }
    specs
}

/// How far the repetitions agree at each temperature of the grid; what is doubtful goes to `warnings`.
fn agreement(
    experiment: &Experiment<'_>,
    chains: &[SampledChain],
    warnings: &mut Vec<Warning>,
) -> anyhow::Result<Vec<Agreement>> {
    let inflation = experiment.expected_inflation()?;
    let mut betas: Vec<f64> = Vec::new();
    for chain in chains.iter().filter(|chain| chain.spec.slot != Slot::Chosen) {
        if !betas.contains(&chain.spec.inverse_temperature) {
            betas.push(chain.spec.inverse_temperature);
        }
    }
    betas.sort_by(f64::total_cmp);
    let mut lines = Vec::new();
    for beta in betas {
        let own = chains.iter().filter(|c| c.spec.slot != Slot::Chosen && c.spec.inverse_temperature == beta);
        let group = ChainGroup {
            label: format!("β = {}", significant(beta, 3)),
            inverse_temperature: beta,
            chains: with_draws(own),
        };
        let temperature = experiment.sampler_temperature(beta)?;
        let measured = group.measured(temperature, inflation);
        warnings.extend(group.warnings(&measured, temperature));
        lines.push(Agreement { beta, rhat: measured.rhat, bulk_ess: measured.bulk_ess });
    }
    Ok(lines)
}
