//! Sweeps side by side: one line of a table for each, and their test LPD against β in one figure.

use kelvin_study::error::Result;
use std::path::Path;

use kelvin::predictive::PredictiveModel;

use crate::chart::resolve_variables;
use crate::compare::comparison::Run;
use crate::figures::overlaid_lpd;
use crate::present::create_folder;
use crate::tables::{Spread, Sweep, Table, choices, mean_and_spread, partly_sampled};
use kelvin_study::findings::{BETA_STAR, Criterion, Method, Row, RunCommand, deviation, mean_and_std};
use kelvin_study::folder::write;
use kelvin_study::number::{fixed, significant};

/// A sweep reduced to what is compared.
struct Line<'a> {
    run: &'a Run,
    sweep: Sweep<'a>,
}

/// The sweeps among compared runs.
pub struct SweepComparison<'a> {
    lines: Vec<Line<'a>>,
}

impl<'a> SweepComparison<'a> {
    /// None of fewer than two.
    pub fn new(runs: &'a [Run]) -> Option<Self> {
        let line = |run: &'a Run| Line { run, sweep: Sweep::new(&run.findings) };
        let sweeps = runs.iter().filter(|run| run.findings.command == RunCommand::Sweep);
        let lines: Vec<Line<'a>> = sweeps.map(line).collect();
        (lines.len() > 1).then_some(Self { lines })
    }

    /// β̂*, the grid's choices, test LPD at each, agreement, warnings and time, a line for each sweep.
    pub fn table(&self) -> Table {
        let header = [
            "run".to_owned(),
            BETA_STAR.into(),
            "grid β SM".into(),
            "grid β TM".into(),
            "β = 1".into(),
            format!("SM {BETA_STAR}"),
            "SM grid".into(),
            format!("TM {BETA_STAR}"),
            "TM grid".into(),
            "largest R\u{302}".into(),
            "warnings".into(),
            format!("seconds {BETA_STAR}"),
            "grid".into(),
        ];
        let partly: Vec<String> = self.lines.iter().filter_map(Line::partly_sampled).collect();
        let partly = if partly.is_empty() { String::new() } else { format!(" ({})", partly.join("; ")) };
        let title = format!("Sweeps: test LPD, mean ± SD over repetitions{partly}, and seconds of one repetition");
        let mut table = Table::new(title, header);
        for line in &self.lines {
            let spread = |values: &[f64]| mean_and_spread(values, Spread::StandardDeviation);
            let scores: Vec<String> = line.scores().iter().map(|(_, values)| spread(values)).collect();
            let [sm, tm] = PredictiveModel::BOTH.map(|model| choices(line.grid_choices(model)));
            let rhat = line.largest_rhat().map_or("–".into(), |rhat| fixed(rhat, 2));
            let [_, _, chosen, grid] = line.sweep.seconds();
            let mut cells = vec![line.run.name(), spread(&line.run.beta_star()), sm, tm];
            cells.extend(scores);
            let grid = if line.has_choice() { significant(grid, 3) } else { "–".into() };
            cells.extend([rhat, line.run.findings.warnings.len().to_string(), significant(chosen, 3), grid]);
            table.push(cells.into_iter().map(|cell| if cell.is_empty() { "–".into() } else { cell }));
        }
        table
    }

    /// The same for machines: every number with its mean and SD, warnings by kind.
    pub fn csv(&self) -> String {
        let mut text = String::from("data,run,number,mean,sd,repetitions\n");
        for line in &self.lines {
            let Run { findings, .. } = line.run;
            let mut push = |number: &str, values: &[f64]| {
                if !values.is_empty() {
                    let mean = mean_and_std(values).0;
                    let sd = deviation(values).map_or(String::new(), |sd| sd.to_string());
                    text += &format!("{},{},{number},{mean},{sd},{}\n", findings.name, line.run.name(), values.len());
                }
            };
            push("beta_star", &line.run.beta_star());
            for (model, name) in
                [(PredictiveModel::Standard, "grid_beta_sm"), (PredictiveModel::Tempered, "grid_beta_tm")]
            {
                push(name, &line.grid_choices(model));
            }
            for (name, values) in line.scores() {
                push(name, &values);
            }
            push("largest_rhat", line.largest_rhat().as_slice());
            let [search, one, chosen, grid] = line.sweep.seconds();
            for (name, seconds) in [("search", search), ("beta_1", one), ("beta_star", chosen), ("grid", grid)] {
                push(&format!("seconds_{name}"), &[seconds]);
            }
            let mut kinds: Vec<&str> = findings.warnings.iter().map(|warning| warning.name()).collect();
            kinds.sort_unstable();
            for kind in kinds.chunk_by(|a, b| a == b) {
                push(&format!("warnings: {}", kind[0]), &[kind.len() as f64]);
            }
        }
        text
    }

    /// Writes sweeps.md, sweeps.csv and lpd_test.svg.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        create_folder(folder)?;
        write(folder, "sweeps.md", self.table().to_markdown().as_bytes())?;
        write(folder, "sweeps.csv", self.csv().as_bytes())?;
        let named: Vec<(String, &[Row])> =
            self.lines.iter().map(|line| (line.run.name(), &line.run.findings.rows[..])).collect();
        let svg = overlaid_lpd(&self.lines[0].run.findings.name, &named).to_svg();
        write(folder, "lpd_test.svg", resolve_variables(&svg).as_bytes())
    }
}

impl Line<'_> {
    /// That not all repetitions have chains, where it is so.
    fn partly_sampled(&self) -> Option<String> {
        Some(format!("{}: {}", self.run.name(), partly_sampled(&self.run.findings)?))
    }

    /// Whether the grid leaves anything to choose.
    fn has_choice(&self) -> bool {
        let grid = self.sweep.of(Method::Grid);
        grid.iter().any(|row| row.beta != grid[0].beta)
    }

    /// Each repetition's choice on the grid by validation LPD.
    fn grid_rows(&self, model: PredictiveModel) -> Vec<&Row> {
        if self.has_choice() { self.sweep.grid_choice(Criterion::Lpd(model)) } else { Vec::new() }
    }

    fn grid_choices(&self, model: PredictiveModel) -> Vec<f64> {
        self.grid_rows(model).iter().map(|row| row.beta).collect()
    }

    /// Test LPD of each repetition: at β = 1, where the two models are one, at β̂* and at the grid's choice.
    fn scores(&self) -> [(&'static str, Vec<f64>); 5] {
        let lpd = |rows: &[&Row], model| rows.iter().map(|row| *row.test.lpd().get(model)).collect::<Vec<f64>>();
        let chosen = self.sweep.of(Method::Chosen);
        let (sm, tm) = (PredictiveModel::Standard, PredictiveModel::Tempered);
        [
            ("lpd_beta_1", lpd(&self.sweep.at_one(), sm)),
            ("lpd_sm_beta_star", lpd(&chosen, sm)),
            ("lpd_sm_grid", lpd(&self.grid_rows(sm), sm)),
            ("lpd_tm_beta_star", lpd(&chosen, tm)),
            ("lpd_tm_grid", lpd(&self.grid_rows(tm), tm)),
        ]
    }

    fn largest_rhat(&self) -> Option<f64> {
        self.run.findings.agreement.iter().filter_map(|agreement| agreement.rhat).max_by(f64::total_cmp)
    }
}
