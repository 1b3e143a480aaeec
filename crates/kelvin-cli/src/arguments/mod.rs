//! What can be asked on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use kelvin::data::ColumnKind;
use kelvin::predictive::PredictiveModel;
use kelvin_study::findings::{HeldOutModel, ModelKind};
use kelvin_study::folder::Shard;
use kelvin_study::settings::LikelihoodName;

mod budget;
mod hidden;
mod part;
mod submit;

pub use budget::Budget;
pub use hidden::Hidden;
pub use part::{MergeArguments, PartArguments, StageArgument, StatusArguments};
pub use submit::SubmitArguments;

/// Chooses the temperature of a Bayesian neural network from the data, samples the tempered posterior there, and
/// predicts with it.
#[derive(Debug, Parser)]
#[command(name = "kelvin", version, about, max_term_width = 100)]
#[command(
    after_help = "Start with `kelvin run concrete` (a table) or `kelvin run stripes` (images), or with\n`kelvin run --data my.csv --target y` for your own table.\n\nEnvironment: KELVIN_DATA (folder of data sets), KELVIN_DEVICE (auto, cpu, cuda), KELVIN_VECTOR (avx512, avx2,\nneon or scalar instead of the widest vector instructions that the processor has)."
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Choose β, sample at β = 1 and at β̂*, score, report
    #[command(
        override_usage = "kelvin run [OPTIONS] <PRESET|FILE.toml>\n       kelvin run [OPTIONS] --data <FILE.csv> --target <COLUMN>"
    )]
    Run(RunArguments),
    /// The paper's experiment: repetitions × (grid of β, and β̂*), with its tables and figures
    #[command(
        override_usage = "kelvin sweep [OPTIONS] <PRESET|FILE.toml>\n       kelvin sweep [OPTIONS] --data <FILE.csv> --target <COLUMN>"
    )]
    Sweep(SweepArguments),
    /// Choose β in several ways and put them side by side: β, its interval, test scores, cost
    ///
    /// Without --method: joint, map, guo, refine and the grid by LPD. A table goes to standard output, and with --out into a folder
    /// too. There are no checkpoints: after Ctrl-C it starts again. docs/src/which-temperature.md says what each method is for.
    #[command(
        override_usage = "kelvin select [OPTIONS] <PRESET|FILE.toml>\n       kelvin select [OPTIONS] --data <FILE.csv> --target <COLUMN>"
    )]
    Select(SelectArguments),
    /// The theory in closed form: the Gaussian toy of the paper's Appendix A and the bound of its Lemma 3.1
    ///
    /// Tables go to standard output, figures and the numbers behind them into a folder.
    Toy(ToyArguments),
    /// Continue a run or a sweep that was stopped, from its last checkpoint
    ///
    /// Takes everything from the folder: settings, seed, command. Searches and chains that are finished are not run again, and
    /// the results are those of an uninterrupted run. Repeating the `run` or `sweep` with the same --out does the same. The device
    /// may be another one: numbers then agree statistically, not digit by digit.
    Resume(ResumeArguments),
    /// Put a study together from its shards, or a sweep from runs of single repetitions
    ///
    /// Every chain is taken once from where it was sampled; all files are then written as one process would have written them, bit by bit. What is missing is
    /// named with the command that makes it.
    Merge(MergeArguments),
    /// Submit a study to a cluster: its searches, its shards, and what puts them together
    ///
    /// Writes readable batch scripts into the run folder, submits them, and prints their numbers. No GPU is needed here. Submitted again, only what is missing
    /// is.
    #[command(
        override_usage = "kelvin submit [OPTIONS] --shards <N> <PRESET|FILE.toml>\n       kelvin submit [OPTIONS] --shards <N> --data <FILE.csv> --target <COLUMN>"
    )]
    Submit(Box<SubmitArguments>),
    /// Tell which parts of a study wait, run, are done or failed, and where
    Status(StatusArguments),
    /// Write the page of a run again, or one page about several, with the paper's tables and figures
    ///
    /// Makes everything from the files of the run folders: nothing is sampled. For one run, its own report.html, figures/ and
    /// tables/ are written again; for several, one page with each run's story, and tables and figures across them as in the paper.
    Report(ReportArguments),
    /// Tell whether a run can be believed: temperatures, agreement of chains, effective sample sizes, warnings
    ///
    /// Read from the run folder alone; of a run that is not finished, what is known so far.
    Diagnose(DiagnoseArguments),
    /// Put runs side by side: settings, β̂*, scores, and paired differences on the same test points
    Compare(CompareArguments),
    /// Show a running experiment as a local page that updates by itself
    Watch(WatchArguments),
    /// Predict new rows or images with the models of a run
    Predict(PredictArguments),
    /// Write a finished run in the formats of other tools: ArviZ, NumPy, CSV, TensorBoard
    Export(ExportArguments),
    /// Check a finished run: hashes of its files and data, and its scores, computed again from its draws
    Verify(VerifyArguments),
    /// List the presets, or print one as TOML
    Presets {
        /// The preset to print
        name: Option<String>,
    },
    /// Show what the columns of a table are taken for; without a file list the known data sets
    ///
    /// Of a table: the kind of each column, its levels or range, missing cells, the inputs of a network that it becomes, and what would be
    /// left out. Of known data sets: where each comes from, and whether its file is here and right.
    Data(DataArguments),
    /// Time the sampler: µs per chain-step
    Bench(BenchArguments),
}

