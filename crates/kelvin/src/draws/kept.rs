//! The kept draws of one chain, wherever they are.

use std::borrow::Cow;
use std::path::Path;

use super::error::DrawsError;
use super::log::{DrawLog, DrawShape};
use super::lot::Lot;
use super::measurements::Measurements;
use super::stored_weights::StoredWeights;
use crate::network::Weights;

/// The kept states of one chain with what was measured at each.
#[derive(Debug, Default, PartialEq)]
pub struct Draws {
    /// U(θ) = −log p(θ) − Σ log p(y|x,θ), one for each draw, whatever the temperature divides. Summed over all training
    /// rows, or over those of `sampler.energy_rows` and scaled up; with batch norm over batches of the sampler's size in
    /// row order, each with its own statistics, a remainder dropped and made up for by the scale. Images count as they
    /// are, also where training batches are augmented.
    pub potential_energy: Vec<f64>,
    /// ⟨θ, ∇E⟩/d over the same rows, one for each draw; E is what the sampler moves on: U, or U with its likelihood
    /// tempered.
    pub configurational_temperature: Vec<f64>,
    /// Σ m²/M / d, one for each draw; empty for samplers without momentum.
    pub kinetic_temperature: Vec<f64>,
    pub(super) place: Place,
}

/// Where weights and statistics of batch norms are.
#[derive(Debug, PartialEq)]
pub(super) enum Place {
    Memory(Lot<'static>),
    Log(DrawLog),
    File(StoredWeights),
    /// Only what was measured is kept.
    Nowhere {
        dim: usize,
        count: usize,
    },
}

impl Default for Place {
    fn default() -> Self {
        Self::Memory(Lot::default())
    }
}

impl Draws {
    /// None yet, of so many numbers each, to be kept in memory.
    pub fn in_memory(dim: usize) -> Self {
        Self { place: Place::Memory(Lot { dim, ..Lot::default() }), ..Self::default() }
    }

    /// None yet, of so many numbers each, of which only what is measured is to be kept.
    pub fn unstored(dim: usize) -> Self {
        Self { place: Place::Nowhere { dim, count: 0 }, ..Self::default() }
    }

    /// Unstored draws that were measured before, in the order of [`Draws::series`]; `None` where this does not fit together.
    pub fn with_series(self, series: [Vec<f64>; 3]) -> Option<Self> {
        let [potential_energy, configurational_temperature, kinetic_temperature] = series;
        let count = potential_energy.len();
        let fits = configurational_temperature.len() == count && [0, count].contains(&kinetic_temperature.len());
        let place = Place::Nowhere { dim: self.dim(), count };
        fits.then_some(Self { potential_energy, configurational_temperature, kinetic_temperature, place })
    }

    /// None yet, to be kept in a new log in place of what is there.
    ///
    /// # Errors
    /// Where the log cannot be written.
    pub fn create_log(path: &Path, shape: DrawShape) -> Result<Self, DrawsError> {
        Ok(Self { place: Place::Log(DrawLog::create(path, shape)?), ..Self::default() })
    }

    /// The first `count` draws of a log, to go on from there; what comes after them is cut off.
    ///
    /// # Errors
    /// [`DrawsError::Damaged`] where one of them is not whole; the file is then as it was.
    pub fn reopen_log(path: &Path, shape: DrawShape, count: usize) -> Result<Self, DrawsError> {
        let (log, measured) = DrawLog::reopen(path, shape, count)?;
        let mut draws = Self { place: Place::Log(log), ..Self::default() };
        measured.into_iter().for_each(|measured| draws.note(measured));
        Ok(draws)
    }

    /// Flushes what was kept to disk, where it is kept there.
    ///
    /// # Errors
    /// What the file system says.
    pub fn sync(&self) -> Result<(), DrawsError> {
        if let Place::Log(log) = &self.place { log.sync() } else { Ok(()) }
    }

    fn note(&mut self, measured: Measurements) {
        self.potential_energy.push(measured.potential_energy);
        self.configurational_temperature.push(measured.configurational_temperature);
        self.kinetic_temperature.extend(measured.kinetic_temperature);
    }

    /// A single point without measurements, for example what an optimiser found.
    pub fn of_point(weights: Weights<'_>) -> Self {
        let mut draws = Self::in_memory(weights.parameters.len());
        if let Place::Memory(lot) = &mut draws.place {
            lot.push(weights);
        }
        draws
    }

    /// Adds a draw.
    ///
    /// # Errors
    /// Where they are on disk and cannot be written.
    pub fn push(&mut self, weights: Weights<'_>, measured: Measurements) -> Result<(), DrawsError> {
        match &mut self.place {
            Place::Memory(lot) => lot.push(weights),
            Place::Log(log) => log.append(weights, measured)?,
            Place::File(file) => return Err(file.cannot_grow()),
            Place::Nowhere { count, .. } => *count += 1,
        }
        self.note(measured);
        Ok(())
    }

