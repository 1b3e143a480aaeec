//! A checkpoint read member by member, and one put together from the members of others: no more than one chain is in memory.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::checkpoint::file::{self, CheckpointError};
use crate::checkpoint::member::Member;
use crate::checkpoint::reach::Reach;

/// Where each chain of a checkpoint lies in its file, whose hash was checked when this was made.
#[derive(Debug)]
pub(crate) struct StoredMembers {
    path: PathBuf,
    reach: Option<Reach>,
    /// Bytes of each chain, in order of ids.
    places: Vec<(u32, Range<u64>)>,
}

impl StoredMembers {
    /// Finds the chains of a checkpoint of this run; `None` where there is no file.
    pub fn find(path: &Path, identity: &str) -> Result<Option<Self>, CheckpointError> {
        let Some(contents) = file::read(path)? else { return Ok(None) };
        let found = Self::of_contents(path, &contents)?;
        if found.0 != identity {
            return Err(CheckpointError::OtherRun { path: path.into() });
        }
        Ok(Some(found.1))
    }

    /// The identity, and where the chains are.
    fn of_contents(path: &Path, contents: &[u8]) -> Result<(String, Self), CheckpointError> {
        let mut rest = Rest { path, all: contents.len(), left: contents };
        let identity: String = rest.take()?;
        let reach: Option<Reach> = rest.take()?;
        let count: u64 = rest.take()?;
        let mut places = Vec::new();
        for _ in 0..count {
            let id: u32 = rest.take()?;
            let begin = rest.offset();
            let member: Member<'static> = rest.take()?;
            if !member.has_seen_its_choice() {
                return Err(rest.damaged(format!("chain {id} has chosen a place that is not on its path")));
            }
            places.push((id, begin..rest.offset()));
        }
        if !rest.left.is_empty() {
            return Err(rest.damaged(format!("{} bytes follow its last chain", rest.left.len())));
        }
        places.sort_by_key(|(id, _)| *id);
        Ok((identity, Self { path: path.into(), reach, places }))
    }

    /// How far its chains are to go, where that was decided on the way.
    pub fn reach(&self) -> Option<Reach> {
        self.reach
    }

    /// Whether it has the chain of this id.
    pub fn has(&self, id: u32) -> bool {
        self.place(id).is_some()
    }

    fn place(&self, id: u32) -> Option<&Range<u64>> {
        let at = self.places.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(&self.places[at].1)
    }

    /// The bytes of a chain; `None` where it has no such chain.
    fn bytes(&self, id: u32) -> Result<Option<Vec<u8>>, CheckpointError> {
        let Some(place) = self.place(id) else { return Ok(None) };
        let mut bytes = vec![0; (place.end - place.start) as usize];
        let read = File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(place.start))?;
            file.read_exact(&mut bytes)
        });
        read.map_err(|source| CheckpointError::File { action: "read", path: self.path.clone(), source })?;
        Ok(Some(bytes))
    }

    /// The chain of this id; `None` where it has no such chain.
    pub fn member(&self, id: u32) -> Result<Option<Member<'static>>, CheckpointError> {
        let Some(bytes) = self.bytes(id)? else { return Ok(None) };
        let reason = "it was changed while it was read".to_owned();
        let damaged = |_| CheckpointError::Damaged { path: self.path.clone(), reason };
        postcard::from_bytes(&bytes).map(Some).map_err(damaged)
    }

    /// Whether both have this chain with the same bits, the time it took aside.
    pub fn agrees_on(&self, id: u32, other: &Self) -> Result<bool, CheckpointError> {
        let timeless = |stored: &Self| -> Result<Option<Vec<u8>>, CheckpointError> {
            let Some(mut member) = stored.member(id)? else { return Ok(None) };
            member.seconds = 0.0;
            Ok(Some(encoded(&member)))
        };
        Ok(timeless(self)? == timeless(other)?)
    }
}

/// Writes a checkpoint of these chains, each taken from where it is stored, and says where they are in it. Ids are to come in order.
pub(crate) fn write_members(
    path: &Path,
    identity: &str,
    reach: Option<Reach>,
    members: &[(u32, &StoredMembers)],
) -> Result<StoredMembers, CheckpointError> {
    let head = [encoded(&identity), encoded(&reach), encoded(&(members.len() as u64))].concat();
    let size = |(id, stored): &(u32, &StoredMembers)| {
        encoded(id).len() as u64 + stored.place(*id).map_or(0, |place| place.end - place.start)
    };
    let length = head.len() as u64 + members.iter().map(size).sum::<u64>();
    let mut end = (file::HEADER + head.len()) as u64;
    let places = members.iter().map(|(id, stored)| {
        end += size(&(*id, *stored));
        (*id, end - stored.place(*id).map_or(0, |place| place.end - place.start)..end)
    });
    let written = StoredMembers { path: path.into(), reach, places: places.collect() };
    file::write_pieces(path, length, |write| {
        write(&head)?;
        for (id, stored) in members {
            write(&encoded(id))?;
            write(&stored.bytes(*id)?.unwrap_or_default())?;
        }
        Ok(())
    })?;
    Ok(written)
}

