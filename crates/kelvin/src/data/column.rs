//! One column of a table as it is read: numbers as long as all cells are numbers or say nothing, words otherwise.

use super::cell::{Cell, with_decimal_comma};

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
    /// NaN where a cell says nothing.
    Numbers(Vec<f64>),
    Words {
        /// All cells, with nothing between them.
        text: String,
        /// Where each cell ends in `text`.
        ends: Vec<usize>,
    },
    /// Words followed on numbers, whose text was not kept.
    Nothing,
}

/// What the cells of a column say.
#[derive(Clone, Debug, PartialEq)]
pub enum Answers<'a> {
    /// Finite numbers, and NaN where a cell says nothing.
    Numbers(&'a [f64]),
    /// At least one is neither; the text of each, without the spaces around it.
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
        if !matches!(meaning, Cell::Number(_)) {
            let noted = || Some(NotedCell { row, text: cell.to_owned() });
            self.first_other = self.first_other.take().or_else(noted);
            if meaning == Cell::Missing {
                self.first_missing = self.first_missing.take().or_else(noted);
            }
        }
        if let Kept::Numbers(numbers) = &mut self.kept {
            match meaning {
                Cell::Number(number) => return numbers.push(number),
                Cell::Missing => return numbers.push(f64::NAN),
                // Cells that say nothing have no text that would be missed.
                _ if numbers.iter().all(|number| number.is_nan()) => {
                    self.kept = Kept::Words { text: String::new(), ends: vec![0; numbers.len()] };
                }
                _ => self.kept = Kept::Nothing,
            }
        }
        if let Kept::Words { text, ends } = &mut self.kept {
            text.push_str(cell);
            ends.push(text.len());
        }
    }

    /// Takes words for the numbers they are where their commas are decimal points; whether they are.
    pub fn read_decimal_commas(&mut self) -> bool {
        // The text of a column that is to be read again is not known yet.
        let (false, Answers::Words(words)) = (self.lost_text(), self.answers()) else { return false };
        let number = |word: &&str| match Cell::new(word) {
            Cell::Number(number) => Some(number),
            Cell::Missing => Some(f64::NAN),
            _ => with_decimal_comma(word),
        };
        let Some(numbers) = words.iter().map(number).collect::<Option<Vec<f64>>>() else { return false };
        self.first_other = self.first_missing.clone();
        self.kept = Kept::Numbers(numbers);
        true
    }

    /// Whether words followed on numbers, whose text was not kept.
    pub fn lost_text(&self) -> bool {
        self.kept == Kept::Nothing
    }

    /// The first cell that is no finite number.
    pub fn first_other(&self) -> Option<&NotedCell> {
        self.first_other.as_ref()
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
        assert_eq!((words.first_other().unwrap().row, words.first_missing.as_ref().unwrap().row), (0, 2));
        assert_eq!(column(&["cat", "2.50"]).answers(), Answers::Words(vec!["cat", "2.50"]));
        let late = column(&["2.50", "1", "cat", "dog"]);
        assert!(late.lost_text(), "it is to be read again");
        assert_eq!(late.first_other(), Some(&NotedCell { row: 2, text: "cat".into() }));
        assert!(column(&["2.50", "?", "cat"]).lost_text());
    }

    #[test]
    fn cells_that_say_nothing_are_kept_beside_numbers_and_words() {
        let gaps = column(&["", "2.50", "NA"]);
        let Answers::Numbers(numbers) = gaps.answers() else { panic!("numbers") };
        assert!(numbers[0].is_nan() && numbers[1] == 2.5 && numbers[2].is_nan());
        assert_eq!(column(&["NA", "?", "cat", "?"]).answers(), Answers::Words(vec!["", "", "cat", "?"]));
    }

    #[test]
    fn decimal_commas_are_read_where_all_cells_are_numbers() {
        let mut commas = column(&["1,5", "NA", "-2", "2,25"]);
        // As read a second time, since a number came first.
        assert!(commas.read_decimal_commas());
        assert!(matches!(commas.answers(), Answers::Numbers([a, _, b, c]) if (*a, *b, *c) == (1.5, -2.0, 2.25)));
        assert!(!column(&["1", "1,5"]).read_decimal_commas(), "its first cell has no text");
        assert!(!column(&["1,5", "red"]).read_decimal_commas() && !column(&["1", "2"]).read_decimal_commas());
    }
}
