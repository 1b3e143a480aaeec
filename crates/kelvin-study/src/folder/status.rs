//! The progress of a running experiment, as checkpoints/status.json: what the terminal, `kelvin watch` and `kelvin diagnose` show.

use crate::error::{Context, Result, refused};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use kelvin::mutex::lock;
use kelvin::predictive::ByModel;
use kelvin::write_file::create_new;
use serde::{Deserialize, Serialize};

use crate::findings::RunCommand;

/// The format of status.json that this kelvin writes and reads.
const FORMAT: u32 = 1;
/// The name of the status file in a run folder.
const STATUS: &str = "checkpoints/status.json";

/// The progress of a run, and the process that wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    format: u32,
    /// The name of the experiment.
    pub name: String,
    /// The command that was given.
    pub command: RunCommand,
    /// Process id of the writer; the lock of the folder says whether it still runs.
    pub process: u32,
    /// How often this process has written it: a number that grows as long as the run is alive.
    pub update: u64,
    /// Seconds since this process began the run or resumed it.
    pub elapsed_seconds: f64,
    /// Why the process ended with an error; none while it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What the chains are doing.
    #[serde(flatten)]
    pub moment: Moment,
}

/// The progress of all chains of a stage at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// The stage that the run is in.
    pub stage: Stage,
    /// Steps done by all chains together.
    pub steps_done: u64,
    /// Steps to be done by all chains together; a chain that diverged needs no more.
    pub steps: u64,
    /// Steps of all chains together in a second, over the last few seconds; none before they move.
    pub steps_per_second: Option<f64>,
    /// Seconds until the stage ends, at this speed; none if not known.
    pub seconds_left: Option<f64>,
    /// The progress of each chain, or of each search.
    pub chains: Vec<ChainStatus>,
}

/// The stages of a run, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Searching for β from every start.
    Choosing,
    /// A pilot tries step sizes.
    Tuning,
    /// Searches are done, and nothing is sampled yet: other processes begin there.
    Searched,
    /// Chains burn in and keep draws.
    Sampling,
    /// Exact chains are sampled beside them.
    Auditing,
    /// Draws are scored on held-out rows, and results are written.
    Scoring,
    /// All results are written.
    Done,
}

impl Stage {
    /// The stage as people read it, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Choosing => "choosing β",
            Self::Tuning => "tuning the step size",
            Self::Searched => "searched",
            Self::Sampling => "sampling",
            Self::Auditing => "auditing",
            Self::Scoring => "scoring",
            Self::Done => "done",
        }
    }
}

/// The progress of one chain, or of one search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainStatus {
    /// The label that people see.
    pub label: String,
    /// The part of its label that the other chains of its temperature share.
    pub group: String,
    /// The β asked for; for a search, the β that it is at.
    pub beta: f64,
    /// What it is doing.
    #[serde(flatten)]
    pub phase: Phase,
    /// Steps it has done.
    pub step: u64,
    /// Steps it is to do.
    pub steps: u64,
    /// Potential energy at the last draw; none before the first.
    pub energy: Option<f64>,
    /// Potential energies of the draws so far, or β of a search so far, thinned.
    pub trace: Vec<f32>,
    /// Mean kinetic temperature at the draws so far, divided by the one asked for; none before the first draw.
    pub temperature_ratio: Option<f64>,
    /// Validation LPD of all draws so far, in nats; none before the first.
    pub validation_lpd: Option<ByModel<f64>>,
    /// Seconds until it ends, at its speed so far; none if not known.
    pub seconds_left: Option<f64>,
}

/// What a chain is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// It has not begun yet.
    Waiting,
    /// A search for β, between two checkpoints.
    Search {
        /// The checkpoint that it is heading for, from 1.
        part: u64,
        /// The number of checkpoints in all.
        parts: u64,
    },
    /// Burn-in without noise.
    BurnInCold,
    /// Burn-in while the temperature of the noise rises.
    BurnInRamp,
    /// Burn-in with noise of the full temperature.
    BurnInHot,
    /// Sampling, between two draws.
    Cycle {
        /// The draw that it is heading for, from 1.
        part: u64,
        /// The number of draws in all.
        parts: u64,
    },
    /// All steps are done.
    Done,
    /// Stopped, since its weights were not finite any more.
    Diverged,
}

