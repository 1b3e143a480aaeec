//! A file's bytes as text, piece by piece: never more than a table may hold, and a clear word where they are not text.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::error::DataError;
use super::nearest::nearest_name;

/// The most bytes a table in a file may have.
pub(super) const MAX_BYTES: u64 = 16 << 30;
/// The most bytes a table may have that is read into memory first.
const MAX_BYTES_IN_MEMORY: u64 = 512 << 20;

/// All bytes of a pipe, or an error once there are more than may be read into memory.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    let file = File::open(path).map_err(|error| unreadable(path, &error))?;
    read_to_end(&path.display().to_string(), file)
}

/// The same of a source that is open; `name` stands for it in errors.
pub(super) fn read_to_end(name: &str, source: impl Read) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    source
        .take(MAX_BYTES_IN_MEMORY + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(Path::new(name), &error))?;
    if bytes.len() as u64 > MAX_BYTES_IN_MEMORY {
        return Err(DataError::TooLarge { file: name.to_owned(), limit: MAX_BYTES_IN_MEMORY });
    }
    Ok(bytes)
}

/// Why a file could not be opened or read.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> DataError {
    match error.kind() {
        ErrorKind::NotFound => DataError::FileMissing { path: path.to_owned(), nearest: similar_file(path) },
        _ => DataError::Unreadable { path: path.to_owned(), reason: error.to_string() },
    }
}

/// A CSV file's text on its way to the CSV reader: without the mark some programs put at the front of UTF-8, refused where it is not
/// text, with the number of each line that may begin a row.
pub(super) struct TextReader<'a, R> {
    file: &'a str,
    source: R,
    /// The most bytes there may be.
    limit: u64,
    /// Bytes that were read ahead and not handed over yet.
    ahead: VecDeque<u8>,
    /// Bytes read from the source.
    num_bytes: u64,
    /// Bytes of text, without the mark.
    position: u64,
    /// The line of the next byte.
    line: u64,
    previous: u8,
    /// The first bytes of a character whose others are still to come.
    unfinished: Vec<u8>,
    /// Where lines that hold anything begin, with their numbers; those of rows that were asked for are gone.
    begins: VecDeque<(u64, u64)>,
    is_blank: bool,
    error: Option<DataError>,
}

impl<'a, R: Read> TextReader<'a, R> {
    /// Reads a source of at most `limit` bytes; `file` stands for it in errors.
    pub fn new(file: &'a str, source: R, limit: u64) -> Self {
        Self {
            file,
            source,
            limit,
            ahead: VecDeque::new(),
            num_bytes: 0,
            position: 0,
            line: 1,
            previous: b'\n',
            unfinished: Vec::new(),
            begins: VecDeque::new(),
            is_blank: true,
            error: None,
        }
    }

