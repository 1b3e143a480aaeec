//! Singular learning theory of a run: WAIC, functional variance, ν̂ and λ̂ at each β, as numbers, as a table, in words.

use kelvin::diagnostics::{LearningTheory, Limits, Warning, predicted_lpd};
use kelvin::predictive::PredictiveModel;
use serde::Serialize;

use crate::tables::diagnosis::temperature;
use crate::tables::table::{Alignment, Table};
use kelvin_study::findings::{ChainFindings, Findings, Method, mean_and_std};
use kelvin_study::number::{fixed, significant};

/// The sentence that is shown if there are no numbers.
pub const MISSING: &str = "Not available: an older kelvin began the run, or no chain kept two draws of finite densities. Running \
                           anew gathers it.";

/// What the draws at one β say about generalisation.
#[derive(Debug, Serialize)]
pub struct TheoryLine {
    /// "β = 3" or "β̂* = 0.114".
    pub label: String,
    /// The inverse temperature of these chains.
    pub beta: f64,
    /// One entry for each chain with at least two draws.
    pub chains: Vec<ChainTheory>,
    /// Reasons to doubt these numbers.
    pub warnings: Vec<Warning>,
}

/// What the draws of one chain say.
#[derive(Debug, Serialize)]
pub struct ChainTheory {
    /// The number of its start, from 0.
    pub repetition: u32,
    /// Training loss, functional variance and their row counts.
    #[serde(flatten)]
    pub found: LearningTheory,
    /// WAIC as a loss, in nats a row: its negative estimates the LPD of new rows.
    pub waic: f64,
    /// The singular fluctuation ν̂(β) = βV/2.
    pub singular_fluctuation: f64,
    /// The learning coefficient λ̂ between this β and the next larger one of the same repetition; none at the largest.
    pub learning_coefficient: Option<f64>,
    /// Test LPD of the standard model: of the chain, or of all chains at β where they are pooled.
    pub test_lpd: Option<f64>,
}

impl TheoryLine {
    /// One number of every chain that has it.
    pub fn values(&self, of: impl Fn(&ChainTheory) -> Option<f64>) -> Vec<f64> {
        self.chains.iter().filter_map(of).collect()
    }
}

/// Whether the table shows this chain: those of the grid, or else those at β = 1 and β̂*.
fn is_told(findings: &Findings, chain: &ChainFindings) -> bool {
    match chain.method {
        Method::Grid => true,
        Method::Bayes => !findings.grid.contains(&chain.beta),
        Method::Chosen => findings.grid.is_empty(),
        Method::Sgd => false,
    }
}

/// A line for each β in rising order; none where nothing was gathered.
pub fn theory_lines(findings: &Findings) -> Vec<TheoryLine> {
    let mut told: Vec<&ChainFindings> =
        findings.chains.iter().filter(|chain| is_told(findings, chain) && chain.learning_theory.is_some()).collect();
    told.sort_by(|a, b| a.beta.total_cmp(&b.beta));
    told.chunk_by(|a, b| a.beta == b.beta).map(|own| line(findings, own, &told)).collect()
}

fn line(findings: &Findings, own: &[&ChainFindings], told: &[&ChainFindings]) -> TheoryLine {
    let (method, beta) = (own[0].method, own[0].beta);
    let of_chain = |chain: &&ChainFindings| {
        let found = chain.learning_theory?;
        let colder = told.iter().find(|other| other.repetition == chain.repetition && other.beta > beta);
        let colder = colder.and_then(|colder| colder.learning_theory);
        let row = findings.rows.iter().find(|row| {
            row.method == method && row.beta == beta && row.repetition.is_none_or(|own| own == chain.repetition)
        });
        Some(ChainTheory {
            repetition: chain.repetition,
            found,
            waic: found.waic(),
            singular_fluctuation: found.singular_fluctuation(),
            learning_coefficient: colder.map(|colder| found.learning_coefficient_between(&colder)),
            test_lpd: row.map(|row| *row.test.lpd().get(PredictiveModel::Standard)),
        })
    };
    let chains: Vec<ChainTheory> = own.iter().filter_map(of_chain).collect();
    let (limits, measured) = (Limits::default(), temperature(findings, method, beta));
    let label = measured.label;
    let share = chains.iter().map(|chain| chain.found.unsteady_share).sum::<f64>() / chains.len() as f64;
    let warnings = [
        limits.check_unsteady_rows(&label, share),
        measured.rhat.and_then(|rhat| limits.check_agreement(&label, rhat)),
        measured.bulk_ess.and_then(|ess| limits.check_effective_draws(&label, ess, measured.num_draws)),
    ];
    TheoryLine { label, beta, chains, warnings: warnings.into_iter().flatten().collect() }
}

