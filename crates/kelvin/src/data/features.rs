//! The columns of a table as features: what each is taken for, its numbers, and what is left out for which reason.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::cell::Cell;
use super::column::Answers;
use super::column_kind::{ColumnKind, FeatureKind, boolean, guessed};
use super::date_form::DateForm;
use super::error::{BadCell, CellRole, DataError, shown};
use super::levels::MOST_LEVELS;
use super::table::{Table, UNNAMED};

/// The most cells that an error names.
const MOST_NAMED_CELLS: usize = 10;
/// Text is taken for names of rows where more than this share of its cells are different.
const IDENTIFIER_SHARE: f64 = 0.9;
/// What columns that count rows are called by the programs that add them.
const ROW_NUMBER_NAMES: [&str; 7] = ["rownames", "rowid", "row.names", "row_names", "unnamed: 0", "index", "id"];
/// Fewer rows than this may count up by chance.
const FEWEST_COUNTED_ROWS: usize = 20;

/// A column that is no feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub column: String,
    /// Why.
    pub reason: LeftOutReason,
}

/// Why a column is no feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOutReason {
    /// It is the same in every row.
    Constant,
    /// No cell says anything.
    Empty,
    /// It says the same as another column.
    Duplicate {
        /// The other one.
        of: String,
    },
    /// Text that names the rows.
    Identifier,
    /// It counts the rows.
    RowNumbers,
}

impl fmt::Display for LeftOutReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => formatter.write_str("the same in every row"),
            Self::Empty => formatter.write_str("empty in every row"),
            Self::Duplicate { of } => write!(formatter, "says the same as `{of}`"),
            Self::Identifier => formatter.write_str("names the rows (nearly every cell is different)"),
            Self::RowNumbers => formatter.write_str("counts the rows"),
        }
    }
}

/// What is asked of columns.
#[derive(Clone, Copy)]
pub(super) struct Wishes<'a> {
    /// What columns are to be taken for; the others are guessed.
    pub kinds: &'a BTreeMap<String, ColumnKind>,
    /// Whether columns that say the same as others are kept.
    pub keeps_duplicates: bool,
}

/// Columns ready to be features.
pub(super) struct Features<'a> {
    pub names: Vec<String>,
    pub kinds: Vec<FeatureKind>,
    /// Numbers of each column; NaN where a cell says nothing.
    pub columns: Vec<Cow<'a, [f64]>>,
    pub left_out: Vec<LeftOut>,
    /// What was decided that may be wrong.
    pub notes: Vec<String>,
}

impl<'a> Features<'a> {
    /// Takes these columns, without the rows in `without`; an error names the bad cells of all of them.
    pub fn read(table: &'a Table, columns: &[usize], without: &[usize], wishes: Wishes<'_>) -> Result<Self, DataError> {
        let mut bad = BadCells::new(table, CellRole::Feature);
        let (mut taken, mut notes) = (Vec::new(), Vec::new());
        for &column in columns {
            let asked = wishes.kinds.get(&table.columns()[column]).copied();
            if asked != Some(ColumnKind::Drop) {
                taken.push((column, asked, take(table, column, asked, &mut bad, &mut notes)));
            }
        }
        bad.check()?;
        let mut features =
            Self { names: Vec::new(), kinds: Vec::new(), columns: Vec::new(), left_out: Vec::new(), notes };
        let mut alike: HashMap<u64, Vec<usize>> = HashMap::new();
        for (column, asked, taken) in taken {
            let name = table.columns()[column].clone();
            let reason = taken.map_or(Err(LeftOutReason::Empty), |(kind, values)| {
                let counts_rows = asked.is_none() && kind == FeatureKind::Number && counts_rows(&values);
                let values = without_rows(values, without);
                if values.iter().all(|value| value.is_nan()) {
                    return Err(LeftOutReason::Empty);
                }
                if values.iter().all(|value| *value == values[0]) {
                    return Err(LeftOutReason::Constant);
                }
                if counts_rows && names_row_numbers(&name) {
                    return Err(LeftOutReason::RowNumbers);
                }
                if asked.is_none() && is_identifier(&kind, &values) {
                    return Err(LeftOutReason::Identifier);
                }
                let alike = alike.entry(fingerprint(&kind, &values)).or_default();
                if asked.is_none() && !wishes.keeps_duplicates {
                    let same = |other: usize| {
                        says_the_same((&kind, &values), (&features.kinds[other], &features.columns[other]))
                    };
                    if let Some(&other) = alike.iter().find(|&&other| same(other)) {
                        return Err(LeftOutReason::Duplicate { of: features.names[other].clone() });
                    }
                }
                alike.push(features.names.len());
                if counts_rows {
                    features.notes.push(format!(
                        "`{name}` counts the rows; if it says nothing else, leave it out with `--column {name}=drop`"
                    ));
                }
                Ok((kind, values))
            });
            match reason {
                Ok((kind, values)) => {
                    features.names.push(name);
                    features.kinds.push(kind);
                    features.columns.push(values);
                }
                Err(reason) => features.left_out.push(LeftOut { column: name, reason }),
            }
        }
        Ok(features)
    }
}

