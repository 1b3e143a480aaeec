//! Standard output for results, standard error for everything else, and exit codes.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use kelvin::experiment::ExperimentError;

/// Prints a result; a reader that went away (`| head`) is no failure.
pub fn print_result(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Says what went wrong, from the outermost context to the cause; 2 for a wrong question, 1 for a failure.
pub fn report_error(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  {cause}");
    }
    let wrong_question = matches!(
        error.downcast_ref::<ExperimentError>(),
        Some(
            ExperimentError::UnknownPreset { .. }
                | ExperimentError::UnknownSetting { .. }
                | ExperimentError::NotAnOverride { .. }
                | ExperimentError::OutOfRange { .. }
        )
    );
    ExitCode::from(if wrong_question { 2 } else { 1 })
}
