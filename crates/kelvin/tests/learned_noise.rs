//! θ that holds more than a network: log σ² of the noise, and scales of a prior.

use std::collections::BTreeMap;
use std::sync::Mutex;

use kelvin::data::{Examples, Targets};
use kelvin::draws::{DrawLayout, Draws, Measurements};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Activation, Layout, Mode, Network, Role, Rows, Weights};
use kelvin::potential::{Batch, Posterior, Potential, TemperedModel};
use kelvin::predictive::{NumberMixture, Predictive, PredictiveModel};
use kelvin::prior::{IsotropicGaussian, LearnedScales, Prior, ScaleGroups};
use kelvin::random::{NoiseKey, Purpose};
use kelvin::sampler::{Batches, Chain, CpuEngine, Engine, Integrator, Keep, Langevin, Plan, WarmUp, run_population};
use kelvin::selection::{JointSelector, SelectionError, Selector};
use kelvin::temperature::{Temperature, Tempering};

use crate::known_posterior::{Reading, check_with_twin};
use crate::support::given::Given;

const LIKELIHOOD: Likelihood = Likelihood::LearnedGaussian;

/// θ ~ N(0, e^t) with t ~ N(0, 1), the last parameter it sees.
struct LearnedScale;

impl Prior for LearnedScale {
    fn log_density(&self, parameters: &[f32]) -> f64 {
        let (t, weights) = parameters.split_last().unwrap();
        let (t, squares) = (f64::from(*t), weights.iter().map(|&w| f64::from(w).powi(2)).sum::<f64>());
        -0.5 * (t * t + weights.len() as f64 * t + squares * (-t).exp())
    }

    fn add_energy_gradient(&self, parameters: &[f32], scale: f64, gradient: &mut [f32]) {
        let (t, weights) = parameters.split_last().unwrap();
        let (of_t, of_weights) = gradient.split_last_mut().unwrap();
        let (scale, precision) = (scale as f32, (-t).exp());
        let squares: f32 = weights.iter().map(|w| w * w).sum();
        *of_t = scale * *of_t + t + 0.5 * (weights.len() as f32 - squares * precision);
        of_weights.iter_mut().zip(weights).for_each(|(gradient, w)| *gradient = scale * *gradient + precision * w);
    }

    fn add_tensors(&self, layout: &mut Layout) {
        layout.push("prior", Role::LogVariance, &[1]);
    }

    fn initial_parameters(&self) -> Vec<f32> {
        vec![-1.0]
    }
}

/// Rows of y = 0.4 + x₁ − ½x₂ + ½ noise.
fn rows(num_features: usize, num_rows: usize) -> Examples {
    let mut numbers = vec![0.0; num_rows * (num_features + 1)];
    NoiseKey { seed: 8, purpose: Purpose::Split, chain: 0, step: 0 }.fill_normal(&mut numbers);
    let (inputs, noise) = numbers.split_at(num_rows * num_features);
    let answer = |(x, e): (&[f32], &f32)| 0.4 + x[0] - 0.5 * x.get(1).unwrap_or(&0.0) + 0.5 * e;
    let targets = inputs.chunks_exact(num_features).zip(noise).map(answer).collect();
    Examples { inputs: inputs.to_vec().into(), num_features, targets: Targets::Real(targets) }
}

#[test]
fn the_layout_is_the_networks_then_the_priors_then_the_likelihoods() {
    let network = Network::dense(2, &[3], 1).unwrap();
    let posterior = Posterior::new(&network, LIKELIHOOD, LearnedScale, &rows(2, 20)).unwrap();
    let layout = posterior.layout();
    let names: Vec<&str> = layout.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names[names.len() - 2..], ["prior.log_variance", "noise.log_variance"]);
    assert_eq!(layout.tensors()[..names.len() - 2], *network.layout().tensors());
    assert_eq!(posterior.other_tensors().map(|tensor| tensor.range.clone()).collect::<Vec<_>>(), [13..14, 14..15]);
    let start = posterior.initial_position(3, 1);
    assert_eq!((posterior.dim(), start.len()), (15, 15));
    assert_eq!((&start[..13], &start[13..]), (&network.initial_parameters(3, 1)[..], &[-1.0, 0.0][..]));
}

