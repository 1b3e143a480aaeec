//! Which part of a study is carried out: all of it, its searches, one shard of its chains, or what puts shards together.

use std::ops::Range;
use std::path::PathBuf;

use crate::folder::Shard;

/// The part of a study that is carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Piece {
    /// All of it.
    #[default]
    Whole,
    /// The searches for β and the pilot, which everything else starts from.
    Search,
    /// One shard of its chains, whose searches are done: in a folder of its own, scored as they are kept, and not put together.
    Shard(Shard),
    /// What follows once every chain is sampled: chains are taken from shards, or, where folders are named, from runs of single repetitions.
    Merge(Vec<PathBuf>),
}

impl Piece {
    /// Whether the searches were made by another process, whose checkpoint is only read.
    pub(crate) fn is_searched_elsewhere(&self) -> bool {
        match self {
            Self::Shard(_) => true,
            Self::Merge(repetitions) => repetitions.is_empty(),
            Self::Whole | Self::Search => false,
        }
    }
}

/// The chains of a shard: of each population (`lengths` are their numbers of chains) those that are its own. Populations that decide together how
/// long they are stay whole.
pub(crate) fn own_chains(lengths: &[usize], are_whole: bool, shard: Shard) -> Vec<(usize, Range<usize>)> {
    if are_whole {
        return shard.own(lengths.len()).map(|index| (index, 0..lengths[index])).collect();
    }
    let own = shard.own(lengths.iter().sum());
    let mut first = 0;
    let mut found = Vec::new();
    for (index, &length) in lengths.iter().enumerate() {
        let (begin, end) = (own.start.clamp(first, first + length), own.end.clamp(first, first + length));
        if begin < end {
            found.push((index, begin - first..end - first));
        }
        first += length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cut_populations_unless_these_are_to_stay_whole() {
        let of = |shard: &str, whole| own_chains(&[4, 0, 6], whole, shard.parse().unwrap());
        assert_eq!(of("1/2", false), [(0, 0..4), (2, 0..1)]);
        assert_eq!(of("2/2", false), [(2, 1..6)]);
        assert_eq!(of("1/20", false), []);
        assert_eq!(of("2/2", true), [(1, 0..0), (2, 0..6)]);
        let mut all: Vec<(usize, usize)> = Vec::new();
        for shard in Shard::all(50) {
            let own = own_chains(&[4, 0, 6], false, shard);
            all.extend(own.into_iter().flat_map(|(index, range)| range.map(move |chain| (index, chain))));
        }
        assert_eq!(all.len(), 10);
        assert!(all.is_sorted());
    }
}
