//! A run among several, with the label that tells it from the others.

use kelvin_study::findings::Findings;

/// A run among others.
pub struct NamedRun<'a> {
    /// Its name, or that of its folder where names are not enough to tell runs apart.
    pub label: String,
    pub findings: &'a Findings,
    /// The strength of its augmentation.
    pub augmentation: f64,
}
