//! The file around a checkpoint: what it is, its format, its length and its hash.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use thiserror::Error;

use kelvin::write_file::{replace_with, write_atomically};

const MAGIC: [u8; 8] = *b"KLVCHKPT";
/// 4: with what a chain's warm-up has found, how far chains are to go, and predictions at watched rows. 3 was the same without; 1 and 2 were other encodings.
const FORMAT: u32 = 5;
pub(crate) const HEADER: usize = 8 + 4 + 8;
const HASH: usize = 32;

/// Why a checkpoint could not be written or read.
#[derive(Debug, Error)]
pub enum CheckpointError {
    /// The operating system refused to read or write.
    #[error("cannot {action} the checkpoint {path}: {source}")]
    File {
        /// What was tried: "write" or "read".
        action: &'static str,
        /// The checkpoint that was meant.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// Cut off, or changed since it was written.
    #[error("the checkpoint {path} is damaged: {reason}")]
    Damaged {
        /// The checkpoint that is damaged.
        path: PathBuf,
        /// What is wrong, with the byte where it was found.
        reason: String,
    },
    /// Written by another kelvin, in a format that this one does not know.
    #[error(
        "the checkpoint {path} has format {found}, and this kelvin knows {known}; go on with the kelvin that wrote it, \
         or begin anew with --fresh"
    )]
    OtherVersion {
        /// The checkpoint that cannot be read.
        path: PathBuf,
        /// The format that it has.
        found: u32,
        /// The format known here.
        known: u32,
    },
    /// A whole checkpoint that was put there from another run.
    #[error("the checkpoint {path} belongs to another run; put back its own, or begin anew with --fresh")]
    OtherRun {
        /// The checkpoint of the other run.
        path: PathBuf,
    },
}

/// Where the checkpoint before is.
pub fn previous(path: &Path) -> PathBuf {
    path.with_extension("previous")
}

/// Writes contents; what was there becomes the checkpoint before.
pub fn write(path: &Path, contents: &[u8]) -> Result<(), CheckpointError> {
    let mut bytes = Vec::with_capacity(HEADER + contents.len() + HASH);
    bytes.extend(MAGIC);
    bytes.extend(FORMAT.to_le_bytes());
    bytes.extend((contents.len() as u64).to_le_bytes());
    bytes.extend(contents);
    let hash = Sha256::digest(&bytes);
    bytes.extend(hash);
    let written = write_atomically(&path.with_extension("new"), &bytes)
        .and_then(|()| match std::fs::rename(path, previous(path)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
        .and_then(|()| std::fs::rename(path.with_extension("new"), path));
    written.map_err(|source| CheckpointError::File { action: "write", path: path.into(), source })
}

/// Writes contents of this length that come piece by piece, whole or not at all; there is no checkpoint before.
pub fn write_pieces(
    path: &Path,
    length: u64,
    fill: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), CheckpointError>) -> Result<(), CheckpointError>,
) -> Result<(), CheckpointError> {
    let cannot = |source| CheckpointError::File { action: "write", path: path.into(), source };
    let written = replace_with(path, |file: &mut File| {
        let (mut file, mut hash) = (std::io::BufWriter::new(file), Sha256::new());
        let mut write = |bytes: &[u8]| {
            hash.update(bytes);
            file.write_all(bytes).map_err(cannot)
        };
        write(&MAGIC)?;
        write(&FORMAT.to_le_bytes())?;
        write(&length.to_le_bytes())?;
        fill(&mut write)?;
        file.write_all(&hash.finalize()).and_then(|()| file.flush()).map_err(cannot)?;
        Ok::<(), Written>(())
    });
    written.map_err(|Written(error)| match error {
        CheckpointError::File { source, .. } => cannot(source),
        other => other,
    })
}

/// A failure to write, before it is known of which file.
struct Written(CheckpointError);

impl From<std::io::Error> for Written {
    fn from(source: std::io::Error) -> Self {
        Self(CheckpointError::File { action: "write", path: PathBuf::new(), source })
    }
}

impl From<CheckpointError> for Written {
    fn from(error: CheckpointError) -> Self {
        Self(error)
    }
}

/// Reads contents and checks them; `None` where there is no such file.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, CheckpointError> {
    match std::fs::read(path) {
        Ok(bytes) => contents(path, bytes).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CheckpointError::File { action: "read", path: path.into(), source }),
    }
}

