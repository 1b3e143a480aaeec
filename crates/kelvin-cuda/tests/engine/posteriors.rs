//! Known posteriors on a GPU: is it the right distribution, in f32 and in bf16?
//!
//! Each number is the mean of time averages of R ≥ 448 independent coordinates of independent chains, so z = (mean − expected)/(sd/√R)
//! needs no model of the autocorrelation; |z| < 5 fails by chance with probability below 1e-6 a number. Chains with noise that is
//! 5 % too large, judged by the same check, must be rejected. Without a GPU the same code takes a few steps on the emulator, and is
//! held against the CPU engine.

use std::sync::{Arc, Mutex};

use crate::posterior_support::{PRIOR_VARIANCE, Unknowing, normals, z};
use crate::support::{device_for_tests, gpu_for_tests};
use kelvin::data::{Examples, Targets};
use kelvin::exact::{LinearRegression, PhaseLaw, Quadratic};
use kelvin::likelihood::Likelihood;
use kelvin::network::Network;
use kelvin::potential::Posterior;
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{
    Batches, Chain, CpuEngine, Engine, Integrator, Keep, Langevin, LayerwiseMass, MassRule, Motion, Plan, WarmUp,
};
use kelvin::temperature::Temperature;
use kelvin_cuda::{CudaEngine, Device, Precision};

const MOMENTUM: f64 = 0.9;
/// The noise of a twin, in standard deviations; its temperature is off by the square.
const WRONG_NOISE: f64 = 1.05;

fn engine(device: &Arc<dyn Device>, precision: Precision) -> CudaEngine {
    CudaEngine::new(vec![Arc::clone(device)], precision)
}

/// SGHMC with fixed and with estimated masses.
fn sghmc() -> [Langevin; 2] {
    let estimated = MassRule::Layerwise(LayerwiseMass { num_batches: 2, ..LayerwiseMass::default() });
    [MassRule::Fixed, estimated].map(|mass| Langevin { mass, ..Langevin::new(Integrator::Sghmc, 0.0, MOMENTUM) })
}

/// Chains that find their masses and step sizes in so many steps.
fn adaptive(num_steps: u64) -> Langevin {
    let warm_up = Some(WarmUp { num_steps, friction: None });
    Langevin { warm_up, ..Langevin::new(Integrator::Baoab, 0.0, MOMENTUM) }
}

/// h² of parameters that the likelihood does not know.
const SQUARED_STEP: f64 = 0.3 / 32.0;

/// The least and the greatest E[b²] for U = b²/(2σ_p²) at temperature T: BAOAB's is exact whatever mass and step size are, SGHMC's is that of any mass
/// from 1 on.
fn prior_laws(rule: &Langevin, temperature: f64) -> [f64; 2] {
    if rule.integrator == Integrator::Baoab {
        return [PRIOR_VARIANCE * temperature; 2];
    }
    let law = |mass: f64| {
        let bowl = Quadratic { curvature: 1.0 / PRIOR_VARIANCE, temperature, gradient_noise_variance: 0.0, mass };
        bowl.symplectic_euler(SQUARED_STEP.sqrt(), MOMENTUM).unwrap().position_variance
    };
    assert!((law(1e9) / (PRIOR_VARIANCE * temperature) - 1.0).abs() < 1e-6);
    [law(1e9), law(1.0)]
}

/// A run whose chains start where they are judged, so that no burn-in is needed: right noise leaves them there, and wrong noise has
/// to be seen to take them away.
struct Walk {
    num_chains: u32,
    judged_at: f64,
    actual: f64,
    rule: Langevin,
    num_steps: u64,
    every: u64,
}

