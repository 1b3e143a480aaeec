//! Which part of a study is carried out: a stage, a shard, or what puts shards together.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kelvin_study::folder::Shard;

use super::ConductArguments;

/// A part of a study, to be carried out on its own.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct PartArguments {
    /// Stop after this stage
    #[arg(long, value_name = "STAGE", conflicts_with = "shard")]
    pub stage: Option<StageArgument>,
    /// Sample one shard of the chains alone, 3/8 for the third of eight, once the searches are done; `kelvin merge` puts shards together
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StageArgument {
    /// Write the settings into the run folder and begin nothing; no device is opened
    Prepare,
    /// Search for β, and find the step size where that is wanted: what all chains start from
    Search,
}

#[derive(Debug, Args)]
pub struct MergeArguments {
    /// A folder whose shards are sampled; with repetitions, a new folder for the whole sweep
    pub run: PathBuf,
    /// Finished folders of `kelvin sweep --only-repetition`, all repetitions of one sweep
    #[arg(value_name = "REPETITION")]
    pub repetitions: Vec<PathBuf>,
    #[command(flatten)]
    pub conduct: ConductArguments,
}

#[derive(Debug, Args)]
pub struct StatusArguments {
    /// The run folder of the study
    pub run: PathBuf,
    /// Print it as one JSON object
    #[arg(long)]
    pub json: bool,
}
