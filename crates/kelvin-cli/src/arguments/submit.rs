//! What can be asked of a cluster.

use clap::{Args, ValueEnum};

use super::{CommonArguments, SourceArguments};

#[derive(Debug, Args)]
pub struct SubmitArguments {
    #[command(flatten)]
    pub source: SourceArguments,
    /// The scheduler of the cluster
    #[arg(long, value_name = "CLUSTER", default_value = "slurm")]
    pub cluster: ClusterArgument,
    /// Parts that the chains are dealt out in, each a job of its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub shards: u32,
    /// A `kelvin run`, whose shards are its temperatures and folds, and not a sweep
    #[arg(long, conflicts_with_all = ["repetitions"])]
    pub run: bool,
    /// Cross-validation of a run over so many folds; 0 for none
    #[arg(long, value_name = "K", requires = "run", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub folds: Option<u32>,
    /// Repetitions of a sweep
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub repetitions: Option<u32>,
    /// The longest that a job runs before it queues again
    #[arg(long, value_name = "TIME", default_value = "1:00:00")]
    pub time: String,
    /// Devices of each job, for example gpu:1
    #[arg(long, value_name = "GRES")]
    pub gres: Option<String>,
    /// The partition to submit to
    #[arg(long, value_name = "NAME")]
    pub partition: Option<String>,
    /// Cores of each job
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub cpus: Option<u16>,
    /// Memory of each job, for example 8G
    #[arg(long, value_name = "MEMORY")]
    pub memory: Option<String>,
    /// Any other option of sbatch, for example --sbatch=--account=physics (may be repeated)
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub sbatch: Vec<String>,
    /// Write the scripts, and submit nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub common: CommonArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClusterArgument {
    /// Slurm, by sbatch
    Slurm,
}
