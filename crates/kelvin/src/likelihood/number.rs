//! The distribution of a number given what the network says of its row; predictive distributions are mixtures of these.

use std::f64::consts::PI;

use statrs::function::beta::beta_reg;
use statrs::function::gamma::ln_gamma;

use super::count::{CountDistribution, CountLaw};
use super::normal;
use super::yeo_johnson::YeoJohnson;
use crate::quantile::normal_quantile;

/// The distribution of a number, given the values of its row: normal, Student-t, log-normal, normal after a power transform, or of counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberDistribution {
    mean: f64,
    variance: f64,
    shape: Shape,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Normal,
    /// Of the log: its mean and standard deviation.
    LogNormal {
        centre: f64,
        spread: f64,
    },
    /// Of the transformed number: its mean and standard deviation.
    PowerNormal {
        transform: YeoJohnson,
        centre: f64,
        spread: f64,
    },
    StudentT {
        scale: f64,
        degrees: f64,
        log_peak: f64,
    },
    Count(CountDistribution),
}

impl NumberDistribution {
    /// N(mean, variance).
    pub fn normal(mean: f64, variance: f64) -> Self {
        Self { mean, variance, shape: Shape::Normal }
    }

    /// centre + scale · Student-t; its variance is infinite up to two degrees of freedom, and up to one its centre stands for the mean it has not.
    pub fn student_t(centre: f64, scale: f64, degrees: f64) -> Self {
        let variance = if degrees > 2.0 { scale * scale * degrees / (degrees - 2.0) } else { f64::INFINITY };
        let log_peak =
            ln_gamma(0.5 * (degrees + 1.0)) - ln_gamma(0.5 * degrees) - 0.5 * (degrees * PI * scale * scale).ln();
        Self { mean: centre, variance, shape: Shape::StudentT { scale, degrees, log_peak } }
    }

    /// e to the power of a number of N(centre, variance).
    pub fn log_normal(centre: f64, variance: f64) -> Self {
        let mean = (centre + 0.5 * variance).exp();
        let shape = Shape::LogNormal { centre, spread: variance.sqrt() };
        Self { mean, variance: mean * mean * variance.exp_m1(), shape }
    }

    /// The number whose transform is one of N(centre, variance). Its moments are sums over numbers of equal steps of half a standard deviation, whose
    /// error is below 10⁻⁵ of its scale: T has two derivatives.
    pub fn power_normal(transform: YeoJohnson, centre: f64, variance: f64) -> Self {
        let spread = variance.sqrt();
        let (mut mass, mut sum, mut squares) = (0.0, 0.0, 0.0);
        let middle = transform.inverse(centre);
        for step in -20..=20 {
            let z = 0.5 * f64::from(step);
            let weight = (-0.5 * z * z).exp();
            let distance = transform.inverse(centre + spread * z) - middle;
            mass += weight;
            sum += weight * distance;
            squares += weight * distance * distance;
        }
        let shift = sum / mass;
        let shape = Shape::PowerNormal { transform, centre, spread };
        Self { mean: middle + shift, variance: squares / mass - shift * shift, shape }
    }

    /// Counts with this law to a power.
    pub(super) fn count(law: CountLaw, power: f64) -> Self {
        let counts = CountDistribution::new(law, power);
        Self { mean: counts.mean, variance: counts.variance, shape: Shape::Count(counts) }
    }

    /// The same where a normal one's variance is that of its rounded standard deviation, for which both are exact.
    pub(crate) fn with_rounded_std(self) -> Self {
        match self.shape {
            Shape::Normal => Self { variance: self.std() * self.std(), ..self },
            _ => self,
        }
    }

    /// Its mean.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Its variance.
    pub fn variance(&self) -> f64 {
        self.variance
    }

    /// Its standard deviation.
    pub fn std(&self) -> f64 {
        self.variance.sqrt()
    }

