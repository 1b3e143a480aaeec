//! A table as it was read: named columns of numbers or of words, whose rows still know their lines in the file.
//!
//! A file is read piece by piece, and its text is kept only where it is words: a column of numbers takes eight bytes a row.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord};

use super::cell::Cell;
use super::column::{Answers, Column, NotedCell};
use super::error::{DataError, Place, listed, shown};
use super::nearest::nearest_name;
use super::row_lines::RowLines;
use super::source_text::{MAX_BYTES, TextReader, read_bytes, unreadable};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 14;

/// Named columns and at least one row; every row has a cell in every column. What a cell means is asked only of the
/// columns that are used, so a column nobody reads may hold anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    name: String,
    columns: Vec<String>,
    cells: Vec<Column>,
    lines: RowLines,
    /// What the file was taken for where it could have been something else.
    notes: Vec<String>,
}

impl Table {
    /// Reads a CSV file: UTF-8 (with or without its mark), a header line, cells separated by `,`, `;` or tabs
    /// (whichever the header has most of), quoted where needed, with any line ends, at most 16 GiB (512 MiB from a pipe). Empty
    /// lines are skipped.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let name = path.display().to_string();
        // Some tables are read twice, which a pipe cannot be.
        if !path.is_file() {
            return Self::from_bytes(&name, &read_bytes(path)?);
        }
        Self::from_source(&name, || File::open(path).map_err(|error| unreadable(path, &error)))
    }

    /// Reads the bytes of such a file; `name` stands for it in errors.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self, DataError> {
        Self::from_source(name, || Ok(bytes))
    }

    /// Reads from the beginning a second time where a column began with numbers and words followed: the first reading has kept no text of
    /// what it took for numbers.
    fn from_source<R: Read>(name: &str, open: impl Fn() -> Result<R, DataError>) -> Result<Self, DataError> {
        let first = Self::read_once(name, open()?, &[])?;
        let are_words: Vec<bool> = first.cells.iter().map(Column::lost_text).collect();
        if !are_words.contains(&true) {
            return Ok(first);
        }
        let second = Self::read_once(name, open()?, &are_words)?;
        if second.cells.iter().any(Column::lost_text) {
            let reason = "it changed while it was read".to_owned();
            return Err(DataError::Unreadable { path: name.into(), reason });
        }
        Ok(second)
    }

    /// Reads a source; columns of which it is known that they hold words are read as such from their first row on.
    fn read_once(name: &str, source: impl Read, are_words: &[bool]) -> Result<Self, DataError> {
        let mut text = TextReader::new(name, source, MAX_BYTES);
        let delimiter = text.delimiter()?;
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .buffer_capacity(PIECE)
            .from_reader(text);
        let mut record = StringRecord::new();
        let next = |reader: &mut csv::Reader<TextReader<_>>, record: &mut StringRecord| {
            let found = reader.read_record(record);
            // What is wrong with the text itself says more than what the CSV reader makes of it.
            if let Some(error) = reader.get_mut().take_error() {
                return Err(error);
            }
            found.map_err(|error| DataError::Unreadable { path: name.into(), reason: error.to_string() })
        };
        let has_header = next(&mut reader, &mut record)?;
        let header = record.clone();
        if header.iter().all(|cell| cell.trim().is_empty()) {
            while next(&mut reader, &mut record)? {}
        }
        if !has_header || reader.get_ref().is_blank() {
            return Err(DataError::Empty { file: name.to_owned() });
        }
        let (columns, mut notes) = column_names(name, &header)?;
        let column = |at: usize| if are_words.get(at) == Some(&true) { Column::of_words() } else { Column::default() };
        let cells = (0..columns.len()).map(column).collect();
        let mut table = Self { name: name.to_owned(), columns, cells, lines: RowLines::default(), notes: Vec::new() };
        let mut ragged = RaggedRows::default();
        while next(&mut reader, &mut record)? {
            let begin = record.position().map_or(0, csv::Position::byte);
            let line = reader.get_mut().line_of(begin);
            if record.len() == table.columns.len() {
                table.push(line, &record);
            } else {
                ragged.push(line, record.len());
            }
        }
        if ragged.num_rows > 0 {
            let (expected, RaggedRows { first, num_rows }) = (table.columns.len(), ragged);
            return Err(DataError::RaggedRows { file: table.name, expected, first, num_rows });
        }
        if table.num_rows() == 0 {
            return Err(DataError::HeaderOnly { file: table.name, num_columns: table.columns.len() });
        }
        if delimiter != b',' {
            let separator = if delimiter == b'\t' { "tabs" } else { "`;`" };
            notes.push(format!("cells are separated by {separator}"));
            let named = table.cells.iter_mut().zip(&table.columns);
            let commas: Vec<&str> =
                named.filter_map(|(cells, name)| cells.read_decimal_commas().then_some(name.as_str())).collect();
            if !commas.is_empty() {
                notes.push(format!("commas are decimal points in {}", listed(&commas)));
            }
        }
        table.notes = notes;
        Ok(table)
    }

    fn push(&mut self, line: u64, record: &StringRecord) {
        let row = self.lines.len();
        self.cells.iter_mut().zip(record).for_each(|(column, cell)| column.push(row, cell.trim()));
        self.lines.push(line);
    }

    /// The file's name as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// How many rows there are.
    pub fn num_rows(&self) -> usize {
        self.lines.len()
    }

    /// What the file was taken for where it could have been something else: separators, decimal commas, columns without a name.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Which column has this name; an error lists the columns and the nearest name.
    pub fn column(&self, asked: &str) -> Result<usize, DataError> {
        self.columns.iter().position(|name| name == asked).ok_or_else(|| DataError::UnknownColumn {
            asked: asked.to_owned(),
            file: self.name.clone(),
            columns: self.columns.clone(),
            nearest: nearest_name(asked, self.columns.iter().map(String::as_str)).map(str::to_owned),
        })
    }

    /// Where a cell was in the file.
    pub fn place(&self, row: usize, column: usize) -> Place {
        let (file, column) = (self.name.clone(), self.columns[column].clone());
        Place { file, line: self.lines.line(row), column }
    }

    /// What the cells of a column say.
    pub fn answers(&self, column: usize) -> Answers<'_> {
        self.cells[column].answers()
    }

    /// A column whose cells are all finite numbers; the first that is not is the error.
    pub fn numbers(&self, column: usize) -> Result<&[f64], DataError> {
        let cells = &self.cells[column];
        match (cells.first_other(), cells.answers()) {
            (None, Answers::Numbers(numbers)) => Ok(numbers),
            (None, Answers::Words(_)) => unreachable!("words are no numbers"),
            (Some(noted), _) => Err(self.complaint(column, noted)),
        }
    }

    /// What is wrong with a cell that is no finite number.
    fn complaint(&self, column: usize, NotedCell { row, text }: &NotedCell) -> DataError {
        let (place, found) = (self.place(*row, column), shown(text));
        match Cell::new(text) {
            Cell::Missing => DataError::MissingCell { place, found },
            Cell::Infinite => DataError::NotFinite { place, found },
            Cell::Number(_) | Cell::Text(_) => DataError::NotNumeric { place, found },
        }
    }
}

