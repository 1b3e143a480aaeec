//! Which rows a step visits: each epoch a fresh keyed order, cut into batches, the remainder dropped; and whether their
//! images are augmented.

use thiserror::Error;

use crate::data::Augmentation;
use crate::network::Rows;
use crate::random::{NoiseKey, Permutation, Purpose};

/// Why a batch size does not fit.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("a batch must have between 1 and {num_examples} rows (the training set), got {batch_size}")]
pub struct BatchSizeError {
    /// What was asked.
    pub batch_size: usize,
    /// Rows there are.
    pub num_examples: usize,
}

/// How an epoch is cut; `None` is one batch of all rows in their own order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batches {
    num_examples: usize,
    batch_size: Option<usize>,
    augmentation: Option<Augmentation>,
}

impl Batches {
    /// Batches of `batch_size` rows out of `num_examples`, or all rows at once.
    pub fn new(num_examples: usize, batch_size: Option<usize>) -> Result<Self, BatchSizeError> {
        match batch_size {
            Some(size) if size == 0 || size > num_examples => Err(BatchSizeError { batch_size: size, num_examples }),
            _ => Ok(Self { num_examples, batch_size, augmentation: None }),
        }
    }

    /// All rows at every step.
    pub fn full(num_examples: usize) -> Self {
        Self { num_examples, batch_size: None, augmentation: None }
    }

    /// The same batches with their images flipped and cropped, anew each time one is visited. Batches of all rows at once
    /// stay as they are.
    pub fn augmented(self, augmentation: Augmentation) -> Self {
        Self { augmentation: Some(augmentation).filter(|augmentation| augmentation.strength() > 0.0), ..self }
    }

    /// Steps of an epoch.
    pub fn steps_per_epoch(&self) -> u64 {
        self.batch_size.map_or(1, |size| (self.num_examples / size) as u64)
    }

    /// Whether every step visits all rows in their own order.
    pub fn is_full(&self) -> bool {
        self.batch_size.is_none()
    }

    /// Rows of a batch; `None` where every step visits all.
    pub fn batch_size(&self) -> Option<usize> {
        self.batch_size
    }

    /// How images are augmented, if they are.
    pub fn augmentation(&self) -> Option<Augmentation> {
        self.augmentation
    }

    /// n/|B|.
    pub fn weight(&self) -> f64 {
        self.batch_size.map_or(1.0, |size| self.num_examples as f64 / size as f64)
    }

    /// Writes the rows of a step.
    pub(super) fn rows<'s>(
        &self,
        seed: u64,
        purpose: Purpose,
        chain: u32,
        step: u64,
        store: &'s mut RowStore,
    ) -> Rows<'s> {
        let Some(size) = self.batch_size else { return Rows::All };
        let (epoch, batch) = (step / self.steps_per_epoch(), step % self.steps_per_epoch());
        let name = (purpose, epoch);
        if store.order.as_ref().is_none_or(|(of, _)| *of != name) {
            store.order = Some((name, Permutation::new(seed, purpose, chain, epoch, self.num_examples)));
        }
        if let Some((_, order)) = &store.order {
            let first = batch as usize * size;
            store.rows.resize(size, 0);
            order.fill(first, &mut store.rows);
        }
        match self.augmentation {
            None => Rows::These(&store.rows),
            Some(augmentation) => {
                let purpose = match purpose {
                    Purpose::Preconditioner => Purpose::PreconditionerAugmentation,
                    _ => Purpose::Augmentation,
                };
                let key = NoiseKey { seed, purpose, chain, step };
                Rows::Augmented { rows: &store.rows, augmentation, key }
            }
        }
    }
}