/// Without hidden units nothing has a kink, so that every coordinate can be checked.
#[test]
fn gradients_are_those_of_the_energy() {
    let network = Network::dense(2, &[], 1).unwrap();
    let posterior = Posterior::new(&network, LIKELIHOOD, LearnedScale, &rows(2, 20)).unwrap();
    let position = [0.7f32, -0.3, 0.25, -0.6, -0.9];
    let mut work = posterior.workspace();
    let mut gradient = vec![0.0; posterior.dim()];
    let picked = [3, 1, 4, 15, 9, 2, 6];
    let batch = Batch { rows: Rows::These(&picked), likelihood_weight: 2.5, mode: Mode::Training };
    posterior.evaluate(&position, batch, &mut gradient, &mut work);
    let mut tempered = vec![0.0; posterior.dim()];
    posterior.tempered_gradient(&position, Rows::All, Mode::Training, 1.7, &mut tempered, &mut work);
    assert_eq!(tempered[3], 0.0, "rows do not see the prior's scale");
    for index in 0..posterior.dim() {
        let mut unused = vec![0.0; posterior.dim()];
        let mut at = |step: f32| {
            let mut moved = position;
            moved[index] += step;
            let energy = posterior.evaluate(&moved, batch, &mut unused, &mut work);
            let sum = posterior.tempered_gradient(&moved, Rows::All, Mode::Training, 1.7, &mut unused, &mut work);
            (energy, sum.value)
        };
        // Fourth order, with steps that f32 has exactly.
        let slope = |f: &mut dyn FnMut(f32) -> f64| (8.0 * (f(0.0625) - f(-0.0625)) - (f(0.125) - f(-0.125))) / 0.75;
        let (energy, sum) = (slope(&mut |step| at(step).0), slope(&mut |step| at(step).1));
        assert!(
            (energy - f64::from(gradient[index])).abs() < 2e-3 * (1.0 + energy.abs()),
            "{index}: {energy} {gradient:?}"
        );
        assert!((sum - f64::from(tempered[index])).abs() < 2e-3 * (1.0 + sum.abs()), "{index}: {sum} {tempered:?}");
    }
}

const PRIOR_VARIANCE: f64 = 0.5;
const NUM_ROWS: usize = 30;

/// E s, Var s and E θ under exp(−U/T), y = θ₁x + θ₂ + N(0, e^s): θ is normal given s, and s is summed over a fine grid.
fn expectations(examples: &Examples, temperature: f64) -> [f64; 4] {
    let Targets::Real(targets) = &examples.targets else { unreachable!() };
    let (mut xx, mut x1, mut xy, mut y1, mut yy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, y) in examples.inputs.numbers().iter().zip(targets).map(|(&x, &y)| (f64::from(x), f64::from(y))) {
        (xx, x1, xy, y1, yy) = (xx + x * x, x1 + x, xy + x * y, y1 + y, yy + y * y);
    }
    let n = NUM_ROWS as f64;
    let grid: Vec<[f64; 4]> = (-8000..8000)
        .map(|cell| {
            let s = (f64::from(cell) + 0.5) * 1e-3;
            let (precision, weak) = ((-s).exp(), 1.0 / PRIOR_VARIANCE);
            // U = ½ s² + ½ n s + ½ e^{−s} Σ (y − …)² + ½ ‖θ‖²/v, a parabola in θ.
            let (a, b, c) = (precision * xx + weak, precision * x1, precision * n + weak);
            let determinant = a * c - b * b;
            let (p, q) = (precision * xy, precision * y1);
            let (slope, bias) = ((c * p - b * q) / determinant, (a * q - b * p) / determinant);
            let least = 0.5 * (s * s + n * s + precision * yy - p * slope - q * bias);
            [-least / temperature - 0.5 * determinant.ln(), s, slope, bias]
        })
        .collect();
    let largest = grid.iter().map(|cell| cell[0]).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = grid.iter().map(|cell| (cell[0] - largest).exp()).sum();
    let mean = |of: &dyn Fn(&[f64; 4]) -> f64| {
        grid.iter().map(|cell| (cell[0] - largest).exp() * of(cell)).sum::<f64>() / total
    };
    let centre = mean(&|cell| cell[1]);
    [centre, mean(&|cell| (cell[1] - centre).powi(2)), mean(&|cell| cell[2]), mean(&|cell| cell[3])]
}

