//! A run among several, with the label that tells it from the others.

use kelvin_study::findings::Findings;

/// A run in a figure or a table of several runs.
pub struct NamedRun<'a> {
    /// Its name, or that of its folder where names are not enough to tell runs apart.
    pub label: String,
    /// Everything that it found.
    pub findings: &'a Findings,
    /// The probability that a training image is augmented.
    pub augmentation: f64,
}