    /// What numbers are measured by around the mean: the standard deviation, a Student-t's scale, or that of a transformed one near its median.
    pub(crate) fn scale(&self) -> f64 {
        match self.shape {
            Shape::StudentT { scale, .. } => scale,
            Shape::LogNormal { centre, spread } => spread * centre.exp(),
            Shape::PowerNormal { transform, centre, spread } => {
                spread * (-transform.log_slope(transform.inverse(centre))).exp()
            }
            Shape::Normal | Shape::Count(_) => self.std(),
        }
    }

    /// Whether it is one of counts: its quantiles are whole numbers.
    pub(crate) fn is_of_counts(&self) -> bool {
        matches!(self.shape, Shape::Count(_))
    }

    /// log p(y): a density, or the probability of a count.
    pub fn log_density(&self, y: f64) -> f64 {
        match self.shape {
            Shape::Normal => normal::log_density(y - self.mean, self.variance),
            Shape::StudentT { scale, degrees, log_peak } => {
                let z = (y - self.mean) / scale;
                log_peak - 0.5 * (degrees + 1.0) * (z * z / degrees).ln_1p()
            }
            Shape::LogNormal { .. } if y <= 0.0 => f64::NEG_INFINITY,
            Shape::LogNormal { centre, spread } => normal::log_density(y.ln() - centre, spread * spread) - y.ln(),
            Shape::PowerNormal { transform, centre, spread } => {
                normal::log_density(transform.transformed(y) - centre, spread * spread) + transform.log_slope(y)
            }
            Shape::Count(counts) => counts.log_mass(y),
        }
    }

    /// The probability of less than y; of counts with half the probability of y itself, so that the probability integral transform of what it says of itself
    /// is ½ on average.
    pub fn cumulative(&self, y: f64) -> f64 {
        match self.shape {
            Shape::Normal => normal::cumulative((y - self.mean) / self.std()),
            Shape::StudentT { scale, degrees, .. } => student_t_cumulative((y - self.mean) / scale, degrees),
            Shape::LogNormal { .. } if y <= 0.0 => 0.0,
            Shape::LogNormal { centre, spread } => normal::cumulative((y.ln() - centre) / spread),
            Shape::PowerNormal { transform, centre, spread } => {
                normal::cumulative((transform.transformed(y) - centre) / spread)
            }
            Shape::Count(counts) => counts.middle(y),
        }
    }

    /// The probability of more than y, as accurate in the upper tail as [`NumberDistribution::cumulative`] is in the lower; of counts with
    /// half the probability of y itself.
    pub fn above(&self, y: f64) -> f64 {
        match self.shape {
            Shape::Normal => normal::cumulative((self.mean - y) / self.std()),
            Shape::StudentT { scale, degrees, .. } => student_t_cumulative((self.mean - y) / scale, degrees),
            Shape::LogNormal { .. } if y <= 0.0 => 1.0,
            Shape::LogNormal { centre, spread } => normal::cumulative((centre - y.ln()) / spread),
            Shape::PowerNormal { transform, centre, spread } => {
                normal::cumulative((centre - transform.transformed(y)) / spread)
            }
            Shape::Count(counts) => 1.0 - counts.middle(y),
        }
    }

    /// The probability of at most y.
    pub(crate) fn at_most(&self, y: f64) -> f64 {
        match self.shape {
            Shape::Count(counts) => counts.at_most(y),
            _ => self.cumulative(y),
        }
    }

    /// The quantile that a standard normal number z is of its own distribution, for a normal one z standard deviations above the mean: a draw, where z is drawn.
    pub fn at(&self, z: f64) -> f64 {
        match self.shape {
            Shape::Normal => self.mean + self.std() * z,
            Shape::LogNormal { .. } | Shape::PowerNormal { .. } => self.standing_for(z),
            Shape::StudentT { degrees, .. } => {
                self.standing_for(z.signum() * -student_t_quantile(normal::cumulative(-z.abs()), degrees))
            }
            Shape::Count(counts) => counts.quantile(normal::cumulative(z)),
        }
    }