/// BAOA has the exact law of a quadratic; what is left of a small step on s is far below a standard error.
#[test]
fn the_noise_has_its_known_posterior_at_two_temperatures() {
    let examples = rows(1, NUM_ROWS);
    let network = Network::dense(1, &[], 1).unwrap();
    let prior = IsotropicGaussian::new(PRIOR_VARIANCE).unwrap();
    let posterior = Posterior::new(&network, LIKELIHOOD, prior, &examples).unwrap();
    let rule = Langevin::new(Integrator::Baoa, 0.01, 0.9);
    for temperature in [0.3, 1.0] {
        let expected = expectations(&examples, temperature);
        check_with_twin(&format!("T = {temperature}"), temperature, |actual| {
            const CHAINS: u32 = 256;
            let temperature = Temperature::new(actual).unwrap();
            let start = |id| Chain::new(id, temperature, posterior.initial_position(1, id), &posterior.layout());
            let mut chains: Vec<Chain> = (0..CHAINS).map(start).collect();
            let keep = Keep { burn_in: 1000, every: 4 };
            let batches = Batches::full(NUM_ROWS);
            let plan = Plan { seed: actual.to_bits(), batches, num_steps: keep.burn_in + 1000 * keep.every, keep };
            let sums = Mutex::new([(); 4].map(|()| vec![0.0; CHAINS as usize]));
            run_population(&posterior, &rule, &plan, &mut chains, &|index: usize, chain: &Chain| {
                let [slope, bias, s] = [0, 1, 2].map(|at| f64::from(chain.state.position[at]));
                let numbers = [s, (s - expected[0]).powi(2), slope, bias];
                let mut sums = sums.lock().unwrap();
                sums.iter_mut().zip(numbers).for_each(|(sums, number)| sums[index] += number / 1000.0);
            });
            assert!(chains.iter().all(|chain| chain.divergence.is_none()));
            let names = ["mean of log σ²", "variance of log σ²", "mean slope", "mean bias"];
            let readings = names.into_iter().zip(sums.into_inner().unwrap()).zip(expected);
            readings.map(|((what, averages), expected)| Reading { what: what.into(), averages, expected }).collect()
        });
    }
}

/// 120 rows of y = x₁² + 0.1 noise, standardised.
fn parabola() -> Examples {
    let mut numbers = vec![0.0; 120 * 4];
    NoiseKey { seed: 1, purpose: Purpose::Split, chain: 0, step: 0 }.fill_normal(&mut numbers);
    let (inputs, noise) = numbers.split_at(120 * 3);
    let targets: Vec<f32> = inputs.chunks_exact(3).zip(noise).map(|(x, e)| x[0] * x[0] + 0.1 * e).collect();
    let mean = targets.iter().sum::<f32>() / 120.0;
    let deviation = (targets.iter().map(|y| (y - mean).powi(2)).sum::<f32>() / 120.0).sqrt();
    let targets = Targets::Real(targets.iter().map(|y| (y - mean) / deviation).collect());
    Examples { inputs: inputs.to_vec().into(), num_features: 3, targets }
}

/// A posterior whose chains do not watch their step size.
struct Unwatched<'p>(&'p Posterior);

impl Potential for Unwatched<'_> {
    type Workspace = <Posterior as Potential>::Workspace;

    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn evaluate(&self, position: &[f32], batch: Batch<'_>, gradient: &mut [f32], work: &mut Self::Workspace) -> f64 {
        self.0.evaluate(position, batch, gradient, work)
    }

    fn gauss_newton_diagonal(
        &self,
        position: &[f32],
        batch: Batch<'_>,
        key: NoiseKey,
        diagonal: &mut [f32],
        work: &mut Self::Workspace,
    ) -> bool {
        self.0.gauss_newton_diagonal(position, batch, key, diagonal, work)
    }

    fn step_share(&self) -> f64 {
        self.0.step_share()
    }

    fn curvature_grows(&self) -> bool {
        false
    }

    fn workspace(&self) -> Self::Workspace {
        self.0.workspace()
    }

    fn layout(&self) -> Layout {
        self.0.layout()
    }
}

/// The largest log σ² of the draws of one chain.
fn largest_noise<P: Potential>(potential: &P, start: Vec<f32>) -> f32 {
    let rule = Langevin {
        warm_up: Some(WarmUp { num_steps: 10_000, friction: None }),
        ..Langevin::new(Integrator::Baoab, f64::NAN, f64::NAN)
    };
    let mut chains = [Chain::new(7, Temperature::new(1.0).unwrap(), start, &potential.layout())];
    let keep = Keep { burn_in: 10_000, every: 10 };
    let plan = Plan { seed: 1, batches: Batches::full(120), num_steps: 70_000, keep };
    let largest = Mutex::new(f32::NEG_INFINITY);
    run_population(potential, &rule, &plan, &mut chains, &|_: usize, chain: &Chain| {
        let mut largest = largest.lock().unwrap();
        *largest = largest.max(*chain.state.position.last().unwrap());
    });
    assert!(chains[0].divergence.is_none());
    largest.into_inner().unwrap()
}

