//! One chain in a checkpoint: its state, its averages, its divergence, and what it has chosen so far.

use super::MemberParts;
use super::bytes::{Reader, Writer};
use crate::diagnostics::KineticTemperature;
use crate::sampler::{Chain, ChainState, Divergence};
use crate::selection::{Checkpoint as Visit, JointChoice};

/// A chain as it was written.
#[derive(Debug, PartialEq)]
pub struct Member {
    id: u64,
    temperature: f64,
    state: ChainState,
    kinetic_all: Averages,
    kinetic_kept: Averages,
    divergence: Option<Divergence>,
    /// Draws kept so far.
    pub num_draws: u64,
    /// Time spent on it so far.
    pub seconds: f64,
    /// The best of a search so far.
    pub choice: Option<JointChoice>,
    /// What its draws predict so far.
    pub scores: Vec<Vec<f64>>,
    /// What was measured at its draws, where these are not stored.
    pub series: [Vec<f64>; 3],
}

/// Means of each tensor over so many readings.
type Averages = (Vec<f64>, u64);

impl MemberParts<'_> {
    pub(super) fn write(&self, writer: &mut Writer) {
        let Chain { id, temperature, state, kinetic_all, kinetic_kept, divergence } = self.chain;
        writer.u64(u64::from(*id));
        writer.f64(temperature.value());
        writer.u64(state.step);
        writer.f32s(&state.position);
        writer.f32s(&state.momentum);
        writer.f64s(&state.mass);
        writer.f64(state.log_beta);
        writer.f64(state.log_beta_velocity);
        writer.f32s(&state.statistics);
        for kinetic in [kinetic_all, kinetic_kept] {
            writer.f64s(kinetic.tensor_means());
            writer.u64(kinetic.num_readings());
        }
        write_divergence(writer, *divergence);
        writer.u64(self.num_draws);
        writer.f64(self.seconds);
        writer.flag(self.choice.is_some());
        if let Some(choice) = self.choice {
            write_choice(writer, choice);
        }
        writer.count(self.scores.len());
        self.scores.iter().for_each(|numbers| writer.f64s(numbers));
        self.series.iter().for_each(|numbers| writer.f64s(numbers));
    }
}

impl Member {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            id: reader.u64()?,
            temperature: reader.f64()?,
            state: ChainState {
                step: reader.u64()?,
                position: reader.f32s()?,
                momentum: reader.f32s()?,
                mass: reader.f64s()?,
                log_beta: reader.f64()?,
                log_beta_velocity: reader.f64()?,
                statistics: reader.f32s()?,
                auxiliary: Vec::new(),
            },
            kinetic_all: (reader.f64s()?, reader.u64()?),
            kinetic_kept: (reader.f64s()?, reader.u64()?),
            divergence: read_divergence(reader)?,
            num_draws: reader.u64()?,
            seconds: reader.f64()?,
            choice: if reader.flag()? { Some(read_choice(reader)?) } else { None },
            scores: (0..reader.count()?).map(|_| reader.f64s()).collect::<Option<_>>()?,
            series: [reader.f64s()?, reader.f64s()?, reader.f64s()?],
        })
    }

    /// What the sampler carries, which stands behind all members.
    pub(super) fn read_auxiliary(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        self.state.auxiliary = reader.f64s()?;
        Some(())
    }

    /// The chain as it was, given the same chain at its start; `None` where it is another's.
    pub fn restore(&self, start: &Chain) -> Option<Chain> {
        let same = self.id == u64::from(start.id)
            && self.temperature == start.temperature.value()
            && self.state.position.len() == start.state.position.len()
            && self.state.momentum.len() == start.state.momentum.len()
            && self.state.mass.len() == start.state.mass.len()
            && self.choice.as_ref().is_none_or(|choice| choice.position.len() == start.state.position.len());
        let sizes = start.kinetic_all.tensor_sizes();
        let averages = |(means, num_readings): &Averages| KineticTemperature::from_means(sizes, means, *num_readings);
        same.then_some(Chain {
            id: start.id,
            temperature: start.temperature,
            state: self.state.clone(),
            kinetic_all: averages(&self.kinetic_all)?,
            kinetic_kept: averages(&self.kinetic_kept)?,
            divergence: self.divergence,
        })
    }
}

fn write_divergence(writer: &mut Writer, divergence: Option<Divergence>) {
    writer.flag(divergence.is_some());
    writer.u64(divergence.map_or(0, |divergence| divergence.step));
}

fn read_divergence(reader: &mut Reader<'_>) -> Option<Option<Divergence>> {
    let (is_there, step) = (reader.flag()?, reader.u64()?);
    Some(is_there.then_some(Divergence { step }))
}

