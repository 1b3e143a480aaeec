//! What a study would cost, before any of it is done: multiply-adds that are counted, hours at a stated rate, bytes of states and draws.
//!
//! ```text
//! F: multiply-adds of one row forward, d: parameters, k: outputs.   A row's outputs cost F + 40 k, its gradient 3 F + 40 k,
//! a step (rows of a batch) gradients + 30 d: noise, momentum, position.
//! search: steps, and outputs of the validation rows at each of its checkpoints
//! chain:  steps, batches for masses, and for each draw gradients of the energy's rows, outputs and scores at the held-out rows,
//!         10⁴ for a number (a mixture's quantiles) and 200 for each class
//! ```
//! The rate of a core is a round number that convolutions exceed severalfold and that networks of a few hundred parameters do not always reach.
//! It is a constant, not a measurement: whether a study is refused does not depend on how busy a machine is.

use std::fmt;

use crate::error::{ExperimentError, StudyError};
use crate::findings::RunCommand;
use crate::number::{fixed, significant};
use crate::problem::SourceData;
use crate::settings::{DrawsSetting, Preconditioner, Settings};
use crate::study::select::Methods;
use crate::study::trials::num_trials;
use kelvin::data::Corruption;
use kelvin::network::{Evaluator, Network};

/// Multiply-adds a second that one core is taken to do.
const CORE_RATE: f64 = 1e10;
/// The same of networks of one hidden layer and one output, whose passes are fused; 8e10 was measured with AVX-512.
const FUSED_CORE_RATE: f64 = 4e10;
/// The same of one GPU.
const GPU_RATE: f64 = 1e13;
/// Of an output and of a parameter, in multiply-adds: exponentials, random numbers.
const OUTPUT: f64 = 40.0;
const SCORED_NUMBER: f64 = 1e4;
const SCORED_CLASS: f64 = 200.0;
const PARAMETER: f64 = 30.0;
/// The most training rows that learning theory looks at.
const THEORY_ROWS: usize = 2000;
/// Numbers that a chain keeps for each parameter, of four bytes: position, momentum, gradient, mass, and what a search found best.
const NUMBERS_OF_STATE: f64 = 5.0;
/// Chains that a refinement of β goes through beside its first, in lengths of a full one.
const REFINEMENT: f64 = 2.0;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workload {
    /// A run or a sweep.
    Study(RunCommand),
    /// Ways to choose β side by side.
    Selection {
        /// The methods.
        methods: Methods,
        /// The number of starts, where it is not that of the settings.
        num_starts: Option<u32>,
    },
}

/// What the numbers are worked out by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worker {
    /// So many cores.
    Cores(usize),
    /// A GPU.
    Gpu,
}

/// What a study would cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Searches for β, and the steps of each.
    pub searches: (f64, f64),
    /// Sampled chains, and the steps of each.
    pub chains: (f64, f64),
    /// Short chains that try likelihoods and temperatures before, and the steps of each.
    pub trials: (f64, f64),
    /// Training rows.
    pub num_rows: usize,
    /// Parameters of the network.
    pub num_parameters: usize,
    /// All multiply-adds.
    pub multiply_adds: f64,
    /// Bytes of memory for the states of chains.
    pub state_bytes: f64,
    /// Bytes of draws on disk.
    pub draws_bytes: f64,
    /// Whether chains may end before: when they have seen enough.
    pub is_the_most: bool,
    /// Multiply-adds a second that one core is taken to do.
    core_rate: f64,
}

