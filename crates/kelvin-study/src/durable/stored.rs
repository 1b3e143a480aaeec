//! Finished chains that lie in a checkpoint, read one at a time: a study of many chains is scored without all of them in memory.

use std::path::{Path, PathBuf};

use crate::checkpoint::{CheckpointError, StoredMembers};
use crate::error::ExperimentError;
use crate::experiment::running_scores::RunningScores;
use crate::experiment::{ChainSpec, Experiment, SampledChain};
use crate::settings::DrawsSetting;
use kelvin::draws::{Draws, DrawsError};
use kelvin::potential::Potential;

/// Chains of a finished population in its checkpoint, with their files of draws.
pub struct StoredChains {
    members: StoredMembers,
    path: PathBuf,
}

impl StoredChains {
    /// The chains of a checkpoint that was just written or checked.
    pub(crate) fn of(members: StoredMembers, path: PathBuf) -> Self {
        Self { members, path }
    }

    /// A chain as it ended; `draws` is the file of what it kept.
    ///
    /// # Errors
    /// If the checkpoint has no such chain, or its draws are missing or damaged.
    pub fn chain(
        &self,
        experiment: &Experiment,
        spec: &ChainSpec,
        draws: &Path,
    ) -> Result<SampledChain, ExperimentError> {
        let start = experiment.chain(spec.repetition, spec.slot, spec.inverse_temperature)?;
        let other = || CheckpointError::OtherRun { path: self.path.clone() };
        let member = self.members.member(start.id)?.ok_or_else(other)?;
        let chain = member.restore(&start).ok_or_else(other)?;
        let scores =
            RunningScores::new(experiment, spec.inverse_temperature)?.restore(&member.scores).ok_or_else(other)?;
        let dim = experiment.posterior.dim();
        let draws = match (experiment.settings.sampler.draws, member.num_draws) {
            (DrawsSetting::Stored, 0) => Draws::in_memory(dim),
            (DrawsSetting::Stored, _) => Draws::open(draws, &experiment.posterior)?,
            (DrawsSetting::Scored, _) => {
                let series = member.series.clone().map(std::borrow::Cow::into_owned);
                Draws::unstored(dim).with_series(series).ok_or_else(other)?
            }
        };
        if draws.len() as u64 != member.num_draws {
            let reason = format!("it has {} draws, and its chain kept {}", draws.len(), member.num_draws);
            return Err(DrawsError::Damaged { path: self.path.clone(), reason }.into());
        }
        Ok(SampledChain { spec: spec.clone(), chain, draws, scores, seconds: member.seconds })
    }
}
