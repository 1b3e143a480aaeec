//! `kelvin diagnose`: whether a run can be believed, in the terminal, from its files alone.

use std::path::Path;

use kelvin::diagnostics::Warning;
use kelvin::predictive::ByModel;
use serde::Serialize;

use crate::arguments::DiagnoseArguments;
use crate::doubts;
use crate::output::{WarningsStand, print_result};
use crate::terminal::lines::{lines, sentence};
use kelvin_report::tables::{
    BAND, MISSING, Search, Table, Temperature, Tensors, TheoryLine, about, searches, temperatures, tensors,
    theory_lines, theory_table,
};
use kelvin_report::text::wrapped;
use kelvin_report::which_way_text::{MISSING as NO_WAY, which_way_text};
use kelvin_study::error::resume_command;
use kelvin_study::findings::{BETA_STAR, FINDINGS, Findings, WhichWay};
use kelvin_study::folder::{Phase, Stage, Status, check_is_run, is_being_written};
use kelvin_study::number::{fixed, significant};

/// Columns for the chains of a run on its way.
const COLUMNS: usize = 100;

#[derive(Serialize)]
struct Diagnosis<'a> {
    command: &'static str,
    folder: String,
    is_finished: bool,
    temperatures: Vec<Temperature>,
    tensors: Option<Tensors>,
    searches: Vec<Search>,
    learning_theory: Vec<TheoryLine>,
    which_way: Option<ByModel<WhichWay>>,
    warnings: &'a [Warning],
    /// How far a run is that is on its way.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a Status>,
}

pub fn diagnose(arguments: &DiagnoseArguments) -> anyhow::Result<()> {
    let run = &arguments.run;
    check_is_run(run)?;
    let status = Status::read(run)?;
    let is_on_its_way = status.as_ref().is_some_and(|status| status.moment.stage != Stage::Done);
    // A run that is done again still has the results of the last time.
    let warnings = match status {
        Some(status) if is_on_its_way => on_its_way(run, &status, arguments.json)?,
        _ if !run.join(FINDINGS).exists() && is_being_written(run) => {
            print_result("the run has just begun: nothing is known yet\n")?;
            Vec::new()
        }
        _ => finished(run, arguments.json)?,
    };
    if !arguments.json {
        let count = match warnings.len() {
            0 => "no warning".into(),
            1 => "1 warning".into(),
            count => format!("{count} warnings"),
        };
        print_result(&format!("{count}{}\n", if is_on_its_way { " so far" } else { "" }))?;
    }
    if arguments.strict && !warnings.is_empty() { Err(WarningsStand.into()) } else { Ok(()) }
}

fn finished(run: &Path, json: bool) -> anyhow::Result<Vec<Warning>> {
    let findings = Findings::read(run)?;
    let diagnosis = Diagnosis {
        command: "diagnose",
        folder: run.display().to_string(),
        is_finished: true,
        temperatures: temperatures(&findings),
        tensors: tensors(&findings),
        searches: searches(&findings),
        learning_theory: theory_lines(&findings),
        which_way: findings.which_way,
        warnings: &findings.warnings,
        status: None,
    };
    if json {
        print_result(&format!("{}\n", serde_json::to_string(&diagnosis)?))?;
    } else {
        print_result(&text(&findings, &diagnosis))?;
    }
    Ok(findings.warnings)
}