fn encoded(value: &impl serde::Serialize) -> Vec<u8> {
    postcard::to_extend(value, Vec::new()).expect("numbers, lists and texts can be written to memory")
}

/// What is left to be read of a checkpoint's contents.
struct Rest<'c> {
    path: &'c Path,
    all: usize,
    left: &'c [u8],
}

impl Rest<'_> {
    fn take<T: DeserializeOwned>(&mut self) -> Result<T, CheckpointError> {
        let (value, left) = postcard::take_from_bytes(self.left).map_err(|error| self.damaged(error.to_string()))?;
        self.left = left;
        Ok(value)
    }

    /// The byte of the file that comes next.
    fn offset(&self) -> u64 {
        (file::HEADER + self.all - self.left.len()) as u64
    }

    fn damaged(&self, reason: String) -> CheckpointError {
        CheckpointError::Damaged { path: self.path.into(), reason: format!("byte {}: {reason}", self.offset()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::{Checkpoint, num_chains_of_checkpoint};
    use kelvin::network::Network;
    use kelvin::sampler::Chain;
    use kelvin::temperature::Temperature;

    fn chain(id: u32) -> Chain {
        let layout = Network::dense(2, &[3], 1).unwrap().layout();
        let mut chain = Chain::new(id, Temperature::new(0.3).unwrap(), vec![id as f32; layout.len()], &layout);
        (chain.state.step, chain.state.momentum[0]) = (u64::from(id), f32::NAN);
        chain
    }

    fn write(path: &Path, ids: &[u32], seconds: f64) {
        let chains: Vec<Chain> = ids.iter().map(|&id| chain(id)).collect();
        let members = chains.iter().map(|chain| (chain.id, Member::of_search(chain, seconds, None)));
        Checkpoint::new("run", members).write(path).unwrap();
    }

    #[test]
    fn what_is_put_together_is_what_one_population_would_have_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        write(&at("a"), &[300, 5], 1.0);
        write(&at("b"), &[70, 0], 1.0);
        write(&at("whole"), &[0, 5, 70, 300], 1.0);
        let [a, b] = ["a", "b"].map(|name| StoredMembers::find(&at(name), "run").unwrap().unwrap());
        assert_eq!(([5, 300, 70].map(|id| a.has(id)), b.has(70)), ([true, true, false], true));
        let put = write_members(&at("put"), "run", None, &[(0, &b), (5, &a), (70, &b), (300, &a)]).unwrap();
        assert_eq!(put.places, StoredMembers::find(&at("put"), "run").unwrap().unwrap().places);
        assert_eq!(std::fs::read(at("put")).unwrap(), std::fs::read(at("whole")).unwrap());
        assert_eq!(a.member(300).unwrap().unwrap().seconds, 1.0);
        assert!(a.member(70).unwrap().is_none());
        assert!(matches!(StoredMembers::find(&at("a"), "other"), Err(CheckpointError::OtherRun { .. })));
        assert!(StoredMembers::find(&at("none"), "run").unwrap().is_none());
    }

    /// It is stored, read with or without its chains, and survives being put together.
    #[test]
    fn how_far_chains_go_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let chains = [chain(3), chain(9)];
        let members = chains.iter().map(|chain| (chain.id, Member::of_search(chain, 1.0, None)));
        let reach = Some(Reach { burn_in: 1234, num_steps: 5678 });
        Checkpoint::new("run", members).reaching(reach).write(&at("a")).unwrap();
        let stored = StoredMembers::find(&at("a"), "run").unwrap().unwrap();
        assert_eq!(stored.reach(), reach);
        write_members(&at("b"), "run", reach, &[(3, &stored)]).unwrap();
        assert_eq!(StoredMembers::find(&at("b"), "run").unwrap().unwrap().reach(), reach);
        let bytes = std::fs::read(at("a")).unwrap();
        assert_eq!(num_chains_of_checkpoint(&at("a"), &bytes).unwrap(), 2);
        assert!(num_chains_of_checkpoint(&at("a"), &bytes[1..]).is_err());
    }

    #[test]
    fn chains_agree_where_all_but_their_time_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        write(&at("a"), &[5, 6], 1.0);
        write(&at("b"), &[5], 2.0);
        let mut other = chain(6);
        other.state.position[1] += 1e-6;
        Checkpoint::new("run", [(6, Member::of_search(&other, 1.0, None))]).write(&at("c")).unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| StoredMembers::find(&at(name), "run").unwrap().unwrap());
        assert!(a.agrees_on(5, &b).unwrap() && !a.agrees_on(6, &c).unwrap() && !a.agrees_on(6, &b).unwrap());
    }
}