impl Cost {
    /// Counts what is asked for of these data; `has_trial` where a search comes before all others to derive settings from.
    ///
    /// # Errors
    /// If the network cannot be built for these rows.
    pub fn of(
        work: &Workload,
        settings: &Settings,
        data: &SourceData,
        has_trial: bool,
    ) -> Result<Self, ExperimentError> {
        let rows = match data {
            SourceData::Table(table) => {
                let num_train = table.num_rows() * 4 / 5;
                let num_held_out = table.num_rows() - num_train;
                [num_train, num_held_out.div_ceil(2), num_held_out / 2]
            }
            SourceData::Images { images, .. } => {
                let of = |there: usize, asked: Option<usize>| asked.map_or(there, |asked| asked.min(there));
                let data = &settings.data;
                [
                    of(images.train.len(), data.train_images),
                    of(images.validation.len(), data.validation_images),
                    of(images.test.len(), data.test_images),
                ]
            }
        };
        let network = dearest_network(settings, data)?;
        let found = Self::of_rows(work, settings, &network, rows, has_trial);
        match (data, work) {
            (SourceData::Table(table), Workload::Study(RunCommand::Run | RunCommand::RunGrid)) => {
                let every: Vec<usize> = (0..table.num_rows()).collect();
                let learns_noise = !settings.build_likelihood(table, &every)?.identifies_beta();
                let num_choices = num_trials(settings, learns_noise && settings.sampler.adapt);
                Ok(found.with_trials(num_choices, settings, &network, table.num_rows(), rows))
            }
            _ => Ok(found),
        }
    }

    /// The same with the short chains that try so many choices first.
    fn with_trials(
        mut self,
        num_choices: usize,
        settings: &Settings,
        network: &Network,
        num_rows: usize,
        rows: [usize; 3],
    ) -> Self {
        let (short, num_folds) = settings.clone().for_trials(num_rows, network.layout().len());
        let (steps, each) = chain_cost(&short, network, rows);
        let num_chains = (num_choices * num_folds) as f64 * f64::from(short.run.chains);
        self.trials = (num_chains, steps);
        self.multiply_adds += num_chains * each;
        self
    }

    /// Counts what is asked for of so many training, validation and test rows.
    fn of_rows(work: &Workload, settings: &Settings, network: &Network, rows: [usize; 3], has_trial: bool) -> Self {
        let [num_train, num_validation, _] = rows;
        let (selection, sampler) = (&settings.selection, &settings.sampler);
        let num_parameters = network.layout().len();
        let (evaluation, _) = row_cost(network);
        let (search_steps, step) = step_cost(network, num_train, selection.batch_size.rows());
        let search_steps = search_steps * selection.epochs as f64;
        let search = search_steps * step + selection.checkpoints as f64 * num_validation as f64 * evaluation;

        let num_draws = settings.draws_per_chain() as f64;
        let (chain_steps, chain) = chain_cost(settings, network, rows);
        let (num_searches, num_chains) = work.population(settings);
        let num_searches = num_searches + f64::from(u8::from(has_trial));
        let stored = if sampler.draws == DrawsSetting::Stored { num_draws } else { 0.0 };
        let numbers = 4.0 * num_parameters as f64;
        Self {
            searches: (num_searches, search_steps),
            chains: (num_chains, chain_steps),
            trials: (0.0, 0.0),
            num_rows: num_train,
            num_parameters,
            multiply_adds: num_searches * search + num_chains * chain,
            state_bytes: NUMBERS_OF_STATE * numbers * num_chains.max(num_searches),
            draws_bytes: numbers * num_chains * stored,
            is_the_most: settings.stopping.is_some(),
            core_rate: match network.evaluator().beside_skip() {
                Evaluator::OneHidden(_) if network.num_outputs() == 1 => FUSED_CORE_RATE,
                _ => CORE_RATE,
            },
        }
    }

    /// Hours of one core or of one GPU.
    pub fn hours(&self, worker: Worker) -> f64 {
        let rate = match worker {
            Worker::Cores(_) => self.core_rate,
            Worker::Gpu => GPU_RATE,
        };
        self.multiply_adds / rate / 3600.0
    }

    /// Seconds on the clock, with a core for each chain where there are so many.
    pub fn seconds(&self, worker: Worker) -> f64 {
        let at_once = match worker {
            Worker::Cores(cores) => (cores as f64).min(self.chains.0.max(1.0)).max(1.0),
            Worker::Gpu => 1.0,
        };
        3600.0 * self.hours(worker) / at_once
    }

