//! Finds masses and step size of a chain while it warms up, from states that it visits itself.
//!
//! ```text
//! M of a tensor  =  mean Gauss–Newton diagonal over the tensor and the latest states, divided so that Σ log M over all parameters is 0
//! h              =  1.2 / √λmax of M^{-1/2} ∇²U M^{-1/2},   γ = 4,     μ' = e^{−hγ}
//! ```
//! with the largest λmax of all looks in the second half of the warm-up. Until then, and where curvature may grow beyond what a warm-up sees
//! ([`Potential::curvature_grows`]), it is 1/√λmax, or a share of it ([`Potential::step_share`]), with the mean of λmax.
//!
//! The noise of minibatches heats, on a quadratic the positions of BAOAB from T to T + h² v (1 + μ')/(4(1 − μ')), v the mean of V_g/M over parameters
//! (`exact/quadratic.rs`). A look measures v by the gradients of two batches, and h and μ' are made so small that this is 5 % of T at most:
//!
//! ```text
//! h  ≤  √(T/(10 v)),     μ'  ≤  (r − 1)/(r + 1),     r = T/(5 h² v)          (unless γ is asked for)
//! ```
//! from the middle of the warm-up on: far from where it is to come to rest a chain has residuals, and so noise, that would hold it there.
//!
//! Looks come at every step at first, then an eighth of the way so far apart, at most a 64th of the warm-up: what they find follows the
//! chain while it descends. A mean forgets: a look weighs 1/16, more at the beginning, and λmax is never less than the latest look's. The
//! first fifth of the warm-up keeps at most 0.95 of the momentum in a step, since a chain that falls from a random start has much heat to lose.
//! After the warm-up masses and step size stay, so that the chain has a stationary law; `step_watch.rs` says when a step is shortened after all.
//!
//! A look costs 2 + 2·3 gradients (2·20 more at the first, 2 more with minibatches); some 120 looks make a warm-up of 10 000 steps. What was found is part of [`ChainState`], random
//! numbers are named by the step: a chain that goes on in the middle of its warm-up goes on bit by bit.

use super::adapted::{Adapted, LookScratch};
use super::chain::Chain;
use super::dynamics::Conditions;
use super::rule::{Scratch, StepName};
use crate::network::{Layout, Mode};
use crate::potential::{Batch, Potential};
use crate::random::{NoiseKey, Purpose};

/// γ. Colder chains want no more of it: at T = 1/5 on Energy 18 left half of the effective predictions that 4 did.
const FRICTION: f64 = 4.0;
/// Gauss–Newton probes of a look.
const PROBES: u64 = 2;
/// Rounds of power iteration of a look, and more of them at the first, which begins in a random direction.
const ROUNDS: usize = 3;
const FIRST_ROUNDS: usize = 20;
/// Names of random numbers that belong to one step.
const NAMES: u64 = 8;
/// Looks that a mean remembers.
const REMEMBERED: f64 = 16.0;
/// h√λmax at the sharpest place of the second half of a warm-up. At most places h√λmax is then about 1; 2 would be unstable, and 1.4 let a chain
/// in a hundred run hot (results/adaptive.md).
const STRETCH: f64 = 1.2;
/// How much hotter than T the noise of minibatches may make positions.
const MOST_HEAT: f64 = 0.05;
/// The least (1 + μ')/(1 − μ') for which friction is raised; beyond it the step is shortened.
const LEAST_RATIO: f64 = 2.0;
/// The largest share of the momentum that a step keeps in the first fifth.
const EARLY_KEEP: f64 = 0.95;
/// The most energies that are noted.
const MOST_ENERGIES: u64 = 256;

/// What a look found of λmax, and how far it can be relied on.
pub(super) struct Sharpness {
    pub largest: f64,
    /// [`Potential::step_share`].
    pub share: f64,
    /// [`Potential::curvature_grows`].
    pub grows: bool,
}

/// A warm-up of fixed length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmUp {
    /// Its steps, counted from the chain's first.
    pub num_steps: u64,
    /// γ; 4 if not given.
    pub friction: Option<f64>,
}

impl WarmUp {
    /// γ where the noise of minibatches does not ask for more.
    pub fn least_friction(&self) -> f64 {
        self.friction.unwrap_or(FRICTION)
    }

