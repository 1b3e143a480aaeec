//! A table as it was read: named columns by rows of text cells, each still knowing its line in the file.

use std::collections::HashMap;
use std::path::Path;

use csv::{ReaderBuilder, StringRecord};

use super::cell::Cell;
use super::error::{DataError, Place, shown};
use super::nearest::nearest_name;
use super::source_text::{as_text, num_line_ends, read_bytes};

/// Named columns and at least one row; every row has a cell in every column. What a cell means is asked only of the
/// columns that are used, so a column nobody reads may hold anything.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    name: String,
    columns: Vec<String>,
    /// All cells, row after row, with nothing between them.
    text: String,
    /// Where each cell ends in `text`.
    ends: Vec<u32>,
    /// The line each row begins on.
    lines: Vec<u32>,
}

impl Table {
    /// Reads a CSV file: UTF-8 (with or without its mark), a header line, cells separated by `,`, `;` or tabs
    /// (whichever the header has most of), quoted where needed, with any line ends, at most 512 MiB. Empty lines are
    /// skipped.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        Self::from_bytes(&path.display().to_string(), &read_bytes(path)?)
    }

    /// Reads the bytes of such a file; `name` stands for it in errors.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Self, DataError> {
        let text = as_text(name, bytes)?;
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter_of(text))
            .from_reader(text.as_bytes());
        let mut record = StringRecord::new();
        let mut next = |record: &mut StringRecord| {
            let unreadable = |error: csv::Error| DataError::Unreadable { path: name.into(), reason: error.to_string() };
            reader.read_record(record).map_err(unreadable)
        };
        if text.trim().is_empty() || !next(&mut record)? {
            return Err(DataError::Empty { file: name.to_owned() });
        }
        let columns = column_names(name, &record)?;
        let mut table =
            Self { name: name.to_owned(), columns, text: String::new(), ends: Vec::new(), lines: Vec::new() };
        let mut lines = LineCounter { text: text.as_bytes(), position: 0, line: 1 };
        while next(&mut record)? {
            let begin = record.position().map_or(0, |position| position.byte() as usize);
            table.push(lines.line_of(begin), &record)?;
        }
        if table.lines.is_empty() {
            return Err(DataError::HeaderOnly { file: table.name, num_columns: table.columns.len() });
        }
        Ok(table)
    }

    fn push(&mut self, line: u64, record: &StringRecord) -> Result<(), DataError> {
        let (expected, found) = (self.columns.len(), record.len());
        if found != expected {
            return Err(DataError::RaggedRow { file: self.name.clone(), line, expected, found });
        }
        for cell in record {
            self.text.push_str(cell.trim());
            self.ends.push(self.text.len() as u32);
        }
        self.lines.push(line as u32);
        Ok(())
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

    /// Which column has this name; an error lists the columns and the nearest name.
    pub fn column(&self, asked: &str) -> Result<usize, DataError> {
        self.columns.iter().position(|name| name == asked).ok_or_else(|| DataError::UnknownColumn {
            asked: asked.to_owned(),
            file: self.name.clone(),
            columns: self.columns.clone(),
            nearest: nearest_name(asked, self.columns.iter().map(String::as_str)).map(str::to_owned),
        })
    }

    /// The text of a cell, without the spaces around it.
    ///
    /// # Panics
    /// If there is no such row or column.
    pub fn text(&self, row: usize, column: usize) -> &str {
        assert!(column < self.columns.len(), "column {column} of {}", self.columns.len());
        let cell = row * self.columns.len() + column;
        let begin = if cell == 0 { 0 } else { self.ends[cell - 1] };
        &self.text[begin as usize..self.ends[cell] as usize]
    }

    /// Where a cell was in the file.
    pub fn place(&self, row: usize, column: usize) -> Place {
        let (file, column) = (self.name.clone(), self.columns[column].clone());
        Place { file, line: u64::from(self.lines[row]), column }
    }

    /// A column whose cells all say something.
    pub fn texts(&self, column: usize) -> Result<Vec<&str>, DataError> {
        (0..self.num_rows())
            .map(|row| match self.text(row, column) {
                text if Cell::new(text) == Cell::Missing => Err(self.missing(row, column)),
                text => Ok(text),
            })
            .collect()
    }

    /// A column whose cells are all finite numbers; the first that is not is the error.
    pub fn numbers(&self, column: usize) -> Result<Vec<f64>, DataError> {
        (0..self.num_rows())
            .map(|row| match Cell::new(self.text(row, column)) {
                Cell::Number(number) => Ok(number),
                Cell::Missing => Err(self.missing(row, column)),
                Cell::Infinite => {
                    let found = shown(self.text(row, column));
                    Err(DataError::NotFinite { place: self.place(row, column), found })
                }
                Cell::Text(text) => Err(DataError::NotNumeric { place: self.place(row, column), found: shown(text) }),
            })
            .collect()
    }

    fn missing(&self, row: usize, column: usize) -> DataError {
        DataError::MissingCell { place: self.place(row, column), found: shown(self.text(row, column)) }
    }
}

