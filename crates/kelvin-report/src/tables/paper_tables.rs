//! The paper's tables from the rows of a sweep: point predictions, LPD, kinetic temperature, R̂, wall-clock.

use kelvin::predictive::PredictiveModel;
use kelvin_study::csv_text::csv_text;
use kelvin_study::experiment::OutOfDistributionScores;
use kelvin_study::findings::{Criterion, distinct_repetitions, grid_choice};

use crate::tables::table::{Alignment, Table};
use crate::tables::uncertainty_table::Uncertainty;
use kelvin_study::findings::{Agreement, BETA_STAR, Findings, Method, Row, are_classes, deviation, mean_and_std};
use kelvin_study::number::{fixed, significant};

/// What stands behind "±" in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The sample standard deviation over repetitions: what the paper prints.
    StandardDeviation,
    /// The standard error of the mean over repetitions.
    StandardError,
}

impl Spread {
    /// The abbreviation: "SD" or "SE".
    pub fn name(self) -> &'static str {
        match self {
            Self::StandardDeviation => "SD",
            Self::StandardError => "SE",
        }
    }

    fn of(self, std: f64, count: usize) -> f64 {
        match self {
            Self::StandardDeviation => std,
            Self::StandardError => std / (count as f64).sqrt(),
        }
    }
}

/// Rows of a sweep, with its repetitions.
pub struct Sweep<'a> {
    rows: &'a [Row],
    repetitions: u32,
    /// Of which the first so many have chains.
    sampled: u32,
    /// The one that was run alone, from 1.
    only: Option<u32>,
    /// Whether a chain's time is its share of the population's.
    chains_share_time: bool,
}

impl<'a> Sweep<'a> {
    /// The rows and repetitions of a sweep, or of a run with its grid.
    pub fn new(findings: &'a Findings) -> Self {
        let Findings { rows, repetitions, only_repetition: only, sampling, .. } = findings;
        let (sampled, chains_share_time) = (findings.sampled_repetitions(), sampling.chains_share_time);
        Self { rows, repetitions: *repetitions, sampled, only: *only, chains_share_time }
    }