/// The time average of b² of every parameter b of every chain that the likelihood does not know.
fn mean_squares(engine: &dyn Engine, case: &Unknowing, walk: &Walk) -> Vec<f64> {
    let posterior = case.posterior();
    let layout = case.network.layout();
    let std = prior_laws(&walk.rule, walk.judged_at)[1].sqrt() as f32;
    let start = |id: u32| {
        let mut position = case.network.initial_parameters(5, id);
        let noise = normals(case.unknown.len(), 20 + u64::from(id));
        case.unknown.iter().zip(noise).for_each(|(&index, noise)| position[index] = std * noise);
        Chain::new(id, Temperature::new(walk.actual).unwrap(), position, &layout)
    };
    let mut chains: Vec<Chain> = (0..walk.num_chains).map(start).collect();
    let learning_rate = SQUARED_STEP * case.examples.len() as f64;
    let rule = Langevin { learning_rate, ..walk.rule.clone() };
    let burn_in = rule.warm_up.map_or(0, |warm_up| warm_up.num_steps);
    let plan = Plan {
        seed: walk.actual.to_bits(),
        batches: Batches::new(case.examples.len(), case.batch_size).unwrap(),
        num_steps: burn_in + walk.num_steps,
        keep: Keep { burn_in, every: walk.every },
    };
    let sums = Mutex::new(vec![vec![0.0; case.unknown.len()]; chains.len()]);
    let watch = |index: usize, chain: &Chain| {
        let mut sums = sums.lock().unwrap();
        for (sum, &unknown) in sums[index].iter_mut().zip(&case.unknown) {
            *sum += f64::from(chain.state.position[unknown]).powi(2);
        }
    };
    engine.run(&posterior, Motion::Sample(&rule), &plan, &mut chains, &watch).unwrap();
    assert!(chains.iter().all(|chain| chain.divergence.is_none()));
    let kept = (walk.num_steps / walk.every) as f64;
    sums.into_inner().unwrap().concat().into_iter().map(|sum| sum / kept).collect()
}

/// Many chains have the prior at the temperature; with wrong noise they do not.
fn check_against_prior(what: &str, engine: &dyn Engine, case: &Unknowing, rules: &[Langevin], num_steps: u64) {
    case.check_premise();
    for (rule, temperature) in rules.iter().flat_map(|rule| [(rule, 0.3), (rule, 1.0)]) {
        let (judged_at, actual, of) = (temperature, temperature, (rule.integrator, rule.mass));
        let right = Walk { num_chains: 64, judged_at, actual, rule: rule.clone(), num_steps, every: 16 };
        let laws = prior_laws(rule, temperature);
        let found = z(&mean_squares(engine, case, &right), laws);
        println!("{what}, T = {temperature}, {of:?}: z = {found:.2}");
        assert!(found.abs() < 5.0, "{what}, T = {temperature}, {of:?}: z = {found:.1}");
        if temperature == 1.0 {
            let twin = Walk { actual: temperature * WRONG_NOISE * WRONG_NOISE, ..right };
            let found = z(&mean_squares(engine, case, &twin), laws);
            println!("{what}, {of:?}: z = {found:.1} of the twin");
            assert!(found > 5.0, "{what}, {of:?}: noise that is 5 % too large was not noticed, z = {found:.1}");
        }
    }
}

/// The same code, a few steps: the device's averages are the CPU's.
fn check_against_cpu(engine: &dyn Engine, case: &Unknowing, rules: &[Langevin], tolerance: f64) {
    for rule in rules {
        let walk = Walk { num_chains: 2, judged_at: 1.0, actual: 1.0, rule: rule.clone(), num_steps: 4, every: 2 };
        let (found, wanted) = (mean_squares(engine, case, &walk), mean_squares(&CpuEngine, case, &walk));
        for (found, wanted) in found.iter().zip(&wanted) {
            let bound = tolerance * (wanted + PRIOR_VARIANCE);
            assert!((found - wanted).abs() < bound, "{rule:?}: {found} instead of {wanted}");
        }
    }
}

#[test]
fn biases_in_front_of_batch_norm_have_the_prior_in_bf16() {
    let Some(device) = gpu_for_tests() else { return };
    check_against_prior("bf16", &engine(&device, Precision::Half), &Unknowing::batch_norm_biases(32), &sghmc(), 1200);
}

#[test]
fn biases_in_front_of_batch_norm_have_the_prior_in_f32() {
    let Some(device) = gpu_for_tests() else { return };
    check_against_prior("f32", &engine(&device, Precision::Single), &Unknowing::batch_norm_biases(32), &sghmc(), 1200);
}

#[test]
fn biases_in_front_of_batch_norm_follow_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let case = Unknowing { batch_size: Some(4), ..Unknowing::batch_norm_biases(8) };
    // Positions hardly know the masses, which bf16 rounds.
    for (precision, tolerance) in [(Precision::Single, 1e-4), (Precision::Half, 2e-2)] {
        check_against_cpu(&engine(&device, precision), &case, &sghmc(), tolerance);
    }
}

