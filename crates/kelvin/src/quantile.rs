//! Quantiles of the standard normal and of χ².

use statrs::function::erf::erfc_inv;
use statrs::function::gamma::{gamma_lr, gamma_ur, ln_gamma};

/// Φ⁻¹(p) for 0 < p < 1.
pub fn normal_quantile(probability: f64) -> f64 {
    -std::f64::consts::SQRT_2 * erfc_inv(2.0 * probability)
}

/// The end of a distribution that a probability is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// From the smallest values.
    Lower,
    /// From the largest values.
    Upper,
}

/// The x beyond which χ²_d has the given probability (at most ½) in the given tail.
///
/// Newton's method in u = log x on the logarithm of the tail probability: both logarithms are concave in u, so it
/// converges from the Wilson–Hilferty start without a bracket. (statrs' own quantile loses its way for large d.)
pub fn chi_squared_quantile(degrees: usize, tail: Tail, probability: f64) -> f64 {
    let d = degrees as f64;
    let shape = 0.5 * d;
    let z = match tail {
        Tail::Lower => normal_quantile(probability),
        Tail::Upper => -normal_quantile(probability),
    };
    let wilson_hilferty = d * (1.0 - 2.0 / (9.0 * d) + z * (2.0 / (9.0 * d)).sqrt()).powi(3);
    // The leading term of the distribution function at 0, for the few degrees of freedom where the cube fails.
    let near_zero = 2.0 * ((probability.ln() + ln_gamma(shape + 1.0)) / shape).exp();
    let mut x = wilson_hilferty.max(near_zero);
    for _ in 0..50 {
        let half = 0.5 * x;
        let log_density = shape * half.ln() - half - ln_gamma(shape); // of u
        let (found, direction) = match tail {
            Tail::Lower => (gamma_lr(shape, half), -1.0),
            Tail::Upper => (gamma_ur(shape, half), 1.0),
        };
        let step = direction * (found.ln() - probability.ln()) * (found.ln() - log_density).exp();
        if !step.is_finite() {
            break;
        }
        x *= step.exp();
        if step.abs() < 1e-14 {
            break;
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_quantiles_are_precise() {
        assert!((normal_quantile(0.975) - 1.959_963_984_540_054).abs() < 1e-14);
        assert!((normal_quantile(1e-6) + 4.753_424_308_822_899).abs() < 1e-13);
        assert_eq!(normal_quantile(0.5), 0.0);
    }

    #[test]
    fn quantiles_of_chi_squared_leave_their_probability_beyond() {
        assert!((chi_squared_quantile(1, Tail::Upper, 0.05) - 3.841_458_820_694_124).abs() < 1e-12);
        assert!((chi_squared_quantile(4, Tail::Upper, 0.1) - 7.779_440_339_734_858).abs() < 1e-12);
        for degrees in [1, 2, 3, 10, 641, 100_000] {
            for probability in [0.005, 0.05, 0.3, 0.5] {
                let shape = 0.5 * degrees as f64;
                let above = chi_squared_quantile(degrees, Tail::Upper, probability);
                let below = chi_squared_quantile(degrees, Tail::Lower, probability);
                assert!((gamma_ur(shape, 0.5 * above) / probability - 1.0).abs() < 1e-9, "{degrees} {probability}");
                assert!((gamma_lr(shape, 0.5 * below) / probability - 1.0).abs() < 1e-9, "{degrees} {probability}");
            }
        }
    }
}
