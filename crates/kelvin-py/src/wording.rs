//! Says in Python's words what the libraries say in the program's: flags are arguments here.

use std::borrow::Cow;

/// Flags, and the arguments that take their place.
const ARGUMENTS: [(&str, &str); 8] = [
    ("begin it anew with --fresh", "begin it anew in another folder"),
    ("begin anew with --fresh", "begin anew in another folder"),
    ("--data-dir DIR", "data_dir=\"DIR\""),
    ("--device cpu", "device=\"cpu\""),
    ("--sampler adaptive", "sampler=\"adaptive\""),
    ("--budget", "budget="),
    ("--likelihood", "likelihood="),
    ("--out", "folder="),
];
/// What columns are taken for is a matter of the arrays and frames that are given.
const OF_COLUMNS: &str = " with `--column ";

/// A message with arguments in place of flags.
pub fn in_python(message: &str) -> Cow<'_, str> {
    if !message.contains("--") {
        return Cow::Borrowed(message);
    }
    let mut said = String::new();
    let mut rest = message;
    while let Some((before, after)) = rest.split_once(OF_COLUMNS) {
        said.push_str(before);
        rest = after.split_once('`').map_or("", |(_, after)| after);
    }
    said.push_str(rest);
    for (flag, argument) in ARGUMENTS {
        said = said.replace(flag, argument);
    }
    Cow::Owned(said)
}
