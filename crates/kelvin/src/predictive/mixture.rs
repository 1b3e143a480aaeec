//! The predictive density of one regression point in full: an equal mixture of what each draw says.

use super::error::{PredictiveError, level, positive};
use super::log_mean_exp::LogMeanExp;
use crate::likelihood::{Likelihood, NumberDistribution, least_count};
use crate::quantile::normal_quantile;

/// (1/S) Σ_s p(y | x, θ_s), for quantiles and intervals; unlike the accumulators it holds all S parts.
#[derive(Clone, Debug, PartialEq)]
pub struct NumberMixture {
    parts: Vec<NumberDistribution>,
    smallest_scale: f64,
    largest_scale: f64,
}

/// A quantile, and the density there.
#[derive(Clone, Copy)]
struct Root {
    y: f64,
    density: f64,
}

/// Newton's step, in the smallest scale, whose square is less than a rounding.
const EXACT_STEP: f64 = 1e-9;

impl NumberMixture {
    /// What the draws say of one point, given the likelihood's values there of each of them, at the power b of the tempered model.
    ///
    /// # Errors
    /// Where there are no draws, or one of their outputs is no number to predict with.
    pub fn of<'v>(
        likelihood: Likelihood,
        values: impl IntoIterator<Item = &'v [f32]>,
        power: f64,
    ) -> Result<Self, PredictiveError> {
        Self::of_powers(likelihood, 0, values.into_iter().map(|values| (values, power)))
    }

    /// The same of draws that have a power each, as the networks of an ensemble do; of one of a row's targets, counted from 0.
    ///
    /// # Errors
    /// As [`NumberMixture::of`].
    pub fn of_powers<'v>(
        likelihood: Likelihood,
        target: usize,
        values: impl IntoIterator<Item = (&'v [f32], f64)>,
    ) -> Result<Self, PredictiveError> {
        let mut parts = Vec::new();
        let (mut smallest_scale, mut largest_scale) = (f64::INFINITY, 0.0f64);
        for (draw, (values, power)) in values.into_iter().enumerate() {
            if let Some(output) = values.iter().position(|value| !value.is_finite()) {
                return Err(PredictiveError::NonFiniteOutput { draw, point: 0, output, value: values[output] });
            }
            let part = likelihood.number_distribution_of(target, values, power);
            positive("the scale of a mixture's parts", part.scale())?;
            smallest_scale = smallest_scale.min(part.scale());
            largest_scale = largest_scale.max(part.scale());
            parts.push(part.with_rounded_std());
        }
        if parts.is_empty() { Err(PredictiveError::NoDraws) } else { Ok(Self { parts, smallest_scale, largest_scale }) }
    }

    /// The mixture of normal parts with these means and one variance (σ² for SM, σ²/β for TM).
    ///
    /// # Errors
    /// As [`NumberMixture::of`].
    pub fn normal(means: &[f32], variance: f64) -> Result<Self, PredictiveError> {
        let likelihood = Likelihood::Gaussian { noise_variance: variance };
        Self::of(likelihood, means.iter().map(std::slice::from_ref), 1.0)
    }

    fn average(&self, part: impl Fn(&NumberDistribution) -> f64) -> f64 {
        self.parts.iter().map(part).sum::<f64>() / self.parts.len() as f64
    }

    /// The mixture's mean: the average of the parts' means.
    pub fn mean(&self) -> f64 {
        self.average(NumberDistribution::mean)
    }

    /// The mixture's variance: the average of the parts' variances + population variance of their means.
    pub fn variance(&self) -> f64 {
        self.aleatoric_variance() + self.epistemic_variance()
    }

    /// The average of the parts' variances: what stays however much is learned.
    pub fn aleatoric_variance(&self) -> f64 {
        let first = self.parts[0].variance();
        // Relative to the first, so that nothing is rounded where all are the same.
        first + self.average(|part| part.variance() - first)
    }

    /// The population variance of the parts' means: how far draws disagree.
    pub fn epistemic_variance(&self) -> f64 {
        let centre = self.mean();
        self.average(|part| (part.mean() - centre).powi(2))
    }

    /// log (1/S) Σ_s p(y | x, θ_s).
    pub fn log_density(&self, y: f64) -> f64 {
        let mut density = LogMeanExp::new();
        self.parts.iter().for_each(|part| density.add(part.log_density(y)));
        density.value().unwrap_or(f64::NEG_INFINITY)
    }

    /// log (1/S) Σ_s Π_k p(y_k | x, θ_s) of mixtures of the same draws, one for each target of a row: given θ they are independent.
    ///
    /// # Panics
    /// If there is not a number for each.
    pub fn joint_log_density(targets: &[Self], y: &[f64]) -> f64 {
        assert_eq!(targets.len(), y.len(), "a number for each target");
        let mut density = LogMeanExp::new();
        for draw in 0..targets.first().map_or(0, |own| own.parts.len()) {
            density.add(targets.iter().zip(y).map(|(own, &y)| own.parts[draw].log_density(y)).sum());
        }
        density.value().unwrap_or(f64::NEG_INFINITY)
    }

    /// F(y) = (1/S) Σ_s P(y' < y | x, θ_s): the PIT value of y.
    pub fn cumulative(&self, y: f64) -> f64 {
        self.average(|part| part.cumulative(y))
    }

    /// F⁻¹(p): the y below which a share p of the mixture lies.
    ///
    /// # Errors
    /// Where p is not between 0 and 1.
    pub fn quantile(&self, p: f64) -> Result<f64, PredictiveError> {
        let p = level("a quantile's probability", p)?;
        if self.parts[0].is_of_counts() {
            return Ok(self.count_at(p));
        }
        let z = normal_quantile(p);
        let std = if self.variance().is_finite() { self.variance().sqrt() } else { self.largest_scale };
        Ok(self.root(p, self.mean() + z * std).y)
    }

    /// F⁻¹ of several probabilities, in their order: sooner than one by one, since each is sought from the one below.
    ///
    /// # Errors
    /// Where a probability is not between 0 and 1.
    pub fn quantiles(&self, probabilities: &[f64]) -> Result<Vec<f64>, PredictiveError> {
        let mut upwards: Vec<usize> = (0..probabilities.len()).collect();
        upwards.sort_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b]));
        let mut found = vec![f64::NAN; probabilities.len()];
        let mut below: Option<(f64, Root)> = None;
        for place in upwards {
            let p = probabilities[place];
            found[place] = match below {
                Some((last, root)) if p < 1.0 && root.density > 0.0 => {
                    let next = self.root(p, root.y + (p - last) / root.density);
                    below = Some((p, next));
                    next.y
                }
                _ => {
                    let y = self.quantile(p)?;
                    if !self.parts[0].is_of_counts() {
                        below = Some((p, Root { y, density: self.log_density(y).exp() }));
                    }
                    y
                }
            };
        }
        Ok(found)
    }

    /// Where F is p, looked for from a guess.
    ///
    /// The root lies between the p-quantiles of the lowest and of the highest part, since every part has at most p
    /// below the former and at least p below the latter. Inside that bracket Newton's step is taken where it stays
    /// inside and at least halves the last one, and the bracket is halved otherwise: so it also ends in the flat
    /// stretch between far modes, where the density underflows. A step's error is its square over the smallest scale.
    fn root(&self, p: f64, guess: f64) -> Root {
        let z = self.parts[0].standard_quantile(p);
        let mut low = self.parts.iter().map(|part| part.standing_for(z)).fold(f64::INFINITY, f64::min);
        let mut high = self.parts.iter().map(|part| part.standing_for(z)).fold(f64::NEG_INFINITY, f64::max);
        let mut last_step = high - low;
        let mut y = if guess > low && guess < high { guess } else { low.midpoint(high) };
        if last_step <= 0.0 {
            return Root { y, density: self.log_density(y).exp() };
        }
        loop {
            let (excess, density) = (self.excess(y, p), self.log_density(y).exp());
            if excess == 0.0 {
                return Root { y, density };
            }
            if excess < 0.0 {
                low = y
            } else {
                high = y
            }
            let newton = y - excess / density;
            let good = newton > low && newton < high && (newton - y).abs() <= 0.5 * last_step;
            let next = if good { newton } else { low.midpoint(high) };
            last_step = (next - y).abs();
            let is_exact = good && last_step <= EXACT_STEP * self.smallest_scale;
            if is_exact || last_step <= 2.0 * f64::EPSILON * self.largest_scale.max(next.abs()) {
                return Root { y: next, density };
            }
            y = next;
        }
    }

    /// The least count that a share p lies at or below.
    fn count_at(&self, p: f64) -> f64 {
        let std = self.variance().sqrt();
        let guess = (self.mean() + std * normal_quantile(p)).max(0.0);
        least_count(guess, 0.5 * std, |count| self.average(|part| part.at_most(count)) >= p)
    }

    /// F(y) − p, from the nearer tail, so that p close to 1 is as sharp as p close to 0.
    fn excess(&self, y: f64, p: f64) -> f64 {
        if p <= 0.5 { self.cumulative(y) - p } else { (1.0 - p) - self.average(|part| part.above(y)) }
    }

    /// The ends of the interval that leaves (1 − level)/2 of the mixture on either side.
    pub fn central_interval(&self, coverage: f64) -> Result<(f64, f64), PredictiveError> {
        let tail = 0.5 * (1.0 - level("a coverage level", coverage)?);
        Ok((self.quantile(tail)?, self.quantile(1.0 - tail)?))
    }
}

