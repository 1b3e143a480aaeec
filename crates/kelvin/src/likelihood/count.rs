//! Poisson and negative binomial counts, and their powers p(k)^b/Z: what likelihoods of counts are made of.
//!
//! ```text
//! Poisson             log p(k) = k η − e^η − log k!
//! negative binomial   log p(k) = log Γ(k+r) − log Γ(r) − log k! + r log r + k η − (k + r) log(r + e^η)       mean e^η, variance e^η + e^{2η}/r
//! ```
//! Powers are summed from the most probable count outwards until a term is below e^−45 of the largest, or after a million of them on a side: the share left out is
//! below 1e-12 but for negative binomials of a mean beyond some ten thousand r b.

use statrs::function::beta::beta_reg;
use statrs::function::factorial::ln_factorial;
use statrs::function::gamma::{gamma_ur, ln_gamma};

use crate::quantile::normal_quantile;

/// Where sums over counts end: this far below the largest term, and after so many of them.
const NEGLIGIBLE: f64 = -45.0;
const MOST_TERMS: u64 = 1_000_000;
/// Means up to which a quantile is found by adding up probabilities from 0.
const SMALL_MEAN: f64 = 50.0;

/// A distribution of counts before any power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CountLaw {
    /// η: the log of the mean.
    pub log_mean: f64,
    /// r; infinite for Poisson.
    pub size: f64,
}

/// Sums of a power of a law.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PowerSums {
    /// log Σ p(k)^b.
    pub log_total: f64,
    /// Of k, under p^b/Z.
    pub mean: f64,
    pub variance: f64,
    /// Of log p(k).
    pub mean_log_mass: f64,
    pub log_mass_variance: f64,
    /// Of what was asked for beside.
    pub mean_of: f64,
}

impl CountLaw {
    pub fn is_poisson(&self) -> bool {
        self.size == f64::INFINITY
    }

    pub fn mean(&self) -> f64 {
        self.log_mean.exp()
    }

    pub fn variance(&self) -> f64 {
        self.mean() * (1.0 + self.mean() / self.size)
    }

    /// log p(k); −∞ for what is no count.
    pub fn log_mass(&self, k: f64) -> f64 {
        if !(k >= 0.0 && k.fract() == 0.0) {
            return f64::NEG_INFINITY;
        }
        let log_factorial = if k < 170.0 { ln_factorial(k as u64) } else { ln_gamma(k + 1.0) };
        let (mean, r) = (self.mean(), self.size);
        if self.is_poisson() {
            return k * self.log_mean - mean - log_factorial;
        }
        // r log r − r log(r + m), without a difference of large numbers.
        log_rising(k, r) - log_factorial - r * (mean / r).ln_1p() + k * (self.log_mean - (r + mean).ln())
    }

    /// log p(k + 1) − log p(k).
    fn log_ratio(&self, k: f64) -> f64 {
        match self.is_poisson() {
            true => self.log_mean - (k + 1.0).ln(),
            false => ((k + self.size) / (k + 1.0)).ln() + self.log_mean - (self.size + self.mean()).ln(),
        }
    }

    fn mode(&self) -> f64 {
        let share = if self.is_poisson() { 1.0 } else { 1.0 - 1.0 / self.size };
        (self.mean() * share).max(0.0).floor()
    }

    /// Shows counts from the mode outwards, each with its log p relative to the mode's.
    fn for_each(&self, power: f64, mut show: impl FnMut(f64, f64)) {
        let mode = self.mode();
        show(mode, 0.0);
        let (mut k, mut relative) = (mode, 0.0);
        for _ in 0..MOST_TERMS {
            relative += self.log_ratio(k);
            k += 1.0;
            if power * relative < NEGLIGIBLE {
                break;
            }
            show(k, relative);
        }
        (k, relative) = (mode, 0.0);
        for _ in 0..MOST_TERMS {
            if k == 0.0 {
                break;
            }
            k -= 1.0;
            relative -= self.log_ratio(k);
            if power * relative < NEGLIGIBLE {
                break;
            }
            show(k, relative);
        }
    }