    /// The rows of a method, one for each repetition.
    pub fn of(&self, method: Method) -> Vec<&'a Row> {
        self.rows.iter().filter(|row| row.method == method).collect()
    }

    /// Draws at β = 1, whether it is a point of the grid or was added to it.
    pub fn at_one(&self) -> Vec<&'a Row> {
        self.rows.iter().filter(|row| row.beta == 1.0 && matches!(row.method, Method::Grid | Method::Bayes)).collect()
    }

    /// Each repetition's grid point that is best on the validation rows; the one of all chains together where they are pooled.
    pub fn grid_choice(&self, criterion: Criterion) -> Vec<&'a Row> {
        grid_choice(self.rows, criterion)
    }

    /// What stands in the cells of a table with a line for SGD and others for chains.
    pub fn what_is_shown(&self) -> String {
        let all = format!("mean ± SD over {} repetitions", self.repetitions);
        if let Some(only) = self.only {
            return format!("repetition {only} of {} alone", self.repetitions);
        }
        match self.sampled {
            1 if self.repetitions == 1 => "one repetition".into(),
            1 => format!("SGD {all}, chains of the first alone"),
            sampled if sampled < self.repetitions => format!("SGD {all}, chains over the first {sampled}"),
            _ => all,
        }
    }

    /// SGD, β = 1, β̂*, grid: mean ± SD of the point metric and of both LPDs, and the choices of the grid.
    pub fn results(&self) -> Table {
        let point = if are_classes(self.rows) { "accuracy %" } else { "MSE ×10³" };
        let header = ["method", point, "LPD SM", "LPD TM", "β (LPD SM)", "β (LPD TM)"].map(str::to_owned).to_vec();
        let title = format!("Test scores, {}", self.what_is_shown());
        let mut table = Table::new(title, header);
        let criteria =
            [Criterion::Point, Criterion::Lpd(PredictiveModel::Standard), Criterion::Lpd(PredictiveModel::Tempered)];
        let mut push = |name: &str, rows: [Vec<&Row>; 3]| {
            let mut cells = vec![name.to_owned()];
            for (criterion, rows) in criteria.iter().zip(&rows) {
                let values: Vec<f64> = rows.iter().map(|row| criterion.shown(row)).collect();
                cells.push(mean_and_spread(&values, Spread::StandardDeviation));
            }
            for rows in &rows[1..] {
                cells.push(choices(rows.iter().map(|row| row.beta).collect()));
            }
            table.push(cells);
        };
        let thrice = |rows: Vec<&'a Row>| [rows.clone(), rows.clone(), rows];
        push("SGD", thrice(self.of(Method::Sgd)));
        push("β = 1", thrice(self.at_one()));
        push(&format!("β = {BETA_STAR}"), thrice(self.of(Method::Chosen)));
        push("grid", criteria.map(|criterion| self.grid_choice(criterion)));
        table
    }

    /// The same numbers for machines: mean, standard deviation and standard error of each score over the repetitions; one
    /// repetition has a mean alone.
    pub fn summary_csv(&self) -> String {
        let mut lines = vec![["method", "score", "mean", "sd", "se", "repetitions"].map(String::from)];
        let scores = [
            ("point_metric", Criterion::Point),
            ("lpd_sm", Criterion::Lpd(PredictiveModel::Standard)),
            ("lpd_tm", Criterion::Lpd(PredictiveModel::Tempered)),
        ];
        for (score, criterion) in scores {
            let methods = [
                ("sgd", self.of(Method::Sgd)),
                ("beta_1", self.at_one()),
                ("beta_chosen", self.of(Method::Chosen)),
                ("grid", self.grid_choice(criterion)),
            ];
            for (method, rows) in methods {
                let values: Vec<f64> = rows.iter().map(|row| criterion.shown(row)).collect();
                let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
                let mean = number((!values.is_empty()).then(|| mean_and_std(&values).0));
                let [sd, se] = [Spread::StandardDeviation, Spread::StandardError]
                    .map(|spread| number(deviation(&values).map(|std| spread.of(std, values.len()))));
                lines.push([method.into(), score.into(), mean, sd, se, values.len().to_string()]);
            }
        }
        csv_text(lines)
    }

    /// 1/mean T̂ at cycle ends, for each target and repetition, and over all steps.
    pub fn kinetic(&self) -> Table {
        let mut header = vec!["target β".to_owned()];
        let with_chains = self.only.map_or(0..self.sampled, |only| only - 1..only);
        header.extend(with_chains.clone().map(|repetition| format!("rep. {}", repetition + 1)));
        header.extend(["mean".into(), "all steps".into()]);
        let mut table = Table::new("Kinetic inverse temperature at cycle ends", header);
        let mut push = |name: String, rows: Vec<&Row>| {
            let measured = |row: &Row| row.measured.as_ref().and_then(|m| m.beta_at_cycle_ends);
            let all_steps: Vec<f64> =
                rows.iter().filter_map(|row| row.measured.as_ref()?.beta_over_all_steps).collect();
            let mut cells = vec![name];
            for repetition in with_chains.clone() {
                let own = rows.iter().find(|row| row.repetition == Some(repetition));
                cells.push(own.and_then(|row| measured(row)).map_or("–".into(), |beta| significant(beta, 3)));
            }
            let at_ends: Vec<f64> = rows.iter().filter_map(|row| measured(row)).collect();
            cells.push(significant(harmonic_mean(&at_ends), 3));
            cells.push(significant(harmonic_mean(&all_steps), 3));
            table.push(cells);
        };
        for beta in self.grid_betas() {
            push(significant(beta, 3), self.at(beta));
        }
        push(BETA_STAR.into(), self.of(Method::Chosen));
        table
    }

    /// The β of the grid and 1, in increasing order, each once.
    pub fn grid_betas(&self) -> Vec<f64> {
        let mut betas: Vec<f64> = self.rows.iter().filter(|row| is_grid(row)).map(|row| row.beta).collect();
        betas.sort_by(f64::total_cmp);
        betas.dedup();
        betas
    }

    /// The rows of the grid or of β = 1 at this β, one for each repetition.
    pub fn at(&self, beta: f64) -> Vec<&'a Row> {
        self.rows.iter().filter(|row| is_grid(row) && row.beta == beta).collect()
    }

    /// Rank-normalised split-R̂ of the potential energy over the repetitions of each β.
    pub fn agreement(&self, groups: &[Agreement]) -> Table {
        let header = ["β", "split-R̂", "bulk ESS"].map(str::to_owned).to_vec();
        let title = match self.sampled {
            1 => "Agreement of the two halves of each chain's potential energies".to_owned(),
            sampled if sampled < self.repetitions => format!("Agreement of {sampled} repetitions' potential energies"),
            _ => "Agreement of the repetitions' potential energies".to_owned(),
        };
        let mut table = Table::new(title, header);
        for Agreement { beta, rhat, bulk_ess, .. } in groups {
            let show = |value: &Option<f64>, decimals| value.map_or("–".into(), |value| fixed(value, decimals));
            table.push(vec![significant(*beta, 3), show(rhat, 2), show(bulk_ess, 0)]);
        }
        table
    }

    /// Uncertainty on the images of another set, and how well it separates them from the test images, under the standard model.
    pub fn out_of_distribution(&self, other: &str) -> Table {
        let header = ["method", "of", "mean", "AUROC", "AUPR", "FPR95"];
        let title = format!(
            "Uncertainty on {other} against test images: entropy H, mutual information I (nats), {}",
            self.what_is_shown()
        );
        let mut table = Table::new(title, header);
        table.alignments[1] = Alignment::Left;
        for (name, rows) in self.methods() {
            let scores: Vec<&OutOfDistributionScores> =
                rows.iter().filter_map(|row| Some(&row.out_of_distribution.as_ref()?.standard)).collect();
            let num_draws = rows.iter().map(|row| row.num_draws).min().unwrap_or(0);
            for of in Uncertainty::of_draws(num_draws) {
                let mut cells = vec![name.clone(), of.symbol().into()];
                let over_repetitions = |value: &dyn Fn(&OutOfDistributionScores) -> Option<f64>| {
                    let values: Vec<f64> = scores.iter().filter_map(|scores| value(scores)).collect();
                    mean_and_spread(&values, Spread::StandardDeviation)
                };
                cells.push(over_repetitions(&|scores| Some(of.mean(scores))));
                cells.extend((0..3).map(|at| over_repetitions(&|scores| of.separation(scores)[at])));
                table.push(cells);
            }
        }
        table
    }

    /// SGD, each β of the grid and β̂*, each with its rows.
    pub fn methods(&self) -> Vec<(String, Vec<&'a Row>)> {
        let grid = self.grid_betas().into_iter();
        let mut methods = vec![("SGD".to_owned(), self.of(Method::Sgd))];
        methods.extend(grid.map(|beta| (format!("β = {}", significant(beta, 3)), self.at(beta))));
        methods.push((format!("β = {BETA_STAR}"), self.of(Method::Chosen)));
        methods
    }

    /// Mean seconds of one repetition by method.
    pub fn wall_clock(&self) -> Table {
        let title = match self.chains_share_time {
            true => "Time of one repetition, each chain its share of the population's",
            false => "Time of one repetition, on one thread",
        };
        let mut table = Table::new(title, ["method", "seconds"]);
        let names = [
            "SGD (search for β)".to_owned(),
            "β = 1".into(),
            format!("β = {BETA_STAR} (search and chain)"),
            "grid".into(),
        ];
        for (name, seconds) in names.into_iter().zip(self.seconds()) {
            table.push([name, fixed(seconds, 2)]);
        }
        table
    }

    /// Mean seconds of one repetition: of the search, a chain at β = 1, search and chain at β̂*, and the whole grid.
    pub fn seconds(&self) -> [f64; 4] {
        let mean = |rows: &[&Row]| mean_and_std(&rows.iter().map(|row| row.seconds).collect::<Vec<_>>()).0;
        let (sgd, chosen, grid) = (self.of(Method::Sgd), self.of(Method::Chosen), self.of(Method::Grid));
        let (sgd, chosen) = (mean(&sgd), mean(&chosen));
        let whole_grid =
            grid.iter().map(|row| row.seconds).sum::<f64>() / distinct_repetitions(&grid).len().max(1) as f64;
        [sgd, mean(&self.at_one()), sgd + chosen, whole_grid]
    }
}

