//! The line of a file that each row of its table begins on; where every line is a row, two numbers hold all of them.

/// Lines of rows, of which only those are kept that do not follow the one before.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RowLines {
    num_rows: usize,
    /// Rows whose line is not the one after that of the row before, with their lines.
    jumps: Vec<(usize, u64)>,
}

impl RowLines {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.num_rows
    }

    /// Adds a row that begins on this line.
    pub fn push(&mut self, line: u64) {
        let row = self.num_rows;
        self.num_rows += 1;
        if row == 0 || self.line(row - 1) + 1 != line {
            self.jumps.push((row, line));
        }
    }

    /// The line of a row.
    pub fn line(&self, row: usize) -> u64 {
        assert!(row < self.num_rows, "row {row} of {}", self.num_rows);
        let is_last = self.jumps.last().is_some_and(|(first, _)| *first <= row);
        let at = if is_last { self.jumps.len() } else { self.jumps.partition_point(|(first, _)| *first <= row) };
        let (first, line) = self.jumps[at - 1];
        line + (row - first) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_follow_each_other_are_not_kept() {
        let mut lines = RowLines::default();
        let all = [2, 3, 4, 9, 10, 12, 13, 14];
        all.iter().for_each(|&line| lines.push(line));
        assert_eq!((0..all.len()).map(|row| lines.line(row)).collect::<Vec<_>>(), all);
        assert_eq!((lines.len(), lines.jumps.len()), (8, 3));
    }
}
