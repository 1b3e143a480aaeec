//! The steps at which the phases of an experiment's searches and chains begin.

use crate::error::ExperimentError;
use crate::experiment::Experiment;
use crate::folder::Timeline;

/// The phases of a search for β.
pub(crate) fn of_search(experiment: &Experiment) -> Result<Timeline, ExperimentError> {
    let (settings, steps) = (&experiment.settings.selection, experiment.selection_steps()?);
    let every = (settings.epochs / settings.checkpoints).max(1) * (steps / settings.epochs.max(1)).max(1);
    Ok(Timeline::Search { every, steps })
}

/// The phases of a sampled chain.
pub(crate) fn of_chain(experiment: &Experiment) -> Result<Timeline, ExperimentError> {
    let (settings, steps) = (&experiment.settings.sampler, experiment.sampler_steps()?);
    let epoch = steps / settings.epochs.max(1);
    Ok(Timeline::Sampling {
        ramp_start: settings.ramp_start * epoch,
        ramp_end: settings.ramp_end * epoch,
        burn_in: settings.burn_in * epoch,
        cycle: (settings.cycle * epoch).max(1),
        steps,
    })
}
