//! Which way β should move from where chains are, in words.

use kelvin::predictive::{ByModel, PredictiveModel};
use kelvin_study::findings::{BETA_STAR, WhichWay};
use kelvin_study::number::significant;

use crate::text::wrapped;

/// The largest standard error of d LPD/d log β, in nats, with which a slope says anything: LPD changes by about as much for a factor of e in β near its
/// best, on the paper's tables.
const COARSE: f64 = 0.1;

/// What is said where there is no slope.
pub const MISSING: &str = "Which way to move β from here is not known: the network has more than 10 000 parameters, where slopes drown in noise, draws \
                           were not stored, or an older kelvin made the run.";

/// The slopes at β̂* in words, a line for each model; a slope whose error exceeds what LPD changes by is passed over, and nothing is said where both are.
pub fn which_way_text(beta: f64, found: &ByModel<WhichWay>) -> String {
    let mut lines = String::new();
    for (name, model) in [("SM", PredictiveModel::Standard), ("TM", PredictiveModel::Tempered)] {
        let WhichWay { slope, standard_error, weights_ess, num_draws, direction } = found.get(model);
        let Some(error) = standard_error.filter(|error| error * beta <= COARSE) else { continue };
        let line = format!(
            "  {name} {direction} (d LPD/dβ = {} ± {}; effective sample size {} of {num_draws}).",
            significant(*slope, 3),
            significant(error, 2),
            significant(*weights_ess, 2),
        );
        lines += &wrapped(&line, "    ");
    }
    if lines.is_empty() {
        return lines;
    }
    format!("Which way from {BETA_STAR} = {}, by the slope of validation LPD there:\n{lines}", significant(beta, 3))
}

#[cfg(test)]
mod tests {
    use kelvin::selection::Direction;

    use super::*;

    #[test]
    fn the_sentence_has_the_slope_its_error_and_the_effective_sample_size() {
        let standard = WhichWay {
            slope: 1.25,
            standard_error: Some(0.5),
            weights_ess: 96.4,
            num_draws: 400,
            direction: Direction::Colder,
        };
        let tempered = WhichWay { standard_error: None, direction: Direction::Flat, ..standard };
        let text = which_way_text(0.1, &ByModel { standard, tempered });
        let in_one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let line =
            "SM colder: a larger β would predict better (d LPD/dβ = 1.25 ± 0.5; effective sample size 96 of 400).";
        assert!(in_one_line.contains(line), "{text}");
        assert!(!text.contains("TM"), "its error is not known: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        // 0.5 nats for a unit of β are 1.5 for a factor of e at β = 3, and 0.1 at β = 0.2.
        assert_eq!(which_way_text(3.0, &ByModel { standard, tempered }), "");
        assert!(!which_way_text(0.2, &ByModel { standard, tempered }).is_empty());
        assert_eq!(which_way_text(0.21, &ByModel { standard, tempered }), "");
    }
}