/// Where the experiment comes from.
#[derive(Debug, Args)]
pub struct SourceArguments {
    /// A preset (see `kelvin presets`) or an experiment.toml
    #[arg(value_name = "PRESET|FILE.toml", required_unless_present = "data", conflicts_with = "data")]
    pub experiment: Option<String>,
    /// Your own table: a CSV file with a header
    #[arg(long, value_name = "FILE.csv", requires = "target")]
    pub data: Option<PathBuf>,
    /// The column to predict (may be repeated: one network then predicts several columns of numbers)
    #[arg(long, value_name = "COLUMN", requires = "data")]
    pub target: Vec<String>,
    /// A column to leave out (may be repeated)
    #[arg(long, value_name = "COLUMN", requires = "data")]
    pub drop: Vec<String>,
    /// What a column is taken for: number, boolean, text, date, or drop to leave it out (may be repeated) [default: what its cells
    /// say; see `kelvin data FILE.csv`]
    #[arg(long, value_name = "COLUMN=KIND", requires = "data", value_parser = column_kind)]
    pub column: Vec<(String, ColumnKind)>,
    /// What kind of answer the target is (guessed when not given)
    #[arg(long, requires = "data")]
    pub task: Option<TaskArgument>,
    /// A rough answer quickly: fewer epochs, chains and images
    #[arg(long)]
    pub quick: bool,
}

