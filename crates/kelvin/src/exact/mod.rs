//! Posteriors and stationary laws known in closed form: what samplers and predictions are tested against.

mod cholesky;
mod gaussian;
mod gaussian_toy;
mod linear_regression;
mod quadratic;
mod toy_curves;

pub use cholesky::{Cholesky, trace_of_product_with_inverse};
pub use gaussian::Gaussian;
pub use gaussian_toy::{GaussianToy, OptimalTemperature};
pub use linear_regression::{LinearRegression, LinearRegressionError, Objective};
pub use quadratic::{PhaseLaw, PositionLaw, Quadratic, thermostatted};
pub use toy_curves::{BoundExample, BoundPoint, BoundSettings, TOY_CASES, ToyCase, ToyPoint, log_spaced};