    /// hγ of a step of what was found: more than friction alone gives where the noise of minibatches would heat too much.
    pub fn friction_of_step(&self, found: &Adapted, temperature: f64) -> f64 {
        let by_friction = found.step_size * self.least_friction();
        if !self.bounds_heat(found, temperature) {
            return by_friction;
        }
        let ratio = 4.0 * MOST_HEAT * temperature / (found.step_size.powi(2) * found.gradient_noise);
        let most = (ratio - 1.0).max(LEAST_RATIO - 1.0) / (ratio + 1.0).max(LEAST_RATIO + 1.0);
        by_friction.max(-most.ln())
    }

    /// Whether the second half has begun, in which a chain is expected near the places that it will sample.
    fn is_late(&self, step: u64) -> bool {
        step >= self.num_steps / 2
    }

    /// Whether heat of minibatches is known, and nobody asked for a friction.
    fn bounds_heat(&self, found: &Adapted, temperature: f64) -> bool {
        self.friction.is_none() && found.gradient_noise > 0.0 && temperature > 0.0
    }

    /// Whether curvature is looked at before this step; at the first in any case, since there is no step size without.
    pub fn looks_at(&self, step: u64) -> bool {
        let longest = (self.num_steps / 64).max(1);
        let apart = (step / 8).checked_ilog2().map_or(1, |power| 1 << power).min(longest);
        step == 0 || step < self.num_steps && step.is_multiple_of(apart)
    }

    /// Gradients of a look.
    pub(super) fn gradients_of_look(is_first: bool) -> u64 {
        PROBES + 2 * if is_first { FIRST_ROUNDS } else { ROUNDS } as u64
    }

    /// Whether U is noted at the state that so many steps led to.
    pub fn notes_energy_at(&self, step: u64) -> bool {
        step < self.num_steps && step.is_multiple_of(self.num_steps.div_ceil(MOST_ENERGIES).max(1))
    }

    /// The first step after this one before which a device that takes many at a time must stop: for a look, to note U, or where the
    /// early bound on the momentum ends and the one on heat begins.
    pub fn next_stop(&self, step: u64) -> u64 {
        let is_bound = |step: u64| step == self.num_steps / 5 || step == self.num_steps / 2;
        let stops = |&step: &u64| self.looks_at(step) || self.notes_energy_at(step) || is_bound(step);
        (step + 1..self.num_steps).find(stops).unwrap_or(u64::MAX)
    }

    /// The numbers of a step, from what was found.
    pub fn conditions(&self, step: u64, found: &Adapted, chain_temperature: f64, temperature: f64) -> Conditions {
        let h = found.step_size;
        let friction = match self.is_late(step) {
            true => self.friction_of_step(found, chain_temperature),
            false => h * self.least_friction(),
        };
        let keep = (-friction).exp();
        let is_early = step < self.num_steps / 5;
        let retained_momentum = if is_early { keep.min(EARLY_KEEP) } else { keep };
        Conditions { step_size: h, retained_momentum, temperature }
    }

    /// Looks at the curvature where the chain is, and sets its masses and step size; the temperature is that of its noise.
    pub fn look<P: Potential>(
        &self,
        potential: &P,
        name: &StepName,
        likelihood_weight: f64,
        temperature: f64,
        chain: &mut Chain,
        scratch: &mut Scratch<P::Workspace>,
    ) {
        let Scratch { layout, rows: store, work, look, .. } = scratch;
        let look = look.get_or_insert_with(|| Box::new(LookScratch::new(layout)));
        let step = chain.state.step;
        let rows = name.batches.rows(name.seed, Purpose::Preconditioner, chain.id, step, store);
        let batch = Batch { rows, likelihood_weight, mode: Mode::Training };
        let position = &chain.state.position;

        look.means.fill(0.0);
        for probe in 0..PROBES {
            let share = 1.0 / PROBES as f64;
            let key = Self::name(name.seed, chain.id, step, probe);
            look.diagonal.add_probe(potential, position, batch, layout, key, share, &mut look.means, work);
        }
        let is_first = chain.state.adapted.num_looks == 0;
        self.take_means(&look.means, name.seed, step, layout, chain, &mut look.masses);
        let (position, direction) = (&chain.state.position, &mut chain.state.adapted.direction);
        let (masses, rounds) = (&look.masses, Self::rounds(is_first));
        let latest = look.largest.find(potential, position, batch, layout, masses, rounds, direction, work);
        if !name.batches.is_full() {
            // Batches of two epochs, which are drawn independently of each other.
            for (gradient, at) in look.pair.iter_mut().zip([step, step + name.batches.steps_per_epoch()]) {
                gradient.resize(layout.len(), 0.0);
                let rows = name.batches.rows(name.seed, Purpose::Preconditioner, chain.id, at, store);
                let batch = Batch { rows, likelihood_weight, mode: Mode::Training };
                potential.gradient(&chain.state.position, batch, gradient, work);
            }
            chain.state.adapted.take_gradient_noise(look.gradient_noise(layout));
        }
        let sharpness =
            Sharpness { largest: latest, share: potential.step_share(), grows: potential.curvature_grows() };
        self.take_sharpness(step, &sharpness, layout, chain, &look.masses);
        let found = &mut chain.state.adapted;
        if self.is_late(step) && self.bounds_heat(found, temperature) {
            let longest = (4.0 * MOST_HEAT / LEAST_RATIO * temperature / found.gradient_noise).sqrt();
            found.step_size = found.step_size.min(longest);
        }
    }

