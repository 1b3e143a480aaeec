//! A run folder keeps to itself: nothing inside it may be a link, so that a folder from someone else cannot reach what is outside.
//!
//! The folder itself may be reached through links: those are the user's own.

use std::fs::Metadata;
use std::path::Path;

use crate::error::{Context, Result, StudyError, refused};

/// Checks that a folder holds files and folders only, as deep as it goes; a folder that is not there holds nothing.
///
/// # Errors
/// If anything in it is a link, neither a file nor a folder, or a file that is written in place and has another name elsewhere.
pub fn check_keeps_to_itself(folder: &Path) -> Result<()> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(inside) = folders.pop() {
        let Ok(entries) = inside.read_dir() else { continue };
        for entry in entries {
            let path = entry.with_context(|| format!("cannot read {}", inside.display()))?.path();
            // What another process has just renamed or removed is no link.
            let Ok(found) = path.symlink_metadata() else { continue };
            if found.is_dir() {
                folders.push(path);
            } else if let Some(what) = leads_outside(&path, &found) {
                return Err(reaches_outside(folder, &path, &what));
            }
        }
    }
    Ok(())
}

/// What makes a file reach outside its folder; none if nothing does.
fn leads_outside(path: &Path, found: &Metadata) -> Option<String> {
    if found.is_symlink() {
        return Some(match path.read_link() {
            Ok(target) => format!("is a link to {}", target.display()),
            Err(_) => "is a link".into(),
        });
    }
    if !found.is_file() {
        return Some("is neither a file nor a folder".into());
    }
    (is_written_in_place(path) && num_names(found) > 1).then(|| "is a file with another name elsewhere".into())
}

/// Locks and logs of draws are written in place; all else is written beside and renamed.
fn is_written_in_place(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "lock") || path.extension().is_some_and(|ending| ending == "draws")
}

#[cfg(unix)]
fn num_names(found: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(found)
}

#[cfg(not(unix))]
fn num_names(_: &Metadata) -> u64 {
    1
}

fn reaches_outside(folder: &Path, path: &Path, what: &str) -> StudyError {
    refused(format!(
        "{} {what}; nothing was changed\n  in a run folder kelvin uses only what lies in it, so that a folder from someone else cannot \
         change anything outside\n  put a copy in its place, or remove it, if you trust {}",
        path.display(),
        folder.display()
    ))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_found_wherever_they_are_and_whatever_they_point_to() {
        let temporary = tempfile::tempdir().unwrap();
        let (folder, elsewhere) = (temporary.path().join("run"), temporary.path().join("elsewhere"));
        std::fs::create_dir_all(folder.join("a/b")).unwrap();
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(elsewhere.join("file"), "mine").unwrap();
        std::fs::hard_link(elsewhere.join("file"), folder.join("a/results.json")).unwrap();
        check_keeps_to_itself(&folder).unwrap();
        check_keeps_to_itself(&temporary.path().join("nowhere")).unwrap();
        for target in ["elsewhere", "elsewhere/file", "nowhere", "run/a"] {
            let link = folder.join("a/b/x");
            symlink(temporary.path().join(target), &link).unwrap();
            let refused = check_keeps_to_itself(&folder).unwrap_err().to_string();
            assert!(refused.contains("run/a/b/x is a link to ") && refused.contains(target), "{refused}");
            std::fs::remove_file(link).unwrap();
        }
        // A folder of one's own may be reached through a link.
        symlink(&folder, temporary.path().join("mine")).unwrap();
        check_keeps_to_itself(&temporary.path().join("mine")).unwrap();
        std::fs::hard_link(elsewhere.join("file"), folder.join("a/lock")).unwrap();
        assert!(check_keeps_to_itself(&folder).unwrap_err().to_string().contains("another name elsewhere"));
    }
}