    /// Refuses what takes more than `most_hours` of a core or of a GPU.
    ///
    /// # Errors
    /// With what was asked, what it would cost and how to have it all the same.
    pub fn check(&self, worker: Worker, most_hours: f64) -> Result<(), StudyError> {
        let hours = self.hours(worker);
        if hours <= most_hours {
            return Ok(());
        }
        let of = if worker == Worker::Gpu { "a GPU" } else { "one core" };
        Err(StudyError::WrongQuestion(format!(
            "this is {self}\n  it would take about {} hours of {of}, and run.most_hours allows {}; nothing was begun\n  ask for less (rows, \
             epochs, chains, a smaller network; --quick), or allow it with `--set run.most_hours={}`",
            significant(hours, 2),
            significant(most_hours, 3),
            (1.1 * hours).ceil(),
        )))
    }

    /// One sentence with the time it will take, on the clock.
    pub fn told(&self, worker: Worker) -> String {
        let on = match worker {
            Worker::Gpu => "a GPU".into(),
            Worker::Cores(1) => "one core".into(),
            Worker::Cores(cores) => format!("{cores} cores"),
        };
        let about = if self.is_the_most { "at most about" } else { "about" };
        format!("{self}: {about} {} on {on}", duration(self.seconds(worker)))
    }
}

/// The network, or the dearest of those that a run is to choose among.
fn dearest_network(settings: &Settings, data: &SourceData) -> Result<Network, ExperimentError> {
    let mut dearest = data.network(settings)?;
    for widths in &settings.run.hidden_layers {
        let mut settings = settings.clone();
        settings.model.hidden = Some(widths.clone());
        let network = settings.model.build(dearest.input(), dearest.num_outputs())?;
        if network.program().multiply_adds() > dearest.program().multiply_adds() {
            dearest = network;
        }
    }
    Ok(dearest)
}

/// Multiply-adds of a row's outputs, and of its gradient.
fn row_cost(network: &Network) -> (f64, f64) {
    let (forward, outputs) = (network.program().multiply_adds() as f64, network.num_outputs() as f64);
    (forward + OUTPUT * outputs, 3.0 * forward + OUTPUT * outputs)
}

/// Steps of an epoch, and multiply-adds of one of them.
fn step_cost(network: &Network, num_train: usize, batch: Option<usize>) -> (f64, f64) {
    let batch = batch.unwrap_or(num_train).clamp(1, num_train.max(1));
    let (_, gradient) = row_cost(network);
    ((num_train / batch) as f64, batch as f64 * gradient + PARAMETER * network.layout().len() as f64)
}

/// Steps of a sampled chain, and multiply-adds of it with its draws.
fn chain_cost(settings: &Settings, network: &Network, [num_train, num_validation, num_test]: [usize; 3]) -> (f64, f64) {
    let sampler = &settings.sampler;
    let (epoch, step) = step_cost(network, num_train, sampler.batch_size.rows());
    let (evaluation, gradient) = row_cost(network);
    let masses = match sampler.preconditioner {
        Preconditioner::None => 0.0,
        Preconditioner::Layerwise => sampler.epochs as f64 * sampler.preconditioner_batches as f64 * step,
    };
    let num_draws = settings.draws_per_chain() as f64;
    let num_outputs = network.num_outputs();
    let scored = if num_outputs == 1 { SCORED_NUMBER } else { SCORED_CLASS * num_outputs as f64 };
    let times_tested = 1 + settings.data.corruptions.len() * Corruption::STRENGTHS;
    let num_evaluated = (num_validation + times_tested * num_test + num_train.min(THEORY_ROWS)) as f64;
    let energy_rows = sampler.energy_rows.unwrap_or(num_train) as f64;
    let draw = energy_rows * gradient + num_evaluated * (evaluation + scored);
    let steps = epoch * sampler.epochs as f64;
    (steps, steps * step + masses + num_draws * draw)
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |number: f64| fixed(number, 0);
        let ((searches, search_steps), (chains, chain_steps)) = (self.searches, self.chains);
        write!(
            f,
            "{} searches of {} steps and {} chains of {} steps with {} parameters on {} rows, {} multiply-adds",
            count(searches),
            count(search_steps),
            count(chains),
            count(chain_steps),
            count(self.num_parameters as f64),
            count(self.num_rows as f64),
            significant(self.multiply_adds, 2),
        )?;
        let (trials, trial_steps) = self.trials;
        if trials > 0.0 {
            write!(f, ", {} short chains of {} steps among them", count(trials), count(trial_steps))?;
        }
        for (bytes, what) in [(self.state_bytes, "of memory for states"), (self.draws_bytes, "of draws")] {
            if bytes >= GIB {
                write!(f, ", {} GiB {what}", significant(bytes / GIB, 2))?;
            }
        }
        Ok(())
    }
}

