//! What can be wrong with a table, images, a split or a data set: what was asked, what was found, what to do.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

/// A file of a known data set that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingFile {
    /// The name it usually has.
    pub name: &'static str,
    /// The name it has when it is not packed.
    pub unpacked_name: &'static str,
    /// SHA-256 of what it holds, unpacked, in hexadecimal.
    pub sha256: &'static str,
}

/// Where a cell is: file, line (the header's is 1) and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file's name as it was given.
    pub file: String,
    /// The line on which the row begins.
    pub line: u64,
    /// The column's name.
    pub column: String,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, line {}, column `{}`", self.file, self.line, self.column)
    }
}

/// A cell that is not what its column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCell {
    /// The line on which its row begins.
    pub line: u64,
    /// The column's name.
    pub column: String,
    /// What it says.
    pub found: String,
    /// What it should be, with an article.
    pub needed: &'static str,
}

/// What a cell was to be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellRole {
    /// To learn from.
    Feature,
    /// To be predicted.
    Target,
    /// To predict from.
    NewRow,
}

/// Why data could not be used.
#[derive(Clone, Debug, PartialEq, Error)]
#[allow(missing_docs)] // the fields are what the messages say they are
pub enum DataError {
    /// There is no file at the path.
    #[error("there is no file {}{}\n  check the path", .path.display(), did_you_mean(.nearest))]
    FileMissing { path: PathBuf, nearest: Option<String> },
    /// The file is there and cannot be read.
    #[error("cannot read {}: {reason}\n  check that it is a file and that you may read it", .path.display())]
    Unreadable { path: PathBuf, reason: String },
    /// Arrays whose sizes do not go together.
    #[error(
        "{name}: {num_numbers} numbers are no {num_rows} rows of {num_features} features\n  give the features row after row, \
         one number for each name, and one target a row"
    )]
    ArraySizes { name: String, num_numbers: usize, num_rows: usize, num_features: usize },
    /// A number of an array that is not finite.
    #[error("{name}, row {row} (from 0), `{column}`: {found} is no finite number\n  leave the row out or fill it in")]
    ArrayNotFinite { name: String, row: usize, column: String, found: String },
    /// A label of an array without a class.
    #[error(
        "{name}, row {row} (from 0): class {found} of {num_classes}\n  labels go from 0 to the number of names minus 1"
    )]
    ArrayLabel { name: String, row: usize, found: u32, num_classes: usize },
    /// The file is larger than a table may be.
    #[error("{file} is larger than {} MiB, the most a table may be\n  use fewer rows or columns", .limit >> 20)]
    TooLarge { file: String, limit: u64 },
    /// The file is not UTF-8 text.
    #[error("{file}, line {line}: {found}\n  a table is a CSV file in UTF-8 with a header line; {advice}")]
    NotText { file: String, line: u64, found: &'static str, advice: &'static str },
    /// The file has no line at all.
    #[error("{file} is empty\n  a table is a header line with the names of the columns and a line for each row")]
    Empty { file: String },
    /// The file has a header and no rows.
    #[error("{file} has a header ({num_columns} columns) and no rows\n  add a line for each row")]
    HeaderOnly { file: String, num_columns: usize },
    /// The first line holds numbers only.
    #[error("{file}, line 1: {found} stand where the names of the columns should\n  add a header line above them")]
    NumbersInHeader { file: String, found: String },
    /// No column has a name.
    #[error(
        "{file}, line 1: column {position} has no name, nor has any other\n  a table is a header line with the names of the \
         columns and a line for each row"
    )]
    UnnamedColumn { file: String, position: usize },
    /// Two columns have the same name.
    #[error("{file}, line 1: columns {first} and {second} are both named `{column}`\n  rename or remove one of them")]
    DuplicateColumn { file: String, column: String, first: usize, second: usize },
    /// Rows have more or fewer cells than the header: the first of them with their numbers of cells, and how many there are.
    #[error(
        "{}\n  look for a separator too many or too few, or a quote that is not closed",
        ragged_rows(.file, *.expected, .first, *.num_rows)
    )]
    RaggedRows { file: String, expected: usize, first: Vec<(u64, usize)>, num_rows: usize },
    /// A cell that is needed says nothing.
    #[error(
        "{place}: the value is missing ({})\n  fill it in or remove the row",
        or_empty(.found)
    )]
    MissingCell { place: Place, found: String },
    /// A cell of a new row is not a number.
    #[error("{place}: `{found}` is not a number{}", decimal_comma(.found))]
    NotNumeric { place: Place, found: String },
    /// A number is infinite.
    #[error("{place}: `{found}` is not a finite number\n  correct it or remove the row")]
    NotFinite { place: Place, found: String },
    /// Cells that are not what their columns hold, all of them: the first ten and how many there are.
    #[error("{}\n  {}", bad_cells(.file, .cells, *.num_cells), remedy(.cells, *.role))]
    BadCells { file: String, cells: Vec<BadCell>, num_cells: usize, role: CellRole },
    /// A kind was asked for the target.
    #[error(
        "`{target}` is the target, and its kind is not a matter of `--column`\n  use `--task regression` or `--task \
         classification`"
    )]
    KindOfTarget { target: String },
    /// No row has an answer.
    #[error("{file}: the target `{target}` is missing in every row\n  choose another target")]
    NoTargets { file: String, target: String },
    /// A column that was asked for is not there.
    #[error("column `{asked}` is not in {file}\n  columns: {}{}{}", listed(.columns), one_column(.columns), did_you_mean(.nearest))]
    UnknownColumn { asked: String, file: String, columns: Vec<String>, nearest: Option<String> },
    /// Columns that a trained model reads are not there.
    #[error(
        "{file} lacks {} that the model was trained on: {}\n  columns: {}\n  new rows need every feature under its \
         training name",
        counted(.missing.len(), "column"), listed(.missing), listed(.columns)
    )]
    MissingFeatures { file: String, missing: Vec<String>, columns: Vec<String> },
    /// A target that was named twice.
    #[error("the target `{target}` is named twice\n  name it once")]
    TargetTwice { target: String },
    /// One of several targets is none of numbers.
    #[error(
        "{file}: several targets are numbers, and `{target}` was taken for classes\n  if it is a number, use `--task regression`; \
         else learn it in a run of its own"
    )]
    ClassesAmongTargets { file: String, target: String },
    /// No row has all of several targets.
    #[error("{file}: no row has all of the targets {}\n  learn them in runs of their own", listed(.targets))]
    NoCommonRows { file: String, targets: Vec<String> },
    /// The target is among the columns to leave out.
    #[error("`{target}` is the target and is also to be dropped\n  take it from `--drop`, or choose another target")]
    TargetDropped { target: String },
    /// The target never varies.
    #[error(
        "{file}: the target `{target}` is {value} in every row, so there is nothing to learn\n  choose another target"
    )]
    ConstantTarget { file: String, target: String, value: String },
    /// Nearly every row has its own class.
    #[error(
        "{file}: the target `{target}` has {num_classes} classes in {num_rows} rows, fewer than two rows for \
         each\n  is it a number to predict? then use `--task regression`"
    )]
    TooManyClasses { file: String, target: String, num_classes: usize, num_rows: usize },
    /// No column is left to predict from.
    #[error(
        "{file}: no feature is left to predict `{target}` from\n  columns: {}\n  left out: {}\n  drop fewer columns, or \
         keep one with `--column NAME=KIND`; cells are separated by `,`, `;` or tabs",
        listed(.columns), listed(.left_out)
    )]
    NoFeatures { file: String, target: String, columns: Vec<String>, left_out: Vec<String> },
    /// There are too few rows to split.
    #[error(
        "{found} rows are too few to split into train, validation and test: at least {needed} are needed\n  add \
         rows"
    )]
    TooFewRows { found: usize, needed: usize },
    /// A part of a given split has no rows.
    #[error("the `{part}` part of the split is empty\n  train, val and test each need at least one row")]
    EmptyPart { part: &'static str },
    /// A given split names a row that is not there.
    #[error("the `{part}` part of the split has row {index}, but there are {num_rows} rows, counted from 0")]
    RowOutOfRange { part: &'static str, index: usize, num_rows: usize },
    /// A given split names a row twice.
    #[error("row {index} of the split is in `{first}` and again in `{second}`\n  each row may be used once")]
    RowRepeated { index: usize, first: &'static str, second: &'static str },
    /// The training rows say nothing about how the target varies.
    #[error(
        "{file}: the target `{target}` is the same in all {num_rows} training rows\n  use another split or more rows"
    )]
    ConstantTrainingTarget { file: String, target: String, num_rows: usize },
    /// The numbers of a column span more than 64 bits hold.
    #[error("{file}: the numbers of column `{column}` lie too far apart to standardise\n  rescale the column")]
    SpreadTooLarge { file: String, column: String },
    /// A value lies so far from the training rows that 32 bits cannot hold it.
    #[error(
        "{file}, row {row} below the header, column `{column}`: {value:e} is too far from the training rows (mean \
         {mean:e}, standard deviation {std:e}) to predict from\n  check its unit"
    )]
    OutOfReach { file: String, row: usize, column: String, value: f64, mean: f64, std: f64 },
    /// No data set of that name is known.
    #[error("no data set is named `{asked}`\n  known: {}{}", listed(.known), did_you_mean(.nearest))]
    UnknownDataset { asked: String, known: Vec<String>, nearest: Option<String> },
    /// Files of a known data set were not found.
    #[error(
        "the data set `{name}` needs {}, which {}\n  source: {origin}\n  {}\n  put {} in a folder and name the folder \
         with `--data-dir DIR` or the variable KELVIN_DATA",
        file_names(.missing), looked_in(.folder, .missing.len()), hashes(.missing), it_or_them(.missing.len())
    )]
    DatasetMissing { name: &'static str, missing: Vec<MissingFile>, folder: Option<PathBuf>, origin: &'static str },
    /// A file of a known data set has other contents.
    #[error(
        "{} is not a file of the data set `{name}`\n  expected sha256 {expected}\n  found    {found}\n  get it again{}",
        .path.display(),
        if .path.extension().is_some_and(|end| end == "csv") {
            " (line ends may have been changed), or train on it as a table of your own"
        } else {
            ""
        }
    )]
    DatasetWrong { name: &'static str, path: PathBuf, expected: &'static str, found: String },
    /// A set of images was asked for as a table.
    #[error("the data set `{name}` holds images, not a table\n  it needs a network for images")]
    NotATable { name: &'static str },
    /// A table was asked for as a set of images.
    #[error("the data set `{name}` is a table and holds no images")]
    NotImages { name: &'static str },
    /// Bytes are not what the format says.
    #[error(
        "{file}, byte {offset}: expected {expected}, found {found}\n  the file is damaged or of another kind; get it again"
    )]
    WrongBytes { file: String, offset: u64, expected: String, found: String },
    /// A packed file cannot be unpacked.
    #[error("{file} cannot be unpacked beyond byte {offset} of its contents: {reason}\n  it is damaged; get it again")]
    DamagedArchive { file: String, offset: u64, reason: String },
    /// There are more or fewer labels than images.
    #[error("there are {num_images} images and {num_labels} labels\n  take both files from one set")]
    LabelCount { num_images: usize, num_labels: usize },
    /// A label is not one of the classes.
    #[error("image {index} has the label {label}, but there are {num_classes} classes, counted from 0")]
    LabelOutOfRange { index: usize, label: u32, num_classes: usize },
    /// The strength of augmentation is not a probability.
    #[error("the strength of augmentation must be a number from 0 to 1, got {found}")]
    AugmentationStrength { found: f64 },
}

