//! Checkpoints: a running population as a file, so that it can be resumed after the process has ended in any way.
//!
//! A file is magic, format, length, contents and the SHA-256 of all of it (`file.rs`). It is written beside and renamed, and
//! the one before is kept: whatever happens, at least one of the two is whole. The contents are the run's identity and its
//! chains by id, encoded by `postcard`: numbers keep all their bits.

mod file;
mod member;
mod members;
mod reach;

pub use file::CheckpointError;
pub(crate) use file::{forget, previous, set_aside};
pub(crate) use member::Member;
pub(crate) use members::{StoredMembers, write_members};
pub(crate) use reach::Reach;

use std::collections::BTreeMap;
use std::path::Path;

use postcard::de_flavors::Slice;
use serde::{Deserialize, Serialize};

/// A running population. Members are found by the ids of their chains, whatever the order in which chains are asked for.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Checkpoint<'a> {
    /// Names the run it belongs to.
    identity: String,
    /// How far its chains are to go, where that is decided on the way.
    reach: Option<Reach>,
    members: BTreeMap<u32, Member<'a>>,
}

impl<'a> Checkpoint<'a> {
    /// A population of these chains, each with its id.
    pub fn new(identity: &str, members: impl IntoIterator<Item = (u32, Member<'a>)>) -> Self {
        Self { identity: identity.into(), reach: None, members: members.into_iter().collect() }
    }

    /// The same population, whose chains are to go so far.
    pub fn reaching(self, reach: Option<Reach>) -> Self {
        Self { reach, ..self }
    }

    /// How far its chains are to go, where that is decided on the way.
    pub fn reach(&self) -> Option<Reach> {
        self.reach
    }

    /// The chain of this id.
    pub fn member(&self, id: u32) -> Option<&Member<'a>> {
        self.members.get(&id)
    }

    /// Writes a checkpoint; the one that was there becomes the one before.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        file::write(path, &self.contents())
    }

    fn contents(&self) -> Vec<u8> {
        postcard::to_extend(self, Vec::new()).expect("numbers, lists and texts can be written to memory")
    }
}

impl Checkpoint<'static> {
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
        let damaged = |reason: String| CheckpointError::Damaged { path: path.into(), reason };
        let mut deserializer = postcard::Deserializer::from_flavor(Slice::new(contents));
        let read = Self::deserialize(&mut deserializer);
        let num_left = deserializer.finalize().map_or(0, <[u8]>::len);
        let offset = file::HEADER + contents.len() - num_left;
        let checkpoint = read.map_err(|error| damaged(format!("byte {offset}: {error}")))?;
        if num_left > 0 {
            return Err(damaged(format!("byte {offset}: {num_left} bytes follow its last chain")));
        }
        match checkpoint.members.iter().find(|(_, member)| !member.has_seen_its_choice()) {
            Some((id, _)) => Err(damaged(format!("chain {id} has chosen a place that is not on its path"))),
            None => Ok(checkpoint),
        }
    }
}