#[cfg(test)]
mod tests {
    use crate::quantile::normal_quantile;

    use proptest::prelude::*;

    use super::*;
    use crate::likelihood::normal;

    fn mixture(means: &[f32], variance: f64) -> NumberMixture {
        NumberMixture::normal(means, variance).unwrap()
    }

    #[test]
    fn one_part_has_the_closed_form() {
        let one = mixture(&[2.0], 0.25);
        for (p, z) in [(0.5, 0.0), (0.975, 1.959_963_984_540_054), (0.05, -1.644_853_626_951_472_6)] {
            assert!((one.quantile(p).unwrap() - (2.0 + 0.5 * z)).abs() < 1e-12, "p = {p}");
        }
        let (low, high) = one.central_interval(0.9).unwrap();
        assert!((low + high - 4.0).abs() < 1e-12 && (high - low - 1.644_853_626_951_472_6).abs() < 1e-12);
        assert_eq!((one.mean(), one.variance()), (2.0, 0.25));
        let pair = mixture(&[1.0, 4.0], 0.25);
        assert_eq!((pair.aleatoric_variance(), pair.epistemic_variance(), pair.variance()), (0.25, 2.25, 2.5));
        assert!((one.log_density(3.0) - normal::log_density(1.0, 0.25)).abs() < 1e-15);
    }