/// Rows that have other numbers of cells than the header.
#[derive(Default)]
struct RaggedRows {
    /// Lines and numbers of cells of the first ten.
    first: Vec<(u64, usize)>,
    num_rows: usize,
}

impl RaggedRows {
    fn push(&mut self, line: u64, num_cells: usize) {
        self.num_rows += 1;
        if self.first.len() < 10 {
            self.first.push((line, num_cells));
        }
    }
}

/// The names in a header line, each different; a column without one is named by its place, which a note says.
fn column_names(file: &str, header: &StringRecord) -> Result<(Vec<String>, Vec<String>), DataError> {
    let mut names: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
    // Some programs name unnamed columns 0, 1, 2, … or 1, 2, 3, …: numbers, but names.
    let counts_from = |first: usize| names.iter().enumerate().all(|(at, name)| *name == (first + at).to_string());
    let all_numbers = names.iter().all(|name| matches!(Cell::new(name), Cell::Number(_)));
    if all_numbers && !counts_from(0) && !counts_from(1) {
        let found = format!("numbers ({})", shown(&names.join(", ")));
        return Err(DataError::NumbersInHeader { file: file.to_owned(), found });
    }
    if names.iter().all(String::is_empty) {
        return Err(DataError::UnnamedColumn { file: file.to_owned(), position: 1 });
    }
    let mut notes = Vec::new();
    for (at, name) in names.iter_mut().enumerate().filter(|(_, name)| name.is_empty()) {
        *name = format!("{UNNAMED}{}", at + 1);
        notes.push(format!("column {} has no name and is called `{name}`", at + 1));
    }
    let mut seen = HashMap::new();
    for (at, name) in names.iter().enumerate() {
        if let Some(first) = seen.insert(name, at + 1) {
            let column = shown(name);
            return Err(DataError::DuplicateColumn { file: file.to_owned(), column, first, second: at + 1 });
        }
    }
    Ok((names, notes))
}

