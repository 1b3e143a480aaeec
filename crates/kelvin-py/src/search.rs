//! x
use pyo3::prelude::*;
/// x
#[pyfunction]
pub fn search_beta() {}
