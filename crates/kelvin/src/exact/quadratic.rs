//! Stationary laws of the discretised samplers on U = kθ²/2: exact at any step size, so they test a sampler exactly.
//!
//! The gradient is kθ plus noise of variance V_g; M is the mass, T the temperature, all formulas after a full step.
//! Each follows from Σ = A Σ Aᵀ + Q, the fixed point of the linear recursion; the tests check them against it.

/// A one-dimensional quadratic energy with what surrounds it.
///
/// ```
/// let bowl = kelvin::exact::Quadratic { curvature: 1.0, mass: 1.0, temperature: 1.0, gradient_noise_variance: 0.0 };
/// let law = bowl.symplectic_euler(0.05, 0.98).expect("a stable step");
/// assert!((law.kinetic_temperature - 1.010739).abs() < 1e-6);
/// assert!((bowl.baoa(0.05, 0.98).expect("a stable step").configurational_temperature - 1.0).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quadratic {
    /// k.
    pub curvature: f64,
    /// M.
    pub mass: f64,
    /// T.
    pub temperature: f64,
    /// V_g, the variance of the noise on ∇U.
    pub gradient_noise_variance: f64,
}

/// The stationary law of position and momentum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseLaw {
    /// `E[θ²]`.
    pub position_variance: f64,
    /// `E[m²]`.
    pub momentum_variance: f64,
    /// `E[θm]`.
    pub covariance: f64,
    /// `E[m²]/M`.
    pub kinetic_temperature: f64,
    /// `k·E[θ²]`.
    pub configurational_temperature: f64,
}

/// The stationary law of a sampler without momentum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PositionLaw {
    /// `E[θ²]`.
    pub position_variance: f64,
    /// `k·E[θ²]`.
    pub configurational_temperature: f64,
}

impl Quadratic {
    /// T_e = T + h² V_g / (2 (1 − μ) M), the temperature SGHMC works at.
    pub fn effective_temperature(&self, step_size: f64, retained_momentum: f64) -> f64 {
        let heat = step_size * step_size * self.gradient_noise_variance / (2.0 * (1.0 - retained_momentum) * self.mass);
        self.temperature + heat
    }

    /// SGHMC, the paper's symplectic Euler: m ← μm − h(kθ + noise) + √(2(1−μ)TM) R; θ ← θ + hm/M.
    ///
    /// ```text
    /// E[m²]/M = 2T_e / D,   k E[θ²] = T_e (1 + μ) / D,   E[θm] = (h/2) E[m²]/M,   D = 1 + μ − h²k/(2M)
    /// ```
    /// `None` where the recursion has no stationary law (D ≤ 0, |μ| ≥ 1 or k ≤ 0).
    pub fn symplectic_euler(&self, step_size: f64, retained_momentum: f64) -> Option<PhaseLaw> {
        let (h, mu) = (step_size, retained_momentum);
        let denominator = 1.0 + mu - h * h * self.curvature / (2.0 * self.mass);
        if !(denominator > 0.0 && self.is_bound(mu)) {
            return None;
        }
        let effective = self.effective_temperature(h, mu);
        let kinetic_temperature = 2.0 * effective / denominator;
        let configurational_temperature = effective * (1.0 + mu) / denominator;
        Some(PhaseLaw {
            position_variance: configurational_temperature / self.curvature,
            momentum_variance: self.mass * kinetic_temperature,
            covariance: 0.5 * h * kinetic_temperature,
            kinetic_temperature,
            configurational_temperature,
        })
    }

    /// BAOA (the order of cold_posterior_bnn): m ← m − h(kθ + noise); θ ← θ + hm/(2M); m ← μm + √((1−μ²)TM) R;
    /// θ ← θ + hm/(2M).
    ///
    /// With E = h² V_g / ((1 − μ²)(1 − h²k/(4M))),
    /// ```text
    /// k E[θ²] = T + (1 + μ)² E/(4M),   E[m²] = MT + μ² E,   E[θm] = h/(2M) (MT + μ(1 + μ) E/2)
    /// ```
    /// so without gradient noise positions and momenta are both exactly at T. `None` where the recursion has no
    /// stationary law (h²k ≥ 4M, |μ| ≥ 1 or k ≤ 0).
    pub fn baoa(&self, step_size: f64, retained_momentum: f64) -> Option<PhaseLaw> {
        let (h, mu, mass) = (step_size, retained_momentum, self.mass);
        let margin = 1.0 - h * h * self.curvature / (4.0 * mass);
        if !(margin > 0.0 && self.is_bound(mu)) {
            return None;
        }
        let excess = h * h * self.gradient_noise_variance / ((1.0 - mu * mu) * margin);
        let thermal = mass * self.temperature;
        let configurational_temperature = self.temperature + (1.0 + mu).powi(2) * excess / (4.0 * mass);
        let momentum_variance = thermal + mu * mu * excess;
        Some(PhaseLaw {
            position_variance: configurational_temperature / self.curvature,
            momentum_variance,
            covariance: h / (2.0 * mass) * (thermal + 0.5 * mu * (1.0 + mu) * excess),
            kinetic_temperature: momentum_variance / mass,
            configurational_temperature,
        })
    }

