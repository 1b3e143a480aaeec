//! Temperature: the type, what it divides, and how numbers change with the step.

mod schedule;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use schedule::{Schedule, ScheduleError};

/// T: a finite number ≥ 0. Its inverse is β.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Temperature(f64);

/// Why a number is no temperature.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum TemperatureError {
    /// Not a finite number ≥ 0.
    #[error("temperature must be a finite number ≥ 0, got {0}")]
    Temperature(f64),
    /// Not a finite number > 0.
    #[error("inverse temperature β must be a finite number > 0, got {0}")]
    InverseTemperature(f64),
}

impl Temperature {
    /// T = 1: the posterior of Bayes' rule.
    pub const BAYES: Self = Self(1.0);

    /// A temperature.
    pub fn new(temperature: f64) -> Result<Self, TemperatureError> {
        if temperature.is_finite() && temperature >= 0.0 {
            Ok(Self(temperature))
        } else {
            Err(TemperatureError::Temperature(temperature))
        }
    }

    /// T = 1/β.
    pub fn from_inverse(beta: f64) -> Result<Self, TemperatureError> {
        let temperature = 1.0 / beta;
        if beta.is_finite() && beta > 0.0 && temperature.is_finite() && temperature > 0.0 {
            Ok(Self(temperature))
        } else {
            Err(TemperatureError::InverseTemperature(beta))
        }
    }

    /// T.
    pub fn value(self) -> f64 {
        self.0
    }

    /// β = 1/T; infinite at T = 0.
    pub fn inverse(self) -> f64 {
        1.0 / self.0
    }
}

impl TryFrom<f64> for Temperature {
    type Error = TemperatureError;

    fn try_from(temperature: f64) -> Result<Self, TemperatureError> {
        Self::new(temperature)
    }
}

impl From<Temperature> for f64 {
    fn from(temperature: Temperature) -> f64 {
        temperature.0
    }
}

/// What the temperature divides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tempering {
    /// Prior and likelihood: exp(−β U).
    #[default]
    Posterior,
    /// The likelihood alone: p(θ) Π p(y|x,θ)^β.
    Likelihood,
}

impl Tempering {
    /// The temperature of the sampler's noise.
    pub fn sampler_temperature(self, temperature: Temperature) -> f64 {
        match self {
            Self::Posterior => temperature.value(),
            Self::Likelihood => 1.0,
        }
    }

    /// The power of the likelihood inside the sampled energy.
    pub fn likelihood_power(self, temperature: Temperature) -> f64 {
        match self {
            Self::Posterior => 1.0,
            Self::Likelihood => temperature.inverse(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_no_temperature() {
        let error = Temperature::new(-0.5).unwrap_err();
        assert_eq!(error.to_string(), "temperature must be a finite number ≥ 0, got -0.5");
        for bad in [f64::NAN, f64::INFINITY] {
            assert!(Temperature::new(bad).is_err());
            assert!(Temperature::from_inverse(bad).is_err());
        }
        assert!(Temperature::from_inverse(0.0).is_err() && Temperature::from_inverse(-2.0).is_err());
        assert_eq!(Temperature::new(0.0).unwrap().inverse(), f64::INFINITY, "T = 0 is a temperature");
        assert!(Temperature::from_inverse(1e-320).is_err(), "1/β must be finite too");
        assert!(Temperature::from_inverse(f64::INFINITY).is_err() && Temperature::from_inverse(f64::NAN).is_err());
        assert_eq!(Temperature::from_inverse(4.0).unwrap().value(), 0.25);
        assert_eq!(f64::from(Temperature::new(0.25).unwrap()), 0.25);
    }

    /// At T = 1 both temperings are Bayes' rule; elsewhere the product noise · power differs as their definitions say.
    #[test]
    fn temperings_agree_at_one_only() {
        for tempering in [Tempering::Posterior, Tempering::Likelihood] {
            assert_eq!(tempering.sampler_temperature(Temperature::BAYES), 1.0);
            assert_eq!(tempering.likelihood_power(Temperature::BAYES), 1.0);
        }
        let cold = Temperature::new(0.1).unwrap();
        assert_eq!((cold.value(), cold.inverse()), (0.1, 10.0));
        assert_eq!(Tempering::Posterior.sampler_temperature(cold), 0.1);
        assert_eq!(Tempering::Posterior.likelihood_power(cold), 1.0);
        assert_eq!(Tempering::Likelihood.sampler_temperature(cold), 1.0);
        assert_eq!(Tempering::Likelihood.likelihood_power(cold), 10.0);
    }
}
