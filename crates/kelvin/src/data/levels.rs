//! A column of text as inputs: one for each level, and where there are many, for the most frequent, for hashes of the others and for the frequency.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The most levels that have an input of their own.
pub(super) const MOST_LEVELS: usize = 12;
/// A level with fewer training rows than this shares an input.
const FEWEST_ROWS: u64 = 3;
/// Inputs that the other levels of a column with many are dealt out to.
const NUM_BUCKETS: usize = 8;

/// The levels of the training rows and how they become inputs; nothing here looks at the target.
///
/// In order: a 0 or 1 for each of `own`; where `is_hashed`, a 0 or 1 for each of eight buckets that the other training levels are dealt out to
/// by their names, and ln(1 + training rows of the level); a 0 or 1 for other levels, those that no training row has among them; where
/// training rows miss the value, a 0 or 1 for that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Levels {
    /// The levels that have an input of their own, the most frequent first.
    pub own: Vec<String>,
    /// Training rows of every level.
    pub counts: BTreeMap<String, u64>,
    /// Whether there are more levels than inputs.
    pub is_hashed: bool,
    /// Whether training rows miss the value.
    pub has_missing: bool,
}

impl Levels {
    /// Counts levels; none is a row that misses the value.
    pub(super) fn fit<'a>(rows: impl Iterator<Item = Option<&'a str>>) -> Self {
        let (mut counts, mut has_missing) = (BTreeMap::<&str, u64>::new(), false);
        for level in rows {
            match level {
                Some(level) => *counts.entry(level).or_default() += 1,
                None => has_missing = true,
            }
        }
        let mut frequent: Vec<(&str, u64)> = counts.iter().map(|(&level, &count)| (level, count)).collect();
        frequent.retain(|(_, count)| *count >= FEWEST_ROWS);
        frequent.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let is_hashed = frequent.len() > MOST_LEVELS;
        let own = frequent.iter().take(MOST_LEVELS).map(|&(level, _)| level.to_owned()).collect();
        let counts = counts.into_iter().map(|(level, count)| (level.to_owned(), count)).collect();
        Self { own, counts, is_hashed, has_missing }
    }

    /// Whether a training row has this level.
    pub fn knows(&self, level: &str) -> bool {
        self.counts.contains_key(level)
    }

    /// What each input says, in order.
    pub(super) fn inputs(&self) -> Vec<LevelInput<'_>> {
        let mut inputs: Vec<_> = self.own.iter().map(|level| LevelInput::Is(level)).collect();
        if self.is_hashed {
            inputs.extend((0..NUM_BUCKETS).map(LevelInput::Bucket));
            inputs.push(LevelInput::Frequency);
        }
        inputs.push(LevelInput::Other);
        if self.has_missing {
            inputs.push(LevelInput::Missing);
        }
        inputs
    }

    /// The numbers of a level, or of a row that misses the value.
    pub(super) fn encode(&self, level: Option<&str>) -> Vec<f64> {
        let is = |yes: bool| if yes { 1.0 } else { 0.0 };
        let has_own = level.is_some_and(|level| self.own.iter().any(|own| own == level));
        let count = level.and_then(|level| self.counts.get(level));
        let number = |input: LevelInput<'_>| match input {
            LevelInput::Is(own) => is(level == Some(own)),
            LevelInput::Bucket(bucket) => {
                is(level.is_some_and(|level| count.is_some() && !has_own && bucket_of(level) == bucket))
            }
            LevelInput::Frequency if level.is_none() => f64::NAN,
            LevelInput::Frequency => (count.copied().unwrap_or(0) as f64).ln_1p(),
            LevelInput::Other if level.is_none() => is(!self.has_missing),
            LevelInput::Other => is(!(has_own || self.is_hashed && count.is_some())),
            LevelInput::Missing => is(level.is_none()),
        };
        self.inputs().into_iter().map(number).collect()
    }
}

/// What one input of a column of text says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LevelInput<'a> {
    /// Whether it is this level.
    Is(&'a str),
    /// Whether it is one of the levels of a bucket.
    Bucket(usize),
    /// How frequent the level is.
    Frequency,
    /// Whether it is a level that shares this input: a rare one, or one that no training row has.
    Other,
    /// Whether the value is missing.
    Missing,
}

/// FNV-1a over the bytes: the same bucket everywhere and for ever.
fn bucket_of(level: &str) -> usize {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    let hash = level.bytes().fold(0xCBF2_9CE4_8422_2325, step);
    ((hash ^ (hash >> 32)) % NUM_BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_levels_have_an_input_each() {
        let rows = ["b", "a", "b", "a", "b", "rare", "a"];
        let levels = Levels::fit(rows.into_iter().map(Some));
        assert_eq!(levels.own, ["a", "b"]);
        assert_eq!(levels.encode(Some("b")), [0.0, 1.0, 0.0]);
        for other in [Some("rare"), Some("never seen"), None] {
            assert_eq!(levels.encode(other), [0.0, 0.0, 1.0], "{other:?}");
        }
        assert!(levels.knows("rare") && !levels.knows("never seen"));
        let levels = Levels::fit([Some("a"), None, Some("a"), Some("a")].into_iter());
        assert_eq!((levels.encode(None), levels.encode(Some("a"))), (vec![0.0, 0.0, 1.0], vec![1.0, 0.0, 0.0]));
    }

    #[test]
    fn many_levels_share_buckets_and_tell_their_frequency() {
        let names: Vec<String> = (0..20).map(|level| format!("level {level:02}")).collect();
        let rows = names.iter().enumerate().flat_map(|(at, name)| std::iter::repeat_n(Some(name.as_str()), 24 - at));
        let levels = Levels::fit(rows);
        assert!(levels.is_hashed && levels.own[0] == "level 00" && levels.own.len() == MOST_LEVELS);
        let width = MOST_LEVELS + NUM_BUCKETS + 2;
        let frequent = levels.encode(Some("level 00"));
        assert_eq!(
            (frequent.len(), frequent[0], frequent[width - 2], frequent[width - 1]),
            (width, 1.0, 25f64.ln(), 0.0)
        );
        let hashed = levels.encode(Some("level 19"));
        assert_eq!(hashed[..MOST_LEVELS + NUM_BUCKETS].iter().sum::<f64>(), 1.0);
        assert_eq!((hashed[width - 2], hashed[width - 1]), (6f64.ln(), 0.0));
        let unseen = levels.encode(Some("never seen"));
        assert_eq!(unseen.iter().sum::<f64>(), 1.0);
        assert_eq!((unseen[width - 2], unseen[width - 1]), (0.0, 1.0));
    }
}
