//! Schedules: a number as a function of the step.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A number for each step, from step 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Schedule {
    /// Always the same.
    Constant {
        /// The number.
        value: f64,
    },
    /// 0 up to `start`, linear to `value` at `end`, then `value`.
    Ramp {
        /// Last step at 0.
        start: u64,
        /// First step at `value`.
        end: u64,
        /// Where it ends.
        value: f64,
    },
    /// `value` before `start`; from there cycles of ½(1 + cos(π k/period)), times `value`.
    CosineCycle {
        /// Step at which the first cycle begins.
        start: u64,
        /// Steps of a cycle.
        period: u64,
        /// The number at the top of a cycle.
        value: f64,
    },
    /// `value`, times the factor of the last listed step that has been reached.
    Piecewise {
        /// The number before the first listed step.
        value: f64,
        /// (step, factor), steps increasing; factors are not cumulative.
        factors: Vec<(u64, f64)>,
    },
    /// `value` · ½(1 + cos(π step/total)), 0 from `total` on.
    CosineDecay {
        /// The number at step 0.
        value: f64,
        /// The step at which it reaches 0.
        total: u64,
    },
}

/// Why a schedule makes no sense.
#[derive(Debug, Error, PartialEq)]
pub enum ScheduleError {
    /// A ramp that ends before it starts.
    #[error("a ramp must end after it starts: start {start}, end {end}")]
    Ramp {
        /// Its start.
        start: u64,
        /// Its end.
        end: u64,
    },
    /// A cycle or decay of no steps.
    #[error("a cosine schedule needs at least one step")]
    NoSteps,
    /// Steps that do not increase.
    #[error("the steps of a piecewise schedule must increase: {earlier} stands before {later}")]
    Order {
        /// The step listed first.
        earlier: u64,
        /// The step listed after it.
        later: u64,
    },
    /// A number that is not finite or is negative.
    #[error("a schedule's numbers must be finite and ≥ 0, got {found}")]
    Number {
        /// What was given.
        found: f64,
    },
}

impl Schedule {
    /// The number at a step.
    pub fn at(&self, step: u64) -> f64 {
        match *self {
            Self::Constant { value } => value,
            Self::Ramp { start, end, value } => {
                if step >= end {
                    value
                } else if step <= start {
                    0.0
                } else {
                    value * (step - start) as f64 / (end - start) as f64
                }
            }
            Self::CosineCycle { start, period, value } => {
                if step < start {
                    value
                } else {
                    value * half_cosine((step - start) % period, period)
                }
            }
            Self::Piecewise { value, ref factors } => {
                let reached = factors.iter().take_while(|(at, _)| *at <= step).last();
                value * reached.map_or(1.0, |(_, factor)| *factor)
            }
            Self::CosineDecay { value, total } => value * half_cosine(step.min(total), total),
        }
    }

    /// The schedule itself, if it makes sense.
    pub fn checked(self) -> Result<Self, ScheduleError> {
        let number = |found: f64| {
            if found.is_finite() && found >= 0.0 { Ok(()) } else { Err(ScheduleError::Number { found }) }
        };
        match &self {
            Self::Constant { value } => number(*value)?,
            Self::Ramp { start, end, value } => {
                number(*value)?;
                if end < start {
                    return Err(ScheduleError::Ramp { start: *start, end: *end });
                }
            }
            Self::CosineCycle { period: steps, value, .. } | Self::CosineDecay { total: steps, value } => {
                number(*value)?;
                if *steps == 0 {
                    return Err(ScheduleError::NoSteps);
                }
            }
            Self::Piecewise { value, factors } => {
                number(*value)?;
                for (_, factor) in factors {
                    number(*factor)?;
                }
                if let Some(pair) = factors.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
                    return Err(ScheduleError::Order { earlier: pair[0].0, later: pair[1].0 });
                }
            }
        }
        Ok(self)
    }
}

/// ½(1 + cos(π step/total)).
fn half_cosine(step: u64, total: u64) -> f64 {
    0.5 * (1.0 + (std::f64::consts::PI * step as f64 / total as f64).cos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ramp_at_start_middle_and_end() {
        let ramp = Schedule::Ramp { start: 100, end: 200, value: 0.5 };
        assert_eq!([0, 100, 150, 200, 5000].map(|step| ramp.at(step)), [0.0, 0.0, 0.25, 0.5, 0.5]);
        let jump = Schedule::Ramp { start: 10, end: 10, value: 2.0 };
        assert_eq!([9, 10].map(|step| jump.at(step)), [0.0, 2.0]);
        assert_eq!(Schedule::Ramp { start: 0, end: 0, value: 2.0 }.at(0), 2.0, "no ramp at all");
    }

    #[test]
    fn cycles_start_at_the_top_after_burn_in() {
        let cycle = Schedule::CosineCycle { start: 10, period: 8, value: 1.0 };
        for (step, expected) in [(0, 1.0), (9, 1.0), (10, 1.0), (14, 0.5), (18, 1.0), (22, 0.5)] {
            assert!((cycle.at(step) - expected).abs() < 1e-15, "step {step}");
        }
        assert!(cycle.at(17) > 0.0 && cycle.at(17) < 0.04);
    }

    #[test]
    fn decay_and_pieces() {
        let decay = Schedule::CosineDecay { value: 2.0, total: 20 };
        assert_eq!(decay.at(0), 2.0);
        assert!((decay.at(10) - 1.0).abs() < 1e-15 && decay.at(20).abs() < 1e-15 && decay.at(99).abs() < 1e-15);
        let pieces = Schedule::Piecewise { value: 1.0, factors: vec![(80, 0.1), (120, 0.01)] };
        assert_eq!([0, 79, 80, 119, 120, 500].map(|step| pieces.at(step)), [1.0, 1.0, 0.1, 0.1, 0.01, 0.01]);
    }

    #[test]
    fn refuses_nonsense() {
        assert!(Schedule::Ramp { start: 5, end: 4, value: 1.0 }.checked().is_err());
        assert!(Schedule::CosineCycle { start: 0, period: 0, value: 1.0 }.checked().is_err());
        assert!(Schedule::Constant { value: f64::NAN }.checked().is_err());
        let unordered = Schedule::Piecewise { value: 1.0, factors: vec![(5, 0.1), (5, 0.2)] };
        assert_eq!(unordered.checked(), Err(ScheduleError::Order { earlier: 5, later: 5 }));
    }
}
