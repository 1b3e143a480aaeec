//! Lines at the bottom of a terminal that are drawn over again; nothing is hidden or switched, so nothing has to be restored.

use std::io::{IsTerminal, Write};

use terminal_size::{Height, Width};
use unicode_width::UnicodeWidthStr;

/// How a run shows where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Lines that are drawn over again.
    Live,
    /// A line now and then.
    Plain,
    Nothing,
}

impl Show {
    /// What standard error can do, where something is to be shown.
    pub fn on_stderr(quiet: bool) -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        match quiet {
            true => Self::Nothing,
            false if std::io::stderr().is_terminal() && !is_dumb => Self::Live,
            false => Self::Plain,
        }
    }
}

/// Columns and rows of the terminal behind standard error.
pub fn size() -> (usize, usize) {
    let (Width(columns), Height(rows)) =
        terminal_size::terminal_size_of(std::io::stderr()).unwrap_or((Width(80), Height(24)));
    // A terminal that does not know its size says 0.
    (if columns == 0 { 80 } else { columns.into() }, if rows == 0 { 24 } else { rows.into() })
}

/// What was drawn last.
#[derive(Default)]
pub struct Screen {
    drawn: Vec<String>,
}

impl Screen {
    /// Draws these lines over those of the last time.
    pub fn draw(&mut self, lines: Vec<String>) {
        let text = self.redrawn(lines, size().0);
        write(&text);
    }

    /// Leaves nothing but `text` where the lines were.
    pub fn replace(&mut self, text: &str) {
        let erased = self.redrawn(Vec::new(), size().0);
        write(&format!("{erased}{text}"));
    }

    /// What to send so that these lines stand where the last ones did, on a terminal that is now `columns` wide.
    fn redrawn(&mut self, lines: Vec<String>, columns: usize) -> String {
        // A terminal that became narrower has broken the lines.
        let rows: usize = self.drawn.iter().map(|line| line.width().div_ceil(columns.max(1)).max(1)).sum();
        let up = if rows > 0 { format!("\x1b[{rows}A") } else { String::new() };
        let erase = if self.drawn.is_empty() { "" } else { "\r\x1b[J" };
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.drawn = lines;
        format!("{up}{erase}{text}")
    }
}

/// In one piece, so that it does not flicker; where nobody looks any more, nothing is lost.
fn write(text: &str) {
    if !text.is_empty() {
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_drawn_over_the_last_ones() {
        let mut screen = Screen::default();
        let of = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
        assert_eq!(screen.redrawn(of(&["one", "two"]), 80), "one\ntwo\n");
        assert_eq!(screen.redrawn(of(&["three"]), 80), "\x1b[2A\r\x1b[Jthree\n");
        // Narrower: what was one row is three.
        assert_eq!(screen.redrawn(of(&[]), 2), "\x1b[3A\r\x1b[J");
        assert_eq!(screen.redrawn(of(&[]), 80), "");
    }
}