/// A cell as an error shows it: one line, not too long.
pub(super) fn shown(cell: &str) -> String {
    const MOST: usize = 40;
    let mut text: String = cell.chars().take(MOST).flat_map(char::escape_debug).collect();
    if cell.chars().nth(MOST).is_some() {
        text.push('…');
    }
    text
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |name| format!("\n  did you mean `{name}`?"))
}

pub(super) fn listed(names: &[impl AsRef<str>]) -> String {
    const MOST: usize = 30;
    let mut text = names.iter().take(MOST).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    if names.is_empty() {
        text.push_str("none");
    } else if names.len() > MOST {
        text.push_str(&format!(" … and {} more", names.len() - MOST));
    }
    text
}

fn one_column(columns: &[String]) -> &'static str {
    if columns.len() == 1 { "\n  there is only one: cells are separated by `,`, `;` or tabs" } else { "" }
}

fn or_empty(found: &str) -> String {
    if found.is_empty() { "the cell is empty".to_owned() } else { format!("`{found}`") }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("a {noun}") } else { format!("{count} {noun}s") }
}

fn decimal_comma(found: &str) -> &'static str {
    if found.contains(',') && found.replacen(',', ".", 1).parse::<f64>().is_ok() {
        " (numbers are written with a point, as 3.5)"
    } else {
        ""
    }
}

