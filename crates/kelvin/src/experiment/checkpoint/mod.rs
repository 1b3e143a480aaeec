//! Checkpoints: a population on its way as a file, so that it can go on after the process has ended in any way.
//!
//! A file is magic, format, length, contents and the SHA-256 of all of it, little-endian. It is written beside and renamed, and
//! the one before is kept: whatever happens, at least one of the two is whole.

mod bytes;
mod file;
mod member;

pub use file::CheckpointError;
pub(super) use file::{forget, set_aside};
pub(super) use member::Member;

use std::path::{Path, PathBuf};

use bytes::{Reader, Writer};

use crate::sampler::Chain;
use crate::selection::JointChoice;

/// A population on its way.
#[derive(Debug, PartialEq)]
pub(super) struct Checkpoint {
    /// Names the run it belongs to.
    pub identity: String,
    pub members: Vec<Member>,
}

/// A chain to be written, with what belongs to it.
pub(super) struct MemberParts<'a> {
    pub chain: &'a Chain,
    pub num_draws: u64,
    pub seconds: f64,
    pub choice: Option<&'a JointChoice>,
    /// Lists of numbers of a sampled chain: what its draws predict, and what was measured at draws that are not stored.
    pub scores: &'a [Vec<f64>],
    pub series: [&'a [f64]; 3],
}

impl Checkpoint {
    /// Writes a checkpoint; the one that was there becomes the one before.
    pub fn write<'a>(
        path: &Path,
        identity: &str,
        members: impl ExactSizeIterator<Item = MemberParts<'a>>,
    ) -> Result<(), CheckpointError> {
        file::write(path, &contents(identity, members))
    }

    /// Reads a checkpoint of this run; `None` where there is none.
    pub fn read(path: &Path, identity: &str) -> Result<Option<Self>, CheckpointError> {
        let Some(contents) = file::read(path)? else { return Ok(None) };
        let checkpoint = Self::from_contents(path, &contents)?;
        if checkpoint.identity != identity {
            return Err(CheckpointError::OtherRun { path: path.into() });
        }
        Ok(Some(checkpoint))
    }

    /// What the checked contents of a file mean.
    fn from_contents(path: &Path, contents: &[u8]) -> Result<Self, CheckpointError> {
        let mut reader = Reader::new(contents);
        Self::from_reader(&mut reader).ok_or_else(|| {
            let offset = file::HEADER + contents.len() - reader.num_left();
            CheckpointError::Damaged {
                path: path.into(),
                reason: format!("byte {offset}: it makes no sense from there on"),
            }
        })
    }

    fn from_reader(reader: &mut Reader<'_>) -> Option<Self> {
        let identity = reader.text()?;
        let num_members = reader.count()?;
        let mut members = (0..num_members).map(|_| Member::read(reader)).collect::<Option<Vec<_>>>()?;
        if !reader.is_at_end() {
            members.iter_mut().try_for_each(|member| member.read_auxiliary(reader))?;
        }
        reader.is_at_end().then_some(Self { identity, members })
    }
}

/// Members one after the other; then what samplers carry beside θ and m, where one of them does.
fn contents<'a>(identity: &str, members: impl ExactSizeIterator<Item = MemberParts<'a>>) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.text(identity);
    writer.count(members.len());
    let mut auxiliaries = Vec::new();
    for member in members {
        member.write(&mut writer);
        auxiliaries.push(&member.chain.state.auxiliary);
    }
    if auxiliaries.iter().any(|auxiliary| !auxiliary.is_empty()) {
        auxiliaries.iter().for_each(|auxiliary| writer.f64s(auxiliary));
    }
    writer.into_bytes()
}

/// How many chains a checkpoint has that is in memory, which is all that a test of bad input needs to know of it.
#[doc(hidden)]
pub fn num_chains_of_checkpoint(path: &Path, bytes: &[u8]) -> Result<usize, CheckpointError> {
    Ok(Checkpoint::from_contents(path, &file::contents(path, bytes.to_vec())?)?.members.len())
}

/// Where the checkpoint before is.
pub(super) fn previous(path: &Path) -> PathBuf {
    path.with_extension("previous")
}
