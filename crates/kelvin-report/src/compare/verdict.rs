//! The answer in one sentence: which temperature, and what it is worth.

use kelvin::predictive::PredictiveModel;

use crate::compare::comparison::Kind;
use crate::compare::difference::Difference;
use crate::compare::gain::Gain;
use crate::compare::headline::verdict_of_folds;
use crate::tables::{Spread, Sweep, mean_and_spread, with_spread};
use kelvin_study::findings::{BETA_STAR, Criterion, Findings, Method, Row, Tried, mean_and_std};
use kelvin_study::number::{fixed, significant};

/// The answer of a run or a sweep in a sentence or two, with the standard error of the gain.
pub fn verdict(findings: &Findings, gain: Gain) -> String {
    let folds = findings.beta_star.zip(findings.cross_validation.as_ref());
    if let Some(answer) = folds.and_then(|(beta, found)| verdict_of_folds(beta, found)) {
        return answer;
    }
    let has_chosen = findings.rows.iter().any(|row| row.method == Method::Chosen);
    if !has_chosen && findings.trials.iter().any(|trials| trials.of == Tried::Beta) {
        return format!("{BETA_STAR} = 1: no other temperature that was tried predicts better by more than an error.");
    }
    let answer = match findings.beta_star {
        Some(beta) => verdict_of_run(beta, &findings.rows, gain),
        None => verdict_of_sweep(findings),
    };
    let has = |kind: Kind| kind.rows(findings).next().is_some();
    match has(Kind::Chosen) && has(Kind::Bayes) {
        true => format!("{answer}{}", difference_text(gain, findings.beta_star.is_some())),
        false => answer,
    }
}

/// The gain with its standard error and what that is over; the error of a single run leaves out the variation between starts.
fn difference_text(gain: Gain, is_run: bool) -> String {
    let (Some(standard), Some(tempered)) = (gain.standard, gain.tempered) else {
        return format!(
            " The standard error of the difference{} is not known.",
            if is_run { ", of one run," } else { "" }
        );
    };
    let shown = |found: Difference| with_spread(found.mean, found.standard_error);
    let over = match standard.standard_error_over_repetitions {
        Some(_) => "test points and repetitions",
        None if is_run => "the test points of this one run",
        None => "the test points of one repetition",
    };
    format!(
        " {BETA_STAR} minus β = 1: {} (SM) and {} (TM), ± the standard error over {over}.",
        shown(standard),
        shown(tempered)
    )
}

fn direction(betas: &[f64]) -> &'static str {
    if betas.iter().all(|&beta| beta < 0.9) {
        "the posterior should be warmer than Bayes"
    } else if betas.iter().all(|&beta| beta > 1.1) {
        "the posterior should be colder than Bayes"
    } else if betas.iter().all(|beta| (0.9..=1.1).contains(beta)) {
        "the posterior of Bayes has the right temperature"
    } else {
        "the searches do not agree on the side of β = 1"
    }
}

/// Names the model that beats β = 1 if only one of them does.
fn alone(standard: bool, tempered: bool) -> &'static str {
    match (standard, tempered) {
        (true, false) => " for SM-PD, not for TM-PD",
        (false, true) => " for TM-PD, not for SM-PD",
        _ => "",
    }
}

fn verdict_of_run(beta: f64, rows: &[Row], gain: Gain) -> String {
    let lpd = |method: Method| rows.iter().find(|row| row.method == method).map(|row| row.test.lpd());
    let at_one = rows.iter().find(|row| row.method == Method::Bayes || row.beta == 1.0).map(|row| row.test.lpd());
    let beta = significant(beta, 3);
    let (Some(chosen), Some(one)) = (lpd(Method::Chosen), at_one) else { return format!("{BETA_STAR} = {beta}.") };
    let gains = [gain.standard, gain.tempered].map(|gain| gain.filter(Difference::is_seen).map(|gain| gain.mean));
    let is_better = gains.map(|gain| gain.is_some_and(|mean| mean > 0.0));
    // One that is better is enough: it can be chosen.
    let told = if is_better.contains(&true) {
        format!("{BETA_STAR} predicts better than β = 1{}", alone(is_better[0], is_better[1]))
    } else if gains.iter().all(|gain| gain.is_some_and(|mean| mean < 0.0)) {
        format!("{BETA_STAR} predicts worse than β = 1: predict with β = 1")
    } else {
        format!("whether {BETA_STAR} or β = 1 predicts better cannot be told from these test points")
    };
    format!(
        "{BETA_STAR} = {beta}: {told}. Test LPD {} (SM) and {} (TM) against {} at β = 1.",
        fixed(chosen.standard, 3),
        fixed(chosen.tempered, 3),
        fixed(one.standard, 3)
    )
}