/// The names in a header line, each there and each different.
fn column_names(file: &str, header: &StringRecord) -> Result<Vec<String>, DataError> {
    let names: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
    // Some programs name unnamed columns 0, 1, 2, … or 1, 2, 3, …: numbers, but names.
    let counts_from = |first: usize| names.iter().enumerate().all(|(at, name)| *name == (first + at).to_string());
    let all_numbers = names.iter().all(|name| matches!(Cell::new(name), Cell::Number(_)));
    if all_numbers && !counts_from(0) && !counts_from(1) {
        let found = format!("numbers ({})", shown(&names.join(", ")));
        return Err(DataError::NumbersInHeader { file: file.to_owned(), found });
    }
    let mut seen = HashMap::new();
    for (at, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(DataError::UnnamedColumn { file: file.to_owned(), position: at + 1 });
        }
        if let Some(first) = seen.insert(name, at + 1) {
            let column = shown(name);
            return Err(DataError::DuplicateColumn { file: file.to_owned(), column, first, second: at + 1 });
        }
    }
    Ok(names)
}

/// Whichever of `,`, `;` and tab the header has most of, outside quotes; `,` where it has none.
fn delimiter_of(text: &str) -> u8 {
    let mut counts = [(b',', 0u32), (b';', 0), (b'\t', 0)];
    let mut quoted = false;
    for byte in text.trim_start_matches(['\r', '\n']).bytes() {
        match byte {
            b'"' => quoted = !quoted,
            b'\r' | b'\n' if !quoted => break,
            _ if quoted => {}
            _ => counts.iter_mut().filter(|(delimiter, _)| *delimiter == byte).for_each(|(_, count)| *count += 1),
        }
    }
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count);
    most.map_or(b',', |(delimiter, _)| delimiter)
}

/// Turns growing byte positions into line numbers; empty lines before a row are not part of it.
struct LineCounter<'a> {
    text: &'a [u8],
    position: usize,
    line: u64,
}

impl LineCounter<'_> {
    fn line_of(&mut self, mut begin: usize) -> u64 {
        while matches!(self.text.get(begin), Some(b'\r' | b'\n')) {
            begin += 1;
        }
        self.line += num_line_ends(&self.text[self.position..begin]);
        self.position = begin;
        self.line
    }
}

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
        assert_eq!((plain.text(0, 1), plain.text(1, 0), plain.text(1, 1)), ("x y", "2", "p,\"q"));
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
        assert_eq!(error("a,,c\n1,2,3"), DataError::UnnamedColumn { file: file(), position: 2 });
        let expected = DataError::DuplicateColumn { file: file(), column: "a".into(), first: 1, second: 3 };
        assert_eq!(error("a,b, a\n1,2,3"), expected);
        assert_eq!(error("a,b\n1,2\n3\n"), DataError::RaggedRow { file: file(), line: 3, expected: 2, found: 1 });
        assert_eq!(error("a,b\n1,2\n\n3,4,5"), DataError::RaggedRow { file: file(), line: 4, expected: 2, found: 3 });
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
        assert!(table("a,b\n1,x\n3,?\n").texts(1).is_err());
        assert_eq!(table("a,b\n1,x\n3,?\n").numbers(0).unwrap(), [1.0, 3.0]);
    }

    #[test]
    fn an_unknown_column_brings_the_nearest() {
        let message = table("cement,strength\n1,2").column("strenght").unwrap_err().to_string();
        assert!(message.ends_with("columns: cement, strength\n  did you mean `strength`?"), "{message}");
    }

    fn read_everything(bytes: &[u8]) {
        if let Ok(table) = Table::from_bytes("t.csv", bytes) {
            for column in 0..table.columns().len() {
                let _ = (table.texts(column), table.numbers(column), table.place(table.num_rows() - 1, column));
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
            for (at, cell) in cells.iter().take(3 * table.num_rows()).enumerate() {
                prop_assert_eq!(table.text(at / 3, at % 3), cell.trim());
            }
        }
    }
}
