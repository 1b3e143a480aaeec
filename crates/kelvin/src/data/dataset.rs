//! A table made ready to learn from: its features as numbers, the target, and a note of what was left out.

use std::collections::BTreeMap;

use super::column_kind::{ColumnKind, FeatureKind};
use super::encoder::RawRows;
use super::error::DataError;
use super::features::{Features, LeftOut, LeftOutReason, Wishes};
use super::table::Table;
use super::target::{Target, Task};
use super::target_names::TargetNames;

/// Features (row-major) and targets of every row of a table that has an answer, in the table's order and units.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// The file's name as it was given.
    pub name: String,
    /// The columns that are features, in the table's order.
    pub feature_names: Vec<String>,
    /// What the numbers of each feature stand for.
    pub kinds: Vec<FeatureKind>,
    /// `num_rows() × num_features()` numbers, row after row; NaN where a value is missing.
    pub features: Vec<f64>,
    /// The columns that are predicted: several of numbers, or one.
    pub target_names: TargetNames,
    /// The answers.
    pub target: Target,
    /// What each row counts for where it is learned from: as many such rows. None where each counts once.
    pub row_weights: Option<Vec<f64>>,
    /// Columns left out because they are the same in every row and so carry nothing.
    pub dropped_constant: Vec<String>,
    /// Columns left out for other reasons.
    pub left_out: Vec<LeftOut>,
    /// Rows of the table, from 0, that are left out because they have no answer.
    pub rows_without_target: Vec<usize>,
    /// What was decided that may be wrong, for a person to read.
    pub notes: Vec<String>,
}

/// What the columns of a table are for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roles {
    /// The columns to predict.
    pub target: TargetNames,
    /// Columns to leave out.
    pub drop: Vec<String>,
    /// What is predicted; guessed where it is not given.
    pub task: Option<Task>,
    /// What columns are to be taken for; guessed for the others.
    pub kinds: BTreeMap<String, ColumnKind>,
    /// Whether columns that say the same as others are features all the same.
    pub keeps_duplicates: bool,
}

impl Dataset {
    /// Takes `target` (any column, or several of numbers) as the answer and every other column but those in `drop` as features, each for what its cells say.
    ///
    /// Without a `task` it is guessed: classification where no target is a number, or where all are integers with at
    /// most 20 different values and at least five rows for each on average; regression otherwise. Classes are numbered
    /// in the order of their names: numerically where all are numbers, alphabetically otherwise. Features that are the
    /// same in every row are left out and named in [`Dataset::dropped_constant`], those that are empty, say the same as another or name
    /// the rows in [`Dataset::left_out`].
    pub fn from_table(
        table: &Table,
        target: impl Into<TargetNames>,
        drop: &[String],
        task: Option<Task>,
    ) -> Result<Self, DataError> {
        Self::with_roles(table, &Roles { target: target.into(), drop: drop.to_vec(), task, ..Roles::default() })
    }

    /// The same with kinds that were asked for.
    pub fn with_roles(table: &Table, roles: &Roles) -> Result<Self, DataError> {
        let Roles { target, drop, task, kinds, keeps_duplicates } = roles;
        let target_columns = target.columns(table)?;
        let dropped = drop.iter().map(|name| table.column(name.trim())).collect::<Result<Vec<_>, _>>()?;
        let named = |column: &&usize| table.columns()[**column].clone();
        if let Some(target) = target_columns.iter().find(|column| dropped.contains(column)).as_ref().map(named) {
            return Err(DataError::TargetDropped { target });
        }
        for name in kinds.keys() {
            table.column(name)?;
        }
        if let Some(target) = target.iter().find(|target| kinds.contains_key(*target)) {
            return Err(DataError::KindOfTarget { target: target.clone() });
        }
        let (answers, rows_without_target) = Target::from_columns(table, &target_columns, *task)?;
        let columns: Vec<usize> =
            (0..table.columns().len()).filter(|at| !target_columns.contains(at) && !dropped.contains(at)).collect();
        let wishes = Wishes { kinds, keeps_duplicates: *keeps_duplicates };
        let features = Features::read(table, &columns, &rows_without_target, wishes)?;
        let is_constant = |left: &LeftOut| left.reason == LeftOutReason::Constant;
        if features.columns.is_empty() {
            let told = |left: &LeftOut| format!("{} ({})", left.column, left.reason);
            return Err(DataError::NoFeatures {
                file: table.name().to_owned(),
                target: target.to_string(),
                columns: table.columns().to_vec(),
                left_out: features.left_out.iter().map(told).collect(),
            });
        }
        let mut notes = table.notes().to_vec();
        notes.extend(features.notes);
        if let [target] = &target[..] {
            notes.extend(answers.note(target, *task));
        }
        if !rows_without_target.is_empty() {
            let (without, of) = (rows_without_target.len(), table.num_rows());
            let lack = if target.len() > 1 { "lack one of" } else { "have no" };
            notes.push(format!("{without} of {of} rows {lack} {} and are left out", target.quoted()));
        }
        let columns: Vec<&[f64]> = features.columns.iter().map(AsRef::as_ref).collect();
        Ok(Self {
            name: table.name().to_owned(),
            feature_names: features.names,
            kinds: features.kinds,
            features: row_major(&columns),
            target_names: target.clone(),
            target: answers,
            row_weights: None,
            dropped_constant: features
                .left_out
                .iter()
                .filter(|left| is_constant(left))
                .map(|left| left.column.clone())
                .collect(),
            left_out: features.left_out.iter().filter(|left| !is_constant(left)).cloned().collect(),
            rows_without_target,
            notes,
        })
    }