/// What a column is taken for, and its numbers; none where no cell says anything.
fn take<'a>(
    table: &'a Table,
    column: usize,
    asked: Option<ColumnKind>,
    bad: &mut BadCells<'_>,
    notes: &mut Vec<String>,
) -> Option<(FeatureKind, Cow<'a, [f64]>)> {
    match table.answers(column) {
        Answers::Numbers(numbers) if matches!(asked, None | Some(ColumnKind::Number)) => {
            numbers.iter().any(|number| !number.is_nan()).then_some((FeatureKind::Number, numbers.into()))
        }
        Answers::Numbers(numbers) => {
            let texts: Vec<String> = numbers.iter().map(|number| text_of(*number)).collect();
            let words: Vec<&str> = texts.iter().map(String::as_str).collect();
            let (kind, values) = of_words(table, column, &words, asked?, bad, notes);
            Some((kind, values.into()))
        }
        Answers::Words(words) => {
            let (kind, values) = of_words(table, column, &words, asked.or_else(|| guessed(&words))?, bad, notes);
            Some((kind, values.into()))
        }
    }
}

fn of_words(
    table: &Table,
    column: usize,
    words: &[&str],
    asked: ColumnKind,
    bad: &mut BadCells<'_>,
    notes: &mut Vec<String>,
) -> (FeatureKind, Vec<f64>) {
    let kind = match asked {
        ColumnKind::Number => FeatureKind::Number,
        ColumnKind::Boolean => FeatureKind::Boolean,
        ColumnKind::Text | ColumnKind::Drop => FeatureKind::Text { levels: levels_of(words) },
        ColumnKind::Date => {
            let present: Vec<&str> = words.iter().copied().filter(|word| Cell::new(word) != Cell::Missing).collect();
            let form = DateForm::of_dates(&present).map_or(DateForm::YearMonthDay, |(form, _)| form);
            let has = |form: DateForm| present.iter().all(|word| form.days(word).is_some());
            if form == DateForm::MonthDayYear && has(DateForm::DayMonthYear) {
                let name = &table.columns()[column];
                notes.push(format!("dates of `{name}` are taken for month/day/year: no day of it says otherwise"));
            }
            FeatureKind::Date(form)
        }
    };
    let values = values_of(words, &kind, |row, word| bad.push(column, row, word, &kind));
    (kind, values)
}

/// The numbers of cells of this kind; cells that are not of it are told, and are NaN.
pub(super) fn values_of(words: &[&str], kind: &FeatureKind, mut is_bad: impl FnMut(usize, &str)) -> Vec<f64> {
    let value = |(row, &word): (usize, &&str)| {
        let meaning = Cell::new(word);
        if meaning == Cell::Missing {
            return f64::NAN;
        }
        let value = match kind {
            FeatureKind::Number => match meaning {
                Cell::Number(number) => Some(number),
                _ => None,
            },
            FeatureKind::Boolean => boolean(word).map(|yes| f64::from(u8::from(yes))),
            FeatureKind::Text { levels } => {
                levels.binary_search_by(|level| level.as_str().cmp(&level_name(word))).ok().map(|at| at as f64)
            }
            FeatureKind::Date(form) => form.days(word),
        };
        value.unwrap_or_else(|| {
            is_bad(row, word);
            f64::NAN
        })
    };
    words.iter().enumerate().map(value).collect()
}

/// The different levels of cells, in the order of their letters.
pub(super) fn levels_of(words: &[&str]) -> Vec<String> {
    let present = words.iter().filter(|word| Cell::new(word) != Cell::Missing);
    let different: HashSet<Cow<'_, str>> = present.map(|word| level_name(word)).collect();
    let mut levels: Vec<String> = different.into_iter().map(Cow::into_owned).collect();
    levels.sort_unstable();
    levels
}