    /// Sets memory aside for so many draws in all; growing by doubling would hold up to three times what is kept.
    pub fn reserve(&mut self, num_draws: u64) {
        if let Place::Memory(lot) = &mut self.place {
            lot.reserve(num_draws);
        }
    }

    /// How many draws there are.
    pub fn len(&self) -> usize {
        match &self.place {
            Place::Memory(lot) => lot.len(),
            Place::Log(log) => log.len(),
            Place::File(file) => file.len(),
            Place::Nowhere { count, .. } => *count,
        }
    }

    /// Whether nothing was kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether they are in a log, which is no place to stay.
    pub fn is_log(&self) -> bool {
        matches!(self.place, Place::Log(_))
    }

    /// Whether their weights can be read.
    pub fn are_stored(&self) -> bool {
        !matches!(self.place, Place::Nowhere { .. })
    }

    /// Numbers in a position.
    pub fn dim(&self) -> usize {
        match &self.place {
            Place::Memory(lot) => lot.dim,
            Place::Log(log) => log.shape().dim,
            Place::File(file) => file.shape().dim,
            Place::Nowhere { dim, .. } => *dim,
        }
    }

    /// The weights of all draws in order, at most `most` at a time: no more than these are in memory.
    pub fn lots(&self, most: usize) -> impl Iterator<Item = Result<Lot<'_>, DrawsError>> {
        let (count, most) = (self.len(), most.max(1));
        (0..count).step_by(most).map(move |first| {
            let range = first..count.min(first + most);
            match &self.place {
                Place::Memory(lot) => Ok(lot.part(range)),
                Place::Log(log) => log.read(range),
                Place::File(file) => file.read(range),
                Place::Nowhere { .. } => Err(DrawsError::NotStored),
            }
        })
    }

    /// The weights of all draws at once.
    ///
    /// # Errors
    /// Where they are on disk and cannot be read.
    pub fn all(&self) -> Result<Lot<'_>, DrawsError> {
        let nothing = Lot { positions: Cow::default(), statistics: Cow::default(), dim: self.dim() };
        self.lots(usize::MAX).next().unwrap_or(Ok(nothing))
    }

    /// The series of energies, temperatures and norms, one number a draw, as checkpoints keep them.
    pub fn series(&self) -> [&Vec<f64>; 3] {
        [&self.potential_energy, &self.configurational_temperature, &self.kinetic_temperature]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(energy: f64) -> Measurements {
        Measurements { potential_energy: energy, configurational_temperature: 0.5, kinetic_temperature: None }
    }

    #[test]
    fn draws_that_are_not_stored_are_counted_and_measured() {
        let (mut kept, mut unstored) = (Draws::in_memory(3), Draws::unstored(3));
        for energy in [1.0, 2.0] {
            let weights = Weights { parameters: &[0.5; 3], statistics: &[] };
            kept.push(weights, measured(energy)).unwrap();
            unstored.push(weights, measured(energy)).unwrap();
        }
        for draws in [&kept, &unstored] {
            assert_eq!((draws.len(), draws.dim(), draws.is_empty(), draws.is_log()), (2, 3, false, false));
            assert_eq!(draws.potential_energy, [1.0, 2.0]);
        }
        assert!(kept.are_stored() && !unstored.are_stored());
    }

    /// A kinetic temperature is known of all draws or of none.
    #[test]
    fn series_that_were_measured_before_must_fit_together() {
        let with = |lengths: [usize; 3]| Draws::unstored(4).with_series(lengths.map(|len| vec![0.25; len]));
        let draws = with([3, 3, 0]).unwrap();
        assert_eq!((draws.len(), draws.dim(), draws.configurational_temperature.len()), (3, 4, 3));
        assert_eq!(with([3, 3, 3]).unwrap().kinetic_temperature.len(), 3);
        assert!(with([3, 2, 3]).is_none() && with([3, 3, 2]).is_none() && with([3, 2, 2]).is_none());
    }

    #[test]
    fn room_is_set_aside_once_for_all_draws() {
        let mut draws = Draws::in_memory(2);
        draws.reserve(100);
        let Place::Memory(lot) = &draws.place else { panic!("memory") };
        let Cow::Owned(positions) = &lot.positions else { panic!("its own") };
        assert!((200..300).contains(&positions.capacity()), "{}", positions.capacity());
        assert!(lot.is_empty());
        draws.push(Weights { parameters: &[1.0, 2.0], statistics: &[] }, measured(0.0)).unwrap();
        let Place::Memory(lot) = &draws.place else { panic!("memory") };
        assert_eq!((lot.is_empty(), lot.len()), (false, 1));
    }
}