fn ragged_rows(file: &str, expected: usize, first: &[(u64, usize)], num_rows: usize) -> String {
    if let [(line, found)] = first {
        return format!("{file}, line {line}: the header has {expected} cells and this row {found}");
    }
    let rows: Vec<String> = first.iter().map(|(line, found)| format!("line {line} ({found})")).collect();
    let more = if num_rows > first.len() { format!(" … and {} more", num_rows - first.len()) } else { String::new() };
    format!("{file}: the header has {expected} cells, and {num_rows} rows have others: {}{more}", rows.join(", "))
}

/// All cells that cannot be used, the first of them one by one.
fn bad_cells(file: &str, cells: &[BadCell], num_cells: usize) -> String {
    let told = |cell: &BadCell| {
        let BadCell { line, column, found, needed } = cell;
        format!("line {line}, column `{column}`: `{found}` is not {needed}{}", decimal_comma(found))
    };
    match cells {
        [only] if num_cells == 1 => format!("{file}, {}", told(only)),
        _ => {
            let lines: String = cells.iter().map(|cell| format!("\n  {}", told(cell))).collect();
            let more = num_cells - cells.len();
            let more = if more == 0 { String::new() } else { format!("\n  … and {more} more") };
            format!("{file}: {num_cells} cells cannot be used{lines}{more}")
        }
    }
}

