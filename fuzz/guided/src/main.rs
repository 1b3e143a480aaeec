//! A parser of kelvin under libFuzzer: the one that `KELVIN_FUZZ_TARGET` names, with the findings of the mutational harness. `list` prints
//! their names. Valid files and the words of the format are written to the folder that `KELVIN_FUZZ_SEEDS` names, before libFuzzer looks there.

#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use kelvin_fuzz::{execute, target, targets, Target};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

const TARGET: &str = "KELVIN_FUZZ_TARGET";
const SEEDS: &str = "KELVIN_FUZZ_SEEDS";

fn asked() -> &'static Target {
    static ASKED: OnceLock<&'static Target> = OnceLock::new();
    ASKED.get_or_init(|| {
        let name = std::env::var(TARGET).unwrap_or_default();
        target(&name).unwrap_or_else(|| panic!("{TARGET} must name a target, got `{name}`"))
    })
}

fn begin() {
    if std::env::var(TARGET).is_ok_and(|name| name == "list") {
        targets().iter().for_each(|target| println!("{}", target.name));
        std::process::exit(0);
    }
    if let Some(folder) = std::env::var_os(SEEDS) {
        write_seeds(Path::new(&folder)).unwrap_or_else(|error| panic!("{SEEDS}: {error}"));
    }
}

/// Valid files in `corpus/`, words in `words.dict`.
fn write_seeds(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder.join("corpus"))?;
    for (number, bytes) in (asked().valid)().iter().enumerate() {
        std::fs::write(folder.join(format!("corpus/valid-{number}")), bytes)?;
    }
    let escaped = |word: &&str| word.bytes().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    let words: String = asked().words.iter().map(|word| format!("\"{}\"\n", escaped(word))).collect();
    // libFuzzer does not take an empty file.
    std::fs::write(folder.join("words.dict"), format!("# words of the format\n{words}"))
}

fuzz_target!(init: begin(), |input: &[u8]| {
    if let Some(finding) = execute(asked(), input).finding {
        panic!("{finding:?}");
    }
});

// Without this a checksum would stop nearly all changed files at the door.
fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    let size = fuzzer_mutate(data, size, most);
    let Some(repair) = asked().repair.filter(|_| seed % 4 > 0) else { return size };
    let mut repaired = data[..size].to_vec();
    repair(&mut repaired);
    if repaired.len() > most {
        return size;
    }
    data[..repaired.len()].copy_from_slice(&repaired);
    repaired.len()
});