    #[test]
    fn each_part_has_its_own_power() {
        let likelihood = Likelihood::Gaussian { noise_variance: 1.0 };
        let values: [(&[f32], f64); 2] = [(&[0.0], 1.0), (&[0.0], 4.0)];
        let found = NumberMixture::of_powers(likelihood, 0, values).unwrap();
        assert!((found.variance() - 0.625).abs() < 1e-15);
    }

    #[test]
    fn equal_parts_are_one_part() {
        assert_eq!(mixture(&[1.0; 4], 2.0).quantile(0.3), mixture(&[1.0], 2.0).quantile(0.3));
    }

    #[test]
    fn a_symmetric_pair_has_its_median_in_the_middle() {
        for gap in [0.5f32, 3.0, 1e4] {
            let pair = mixture(&[1.0 - gap, 1.0 + gap], 1.0);
            assert!((pair.quantile(0.5).unwrap() - 1.0).abs() < 1e-12, "gap {gap}");
        }
    }

    #[test]
    fn far_modes_share_the_probability() {
        let three = mixture(&[-1e6, 0.0, 1e6], 1.0);
        for (p, mode, inner) in [(1.0 / 6.0, -1e6, 0.5), (0.5, 0.0, 0.5), (5.0 / 6.0, 1e6, 0.5), (0.35, 0.0, 0.05)] {
            let expected = mode + normal_quantile(inner);
            let found = three.quantile(p).unwrap();
            assert!((found - expected).abs() < 1e-8, "p = {p}: {found} instead of {expected}");
        }
        let plateau = three.quantile(1.0 / 3.0).unwrap();
        assert!(plateau > -1e6 + 7.0 && plateau < -7.0, "{plateau}");
    }

