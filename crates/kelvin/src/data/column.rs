//! One column of a table as it is read: numbers as long as all are, words where none is, and nothing where neither can be of use.

use super::cell::Cell;

/// A cell that is of interest for itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NotedCell {
    /// The row, from 0.
    pub row: usize,
    /// Its text.
    pub text: String,
}

/// A column on its way and when it is read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    kept: Kept,
    /// The first cell that is no finite number.
    first_other: Option<NotedCell>,
    /// The first cell that says nothing.
    first_missing: Option<NotedCell>,
}

#[derive(Clone, Debug, PartialEq)]
enum Kept {
    Numbers(Vec<f64>),
    Words {
        /// All cells, with nothing between them.
        text: String,
        /// Where each cell ends in `text`.
        ends: Vec<usize>,
    },
    /// A cell says nothing, so that the column can be neither a feature nor a target; or the text of its first cells was not kept.
    Nothing,
}

/// What the cells of a column say.
#[derive(Clone, Debug, PartialEq)]
pub enum Answers<'a> {
    /// All are finite numbers.
    Numbers(&'a [f64]),
    /// At least one is not; the text of each, without the spaces around it.
    Words(Vec<&'a str>),
}

impl Default for Column {
    /// One that may turn out to hold numbers.
    fn default() -> Self {
        Self { kept: Kept::Numbers(Vec::new()), first_other: None, first_missing: None }
    }
}

impl Column {
    /// One that is known to hold words.
    pub fn of_words() -> Self {
        Self { kept: Kept::Words { text: String::new(), ends: Vec::new() }, ..Self::default() }
    }

    /// Adds the cell of the next row.
    pub fn push(&mut self, row: usize, cell: &str) {
        let meaning = Cell::new(cell);
        let noted = || Some(NotedCell { row, text: cell.to_owned() });
        match (&mut self.kept, meaning) {
            (Kept::Numbers(numbers), Cell::Number(number)) => return numbers.push(number),
            (_, Cell::Number(_)) => {}
            (kept, other) => {
                self.first_other = self.first_other.take().or_else(noted);
                if other == Cell::Missing {
                    self.first_missing = self.first_missing.take().or_else(noted);
                    *kept = Kept::Nothing;
                } else if let Kept::Numbers(numbers) = kept {
                    *kept = if numbers.is_empty() { Self::of_words().kept } else { Kept::Nothing };
                }
            }
        }
        if let Kept::Words { text, ends } = &mut self.kept {
            text.push_str(cell);
            ends.push(text.len());
        }
    }

    /// Whether words followed on numbers, whose text was not kept.
    pub fn lost_text(&self) -> bool {
        self.kept == Kept::Nothing && self.first_missing.is_none()
    }

    /// The first cell that is no finite number.
    pub fn first_other(&self) -> Option<&NotedCell> {
        self.first_other.as_ref()
    }

    /// The first cell that says nothing.
    pub fn first_missing(&self) -> Option<&NotedCell> {
        self.first_missing.as_ref()
    }

    /// What its cells say; of a column that was not kept nothing.
    pub fn answers(&self) -> Answers<'_> {
        match &self.kept {
            Kept::Numbers(numbers) => Answers::Numbers(numbers),
            Kept::Nothing => Answers::Words(Vec::new()),
            Kept::Words { text, ends } => {
                let begins = std::iter::once(&0).chain(ends);
                Answers::Words(begins.zip(ends).map(|(&begin, &end)| &text[begin..end]).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(cells: &[&str]) -> Column {
        let mut column = Column::default();
        cells.iter().enumerate().for_each(|(row, cell)| column.push(row, cell));
        column
    }

    #[test]
    fn keeps_numbers_or_words_and_notes_what_is_neither() {
        assert_eq!(column(&["1", "2.50"]).answers(), Answers::Numbers(&[1.0, 2.5]));
        let words = column(&["cat", "2.50", ""]);
        assert_eq!((words.first_other().unwrap().row, words.first_missing().unwrap().row), (0, 2));
        assert_eq!(column(&["cat", "2.50"]).answers(), Answers::Words(vec!["cat", "2.50"]));
        let late = column(&["2.50", "1", "cat", "dog"]);
        assert!(late.lost_text(), "it is to be read again");
        assert_eq!(late.first_other(), Some(&NotedCell { row: 2, text: "cat".into() }));
        assert!(!column(&["2.50", "?", "cat"]).lost_text(), "nobody can use it");
    }
}