/// The level that a cell names: a number however it is written, so that it does not matter what other cells of the column are.
fn level_name(word: &str) -> Cow<'_, str> {
    match Cell::new(word) {
        Cell::Number(number) => text_of(number).into(),
        _ => word.into(),
    }
}

/// A number as text; nothing for one that is missing.
pub(super) fn text_of(number: f64) -> String {
    if number.is_nan() { String::new() } else { (number + 0.0).to_string() }
}

fn without_rows<'a>(values: Cow<'a, [f64]>, without: &[usize]) -> Cow<'a, [f64]> {
    if without.is_empty() {
        return values;
    }
    let mut left_out = without.iter().copied().peekable();
    let keep = |(row, value): (usize, &f64)| if left_out.next_if_eq(&row).is_some() { None } else { Some(*value) };
    values.iter().enumerate().filter_map(keep).collect()
}

fn is_identifier(kind: &FeatureKind, values: &[f64]) -> bool {
    let FeatureKind::Text { levels } = kind else { return false };
    let num_present = values.iter().filter(|value| !value.is_nan()).count();
    levels.len() > MOST_LEVELS && levels.len() as f64 > IDENTIFIER_SHARE * num_present as f64
}

fn names_row_numbers(name: &str) -> bool {
    let name = name.to_lowercase();
    name.starts_with(UNNAMED) || ROW_NUMBER_NAMES.contains(&name.as_str())
}

/// Whether the rows are numbered from 0 or 1.
fn counts_rows(values: &[f64]) -> bool {
    let counts_from = |first: f64| values.iter().enumerate().all(|(row, value)| *value == row as f64 + first);
    values.len() >= FEWEST_COUNTED_ROWS && (counts_from(0.0) || counts_from(1.0))
}

/// Numbers that are the same in columns that say the same: of text, which rows have the same level, whatever it is called.
fn told<'a>(kind: &FeatureKind, values: &'a [f64]) -> impl Iterator<Item = u64> + use<'a> {
    let is_text = matches!(kind, FeatureKind::Text { .. });
    let mut ranks: HashMap<u64, u64> = HashMap::new();
    values.iter().map(move |value| {
        let bits = if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() };
        let next = ranks.len() as u64;
        if is_text && !value.is_nan() { *ranks.entry(bits).or_insert(next) } else { bits }
    })
}

fn fingerprint(kind: &FeatureKind, values: &[f64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    told(kind, values).for_each(|number| number.hash(&mut hasher));
    hasher.finish()
}

fn says_the_same(one: (&FeatureKind, &[f64]), other: (&FeatureKind, &[f64])) -> bool {
    std::mem::discriminant(one.0) == std::mem::discriminant(other.0) && told(one.0, one.1).eq(told(other.0, other.1))
}

/// Cells that are not what their columns hold, on their way to an error.
pub(super) struct BadCells<'t> {
    table: &'t Table,
    role: CellRole,
    /// The first of each column, with rows.
    cells: Vec<(usize, BadCell)>,
    num_cells: usize,
}

impl<'t> BadCells<'t> {
    pub fn new(table: &'t Table, role: CellRole) -> Self {
        Self { table, role, cells: Vec::new(), num_cells: 0 }
    }

    /// Adds a cell; those of a column are to be told in order.
    pub fn push(&mut self, column: usize, row: usize, text: &str, kind: &FeatureKind) {
        self.num_cells += 1;
        let name = &self.table.columns()[column];
        // No more than so many can be named, were all from this column.
        if self.cells.iter().filter(|(_, cell)| cell.column == *name).count() < MOST_NAMED_CELLS {
            let needed = match (kind, Cell::new(text)) {
                (FeatureKind::Number, Cell::Infinite) => "a finite number",
                (FeatureKind::Number, _) => "a number",
                (FeatureKind::Boolean, _) => "true or false, yes or no, 1 or 0",
                (FeatureKind::Text { .. }, _) => "text",
                (FeatureKind::Date(_), _) => "a date written as the others of the column",
            };
            let place = self.table.place(row, column);
            let cell = BadCell { line: place.line, column: place.column, found: shown(text), needed };
            self.cells.push((row, cell));
        }
    }

    /// An error where there are any.
    pub fn check(mut self) -> Result<(), DataError> {
        if self.num_cells == 0 {
            return Ok(());
        }
        self.cells.sort_by_key(|(row, _)| *row);
        let cells = self.cells.into_iter().take(MOST_NAMED_CELLS).map(|(_, cell)| cell).collect();
        Err(DataError::BadCells {
            file: self.table.name().to_owned(),
            cells,
            num_cells: self.num_cells,
            role: self.role,
        })
    }
}
