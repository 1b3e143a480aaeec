//! Whether a series still moves: the slope of a straight line through it, with an error that knows of autocorrelation.
//!
//! ```text
//! x_i = a + b i + e_i        se(b)² = s² τ / Σ (i − ī)²,   s² = Σ e² / (N − 2)
//! ```
//! where τ = N / ESS is the autocorrelation time of the residuals. |b|/se(b) is compared with Student's t of ESS − 2 degrees of freedom at 1 %.
//! Residuals of a fitted line look less correlated than they are, so the rate of false alarms is above 1 % where the series is short:
//! of series of 128 numbers with τ = 1, 3, 9 and 19 it is 0.7 %, 2 %, 5 % and 8 % (2000 series each; the test repeats it).
//! With fewer than 8 effective numbers, as in a curve that is no line, nothing can be told, and the series has not been seen to rest.

use super::ess::basic_ess;
use crate::quantile::normal_quantile;

/// Fewest numbers of a series, and fewest effective ones to tell anything.
const LEAST_NUMBERS: usize = 16;
const LEAST_EFFECTIVE: f64 = 8.0;
/// The chance of a false alarm on a long series, two-sided.
const LEVEL: f64 = 0.01;

/// A straight line through a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// How much the line rises from the first number to the last.
    pub change: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Effective sample size of what the line leaves.
    pub effective: f64,
}

impl Trend {
    /// The trend of a series; none where it has fewer than 16 numbers, is constant or not finite.
    pub fn of(series: &[f64]) -> Option<Self> {
        let count = series.len() as f64;
        if series.len() < LEAST_NUMBERS {
            return None;
        }
        let middle = 0.5 * (count - 1.0);
        let mean = series.iter().sum::<f64>() / count;
        let times = || (0..series.len()).map(|index| index as f64 - middle);
        let spread: f64 = times().map(|t| t * t).sum();
        let slope = times().zip(series).map(|(t, x)| t * (x - mean)).sum::<f64>() / spread;
        let left: Vec<f64> = times().zip(series).map(|(t, x)| x - mean - slope * t).collect();
        let variance = left.iter().map(|e| e * e).sum::<f64>() / (count - 2.0);
        let effective = basic_ess(&[&left]).ok()?.min(count);
        let standard_error = (variance * count / effective / spread).sqrt() * (count - 1.0);
        Some(Self { change: slope * (count - 1.0), standard_error, effective })
    }

    /// Whether there is enough to tell.
    pub fn can_tell(&self) -> bool {
        self.effective >= LEAST_EFFECTIVE
    }

    /// Whether the series moves by more than chance explains.
    pub fn is_clear(&self) -> bool {
        self.can_tell()
            && self.change.abs() > student_quantile(1.0 - LEVEL / 2.0, self.effective - 2.0) * self.standard_error
    }
}