/// The numbers as a table; `None` where there are none.
pub fn theory_table(name: &str, lines: &[TheoryLine]) -> Option<Table> {
    let found = &lines.first()?.chains.first()?.found;
    let rows = match found.num_rows_seen == found.num_rows {
        true => format!("{} training rows", found.num_rows),
        false => format!("{} of {} training rows", found.num_rows_seen, found.num_rows),
    };
    let over = if lines.iter().any(|line| line.chains.len() > 1) { ", mean ± SD over chains" } else { "" };
    let header = ["β", "doubts", "train LPD", "−WAIC", "test LPD", "V", "ν\u{302}", "λ\u{302}"];
    let mut table = Table::new(format!("{name} — learning theory of {rows}{over}"), header);
    table.alignments[1] = Alignment::Left;
    for line in lines {
        table.push([
            line.label.trim_start_matches("β = ").to_owned(),
            line.warnings.iter().map(brief).collect::<Vec<_>>().join(" "),
            lpd_text(vec![mean_and_std(&line.values(|chain| Some(-chain.found.training_loss))).0]),
            lpd_text(line.values(|chain| Some(-chain.waic))),
            lpd_text(line.values(|chain| chain.test_lpd)),
            number_text(&[mean_and_std(&line.values(|chain| Some(chain.found.functional_variance))).0]),
            number_text(&line.values(|chain| Some(chain.singular_fluctuation))),
            number_text(&line.values(|chain| chain.learning_coefficient)),
        ]);
    }
    Some(table)
}

/// Three decimals, as the paper has them, or as many as the spread leaves; chains that are scored together have one value and no spread.
fn lpd_text(mut values: Vec<f64>) -> String {
    const FAR: f64 = 10.0;
    values.dedup();
    let (mean, std) = mean_and_std(&values);
    let decimals = match std {
        _ if std < 0.1 => 3,
        _ if std < 1.0 => 2,
        _ => 1,
    };
    match values.len() {
        _ if !(mean.abs() < FAR && std < FAR) => number_text(&values),
        1 => fixed(mean, 3),
        _ => format!("{} ± {}", fixed(mean, decimals), fixed(std, decimals)),
    }
}

/// Mean ± SD, to three and two digits.
fn number_text(values: &[f64]) -> String {
    let (mean, std) = mean_and_std(values);
    match values.len() {
        0 => "–".into(),
        1 => in_short(mean, 3),
        _ => format!("{} ± {}", in_short(mean, 3), in_short(std, 2)),
    }
}

/// A number with this many digits; beyond 10⁵ only its order of magnitude.
fn in_short(value: f64, digits: usize) -> String {
    const HUGE: f64 = 1e5;
    if value.abs() < HUGE { significant(value, digits) } else { format!("{value:.1e}").replace('-', "−") }
}

/// The abbreviation of a warning in the table.
fn brief(warning: &Warning) -> &'static str {
    match warning {
        Warning::UnsteadyRows { .. } => "rows",
        Warning::ChainsDisagree { .. } => "R\u{302}",
        Warning::FewEffectiveDraws { .. } => "ESS",
        other => other.name(),
    }
}

/// What the columns mean, and when not to believe them.
pub fn about(findings: &Findings) -> [String; 2] {
    let dim: usize = findings.problem.tensors.iter().map(|(_, size)| size).sum();
    [
        format!(
            "−WAIC estimates test LPD (SM) from training rows alone: training LPD less βV/n, where V is the functional variance, how \
             much log densities of training rows vary over draws. ν\u{302} = βV/2 is the singular fluctuation; λ\u{302}, the learning \
             coefficient, is how fast the training loss falls from one β to the next larger one (n ΔE L/ΔT): half the number of \
             parameters that the data determine. A regular model has λ = ν = {} (d/2) at every β; a network less.",
            significant(dim as f64 / 2.0, 4),
        ),
        "Do not believe a line with a doubt. “rows”: log densities of too many training rows vary by more than 0.4 (variance) over \
         draws, where WAIC and ν\u{302} leave out too much; “R\u{302}”: chains disagree; “ESS”: few effective draws. λ\u{302} should not depend \
         on β: where it does, or is negative, the prior or unsettled chains show, not the data. The theory is \
         one of many rows for each parameter, so go by held-out LPD to choose β, and read these as an explanation."
            .into(),
    ]
}

/// What the paper's relation expects of the test LPD at each β, from one β where it was measured.
pub struct Prediction {
    /// Where it is made to hold.
    pub anchor: f64,
    /// Of each β, one value a chain.
    pub lpd: Vec<(f64, Vec<f64>)>,
}