    /// The quantile p of its family at mean 0 and scale 1; not of counts, which have no such family.
    pub(crate) fn standard_quantile(&self, p: f64) -> f64 {
        match self.shape {
            Shape::StudentT { degrees, .. } if p <= 0.5 => student_t_quantile(p, degrees),
            Shape::StudentT { degrees, .. } => -student_t_quantile(1.0 - p, degrees),
            _ => normal_quantile(p),
        }
    }

    /// The number that a number of its family at mean 0 and scale 1 stands for; of a transformed one the family is that of its log or power.
    pub(crate) fn standing_for(&self, z: f64) -> f64 {
        match self.shape {
            Shape::LogNormal { centre, spread } => (centre + spread * z).exp(),
            Shape::PowerNormal { transform, centre, spread } => transform.inverse(centre + spread * z),
            _ => self.mean + self.scale() * z,
        }
    }
}

/// P(t < z), accurate in the lower tail.
fn student_t_cumulative(z: f64, degrees: f64) -> f64 {
    let square = z * z;
    // Of the two shares the smaller is known without loss.
    let tail = if degrees == 4.0 && square.is_finite() {
        // (1 − u)² (2 + u)/4 with u = |z|/√(z² + 4), and 1 − u² = 4/(z² + 4).
        let u = z.abs() / (square + 4.0).sqrt();
        let rest = 4.0 / ((square + 4.0) * (1.0 + u));
        0.25 * rest * rest * (2.0 + u)
    } else if square < degrees {
        0.5 - 0.5 * beta_reg(0.5, 0.5 * degrees, square / (degrees + square))
    } else if square.is_finite() {
        0.5 * beta_reg(0.5 * degrees, 0.5, degrees / (degrees + square))
    } else if z.is_nan() {
        f64::NAN
    } else {
        0.0
    };
    if z > 0.0 { 1.0 - tail } else { tail }
}