/// The contents of a file that is in memory; `path` stands for it in errors.
pub fn contents(path: &Path, mut bytes: Vec<u8>) -> Result<Vec<u8>, CheckpointError> {
    let damaged = |reason: String| CheckpointError::Damaged { path: path.into(), reason };
    let Some(end) = bytes.len().checked_sub(HASH).filter(|&end| end >= HEADER) else {
        return Err(damaged(format!("it is cut off at byte {}", bytes.len())));
    };
    // First the hash: a flipped bit of the format is damage and no other version.
    if Sha256::digest(&bytes[..end])[..] != bytes[end..] {
        return Err(damaged(format!("bytes 0 to {end} do not have the hash that was written with them")));
    }
    if bytes[..8] != MAGIC {
        return Err(damaged("byte 0: it is no checkpoint of kelvin".into()));
    }
    let found = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    if found != FORMAT {
        return Err(CheckpointError::OtherVersion { path: path.into(), found, known: FORMAT });
    }
    if bytes[12..HEADER] != ((end - HEADER) as u64).to_le_bytes() {
        return Err(damaged(format!("byte 12: it does not say that {} bytes follow, and they do", end - HEADER)));
    }
    bytes.truncate(end);
    bytes.drain(..HEADER);
    Ok(bytes)
}

/// Moves a damaged checkpoint out of the way, so that it does not become the one before.
pub fn set_aside(path: &Path) {
    let _ = std::fs::rename(path, path.with_extension("damaged"));
}

/// Removes a file that may not be there.
pub fn forget(path: &Path) {
    let _ = std::fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_one_before_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.checkpoint");
        assert!(read(&path).unwrap().is_none());
        for contents in [&b"one"[..], b"two", b""] {
            write(&path, contents).unwrap();
            assert_eq!(read(&path).unwrap().unwrap(), contents);
        }
        assert_eq!(read(&previous(&path)).unwrap().unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(matches!(write(&folder.path().join("none/a"), b"x"), Err(CheckpointError::File { .. })));
    }

    /// A folder where the one before should go cannot be replaced, and is an error.
    #[test]
    fn what_cannot_be_moved_is_said_and_the_rest_is_out_of_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.checkpoint");
        write(&path, b"one").unwrap();
        std::fs::create_dir_all(previous(&path).join("full")).unwrap();
        assert!(matches!(write(&path, b"two"), Err(CheckpointError::File { .. })));
        assert_eq!(read(&path).unwrap().unwrap(), b"one");
        set_aside(&path);
        assert!(!path.exists() && folder.path().join("a.damaged").exists());
        forget(&folder.path().join("a.damaged"));
        forget(&path);
        assert!(!folder.path().join("a.damaged").exists() && read(&path).unwrap().is_none());
        assert!(read(&previous(&path)).is_err(), "a folder is no checkpoint");
    }

    #[test]
    fn another_version_is_told_from_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.checkpoint");
        write(&path, b"contents").unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[8] = 7;
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(read(&path), Err(CheckpointError::Damaged { .. })));
        let end = bytes.len() - HASH;
        let hash = Sha256::digest(&bytes[..end]);
        bytes[end..].copy_from_slice(&hash);
        std::fs::write(&path, &bytes).unwrap();
        assert!(matches!(read(&path), Err(CheckpointError::OtherVersion { found: 7, known: FORMAT, .. })));
    }

    proptest! {
        #[test]
        fn damage_anywhere_is_an_error(size in 0_usize..200, place in 0_usize..1000, bit in 0_u8..8, cut in any::<bool>()) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.checkpoint");
            write(&path, &vec![5; size]).unwrap();
            let mut bytes = std::fs::read(&path).unwrap();
            let place = place % bytes.len();
            if cut { bytes.truncate(place) } else { bytes[place] ^= 1 << bit }
            std::fs::write(&path, &bytes).unwrap();
            let is_named = matches!(read(&path), Err(CheckpointError::Damaged { .. }));
            prop_assert!(is_named);
        }

        #[test]
        fn foreign_bytes_are_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.checkpoint");
            std::fs::write(&path, &bytes).unwrap();
            prop_assert!(read(&path).is_err());
        }
    }
}