/// The relation with each chain's λ̂ and test LPD at the β nearest to 1, and ν̂ as it was measured at every β.
pub fn prediction(lines: &[TheoryLine]) -> Option<Prediction> {
    let has_all = |line: &&TheoryLine| {
        line.chains.iter().any(|chain| chain.learning_coefficient.is_some() && chain.test_lpd.is_some())
    };
    let distance = |line: &TheoryLine| line.beta.ln().abs();
    let anchor = lines.iter().filter(has_all).min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let expected = |lambda: f64, chain: &ChainTheory| {
        let LearningTheory { inverse_temperature, num_rows, .. } = chain.found;
        predicted_lpd(0.0, lambda, chain.singular_fluctuation, inverse_temperature, num_rows)
    };
    let of_line = |line: &TheoryLine| {
        let of_chain = |chain: &ChainTheory| {
            let at = anchor.chains.iter().find(|other| other.repetition == chain.repetition)?;
            let lambda = at.learning_coefficient?;
            Some(at.test_lpd? + expected(lambda, chain) - expected(lambda, at))
        };
        (line.beta, line.values(of_chain))
    };
    let lpd = lines.iter().map(of_line).filter(|(_, values)| !values.is_empty()).collect();
    Some(Prediction { anchor: anchor.beta, lpd })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(repetition: u32, beta: f64, losses: [f64; 2], variance: f64, lambda: Option<f64>) -> ChainTheory {
        let found = LearningTheory {
            inverse_temperature: beta,
            num_rows: 100,
            num_rows_seen: 100,
            training_loss: losses[0],
            gibbs_loss: losses[1],
            functional_variance: variance,
            unsteady_share: 0.0,
        };
        let (waic, singular_fluctuation) = (found.waic(), found.singular_fluctuation());
        ChainTheory {
            repetition,
            found,
            waic,
            singular_fluctuation,
            learning_coefficient: lambda,
            test_lpd: Some(-1.5),
        }
    }

    fn lines() -> Vec<TheoryLine> {
        let line = |beta, chains| TheoryLine { label: format!("β = {beta}"), beta, chains, warnings: Vec::new() };
        vec![
            line(0.5, vec![chain(0, 0.5, [1.2, 1.4], 24.0, Some(9.0)), chain(1, 0.5, [1.2, 1.4], 24.0, Some(9.0))]),
            line(1.0, vec![chain(0, 1.0, [1.1, 1.2], 10.0, Some(4.0)), chain(1, 1.0, [1.1, 1.2], 12.0, Some(6.0))]),
            line(2.0, vec![chain(0, 2.0, [1.0, 1.1], 4.0, None)]),
        ]
    }

    #[test]
    fn the_prediction_holds_at_its_anchor_and_follows_the_relation() {
        let found = prediction(&lines()).unwrap();
        assert_eq!(found.anchor, 1.0);
        assert_eq!(found.lpd[1], (1.0, vec![-1.5, -1.5]));
        // −LPD changes by ((λ − ν)/β + ν)/n: λ = 4 at ν(1) = 5 has 4, at ν(2) = 4 it has 4; at ν(½) = 6, 2.
        assert!((found.lpd[2].1[0] + 1.5).abs() < 1e-12, "{:?}", found.lpd);
        assert!((found.lpd[0].1[0] + 1.48).abs() < 1e-12, "{:?}", found.lpd);
        assert!(prediction(&lines()[2..]).is_none(), "one temperature has no λ̂");
    }

    #[test]
    fn numbers_and_doubts_stand_in_their_columns() {
        let mut lines = lines();
        lines[0].warnings = vec![
            Warning::UnsteadyRows { label: String::new(), share: 0.25 },
            Warning::ChainsDisagree { label: String::new(), rhat: 5.25 },
        ];
        let table = theory_table("x", &lines).unwrap();
        assert!(table.title.contains("100 training rows, mean ± SD over chains"), "{}", table.title);
        assert_eq!(table.rows[0][1], "rows R\u{302}");
        assert_eq!(table.rows[1], ["1", "", "−1.100", "−1.210 ± 0.014", "−1.500", "11", "5.5 ± 0.71", "5 ± 1.4"]);
        assert_eq!(table.rows[2][7], "–");
        assert!(theory_table("x", &[]).is_none());
        assert_eq!(lpd_text(vec![-0.5, -0.9]), "−0.70 ± 0.28");
        assert_eq!(number_text(&[-284_959.0, -284_959.0]), "−2.8e5 ± 0");
    }
}
