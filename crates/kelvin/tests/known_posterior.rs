//! Known posterior: every integrator samples the law it should, the exact one of its discretisation where that is known.
//!
//! Coordinates (or chains) are independent and each gives one time average, so the standard error of their mean needs no
//! model of the autocorrelation: z = (mean − expected) / (sd/√R) with R averages is Student's t with R − 1 degrees of
//! freedom. R ≥ 192 everywhere, so |z| < 5 fails by chance with probability below 1.3e-6 a number; the
//! nearly 1600 numbers of this file, `hmc.rs` and `mclmc.rs` together raise a false alarm with one seed in 480, and the seeds are fixed.
//!
//! Every case has a twin whose noise is 5 % too large (a thermostat corrects that: its own temperature is wrong instead); the same
//! check must reject it, or it would not be worth having.

use std::sync::Mutex;

use kelvin::data::{Examples, Targets};
use kelvin::exact::{LinearRegression, PhaseLaw, PositionLaw, Quadratic, thermostatted};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Layout, Network, Role};
use kelvin::potential::{Batch, Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::sampler::{Batches, Chain, Conditions, Integrator, Keep, Langevin, Plan, Rule, WarmUp, run_population};
use kelvin::temperature::{Temperature, Tempering};

/// The noise of a twin, in standard deviations; noise goes with √T, so its temperature is off by the square.
const WRONG_NOISE: f64 = 1.05;

/// A number with its time averages over independent coordinates or chains, and what it should be.
pub(crate) struct Reading {
    pub what: String,
    pub averages: Vec<f64>,
    pub expected: f64,
}

impl Reading {
    fn z(&self) -> f64 {
        let count = self.averages.len() as f64;
        let mean = self.averages.iter().sum::<f64>() / count;
        let variance = self.averages.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (mean - self.expected) / (variance / count).sqrt()
    }
}

/// The check of this file: names every reading that is not what it should be.
fn check(readings: &[Reading]) -> Result<(), String> {
    assert!(readings.iter().all(|reading| reading.averages.len() >= 192), "too few averages for the false-alarm rate");
    let wrong: Vec<String> = readings
        .iter()
        .map(|reading| (reading, reading.z()))
        .filter(|(_, z)| z.is_nan() || z.abs() >= 5.0)
        .map(|(reading, z)| format!("{} should be {}: z = {z:.1}", reading.what, reading.expected))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Runs the case and its twin through the same check; returns the twin.
pub(crate) fn check_with_twin(case: &str, temperature: f64, readings: impl Fn(f64) -> Vec<Reading>) -> Vec<Reading> {
    if let Err(wrong) = check(&readings(temperature)) {
        panic!("{case}:\n{wrong}");
    }
    let twin = readings(temperature * WRONG_NOISE * WRONG_NOISE);
    assert!(twin.iter().all(|reading| reading.z().is_finite()), "{case}: a twin must fail by its noise, not by a NaN");
    assert!(check(&twin).is_err(), "{case}: noise that is 5 % too large was not noticed");
    twin
}

/// Σ k θ²/2 over groups of independent coordinates, one tensor a curvature, with noise on the gradient.
pub(crate) struct Bowls {
    pub curvatures: Vec<f64>,
    pub coordinates: usize,
    pub gradient_noise_variance: f64,
}

/// The gradient noise of a run: how often it was drawn, and the numbers.
pub(crate) struct GradientNoise {
    draws: u64,
    numbers: Vec<f32>,
}

impl Potential for Bowls {
    type Workspace = GradientNoise;

    fn dim(&self) -> usize {
        self.curvatures.len() * self.coordinates
    }

    fn evaluate(&self, position: &[f32], _: Batch<'_>, gradient: &mut [f32], work: &mut GradientNoise) -> f64 {
        let std = self.gradient_noise_variance.sqrt() as f32;
        if std > 0.0 {
            let key = NoiseKey { seed: 0xB0, purpose: Purpose::StepNoise, chain: 0, step: work.draws };
            key.fill_normal(&mut work.numbers);
            work.draws += 1;
        }
        let mut energy = 0.0;
        for (group, &curvature) in self.curvatures.iter().enumerate() {
            for index in group * self.coordinates..(group + 1) * self.coordinates {
                gradient[index] = curvature as f32 * position[index] + std * work.numbers[index];
                energy += 0.5 * curvature * f64::from(position[index]).powi(2);
            }
        }
        energy
    }

    fn workspace(&self) -> GradientNoise {
        GradientNoise { draws: 0, numbers: vec![0.0; self.dim()] }
    }

    fn layout(&self) -> Layout {
        let mut layout = Layout::default();
        for curvature in &self.curvatures {
            layout.push(&format!("curvature {curvature}"), Role::Position, &[self.coordinates]);
        }
        layout
    }
}

/// Steps from one state that is looked at to the next.
const EVERY: u64 = 4;

/// Runs one chain and gives, for each statistic of (θ, m), the time average of every coordinate after the burn-in.
fn coordinate_averages<P: Potential, const N: usize>(
    potential: &P,
    rule: &Langevin,
    chain: &mut Chain,
    [burn_in, num_steps]: [u64; 2],
    statistics: impl Fn(f64, f64) -> [f64; N] + Sync,
) -> [Vec<f64>; N] {
    let plan = Plan {
        seed: chain.temperature.value().to_bits(), // or temperatures would share their noise and their luck
        batches: Batches::full(potential.num_examples()),
        num_steps: burn_in + num_steps,
        keep: Keep { burn_in, every: EVERY },
    };
    let sums = Mutex::new([(); N].map(|()| vec![0.0; potential.dim()]));
    let watch = |_: usize, chain: &Chain| {
        let mut sums = sums.lock().unwrap();
        for (index, (&theta, &m)) in chain.state.position.iter().zip(&chain.state.momentum).enumerate() {
            for (sum, value) in sums.iter_mut().zip(statistics(f64::from(theta), f64::from(m))) {
                sum[index] += value;
            }
        }
    };
    run_population(potential, rule, &plan, std::slice::from_mut(chain), &watch);
    assert_eq!(chain.divergence, None);
    sums.into_inner().unwrap().map(|sums| sums.into_iter().map(|sum| sum / (num_steps / EVERY) as f64).collect())
}

pub(crate) const CURVATURES: [f64; 4] = [0.5, 2.0, 10.0, 30.0];
const LEARNING_RATE: f64 = 0.05;
const MOMENTUM: f64 = 0.9;

/// The stationary law of one bowl: of its position and, where there is one, its momentum.
enum Law {
    Phase(PhaseLaw),
    Position(PositionLaw),
}

/// The row of a sampler: its exact stationary law on bowls that move together.
fn laws(integrator: Integrator, bowls: &[Quadratic], at: &Conditions) -> Vec<Law> {
    let (h, mu) = (at.step_size, at.retained_momentum);
    let of_each = |law: &dyn Fn(&Quadratic) -> Law| bowls.iter().map(law).collect();
    match integrator {
        Integrator::Sghmc => of_each(&|bowl| Law::Phase(bowl.symplectic_euler(h, mu).unwrap())),
        Integrator::Baoa => of_each(&|bowl| Law::Phase(bowl.baoa(h, mu).unwrap())),
        Integrator::Baoab => of_each(&|bowl| Law::Phase(bowl.baoab(h, mu).unwrap())),
        Integrator::Sgld => of_each(&|bowl| Law::Position(bowl.langevin(h).unwrap())),
        Integrator::Sgnht => thermostatted(bowls, h, mu).unwrap().into_iter().map(Law::Phase).collect(),
        other => panic!("{other} has no law here"),
    }
}

/// Position, momentum and kinetic temperature of every curvature when `rule` runs at a temperature; the laws are those of its
/// sampler at conditions that may be others.
fn bowl_readings(rule: &Langevin, temperature: f64, at: &Conditions, noise: f64, masses: [f64; 4]) -> Vec<Reading> {
    let bowls = Bowls { curvatures: CURVATURES.to_vec(), coordinates: 512, gradient_noise_variance: noise };
    let layout = bowls.layout();
    let mut chain = Chain::new(0, Temperature::new(temperature).unwrap(), vec![0.0; bowls.dim()], &layout);
    chain.state.mass = masses.to_vec();
    let [squares, momentum_squares] =
        coordinate_averages(&bowls, rule, &mut chain, [400, 4000], |theta, m| [theta * theta, m * m]);

    let bowl =
        |(curvature, mass)| Quadratic { curvature, mass, temperature: at.temperature, gradient_noise_variance: noise };
    let quadratics: Vec<Quadratic> = CURVATURES.into_iter().zip(masses).map(bowl).collect();
    let laws = laws(rule.integrator, &quadratics, at);
    let mut readings = Vec::new();
    for (group, (tensor, law)) in layout.tensors().iter().zip(laws).enumerate() {
        let (curvature, mass) = (CURVATURES[group], masses[group]);
        let mut read = |what: &str, averages: Vec<f64>, expected: f64| {
            readings.push(Reading { what: format!("{what} at k = {curvature}, M = {mass}"), averages, expected });
        };
        let theta = squares[tensor.range.clone()].to_vec();
        let phase = match law {
            Law::Phase(phase) => phase,
            Law::Position(law) => {
                read("position variance", theta, law.position_variance);
                continue;
            }
        };
        read("position variance", theta, phase.position_variance);
        let momentum = &momentum_squares[tensor.range.clone()];
        read("momentum variance", momentum.to_vec(), phase.momentum_variance);
        read("kinetic temperature", momentum.iter().map(|m| m / mass).collect(), phase.kinetic_temperature);
        // What the engine itself reports is the same average.
        let reported = chain.kinetic_kept.tensor_means()[group];
        let measured = momentum.iter().sum::<f64>() / (mass * momentum.len() as f64);
        assert!((reported / measured - 1.0).abs() < 1e-5, "reported {reported}, measured {measured}");
    }
    readings
}

fn check_bowls(integrator: Integrator) {
    for temperature in [0.1, 0.3, 1.0, 3.0] {
        for noise in [0.0, 0.5] {
            for masses in [[1.0; 4], [2.5, 0.7, 1.5, 4.0]] {
                let case = format!("{integrator:?}, T = {temperature}, V_g = {noise}, M = {masses:?}");
                let rule = Langevin::new(integrator, LEARNING_RATE, MOMENTUM);
                let at = rule.conditions(0, 1, temperature);
                let twin =
                    check_with_twin(&case, temperature, |actual| bowl_readings(&rule, actual, &at, noise, masses));
                assert_every_position_is_off(&case, &twin);
            }
        }
    }
}

/// A twin must not get away with one bad curvature: each position variance is seen to be off.
fn assert_every_position_is_off(case: &str, twin: &[Reading]) {
    for reading in twin.iter().filter(|reading| reading.what.starts_with("position")) {
        assert!(reading.z() > 5.0, "{case}: the twin's {} has z = {:.1}", reading.what, reading.z());
    }
}

#[test]
fn sghmc_on_quadratics() {
    check_bowls(Integrator::Sghmc);
}

#[test]
fn baoa_on_quadratics() {
    check_bowls(Integrator::Baoa);
}

#[test]
fn baoab_on_quadratics() {
    check_bowls(Integrator::Baoab);
}

#[test]
fn sgld_on_quadratics() {
    check_bowls(Integrator::Sgld);
}

/// A thermostat corrects wrong noise, so its twin is another: with the noise as it should be, the thermostat's temperature is 5 % too
/// high. Noise that is 5 % too large passes the same check (exactly so without gradient noise, where the law does not know the
/// friction). Coordinates share the thermostat, which takes fluctuations of their mean away: standard errors are at most those stated.
#[test]
fn sgnht_on_quadratics() {
    // The noise goes with √(γT): a share of the asked friction γ, at the same step size.
    let with_friction = |share: f64| {
        let momentum = MOMENTUM.powf(share);
        Langevin::new(Integrator::Sgnht, LEARNING_RATE * (1.0 + momentum) / (1.0 + MOMENTUM), momentum)
    };
    for temperature in [0.1, 0.3, 1.0, 3.0] {
        // Gradient noise heats in V_g/M: where masses differ, one thermostat cannot serve all.
        for (noise, masses) in [(0.0, [1.0; 4]), (0.5, [1.0; 4]), (0.0, [2.5, 0.7, 1.5, 4.0])] {
            let case = format!("Sgnht, T = {temperature}, V_g = {noise}, M = {masses:?}");
            let at = with_friction(1.0).conditions(0, 1, temperature);
            let read = |share: f64, actual: f64| bowl_readings(&with_friction(share), actual, &at, noise, masses);
            if let Err(wrong) = check(&read(1.0, temperature)) {
                panic!("{case}:\n{wrong}");
            }
            if noise == 0.0 {
                check(&read(WRONG_NOISE * WRONG_NOISE, temperature)).expect("a thermostat forgives wrong noise");
            }
            let twin = read(1.0 / 1.05, 1.05 * temperature);
            assert!(check(&twin).is_err(), "{case}: a thermostat that is 5 % too hot was not noticed");
            assert_every_position_is_off(&case, &twin);
        }
    }
}

/// Whatever masses and step size a warm-up finds, on a quadratic they have BAOAB's law, which is exact in position.
#[test]
fn adaptive_chains_on_quadratics() {
    let bowls = Bowls { curvatures: CURVATURES.to_vec(), coordinates: 512, gradient_noise_variance: 0.0 };
    let warm_up = WarmUp { num_steps: 400, friction: None };
    let rule = Langevin { warm_up: Some(warm_up), ..Langevin::new(Integrator::Baoab, f64::NAN, f64::NAN) };
    for temperature in [0.1, 0.3, 1.0, 3.0] {
        let twin = check_with_twin(&format!("adaptive, T = {temperature}"), temperature, |actual| {
            let layout = bowls.layout();
            let mut chain = Chain::new(0, Temperature::new(actual).unwrap(), vec![0.0; bowls.dim()], &layout);
            let [squares, momentum_squares] =
                coordinate_averages(&bowls, &rule, &mut chain, [400, 4000], |theta, m| [theta * theta, m * m]);
            let h = chain.state.adapted.step_size;
            let keep = (-h * warm_up.least_friction()).exp();
            let mut readings = Vec::new();
            for ((tensor, curvature), &mass) in layout.tensors().iter().zip(CURVATURES).zip(&chain.state.mass) {
                let bowl = Quadratic { curvature, mass, temperature, gradient_noise_variance: 0.0 };
                let law = bowl.baoab(h, keep).unwrap();
                let mut read = |what: &str, averages: &[f64], expected: f64| {
                    let what = format!("{what} at k = {curvature}, M = {mass}, h = {h}");
                    readings.push(Reading { what, averages: averages[tensor.range.clone()].to_vec(), expected });
                };
                read("position variance", &squares, law.position_variance);
                read("momentum variance", &momentum_squares, law.momentum_variance);
            }
            readings
        });
        assert_every_position_is_off(&format!("adaptive, T = {temperature}"), &twin);
    }
}

/// U = (θ² − 1)², many independent copies.
pub(crate) struct DoubleWells(pub usize);

fn well_energy(theta: f64) -> f64 {
    (theta * theta - 1.0).powi(2)
}

impl Potential for DoubleWells {
    type Workspace = ();

    fn dim(&self) -> usize {
        self.0
    }

    fn evaluate(&self, position: &[f32], _: Batch<'_>, gradient: &mut [f32], (): &mut ()) -> f64 {
        for (gradient, &theta) in gradient.iter_mut().zip(position) {
            *gradient = 4.0 * theta * (theta * theta - 1.0);
        }
        position.iter().map(|&theta| well_energy(f64::from(theta))).sum()
    }

    fn workspace(&self) {}
}

/// θ², U and whether θ is between the wells.
pub(crate) fn well_statistics(theta: f64) -> [f64; 3] {
    [theta * theta, well_energy(theta), f64::from(theta.abs() < 0.5)]
}

/// E of the statistics under exp(−U/T), by the midpoint rule with cell borders on the jumps at ±½.
pub(crate) fn well_expectations(temperature: f64) -> [f64; 3] {
    let (mut total, mut sums) = (0.0, [0.0; 3]);
    const CELL: f64 = 1e-4;
    for cell in -60_000..60_000 {
        let theta = (f64::from(cell) + 0.5) * CELL;
        let weight = (-well_energy(theta) / temperature).exp();
        total += weight;
        for (sum, value) in sums.iter_mut().zip(well_statistics(theta)) {
            *sum += weight * value;
        }
    }
    sums.map(|sum| sum / total)
}

/// No exact law here: steps are so small that the bias of the discretisation is one standard error or less (the largest
/// is SGLD's at T = 3, 0.5 % of the energy).
#[test]
fn double_well() {
    let wells = DoubleWells(768);
    for (integrator, learning_rate, momentum, num_steps) in [
        (Integrator::Sghmc, 4e-4, 0.98, 12_000),
        (Integrator::Baoa, 4e-3, 0.9, 12_000),
        (Integrator::Baoab, 4e-3, 0.9, 12_000),
        (Integrator::Sgld, 4e-4, 0.0, 24_000),
        (Integrator::Sgnht, 4e-3, 0.9, 12_000),
    ] {
        for (temperature, mass) in [(0.3, 1.0), (1.0, 2.0), (3.0, 1.0)] {
            let expected = well_expectations(temperature);
            check_with_twin(&format!("{integrator:?}, T = {temperature}"), temperature, |actual| {
                // Half of the copies start in each well, as symmetry has it in the end.
                let start = (0..wells.dim()).map(|index| if index % 2 == 0 { 1.0 } else { -1.0 }).collect();
                let temperature = Temperature::new(actual).unwrap();
                let mut chain = Chain::new(0, temperature, start, &wells.layout());
                chain.state.mass = vec![mass];
                let rule = Langevin::new(integrator, learning_rate, momentum);
                let averages = coordinate_averages(&wells, &rule, &mut chain, [4000, num_steps], |theta, _| {
                    well_statistics(theta)
                });
                ["θ²", "U", "share between the wells"]
                    .into_iter()
                    .zip(averages)
                    .zip(expected)
                    .map(|((what, averages), expected)| Reading { what: what.into(), averages, expected })
                    .collect()
            });
        }
    }
}

/// A small regression problem and its network without hidden layers, whose bias is one more feature that is always 1.
pub(crate) struct Regression {
    examples: Examples,
    network: Network,
}

/// Steps of a regression's chains before the first that is looked at.
pub(crate) const BURN_IN: u64 = 400;
pub(crate) const NOISE_VARIANCE: f64 = 0.25;
const PRIOR_VARIANCE: f64 = 0.5;

impl Regression {
    pub fn new() -> Self {
        let (num_rows, num_features) = (40, 3);
        let mut numbers = vec![0.0; num_rows * (num_features + 1)];
        NoiseKey { seed: 5, purpose: Purpose::Split, chain: 0, step: 0 }.fill_normal(&mut numbers);
        let (inputs, noise) = numbers.split_at(num_rows * num_features);
        let inputs: Vec<f32> = inputs.chunks_exact(3).flat_map(|x| [x[0], 0.6 * x[0] + 0.8 * x[1], x[2]]).collect();
        let targets = inputs.chunks_exact(3).zip(noise).map(|(x, e)| 0.4 + x[0] - 0.7 * x[1] + 0.5 * e).collect();
        let examples = Examples { inputs: inputs.into(), num_features, targets: Targets::Real(targets) };
        Self { examples, network: Network::dense(num_features, &[], 1).unwrap() }
    }

    pub fn exact(&self, noise_variance: f64) -> LinearRegression {
        let Targets::Real(targets) = &self.examples.targets else { unreachable!() };
        let targets: Vec<f64> = targets.iter().map(|&y| f64::from(y)).collect();
        let inputs = self.examples.inputs.numbers();
        let rows = inputs.chunks_exact(self.examples.num_features);
        let inputs: Vec<f64> = rows.flat_map(|row| row.iter().map(|&x| f64::from(x)).chain([1.0])).collect();
        LinearRegression::new(&inputs, &targets, self.examples.num_features + 1, noise_variance, PRIOR_VARIANCE)
            .unwrap()
    }

    /// The mean and covariance of θ over a population, against N(mean, covariance).
    pub fn readings(
        &self,
        rule: &impl Rule<Posterior>,
        masses: [f64; 2],
        temperature: f64,
        law: (&[f64], &[f64]),
    ) -> Vec<Reading> {
        let likelihood = Likelihood::Gaussian { noise_variance: NOISE_VARIANCE };
        let prior = IsotropicGaussian::new(PRIOR_VARIANCE).unwrap();
        let posterior = Posterior::new(&self.network, likelihood, prior, &self.examples).unwrap();
        let dim = posterior.dim();
        const CHAINS: u32 = 192;
        let mut chains: Vec<Chain> = (0..CHAINS)
            .map(|id| {
                let start = self.network.initial_parameters(9, id);
                let mut chain = Chain::new(id, Temperature::new(temperature).unwrap(), start, &posterior.layout());
                chain.state.mass = masses.to_vec();
                chain
            })
            .collect();
        let keep = Keep { burn_in: BURN_IN, every: EVERY };
        let plan = Plan {
            seed: temperature.to_bits(),
            batches: Batches::full(self.examples.len()),
            num_steps: keep.burn_in + 800 * EVERY,
            keep,
        };
        let (mean, covariance) = law;
        let (draws, sums) = (800.0, Mutex::new(vec![vec![0.0; CHAINS as usize]; dim + dim * dim]));
        run_population(&posterior, rule, &plan, &mut chains, &|index: usize, chain: &Chain| {
            let theta: Vec<f64> = chain.state.position.iter().map(|&theta| f64::from(theta)).collect();
            let mut sums = sums.lock().unwrap();
            for i in 0..dim {
                sums[i][index] += theta[i] / draws;
                for j in 0..dim {
                    sums[dim + i * dim + j][index] += (theta[i] - mean[i]) * (theta[j] - mean[j]) / draws;
                }
            }
        });
        assert!(chains.iter().all(|chain| chain.divergence.is_none()));
        let expected = mean.iter().chain(covariance);
        let names = (0..dim).map(|i| format!("mean[{i}]")).chain((0..dim * dim).map(|i| format!("covariance[{i}]")));
        let averages = sums.into_inner().unwrap().into_iter();
        averages
            .zip(expected)
            .zip(names)
            .map(|((averages, &expected), what)| Reading { what, averages, expected })
            .collect()
    }
}

/// Without gradient noise BAOA and BAOAB have the exact covariance at any step size and mass, so also at those that a warm-up finds; SGHMC takes a step so small that its
/// bias h²k/(2(1+μ)) is below 0.3 %, a fraction of a standard error.
#[test]
fn linear_regression_with_tempered_posterior() {
    let regression = Regression::new();
    let exact = regression.exact(NOISE_VARIANCE);
    let adaptive = Langevin {
        warm_up: Some(WarmUp { num_steps: BURN_IN, friction: None }),
        ..Langevin::new(Integrator::Baoab, f64::NAN, f64::NAN)
    };
    for (rule, masses) in [
        (adaptive, [1.0, 1.0]),
        (Langevin::new(Integrator::Baoa, 0.02, 0.9), [1.0, 1.0]),
        (Langevin::new(Integrator::Baoa, 0.02, 0.9), [2.0, 0.5]),
        (Langevin::new(Integrator::Baoab, 0.02, 0.9), [2.0, 0.5]),
        (Langevin::new(Integrator::Sghmc, 0.002, 0.97), [1.0, 1.0]),
    ] {
        for temperature in [0.3, 1.0, 3.0] {
            let covariance = exact.posterior_covariance(1.0 / temperature);
            check_with_twin(&format!("{:?}, T = {temperature}", rule.integrator), temperature, |actual| {
                regression.readings(&rule, masses, actual, (exact.mean(), &covariance))
            });
        }
    }
}

/// p(θ) Π N(y | xᵀθ, σ²)^β is the posterior of a regression with noise variance σ²/β.
#[test]
fn linear_regression_with_tempered_likelihood() {
    let regression = Regression::new();
    let temperature = 2.5;
    let exact = regression.exact(NOISE_VARIANCE * temperature);
    let law = (exact.mean(), &exact.posterior_covariance(1.0)[..]);
    let rule = Langevin { tempering: Tempering::Likelihood, ..Langevin::new(Integrator::Baoa, 0.02, 0.9) };
    check(&regression.readings(&rule, [1.0, 1.0], temperature, law)).unwrap();
    // Tempering the prior too is another law, and is seen to be.
    let rule = Langevin { tempering: Tempering::Posterior, ..rule };
    assert!(check(&regression.readings(&rule, [1.0, 1.0], temperature, law)).is_err());
    // The twin: noise comes from the sampler's temperature, which this tempering keeps at 1; the scale makes it wrong.
    let wrong = kelvin::temperature::Schedule::Constant { value: WRONG_NOISE * WRONG_NOISE };
    let rule = Langevin { tempering: Tempering::Likelihood, temperature_scale: wrong, ..rule };
    assert!(check(&regression.readings(&rule, [1.0, 1.0], temperature, law)).is_err());
}
