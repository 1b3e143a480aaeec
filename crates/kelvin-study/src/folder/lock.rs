//! One run, one writer: a file that is locked for as long as its process lives, and says whose it is.
//!
//! The operating system gives the lock back when the process ends in any way, so that a stale one is free to be taken. Where
//! it has no locks, the file's words are believed: a process that still lives on this machine, or any on another.

use crate::error::{Context, Result, refused};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use kelvin::write_file::open_in_place;

/// The lock of a run folder, released when it is dropped.
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock of a folder, or says who has it.
    pub fn take(path: &Path, run: &Path) -> Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = open_in_place(&mut options, path).with_context(cannot)?;
        let mut owner = String::new();
        let _ = file.read_to_string(&mut owner);
        let owner = owner.trim();
        let is_taken = match file.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(_)) => is_alive(owner),
        };
        if is_taken {
            let owner = if owner.is_empty() { "another process" } else { owner };
            return Err(refused(format!(
                "{} is being written by {owner}; nothing was changed\n  \
                 wait for it, stop it, or name another folder with --out",
                run.display()
            )));
        }
        file.set_len(0).with_context(cannot)?;
        file.seek(SeekFrom::Start(0)).with_context(cannot)?;
        writeln!(file, "process {} on {}", std::process::id(), host()).with_context(cannot)?;
        Ok(Self { file })
    }
}

/// Whether a process is writing the run of this lock.
pub(super) fn is_held(path: &Path) -> bool {
    let Ok(mut file) = File::open(path) else { return false };
    let mut owner = String::new();
    let _ = file.read_to_string(&mut owner);
    // The lock itself is asked last: to ask is to hold it for a moment, and a run that begins just then would be refused.
    is_alive(owner.trim()) && !matches!(file.try_lock_shared(), Ok(()))
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file stays: removing it could remove the lock of the next.
        let _ = self.file.set_len(0);
    }
}

/// Whether the words of a lock name a process that may still be there.
fn is_alive(owner: &str) -> bool {
    let words: Vec<&str> = owner.split_whitespace().collect();
    match words[..] {
        ["process", id, "on", host_name] => host_name != host() || Path::new("/proc").join(id).exists(),
        _ => false,
    }
}

fn host() -> String {
    let found = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let found = found.or_else(|| std::env::var("HOSTNAME").or_else(|_| std::env::var("COMPUTERNAME")).ok());
    found.map(|name| name.trim().replace(' ', "-")).filter(|name| !name.is_empty()).unwrap_or("this-machine".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_writer_is_told_who_the_first_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path, folder.path()).unwrap();
        let refused = Lock::take(&path, folder.path()).err().unwrap().to_string();
        assert!(refused.contains(&format!("process {} on {}", std::process::id(), host())), "{refused}");
        drop(first);
        drop(Lock::take(&path, folder.path()).unwrap());
        // Left behind by a process that was killed.
        std::fs::write(&path, "process 1 on a-machine-that-is-gone\n").unwrap();
        Lock::take(&path, folder.path()).unwrap();
    }

    #[test]
    fn a_lock_is_held_as_long_as_its_process_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert!(!is_held(&path));
        let lock = Lock::take(&path, folder.path()).unwrap();
        assert!(is_held(&path));
        drop(lock);
        assert!(!is_held(&path));
        std::fs::write(&path, format!("process 4194399 on {}\n", host())).unwrap();
        assert!(!is_held(&path), "a process that was killed");
        std::fs::write(&path, format!("process {} on {}\n", std::process::id(), host())).unwrap();
        assert!(!is_held(&path), "a number that another process has now");
    }

    #[test]
    fn words_of_a_lock_are_believed_where_nothing_else_is_known() {
        assert!(is_alive(&format!("process {} on {}", std::process::id(), host())));
        assert!(is_alive("process 1 on a-machine-far-away"));
        assert!(!is_alive(&format!("process 4194399 on {}", host())) && !is_alive("") && !is_alive("nonsense"));
    }
}
