//! A whole study from a program of your own: arrays in, progress on the way, a stop and going on, findings out.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use kelvin::data::{Dataset, Target};
use kelvin_study::experiment::{Experiment, automatic_settings};
use kelvin_study::findings::{Method, RunCommand};
use kelvin_study::folder::Moment;
use kelvin_study::problem::Problem;
use kelvin_study::settings::{DataSettings, RunSettings};
use kelvin_study::study::{Cancel, Outcome, StageEnd, Study, StudyObserver};

/// Says how far the study is, and presses its stop button when the searches have ended where it has one.
struct Watcher(Option<Cancel>);

impl StudyObserver for Watcher {
    fn progress(&self, moment: &Moment) {
        println!("{}: {} of {} steps", moment.stage.name(), moment.steps_done, moment.steps);
    }

    fn stage_ended(&self, end: &StageEnd) {
        println!("{}: {:.1} s", end.stage.name(), end.seconds);
        self.0.iter().for_each(Cancel::cancel);
    }
}

/// 200 rows of y = sin(6 x₁) + 0.3 x₂ and some noise, in the folder named.
fn study(folder: &Path, watcher: Watcher, cancel: Cancel) -> Result<Study, Box<dyn Error>> {
    let x: Vec<f64> = (0..200).flat_map(|i| [(f64::from(i) * 0.618).fract(), (f64::from(i) * 0.414).fract()]).collect();
    let noise = |i: usize| 0.1 * ((i * 7919 % 101) as f64 / 50.0 - 1.0);
    let y = x.chunks(2).enumerate().map(|(i, x)| (6.0 * x[0]).sin() + 0.3 * x[1] + noise(i)).collect();
    let dataset = Dataset::from_arrays("waves", &["x1", "x2"], &x, "y", Target::Real(y))?;
    let data = DataSettings { source: "waves".into(), ..DataSettings::default() };
    let settings = automatic_settings("waves", data, &dataset, RunSettings::default()).quick(1);
    let experiment = Experiment::new(Problem::new(dataset, &settings)?, settings)?;
    let mut study = Study::new(RunCommand::Run, experiment);
    (study.automatic, study.folder) = (true, Some(folder.to_path_buf()));
    (study.observer, study.cancel) = (Arc::new(watcher), cancel);
    Ok(study)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("kelvin-waves-{}", std::process::id()));
    let cancel = Cancel::default();
    let stopped = study(&folder, Watcher(Some(cancel.clone())), cancel)?.carry_out()?;
    assert!(matches!(stopped, Outcome::Stopped), "what was done until then is in the folder");

    let Outcome::Finished(done) = study(&folder, Watcher(None), Cancel::default())?.carry_out()? else {
        unreachable!("nobody stops it");
    };
    let row = done.findings.rows.iter().find(|row| row.method == Method::Chosen).ok_or("no chains")?;
    println!("β = {:.3}, test LPD {:.3} nats, {} draws", row.beta, row.test.lpd().standard, row.num_draws);
    assert!(row.test.lpd().standard > -1.0, "sin is learned: −1.4 would be the base rate");
    Ok(std::fs::remove_dir_all(&folder)?)
}