/// Tables have kernels for all of these.
fn table_rules(num_warm_up_steps: u64) -> Vec<Langevin> {
    sghmc().into_iter().chain([adaptive(num_warm_up_steps)]).collect()
}

#[test]
fn weights_of_a_feature_that_is_always_zero_have_the_prior() {
    let Some(device) = gpu_for_tests() else { return };
    for batch_size in [None, Some(8)] {
        let case = Unknowing { batch_size, ..Unknowing::weights_of_zeros() };
        let (what, engine) = (format!("table, {batch_size:?}"), engine(&device, Precision::Half));
        check_against_prior(&what, &engine, &case, &table_rules(400), 4000);
    }
}

#[test]
fn weights_of_a_feature_that_is_always_zero_follow_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    for batch_size in [None, Some(8)] {
        let case = Unknowing { batch_size, ..Unknowing::weights_of_zeros() };
        check_against_cpu(&engine(&device, Precision::Half), &case, &table_rules(12), 1e-4);
    }
}

const NUM_ROWS: usize = 32;
const NOISE_VARIANCE: f64 = 1.0;
const LEARNING_RATE: f64 = 0.05;
/// Of features, in turns; the bias is feature 0.
const SCALES: [f64; 4] = [1.0, 0.25, 0.5, 1.75];

/// Linear regression on Walsh functions, all orthogonal: every weight is a bowl of its own, with one of four curvatures.
struct WalshRegression {
    network: Network,
    examples: Examples,
    mean: Vec<f64>,
}

impl WalshRegression {
    fn new() -> Self {
        let sign = |row: usize, column: usize| if (row & column).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        let features: Vec<usize> = (1..NUM_ROWS).chain([0]).collect();
        let row = |row| features.iter().map(move |&column| SCALES[column % 4] * sign(row, column));
        let with_bias: Vec<f64> = (0..NUM_ROWS).flat_map(row).collect();
        let targets = normals(NUM_ROWS, 4);
        let exact: Vec<f64> = targets.iter().map(|&y| f64::from(y)).collect();
        let exact = LinearRegression::new(&with_bias, &exact, NUM_ROWS, NOISE_VARIANCE, PRIOR_VARIANCE).unwrap();
        let inputs: Vec<f32> =
            with_bias.chunks_exact(NUM_ROWS).flat_map(|row| row[..NUM_ROWS - 1].iter().map(|&x| x as f32)).collect();
        let examples = Examples { inputs: inputs.into(), num_features: NUM_ROWS - 1, targets: Targets::Real(targets) };
        Self { network: Network::dense(NUM_ROWS - 1, &[], 1).unwrap(), examples, mean: exact.mean().to_vec() }
    }

    /// The weights that share a scale.
    fn sharing(scale: usize) -> impl Iterator<Item = usize> {
        (0..NUM_ROWS).filter(move |index| (index + 1) % NUM_ROWS % 4 == scale)
    }

    /// The stationary law of weights of this scale.
    fn law(integrator: Integrator, scale: usize, temperature: f64) -> PhaseLaw {
        let curvature = NUM_ROWS as f64 * SCALES[scale].powi(2) / NOISE_VARIANCE + 1.0 / PRIOR_VARIANCE;
        let bowl = Quadratic { curvature, temperature, gradient_noise_variance: 0.0, mass: 1.0 };
        let at = integrator.conditions(LEARNING_RATE, MOMENTUM, NUM_ROWS, 1.0, temperature);
        match integrator {
            Integrator::Baoa => bowl.baoa(at.step_size, at.retained_momentum).unwrap(),
            _ => bowl.symplectic_euler(at.step_size, at.retained_momentum).unwrap(),
        }
    }