/// What names given to columns without one begin with.
pub(super) const UNNAMED: &str = "column ";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(text: &str) -> Table {
        Table::from_bytes("t.csv", text.as_bytes()).unwrap()
    }

    fn error(text: &str) -> DataError {
        Table::from_bytes("t.csv", text.as_bytes()).unwrap_err()
    }

    #[test]
    fn reads_quotes_spaces_and_any_line_ends() {
        let plain = table("a,b\n1,x y\n2,\"p,\"\"q\"\n");
        assert_eq!(plain.columns(), ["a", "b"]);
        assert_eq!(plain.answers(1), Answers::Words(vec!["x y", "p,\"q"]));
        assert_eq!(plain.numbers(0).unwrap(), [1.0, 2.0]);
        for text in
            ["\u{FEFF}a,b\r\n1,x y\r\n2,\"p,\"\"q\"", " a ,b\r1 , x y\r2,\"p,\"\"q\"\r", "a,b\n1,x y\n2,\"p,\"\"q\""]
        {
            assert_eq!(table(text), plain, "{text:?}");
        }
    }

    #[test]
    fn finds_the_delimiter() {
        for text in ["a,b;c\n1,2", "a;b,c;d\n1;2;3", "a\tb,\tc\n1\t2\t3", "\"a,b,c\";d\n1;2", "alone\n1"] {
            table(text);
        }
    }

    #[test]
    fn lines_count_what_an_editor_shows() {
        for text in ["\na,b\n\n1,2\n\n\n\"x\ny\",4\n5,6\n", "\r\na,b\r\n\r\n1,2\r\n\r\n\r\n\"x\r\ny\",4\r\n5,6"] {
            let table = table(text);
            let lines: Vec<u64> = (0..3).map(|row| table.place(row, 0).line).collect();
            assert_eq!(lines, [4, 7, 9], "{text:?}");
        }
    }

    #[test]
    fn says_what_is_wrong_with_the_shape() {
        let file = || "t.csv".to_owned();
        assert_eq!(error(""), DataError::Empty { file: file() });
        assert_eq!(error("\n \n"), DataError::Empty { file: file() });
        assert_eq!(error("a,b\n"), DataError::HeaderOnly { file: file(), num_columns: 2 });
        assert_eq!(error(",,\n1,2,3"), DataError::UnnamedColumn { file: file(), position: 1 });
        let expected = DataError::DuplicateColumn { file: file(), column: "a".into(), first: 1, second: 3 };
        assert_eq!(error("a,b, a\n1,2,3"), expected);
        let ragged = |text: &str| error(text).to_string();
        let one = ragged("a,b\n1,2\n\n3,4,5");
        assert!(one.starts_with("t.csv, line 4: the header has 2 cells and this row 3\n"), "{one}");
        let many = ragged(&format!("a,b\n1,2\n3\n{}", "4,5,6\n".repeat(11)));
        assert!(
            many.starts_with("t.csv: the header has 2 cells, and 12 rows have others: line 3 (1), line 4 (3)"),
            "{many}"
        );
        assert!(many.contains("line 12 (3) … and 2 more\n"), "{many}");
        assert!(matches!(error("5.1,3.5\n4.9,3.0"), DataError::NumbersInHeader { .. }));
        assert_eq!(table("0,1,2\n5,6,7").columns(), ["0", "1", "2"]);
    }

    #[test]
    fn says_what_is_wrong_with_a_cell() {
        let complaint = |cell: &str| table(&format!("a,b\n1,2\n3,{cell}\n")).numbers(1).unwrap_err();
        let place = || Place { file: "t.csv".into(), line: 3, column: "b".into() };
        for cell in ["", " ", "NA", "NaN", "?"] {
            let found = cell.trim().to_owned();
            assert_eq!(complaint(cell), DataError::MissingCell { place: place(), found });
        }
        assert_eq!(complaint("red"), DataError::NotNumeric { place: place(), found: "red".into() });
        assert_eq!(complaint("-inf"), DataError::NotFinite { place: place(), found: "-inf".into() });
        assert_eq!(table("a,b\n1,x\n3,?\n").answers(1), Answers::Words(vec!["x", "?"]));
        assert_eq!(table("a,b\n1,x\n3,?\n").numbers(0).unwrap(), [1.0, 3.0]);
    }

    #[test]
    fn words_after_numbers_keep_the_text_of_the_numbers() {
        let mixed = table("a,b\n1.0,7\n1,8\nx,9\n");
        assert_eq!(mixed.answers(0), Answers::Words(vec!["1.0", "1", "x"]));
        assert_eq!(mixed.numbers(1).unwrap(), [7.0, 8.0, 9.0]);
        assert!(matches!(mixed.numbers(0), Err(DataError::NotNumeric { place, .. }) if place.line == 4));
    }

    #[test]
    fn separators_commas_and_missing_names_are_noted() {
        let european = table("a;b;c\n1,5;7;x\n2;;y,z\n");
        assert_eq!(european.notes(), ["cells are separated by `;`", "commas are decimal points in a"]);
        assert_eq!(european.numbers(0).unwrap(), [1.5, 2.0]);
        let unnamed = table(",b\n1,2\n");
        assert_eq!(unnamed.columns(), ["column 1", "b"]);
        assert_eq!(unnamed.notes(), ["column 1 has no name and is called `column 1`"]);
        assert!(table("a,b\n1,2\n").notes().is_empty());
        let quoted = table("a,b\n\"1,5\",2\n");
        assert_eq!(quoted.answers(0), Answers::Words(vec!["1,5"]), "a comma may part thousands there");
    }

    #[test]
    fn an_unknown_column_brings_the_nearest() {
        let message = table("cement,strength\n1,2").column("strenght").unwrap_err().to_string();
        assert!(message.ends_with("columns: cement, strength\n  did you mean `strength`?"), "{message}");
    }

    fn read_everything(bytes: &[u8]) {
        if let Ok(table) = Table::from_bytes("t.csv", bytes) {
            for column in 0..table.columns().len() {
                let _ = (table.answers(column), table.numbers(column), table.place(table.num_rows() - 1, column));
            }
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            read_everything(&bytes);
        }

        #[test]
        fn nearly_tables_never_panic(text in "[a-c1-3,;\t\"\r\n .?é\u{FEFF}]{0,80}") {
            read_everything(text.as_bytes());
        }

        #[test]
        fn what_was_written_is_read(cells in prop::collection::vec("[a-z,;\"\n\r\té 0-9]{0,6}", 3..60)) {
            let mut writer = csv::WriterBuilder::new().quote_style(csv::QuoteStyle::Always).from_writer(Vec::new());
            writer.write_record(["a", "b", "c"]).unwrap();
            cells.chunks_exact(3).for_each(|row| writer.write_record(row).unwrap());
            let table = Table::from_bytes("t.csv", &writer.into_inner().unwrap()).unwrap();
            prop_assert_eq!(table.num_rows(), cells.len() / 3);
            for column in 0..3 {
                let written: Vec<&str> = cells.chunks_exact(3).map(|row| row[column].trim()).collect();
                // Cells that say nothing need not be told apart.
                let meant = |text: &str| match Cell::new(text) {
                    Cell::Missing => String::new(),
                    other => format!("{other:?}"),
                };
                let found: Vec<String> = match table.answers(column) {
                    Answers::Words(words) => words.iter().map(|word| meant(word)).collect(),
                    Answers::Numbers(numbers) => numbers.iter().map(|number| meant(&number.to_string())).collect(),
                };
                let expected: Vec<String> = written.iter().map(|text| meant(text)).collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