    /// Whichever of `,`, `;` and tab the header has most of, outside quotes; `,` where it has none. To be asked before anything is read.
    pub fn delimiter(&mut self) -> Result<u8, DataError> {
        let mut counts = [(b',', 0u32), (b';', 0), (b'\t', 0)];
        let (mut is_quoted, mut has_begun) = (false, false);
        let mut piece = vec![0; 1 << 12];
        'header: loop {
            let count = self.fill(&mut piece).map_err(|error| self.reason(&error))?;
            if count == 0 {
                break;
            }
            self.ahead.extend(&piece[..count]);
            for &byte in &piece[..count] {
                match byte {
                    b'\r' | b'\n' if !is_quoted && has_begun => break 'header,
                    b'\r' | b'\n' if !is_quoted => continue,
                    b'"' => is_quoted = !is_quoted,
                    _ if is_quoted => {}
                    _ => counts.iter_mut().filter(|(known, _)| *known == byte).for_each(|(_, count)| *count += 1),
                }
                has_begun = true;
            }
        }
        let most = counts.into_iter().rev().max_by_key(|(_, count)| *count);
        Ok(most.map_or(b',', |(delimiter, _)| delimiter))
    }

    /// The line on which a row begins: the first at or after this byte that holds anything. Rows are to be asked for in order.
    pub fn line_of(&mut self, byte: u64) -> u64 {
        while self.begins.front().is_some_and(|(begin, _)| *begin < byte) {
            self.begins.pop_front();
        }
        self.begins.front().map_or(self.line, |(_, line)| *line)
    }

    /// Whether there has been nothing but white space.
    pub fn is_blank(&self) -> bool {
        self.is_blank
    }

    /// What is wrong with the text, where something is.
    pub fn take_error(&mut self) -> Option<DataError> {
        self.error.take()
    }

    fn reason(&mut self, error: &std::io::Error) -> DataError {
        self.error.take().unwrap_or_else(|| unreadable(Path::new(self.file), error))
    }

    /// The next bytes from the source, checked.
    fn fill(&mut self, piece: &mut [u8]) -> std::io::Result<usize> {
        let mut count = if self.num_bytes == 0 { self.front(piece)? } else { self.source.read(piece)? };
        self.num_bytes += count as u64;
        let is_end = count == 0;
        if self.num_bytes == count as u64 && piece[..count].starts_with("\u{FEFF}".as_bytes()) {
            piece.copy_within(3..count, 0);
            count -= 3;
        }
        self.check(&piece[..count], is_end).map_err(|error| {
            self.error = Some(error);
            std::io::Error::other("this is not text")
        })?;
        // Nothing but the mark is not the end yet.
        if count == 0 && !is_end { self.fill(piece) } else { Ok(count) }
    }

    /// The first bytes, at least as many as any mark has, where there are so many.
    fn front(&mut self, piece: &mut [u8]) -> std::io::Result<usize> {
        let mut count = 0;
        while count < 4 {
            match self.source.read(&mut piece[count..])? {
                0 => break,
                more => count += more,
            }
        }
        Ok(count)
    }

    fn check(&mut self, piece: &[u8], is_end: bool) -> Result<(), DataError> {
        if self.num_bytes > self.limit {
            return Err(DataError::TooLarge { file: self.file.to_owned(), limit: self.limit });
        }
        if self.position == 0 {
            self.check_front(piece)?;
        }
        let num_carried = self.unfinished.len();
        let mut joined = Cow::Borrowed(piece);
        if num_carried > 0 {
            joined = Cow::Owned([&self.unfinished, piece].concat());
            self.unfinished.clear();
        }
        let (num_good, is_bad) = match std::str::from_utf8(&joined) {
            Ok(_) => (joined.len(), false),
            Err(error) => (error.valid_up_to(), error.error_len().is_some() || is_end),
        };
        if self.is_blank {
            self.is_blank = std::str::from_utf8(&joined[..num_good]).is_ok_and(|text| text.trim().is_empty());
        }
        if !is_bad {
            self.unfinished.extend_from_slice(&joined[num_good..]);
            // What is unfinished is no white space, or the next piece says so.
        }
        let first_bad = if is_bad { num_good.saturating_sub(num_carried) } else { piece.len() };
        for &byte in &piece[..first_bad] {
            if byte == 0 {
                return Err(self.not_text("this is not text (it has a zero byte)", "export the data as CSV"));
            }
            let ends = matches!(byte, b'\r' | b'\n');
            if !ends && matches!(self.previous, b'\r' | b'\n') {
                self.begins.push_back((self.position, self.line));
            }
            // `\n`, `\r\n` and a lone `\r` each end a line.
            if ends && !(byte == b'\n' && self.previous == b'\r') {
                self.line += 1;
            }
            (self.previous, self.position) = (byte, self.position + 1);
        }
        if is_bad { Err(self.not_text("the bytes are not UTF-8", "save it as UTF-8")) } else { Ok(()) }
    }

    fn check_front(&self, piece: &[u8]) -> Result<(), DataError> {
        let (found, advice) = match piece {
            [0x1F, 0x8B, ..] => ("this is a gzip archive", "unpack it first"),
            [b'P', b'K', 3, 4, ..] => {
                ("this is a zip archive or a spreadsheet", "unpack it, or export the sheet as CSV")
            }
            [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..] => ("this is UTF-16 text", "save it as UTF-8"),
            _ => return Ok(()),
        };
        Err(self.not_text(found, advice))
    }

    /// That the next byte is not that of a text.
    fn not_text(&self, found: &'static str, advice: &'static str) -> DataError {
        DataError::NotText { file: self.file.to_owned(), line: self.line, found, advice }
    }
}