    /// Sums of the power b, with the mean of `of` beside.
    pub fn sums(&self, power: f64, of: impl Fn(f64) -> f64) -> PowerSums {
        let mode = self.mode();
        let mut sums = [0.0; 6];
        self.for_each(power, |k, relative| {
            let (weight, away) = ((power * relative).exp(), k - mode);
            let terms = [1.0, away, away * away, relative, relative * relative, of(k)];
            sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += weight * term);
        });
        let [total, away, square, relative, relative_square, of] = sums;
        let [away, square, relative, relative_square, mean_of] =
            [away, square, relative, relative_square, of].map(|sum| sum / total);
        let at_mode = self.log_mass(mode);
        PowerSums {
            log_total: total.ln() + power * at_mode,
            mean: mode + away,
            variance: square - away * away,
            mean_log_mass: at_mode + relative,
            log_mass_variance: relative_square - relative * relative,
            mean_of,
        }
    }
}

/// log Γ(k + r) − log Γ(r), for few factors by their product: a difference of large logarithms says nothing where r is large.
fn log_rising(k: f64, r: f64) -> f64 {
    const FEW: f64 = 64.0;
    if k > FEW {
        return ln_gamma(k + r) - ln_gamma(r);
    }
    let (mut sum, mut product) = (0.0, 1.0);
    for factor in 0..k as u32 {
        product *= r + f64::from(factor);
        if !(1e-100..1e100).contains(&product) {
            sum += product.ln();
            product = 1.0;
        }
    }
    sum + product.ln()
}

/// A power of a law, normalised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CountDistribution {
    law: CountLaw,
    power: f64,
    log_total: f64,
    pub mean: f64,
    pub variance: f64,
}

impl CountDistribution {
    pub fn new(law: CountLaw, power: f64) -> Self {
        if power == 1.0 {
            return Self { law, power, log_total: 0.0, mean: law.mean(), variance: law.variance() };
        }
        let PowerSums { log_total, mean, variance, .. } = law.sums(power, |_| 0.0);
        Self { law, power, log_total, mean, variance }
    }

    pub fn log_mass(&self, k: f64) -> f64 {
        self.power * self.law.log_mass(k) - self.log_total
    }

    /// P(at most k).
    pub fn at_most(&self, k: f64) -> f64 {
        let k = k.floor();
        if k < 0.0 {
            return 0.0;
        }
        let (mean, r) = (self.law.mean(), self.law.size);
        if self.power == 1.0 && mean > 0.0 && mean.is_finite() {
            return match self.law.is_poisson() {
                true => gamma_ur(k + 1.0, mean),
                false => beta_reg(r, k + 1.0, r / (r + mean)),
            };
        }
        let mut below = 0.0;
        let at_mode = self.power * self.law.log_mass(self.law.mode()) - self.log_total;
        self.law.for_each(self.power, |count, relative| {
            if count <= k {
                below += (self.power * relative + at_mode).exp();
            }
        });
        below.min(1.0)
    }

    /// P(fewer than k) + ½ P(k): what a probability integral transform of counts is in the middle of its step.
    pub fn middle(&self, k: f64) -> f64 {
        let at = self.log_mass(k);
        let below = if k.fract() == 0.0 { self.at_most(k - 1.0) } else { self.at_most(k) };
        below + 0.5 * at.exp()
    }

    /// The least k that at least a share p lies at or below.
    pub fn quantile(&self, p: f64) -> f64 {
        if self.power == 1.0 && self.mean < SMALL_MEAN {
            let (mut k, mut mass) = (0.0, self.law.log_mass(0.0).exp());
            let mut below = mass;
            while below < p && k < MOST_TERMS as f64 {
                mass *= self.law.log_ratio(k).exp();
                k += 1.0;
                if mass == 0.0 {
                    break;
                }
                below += mass;
            }
            return k;
        }
        let guess = (self.mean + self.variance.sqrt() * normal_quantile(p)).clamp(0.0, 1e15);
        least_count(guess, self.variance.sqrt(), |k| self.at_most(k) >= p)
    }
}

