//! x
use pyo3::prelude::*;
/// x
#[pyfunction]
pub fn sample_energy() {}
