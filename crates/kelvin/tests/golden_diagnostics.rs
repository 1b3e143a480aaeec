//! R̂, effective sample sizes, Monte Carlo errors and temperature bands against R's `posterior` and independent tables.

use std::path::Path;

use crate::support;
use kelvin::diagnostics::*;
use serde_json::Value;

fn assert_near(what: &str, found: f64, expected: f64, tolerance: f64) {
    let error = (found - expected).abs() / expected.abs().max(f64::MIN_POSITIVE);
    assert!(error <= tolerance, "{what}: {found} is not {expected} (relative error {error:.2e})");
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("no number {name}"))
}

fn json(name: &str) -> Option<Value> {
    support::golden(name).map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
}

/// The columns of a CSV file with comments: names and, for each, its numbers.
fn columns(path: &Path) -> (Vec<String>, Vec<Vec<f64>>) {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_path(path).unwrap();
    let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_string).collect();
    let mut columns = vec![Vec::new(); names.len()];
    for record in reader.records() {
        for (column, text) in columns.iter_mut().zip(&record.unwrap()) {
            column.push(text.parse().unwrap_or(f64::NAN));
        }
    }
    (names, columns)
}

#[test]
fn agrees_with_r_posterior_on_the_blocker_chains() {
    let Some(reference) = support::golden("diagnostics/reference_posterior.csv") else { return };
    let chains: Vec<_> = (1..)
        .map(|chain| reference.with_file_name(format!("blocker.{chain}.csv")))
        .take_while(|path| path.exists())
        .map(|path| columns(&path))
        .collect();
    assert!(!chains.is_empty(), "no blocker.1.csv beside {}", reference.display());

    let mut rows = csv::Reader::from_path(&reference).unwrap();
    let header = rows.headers().unwrap().clone();
    let mut num_compared = 0;
    for row in rows.records() {
        let row = row.unwrap();
        let draws: Vec<&[f64]> = chains
            .iter()
            .map(|(names, columns)| {
                let at = names.iter().position(|name| *name == row[0]).unwrap_or_else(|| panic!("no {}", &row[0]));
                columns[at].as_slice()
            })
            .collect();
        for (statistic, expected) in header.iter().zip(&row).skip(1) {
            let found = match statistic {
                "rhat_rank" => rhat(&draws),
                "rhat_raw" => basic_rhat(&draws),
                "ess_bulk" => bulk_ess(&draws),
                "ess_tail" => tail_ess(&draws),
                "ess_mean" => mean_ess(&draws),
                "ess_sd" => standard_deviation_ess(&draws),
                "ess_median" => median_ess(&draws),
                "ess_raw" => basic_ess(&draws),
                "mcse_mean" => mean_mcse(&draws),
                "mcse_sd" => standard_deviation_mcse(&draws),
                "mcse_median" => median_mcse(&draws),
                other => {
                    let percent = |prefix| other.strip_prefix(prefix).map(|p: &str| p.parse::<f64>().unwrap() / 100.0);
                    match (percent("ess_quantile"), percent("mcse_quantile")) {
                        (Some(probability), _) => quantile_ess(&draws, probability),
                        (_, Some(probability)) => quantile_mcse(&draws, probability),
                        _ => panic!("unknown statistic {other}"),
                    }
                }
            };
            let expected = expected.parse().unwrap();
            assert_near(&format!("{statistic} of {}", &row[0]), found.unwrap(), expected, 1e-8);
            num_compared += 1;
        }
    }
    assert!(num_compared > 0);
}

#[test]
fn agrees_on_chains_from_a_congruential_generator() {
    let Some(golden) = json("diagnostics/lcg.json") else { return };
    for case in golden["cases"].as_array().unwrap() {
        let (num_chains, num_draws) = (number(case, "chains") as usize, number(case, "draws") as usize);
        let shift = number(case, "shift");
        let mut state = golden["seed"].as_u64().unwrap();
        let chains: Vec<Vec<f64>> = (0..num_chains)
            .map(|chain| {
                let mut draw = || {
                    state = (1_103_515_245 * state + 12_345) % (1 << 31);
                    state as f64 / (1u64 << 31) as f64 + shift * chain as f64
                };
                (0..num_draws).map(|_| draw()).collect()
            })
            .collect();
        assert_eq!(chains[0][0], number(case, "first_value"));
        assert_near("last value", chains[num_chains - 1][num_draws - 1], number(case, "last_value"), 1e-15);
        for (name, found) in [
            ("rhat_rank", rhat(&chains)),
            ("rhat_bulk", bulk_rhat(&chains)),
            ("rhat_tail", tail_rhat(&chains)),
            ("rhat_split", split_rhat(&chains)),
            ("rhat_basic", basic_rhat(&chains)),
            ("ess_bulk", bulk_ess(&chains)),
            ("ess_tail", tail_ess(&chains)),
            ("ess_mean", mean_ess(&chains)),
        ] {
            let what = format!("{name}, {num_chains} chains of {num_draws}, shift {shift}");
            assert_near(&what, found.unwrap(), number(case, name), 1e-9);
        }
    }
}

#[test]
fn bands_agree_with_the_table_of_chi_square_factors() {
    let Some(golden) = json("diagnostics/chi2_factors.json") else { return };
    for row in golden["table"].as_array().unwrap() {
        let dim = row["d"].as_u64().unwrap() as usize;
        let bands =
            row.as_object().unwrap().iter().filter_map(|(name, band)| Some((name.strip_prefix("level_")?, band)));
        for (percent, band) in bands {
            let level = format!("0.{percent}").parse().unwrap();
            let (low, high) = temperature_band(dim, 1.0, level).unwrap();
            assert_near(&format!("low end, d = {dim}"), low, band[0].as_f64().unwrap(), 1e-8);
            assert_near(&format!("high end, d = {dim}"), high, band[1].as_f64().unwrap(), 1e-8);
        }
    }
}