    /// Time averages of θ − θ̂, its square and m² of every weight: one list a chain.
    fn averages(
        &self,
        engine: &dyn Engine,
        integrator: Integrator,
        temperature: f64,
        num_chains: u32,
        [burn_in, kept]: [u64; 2],
    ) -> Vec<Vec<[f64; 3]>> {
        const EVERY: u64 = 16;
        let likelihood = Likelihood::Gaussian { noise_variance: NOISE_VARIANCE };
        let prior = IsotropicGaussian::new(PRIOR_VARIANCE).unwrap();
        let posterior = Posterior::new(&self.network, likelihood, prior, &self.examples).unwrap();
        let start = |id: u32| {
            let position = self.network.initial_parameters(9, id);
            Chain::new(id, Temperature::new(temperature).unwrap(), position, &self.network.layout())
        };
        let mut chains: Vec<Chain> = (0..num_chains).map(start).collect();
        let rule = Langevin::new(integrator, LEARNING_RATE, MOMENTUM);
        let keep = Keep { burn_in, every: EVERY };
        let num_steps = burn_in + kept * EVERY;
        let plan = Plan { seed: temperature.to_bits(), batches: Batches::full(NUM_ROWS), num_steps, keep };
        let sums = Mutex::new(vec![vec![[0.0; 3]; NUM_ROWS]; chains.len()]);
        let watch = |index: usize, chain: &Chain| {
            let (theta, momentum) = (&chain.state.position, &chain.state.momentum);
            for (weight, sum) in sums.lock().unwrap()[index].iter_mut().enumerate() {
                let away = f64::from(theta[weight]) - self.mean[weight];
                let readings = [away, away * away, f64::from(momentum[weight]).powi(2)];
                sum.iter_mut().zip(readings).for_each(|(sum, reading)| *sum += reading / kept as f64);
            }
        };
        engine.run(&posterior, Motion::Sample(&rule), &plan, &mut chains, &watch).unwrap();
        sums.into_inner().unwrap()
    }

    /// z of mean, position variance and momentum variance for each scale.
    fn scores(&self, averages: &[Vec<[f64; 3]>], integrator: Integrator, temperature: f64) -> Vec<[f64; 3]> {
        let score = |scale: usize| {
            let law = Self::law(integrator, scale, temperature);
            let expected = [0.0, law.position_variance, law.momentum_variance];
            [0, 1, 2].map(|which| {
                let of_chain =
                    |chain: &Vec<[f64; 3]>| Self::sharing(scale).map(|weight| chain[weight][which]).collect::<Vec<_>>();
                let values: Vec<f64> = averages.iter().flat_map(of_chain).collect();
                z(&values, [expected[which]; 2])
            })
        };
        (0..SCALES.len()).map(score).collect()
    }
}

#[test]
fn linear_regression_has_its_law() {
    let Some(device) = gpu_for_tests() else { return };
    let (regression, engine) = (WalshRegression::new(), engine(&device, Precision::Single));
    let at = [0.1, 0.3, 1.0, 3.0].map(|temperature| (Integrator::Sghmc, temperature));
    for (integrator, temperature) in at.into_iter().chain([(Integrator::Baoa, 0.3)]) {
        let scores = |actual: f64| {
            let averages = regression.averages(&engine, integrator, actual, 64, [320, 120]);
            regression.scores(&averages, integrator, temperature)
        };
        let (right, twin) = (scores(temperature), scores(temperature * WRONG_NOISE * WRONG_NOISE));
        println!("{integrator:?}, T = {temperature}: z = {right:.1?}; of the twin {twin:.1?}");
        assert!(right.iter().flatten().all(|z| z.abs() < 5.0), "{integrator:?}, T = {temperature}: z = {right:.1?}");
        let is_noticed = |z: &[f64; 3]| z[0].abs() < 5.0 && z[1] > 5.0 && z[2] > 5.0;
        assert!(twin.iter().all(is_noticed), "noise that is 5 % too large was not noticed: z = {twin:.1?}");
    }
}

#[test]
fn linear_regression_follows_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let regression = WalshRegression::new();
    for integrator in [Integrator::Sghmc, Integrator::Baoa] {
        let run = |engine: &dyn Engine| regression.averages(engine, integrator, 1.0, 2, [3, 2]).concat();
        let (found, wanted) = (run(&engine(&device, Precision::Single)), run(&CpuEngine));
        for (found, wanted) in found.iter().flatten().zip(wanted.iter().flatten()) {
            assert!((found - wanted).abs() < 1e-4 * (wanted.abs() + 1.0), "{found} instead of {wanted}");
        }
    }
}