/// The quantile p ≤ ½ of Student-t: in closed form for four degrees of freedom, else by halving a bracket.
fn student_t_quantile(p: f64, degrees: f64) -> f64 {
    if degrees == 4.0 && p > 1e-12 {
        let alpha = 4.0 * p * (1.0 - p);
        let q = (alpha.sqrt().min(1.0).acos() / 3.0).cos() / alpha.sqrt();
        return -2.0 * (q - 1.0).max(0.0).sqrt();
    }
    let (mut low, mut high) = (-1.0, 0.0);
    while student_t_cumulative(low, degrees) > p && low > -1e150 {
        (low, high) = (2.0 * low, low);
    }
    while high - low > 4.0 * f64::EPSILON * -low {
        let middle: f64 = 0.5 * (low + high);
        if middle == low || middle == high {
            break;
        }
        if student_t_cumulative(middle, degrees) > p { high = middle } else { low = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_degrees_have_a_closed_form() {
        // Beyond 10⁸¹ the probability is below the least f64.
        assert_eq!((student_t_cumulative(-1e100, 4.0), student_t_cumulative(-1e100, 4.0 + 1e-13)), (0.0, 0.0));
        for z in [-1e70, -1e5, -30.0, -2.5, -2.0, -1.0, -1e-3, 0.0, 0.7, 2.0, 9.0] {
            let (closed, near) = (student_t_cumulative(z, 4.0), student_t_cumulative(z, 4.0 + 1e-13));
            assert!((closed / near - 1.0).abs() < 1e-10, "z = {z}: {closed}, {near}");
        }
        // P(t < −2) = ½ − 5√2/16.
        assert!((student_t_cumulative(-2.0, 4.0) - (0.5 - 5.0 * 2f64.sqrt() / 16.0)).abs() < 1e-16);
        assert_eq!(student_t_cumulative(f64::NEG_INFINITY, 4.0), 0.0);
        assert!(student_t_cumulative(f64::NAN, 4.0).is_nan());
    }

    /// Quantiles of Student-t as tables have them.
    #[test]
    fn student_t_agrees_with_tables() {
        for (degrees, p, expected) in [
            (1.0, 0.25, -1.0),
            (2.0, 0.05, -2.919_985_580_353_725),
            (4.0, 0.025, -2.776_445_105_197_799),
            (4.0, 0.3, -0.568_649_063_049_705),
            (14.0, 0.01, -2.624_494_067_560_231),
        ] {
            let found = student_t_quantile(p, degrees);
            assert!((found - expected).abs() < 1e-9, "{degrees} {p}: {found}");
            assert!((student_t_cumulative(found, degrees) / p - 1.0).abs() < 1e-9);
            assert!((student_t_cumulative(-found, degrees) - (1.0 - p)).abs() < 1e-9);
        }
    }

    #[test]
    fn four_degrees_in_closed_form_are_those_of_the_bracket() {
        for p in [1e-9, 1e-4, 0.1, 0.4999, 0.5] {
            let (closed, near) = (student_t_quantile(p, 4.0), student_t_quantile(p, 4.0 + 1e-9));
            assert!((closed - near).abs() < 1e-6 * (1.0 + closed.abs()), "{p}: {closed} {near}");
        }
    }

    #[test]
    fn a_student_t_with_few_degrees_has_no_variance() {
        assert_eq!(NumberDistribution::student_t(1.0, 2.0, 2.0).variance(), f64::INFINITY);
        assert_eq!(NumberDistribution::student_t(1.0, 2.0, 4.0).variance(), 8.0);
    }

    /// Nothing is at or below 0, not even its log.
    #[test]
    fn a_log_normal_number_is_positive() {
        let law = NumberDistribution::log_normal(0.3, 0.25);
        for y in [-2.0, -0.0, 0.0] {
            assert_eq!((law.log_density(y), law.cumulative(y), law.above(y)), (f64::NEG_INFINITY, 0.0, 1.0), "{y}");
        }
    }

    /// The scale is how fast the quantile moves with z at the median.
    #[test]
    fn scales_are_slopes_at_the_median() {
        for law in [
            NumberDistribution::normal(1.0, 4.0),
            NumberDistribution::log_normal(0.7, 0.09),
            NumberDistribution::log_normal(-1.0, 4.0),
            NumberDistribution::student_t(-1.0, 3.0, 5.0),
            NumberDistribution::power_normal(YeoJohnson::new(0.4).unwrap(), 0.7, 0.09),
            NumberDistribution::power_normal(YeoJohnson::new(0.4).unwrap(), -1.2, 0.25),
        ] {
            let slope = (law.standing_for(1e-5) - law.standing_for(-1e-5)) / 2e-5;
            assert!((law.scale() / slope - 1.0).abs() < 1e-8, "{law:?}: {} {slope}", law.scale());
        }
    }

    /// On both sides of the median, which is 0.
    #[test]
    fn standard_quantiles_invert_the_probability() {
        for law in [
            NumberDistribution::student_t(1.5, 2.0, 4.0),
            NumberDistribution::student_t(1.5, 2.0, 9.0),
            NumberDistribution::normal(1.5, 4.0),
        ] {
            assert!(law.standard_quantile(0.5).abs() < 1e-9);
            for p in [0.01, 0.2, 0.5, 0.7, 0.99] {
                let z = law.standard_quantile(p);
                assert!((law.cumulative(law.standing_for(z)) - p).abs() < 1e-9, "{law:?} {p}: {z}");
                assert!((z + law.standard_quantile(1.0 - p)).abs() < 1e-9, "{law:?} {p}");
            }
        }
    }

    /// Two degrees are the last without a variance, and one without a mean; nearly none are still a distribution.
    #[test]
    fn student_t_with_extreme_degrees() {
        // z = tan(π(p − ½)) of Cauchy's.
        let cauchy = NumberDistribution::student_t(0.0, 1.0, 1.0);
        for p in [1e-8, 0.1, 0.5, 0.75] {
            let expected = (PI * (p - 0.5)).tan();
            assert!((cauchy.standard_quantile(p) - expected).abs() < 1e-7 * (1.0 + expected.abs()), "{p}");
        }
    }
}
