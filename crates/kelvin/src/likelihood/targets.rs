//! Targets as the kind that a likelihood is of.

use crate::data::Targets;

const OTHER_KIND: &str = "a likelihood was given targets of another kind";

/// Targets that are numbers.
pub(super) fn numbers(targets: &Targets) -> &[f32] {
    match targets {
        Targets::Real(targets) => targets,
        Targets::Classes(_) => panic!("{OTHER_KIND}"),
    }
}

/// Targets that are classes.
pub(super) fn labels(targets: &Targets) -> &[u32] {
    match targets {
        Targets::Classes(labels) => labels,
        Targets::Real(_) => panic!("{OTHER_KIND}"),
    }
}