    /// The least count whose share of the mixture is p, by adding up.
    #[test]
    fn quantiles_of_counts_are_counts() {
        let (counts, draws) = (Likelihood::Poisson { log_mean: 0.0 }, [[0.5f32], [3.0]]);
        let mixture = NumberMixture::of(counts, draws.iter().map(|values| &values[..]), 1.0).unwrap();
        for p in [0.01, 0.3, 0.5, 0.7, 0.99] {
            // e^−λ λ^k/k!, term after term.
            let means = draws.map(|values| counts.number_distribution(&values, 1.0).mean());
            let mut masses = means.map(|mean| (-mean).exp());
            let (mut k, mut below) = (0.0, 0.5 * (masses[0] + masses[1]));
            while below < p {
                k += 1.0;
                masses = [0, 1].map(|part| masses[part] * means[part] / k);
                below += 0.5 * (masses[0] + masses[1]);
            }
            assert_eq!(mixture.quantile(p).unwrap(), k, "p = {p}");
        }
        assert_eq!(mixture.quantiles(&[0.99, 0.3]).unwrap(), [0.99, 0.3].map(|p| mixture.quantile(p).unwrap()));
    }

    #[test]
    fn extreme_tails_are_reached() {
        let two = mixture(&[0.0, 1.0], 1.0);
        for p in [1e-300, 1e-20, 1.0 - 1e-15] {
            let y = two.quantile(p).unwrap();
            let tail = if p < 0.5 { two.cumulative(y) / p } else { (two.excess(y, p) + 1e-15) / 1e-15 };
            assert!((tail - 1.0).abs() < 1e-6, "p = {p}: y = {y}, ratio {tail}");
        }
    }

    #[test]
    fn bad_arguments_are_refused() {
        assert_eq!(NumberMixture::normal(&[], 1.0), Err(PredictiveError::NoDraws));
        assert!(NumberMixture::normal(&[0.0], 0.0).is_err());
        assert!(NumberMixture::normal(&[0.0, f32::INFINITY], 1.0).is_err());
        for p in [0.0, 1.0, -0.1, f64::NAN] {
            assert!(mixture(&[0.0], 1.0).quantile(p).is_err(), "p = {p}");
        }
    }

    #[test]
    fn quantiles_are_those_of_one_at_a_time() {
        let levels = [0.7, 1e-12, 0.5, 0.05, 0.999, 0.5, 1.0 / 3.0, 0.95];
        let learned = Likelihood::StudentT;
        let of_t = |row: [f32; 3]| row;
        let rows: Vec<[f32; 3]> = (0..7).map(|i| of_t([i as f32, -0.3 * i as f32, 0.7 + 0.2 * i as f32])).collect();
        let of_t = NumberMixture::of(learned, rows.iter().map(<[f32; 3]>::as_slice), 1.0).unwrap();
        for mixture in [mixture(&[-3.0, 0.0, 0.1, 8.0], 0.4), mixture(&[-1e6, 0.0, 1e6], 1.0), of_t] {
            let all = mixture.quantiles(&levels).unwrap();
            for (p, found) in levels.into_iter().zip(all) {
                let alone = mixture.quantile(p).unwrap();
                let density = mixture.log_density(alone).exp();
                assert!(
                    (found - alone).abs() <= 1e-14 * (1.0 + alone.abs()) + 4e-16 / density,
                    "p = {p}: {found}, {alone}"
                );
            }
        }
        assert!(mixture(&[0.0], 1.0).quantiles(&[0.5, 1.0]).is_err());
    }

    proptest! {
        #[test]
        fn the_quantile_inverts_the_cumulative_probability(
            means in prop::collection::vec(-30.0..30.0f32, 1..12),
            log_variance in -6.0..6.0f64, p in 1e-6..0.999_999f64,
        ) {
            let mixture = mixture(&means, log_variance.exp());
            let y = mixture.quantile(p).unwrap();
            // y is known to a rounding of |y| + √v, which the density turns into probability.
            let rounding = 8.0 * f64::EPSILON * (y.abs() + mixture.largest_scale) / mixture.largest_scale;
            prop_assert!((mixture.cumulative(y) - p).abs() < 1e-13 + rounding);
        }

        #[test]
        fn the_quantile_rises_with_the_probability(
            means in prop::collection::vec(-30.0..30.0f32, 1..12), p in 0.01..0.98f64, more in 1e-6..0.01f64,
        ) {
            let mixture = mixture(&means, 0.01);
            prop_assert!(mixture.quantile(p).unwrap() < mixture.quantile(p + more).unwrap());
        }
    }
}
