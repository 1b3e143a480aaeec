//! Writes files and folders so that a reader sees the old contents or the new, never half, and so that no link is written through.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Ends the names of what is still being written: `NAME.PROCESS.part`.
const PART: &str = "part";
/// Stands in the name of a folder that was moved aside for its successor: `NAME.old.PROCESS.part`.
const OLD: &str = "old";

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
pub fn replace_with<E: From<Error>>(path: &Path, write: impl FnOnce(&mut File) -> Result<(), E>) -> Result<(), E> {
    let beside = beside(path);
    let written = (|| {
        let mut file = create_new(&beside)?;
        write(&mut file)?;
        file.sync_all()?;
        Ok(std::fs::rename(&beside, path)?)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// Lets `fill` write into a new folder beside `path`, then puts it in the place of what is there. `path` itself may be a link to
/// a folder, which is then replaced.
///
/// # Errors
/// What the file system says, or `fill`; `path` is then as it was.
pub fn replace_folder_with<E: From<Error>>(path: &Path, fill: impl FnOnce(&Path) -> Result<(), E>) -> Result<(), E> {
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let (beside, old) = (beside(path), with_suffix(path, &format!(".{OLD}.{}.{PART}", std::process::id())));
    let written = (|| {
        remove(&beside)?;
        remove(&old)?;
        std::fs::create_dir(&beside)?;
        fill(&beside)?;
        let is_replaced = is_found(std::fs::rename(path, &old))?;
        if let Err(error) = std::fs::rename(&beside, path) {
            if is_replaced {
                std::fs::rename(&old, path)?;
            }
            return Err(error.into());
        }
        Ok(())
    })();
    let _ = remove(if written.is_err() { &beside } else { &old });
    written
}

/// Creates a file; what has its name is removed first, and a link is not followed.
///
/// # Errors
/// What the file system says.
pub fn create_new(path: &Path) -> std::io::Result<File> {
    match File::create_new(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            std::fs::remove_file(path)?;
            File::create_new(path)
        }
        created => created,
    }
}

/// Opens a file to write to it in place; a link is refused.
///
/// # Errors
/// What the file system says.
pub fn open_in_place(options: &mut OpenOptions, path: &Path) -> std::io::Result<File> {
    let is_link = || path.symlink_metadata().is_ok_and(|found| found.is_symlink());
    let refusal = || Error::new(ErrorKind::InvalidInput, "it is a link, and links are not written through");
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    }
    #[cfg(not(unix))]
    if is_link() {
        return Err(refusal());
    }
    options.open(path).map_err(|error| if is_link() { refusal() } else { error })
}

/// Removes what processes that are gone have left beside `path` while they wrote it.
pub fn remove_leftovers(path: &Path) {
    // A folder that is a link is replaced where it lies.
    for path in [Some(path.to_path_buf()), path.canonicalize().ok()].into_iter().flatten() {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let own = path.file_name().and_then(OsStr::to_str);
        remove_parts(folder, |name, process| own == Some(name) && !may_live(process));
    }
}

/// Removes what processes that are gone have left in a folder while they wrote its files; folders in it are not looked into.
pub fn remove_leftovers_in(folder: &Path) {
    remove_parts(folder, |_, process| !may_live(process));
}

/// Removes everything in a folder that was still being written, by whomever: for those who alone may write there.
pub fn remove_all_parts_in(folder: &Path) {
    remove_parts(folder, |_, _| true);
}

/// Removes the parts in a folder that are chosen by the name they were to have and by the process that wrote them.
fn remove_parts(folder: &Path, is_chosen: impl Fn(&str, &str) -> bool) {
    for path in folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()) {
        let part = path.file_name().and_then(OsStr::to_str).and_then(part_of);
        if part.is_some_and(|(name, process)| is_chosen(name, process)) {
            let _ = remove(&path);
        }
    }
}