impl Phase {
    /// The phase as people read it: "cycle 3 of 100".
    pub fn text(self) -> String {
        match self {
            Self::Waiting => "waiting".into(),
            Self::Search { part, parts } => format!("part {part} of {parts}"),
            Self::BurnInCold => "burn-in, no noise".into(),
            Self::BurnInRamp => "burn-in, ramp".into(),
            Self::BurnInHot => "burn-in, hot".into(),
            Self::Cycle { part, parts } => format!("cycle {part} of {parts}"),
            Self::Done => "done".into(),
            Self::Diverged => "diverged".into(),
        }
    }
}

/// The steps at which a chain's phases begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeline {
    Search { every: u64, steps: u64 },
    Sampling { ramp_start: u64, ramp_end: u64, burn_in: u64, cycle: u64, steps: u64 },
}

impl Timeline {
    pub fn steps(self) -> u64 {
        match self {
            Self::Search { steps, .. } | Self::Sampling { steps, .. } => steps,
        }
    }

    /// The phase of a chain that has done `step` steps.
    pub fn phase(self, step: u64) -> Phase {
        let parts = |start: u64, every: u64, steps: u64| {
            let parts = ((steps - start) / every).max(1);
            ((((step - start) / every) + 1).min(parts), parts)
        };
        match self {
            _ if step >= self.steps() => Phase::Done,
            Self::Search { every, steps } => {
                let (part, parts) = parts(0, every, steps);
                Phase::Search { part, parts }
            }
            Self::Sampling { ramp_start, .. } if step < ramp_start => Phase::BurnInCold,
            Self::Sampling { ramp_end, burn_in, .. } if step < ramp_end.min(burn_in) => Phase::BurnInRamp,
            Self::Sampling { burn_in, .. } if step < burn_in => Phase::BurnInHot,
            Self::Sampling { burn_in, cycle, steps, .. } => {
                let (part, parts) = parts(burn_in, cycle, steps);
                Phase::Cycle { part, parts }
            }
        }
    }
}

/// The status file of this process, with what was last written to it.
pub(crate) struct StatusFile {
    path: PathBuf,
    name: String,
    command: RunCommand,
    began: Instant,
    last: Mutex<(u64, Option<Moment>)>,
}

impl StatusFile {
    pub fn new(folder: &Path, name: &str, command: RunCommand) -> Self {
        let path = folder.join(STATUS);
        Self { path, name: name.into(), command, began: Instant::now(), last: Mutex::default() }
    }

    /// Replaces the status file. A failure is ignored: a run does not end because its progress cannot be shown.
    pub fn write(&self, moment: Moment) {
        self.write_with(moment, None);
    }

    fn write_with(&self, moment: Moment, failure: Option<String>) {
        let path = &self.path;
        let mut last = lock(&self.last);
        last.0 += 1;
        let status = Status {
            format: FORMAT,
            name: self.name.clone(),
            command: self.command,
            process: std::process::id(),
            update: last.0,
            elapsed_seconds: self.began.elapsed().as_secs_f64(),
            failure,
            moment,
        };
        // Whole for every reader, but not flushed to disk: a status that a power cut takes is no loss. Nor is one that
        // cannot be written a reason to end a run.
        let beside = path.with_extension(format!("json.{}.part", status.process));
        if let Ok(text) = serde_json::to_vec(&status)
            && create_new(&beside)
                .and_then(|mut file| file.write_all(&text))
                .and_then(|()| std::fs::rename(&beside, path))
                .is_err()
        {
            let _ = std::fs::remove_file(&beside);
        }
        last.1 = Some(status.moment);
    }

    /// Whether anything was written since this process began.
    pub fn has_told(&self) -> bool {
        lock(&self.last).0 > 0
    }

    /// Writes that the next stage has begun, with the chains as they were.
    pub fn write_stage(&self, stage: Stage) {
        let moment = self.last_moment(stage);
        self.write(Moment { stage, ..moment });
    }

    /// Writes that the run ended with an error, with the chains as they were.
    pub fn write_failure(&self, failure: &str) {
        let moment = self.last_moment(Stage::Choosing);
        self.write_with(moment, Some(failure.into()));
    }

    /// The chains as they were when last written, none of which moves now; none yet where it was never written.
    fn last_moment(&self, stage: Stage) -> Moment {
        let last = lock(&self.last).1.take();
        let none =
            Moment { stage, steps_done: 0, steps: 0, steps_per_second: None, seconds_left: None, chains: Vec::new() };
        Moment { steps_per_second: None, seconds_left: None, ..last.unwrap_or(none) }
    }
}

