//! The normal distribution as prediction needs it: log density and cumulative probability.

use std::f64::consts::{PI, SQRT_2};

use statrs::function::erf::erfc;
use statrs::function::gamma::gamma_ur;

/// log N(residual | 0, variance) = −½ log(2π v) − r²/(2v).
pub(crate) fn log_density(residual: f64, variance: f64) -> f64 {
    -0.5 * (2.0 * PI * variance).ln() - residual * residual / (2.0 * variance)
}

/// Φ(z), accurate in the lower tail; for the upper tail ask for Φ(−z).
///
/// Φ(−|z|) = ½ erfc(x) = ½ Q(½, x²), x = |z|/√2, with Q the upper incomplete gamma function. In statrs 0.18 the former
/// is good below x = ½ only (beyond, its constants have 24 bits: errors of 1e-10 and jumps between its pieces, which
/// a root finder would feel), and the latter is good everywhere but near 0 (it takes x² < 1e-15 for nothing).
pub(crate) fn cumulative(z: f64) -> f64 {
    let x = z.abs() / SQRT_2;
    let tail = if x < 0.5 {
        0.5 * erfc(x)
    } else if x < 28.0 {
        0.5 * gamma_ur(0.5, x * x)
    } else {
        0.0 // below the smallest f64
    };
    if z > 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile::normal_quantile;

    #[test]
    fn agrees_with_tables() {
        for (z, p) in [
            (0.0, 0.5),
            (1e-8, 0.500_000_003_989_422_8),
            (1.0, 0.841_344_746_068_542_9),
            (1.959_963_984_540_054, 0.975),
            (-1.644_853_626_951_472_6, 0.05),
            (-10.0, 7.619_853_024_160_527e-24),
        ] {
            assert!((cumulative(z) / p - 1.0).abs() < 1e-13, "Φ({z}) = {}", cumulative(z));
            assert!((normal_quantile(p) - z).abs() < 1e-12, "Φ⁻¹({p}) = {}", normal_quantile(p));
        }
        assert_eq!([cumulative(1e200), cumulative(-1e200), cumulative(1e-200)], [1.0, 0.0, 0.5]);
        assert!((log_density(0.0, 0.01) - 1.383_646_559_789_373).abs() < 1e-14);
        assert!((log_density(3.0, 4.0) - (-0.5 * (8.0 * PI).ln() - 9.0 / 8.0)).abs() < 1e-15);
    }
}