fn text(findings: &Findings, diagnosis: &Diagnosis<'_>) -> String {
    let mut text = format!("{}\n", temperature_table(&findings.name, &diagnosis.temperatures).to_text());
    text += &format!("{}\n", agreement_table(&diagnosis.temperatures).to_text());
    if let Some(tensors) = &diagnosis.tensors {
        text += &format!("{}{}\n", tensor_table(tensors).to_text(), about_the_band(tensors));
    } else {
        text += "Momenta have no temperature here: the sampler has none, or nothing was kept.\n\n";
    }
    text += &format!("{}{}\n", search_table(&diagnosis.searches).to_text(), spread(&diagnosis.searches));
    // A sweep has its grid to say it.
    text += &match (findings.beta_star, diagnosis.which_way) {
        (Some(beta), Some(way)) => match which_way_text(beta, &way) {
            nothing if nothing.is_empty() => {
                "Which way to move β from here cannot be told: the slope's error exceeds what LPD changes by.\n\n"
                    .into()
            }
            text => text + "\n",
        },
        (Some(_), None) => wrapped(NO_WAY, "") + "\n",
        (None, _) => String::new(),
    };
    text += &match theory_table(&findings.name, &diagnosis.learning_theory) {
        Some(table) => format!("{}{}\n", table.to_text(), about(findings).map(|text| wrapped(&text, "")).concat()),
        None => wrapped(&format!("Learning theory: {MISSING}"), "") + "\n",
    };
    let diverged: Vec<String> = findings
        .chains
        .iter()
        .filter_map(|chain| Some(format!("{} at step {}", chain.label, chain.diverged_at?)))
        .collect();
    text += &if diverged.is_empty() {
        format!("No chain of {} diverged.\n\n", findings.chains.len())
    } else {
        wrapped(&format!("Diverged: {}.", diverged.join("; ")), "  ") + "\n"
    };
    text + &doubts::in_short(&findings.warnings)
}

fn or_dash(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.filter(|value| !value.is_nan()).map_or("–".into(), show)
}

fn three(value: f64) -> String {
    significant(value, 3)
}

fn temperature_table(name: &str, temperatures: &[Temperature]) -> Table {
    // Where the likelihood is tempered, momenta keep the temperature 1.
    let has_own_momenta = temperatures.iter().any(|line| (line.momentum_beta / line.beta - 1.0).abs() > 1e-9);
    let mut header = vec!["asked"];
    header.extend(has_own_momenta.then_some("of momenta"));
    header.extend(["cycle ends", "off", "all steps", "should be", "off", "configurational"]);
    let mut table = Table::new(format!("{name} — inverse temperature, asked and measured"), header);
    let off = |found: Option<f64>, target: Option<f64>| {
        or_dash(found.zip(target).map(|(found, target)| 100.0 * (found / target - 1.0)), |off| {
            format!("{}{} %", if off > 0.0 { "+" } else { "" }, fixed(off, 1))
        })
    };
    for line in temperatures {
        let mut row = vec![line.label.clone()];
        row.extend(has_own_momenta.then(|| three(line.momentum_beta)));
        row.extend([
            or_dash(line.beta_at_cycle_ends, three),
            off(line.beta_at_cycle_ends, Some(line.momentum_beta)),
            or_dash(line.beta_over_all_steps, three),
            or_dash(line.expected_beta_over_all_steps, three),
            off(line.beta_over_all_steps, line.expected_beta_over_all_steps),
            or_dash(line.configurational_beta, three),
        ]);
        table.push(row);
    }
    table
}

fn agreement_table(temperatures: &[Temperature]) -> Table {
    let header = ["asked", "chains", "diverged", "draws", "R̂", "bulk ESS", "tail ESS", "τ in draws"];
    let mut table = Table::new("Potential energy: agreement of the chains, effective draws", header);
    for line in temperatures {
        let or_none = if line.num_diverged == 0 { "–".into() } else { line.num_diverged.to_string() };
        table.push([
            line.label.clone(),
            line.num_chains.to_string(),
            or_none,
            line.num_draws.to_string(),
            or_dash(line.rhat, |rhat| fixed(rhat, 2)),
            or_dash(line.bulk_ess, three),
            or_dash(line.tail_ess, three),
            or_dash(line.autocorrelation_time, three),
        ]);
    }
    table
}

fn tensor_table(tensors: &Tensors) -> Table {
    let header = ["tensor", "numbers", "T̂/T", "99 % band", ""];
    let mut table = Table::new(format!("Kinetic temperature of each tensor at {BETA_STAR}, cycle ends"), header);
    for tensor in &tensors.tensors {
        let mark = match tensor.temperature_ratio {
            _ if !tensor.is_outside => "",
            ratio if ratio > tensor.band.1 => "▲ hotter",
            ratio if ratio < tensor.band.0 => "▼ colder",
            _ => "not a number",
        };
        table.push([
            tensor.name.clone(),
            tensor.size.to_string(),
            or_dash(Some(tensor.temperature_ratio), |ratio| fixed(ratio, 4)),
            format!("{} to {}", fixed(tensor.band.0, 4), fixed(tensor.band.1, 4)),
            mark.into(),
        ]);
    }
    table
}