impl Status {
    /// Reads status.json of a run folder; `None` if there is none yet.
    ///
    /// # Errors
    /// If it is damaged or of another format.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(STATUS);
        let Ok(bytes) = std::fs::read(&path) else { return Ok(None) };
        let damaged = || format!("{} is damaged; the run writes it again when it goes on", path.display());
        let value: serde_json::Value = serde_json::from_slice(&bytes).with_context(damaged)?;
        let format = value["format"].as_u64();
        if format != Some(u64::from(FORMAT)) {
            let found = format.map_or("no".into(), |format| format.to_string());
            return Err(refused(format!(
                "{} has format {found}, and this kelvin knows {FORMAT}; watch with the kelvin that runs",
                path.display()
            )));
        }
        serde_json::from_value(value).map(Some).with_context(damaged)
    }
}

/// A duration as people say it: "12 s", "3 min 05 s", "2 h 10 min", "1 d 04 h"; "–" for what is not finite.
pub fn duration(seconds: f64) -> String {
    let whole = if seconds.is_finite() { seconds.max(0.0).round() as u64 } else { return "–".into() };
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        3600..86_400 => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {:02} h", whole / 86_400, whole / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLING: Timeline = Timeline::Sampling { ramp_start: 10, ramp_end: 20, burn_in: 30, cycle: 5, steps: 52 };

    #[test]
    fn phases_follow_the_steps() {
        let cycle = |part| Phase::Cycle { part, parts: 4 };
        for (step, phase) in [
            (0, Phase::BurnInCold),
            (10, Phase::BurnInRamp),
            (20, Phase::BurnInHot),
            (30, cycle(1)),
            (34, cycle(1)),
            (35, cycle(2)),
            (51, cycle(4)),
            (52, Phase::Done),
        ] {
            assert_eq!(SAMPLING.phase(step), phase, "{step}");
        }
        let search = Timeline::Search { every: 10, steps: 40 };
        assert_eq!(search.phase(39), Phase::Search { part: 4, parts: 4 });
        assert_eq!(search.phase(40), Phase::Done);
        // A ramp may go on after the burn-in: draws come first.
        let late = Timeline::Sampling { ramp_start: 0, ramp_end: 40, burn_in: 30, cycle: 5, steps: 50 };
        assert_eq!(late.phase(30), cycle(1));
    }

    #[test]
    fn a_status_survives_its_file_and_counts_up() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Status::read(folder.path()).unwrap(), None);
        std::fs::create_dir(folder.path().join("checkpoints")).unwrap();
        let file = StatusFile::new(folder.path(), "concrete", RunCommand::Sweep);
        let chain = ChainStatus {
            label: "β = 1, chain 1".into(),
            group: "β = 1".into(),
            beta: 1.0,
            phase: Phase::Cycle { part: 2, parts: 4 },
            step: 35,
            steps: 52,
            energy: Some(12.5),
            trace: vec![13.0, 12.5],
            temperature_ratio: Some(1.01),
            validation_lpd: None,
            seconds_left: Some(3.0),
        };
        let moment = Moment {
            stage: Stage::Sampling,
            steps_done: 35,
            steps: 52,
            steps_per_second: Some(10.0),
            seconds_left: Some(1.7),
            chains: vec![chain],
        };
        file.write(moment.clone());
        let read = Status::read(folder.path()).unwrap().unwrap();
        assert_eq!((read.update, &read.moment, read.process), (1, &moment, std::process::id()));
        file.write_stage(Stage::Done);
        let read = Status::read(folder.path()).unwrap().unwrap();
        assert_eq!((read.update, read.moment.stage, read.moment.chains), (2, Stage::Done, moment.chains));
        assert_eq!(std::fs::read_dir(folder.path().join("checkpoints")).unwrap().count(), 1, "nothing is left beside");
        std::fs::write(folder.path().join(STATUS), r#"{"format": 7}"#).unwrap();
        assert!(Status::read(folder.path()).unwrap_err().to_string().contains("format 7"));
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let texts = [0.4, 59.6, 61.0, 3725.0, 90_000.0, f64::INFINITY].map(duration);
        assert_eq!(texts, ["0 s", "1 min 00 s", "1 min 01 s", "1 h 02 min", "1 d 01 h", "–"]);
    }
}
