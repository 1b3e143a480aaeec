//! Which way β should move from where chains are, in words.

use kelvin::predictive::{ByModel, PredictiveModel};
use kelvin_study::findings::{BETA_STAR, WhichWay};
use kelvin_study::number::significant;

use crate::text::wrapped;

/// A standard error of d LPD/d log β, in nats, with which a slope is only a hint.
const COARSE: f64 = 0.5;

/// What is said where there is no slope.
pub const MISSING: &str = "Which way to move β from here is not known: the network has more than 10 000 parameters, where slopes drown in noise, draws \
                           were not stored, or an older kelvin made the run.";

/// The slopes at β̂* in words, a line for each model.
pub fn which_way_text(beta: f64, found: &ByModel<WhichWay>) -> String {
    let mut text =
        format!("Which way from {BETA_STAR} = {}, by the slope of validation LPD there:\n", significant(beta, 3));
    for (name, model) in [("SM", PredictiveModel::Standard), ("TM", PredictiveModel::Tempered)] {
        let WhichWay { slope, standard_error, weights_ess, num_draws, direction } = found.get(model);
        let error = standard_error.map_or("unknown".into(), |error| significant(error, 2));
        let line = format!(
            "  {name} {direction} (d LPD/dβ = {} ± {error}; effective sample size {} of {num_draws}).",
            significant(*slope, 3),
            significant(*weights_ess, 2),
        );
        text += &wrapped(&line, "    ");
    }
    let errors = [found.standard, found.tempered].map(|way| way.standard_error.map(|error| error * beta));
    if let Some(largest) = errors.into_iter().flatten().reduce(f64::max).filter(|error| *error > COARSE) {
        let hint = format!(
            "An error of {} nats for a factor of e in β is more than LPD changes by near its best: a hint at most. `kelvin select` \
             looks at LPD itself (refine, grid).",
            significant(largest, 2)
        );
        text += &wrapped(&format!("  {hint}"), "  ");
    }
    text
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
        assert!(text.contains("  TM flat: ") && text.contains("± unknown"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(!text.contains("hint"), "{text}");
        let coarse = which_way_text(3.0, &ByModel { standard, tempered });
        assert!(coarse.contains("An error of 1.5 nats for a factor of e"), "{coarse}");
    }
}
