//! The extension module `kelvin._kelvin`: what Python cannot do for itself. The package around it is in `python/kelvin`.

mod conduct;
mod device;
mod error;
mod fit;
mod model;
mod request;
mod run;
mod sample;
mod search;
mod table;
mod wording;

use pyo3::prelude::*;

/// The Rust side of the package `kelvin`.
#[pymodule(gil_used = true)]
mod _kelvin {
    #[pymodule_export]
    use crate::fit::fit_table;
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::run::run_experiment;
    #[pymodule_export]
    use crate::sample::{check_sampling, diagnose_draws, sample_energy};
    #[pymodule_export]
    use crate::search::search_beta;
}
