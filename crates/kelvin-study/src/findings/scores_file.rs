//! scores.csv: one line for each method, β and set of rows (also another set and corrupted images, where asked for), every score a column.

use crate::csv_text::csv_text;
use kelvin::predictive::{RegressionScores, Scores};
use serde_json::{Map, Value};

use crate::findings::results::{Findings, ProblemFacts};
use crate::findings::row::{CorruptedScores, Row};
use crate::problem::Units;

/// The rows as CSV; scores carry the suffix `_sm` or `_tm`, MSE of one target is also given in original units. Of several targets LPD is of rows and
/// the other scores are means over targets; those of each on the test rows carry its name.
pub fn scores_csv(findings: &Findings) -> String {
    // Made twice, so that those of thousands of rows are never in memory together.
    let lines = || findings.rows.iter().flat_map(|row| lines(row, &findings.problem));
    let mut header: Vec<String> = Vec::new();
    for line in lines() {
        for key in line.keys() {
            if !header.contains(key) {
                header.push(key.clone());
            }
        }
    }
    let cells = |line: Map<String, Value>| -> Vec<String> {
        header.iter().map(|key| line.get(key).map_or(String::new(), cell)).collect()
    };
    csv_text(std::iter::once(header.clone()).chain(lines().map(cells)))
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn lines(row: &Row, problem: &ProblemFacts) -> Vec<Map<String, Value>> {
    let other = row.out_of_distribution.as_ref().map(|scores| {
        let mut line = named_line(row, "out_of_distribution");
        add_by_model(&mut line, [serde_json::to_value(scores.standard), serde_json::to_value(scores.tempered)]);
        line
    });
    let of_sets = [("validation", &row.validation), ("test", &row.test)].into_iter();
    of_sets
        .map(|(set, scores)| {
            let mut line = named_line(row, set);
            add_scores(&mut line, scores);
            let mse_in_units = |scores: &RegressionScores, units: &Units| {
                scores.in_original_units(units.std).map_or(Value::Null, |scores| scores.mse.into())
            };
            if let (Scores::Regression(scores), [units]) = (scores, &problem.target_units[..]) {
                line.insert("mse_original_units".into(), mse_in_units(&scores.standard, units));
            }
            let of_targets = row.test_targets.iter().zip(&problem.target_units).zip(&*problem.target);
            for ((scores, units), name) in of_targets.filter(|_| set == "test") {
                let mut own = Map::new();
                add_by_model(&mut own, [serde_json::to_value(scores.standard), serde_json::to_value(scores.tempered)]);
                own.insert("mse_original_units".into(), mse_in_units(&scores.standard, units));
                line.extend(own.into_iter().map(|(score, value)| (format!("{score}({name})"), value)));
            }
            let measured = row.measured.as_ref();
            let mut put = |name: &str, value: Option<f64>| {
                line.insert(name.into(), value.map_or(Value::Null, Value::from));
            };
            put("measured_beta_cycle_ends", measured.and_then(|m| m.beta_at_cycle_ends));
            put("measured_beta_all_steps", measured.and_then(|m| m.beta_over_all_steps));
            put("expected_beta_all_steps", measured.map(|m| m.expected_beta_over_all_steps));
            put("configurational_beta", measured.map(|m| m.configurational_beta));
            put("rhat", measured.and_then(|m| m.rhat));
            put("bulk_ess", measured.and_then(|m| m.bulk_ess));
            put("tail_ess", measured.and_then(|m| m.tail_ess));
            put("seconds", Some(row.seconds));
            line
        })
        .chain(other)
        .chain(row.corrupted.iter().map(|CorruptedScores { corruption, scores }| {
            let mut line = named_line(row, &corruption.to_string());
            add_scores(&mut line, scores);
            line
        }))
        .collect()
}

/// A line with the columns that say whose scores it holds.
fn named_line(row: &Row, set: &str) -> Map<String, Value> {
    let mut line = Map::new();
    line.insert("method".into(), row.method.name().into());
    line.insert("label".into(), row.label.as_str().into());
    line.insert("repetition".into(), row.repetition.map_or(Value::Null, |r| (r + 1).into()));
    line.insert("beta".into(), row.beta.into());
    line.insert("set".into(), set.into());
    line.insert("num_draws".into(), row.num_draws.into());
    line
}

fn add_scores(line: &mut Map<String, Value>, scores: &Scores) {
    let by_model = match scores {
        Scores::Regression(scores) => [serde_json::to_value(scores.standard), serde_json::to_value(scores.tempered)],
        Scores::Classification(scores) => {
            [serde_json::to_value(scores.standard), serde_json::to_value(scores.tempered)]
        }
    };
    add_by_model(line, by_model);
}

fn add_by_model(line: &mut Map<String, Value>, by_model: [serde_json::Result<Value>; 2]) {
    for (suffix, value) in ["sm", "tm"].into_iter().zip(by_model) {
        if let Ok(Value::Object(fields)) = value {
            for (name, value) in fields {
                // The point prediction of a regression is the same under both models.
                let name = match (name.as_str(), suffix) {
                    ("mse" | "mae", "tm") => continue,
                    ("mse" | "mae", _) => name,
                    _ => format!("{name}_{suffix}"),
                };
                line.insert(name, value);
            }
        }
    }
}