/// What to do about such cells: of what a model is trained on, of its target, of new rows.
fn remedy(cells: &[BadCell], role: CellRole) -> String {
    let it = if cells.len() == 1 { "it" } else { "them" };
    let column = cells.first().map_or("", |cell| &cell.column);
    match role {
        CellRole::Feature => format!(
            "correct {it} or leave the cell empty, take the column as text with `--column {column}=text`, or leave it out with \
             `--column {column}=drop`"
        ),
        CellRole::Target => format!("correct {it}, or if the column names classes use `--task classification`"),
        CellRole::NewRow => format!("correct {it}, or leave the cell empty where the value is not known"),
    }
}

fn file_names(files: &[MissingFile]) -> String {
    let names = files.iter().map(|file| file.name).collect::<Vec<_>>().join(", ");
    if files.len() == 1 { format!("the file {names}") } else { format!("the files {names}") }
}

fn hashes(files: &[MissingFile]) -> String {
    if let [file] = files {
        let whose = if file.name == file.unpacked_name { "sha256" } else { "sha256, unpacked" };
        return format!("{whose}: {}", file.sha256);
    }
    let lines: String = files.iter().map(|file| format!("\n    {}  {}", file.sha256, file.unpacked_name)).collect();
    format!("sha256, unpacked:{lines}")
}

fn it_or_them(count: usize) -> &'static str {
    if count == 1 { "it" } else { "them" }
}

fn looked_in(folder: &Option<PathBuf>, num_files: usize) -> String {
    let are = if num_files == 1 { "is" } else { "are" };
    folder.as_ref().map_or_else(
        || format!("{are} not carried by the program, and no data folder was given"),
        |folder| format!("{are} not in {}", folder.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_column_is_told_with_the_columns_and_the_nearest() {
        let error = DataError::UnknownColumn {
            asked: "strenght".into(),
            file: "concrete.csv".into(),
            columns: vec!["cement".into(), "strength".into()],
            nearest: Some("strength".into()),
        };
        let expected =
            "column `strenght` is not in concrete.csv\n  columns: cement, strength\n  did you mean `strength`?";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn long_lists_and_long_cells_are_cut() {
        let names: Vec<String> = (0..100).map(|index| format!("c{index}")).collect();
        assert!(listed(&names).ends_with("c29 … and 70 more"));
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), 41);
        assert_eq!(shown("a\nb\u{1}"), "a\\nb\\u{1}");
    }

    #[test]
    fn a_decimal_comma_is_recognised() {
        let place = Place { file: "t.csv".into(), line: 3, column: "x".into() };
        let error = DataError::NotNumeric { place, found: "3,5".into() };
        assert_eq!(
            error.to_string(),
            "t.csv, line 3, column `x`: `3,5` is not a number (numbers are written with a point, as 3.5)"
        );
    }
}