/// Student's t by its expansion in 1/ν (Abramowitz & Stegun 26.7.5), within 2 % from ν = 6 on.
fn student_quantile(probability: f64, degrees: f64) -> f64 {
    let z = normal_quantile(probability);
    let terms = [
        z,
        (z.powi(3) + z) / 4.0,
        (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0,
        (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| sum / degrees + term)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{NoiseKey, Purpose};

    /// x ← φ x + √(1−φ²) noise from its stationary law.
    fn autoregressive(phi: f64, len: usize, seed: u64) -> Vec<f64> {
        let mut noise = vec![0.0; len];
        NoiseKey { seed, purpose: Purpose::StepNoise, chain: 0, step: 0 }.fill_normal(&mut noise);
        let mut x = f64::from(noise[0]);
        let step = |&noise: &f32| {
            x = phi * x + (1.0 - phi * phi).sqrt() * f64::from(noise);
            x
        };
        noise.iter().map(step).collect()
    }

    /// The shares of 2000 series that are called moving, and that nothing is said of.
    fn rates(phi: f64, change: f64) -> (f64, f64) {
        let (mut alarms, mut silent) = (0.0, 0.0);
        for seed in 0..2000 {
            let mut series = autoregressive(phi, 128, seed);
            series.iter_mut().enumerate().for_each(|(i, x)| *x += change * i as f64 / 127.0);
            match Trend::of(&series) {
                Some(trend) if trend.can_tell() => alarms += f64::from(u8::from(trend.is_clear())) / 2000.0,
                _ => silent += 1.0 / 2000.0,
            }
        }
        (alarms, silent)
    }

    #[test]
    fn false_alarms_are_as_rare_as_documented() {
        let found = [0.0, 0.5, 0.8, 0.9].map(|phi| rates(phi, 0.0));
        for ((alarms, _), most) in found.into_iter().zip([0.015, 0.03, 0.07, 0.1]) {
            assert!(alarms <= most, "{alarms} > {most}");
        }
    }

    /// Three standard deviations over the series are seen where τ = 3.
    #[test]
    fn a_trend_is_seen() {
        let (alarms, _) = rates(0.5, 3.0);
        assert!(alarms > 0.95, "{alarms}");
    }

    #[test]
    fn a_line_by_hand() {
        // Signs alternate around 2 + 0.5 i, so that nothing but the slope is left of the sums.
        let series: Vec<f64> = (0..20).map(|i| 2.0 + 0.5 * f64::from(i) + if i % 4 < 2 { 0.1 } else { -0.1 }).collect();
        let trend = Trend::of(&series).unwrap();
        assert!((trend.change - 9.5).abs() < 0.1 && trend.is_clear(), "{trend:?}");
        assert_eq!(Trend::of(&[1.0; 40]), None);
        assert_eq!(Trend::of(&[1.0, 2.0, 3.0]), None);
        let mut broken = series;
        broken[3] = f64::NAN;
        assert_eq!(Trend::of(&broken), None);
    }

    #[test]
    fn quantiles_of_student() {
        for (degrees, expected) in [(6.0, 3.707), (10.0, 3.169), (30.0, 2.750)] {
            let found = student_quantile(0.995, degrees);
            assert!((found / expected - 1.0).abs() < 0.02, "{degrees}: {found}");
        }
    }

    /// Quantiles of tables, within the 2 % of the expansion.
    #[test]
    fn student_quantiles_are_those_of_tables() {
        for (degrees, at_99, at_90) in [(6.0, 3.707_43, 1.943_18), (10.0, 3.169_27, 1.812_46), (30.0, 2.75, 1.697_26)] {
            for (probability, expected) in [(0.995, at_99), (0.95, at_90)] {
                let found = student_quantile(probability, degrees);
                let most = if degrees < 10.0 { 0.02 } else { 0.003 };
                assert!((found / expected - 1.0).abs() < most, "{degrees} {probability}: {found}");
            }
        }
    }

    /// Twenty numbers with a line and an even, uncorrelated rest of ±0.1: all by the formulas of the head.
    #[test]
    fn the_error_of_a_line_by_hand() {
        let signs = [1.0, -1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, -1.0, 1.0];
        let signs: Vec<f64> = signs.iter().copied().chain(signs.iter().rev().copied()).collect();
        let series: Vec<f64> = signs.iter().enumerate().map(|(i, sign)| 5.0 + 0.02 * i as f64 + 0.1 * sign).collect();
        let trend = Trend::of(&series).unwrap();
        // Signs mirror each other, so they have no slope; Σ (i − ī)² = (20³ − 20)/12 = 665 and Σ e² = 0.2.
        assert!((trend.change - 0.02 * 19.0).abs() < 1e-9, "{trend:?}");
        let expected = (0.2f64 / 18.0 * 20.0 / trend.effective / 665.0).sqrt() * 19.0;
        assert!((trend.standard_error / expected - 1.0).abs() < 1e-9, "{trend:?}, {expected}");
        assert!(trend.effective <= 20.0 && trend.can_tell(), "{trend:?}");
        assert!(Trend::of(&series[..16]).is_some() && Trend::of(&series[..15]).is_none());
        let still = Trend { change: 0.4, standard_error: 0.2, effective: 7.9 };
        assert!(!still.can_tell() && Trend { effective: 8.0, ..still }.can_tell());
        // t of six degrees at 1 % is 3.707, of eight 3.355.
        let clear = |share: f64, effective| Trend { change: -0.2 * share, standard_error: 0.2, effective }.is_clear();
        assert!(clear(3.8, 8.0) && !clear(3.6, 8.0) && clear(3.4, 10.0) && !clear(3.3, 10.0) && !clear(9.0, 7.0));
    }

    /// The terms of the expansion by hand, at z = 1 and z = 2.
    #[test]
    fn terms_of_the_expansion() {
        let (one, two) = (0.841_344_746_068_542_9, 0.977_249_868_051_820_8);
        for (probability, degrees, expected) in [(one, 1.0, 1.8125), (two, 1.0, 10.421_875), (two, 2.0, 4.373_046_875)]
        {
            let found = student_quantile(probability, degrees);
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }
}
