//! The binary `kelvin`; what it does is in the library beside it, so that its parsers can be tested from outside.

use std::process::ExitCode;

fn main() -> ExitCode {
    kelvin_cli::main()
}
