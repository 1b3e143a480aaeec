//! A few thousand bad inputs for every parser: no panic, no memory that a file's size does not explain, no error without a place.

use kelvin_fuzz::{execute, input, target, targets};

/// Inputs of each parser; the harness runs a million.
const EXECUTIONS: u64 = 3000;

#[test]
fn valid_files_are_taken() {
    for target in targets() {
        for (number, bytes) in (target.valid)().iter().enumerate() {
            let outcome = execute(target, bytes);
            // Two of them are for the harness to complete.
            let is_complete = !(target.name == "cifar-zstd" && number == 3 || target.name == "draw-log");
            assert!(outcome.read.is_ok() || !is_complete, "{} {number}: {:?}", target.name, outcome.read);
            assert!(outcome.finding.is_none(), "{} {number}: {:?}", target.name, outcome.finding);
        }
    }
}

#[test]
fn bad_input_is_refused_with_its_place() {
    for target in targets() {
        let valid = (target.valid)();
        let (mut accepted, mut refused) = (0, 0);
        for number in 0..EXECUTIONS {
            let outcome = execute(target, &input(target, &valid, 7, number));
            if let Some(finding) = outcome.finding {
                panic!("{}, seed 7, execution {number}: {finding:?}", target.name);
            }
            if outcome.read.is_ok() { accepted += 1 } else { refused += 1 }
        }
        // Changes go deep enough to be taken at times, and are felt.
        assert!(accepted > 5 && refused > EXECUTIONS / 10, "{}: {accepted} accepted, {refused} refused", target.name);
    }
}

#[test]
fn an_execution_is_named_by_its_numbers() {
    let csv = target("csv").unwrap();
    let valid = (csv.valid)();
    assert_eq!(input(csv, &valid, 3, 99), input(csv, &valid, 3, 99));
    assert_ne!(input(csv, &valid, 3, 99), input(csv, &valid, 4, 99));
}