/// That chains were sampled in some of the repetitions alone, or one repetition was run, in short; none where all have chains.
pub fn partly_sampled(findings: &Findings) -> Option<String> {
    let (sampled, all) = (findings.sampled_repetitions(), findings.repetitions);
    findings.piece().or_else(|| (sampled < all).then(|| format!("chains in {sampled} of {all}")))
}

fn is_grid(row: &Row) -> bool {
    matches!(row.method, Method::Grid | Method::Bayes)
}

/// The inverse of the mean temperature.
fn harmonic_mean(betas: &[f64]) -> f64 {
    betas.len() as f64 / betas.iter().map(|beta| 1.0 / beta).sum::<f64>()
}

/// The different inverse temperatures in increasing order, or their ends where there are many.
pub fn choices(mut betas: Vec<f64>) -> String {
    betas.sort_by(f64::total_cmp);
    let mut shown: Vec<String> = betas.iter().map(|beta| significant(*beta, 3)).collect();
    shown.dedup();
    match &shown[..] {
        [first, .., last] if shown.len() > 3 => format!("{first} to {last}"),
        _ => shown.join(", "),
    }
}

/// "−0.186 ± 0.049", with as many decimals as the spread deserves; of one value that value alone.
pub fn mean_and_spread(values: &[f64], spread: Spread) -> String {
    if values.is_empty() {
        return "–".into();
    }
    let (mean, std) = mean_and_std(values);
    let spread = spread.of(std, values.len());
    match values {
        [_] => fixed(mean, decimals(mean, spread)),
        _ => with_spread(mean, spread),
    }
}

