//! Standard output for results, standard error for everything else, and exit codes.

use std::borrow::Cow;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use kelvin_study::error::{ExperimentError, StudyError};

use crate::interrupt::Stopped;

/// Prints a result; a reader that went away (`| head`) is no failure.
pub fn print_result(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(printable(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Says something on standard error; where nobody listens, nothing is lost.
pub fn say(text: &str) {
    let _ = std::io::stderr().lock().write_all(printable(text).as_bytes());
}

/// A text without what a terminal would take for a command: names and messages may come from a stranger's files.
fn printable(text: &str) -> Cow<'_, str> {
    let is_command = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(is_command) { text.replace(is_command, "\u{fffd}").into() } else { text.into() }
}

/// A combination of flags that cannot be meant.
#[derive(Debug)]
pub struct WrongFlags(pub String);

impl std::fmt::Display for WrongFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongFlags {}

/// Warnings that were shown and were not to stand: nothing is left to be said.
#[derive(Debug)]
pub struct WarningsStand;

impl std::fmt::Display for WarningsStand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("warnings stand")
    }
}

impl std::error::Error for WarningsStand {}

/// Says what went wrong, from the outermost context to the cause; 2 for a wrong question, 1 for a failure.
pub fn report_error(error: &anyhow::Error) -> ExitCode {
    if error.is::<WarningsStand>() {
        return ExitCode::from(1);
    }
    let mut said = error.to_string();
    if let Some(stopped) = error.downcast_ref::<Stopped>() {
        say(&format!("{stopped}\n"));
        return ExitCode::from(stopped.exit_code());
    }
    say(&format!("error: {said}\n"));
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Some errors already quote their cause.
        if !said.contains(&cause) {
            say(&format!("  {cause}\n"));
        }
        said = cause;
    }
    let wrong_question = error.is::<WrongFlags>()
        || error.downcast_ref::<ExperimentError>().is_some_and(ExperimentError::is_wrong_question)
        || error.downcast_ref::<StudyError>().is_some_and(StudyError::is_wrong_question);
    ExitCode::from(if wrong_question { 2 } else { 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_given_no_commands() {
        assert_eq!(printable("β̂*\tis\n2"), "β̂*\tis\n2");
        assert_eq!(printable("\u{1b}[2J\rall is well\u{9b}"), "\u{fffd}[2J\u{fffd}all is well\u{fffd}");
    }
}