    /// BAOAB: m ← m − h(kθ + noise)/2; θ ← θ + hm/(2M); m ← μm + √((1−μ²)TM) R; θ ← θ + hm/(2M); m ← m − h(kθ + noise)/2, where the
    /// last kick and the first of the next step share their gradient.
    ///
    /// Positions are BAOA's, and momenta m = p − h(kθ + noise)/2 of its momenta p:
    /// ```text
    /// E[θm] = E[θp] − hk E[θ²]/2,   E[m²] = E[p²] − hk E[θp] + h²(k² E[θ²] + V_g)/4
    /// ```
    /// so without gradient noise `k E[θ²] = T`, `E[m²]/M = T (1 − h²k/(4M))` and `E[θm] = 0`. `None` where BAOA has no law.
    pub fn baoab(&self, step_size: f64, retained_momentum: f64) -> Option<PhaseLaw> {
        let before = self.baoa(step_size, retained_momentum)?;
        let (half_kick, variance) = (0.5 * step_size * self.curvature, before.position_variance);
        let noise = 0.25 * step_size * step_size * self.gradient_noise_variance;
        let momentum_variance =
            before.momentum_variance - 2.0 * half_kick * before.covariance + half_kick * half_kick * variance + noise;
        Some(PhaseLaw {
            momentum_variance,
            covariance: before.covariance - half_kick * variance,
            kinetic_temperature: momentum_variance / self.mass,
            ..before
        })
    }

    /// SGLD: θ ← θ − ε(kθ + noise)/M + √(2Tε/M) R, with ε = ℓ/n.
    ///
    /// ```text
    /// k E[θ²] = (2T + ε V_g/M) / (2 − εk/M)
    /// ```
    /// `None` where the recursion has no stationary law (εk ≥ 2M or k ≤ 0).
    pub fn langevin(&self, step_size: f64) -> Option<PositionLaw> {
        let scaled = step_size / self.mass;
        let denominator = 2.0 - scaled * self.curvature;
        if !(denominator > 0.0 && self.is_bound(0.0)) {
            return None;
        }
        let heat = 2.0 * self.temperature + scaled * self.gradient_noise_variance;
        let configurational_temperature = heat / denominator;
        Some(PositionLaw {
            position_variance: configurational_temperature / self.curvature,
            configurational_temperature,
        })
    }

    fn is_bound(&self, retained_momentum: f64) -> bool {
        self.curvature > 0.0 && self.mass > 0.0 && retained_momentum.abs() < 1.0
    }
}