fn write_choice(writer: &mut Writer, choice: &JointChoice) {
    writer.f32s(&choice.position);
    writer.f32s(&choice.statistics);
    writer.f64(choice.inverse_temperature);
    writer.count(choice.best);
    writer.count(choice.path.len());
    for visit in &choice.path {
        writer.u64(visit.step);
        writer.f64(visit.inverse_temperature);
        writer.f64(visit.validation_lpd);
    }
    write_divergence(writer, choice.divergence);
}

fn read_choice(reader: &mut Reader<'_>) -> Option<JointChoice> {
    let (position, statistics, inverse_temperature) = (reader.f32s()?, reader.f32s()?, reader.f64()?);
    let (best, num_visits) = (reader.count()?, reader.count()?);
    let mut visit =
        || Some(Visit { step: reader.u64()?, inverse_temperature: reader.f64()?, validation_lpd: reader.f64()? });
    let path: Vec<Visit> = (0..num_visits).map(|_| visit()).collect::<Option<_>>()?;
    let divergence = read_divergence(reader)?;
    (best < path.len()).then_some(JointChoice { position, statistics, inverse_temperature, best, path, divergence })
}

#[cfg(test)]
mod tests {
    use super::super::Checkpoint;
    use super::*;
    use crate::network::Network;
    use crate::temperature::Temperature;
    use proptest::prelude::*;

    fn example() -> (Chain, JointChoice) {
        let network = Network::dense(2, &[3], 1).unwrap();
        let (layout, position) = (network.layout(), network.initial_parameters(0, 0));
        let mut chain = Chain::new(70, Temperature::new(0.3).unwrap(), position.clone(), &layout);
        chain.state.step = 12;
        chain.state.momentum[1] = f32::NAN;
        chain.state.log_beta = -0.25;
        chain.kinetic_all.record(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        chain.divergence = Some(Divergence { step: 12 });
        let visit = |step, validation_lpd| Visit { step, inverse_temperature: 0.1, validation_lpd };
        let path = vec![visit(5, f64::NAN), visit(10, -1.5)];
        let divergence = None;
        (chain, JointChoice { position, statistics: vec![], inverse_temperature: 0.1, best: 1, path, divergence })
    }

    fn contents(chain: &Chain, choice: &JointChoice) -> Vec<u8> {
        let (choice, scores) = (Some(choice), &[vec![], vec![0.5, f64::NAN]][..]);
        let member = MemberParts { chain, num_draws: 3, seconds: 1.5, choice, scores, series: [&[1.0], &[], &[2.0]] };
        super::super::contents("run", [member].into_iter())
    }

    /// Chains without auxiliary numbers are written as before there were any, so that their runs can go on.
    #[test]
    fn auxiliary_numbers_stand_behind_all_else() {
        let (mut chain, choice) = example();
        let without = contents(&chain, &choice);
        chain.state.auxiliary = vec![0.5];
        let with = contents(&chain, &choice);
        assert_eq!(with[..without.len()], without);
        let auxiliary = |bytes: &[u8]| {
            let read = Checkpoint::from_contents("a.checkpoint".as_ref(), bytes).unwrap();
            read.members[0].restore(&chain).unwrap().state.auxiliary
        };
        assert_eq!((auxiliary(&with), auxiliary(&without)), (vec![0.5], vec![]));
    }

    #[test]
    fn everything_a_chain_needs_is_there_bit_by_bit() {
        let (chain, choice) = example();
        let bytes = contents(&chain, &choice);
        let read = Checkpoint::from_contents("a.checkpoint".as_ref(), &bytes).unwrap();
        let member = &read.members[0];
        let start = Chain::new(70, chain.temperature, vec![0.0; chain.state.position.len()], &layout());
        let restored = member.restore(&start).unwrap();
        assert_eq!(contents(&restored, member.choice.as_ref().unwrap()), bytes);
        assert_eq!(restored.kinetic_all, chain.kinetic_all);
        assert_eq!(member.series, [vec![1.0], vec![], vec![2.0]]);
        assert_eq!((restored.divergence, member.num_draws, member.seconds), (chain.divergence, 3, 1.5));
        let other = Chain::new(71, chain.temperature, start.state.position.clone(), &layout());
        assert!(member.restore(&other).is_none());
    }

    fn layout() -> crate::network::Layout {
        Network::dense(2, &[3], 1).unwrap().layout()
    }

    proptest! {
        /// The hash keeps damage out; if it ever did not, reading still must not panic or ask for endless memory.
        #[test]
        fn reading_never_panics(place in 0_usize..10_000, value in any::<u8>(), cut in any::<bool>()) {
            let (chain, choice) = example();
            let mut bytes = contents(&chain, &choice);
            let place = place % bytes.len();
            if cut { bytes.truncate(place) } else { bytes[place] = value }
            let read = Checkpoint::from_contents("a.checkpoint".as_ref(), &bytes);
            prop_assert!(!cut || read.is_err());
        }
    }
}
