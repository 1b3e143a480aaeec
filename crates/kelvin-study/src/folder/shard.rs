//! Shards: the chains of a study dealt out in parts, each carried out on its own, in a folder of its own inside the run folder.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::resume_command;

/// The name of the folder of shards in a run folder.
pub const SHARDS: &str = "shards";
/// The most shards of a study.
const MOST: u32 = 100_000;

/// One of so many equal parts of a study's chains: "3/8".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Shard {
    count: u32,
    number: u32,
}

impl Shard {
    /// The number of parts.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Which of them it is, from 1.
    pub fn number(self) -> u32 {
        self.number
    }

    /// All shards of so many.
    pub fn all(count: u32) -> impl Iterator<Item = Self> {
        (1..=count).map(move |number| Self { count, number })
    }

    /// Its folder in a run folder.
    pub fn folder(self, run: &Path) -> PathBuf {
        run.join(SHARDS).join(format!("{}-of-{}", self.number, self.count))
    }

    /// The shards that a run folder holds, begun or not, in order.
    pub fn found_in(run: &Path) -> Vec<Self> {
        let entries = run.join(SHARDS).read_dir().into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut found: Vec<Self> = names.filter_map(|name| name.replacen("-of-", "/", 1).parse().ok()).collect();
        found.sort();
        found
    }

    /// Into how many parts a study was dealt, of which these were found: the number of which there are most.
    pub fn most_common_count(found: impl IntoIterator<Item = Self>) -> Option<u32> {
        let mut begun: BTreeMap<u32, usize> = BTreeMap::new();
        for shard in found {
            *begun.entry(shard.count).or_default() += 1;
        }
        begun.into_iter().max_by_key(|(_, number)| *number).map(|(count, _)| count)
    }

    /// Which of so many pieces of work are its own: neighbours, and as many as others have, or one more or less.
    pub fn own(self, num_pieces: usize) -> Range<usize> {
        let until = |number: u32| (num_pieces as u64 * u64::from(number) / u64::from(self.count)) as usize;
        until(self.number - 1)..until(self.number)
    }

    /// The command line that carries it out, or goes on with it.
    pub fn command(self, run: &Path) -> String {
        format!("{} --shard {self}", resume_command(run))
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, count) = text.split_once('/').ok_or("write it as i/n: 3/8 is the third of eight")?;
        let whole = |text: &str| {
            let number = text.parse::<u32>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
            number.ok_or_else(|| format!("`{text}` is no whole number; 3/8 is the third of eight"))
        };
        let (number, count) = (whole(number)?, whole(count)?);
        if count == 0 || count > MOST {
            return Err(format!("there may be 1 to {MOST} shards, got {count}"));
        }
        if number == 0 || number > count {
            return Err(format!("shards of {count} are numbered from 1 to {count}, got {number}"));
        }
        Ok(Self { count, number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_in_one_shard_and_shards_are_of_one_size() {
        for (num_pieces, count) in [(12, 1), (12, 3), (12, 50), (0, 4), (10_000, 999)] {
            let owns: Vec<Range<usize>> = Shard::all(count).map(|shard| shard.own(num_pieces)).collect();
            assert_eq!(owns.iter().cloned().flatten().collect::<Vec<_>>(), (0..num_pieces).collect::<Vec<_>>());
            let (least, most) = (owns.iter().map(Range::len).min(), owns.iter().map(Range::len).max());
            assert!(most.unwrap() - least.unwrap() <= 1, "{num_pieces} in {count}");
        }
    }

    #[test]
    fn a_shard_is_written_as_a_fraction_and_found_by_its_folder() {
        let shard: Shard = "3/8".parse().unwrap();
        assert_eq!((shard.number(), shard.count(), shard.to_string()), (3, 8, "3/8".into()));
        for wrong in ["", "3", "0/8", "9/8", "1/0", "a/b", "-1/8", "+1/8", " 1/8", "1/100001", "3/8/2"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
        let run = tempfile::tempdir().unwrap();
        assert_eq!(Shard::found_in(run.path()), []);
        for shard in ["10/12", "2/12", "1/3"].map(|text| text.parse::<Shard>().unwrap()) {
            std::fs::create_dir_all(shard.folder(run.path())).unwrap();
        }
        std::fs::create_dir(run.path().join(SHARDS).join("notes")).unwrap();
        let found: Vec<String> = Shard::found_in(run.path()).iter().map(Shard::to_string).collect();
        assert_eq!(found, ["1/3", "2/12", "10/12"]);
    }
}