    /// How many rows there are.
    pub fn num_rows(&self) -> usize {
        match &self.target {
            Target::Real(values) => values.len() / self.num_targets(),
            Target::Classes { labels, .. } => labels.len(),
        }
    }

    /// Columns that are predicted.
    pub fn num_targets(&self) -> usize {
        self.target_names.len().max(1)
    }

    /// Numbers in a row.
    pub fn num_features(&self) -> usize {
        self.feature_names.len()
    }

    /// The features of one row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.features[row * self.num_features()..][..self.num_features()]
    }

    /// The row's number in the table, from 0.
    pub fn table_row(&self, row: usize) -> usize {
        let mut in_table = row;
        for &without in &self.rows_without_target {
            if without > in_table {
                break;
            }
            in_table += 1;
        }
        in_table
    }

    pub(super) fn raw_rows(&self) -> RawRows<'_> {
        RawRows { kinds: &self.kinds, values: &self.features }
    }

    /// What is predicted.
    pub fn task(&self) -> Task {
        match self.target {
            Target::Real(_) => Task::Regression,
            Target::Classes { .. } => Task::Classification,
        }
    }

    /// What the classes are called; none in a regression.
    pub fn class_names(&self) -> &[String] {
        match &self.target {
            Target::Real(_) => &[],
            Target::Classes { names, .. } => names,
        }
    }
}

