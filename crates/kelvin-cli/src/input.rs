//! Tables that commands read: from a file, or from standard input where `-` stands for it; and what of new rows is unlike the training rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use kelvin::data::{DataError, NewRows, OutsideValue, Standardiser, Table};
use kelvin::diagnostics::Limits;
use kelvin_report::text::{few_names, wrapped};

use crate::doubts::in_short;

/// Reads a table; `-` is standard input.
pub fn read_table(path: &Path) -> Result<Table, DataError> {
    if path == Path::new("-") {
        Table::from_reader("standard input", std::io::stdin().lock())
    } else {
        Table::read(path)
    }
}

/// What of new rows is unlike the rows a model was trained on: numbers far outside, levels that it has not seen, values that never were missing.
pub fn outside_training(ranges: &[(f64, f64)], standardiser: &Standardiser, rows: &NewRows) -> String {
    let (names, number_ranges, values) = rows.numbers(ranges);
    let mut text = in_short(Limits::default().check_ranges(&names, &number_ranges, &values).as_slice());
    let (mut levels, mut missing) = (BTreeMap::<String, BTreeSet<String>>::new(), BTreeMap::<String, usize>::new());
    for outside in rows.outside(standardiser, ranges, Limits::default().range_widths) {
        match outside.found {
            OutsideValue::UnseenLevel(level) => {
                levels.entry(outside.column).or_default().insert(level);
            }
            OutsideValue::Missing => *missing.entry(outside.column).or_default() += 1,
            OutsideValue::Beyond { .. } => {}
        }
    }
    for (column, levels) in levels {
        let levels: Vec<String> = levels.into_iter().collect();
        let note = format!(
            "note: `{column}` has levels that no training row has, taken for another level: {}",
            few_names(&levels)
        );
        text += &wrapped(&note, "  ");
    }
    for (column, count) in missing {
        let rows = if count == 1 { "1 row misses".to_owned() } else { format!("{count} rows miss") };
        let note = format!("note: {rows} `{column}`, which no training row does; its mean is taken");
        text += &wrapped(&note, "  ");
    }
    text
}