    /// Gauss–Newton probes of a look.
    pub(super) const PROBES: u64 = PROBES;

    /// Rounds of power iteration of a look.
    pub(super) fn rounds(is_first: bool) -> usize {
        if is_first { FIRST_ROUNDS } else { ROUNDS }
    }

    /// Names the random numbers of a look.
    pub(super) fn name(seed: u64, chain: u32, step: u64, index: u64) -> NoiseKey {
        NoiseKey { seed, purpose: Purpose::Curvature, chain, step: step * NAMES + index }
    }

    /// Counts what the probes of a look found into a chain's means, and overwrites `masses` with those that follow.
    pub(super) fn take_means(
        &self,
        means: &[f64],
        seed: u64,
        step: u64,
        layout: &Layout,
        chain: &mut Chain,
        masses: &mut [f64],
    ) {
        let found = &mut chain.state.adapted;
        if found.num_looks == 0 {
            found.curvature = vec![0.0; means.len()];
            found.direction = vec![0.0; layout.len()];
            Self::name(seed, chain.id, step, PROBES).fill_normal(&mut found.direction);
        }
        let weight = found.weight_of_a_look();
        if means.iter().all(|mean| mean.is_finite()) {
            for (mean, latest) in found.curvature.iter_mut().zip(means) {
                *mean += weight * (latest - *mean);
            }
        }
        self::masses(&found.curvature, layout, masses);
    }

    /// Ends a look: the step size follows from λmax, and the masses become the chain's.
    pub(super) fn take_sharpness(
        &self,
        step: u64,
        sharpness: &Sharpness,
        layout: &Layout,
        chain: &mut Chain,
        masses: &[f64],
    ) {
        let &Sharpness { largest: latest, share, grows } = sharpness;
        let found = &mut chain.state.adapted;
        let weight = found.weight_of_a_look();
        found.num_looks += 1;
        // Where curvature is no number the chain itself is about to say so.
        if latest > 0.0 && latest.is_finite() {
            let seeks_largest = self.num_steps > 0 && self.is_late(step) && !grows;
            if seeks_largest {
                found.largest = found.largest.max(latest);
                found.step_size = STRETCH / found.largest.sqrt();
            } else {
                found.largest += weight * (latest - found.largest);
                found.step_size = share / found.largest.max(latest).sqrt();
            }
        }
        chain.state.set_mass(layout, masses);
    }
}

impl Adapted {
    /// Counts what the gradients of two batches showed.
    fn take_gradient_noise(&mut self, latest: f64) {
        if latest.is_finite() {
            self.gradient_noise += self.weight_of_a_look() * (latest - self.gradient_noise);
        }
    }

    /// How much the next look counts in the means.
    fn weight_of_a_look(&self) -> f64 {
        1.0 / (self.num_looks as f64 + 1.0).min(REMEMBERED)
    }
}