pub(super) fn row_major(columns: &[&[f64]]) -> Vec<f64> {
    let num_rows = columns.first().map_or(0, |column| column.len());
    let mut rows = Vec::with_capacity(num_rows * columns.len());
    (0..num_rows).for_each(|row| rows.extend(columns.iter().map(|column| column[row])));
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "id,size,colour,flat,price\n7,1,red,5,10.5\n8,2,blue,5,20.5\n9,4,red,5.0,40.5\n";

    fn table() -> Table {
        Table::from_bytes("t.csv", TEXT.as_bytes()).unwrap()
    }

    fn load(target: &str, drop: &[&str], task: Option<Task>) -> Result<Dataset, DataError> {
        let drop: Vec<String> = drop.iter().map(|&name| name.to_owned()).collect();
        Dataset::from_table(&table(), target, &drop, task)
    }

    #[test]
    fn takes_features_in_order_and_notes_constant_columns() {
        let dataset = load("price", &["colour"], None).unwrap();
        assert_eq!(dataset.feature_names, ["id", "size"]);
        assert_eq!(dataset.features, [7.0, 1.0, 8.0, 2.0, 9.0, 4.0]);
        assert_eq!(dataset.row(1), [8.0, 2.0]);
        assert_eq!(dataset.target, Target::Real(vec![10.5, 20.5, 40.5]));
        assert_eq!(dataset.dropped_constant, ["flat"]);
        assert_eq!((dataset.num_rows(), dataset.num_features(), dataset.task()), (3, 2, Task::Regression));
    }

    #[test]
    fn any_column_can_be_the_target() {
        let dataset = load("colour", &["id"], None).unwrap();
        assert_eq!(dataset.task(), Task::Classification);
        assert_eq!(dataset.class_names(), ["blue", "red"]);
        assert_eq!(dataset.feature_names, ["size", "price"]);
    }

    #[test]
    fn says_which_column_is_wrong() {
        assert!(load("prise", &[], None).unwrap_err().to_string().ends_with("did you mean `price`?"));
        assert!(load("price", &["color"], None).unwrap_err().to_string().ends_with("did you mean `colour`?"));
        assert_eq!(load("price", &["price"], None), Err(DataError::TargetDropped { target: "price".into() }));
        let error = load("price", &["id", "size", "colour"], None).unwrap_err();
        assert!(
            matches!(&error, DataError::NoFeatures { left_out, .. } if left_out == &["flat (the same in every row)"]),
            "{error}"
        );
        assert!(matches!(load("flat", &["colour"], None), Err(DataError::ConstantTarget { .. })));
    }

    #[test]
    fn all_bad_cells_are_told_at_once() {
        let mut text = String::from("a,b,y\n");
        for row in 0..500 {
            let a = if row % 100 == 7 { "x".into() } else { row.to_string() };
            let b = if row % 50 == 3 { "1e999".into() } else { format!("{}", row % 30) };
            text += &format!("{a},{b},{row}.5\n");
        }
        let table = Table::from_bytes("t.csv", text.as_bytes()).unwrap();
        let message = Dataset::from_table(&table, "y", &[], None).unwrap_err().to_string();
        let begin = "t.csv: 15 cells cannot be used\n  line 5, column `b`: `1e999` is not a finite number\n  line 9, column `a`: `x` is not";
        assert!(message.starts_with(begin) && message.contains("… and 5 more"), "{message}");
        let asked = |name: &str, kind| {
            let kinds = [(name.to_owned(), kind)].into();
            Dataset::with_roles(
                &table,
                &Roles { target: "y".into(), kinds, drop: vec!["b".into()], ..Roles::default() },
            )
        };
        assert!(matches!(asked("a", ColumnKind::Text).unwrap().kinds[0], FeatureKind::Text { .. }));
        assert!(asked("A", ColumnKind::Text).unwrap_err().to_string().ends_with("did you mean `a`?"));
        assert_eq!(asked("y", ColumnKind::Number), Err(DataError::KindOfTarget { target: "y".into() }));
    }

    #[test]
    fn columns_are_taken_for_what_their_cells_say() {
        let mut text = String::from(",colour,is_new,day,size,twin,void,code,note,price\n");
        for row in 0..30 {
            let (colour, size) = (["red", "blue", "NA"][row % 3], if row == 4 { "?".into() } else { row.to_string() });
            let is_new = if row % 2 == 0 { "TRUE" } else { "false" };
            let price = if row == 9 { "NA".into() } else { format!("{row}.25") };
            text += &format!("{row},{colour},{is_new},2024-01-{:02},{size},{size},,7,name {row},{price}\n", row + 1);
        }
        let table = Table::from_bytes("t.csv", text.as_bytes()).unwrap();
        let dataset = Dataset::from_table(&table, "price", &[], None).unwrap();
        assert_eq!(dataset.feature_names, ["colour", "is_new", "day", "size"]);
        let levels = vec!["blue".to_owned(), "red".to_owned()];
        let day = FeatureKind::Date(super::super::date_form::DateForm::YearMonthDay);
        assert_eq!(dataset.kinds, [FeatureKind::Text { levels }, FeatureKind::Boolean, day, FeatureKind::Number]);
        assert_eq!(dataset.row(0), [1.0, 1.0, 19_723.0, 0.0]);
        assert!(dataset.row(2)[0].is_nan() && dataset.row(4)[3].is_nan());
        assert_eq!((dataset.num_rows(), dataset.rows_without_target.clone()), (29, vec![9]));
        assert_eq!([8, 9, 28].map(|row| dataset.table_row(row)), [8, 10, 29]);
        assert_eq!(dataset.dropped_constant, ["code"]);
        let left: Vec<String> =
            dataset.left_out.iter().map(|left| format!("{}: {}", left.column, left.reason)).collect();
        assert_eq!(left[0], "column 1: counts the rows");
        assert_eq!(left[1], "twin: says the same as `size`");
        assert_eq!(left[2], "void: empty in every row");
        assert_eq!(left[3], "note: names the rows (nearly every cell is different)");
        assert!(
            dataset.notes.iter().any(|note| note == "1 of 30 rows have no `price` and are left out"),
            "{:?}",
            dataset.notes
        );
    }

    proptest! {
        #[test]
        fn nearly_data_never_panics(text in "a,b,c\n([ab1-3.?e-]{0,4},[1-3.]{0,3},[1-3]{1,3}\n){1,8}") {
            if let Ok(table) = Table::from_bytes("t.csv", text.as_bytes()) {
                for task in [None, Some(Task::Regression), Some(Task::Classification)] {
                    let _ = Dataset::from_table(&table, "c", &[], task);
                    let _ = Dataset::from_table(&table, "a", &["b".into()], task);
                }
            }
        }
    }
}