/// What is left when a chain comes to a place that curves seven times as much as those of its warm-up: log σ² is −4.9 with a standard
/// deviation of 0.15.
#[test]
fn noise_is_not_thrown_out_of_its_posterior() {
    let network = Network::table(3, &[16], 1, Activation::Relu, true).unwrap();
    let prior = LearnedScales::new(&network, 1.0, ScaleGroups::default()).unwrap();
    let posterior = Posterior::new(&network, LIKELIHOOD, prior, &parabola()).unwrap();
    let start = posterior.initial_position(1, 7);
    let watched = largest_noise(&posterior, start.clone());
    assert!(watched < -3.5, "{watched}");
    let unwatched = largest_noise(&Unwatched(&posterior), start);
    assert!(unwatched > 0.0, "{unwatched}: the place is not as sharp as it was");
}

#[test]
fn each_draw_predicts_with_its_own_noise() {
    let network = Network::dense(1, &[], 1).unwrap();
    let examples = rows(1, 5);
    // The prior's scale lies between network and noise, and is no business of predictions.
    let posterior = Posterior::new(&network, LIKELIHOOD, LearnedScale, &examples).unwrap();
    let draws = [[1.0f32, 0.5, 9.0, -1.5], [0.8, 0.3, 9.0, 0.25]];
    let held_out = posterior.held_out(&examples);
    let values = CpuEngine.outputs(&held_out, &draws.each_ref().map(|draw| Weights::plain(draw))).unwrap();
    let input = examples.inputs.numbers()[2];
    assert_eq!((values[0].len(), values[0][4], values[0][5], values[1][5]), (10, input + 0.5, -1.5, 0.25));

    let mut predictive = Predictive::new(LIKELIHOOD, held_out.targets(), 2.0).unwrap();
    values.iter().for_each(|values| predictive.add_draw(values).unwrap());
    let Predictive::Regression(predictive) = predictive else { panic!("numbers") };
    let Targets::Real(targets) = &examples.targets else { unreachable!() };
    for model in PredictiveModel::BOTH {
        let row = values.iter().map(|values| &values[4..6]);
        let mixture = NumberMixture::of(LIKELIHOOD, row, model.power(2.0)).unwrap();
        let density = |draw: usize| {
            let variance = f64::from(draws[draw][3]).exp() / model.power(2.0);
            let away = f64::from(targets[2]) - f64::from(values[draw][4]);
            (-0.5 * away * away / variance).exp() / (std::f64::consts::TAU * variance).sqrt()
        };
        let by_hand = (0.5 * (density(0) + density(1))).ln();
        assert!((predictive.log_densities(model).unwrap()[2] - by_hand).abs() < 1e-12);
        assert!((mixture.log_density(f64::from(targets[2])) - by_hand).abs() < 1e-12);
        assert!((predictive.variances(model).unwrap()[2] - mixture.variance()).abs() < 1e-12);
        let quantile = mixture.quantile(0.9).unwrap();
        assert!((mixture.cumulative(quantile) - 0.9).abs() < 1e-12);
    }
    // Running sums survive a checkpoint.
    let mut resumed = predictive.clone();
    resumed.restore(&predictive.state()).unwrap();
    assert_eq!(resumed, predictive);
}

#[test]
fn draws_are_stored_with_all_that_theta_holds() {
    let network = Network::dense(2, &[3], 1).unwrap();
    let posterior = Posterior::new(&network, LIKELIHOOD, LearnedScale, &rows(2, 20)).unwrap();
    let mut draws = Draws::in_memory(posterior.dim());
    let measured = Measurements { potential_energy: 1.0, configurational_temperature: 1.0, kinetic_temperature: None };
    draws.push(Weights::plain(&posterior.initial_position(1, 0)), measured).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("draws.safetensors");
    draws.save(&path, &posterior, &BTreeMap::new()).unwrap();
    assert_eq!(Draws::load(&path, &posterior).unwrap(), draws);
    let with_noise: DrawLayout = (&network, LIKELIHOOD).into();
    assert_eq!(with_noise.position.tensors().last().unwrap().name, "noise.log_variance");
}

#[test]
fn a_joint_search_says_that_it_has_no_beta_to_tell() {
    let given = Given {
        network: Network::dense(2, &[], 1).unwrap(),
        likelihood: LIKELIHOOD,
        prior_variance: 1.0,
        tempering: Tempering::Posterior,
        train: rows(2, 20),
        validation: rows(2, 10),
        found: vec![],
    };
    let error = JointSelector::default().select(&given.laboratory()).unwrap_err();
    assert!(matches!(&error, SelectionError::DoesNotSuit { .. }) && error.to_string().contains("β/σ²"), "{error}");
}