/// The same of a mean and its spread.
pub fn with_spread(mean: f64, spread: f64) -> String {
    let decimals = decimals(mean, spread);
    format!("{} ± {}", fixed(mean, decimals), fixed(spread, decimals))
}

/// Two digits of the spread; of a mean without any, four.
fn decimals(mean: f64, spread: f64) -> usize {
    let (scale, digits) = if spread > 0.0 { (spread, 1.0) } else { (mean.abs().max(1e-3), 3.0) };
    (digits - scale.log10().floor()).clamp(0.0, 6.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_set_the_decimals() {
        let shown = |values: &[f64]| mean_and_spread(values, Spread::StandardDeviation);
        assert_eq!(shown(&[1.0, 1.2]), "1.10 ± 0.14");
        assert_eq!(shown(&[100.0, 120.0, 140.0]), "120 ± 20");
        assert_eq!(shown(&[89.0625, 89.0625]), "89.06 ± 0.00", "no deviation is no reason to round");
        assert_eq!(shown(&[]), "–");
        assert_eq!(shown(&[89.0625]), "89.06");
        assert_eq!(mean_and_spread(&[1.0, 1.2, 1.4, 1.6], Spread::StandardError), "1.30 ± 0.13");
    }

    #[test]
    fn many_choices_are_a_range() {
        assert_eq!(choices(vec![29.48, 3.104, 29.48]), "3.1, 29.5");
        assert_eq!(choices(vec![0.1112, 0.114, 0.13, 0.12, 0.14]), "0.111 to 0.14");
        assert_eq!(choices(vec![]), "");
    }

    #[test]
    fn temperatures_are_averaged_not_their_inverses() {
        assert!((harmonic_mean(&[1.0, 3.0]) - 1.5).abs() < 1e-12);
    }
}