/// The least count that satisfies a condition which stays true once it is: sought from a guess in steps that double, then by halves.
pub(crate) fn least_count(guess: f64, first_step: f64, holds: impl Fn(f64) -> bool) -> f64 {
    const MOST: f64 = 9e15;
    let mut step = first_step.clamp(1.0, 1e12).floor();
    let (mut low, mut high) = (guess.floor().max(0.0) - 1.0, guess.floor().max(0.0));
    // `low` is where it does not hold, −1 at the least; `high` where it does.
    while !holds(high) && high < MOST {
        low = high;
        high += step;
        step *= 2.0;
    }
    step = first_step.clamp(1.0, 1e12).floor();
    while low >= 0.0 && holds(low) {
        high = low;
        low = (low - step).max(-1.0);
        step *= 2.0;
    }
    while high - low > 1.0 {
        let middle = ((low + high) * 0.5).floor();
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAWS: [CountLaw; 4] = [
        CountLaw { log_mean: 0.7, size: f64::INFINITY },
        CountLaw { log_mean: 5.5, size: f64::INFINITY },
        CountLaw { log_mean: 1.2, size: 0.6 },
        CountLaw { log_mean: 4.4, size: 7.5 },
    ];

    #[test]
    fn probabilities_sum_to_one_and_have_the_moments() {
        for law in LAWS {
            for power in [0.4, 1.0, 2.5] {
                let distribution = CountDistribution::new(law, power);
                let masses: Vec<f64> = (0..20_000).map(|k| distribution.log_mass(f64::from(k)).exp()).collect();
                let of = |f: &dyn Fn(f64) -> f64| masses.iter().zip(0..).map(|(p, k)| p * f(f64::from(k))).sum::<f64>();
                let mean = of(&|k| k);
                assert!((of(&|_| 1.0) - 1.0).abs() < 1e-10, "{law:?} {power}");
                assert!((mean / distribution.mean - 1.0).abs() < 1e-9, "{law:?} {power}");
                assert!((of(&|k| (k - mean).powi(2)) / distribution.variance - 1.0).abs() < 1e-8, "{law:?} {power}");
                let mut below = 0.0;
                for (k, mass) in masses[..60].iter().enumerate() {
                    below += mass;
                    assert!((distribution.at_most(k as f64) - below).abs() < 1e-10, "{law:?} {power} {k}");
                }
            }
        }
    }

    #[test]
    fn quantiles_are_the_least_counts_with_their_share() {
        for law in LAWS {
            for power in [0.4, 1.0, 2.5] {
                let distribution = CountDistribution::new(law, power);
                for p in [0.001, 0.05, 0.3, 0.5, 0.95, 0.999] {
                    let k = distribution.quantile(p);
                    assert!(
                        distribution.at_most(k) >= p && distribution.at_most(k - 1.0) < p,
                        "{law:?} {power} {p}: {k}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_no_count_is_impossible() {
        for k in [-1.0, 0.5, f64::NAN] {
            assert_eq!(LAWS[2].log_mass(k), f64::NEG_INFINITY);
        }
        assert_eq!(CountDistribution::new(LAWS[0], 1.0).at_most(-1.0), 0.0);
    }

    /// NB → Poisson as r grows, without loss.
    #[test]
    fn a_large_size_is_nearly_poisson() {
        let (poisson, large) = (LAWS[0], CountLaw { size: 1e12, ..LAWS[0] });
        for k in [0.0, 3.0, 40.0] {
            assert!((poisson.log_mass(k) - large.log_mass(k)).abs() < 1e-8, "{k}");
        }
    }

    #[test]
    fn no_count_is_more_probable_than_the_mode() {
        let mut modes = Vec::new();
        for law in LAWS {
            let mode = law.mode();
            assert!(mode >= 0.0 && mode.fract() == 0.0);
            assert!((0..400).all(|k| law.log_mass(f64::from(k)) <= law.log_mass(mode)), "{law:?}: {mode}");
            modes.push(mode);
        }
        assert_eq!(modes, [2.0, 244.0, 0.0, 70.0]);
    }

    #[test]
    fn the_least_count_is_found_from_any_guess() {
        for least in [0.0, 1.0, 3.0, 700.0] {
            for guess in [0.0, 2.5, 10.0, 1000.0] {
                for first_step in [0.3, 1.0, 7.0, 400.0] {
                    assert_eq!(least_count(guess, first_step, |k| k >= least), least, "{guess} {first_step}");
                }
            }
        }
    }
}
