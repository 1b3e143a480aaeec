//! Writes a file so that a reader sees the old contents or the new, never half.

use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Writes beside `path`, flushes to disk, then renames.
///
/// # Errors
/// What the file system says; `path` is then as it was.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    replace_with(path, |file| file.write_all(bytes))
}

/// Lets `write` fill a new file beside `path`, flushes it to disk, then renames.
///
/// # Errors
/// What the file system says, or `write`; `path` is then as it was.
pub fn replace_with<E: From<std::io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    let beside = path.with_file_name(name);
    let written = (|| {
        let mut file = File::create(&beside)?;
        write(&mut file)?;
        file.sync_all()?;
        Ok(std::fs::rename(&beside, path)?)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_whole_and_leaves_nothing_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        let refused = replace_with(&path, |file| {
            file.write_all(b"half")?;
            Err(std::io::Error::other("no more"))
        });
        assert_eq!(refused.unwrap_err().to_string(), "no more");
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_atomically(&folder.path().join("none/a.txt"), b"x").is_err());
    }
}
