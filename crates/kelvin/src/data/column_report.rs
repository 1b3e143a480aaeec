//! What the columns of a table are taken for, for a person to check before anything is learned from them.

use std::collections::BTreeMap;

use super::column_kind::{ColumnKind, FeatureKind};
use super::date_form::date_text;
use super::encoder::{Encoder, RawRows};
use super::error::{DataError, shown};
use super::features::{Features, Wishes, text_of};
use super::levels::Levels;
use super::table::Table;
use super::target::{Target, Task};
use super::target_names::TargetNames;

/// Levels that are named.
const MOST_NAMED: usize = 6;

/// What one column is taken for.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnReport {
    /// Its name.
    pub column: String,
    /// Its kind, `target` with what is predicted, or `left out`.
    pub taken_for: String,
    /// Its range or its levels; why it is left out.
    pub contents: String,
    /// Cells that say nothing.
    pub num_missing: usize,
    /// Numbers a network takes in for it.
    pub num_inputs: usize,
}

/// What every column is taken for, in the table's order, and notes on what may be wrong. Levels are those of all rows.
///
/// # Errors
/// Where a column is not there, or has cells that cannot be used.
pub fn column_reports(
    table: &Table,
    targets: &TargetNames,
    kinds: &BTreeMap<String, ColumnKind>,
) -> Result<(Vec<ColumnReport>, Vec<String>), DataError> {
    for name in kinds.keys() {
        table.column(name)?;
    }
    let target_columns = if targets.is_empty() { Vec::new() } else { targets.columns(table)? };
    let columns: Vec<usize> = (0..table.columns().len()).filter(|column| !target_columns.contains(column)).collect();
    // Several are numbers; of one it is guessed.
    let task = (target_columns.len() > 1).then_some(Task::Regression);
    let features = Features::read(table, &columns, &[], Wishes { kinds, keeps_duplicates: false })?;
    let mut notes = table.notes().to_vec();
    notes.extend(features.notes.iter().cloned());
    let mut report = |(at, name): (usize, &String)| -> Result<ColumnReport, DataError> {
        let column = name.clone();
        if target_columns.contains(&at) {
            let (answers, missing) = Target::from_column(table, at, task)?;
            notes.extend(answers.note(name, task));
            let (taken_for, contents) = target_contents(&answers);
            return Ok(ColumnReport { column, taken_for, contents, num_missing: missing.len(), num_inputs: 0 });
        }
        let Some(feature) = features.names.iter().position(|feature| feature == name) else {
            let left = features.left_out.iter().find(|left| left.column == *name);
            let contents = left.map_or("asked for".to_owned(), |left| left.reason.to_string());
            return Ok(ColumnReport { column, taken_for: "left out".into(), contents, num_missing: 0, num_inputs: 0 });
        };
        let (kind, values) = (&features.kinds[feature], &features.columns[feature]);
        let raw = RawRows { kinds: std::slice::from_ref(kind), values };
        let rows: Vec<usize> = (0..values.len()).collect();
        let num_inputs = Encoder::fit(raw, &rows).map_or(1, |encoder| encoder.num_inputs());
        let (taken_for, contents) = contents(kind, values);
        let num_missing = values.iter().filter(|value| value.is_nan()).count();
        Ok(ColumnReport { column, taken_for: taken_for.into(), contents, num_missing, num_inputs })
    };
    let reports = table.columns().iter().enumerate().map(&mut report).collect::<Result<_, _>>()?;
    Ok((reports, notes))
}

fn contents(kind: &FeatureKind, values: &[f64]) -> (&'static str, String) {
    let present = || values.iter().copied().filter(|value| !value.is_nan());
    let (low, high) = (present().fold(f64::INFINITY, f64::min), present().fold(f64::NEG_INFINITY, f64::max));
    match kind {
        FeatureKind::Number => ("number", format!("{} to {}", text_of(low), text_of(high))),
        FeatureKind::Date(_) => ("date", format!("{} to {}", date_text(low), date_text(high))),
        FeatureKind::Boolean => {
            let share = present().sum::<f64>() / present().count().max(1) as f64;
            ("boolean", format!("{:.0} % true", 100.0 * share))
        }
        FeatureKind::Text { levels } => {
            let of_rows = present().map(|code| Some(levels[code as usize].as_str()));
            ("text", level_list(&Levels::fit(of_rows)))
        }
    }
}

/// Levels by how many rows have them.
fn level_list(levels: &Levels) -> String {
    let mut all: Vec<(&String, &u64)> = levels.counts.iter().collect();
    all.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let named: Vec<String> =
        all.iter().take(MOST_NAMED).map(|(level, count)| format!("{} ({count})", shown(level))).collect();
    let more = if all.len() > MOST_NAMED { ", …" } else { "" };
    format!("{} levels: {}{more}", all.len(), named.join(", "))
}

fn target_contents(answers: &Target) -> (String, String) {
    match answers {
        Target::Real(values) => ("target, a number".into(), contents(&FeatureKind::Number, values).1),
        Target::Classes { labels, names } => {
            let of_rows = labels.iter().map(|&label| Some(names[label as usize].as_str()));
            ("target, classes".into(), level_list(&Levels::fit(of_rows)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_told_with_what_it_is_taken_for() {
        let mut text = String::from("size,colour,on,day,flat,y\n");
        for row in 0..20 {
            let size = if row == 3 { "NA".into() } else { format!("{row}.5") };
            let colour = ["red", "blue", "red"][row % 3];
            text += &format!("{size},{colour},{},2024-01-{:02},7,{}\n", ["yes", "no"][row % 2], row + 1, row % 4);
        }
        let table = Table::from_bytes("t.csv", text.as_bytes()).unwrap();
        let (reports, notes) = column_reports(&table, &"y".into(), &BTreeMap::new()).unwrap();
        let told: Vec<_> = reports
            .iter()
            .map(|report| (report.taken_for.as_str(), report.contents.as_str(), report.num_missing, report.num_inputs))
            .collect();
        let expected = [
            ("number", "0.5 to 19.5", 1, 2),
            ("text", "2 levels: red (13), blue (7)", 0, 3),
            ("boolean", "50 % true", 0, 1),
            ("date", "2024-01-01 to 2024-01-20", 0, 3),
            ("left out", "the same in every row", 0, 0),
            ("target, classes", "4 levels: 0 (5), 1 (5), 2 (5), 3 (5)", 0, 0),
        ];
        assert_eq!(told, expected);
        assert!(notes[0].contains("taken for classes"), "{notes:?}");
        let asked = [("size".to_owned(), ColumnKind::Drop), ("on".to_owned(), ColumnKind::Text)].into();
        let (reports, _) = column_reports(&table, &TargetNames::default(), &asked).unwrap();
        assert_eq!(
            (reports[0].contents.as_str(), reports[2].contents.as_str()),
            ("asked for", "2 levels: no (10), yes (10)")
        );
        assert!(column_reports(&table, &"why".into(), &asked).is_err());
        let both = vec!["y".to_owned(), "flat".to_owned()];
        let error = column_reports(&table, &both.into(), &BTreeMap::new()).unwrap_err();
        assert!(matches!(error, DataError::ConstantTarget { .. }), "{error}");
        let both = vec!["y".to_owned(), "size".to_owned()];
        let (reports, _) = column_reports(&table, &both.into(), &BTreeMap::new()).unwrap();
        let told = |at: usize| (reports[at].taken_for.as_str(), reports[at].contents.as_str(), reports[at].num_missing);
        assert_eq!((told(0), told(5)), (("target, a number", "0.5 to 19.5", 1), ("target, a number", "0 to 3", 0)));
    }
}