const GIB: f64 = (1_u64 << 30) as f64;

fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 90.0 => (s, "seconds"),
        s if s < 5400.0 => (s / 60.0, "minutes"),
        s if s < 48.0 * 3600.0 => (s / 3600.0, "hours"),
        s => (s / 86400.0, "days"),
    };
    format!("{} {unit}", significant(value, 2))
}

impl Workload {
    /// The numbers of searches and of chains; of selections at most so many.
    fn population(&self, settings: &Settings) -> (f64, f64) {
        let run = &settings.run;
        let (starts, grid) = (f64::from(run.chains), run.grid.len() as f64);
        // The run's own division, and each fold or split.
        let of_run = starts * f64::from(1 + run.folds.unwrap_or(0) + run.splits.unwrap_or(0));
        // What was chosen is sampled once more.
        let on_all_rows = if run.all_rows { starts } else { 0.0 };
        match self {
            Self::Study(RunCommand::Run) => (of_run, 2.0 * of_run + on_all_rows),
            Self::Study(RunCommand::RunGrid) => (of_run, (2.0 + grid) * of_run + on_all_rows),
            Self::Study(RunCommand::Sweep) => {
                let searched = run.own_repetitions();
                let sampled = searched.clone().filter(|repetition| *repetition < run.num_sampled_repetitions()).count();
                let beside_the_grid = if run.grid.contains(&1.0) { 1.0 } else { 2.0 };
                (searched.len() as f64, sampled as f64 * (grid + beside_the_grid))
            }
            Self::Selection { methods, num_starts } => {
                let names = methods.names(&run.grid);
                let counted = |begin: &str| names.iter().filter(|name| name.starts_with(begin)).count() as f64;
                let starts = num_starts.map_or(starts, f64::from);
                let on_grid = if counted("grid") > 0.0 { grid } else { 0.0 };
                let judged = names.len() as f64;
                (3.0 * starts, starts * (on_grid + judged + (1.0 + REFINEMENT) * counted("refine")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{presets, with_override};
    use kelvin::network::Shape;

    const SWEEP: Workload = Workload::Study(RunCommand::Sweep);
    const CORES: Worker = Worker::Cores(2);

    /// Shape, outputs and rows of the presets' data, which need not be at hand.
    fn sizes(source: &str) -> (Shape, usize, [usize; 3]) {
        match source {
            "concrete" => (Shape::flat(8), 1, [824, 103, 103]),
            "energy" => (Shape::flat(8), 1, [614, 77, 77]),
            "naval" => (Shape::flat(14), 1, [9547, 1194, 1193]),
            "mnist" => (Shape::image(28, 28, 1), 10, [60_000, 5000, 5000]),
            "cifar10" => (Shape::image(32, 32, 3), 10, [50_000, 5000, 5000]),
            "stripes" => (Shape::image(12, 12, 1), 4, [512, 128, 256]),
            other => panic!("how large is {other}?"),
        }
    }

    fn cost(work: &Workload, settings: &Settings) -> Cost {
        let (shape, num_outputs, rows) = sizes(&settings.data.source);
        let network = settings.model.build(shape, num_outputs).unwrap();
        let of = |there: usize, asked: Option<usize>| asked.unwrap_or(there);
        let data = &settings.data;
        let rows = [of(rows[0], data.train_images), of(rows[1], data.validation_images), of(rows[2], data.test_images)];
        Cost::of_rows(work, settings, &network, rows, false)
    }

    #[test]
    fn no_preset_is_refused() {
        for preset in presets() {
            let settings = preset.settings();
            for asked in [
                Workload::Study(RunCommand::Run),
                Workload::Study(RunCommand::RunGrid),
                SWEEP,
                Workload::Selection { methods: Methods::All, num_starts: None },
            ] {
                let cost = cost(&asked, &settings);
                cost.check(CORES, settings.run.most_hours)
                    .unwrap_or_else(|error| panic!("{} {asked:?}: {error}", preset.name));
            }
        }
    }

    /// By hand: a full batch of 824 rows; 8·64 + 64 = 576 products forward, 641 parameters, one output.
    #[test]
    fn a_sweep_of_concrete_costs_what_was_worked_out_by_hand() {
        let mut settings = presets().iter().find(|preset| preset.name == "concrete").unwrap().settings();
        settings.sampler.draws = DrawsSetting::Stored;
        let found = cost(&SWEEP, &settings);
        let step = 824.0 * (3.0 * 576.0 + 40.0) + 30.0 * 641.0;
        let (selection, sampler) = (&settings.selection, &settings.sampler);
        let search = selection.epochs as f64 * step + selection.checkpoints as f64 * 103.0 * 616.0;
        let draw = 824.0 * 1768.0 + (206.0 + 824.0) * (616.0 + 1e4);
        let draws = settings.draws_per_chain() as f64;
        let chain = sampler.epochs as f64 * step + draws * draw;
        assert_eq!((found.searches.0, found.chains.0), (5.0, 50.0));
        let expected = 5.0 * search + 50.0 * chain;
        assert!((found.multiply_adds / expected - 1.0).abs() < 1e-12, "{found:?}");
        assert_eq!(found.draws_bytes, 50.0 * draws * 641.0 * 4.0);
    }

    #[test]
    fn three_thousand_layers_are_refused_until_they_are_allowed() {
        let concrete = presets().iter().find(|preset| preset.name == "concrete").unwrap().settings();
        let deep = format!("model.hidden=[{}]", vec!["64"; 3000].join(","));
        let settings = with_override(&concrete, &deep).unwrap();
        let found = cost(&SWEEP, &settings);
        let refused = found.check(CORES, settings.run.most_hours).unwrap_err();
        assert!(refused.is_wrong_question());
        let refused = refused.to_string();
        let allowed: f64 = refused.split("run.most_hours=").nth(1).unwrap().trim_end_matches('`').parse().unwrap();
        for phrase in ["50 chains of", "parameters on 824 rows", "hours of one core", "run.most_hours allows 48;"] {
            assert!(refused.contains(phrase), "no `{phrase}` in {refused}");
        }
        found.check(CORES, allowed).unwrap();
        assert!(
            found.check(Worker::Gpu, settings.run.most_hours).is_ok(),
            "a GPU does it in {} hours",
            found.hours(Worker::Gpu)
        );
    }

    #[test]
    fn a_selection_asks_for_what_its_methods_need() {
        let settings = presets().iter().find(|preset| preset.name == "concrete").unwrap().settings();
        let named = |names: &[&str]| Workload::Selection {
            methods: Methods::Named(names.iter().map(|&name| name.to_owned()).collect()),
            num_starts: Some(2),
        };
        assert_eq!(named(&["joint"]).population(&settings), (6.0, 2.0));
        let grid = settings.run.grid.len() as f64;
        assert_eq!(named(&["joint", "grid-lpd-sm"]).population(&settings), (6.0, 2.0 * (grid + 2.0)));
        assert_eq!(named(&["refine-sm"]).population(&settings), (6.0, 8.0));
    }

    #[test]
    fn durations_have_the_unit_that_a_person_would_use() {
        let all = [30.0, 600.0, 7200.0, 864_000.0].map(duration);
        assert_eq!(all, ["30 seconds", "10 minutes", "2 hours", "10 days"]);
    }
}