/// `price=number`; a name may have `=` in it.
fn column_kind(text: &str) -> Result<(String, ColumnKind), String> {
    let (name, kind) = text.rsplit_once('=').ok_or_else(|| "write COLUMN=KIND, for example zip=text".to_owned())?;
    Ok((name.trim().to_owned(), kind.parse()?))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TaskArgument {
    /// A number
    Regression,
    /// A class
    Classification,
    /// A count: 0, 1, 2, …
    Counts,
}

#[derive(Clone, Debug, Args)]
pub struct CommonArguments {
    /// Run folder [default: runs/NAME-HASH, the hash of command and settings]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Names every random number of the experiment: the same seed gives the same results
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Discard what the run folder holds of this run, and start again
    #[arg(long)]
    pub fresh: bool,
    /// Change one setting, for example sampler.learning_rate=1e-3 (may be repeated)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    #[command(flatten)]
    pub conduct: ConductArguments,
}

/// How to run, whatever is run.
#[derive(Clone, Debug, Args)]
pub struct ConductArguments {
    /// Threads [default: all cores]; the numbers do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    #[command(flatten)]
    pub device: DeviceArguments,
    /// Folder with the data sets' files (see `kelvin data`)
    #[arg(long, env = "KELVIN_DATA", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// No progress bars
    #[arg(long, short)]
    pub quiet: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Where to run.
#[derive(Clone, Copy, Debug, Args)]
pub struct DeviceArguments {
    /// Where to run
    #[arg(long, env = "KELVIN_DEVICE", value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceArgument,
    /// How GPUs multiply images; tables and the CPU have f32 in any case
    #[arg(long, value_name = "NUMBERS", default_value = "bf16")]
    pub precision: PrecisionArgument,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeviceArgument {
    /// On a GPU where there is one, else on the CPU
    Auto,
    /// On the processor's cores
    Cpu,
    /// On NVIDIA GPUs, all chains together
    #[value(alias = "gpu")]
    Cuda,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PrecisionArgument {
    /// Products of bf16, summed in f32; weights, momenta and noise are f32
    Bf16,
    /// All in f32: agrees with the CPU to rounding, and is slower
    F32,
}

#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub source: SourceArguments,
    /// Sample the whole grid of β as well
    #[arg(long)]
    pub grid: bool,
    /// How chains are sampled [default: adaptive for tables, paper for images]
    #[arg(long, value_name = "SAMPLER")]
    pub sampler: Option<SamplerArgument>,
    /// How numbers scatter around what the network says [default: auto for your own table, sampled adaptively]
    #[arg(long, value_name = "LIKELIHOOD")]
    pub likelihood: Option<LikelihoodArgument>,
    /// Widths of the hidden layers (64, or 64,32; none for a linear model), or auto: tries 64, 128 and 64,64 by short chains, and takes the first within one
    /// standard error of the best held-out score, at the price of three trials [default: 64]
    #[arg(long, value_name = "WIDTHS")]
    pub hidden: Option<Hidden>,
    /// Cross-validation over so many folds, of tables; 0 for none [default: 5 up to 20,000 rows, and none with --quick or --sampler paper]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(0..=100), conflicts_with = "splits")]
    pub folds: Option<u32>,
    /// Repeated random splits (80 % to learn from, 10 % to choose by, 10 % to be judged on) in place of folds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub splits: Option<u32>,
    /// Audit the chains by Metropolis-corrected HMC at the same temperatures, of small tables: exact, and slow
    #[arg(long)]
    pub exact: bool,
    /// The most that chains may sample at each temperature: gradients (500000, 2M) or time for all of them (90s, 5m, 1h)
    #[arg(long, value_name = "GRADIENTS|TIME")]
    pub budget: Option<Budget>,
    #[command(flatten)]
    pub part: PartArguments,
    #[command(flatten)]
    pub common: CommonArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LikelihoodArgument {
    /// Tries those below that suit the target by short chains; the simplest within one standard error of the best held-out score is used
    Auto,
    /// Constant noise that a trial search finds, before it is held still; β̂* by the joint search
    Gaussian,
    /// Constant noise that is learned
    LearnedGaussian,
    /// Noise that depends on the row and is learned
    VaryingGaussian,
    /// Noise in proportion to positive numbers, that depends on the row and is learned
    LogNormal,
    /// Noise of a power of skewed numbers, that depends on the row and is learned
    PowerNormal,
    /// Noise with far tails
    StudentT,
    /// Noise with far tails that depends on the row
    VaryingStudentT,
    /// Counts whose variance is their mean
    Poisson,
    /// Counts that scatter more
    NegativeBinomial,
}

impl LikelihoodArgument {
    /// Its name in settings; none of `auto`.
    pub fn name(self) -> Option<LikelihoodName> {
        Some(match self {
            Self::Auto => return None,
            Self::Gaussian => LikelihoodName::Gaussian,
            Self::LearnedGaussian => LikelihoodName::LearnedGaussian,
            Self::VaryingGaussian => LikelihoodName::VaryingGaussian,
            Self::LogNormal => LikelihoodName::LogNormal,
            Self::PowerNormal => LikelihoodName::PowerNormal,
            Self::StudentT => LikelihoodName::StudentT,
            Self::VaryingStudentT => LikelihoodName::VaryingStudentT,
            Self::Poisson => LikelihoodName::Poisson,
            Self::NegativeBinomial => LikelihoodName::NegativeBinomial,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SamplerArgument {
    /// Chains find masses and step size themselves, and on tables sample until predictions are known well enough
    Adaptive,
    /// The sampler that the settings name, for as long as they say: SGHMC with cosine cycles in all presets, as in the paper
    Paper,
}

#[derive(Debug, Args)]
pub struct SweepArguments {
    #[command(flatten)]
    pub source: SourceArguments,
    /// Repetitions, each with its own start and seeds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub repetitions: Option<u32>,
    /// Run one repetition alone, counted from 1: its search and its chains, with the numbers they have in the whole sweep
    #[arg(long, value_name = "R")]
    pub only_repetition: Option<u32>,
    #[command(flatten)]
    pub part: PartArguments,
    #[command(flatten)]
    pub common: CommonArguments,
}

#[derive(Debug, Args)]
pub struct SelectArguments {
    #[command(flatten)]
    pub source: SourceArguments,
    /// A method (may be repeated); a wrong name lists them all
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub method: Vec<String>,
    /// Every method; those that do not suit the model are listed with the reason
    #[arg(long)]
    pub all: bool,
    /// Starts of searches, and chains at each β [default: run.chains]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub starts: Option<u32>,
    /// Also score the β of every start with a chain of its own, as the paper's table of selectors does (joint, map and guo)
    #[arg(long)]
    pub each_start: bool,
    /// Ask one shard of the methods alone, 3/8 for the third of eight; `kelvin merge` puts shards together
    #[arg(long, value_name = "I/N", requires = "out")]
    pub shard: Option<Shard>,
    /// New or empty folder for selection.json, which `kelvin report` lays out beside runs; nothing is written without it
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Names every random number: the same seed gives the same results
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Change one setting, for example sampler.learning_rate=1e-3 (may be repeated)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    #[command(flatten)]
    pub conduct: ConductArguments,
}

#[derive(Debug, Args)]
pub struct DataArguments {
    /// A CSV file with a header; `-` for standard input
    #[arg(value_name = "FILE.csv")]
    pub file: Option<PathBuf>,
    /// The column to predict, which is then no input (may be repeated)
    #[arg(long, value_name = "COLUMN", requires = "file")]
    pub target: Vec<String>,
    /// What a column is taken for: number, boolean, text, date, or drop to leave it out (may be repeated)
    #[arg(long, value_name = "COLUMN=KIND", requires = "file", value_parser = column_kind)]
    pub column: Vec<(String, ColumnKind)>,
    /// Folder with the data sets' files
    #[arg(long, env = "KELVIN_DATA", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct ToyArguments {
    /// Folder for tables (CSV) and figures (SVG, PNG, PDF and the numbers behind them as CSV)
    #[arg(long, value_name = "DIR", default_value = "toy")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct ResumeArguments {
    /// A folder that `kelvin run` or `kelvin sweep` has begun
    pub run: PathBuf,
    #[command(flatten)]
    pub part: PartArguments,
    /// Discard what the shard has done, and start it again
    #[arg(long, requires = "shard")]
    pub fresh: bool,
    #[command(flatten)]
    pub conduct: ConductArguments,
}

#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Finished run folders, and folders of `kelvin select --out`
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Show the page in the browser
    #[arg(long)]
    pub open: bool,
    /// How tables are printed
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: TableFormatArgument,
    /// Put other numbers beside these
    #[arg(long, value_name = "WITH")]
    pub compare: Option<CompareArgument>,
    /// What ± means in tables
    #[arg(long, value_name = "SPREAD", default_value = "sd")]
    pub spread: SpreadArgument,
    /// Folder of the page [default: the run's own folder; for several runs ./report]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TableFormatArgument {
    /// Aligned, for a terminal
    Text,
    Markdown,
    /// With the rules of booktabs
    Latex,
    Csv,
    Html,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CompareArgument {
    /// The paper's numbers, for sweeps of its six experiments
    Paper,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SpreadArgument {
    /// The standard deviation over repetitions
    Sd,
    /// The standard error of their mean
    Se,
}

#[derive(Debug, Args)]
pub struct DiagnoseArguments {
    /// A folder that `kelvin run` or `kelvin sweep` has written
    pub run: PathBuf,
    /// Exit with code 1 if any warning was raised
    #[arg(long)]
    pub strict: bool,
    /// Print the diagnostics as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CompareArguments {
    /// Folders of finished runs; each is compared with the others
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Also write the table of sweeps (Markdown, CSV) and a figure of their test LPD against β into this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the comparison as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct WatchArguments {
    /// A folder that `kelvin run` or `kelvin sweep` has begun
    pub run: PathBuf,
    /// The port to listen at; 0 for any that is free
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub port: u16,
    /// The address to listen at; others than the default can be reached from other machines
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub host: std::net::IpAddr,
}

#[derive(Debug, Args)]
pub struct PredictArguments {
    /// A folder written by `kelvin run`
    pub run: PathBuf,
    /// A CSV file with the run's feature columns, `-` for standard input; for images an idx file (.gz or not), or a CIFAR-10 batch (.bin)
    #[arg(long, value_name = "FILE")]
    pub input: PathBuf,
    /// Write here instead of to standard output, which is `-`
    #[arg(long, value_name = "FILE.csv")]
    pub output: Option<PathBuf>,
    /// Quantiles of a number's distribution, as columns q05, q50, q95
    #[arg(long, value_name = "P,…", value_delimiter = ',', default_values_t = [0.05, 0.5, 0.95])]
    pub quantiles: Vec<f64>,
    /// Which model of the run predicts [default: the one that scored best on held-out rows, or a simpler one as good]
    #[arg(long)]
    pub model: Option<ModelArgument>,
    #[command(flatten)]
    pub device: DeviceArguments,
    /// One JSON object a row instead of CSV
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelArgument {
    /// Draws at β = 1
    Bayes,
    /// Draws at β̂*, under the better of the two models below
    BetaStar,
    /// Draws at β̂*: p(y|x,θ), averaged over the draws (SM-PD)
    Standard,
    /// Draws at β̂*: p(y|x,θ)^β normalised, averaged over the draws (TM-PD)
    Tempered,
    /// The network that the search found
    Network,
    /// The networks of all starts: a deep ensemble
    Ensemble,
    /// That network with a Gaussian over its last layer
    Laplace,
    /// A Gaussian over the weights that the optimiser passes through (SWAG)
    Swag,
    /// Ridge or logistic regression
    Linear,
}

impl ModelArgument {
    /// Whether it asks for this model.
    pub fn means(self, what: &HeldOutModel) -> bool {
        let at_beta_star = |model| what.kind == ModelKind::Chosen && what.model == model;
        match self {
            Self::Bayes => what.kind == ModelKind::Bayes,
            Self::BetaStar => what.kind == ModelKind::Chosen,
            Self::Standard => at_beta_star(PredictiveModel::Standard),
            Self::Tempered => at_beta_star(PredictiveModel::Tempered),
            Self::Network => what.kind == ModelKind::Sgd,
            Self::Ensemble => what.kind == ModelKind::Ensemble,
            Self::Laplace => what.kind == ModelKind::Laplace,
            Self::Swag => what.kind == ModelKind::Swag,
            Self::Linear => what.kind == ModelKind::Linear,
        }
    }
}

#[derive(Debug, Args)]
pub struct ExportArguments {
    /// A folder that `kelvin run` or `kelvin sweep` has finished
    pub run: PathBuf,
    /// What to write
    #[arg(long, value_name = "FORMAT")]
    pub format: ExportFormatArgument,
    /// Where to write [default: in RUN/exports]
    #[arg(long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Which chains: at β̂*, at β = 1, or at a β of the grid [default: chosen]
    #[arg(long)]
    pub method: Option<MethodArgument>,
    /// The inverse temperature of the chains
    #[arg(long, value_name = "BETA")]
    pub beta: Option<f64>,
    /// Tensors to export: names, `all` or `none` [default: those of up to 1024 numbers]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub weights: Vec<String>,
    #[command(flatten)]
    pub device: DeviceArguments,
    /// Folder with the data sets' files (see `kelvin data`)
    #[arg(long, env = "KELVIN_DATA", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormatArgument {
    /// A zarr store that `arviz.from_zarr` opens
    Arviz,
    /// The same arrays in one file for `numpy.load`
    Npz,
    /// A folder with draws.csv and the predictions
    Csv,
    /// A folder for `tensorboard --logdir`: all chains and searches
    Tensorboard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MethodArgument {
    /// β = 1
    Bayes,
    /// β̂*
    Chosen,
    /// A β of the grid
    Grid,
}

#[derive(Debug, Args)]
pub struct VerifyArguments {
    /// A folder that `kelvin run` or `kelvin sweep` has finished
    pub run: PathBuf,
    #[command(flatten)]
    pub device: DeviceArguments,
    /// Folder with the data sets' files (see `kelvin data`)
    #[arg(long, env = "KELVIN_DATA", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Print the checks as one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct BenchArguments {
    /// A case of the benchmark (8-64-1/824, 14-64-1/128, 8-64-64-1/824, 30-128-128-3/128, 784-256-256-10/128, all five as
    /// `dense`, mnist-cnn, resnet20), or the network and training rows of a preset or an experiment.toml, with made-up images where
    /// their files are not here [default: every case]
    #[arg(value_name = "CASE|PRESET|FILE.toml")]
    pub case: Option<String>,
    /// Folder with the data sets' files (see `kelvin data`)
    #[arg(long, env = "KELVIN_DATA", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    #[command(flatten)]
    pub device: DeviceArguments,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Numbers of chains [default: on the CPU 1 and one for each thread; on GPUs 1, 10, 50, and for tables 132 and 264]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    pub chains: Vec<u16>,
    /// Timed readings of a case [default: 9 on the CPU, 2 on GPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub readings: Option<u16>,
    /// Threads of the many-threads case on the CPU [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}
