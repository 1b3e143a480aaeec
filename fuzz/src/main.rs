//! Runs the parsers of kelvin on bad input: `kelvin-fuzz csv --executions 1000000`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use kelvin_fuzz::{Target, execute, input, target, targets};

const USAGE: &str = "usage: kelvin-fuzz TARGET|all [--executions N] [--seed N] [--from N] [--keep FILE]\n       \
                     kelvin-fuzz TARGET --input FILE";
/// The most findings that are shown of a target.
const MOST_SHOWN: u64 = 10;

struct Arguments {
    targets: Vec<&'static Target>,
    executions: u64,
    seed: u64,
    /// The number of the first execution.
    from: u64,
    /// Every input is written here before it is read, so that one which ends the process is known.
    keep: Option<PathBuf>,
    /// One input alone.
    input: Option<PathBuf>,
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut words = std::env::args().skip(1);
    let name = words.next().context(USAGE)?;
    let known: Vec<&str> = targets().iter().map(|target| target.name).collect();
    let chosen = match name.as_str() {
        "all" => targets().iter().collect(),
        name => vec![target(name).with_context(|| format!("no target `{name}` among {}\n{USAGE}", known.join(", ")))?],
    };
    let mut arguments = Arguments { targets: chosen, executions: 1_000_000, seed: 1, from: 0, keep: None, input: None };
    while let Some(flag) = words.next() {
        let value = words.next().with_context(|| format!("{flag} needs a value\n{USAGE}"))?;
        let number = || value.parse::<u64>().with_context(|| format!("{flag} needs a number, got `{value}`"));
        match flag.as_str() {
            "--executions" => arguments.executions = number()?,
            "--seed" => arguments.seed = number()?,
            "--from" => arguments.from = number()?,
            "--keep" => arguments.keep = Some(value.into()),
            "--input" => arguments.input = Some(value.into()),
            _ => bail!("there is no {flag}\n{USAGE}"),
        }
    }
    Ok(arguments)
}

/// How many findings there were.
fn run(arguments: &Arguments) -> anyhow::Result<u64> {
    // A panic is counted and shown with its number; its usual words on standard error would be in the way.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(path) = &arguments.input {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let outcome = execute(arguments.targets[0], &bytes);
        println!("{:?}, {} bytes of memory, {:?}", outcome.read, outcome.memory, outcome.time);
        println!("{}", outcome.finding.as_ref().map_or("no finding".into(), |finding| format!("{finding:?}")));
        return Ok(u64::from(outcome.finding.is_some()));
    }
    println!(
        "| target | executions | accepted | refused | kinds of refusal | most memory | slowest | seconds | findings |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut findings = 0;
    for target in &arguments.targets {
        findings += run_target(target, arguments)?;
    }
    Ok(findings)
}

fn run_target(target: &Target, arguments: &Arguments) -> anyhow::Result<u64> {
    let valid = (target.valid)();
    for (number, bytes) in valid.iter().enumerate() {
        if let Some(finding) = execute(target, bytes).finding {
            bail!("{}: valid file {number}: {finding:?}", target.name);
        }
    }
    let (mut accepted, mut findings, mut slowest, mut kinds) = (0_u64, 0, (Duration::ZERO, 0), BTreeSet::new());
    let (mut most_memory, mut size_of_most) = (0, 0);
    let began = Instant::now();
    for number in arguments.from..arguments.from + arguments.executions {
        let bytes = input(target, &valid, arguments.seed, number);
        if let Some(path) = &arguments.keep {
            std::fs::write(path, &bytes).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let outcome = execute(target, &bytes);
        slowest = slowest.max((outcome.time, number));
        if outcome.memory > most_memory {
            (most_memory, size_of_most) = (outcome.memory, bytes.len());
        }
        match &outcome.read {
            Ok(()) => accepted += 1,
            Err(said) if kinds.len() < 1000 => _ = kinds.insert(kind(said)),
            Err(_) => {}
        }
        if let Some(finding) = outcome.finding {
            findings += 1;
            if findings <= MOST_SHOWN {
                eprintln!("{} --seed {} --from {number} --executions 1: {finding:?}", target.name, arguments.seed);
            }
        }
    }
    println!(
        "| {} | {} | {accepted} | {} | {} | {} KiB for {size_of_most} bytes | {} µs | {:.0} | {findings} |",
        target.name,
        arguments.executions,
        arguments.executions - accepted,
        kinds.len(),
        most_memory >> 10,
        slowest.0.as_micros(),
        began.elapsed().as_secs_f64(),
    );
    Ok(findings)
}

/// An error without what differs from one input to the next: numbers and quoted words.
fn kind(said: &str) -> String {
    let mut kind = String::new();
    let mut is_quoted = false;
    for character in said.chars().take(300) {
        match character {
            '`' | '"' | '\'' => is_quoted = !is_quoted,
            '0'..='9' if kind.ends_with('#') => {}
            '0'..='9' => kind.push('#'),
            _ if is_quoted => {}
            _ => kind.push(character),
        }
    }
    // What follows the name of the file, where it leads.
    kind.rsplit("some-file").next().unwrap_or_default().chars().take(70).collect()
}