/// How many chains a checkpoint has that is in memory, which is all that a test of bad input needs to know of it.
#[doc(hidden)]
pub fn num_chains_of_checkpoint(path: &Path, bytes: &[u8]) -> Result<usize, CheckpointError> {
    Ok(Checkpoint::from_contents(path, &file::contents(path, bytes.to_vec())?)?.members.len())
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use kelvin::network::{Layout, Network};
    use kelvin::sampler::{Chain, Divergence};
    use kelvin::selection::{Checkpoint as Visit, JointChoice};
    use kelvin::temperature::Temperature;
    use proptest::prelude::*;

    fn layout() -> Layout {
        Network::dense(2, &[3], 1).unwrap().layout()
    }

    fn start(id: u32) -> Chain {
        Chain::new(id, Temperature::new(0.3).unwrap(), vec![0.0; layout().len()], &layout())
    }

    /// A chain with every kind of number, and what it has chosen.
    fn example() -> (Chain, JointChoice) {
        let mut chain = start(70);
        chain.state.step = 12;
        chain.state.position = Network::dense(2, &[3], 1).unwrap().initial_parameters(0, 0);
        // A NaN with a payload and a sign, of which == and text would lose the bits.
        (chain.state.momentum[0], chain.state.momentum[1]) = (f32::from_bits(0xFFC1_2345), f32::NEG_INFINITY);
        (chain.state.momentum[2], chain.state.mass[0]) = (-0.0, f64::MIN_POSITIVE / 2.0);
        chain.state.log_beta = -0.25;
        chain.kinetic_all.record(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        chain.divergence = Some(Divergence { step: 12 });
        let visit = |step, validation_lpd| Visit { step, inverse_temperature: 0.1, validation_lpd };
        let choice = JointChoice {
            position: chain.state.position.clone(),
            statistics: vec![],
            inverse_temperature: 0.1,
            best: 1,
            path: vec![visit(5, f64::NAN), visit(10, -1.5)],
            divergence: None,
        };
        (chain, choice)
    }

    fn contents(chain: &Chain, choice: &JointChoice) -> Vec<u8> {
        let scores = [vec![], vec![0.5, f64::from_bits(0x7FF8_0000_0000_0001)]];
        let mut member = Member::of_sampled(chain, 1.5, 3, &scores, [&[1.0], &[], &[f64::INFINITY]]);
        member.choice = Some(Cow::Borrowed(choice));
        Checkpoint::new("run", [(chain.id, member)]).contents()
    }

    fn read(contents: &[u8]) -> Result<Checkpoint<'static>, CheckpointError> {
        Checkpoint::from_contents("a.checkpoint".as_ref(), contents)
    }

    #[test]
    fn everything_a_chain_needs_is_there_bit_by_bit() {
        let (chain, choice) = example();
        let bytes = contents(&chain, &choice);
        let checkpoint = read(&bytes).unwrap();
        let stored = checkpoint.member(70).unwrap();
        let restored = stored.restore(&start(70)).unwrap();
        let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&restored.state.momentum), bits(&chain.state.momentum));
        assert_eq!(restored.state.mass, chain.state.mass);
        assert_eq!(stored.scores[1][1].to_bits(), 0x7FF8_0000_0000_0001);
        assert_eq!(restored.kinetic_all, chain.kinetic_all);
        assert_eq!(stored.series, [vec![1.0], vec![], vec![f64::INFINITY]]);
        assert_eq!((restored.divergence, stored.num_draws, stored.seconds), (chain.divergence, 3, 1.5));
        assert_eq!(contents(&restored, stored.choice.as_ref().unwrap()), bytes);
    }

    #[test]
    fn members_are_found_by_name() {
        let chains: Vec<Chain> = [70, 6, 134].map(start).into();
        let members = chains.iter().map(|chain| (chain.id, Member::of_search(chain, f64::from(chain.id), None)));
        let checkpoint = read(&Checkpoint::new("run", members).contents()).unwrap();
        for id in [6, 70, 134] {
            assert_eq!(checkpoint.member(id).unwrap().seconds, f64::from(id));
        }
        assert!(checkpoint.member(7).is_none());
        let warmer = Chain { temperature: Temperature::new(0.4).unwrap(), ..start(70) };
        assert!(checkpoint.member(70).unwrap().restore(&warmer).is_none());
    }

    #[test]
    fn a_choice_that_was_not_seen_and_bytes_at_the_end_are_damage() {
        let (chain, mut choice) = example();
        let mut bytes = contents(&chain, &choice);
        bytes.push(0);
        assert!(read(&bytes).unwrap_err().to_string().contains("1 bytes follow its last chain"));
        choice.best = 2;
        assert!(read(&contents(&chain, &choice)).unwrap_err().to_string().contains("chain 70 has chosen a place"));
    }

    proptest! {
        /// The hash keeps damage out; if it ever did not, reading still must not panic or ask for endless memory.
        #[test]
        fn reading_never_panics(place in 0_usize..10_000, value in any::<u8>(), cut in any::<bool>()) {
            let (chain, choice) = example();
            let mut bytes = contents(&chain, &choice);
            let place = place % bytes.len();
            if cut { bytes.truncate(place) } else { bytes[place] = value }
            let read = read(&bytes);
            prop_assert!(!cut || read.is_err());
        }
    }
}