/// What the band is of, and how to read it.
fn about_the_band(tensors: &Tensors) -> String {
    let outside = tensors.tensors.iter().filter(|tensor| tensor.is_outside).count();
    let (readings, effective) = (tensors.num_readings, significant(tensors.independent_readings, 3));
    wrapped(
        &format!(
            "The band holds {} % of the means over {readings} draws ({effective} independent ones, by the \
             friction between them) at the right temperature: one tensor in a hundred leaves it by chance. {outside} of {} {} outside; \
             with many numbers the band is narrow, so see how far.",
            100.0 * BAND,
            tensors.tensors.len(),
            if outside == 1 { "is" } else { "are" },
        ),
        "",
    )
}

fn search_table(searches: &[Search]) -> Table {
    let header = ["search", BETA_STAR, "validation LPD", "best checkpoint", "diverged"];
    let mut table = Table::new(format!("The search for {BETA_STAR}"), header);
    for search in searches {
        let best = format!("{} of {}", search.best_checkpoint, search.num_checkpoints);
        table.push([
            format!("start {}", search.start),
            or_dash(search.beta, three),
            or_dash(search.validation_lpd, |lpd| fixed(lpd, 3)),
            if search.num_checkpoints == 0 { "–".into() } else { best },
            search.diverged_at.map_or("–".into(), |step| format!("step {step}")),
        ]);
    }
    table
}

/// How far the starts agree about β̂*.
fn spread(searches: &[Search]) -> String {
    let betas: Vec<f64> = searches.iter().filter_map(|search| search.beta).filter(|beta| beta.is_finite()).collect();
    let (low, high) = betas.iter().fold((f64::INFINITY, 0.0), |(low, high), &beta| (beta.min(low), beta.max(high)));
    match betas.len() {
        0 => "No search found a β.\n".into(),
        1 => format!("{BETA_STAR} = {} from one start: its spread is not known.\n", three(low)),
        starts => format!(
            "{BETA_STAR} from {} to {} over {starts} starts: a factor of {}.\n",
            three(low),
            three(high),
            three(high / low)
        ),
    }
}

/// What is known of a run on its way; the warnings that already stand.
fn on_its_way(run: &Path, status: &Status, json: bool) -> anyhow::Result<Vec<Warning>> {
    let diverged = status.moment.chains.iter().filter(|chain| chain.phase == Phase::Diverged);
    let warnings: Vec<Warning> =
        diverged.map(|chain| Warning::ChainDiverged { label: chain.label.clone(), step: chain.step }).collect();
    if json {
        let diagnosis = Diagnosis {
            command: "diagnose",
            folder: run.display().to_string(),
            is_finished: false,
            temperatures: Vec::new(),
            tensors: None,
            searches: Vec::new(),
            learning_theory: Vec::new(),
            which_way: None,
            warnings: &warnings,
            status: Some(status),
        };
        print_result(&format!("{}\n", serde_json::to_string(&diagnosis)?))?;
        return Ok(warnings);
    }
    let state = if is_being_written(run) {
        "The run is on its way".to_owned()
    } else {
        format!("The run was stopped; go on with `{}`", resume_command(run))
    };
    let unknown = match status.moment.stage {
        Stage::Choosing | Stage::Tuning | Stage::Searched => format!("{BETA_STAR}, and everything about its chains"),
        _ => "R̂, effective draws, the temperatures of tensors and over all steps, and the scores".into(),
    };
    let mut text = format!("{}. {state}.\n\n", sentence(&status.moment));
    text.extend(lines(&status.moment, COLUMNS, usize::MAX).iter().skip(1).map(|line| format!("{line}\n")));
    text += &wrapped(&format!("\nNot known yet: {unknown}."), "  ");
    print_result(&(text + &doubts::in_short(&warnings)))?;
    Ok(warnings)
}