impl<R: Read> Read for TextReader<'_, R> {
    fn read(&mut self, piece: &mut [u8]) -> std::io::Result<usize> {
        if self.ahead.is_empty() { self.fill(piece) } else { self.ahead.read(piece) }
    }
}

fn similar_file(path: &Path) -> Option<String> {
    const MOST_FILES: usize = 1000;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let asked = path.file_name()?.to_str()?;
    let found = std::fs::read_dir(folder).ok()?.take(MOST_FILES).flatten();
    let mut names: Vec<String> = found.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    nearest_name(asked, names.iter().map(String::as_str)).map(|name| folder.join(name).display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out one byte at a time, so that every piece is cut wherever it can be.
    struct Trickle<'a>(&'a [u8]);

    impl Read for Trickle<'_> {
        fn read(&mut self, piece: &mut [u8]) -> std::io::Result<usize> {
            let count = piece.len().min(1);
            self.0.read(&mut piece[..count])
        }
    }

    fn text_of(bytes: &[u8], limit: u64) -> Result<String, DataError> {
        let both: [Box<dyn Read + '_>; 2] = [Box::new(bytes), Box::new(Trickle(bytes))];
        let [whole, trickled] = both.map(|source| {
            let mut reader = TextReader::new("t.csv", source, limit);
            let mut text = String::new();
            reader.delimiter()?;
            reader.read_to_string(&mut text).map_err(|error| reader.reason(&error))?;
            Ok(text)
        });
        assert_eq!(whole, trickled, "{}", String::from_utf8_lossy(bytes));
        whole
    }

    fn complaint(bytes: &[u8]) -> String {
        text_of(bytes, MAX_BYTES).unwrap_err().to_string()
    }

    #[test]
    fn the_mark_of_utf8_is_removed() {
        assert_eq!(text_of("\u{FEFF}a,é\u{3000}".as_bytes(), 100).unwrap(), "a,é\u{3000}");
        assert_eq!(text_of("\u{FEFF}".as_bytes(), 100).unwrap(), "");
        assert!(matches!(text_of(b"abcdef", 5), Err(DataError::TooLarge { limit: 5, .. })));
    }

    #[test]
    fn what_is_not_text_is_named() {
        assert!(complaint(&[0x1F, 0x8B, 8, 0]).contains("gzip"));
        assert!(complaint(b"PK\x03\x04rest").contains("spreadsheet"));
        assert!(complaint(b"\xFF\xFEa\0").contains("UTF-16"));
        assert!(complaint(b"a,b\n1,\x002").starts_with("t.csv, line 2: this is not text"));
        assert!(complaint(b"a,b\r\n1,2\r\n3,\xFF").starts_with("t.csv, line 3: the bytes are not UTF-8"));
        assert!(complaint(b"a,b\r1,2\n\n3,\xC3").starts_with("t.csv, line 4: the bytes are not UTF-8"), "cut short");
    }

    #[test]
    fn rows_are_told_the_lines_that_an_editor_shows() {
        let text = b"\nhead\r\n\r\none\rtwo\n\n\nthree";
        let mut reader = TextReader::new("t.csv", &text[..], 100);
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        assert_eq!([0, 6, 12, 16].map(|byte| reader.line_of(byte)), [2, 4, 5, 8]);
    }

    #[test]
    fn a_missing_file_and_a_folder_are_told_apart() {
        let missing = read_bytes(Path::new("no/such/folder/table.csv")).unwrap_err();
        assert_eq!(missing, DataError::FileMissing { path: "no/such/folder/table.csv".into(), nearest: None });
        assert!(matches!(read_bytes(Path::new(".")), Err(DataError::Unreadable { .. })));
    }

    #[test]
    fn a_slip_in_a_file_name_is_noticed() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/conrete.csv");
        let message = read_bytes(&path).unwrap_err().to_string();
        assert!(message.contains("did you mean") && message.contains("concrete.csv"), "{message}");
    }
}