/// SGNHT on many coordinates of each bowl at once, all at the temperature T of the first: friction settles where the mean of
/// `E[m²]/M` over the bowls is T, while the noise stays that of the asked friction −ln μ / h.
///
/// ```text
/// the law of BAOA at k = e^{−hξ} and temperature T ln μ / ln k
/// ```
/// Exact as the number d of coordinates grows, since ξ has variance 1/d. `None` where there is no stationary law.
pub fn thermostatted(bowls: &[Quadratic], step_size: f64, retained_momentum: f64) -> Option<Vec<PhaseLaw>> {
    let (target, asked) = (bowls.first()?.temperature, -retained_momentum.ln());
    let laws = |damping: f64| -> Option<Vec<PhaseLaw>> {
        let law = |bowl: &Quadratic| {
            Quadratic { temperature: target * asked / damping, ..*bowl }.baoa(step_size, (-damping).exp())
        };
        bowls.iter().map(law).collect()
    };
    // More friction always cools: halve the interval of log(hξ) until nothing is left of it.
    let (mut low, mut high) = (1e-9_f64.ln(), 100_f64.ln());
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        let kinetic = laws(middle.exp())?.iter().map(|law| law.kinetic_temperature).sum::<f64>() / bowls.len() as f64;
        if kinetic > target { low = middle } else { high = middle }
    }
    laws(high.exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STIFF: Quadratic = Quadratic { curvature: 40.0, mass: 5.5, temperature: 0.1, gradient_noise_variance: 2.0 };

    fn assert_near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }

    /// One step of (θ, m) as a linear map: A, and the columns through which gradient noise and thermal noise enter.
    struct Recursion {
        map: [[f64; 2]; 2],
        noises: [[f64; 2]; 2],
    }

    /// Asserts Σ = A Σ Aᵀ + Q.
    fn assert_stationary(law: &PhaseLaw, step: &Recursion) {
        let [theta, momentum, cross] = [law.position_variance, law.momentum_variance, law.covariance];
        let after = |row: usize, column: usize| {
            let ([a, b], [c, d]) = (step.map[row], step.map[column]);
            let noise: f64 = step.noises.iter().map(|noise| noise[row] * noise[column]).sum();
            a * c * theta + (a * d + b * c) * cross + b * d * momentum + noise
        };
        for (before, after) in [(theta, after(0, 0)), (cross, after(0, 1)), (momentum, after(1, 1))] {
            assert!((after - before).abs() < 1e-13 * (1.0 + before.abs()), "{law:?}: {before} becomes {after}");
        }
    }

    fn settings() -> impl Iterator<Item = (Quadratic, f64, f64)> {
        let cold = Quadratic { temperature: 0.0, ..STIFF };
        let quiet = Quadratic { gradient_noise_variance: 0.0, ..STIFF };
        let light = Quadratic { mass: 0.7, curvature: 3.0, temperature: 2.0, gradient_noise_variance: 0.4 };
        [STIFF, cold, quiet, light]
            .into_iter()
            .flat_map(|bowl| [(0.1, 0.98), (0.5, 0.9), (0.3, 0.2), (0.2, 0.0)].map(|(h, mu)| (bowl, h, mu)))
    }

    #[test]
    fn symplectic_euler_is_a_fixed_point_of_its_recursion() {
        for (bowl, h, mu) in settings() {
            let (k, drift) = (bowl.curvature, h / bowl.mass);
            let gradient = -h * bowl.gradient_noise_variance.sqrt();
            let thermal = (2.0 * (1.0 - mu) * bowl.temperature * bowl.mass).sqrt();
            let step = Recursion {
                map: [[1.0 - drift * h * k, drift * mu], [-h * k, mu]],
                noises: [[drift * gradient, gradient], [drift * thermal, thermal]],
            };
            assert_stationary(&bowl.symplectic_euler(h, mu).unwrap(), &step);
        }
    }

    #[test]
    fn baoa_is_a_fixed_point_of_its_recursion() {
        for (bowl, h, mu) in settings() {
            let (k, half) = (bowl.curvature, h / (2.0 * bowl.mass));
            let both = half * (1.0 + mu); // what one unit of kicked momentum adds to θ in the two drifts
            let gradient = -h * bowl.gradient_noise_variance.sqrt();
            let thermal = ((1.0 - mu * mu) * bowl.temperature * bowl.mass).sqrt();
            let step = Recursion {
                map: [[1.0 - both * h * k, both], [-mu * h * k, mu]],
                noises: [[both * gradient, mu * gradient], [half * thermal, thermal]],
            };
            assert_stationary(&bowl.baoa(h, mu).unwrap(), &step);
        }
    }

    /// (θ, m, noise) with the noise that the last kick and the next step share: Σ = A Σ Aᵀ + Q in three dimensions.
    #[test]
    fn baoab_is_a_fixed_point_of_its_recursion() {
        for (bowl, h, mu) in settings() {
            let law = bowl.baoab(h, mu).unwrap();
            let (k, half, kick) = (bowl.curvature, h / (2.0 * bowl.mass), 0.5 * h);
            let noise = bowl.gradient_noise_variance;
            let before = [
                [law.position_variance, law.covariance, 0.0],
                [law.covariance, law.momentum_variance, -kick * noise],
                [0.0, -kick * noise, noise],
            ];
            // p = m − kick (kθ + noise) drifts by `both`; then m' = μ p + R − kick (kθ' + noise').
            let both = half * (1.0 + mu);
            let p = [-kick * k, 1.0, -kick];
            let theta = [1.0 + both * p[0], both * p[1], both * p[2]];
            let m = [0, 1, 2].map(|i| mu * p[i] - kick * k * theta[i]);
            let thermal = (1.0 - mu * mu) * bowl.temperature * bowl.mass;
            let (in_theta, in_m) = (half, 1.0 - kick * k * half);
            let after = |a: [f64; 3], b: [f64; 3]| -> f64 {
                (0..3).map(|i| (0..3).map(|j| a[i] * b[j] * before[i][j]).sum::<f64>()).sum()
            };
            for (before, after) in [
                (before[0][0], after(theta, theta) + in_theta * in_theta * thermal),
                (before[0][1], after(theta, m) + in_theta * in_m * thermal),
                (before[1][1], after(m, m) + in_m * in_m * thermal + kick * kick * noise),
            ] {
                assert!((after - before).abs() < 1e-13 * (1.0 + before.abs()), "{law:?}: {before} becomes {after}");
            }
            if noise == 0.0 {
                assert_near(law.kinetic_temperature, bowl.temperature * (1.0 - h * h * k / (4.0 * bowl.mass)));
                assert_near(law.configurational_temperature, bowl.temperature);
                assert!(law.covariance.abs() < 1e-15);
            }
        }
    }

    /// Without gradient noise nothing is to be taken away, and the law is BAOA's; with it the mean over all bowls is as asked.
    #[test]
    fn a_thermostat_takes_away_what_gradient_noise_heats() {
        let soft = Quadratic { mass: 0.7, curvature: 3.0, ..STIFF };
        let quiet = [STIFF, soft].map(|bowl| Quadratic { gradient_noise_variance: 0.0, ..bowl });
        for (law, bowl) in thermostatted(&quiet, 0.2, 0.9).unwrap().iter().zip(&quiet) {
            assert_near(law.position_variance, bowl.baoa(0.2, 0.9).unwrap().position_variance);
        }
        let noisy = thermostatted(&[STIFF, soft], 0.2, 0.9).unwrap();
        assert_near(noisy.iter().map(|law| law.kinetic_temperature).sum::<f64>() / 2.0, STIFF.temperature);
        let plain = STIFF.baoa(0.2, 0.9).unwrap();
        assert!(noisy[0].configurational_temperature < plain.configurational_temperature);
        assert_eq!((thermostatted(&[STIFF], 1.0, 0.98), thermostatted(&[], 0.1, 0.9)), (None, None));
    }

    #[test]
    fn langevin_is_a_fixed_point_of_its_recursion() {
        let step = 0.01;
        let law = STIFF.langevin(step).unwrap();
        let keep = 1.0 - step * STIFF.curvature / STIFF.mass;
        let noise =
            2.0 * STIFF.temperature * step / STIFF.mass + STIFF.gradient_noise_variance * (step / STIFF.mass).powi(2);
        assert_near(keep * keep * law.position_variance + noise, law.position_variance);
    }

    #[test]
    fn agrees_with_the_reference() {
        let euler = STIFF.symplectic_euler(0.1, 0.98).unwrap();
        assert_near(STIFF.effective_temperature(0.1, 0.98), 0.19090909090909086);
        assert_near(euler.kinetic_temperature, 0.19644527595883998);
        assert_near(euler.configurational_temperature, 0.19448082319925158);
        assert_near(euler.covariance, 0.009822263797942);
        let baoa = STIFF.baoa(0.1, 0.98).unwrap();
        assert_near(baoa.momentum_variance, 1.0440329218106945);
        assert_near(baoa.covariance, 0.009537037037037066);
        assert_near(baoa.configurational_temperature, 0.19166666666666582);
        assert_near(STIFF.langevin(0.01).unwrap().position_variance, 0.0026415094339622635);
    }

    #[test]
    fn an_unstable_step_has_no_law() {
        assert_eq!(STIFF.symplectic_euler(1.0, 0.98), None);
        assert_eq!(STIFF.symplectic_euler(0.1, 1.0), None);
        assert_eq!(STIFF.baoa(1.0, 0.98), None);
        assert_eq!(STIFF.langevin(0.5), None);
        assert_eq!(Quadratic { curvature: 0.0, ..STIFF }.baoa(0.1, 0.9), None);
        assert_eq!(STIFF.baoa(f64::NAN, 0.9), None);
    }
}