fn verdict_of_sweep(findings: &Findings) -> String {
    let answer = answer_of_sweep(findings);
    let (sampled, all) = (findings.sampled_repetitions(), findings.repetitions);
    if let Some(piece) = findings.piece() {
        return format!("{answer} This is {piece}: a piece of a sweep, without a spread.");
    }
    if sampled == all { answer } else { format!("{answer} Chains were sampled in {sampled} of the {all} repetitions.") }
}

fn answer_of_sweep(findings: &Findings) -> String {
    let mut betas = findings.searched_betas();
    betas.sort_by(f64::total_cmp);
    let range = match &betas[..] {
        [] => return format!("No search for β of the {} repetitions came to an end.", findings.repetitions),
        [only] => significant(*only, 3),
        [first, .., last] => {
            format!("{} to {} over {} repetitions", significant(*first, 3), significant(*last, 3), findings.repetitions)
        }
    };
    let sweep = Sweep::new(findings);
    let models = [PredictiveModel::Standard, PredictiveModel::Tempered];
    let values = |rows: &[&Row], model| rows.iter().map(|row| Criterion::Lpd(model).shown(row)).collect::<Vec<f64>>();
    let shown = |rows: &[&Row], model| mean_and_spread(&values(rows, model), Spread::StandardDeviation);
    let (chosen, one) = (sweep.of(Method::Chosen), sweep.at_one());
    if chosen.is_empty() || one.is_empty() {
        return format!("{BETA_STAR} = {range}: {}.", direction(&betas));
    }
    let mean = |rows: &[&Row], model| mean_and_std(&values(rows, model)).0;
    let best = models.map(|model| mean(&chosen, model)).into_iter().fold(f64::NEG_INFINITY, f64::max);
    let at_one = shown(&one, PredictiveModel::Standard);
    let [standard, tempered] = models.map(|model| shown(&chosen, model));
    if best < mean(&one, PredictiveModel::Standard) {
        return format!(
            "{BETA_STAR} = {range}, but here β = 1 predicts better: test LPD {at_one} against {standard} (SM) and {tempered} \
             (TM) at {BETA_STAR}."
        );
    }
    let beats = models.map(|model| mean(&chosen, model) >= mean(&one, PredictiveModel::Standard));
    let grid = models.map(|model| shown(&sweep.grid_choice(Criterion::Lpd(model)), model));
    format!(
        "{BETA_STAR} = {range}: {}{}; test LPD {standard} (SM) and {tempered} (TM) against {at_one} at β = 1, and {} (SM) and {} \
         (TM) at the grid's choice.",
        direction(&betas),
        alone(beats[0], beats[1]),
        grid[0],
        grid[1],
    )
}

/// Which row has the best test LPD, in a line.
pub fn best_of(rows: &[Row]) -> String {
    let scored = rows.iter().flat_map(|row| {
        let lpd = row.test.lpd();
        // The last of equals is taken, and at β = 1 the two models are one.
        [(row, "TM", lpd.tempered), (row, "SM", lpd.standard)]
    });
    scored.max_by(|a, b| a.2.total_cmp(&b.2)).map_or(String::new(), |(row, model, lpd)| {
        format!("best test LPD: {} under {model}, at {}\n", fixed(lpd, 3), row.label)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_has_its_error_or_says_that_it_has_none() {
        let of = |mean, standard_error_over_repetitions| {
            let (standard_error, standard_error_over_points) = (0.05, 0.05);
            Some(Difference { mean, standard_error, standard_error_over_points, standard_error_over_repetitions })
        };
        let one = Gain { standard: of(0.221, None), tempered: of(-0.3, None) };
        let expected = " β\u{302}* minus β = 1: 0.221 ± 0.050 (SM) and −0.300 ± 0.050 (TM), ± the standard error over";
        assert_eq!(difference_text(one, true), format!("{expected} the test points of this one run."));
        let several = Gain { standard: of(0.221, Some(0.01)), tempered: of(-0.3, Some(0.01)) };
        assert_eq!(difference_text(several, false), format!("{expected} test points and repetitions."));
        assert!(difference_text(Gain { standard: None, ..one }, true).contains("of one run, is not known"));
    }

    #[test]
    fn temperatures_on_both_sides_of_one_are_no_direction() {
        assert!(direction(&[0.1, 0.2]).contains("warmer"));
        assert!(direction(&[3.0, 20.0]).contains("colder"));
        assert!(direction(&[0.95, 1.05]).contains("right temperature"));
        assert!(direction(&[0.5, 2.0]).contains("do not agree"));
        assert_eq!([alone(true, true), alone(false, false)], ["", ""]);
        assert!(alone(true, false).starts_with(" for SM-PD") && alone(false, true).starts_with(" for TM-PD"));
    }
}
