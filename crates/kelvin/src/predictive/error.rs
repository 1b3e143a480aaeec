//! What can be wrong with held-out points, with the outputs of a draw, or with a question put too early.

use thiserror::Error;

/// Why a predictive density could not be accumulated or asked for; points and draws count from 0.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum PredictiveError {
    /// A scale that must be positive is not.
    #[error("{what} must be a finite number > 0, got {value}")]
    NotPositive {
        /// Which number.
        what: &'static str,
        /// What was given.
        value: f64,
    },
    /// A tempered model that is none.
    #[error("p(y|x,θ)^β has no integral at β = {inverse_temperature}: with this likelihood β must be above {least}")]
    NoTemperedModel {
        /// β.
        inverse_temperature: f64,
        /// Where it must be above.
        least: f64,
    },
    /// A quantile or coverage level at or beyond 0 or 1.
    #[error("{what} must lie strictly between 0 and 1, got {value}")]
    LevelOutOfRange {
        /// Which level.
        what: &'static str,
        /// What was given.
        value: f64,
    },
    /// A number that should be a probability is not.
    #[error("{what} {index} is {value}, which is not a probability; they must lie in [0, 1]")]
    NotAProbability {
        /// What the list holds.
        what: &'static str,
        /// Where in the list.
        index: usize,
        /// What was given.
        value: f64,
    },
    /// There is nothing to score.
    #[error("there are no held-out points; give at least one")]
    NoPoints,
    /// A question was asked before the first draw.
    #[error("there are no draws yet; add at least one before asking for a density or a score")]
    NoDraws,
    /// Draws of other points were to be added.
    #[error("these are predictions at other points; only draws at the same held-out points can be put together")]
    OtherPoints,
    /// Targets that are not so many for each row.
    #[error("{found} targets are not {num_targets} for each row; give all of every row, row after row")]
    NotWholeRows {
        /// How many were given.
        found: usize,
        /// How many a row has.
        num_targets: usize,
    },
    /// A held-out target is infinite or not a number.
    #[error("the target of point {point} is {value}; remove the row or repair it before predicting")]
    NonFiniteTarget {
        /// Which point.
        point: usize,
        /// What was given.
        value: f32,
    },
    /// A held-out label names no class.
    #[error("point {point} has label {label}, but with {num_classes} classes labels run from 0 to below {num_classes}")]
    LabelOutOfRange {
        /// Which point.
        point: usize,
        /// What was given.
        label: u32,
        /// How many classes there are.
        num_classes: usize,
    },
    /// A draw came with too few or too many outputs.
    #[error(
        "draw {draw} has {found} outputs, but {num_points} points × {outputs_per_point} per point = {} are needed",
        .num_points * .outputs_per_point
    )]
    WrongLength {
        /// Which draw.
        draw: usize,
        /// How many outputs were given.
        found: usize,
        /// How many points are held out.
        num_points: usize,
        /// How many outputs the network has for each.
        outputs_per_point: usize,
    },
    /// The network's output is infinite or not a number; the draw was not counted.
    #[error(
        "draw {draw} gives {value} as output {output} of point {point}; the chain has probably diverged: lower its \
         step size, or leave this draw out (it was not counted)"
    )]
    NonFiniteOutput {
        /// Which draw.
        draw: usize,
        /// Which point.
        point: usize,
        /// Which of the point's outputs.
        output: usize,
        /// What was given.
        value: f32,
    },
}

/// `value` if it is finite and positive.
pub(super) fn positive(what: &'static str, value: f64) -> Result<f64, PredictiveError> {
    if value.is_finite() && value > 0.0 { Ok(value) } else { Err(PredictiveError::NotPositive { what, value }) }
}

/// `value` if it lies strictly between 0 and 1.
pub(super) fn level(what: &'static str, value: f64) -> Result<f64, PredictiveError> {
    if value > 0.0 && value < 1.0 { Ok(value) } else { Err(PredictiveError::LevelOutOfRange { what, value }) }
}

/// Whether a draw's outputs have the right count and are all finite.
pub(super) fn check_outputs(
    outputs: &[f32],
    draw: usize,
    num_points: usize,
    outputs_per_point: usize,
) -> Result<(), PredictiveError> {
    if outputs.len() != num_points * outputs_per_point {
        return Err(PredictiveError::WrongLength { draw, found: outputs.len(), num_points, outputs_per_point });
    }
    match outputs.iter().position(|output| !output.is_finite()) {
        None => Ok(()),
        Some(at) => Err(PredictiveError::NonFiniteOutput {
            draw,
            point: at / outputs_per_point,
            output: at % outputs_per_point,
            value: outputs[at],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_was_asked_and_found() {
        let wrong_length = check_outputs(&[0.0; 5], 3, 2, 3).unwrap_err();
        assert_eq!(wrong_length.to_string(), "draw 3 has 5 outputs, but 2 points × 3 per point = 6 are needed");
        let diverged = check_outputs(&[0.0, 0.0, 0.0, f32::NAN], 7, 2, 2).unwrap_err();
        assert!(diverged.to_string().starts_with("draw 7 gives NaN as output 1 of point 1;"), "{diverged}");
        let negative = positive("noise variance", -0.5).unwrap_err();
        assert_eq!(negative.to_string(), "noise variance must be a finite number > 0, got -0.5");
        assert!(positive("noise variance", f64::INFINITY).is_err());
        assert!(level("coverage level", 1.0).is_err() && level("coverage level", f64::NAN).is_err());
    }

    #[test]
    fn the_output_that_is_no_number_is_named() {
        let error = check_outputs(&[0.0, 0.0, 0.0, 0.0, 0.0, f32::INFINITY], 0, 2, 3).unwrap_err();
        assert!(error.to_string().starts_with("draw 0 gives inf as output 2 of point 1;"), "{error}");
    }
}
