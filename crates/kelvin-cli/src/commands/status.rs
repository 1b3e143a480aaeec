//! `kelvin status`: which parts of a study wait, run, are done or failed, and where; from the files alone.

use kelvin_study::folder::{PartState, PartStatus, Parts, check_is_run, duration};

use crate::arguments::StatusArguments;
use crate::output::print_result;

pub fn status(arguments: &StatusArguments) -> anyhow::Result<()> {
    let StatusArguments { run, json } = arguments;
    check_is_run(run)?;
    let parts = Parts::of(run)?;
    if *json {
        return print_result(&format!("{}\n", serde_json::to_string(&parts)?));
    }
    let mut text = String::new();
    for part in std::iter::once(&parts.search).chain(&parts.shards).chain(std::iter::once(&parts.merge)) {
        text.push_str(&line(part));
    }
    if let Some(summary) = parts.summary() {
        text.push_str(&format!("{summary}\n"));
    }
    text.extend(parts.next(run).map(|next| format!("{next}\n")));
    print_result(&text)
}

/// A part in a line: name, state, progress, process.
fn line(part: &PartStatus) -> String {
    let mut words = vec![format!("{:<14} {:<8}", part.name, part.state.name())];
    if let (Some(status), PartState::Running | PartState::Stopped | PartState::Failed) = (&part.status, part.state) {
        let moment = &status.moment;
        if moment.steps > 0 {
            let share = 100.0 * moment.steps_done as f64 / moment.steps as f64;
            words.push(format!("{:>5.1} % of {}", share, moment.stage.name()));
        }
        if let (PartState::Running, Some(seconds)) = (part.state, moment.seconds_left) {
            words.push(format!("{} left", duration(seconds)));
        }
    }
    words.extend(part.process.clone());
    if let Some(failure) = &part.failure {
        words.push(failure.lines().next().unwrap_or_default().to_owned());
    }
    format!("{}\n", words.join("  ").trim_end())
}