/// Curvatures divided by their geometric mean over all parameters; tensors that nothing is known of weigh as the lightest other.
fn masses(curvature: &[f64], layout: &Layout, masses: &mut [f64]) {
    let smallest = curvature.iter().copied().filter(|&mean| mean > 0.0).fold(f64::INFINITY, f64::min);
    let least = if smallest.is_finite() { smallest } else { 1.0 };
    let sizes = || layout.tensors().iter().map(|tensor| tensor.range.len() as f64);
    let log_mean = curvature.iter().zip(sizes()).map(|(mean, size)| size * mean.max(least).ln()).sum::<f64>()
        / layout.len() as f64;
    for (mass, mean) in masses.iter_mut().zip(curvature) {
        *mass = mean.max(least) / log_mean.exp();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Role;
    use crate::temperature::Temperature;

    #[test]
    fn looks_come_often_at_first_and_end_with_the_warm_up() {
        let warm_up = WarmUp { num_steps: 10_000, friction: None };
        let looks: Vec<u64> = (0..20_000).filter(|&step| warm_up.looks_at(step)).collect();
        assert_eq!(looks[..17], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        assert!((100..140).contains(&looks.len()), "{}", looks.len());
        // 128 and then 156 apart: where one gives way to the other, both may pass.
        assert!(looks.windows(2).all(|pair| pair[1] - pair[0] <= 128 + 156) && *looks.last().unwrap() < 10_000);
        assert_eq!((0..20_000).filter(|&step| warm_up.notes_energy_at(step)).count(), 250);
        let none = WarmUp { num_steps: 0, friction: None };
        assert!(none.looks_at(0) && !none.looks_at(1) && !none.notes_energy_at(0));
    }

    #[test]
    fn between_stops_nothing_changes() {
        // In the second the bounds change where nothing is looked at or noted.
        for num_steps in [10_000, 10_013] {
            let warm_up = WarmUp { num_steps, friction: None };
            let found = Adapted { step_size: 1e-3, gradient_noise: 1e5, ..Adapted::default() };
            let numbers = |step| warm_up.conditions(step, &found, 1.0, 1.0);
            assert_ne!(numbers(num_steps / 5 - 1), numbers(num_steps / 5), "the early bound on the momentum");
            assert_ne!(numbers(num_steps / 2 - 1), numbers(num_steps / 2), "the bound on heat");
            let (mut at, mut num_stops) = (0, 0);
            while at < 20_000 {
                let next = warm_up.next_stop(at).min(20_000);
                assert!((at + 1..next).all(|step| !warm_up.looks_at(step) && !warm_up.notes_energy_at(step)));
                assert!((at..next).all(|step| numbers(step) == numbers(at)), "one set of numbers from {at} on");
                (at, num_stops) = (next, num_stops + 1);
            }
            assert!(num_stops < 500, "{num_stops} stops");
        }
    }

    #[test]
    fn the_step_fits_the_sharpest_place_of_the_second_half_unless_curvature_grows() {
        let layout = Layout::flat(3);
        let mut chain = Chain::new(0, Temperature::new(1.0).unwrap(), vec![0.0; 3], &layout);
        let warm_up = WarmUp { num_steps: 100, friction: None };
        let mut after = |step: u64, largest: f64, grows: bool| {
            let sharpness = Sharpness { largest, share: 0.7, grows };
            warm_up.take_sharpness(step, &sharpness, &layout, &mut chain, &[1.0]);
            chain.state.adapted.step_size
        };
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found}, not {expected}");
        near(after(0, 16.0, false), 0.7 / 4.0);
        // The mean is 34, and the latest is larger.
        near(after(49, 52.0, false), 0.7 / 52f64.sqrt());
        near(after(50, 100.0, false), 1.2 / 10.0);
        near(after(60, 25.0, false), 1.2 / 10.0);
        near(after(70, 400.0, false), 1.2 / 20.0);
        // Where it grows means go on.
        near(after(80, 100.0, true), 0.7 / 350f64.sqrt());
    }

    #[test]
    fn friction_is_four_unless_it_is_asked_for() {
        let warm_up = WarmUp { num_steps: 10, friction: None };
        assert_eq!(warm_up.least_friction(), 4.0);
        assert_eq!(WarmUp { friction: Some(7.0), ..warm_up }.least_friction(), 7.0);
    }

    #[test]
    fn masses_have_the_geometric_mean_one_over_parameters() {
        let mut layout = Layout::default();
        layout.push("many", Role::Bias, &[3]);
        layout.push("one", Role::Bias, &[1]);
        layout.push("unknown", Role::Bias, &[4]);
        let mut found = [0.0; 3];
        masses(&[2.0, 32.0, 0.0], &layout, &mut found);
        let scale = 2f64.powf((7.0 + 5.0) / 8.0);
        for (found, expected) in found.iter().zip([2.0, 32.0, 2.0]) {
            assert!((found * scale / expected - 1.0).abs() < 1e-12);
        }
    }

    /// (ρ − 1)/(ρ + 1) of the momentum is kept, ρ = 4 · 5 % T/(h² V_g/M), and never less than a third.
    #[test]
    fn friction_bounds_the_heat_of_minibatches() {
        let warm_up = WarmUp { num_steps: 10, friction: None };
        let friction = |gradient_noise: f64| {
            let found = Adapted { step_size: 0.1, gradient_noise, ..Adapted::default() };
            (
                warm_up.friction_of_step(&found, 2.0),
                WarmUp { friction: Some(4.0), ..warm_up }.friction_of_step(&found, 2.0),
            )
        };
        for (gradient_noise, expected) in [(8.0, 1.5f64.ln()), (40.0, 3f64.ln()), (0.08, 0.4), (0.0, 0.4)] {
            let (found, asked) = friction(gradient_noise);
            assert!((found - expected).abs() < 1e-12 && asked == 0.4, "{gradient_noise}: {found}, {asked}");
        }
    }

    #[test]
    fn heat_is_bounded_where_it_is_known_and_no_friction_is_asked_for() {
        let bounds = |friction, gradient_noise, temperature| {
            let found = Adapted { gradient_noise, ..Adapted::default() };
            WarmUp { num_steps: 10, friction }.bounds_heat(&found, temperature)
        };
        let all = [bounds(None, 1.0, 1.0), bounds(Some(4.0), 1.0, 1.0), bounds(None, 0.0, 1.0), bounds(None, 1.0, 0.0)];
        assert_eq!(all, [true, false, false, false]);
    }

    #[test]
    fn looks_have_their_length_and_names() {
        assert_eq!([true, false].map(WarmUp::gradients_of_look), [42, 8]);
        assert_eq!([true, false].map(WarmUp::rounds), [20, 3]);
        assert_eq!(WarmUp::name(7, 2, 5, 3).step, 43);
        let short = WarmUp { num_steps: 64, friction: None };
        assert!(short.looks_at(63) && !short.looks_at(64));
    }

    /// The first look counts fully, the second half, and what is no number not at all.
    #[test]
    fn means_are_of_all_looks() {
        let mut found = Adapted::default();
        found.take_gradient_noise(4.0);
        found.num_looks = 1;
        found.take_gradient_noise(10.0);
        found.take_gradient_noise(f64::NAN);
        assert_eq!(found.gradient_noise, 7.0);

        let mut layout = Layout::default();
        layout.push("a", Role::Bias, &[2]);
        layout.push("b", Role::Bias, &[2]);
        let mut chain = Chain::new(0, Temperature::new(1.0).unwrap(), vec![0.0; 4], &layout);
        let warm_up = WarmUp { num_steps: 10, friction: None };
        let mut masses = [0.0; 2];
        for (looks, means) in [(0, [2.0, 8.0]), (1, [4.0, 8.0]), (1, [f64::INFINITY, 1.0])] {
            chain.state.adapted.num_looks = looks;
            warm_up.take_means(&means, 3, 0, &layout, &mut chain, &mut masses);
        }
        assert_eq!(chain.state.adapted.curvature, [3.0, 8.0]);
        assert!((masses[1] / masses[0] - 8.0 / 3.0).abs() < 1e-12, "{masses:?}");
    }

    /// Without a warm-up there is no second half to look for the sharpest place in.
    #[test]
    fn curvature_that_is_no_number_changes_nothing() {
        let mut layout = Layout::default();
        layout.push("a", Role::Bias, &[2]);
        let mut chain = Chain::new(0, Temperature::new(1.0).unwrap(), vec![0.0; 2], &layout);
        let none = WarmUp { num_steps: 0, friction: None };
        for largest in [4.0, 0.0, f64::INFINITY, f64::NAN] {
            none.take_sharpness(0, &Sharpness { largest, share: 1.0, grows: false }, &layout, &mut chain, &[1.0]);
            assert_eq!((chain.state.adapted.largest, chain.state.adapted.step_size), (4.0, 0.5), "{largest}");
        }
    }
}
