//! The power transform of Yeo and Johnson: numbers of both signs made less skewed, one to one.
//!
//! ```text
//! T(y) = ((1 + y)^λ − 1)/λ for y ≥ 0,   −((1 − y)^(2−λ) − 1)/(2 − λ) for y < 0;      log T'(y) = (λ − 1) sign(y) log(1 + |y|)
//! ```
//! with log(1 + y) at λ = 0 and −log(1 − y) at λ = 2. λ = 1 is the identity, λ < 1 draws in the upper tail, λ > 1 the lower one. For 0 ≤ λ ≤ 2, as here, T takes the
//! line onto the line, so that a normal distribution of T(y) is one of y with nothing cut off; Box and Cox's transform of positive numbers leaves a
//! part of the normal distribution without a number. Yeo & Johnson 2000, "A new family of power transformations to improve normality or symmetry".

/// T with its λ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct YeoJohnson {
    power: f64,
}

/// Powers are multiples of this: closer ones cannot be told apart, and 1/λ stays small.
const SPACING: f64 = 0.01;
const MOST: f64 = 2.0;

/// (e^{pl} − 1)/p, and l where p is 0.
fn grown(l: f64, p: f64) -> f64 {
    if p == 0.0 { l } else { (p * l).exp_m1() / p }
}

/// e^l − 1 for the l whose [`grown`] is z.
fn ungrown(z: f64, p: f64) -> f64 {
    if p == 0.0 { z.exp_m1() } else { ((p * z).ln_1p() / p).exp_m1() }
}

impl YeoJohnson {
    /// λ = 1, which changes nothing.
    pub const IDENTITY: Self = Self { power: 1.0 };

    /// The transform with this λ; none where that is not between 0 and 2.
    pub fn new(power: f64) -> Option<Self> {
        (0.0..=MOST).contains(&power).then_some(Self { power })
    }

    /// The one under which numbers are most probable as normal ones, with the mean and variance that suit: where −½ log of the variance of T(y) + the mean of log T'(y) is largest
    /// (the profile likelihood, which is concave in λ).
    pub fn most_likely(numbers: &[f64]) -> Self {
        let value = |step: i32| Self { power: SPACING * f64::from(step) }.gain_in(numbers);
        let (mut low, mut high) = (0, (MOST / SPACING).round() as i32);
        while low < high {
            let middle = (low + high) / 2;
            if value(middle + 1) > value(middle) { low = middle + 1 } else { high = middle }
        }
        Self { power: SPACING * f64::from(low) }
    }

    /// How much more probable a number becomes on average by the transform, in nats: the profile likelihood less that of λ = 1.
    pub fn gain(&self, numbers: &[f64]) -> f64 {
        self.gain_in(numbers) - Self::IDENTITY.gain_in(numbers)
    }

    fn gain_in(&self, numbers: &[f64]) -> f64 {
        let (_, variance) = self.moments(numbers);
        let slopes: f64 = numbers.iter().map(|&y| self.log_slope(y)).sum();
        slopes / numbers.len() as f64 - 0.5 * variance.ln()
    }

    /// Mean and variance of the transformed numbers.
    pub fn moments(&self, numbers: &[f64]) -> (f64, f64) {
        let n = numbers.len() as f64;
        let mean = numbers.iter().map(|&y| self.transformed(y)).sum::<f64>() / n;
        (mean, numbers.iter().map(|&y| (self.transformed(y) - mean).powi(2)).sum::<f64>() / n)
    }

    /// λ.
    pub fn power(&self) -> f64 {
        self.power
    }

    /// λ above 0 and 2 − λ below: the exponent on a number's side.
    pub(super) fn exponents(&self) -> [f64; 2] {
        [self.power, MOST - self.power]
    }

    fn exponent(&self, is_negative: bool) -> f64 {
        self.exponents()[usize::from(is_negative)]
    }

    /// T(y).
    pub fn transformed(&self, y: f64) -> f64 {
        grown(y.abs().ln_1p(), self.exponent(y < 0.0)).copysign(y)
    }

    /// The y with this T(y).
    pub fn inverse(&self, z: f64) -> f64 {
        ungrown(z.abs(), self.exponent(z < 0.0)).copysign(z)
    }

    /// log T'(y).
    pub fn log_slope(&self, y: f64) -> f64 {
        (self.exponent(y < 0.0) - 1.0) * y.abs().ln_1p()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [f64; 9] = [-40.0, -2.0, -0.3, -1e-9, 0.0, 1e-12, 0.5, 3.0, 1e4];

    #[test]
    fn the_inverse_undoes_it_and_the_slope_is_its_derivative() {
        for power in [0.0, 0.01, 0.5, 1.0, 1.37, 1.99, 2.0] {
            let transform = YeoJohnson::new(power).unwrap();
            for y in NUMBERS {
                let back = transform.inverse(transform.transformed(y));
                assert!((back - y).abs() <= 1e-11 * (1.0 + y.abs()), "λ = {power}: {y} {back}");
                let step = 1e-5 * (1.0 + y.abs());
                let slope = (transform.transformed(y + step) - transform.transformed(y - step)) / (2.0 * step);
                assert!((slope.ln() - transform.log_slope(y)).abs() < 1e-6, "λ = {power}: {y}");
            }
        }
        let root = YeoJohnson::new(0.5).unwrap();
        assert!((root.transformed(3.0) - 2.0).abs() < 1e-15 && (root.inverse(2.0) - 3.0).abs() < 1e-15);
        assert!((root.transformed(-3.0) + 14.0 / 3.0).abs() < 1e-14);
        assert!(YeoJohnson::new(2.1).is_none() && YeoJohnson::new(f64::NAN).is_none());
    }

    /// Numbers whose T is normal, by quantiles: λ is found again, and what is gained is what their density says.
    #[test]
    fn the_most_likely_power_is_that_of_the_numbers() {
        for power in [0.0, 0.3, 1.0, 1.6, 2.0] {
            let transform = YeoJohnson::new(power).unwrap();
            let normal = (0..4000).map(|i| crate::quantile::normal_quantile((f64::from(i) + 0.5) / 4000.0));
            let numbers: Vec<f64> = normal.map(|z| transform.inverse(0.2 + 0.8 * z)).collect();
            let found = YeoJohnson::most_likely(&numbers);
            assert!((found.power() - power).abs() < 0.03, "{power}: {}", found.power());
            let (mean, variance) = transform.moments(&numbers);
            assert!((mean - 0.2).abs() < 1e-6 && (variance - 0.64).abs() < 2e-3, "{mean} {variance}");
            assert!(if power == 1.0 { found.gain(&numbers).abs() < 1e-3 } else { found.gain(&numbers) > 0.02 });
        }
    }
}
