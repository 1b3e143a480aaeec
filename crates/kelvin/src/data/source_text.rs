//! A file's bytes as text: never more than a table may hold, and a clear word where they are not text.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use super::error::DataError;
use super::nearest::nearest_name;

/// The most bytes a table may have; row and cell numbers then fit 32 bits.
pub(super) const MAX_BYTES: u64 = 512 << 20;

/// All bytes of a file, or an error once there are more than a table may have.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| unreadable(path, &error))?;
    Ok(bytes)
}

/// Why a file could not be opened or read.
pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> DataError {
    match error.kind() {
        ErrorKind::NotFound => DataError::FileMissing { path: path.to_owned(), nearest: similar_file(path) },
        _ => DataError::Unreadable { path: path.to_owned(), reason: error.to_string() },
    }
}

/// The bytes as text, without the mark some programs put at the front of UTF-8.
pub(super) fn as_text<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, DataError> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(DataError::TooLarge { file: file.to_owned(), limit: MAX_BYTES });
    }
    let not_text = |before: usize, found: &'static str, advice: &'static str| {
        Err(DataError::NotText { file: file.to_owned(), line: 1 + num_line_ends(&bytes[..before]), found, advice })
    };
    if bytes.starts_with(&[0x1F, 0x8B]) {
        return not_text(0, "this is a gzip archive", "unpack it first");
    }
    if bytes.starts_with(b"PK\x03\x04") {
        return not_text(0, "this is a zip archive or a spreadsheet", "unpack it, or export the sheet as CSV");
    }
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        return not_text(0, "this is UTF-16 text", "save it as UTF-8");
    }
    if let Some(at) = bytes.iter().position(|&byte| byte == 0) {
        return not_text(at, "this is not text (it has a zero byte)", "export the data as CSV");
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{FEFF}').unwrap_or(text)),
        Err(error) => not_text(error.valid_up_to(), "the bytes are not UTF-8", "save it as UTF-8"),
    }
}

/// How many lines end in these bytes; `\n`, `\r\n` and a lone `\r` each end one.
pub(super) fn num_line_ends(bytes: &[u8]) -> u64 {
    let ends = |at: usize| bytes[at] == b'\n' || bytes[at] == b'\r' && bytes.get(at + 1) != Some(&b'\n');
    (0..bytes.len()).filter(|&at| ends(at)).count() as u64
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

    fn complaint(bytes: &[u8]) -> String {
        as_text("t.csv", bytes).unwrap_err().to_string()
    }

    #[test]
    fn the_mark_of_utf8_is_removed() {
        assert_eq!(as_text("t.csv", b"\xEF\xBB\xBFa,b").unwrap(), "a,b");
    }

    #[test]
    fn what_is_not_text_is_named() {
        assert!(complaint(&[0x1F, 0x8B, 8, 0]).contains("gzip"));
        assert!(complaint(b"PK\x03\x04rest").contains("spreadsheet"));
        assert!(complaint(b"\xFF\xFEa\0").contains("UTF-16"));
        assert!(complaint(b"a,b\n1,\x002").starts_with("t.csv, line 2: this is not text"));
        assert!(complaint(b"a,b\r\n1,2\r\n3,\xFF").starts_with("t.csv, line 3: the bytes are not UTF-8"));
    }

    #[test]
    fn lines_end_in_three_ways() {
        assert_eq!(num_line_ends(b"a\nb\r\nc\rd"), 3);
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
