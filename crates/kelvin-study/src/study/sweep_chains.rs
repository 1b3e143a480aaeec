//! The chains of a sweep, in memory or read one at a time from where they were put together.

use std::ops::Deref;
use std::path::PathBuf;

use crate::durable::StoredChains;
use crate::error::{ExperimentError, Result};
use crate::experiment::{ChainSpec, Experiment, SampledChain};

/// The sampled chains of a sweep, in the order in which they were asked for.
pub(crate) enum SweepChains {
    /// They were sampled by this process.
    Here(Vec<SampledChain>),
    /// They lie in a checkpoint, with a file of draws each.
    Stored { chains: StoredChains, specs: Vec<(ChainSpec, PathBuf)> },
}

/// A chain of them.
pub(crate) enum SweepChain<'a> {
    Here(&'a SampledChain),
    Read(Box<SampledChain>),
}

impl Deref for SweepChain<'_> {
    type Target = SampledChain;

    fn deref(&self) -> &SampledChain {
        match self {
            Self::Here(chain) => chain,
            Self::Read(chain) => chain,
        }
    }
}

impl SweepChains {
    pub fn len(&self) -> usize {
        match self {
            Self::Here(chains) => chains.len(),
            Self::Stored { specs, .. } => specs.len(),
        }
    }

    /// Whether they are read one at a time.
    pub fn are_stored(&self) -> bool {
        matches!(self, Self::Stored { .. })
    }

    /// What each chain was sampled for.
    pub fn spec(&self, index: usize) -> &ChainSpec {
        match self {
            Self::Here(chains) => &chains[index].spec,
            Self::Stored { specs, .. } => &specs[index].0,
        }
    }

    /// A chain with all that it left.
    pub fn get(&self, experiment: &Experiment, index: usize) -> Result<SweepChain<'_>, ExperimentError> {
        match self {
            Self::Here(chains) => Ok(SweepChain::Here(&chains[index])),
            Self::Stored { chains, specs } => {
                let (spec, draws) = &specs[index];
                Ok(SweepChain::Read(Box::new(chains.chain(experiment, spec, draws)?)))
            }
        }
    }

    /// A chain with what it measured and predicts; where it is read, without the weights it ended at and without what training rows say, which a
    /// group of many chains has no use for. Its draws stay in their file.
    pub fn measured(&self, experiment: &Experiment, index: usize) -> Result<SweepChain<'_>, ExperimentError> {
        let chain = match self.get(experiment, index)? {
            SweepChain::Read(chain) => *chain,
            here => return Ok(here),
        };
        let SampledChain { spec, chain, draws, scores, seconds } = chain;
        let scores = crate::experiment::RunningScores { training: None, ..scores };
        let chain = chain.without_weights();
        Ok(SweepChain::Read(Box::new(SampledChain { spec, chain, draws, scores, seconds })))
    }
}