/// The name that a part was to have, and the process that wrote it; `None` for a name that is no part's.
fn part_of(name: &str) -> Option<(&str, &str)> {
    let (name, process) = name.strip_suffix(PART)?.strip_suffix('.')?.rsplit_once('.')?;
    let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    let name = name.strip_suffix(OLD).and_then(|name| name.strip_suffix('.')).unwrap_or(name);
    is_number.then_some((name, process))
}

/// Whether another process of this number may be running; it may where the system does not say.
fn may_live(process: &str) -> bool {
    let processes = Path::new("/proc");
    let is_own = process == std::process::id().to_string();
    !is_own && (processes.join(process).exists() || !processes.join("self").exists())
}

fn beside(path: &Path) -> PathBuf {
    with_suffix(path, &format!(".{}.{PART}", std::process::id()))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_os_string();
    name.push(suffix);
    path.with_file_name(name)
}

/// Removes a file, a link itself, or a folder with all it holds; nothing outside it.
fn remove(path: &Path) -> std::io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    is_found(removed).map(|_| ())
}

fn is_found(result: std::io::Result<()>) -> std::io::Result<bool> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        other => other.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that no process has.
    const GONE: &str = "4194399";

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn replaces_whole_and_leaves_nothing_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        let refused = replace_with(&path, |file| {
            file.write_all(b"half")?;
            Err(Error::other("no more"))
        });
        assert_eq!(refused.unwrap_err().to_string(), "no more");
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_atomically(&folder.path().join("none/a.txt"), b"x").is_err());
    }

    #[test]
    fn folders_are_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let fill = |name: &'static str, ends: bool| {
            move |inside: &Path| {
                std::fs::write(inside.join(name), name)?;
                if ends { Ok(()) } else { Err(Error::other("no more")) }
            }
        };
        replace_folder_with(&path, fill("one", true)).unwrap();
        assert!(replace_folder_with(&path, fill("half", false)).is_err());
        assert_eq!(names(&path), ["one"]);
        replace_folder_with(&path, fill("two", true)).unwrap();
        assert_eq!((names(&path), names(folder.path())), (vec!["two".into()], vec!["store".into()]));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_neither_followed_nor_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, path) = (folder.path().join("victim"), folder.path().join("a"));
        std::fs::write(&victim, "mine").unwrap();
        for target in [&victim, &folder.path().join("nowhere")] {
            std::os::unix::fs::symlink(target, beside(&path)).unwrap();
            write_atomically(&path, b"new").unwrap();
            std::fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink(target, &path).unwrap();
            let refused = open_in_place(OpenOptions::new().write(true).create(true).truncate(true), &path);
            assert!(refused.unwrap_err().to_string().contains("it is a link"));
            std::fs::remove_file(&path).unwrap();
        }
        assert_eq!((names(folder.path()), std::fs::read(&victim).unwrap()), (vec!["victim".into()], b"mine".to_vec()));
    }

    #[test]
    fn leftovers_of_processes_that_are_gone_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        let alive = if Path::new("/proc/1").exists() { "1" } else { GONE };
        let gone = [format!("a.csv.{GONE}.part"), format!("a.csv.old.{GONE}.part")];
        let others = ["a.csv".into(), format!("a.csv.{alive}.part"), "a.part".into(), format!("b.{GONE}.part")];
        for name in gone.iter().chain(&others) {
            std::fs::write(here.join(name), "").unwrap();
        }
        remove_leftovers(&here.join("a.csv"));
        let mut left: Vec<&String> = others.iter().collect();
        left.sort();
        if alive == "1" {
            assert_eq!(names(here).iter().collect::<Vec<_>>(), left);
            remove_leftovers_in(here);
            assert_eq!(names(here), ["a.csv", "a.csv.1.part", "a.part"]);
        }
        remove_all_parts_in(here);
        assert_eq!(names(here), ["a.csv", "a.part"]);
    }
}