/// The rows of the current step and the order of the current epoch of one chain.
#[derive(Debug, Default)]
pub(super) struct RowStore {
    rows: Vec<u32>,
    order: Option<((Purpose, u64), Permutation)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_visits_rows_at_most_once_and_epochs_differ() {
        let batches = Batches::new(9547, Some(128)).unwrap();
        assert_eq!(batches.steps_per_epoch(), 74);
        let mut store = RowStore::default();
        let epoch = |first: u64, store: &mut RowStore| {
            let mut seen = Vec::new();
            for step in first..first + 74 {
                let Rows::These(rows) = batches.rows(1, Purpose::BatchOrder, 0, step, store) else { panic!() };
                assert_eq!(rows.len(), 128);
                seen.extend_from_slice(rows);
            }
            seen
        };
        let (first, second) = (epoch(0, &mut store), epoch(74, &mut store));
        let mut sorted = first.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 74 * 128);
        assert_ne!(first, second);
        assert_eq!(first, epoch(0, &mut RowStore::default()), "the same name gives the same rows");
    }

    /// Step 3 of two steps an epoch is the second batch of epoch 1.
    #[test]
    fn a_step_takes_its_own_part_of_its_epochs_order() {
        let batches = Batches::new(10, Some(4)).unwrap();
        let order = Permutation::new(9, Purpose::BatchOrder, 6, 1, 10);
        let expected: Vec<u32> = (4..8).map(|position| order.at(position) as u32).collect();
        let mut store = RowStore::default();
        for step in [0, 3] {
            let Rows::These(rows) = batches.rows(9, Purpose::BatchOrder, 6, step, &mut store) else { panic!() };
            assert_eq!(rows == expected, step == 3, "step {step}");
        }
    }

    #[test]
    fn augmentation_is_named_by_purpose_chain_and_step() {
        let batches = Batches::new(20, Some(5)).unwrap();
        let augmented = batches.augmented(Augmentation::new(0.5).unwrap());
        let mut store = RowStore::default();
        let Rows::These(plain) = batches.rows(1, Purpose::BatchOrder, 3, 7, &mut store) else { panic!() };
        let plain = plain.to_vec();
        let Rows::Augmented { rows, augmentation, key } = augmented.rows(1, Purpose::BatchOrder, 3, 7, &mut store)
        else {
            panic!()
        };
        assert_eq!((rows, augmentation.strength()), (&plain[..], 0.5), "the rows do not depend on the augmentation");
        assert_eq!(key, NoiseKey { seed: 1, purpose: Purpose::Augmentation, chain: 3, step: 7 });
        let Rows::Augmented { key, .. } = augmented.rows(1, Purpose::Preconditioner, 3, 7, &mut store) else {
            panic!()
        };
        assert_eq!(key.purpose, Purpose::PreconditionerAugmentation);
        let none = batches.augmented(Augmentation::new(0.0).unwrap());
        assert_eq!(none, batches, "strength 0 is no augmentation");
    }

    #[test]
    fn full_batches_are_one_step_and_bad_sizes_are_refused() {
        let full = Batches::new(824, None).unwrap();
        assert_eq!((full.steps_per_epoch(), full.weight(), full.is_full()), (1, 1.0, true));
        let parts = Batches::new(10, Some(4)).unwrap();
        assert_eq!((parts.steps_per_epoch(), parts.weight(), parts.is_full()), (2, 2.5, false));
        let all = Batches::new(10, Some(10)).unwrap();
        assert_eq!((all.steps_per_epoch(), all.weight()), (1, 1.0));
        assert!(Batches::new(10, Some(0)).is_err());
        let error = Batches::new(10, Some(11)).unwrap_err();
        assert_eq!(error.to_string(), "a batch must have between 1 and 10 rows (the training set), got 11");
    }

    #[test]
    fn batches_say_what_they_are() {
        let batches = Batches::new(20, Some(5)).unwrap();
        assert_eq!((batches.batch_size(), batches.augmentation()), (Some(5), None));
        let augmentation = Augmentation::new(0.5).unwrap();
        assert_eq!(batches.augmented(augmentation).augmentation(), Some(augmentation));
        assert_eq!(Batches::full(20).batch_size(), None);
    }
}
