//! Known posterior inside a real network: behind a convolution, batch norm in training mode takes its bias away again,
//! so that the likelihood does not know it and each bias is exactly N(0, σ_p² T), up to the known law of the integrator.
//!
//! Each of R ≥ 192 biases (of independent chains) gives one time average of b², so z = (mean − expected)/(sd/√R) needs
//! no model of the autocorrelation; |z| < 5 fails by chance with probability below 1.3e-6. A twin with noise 5 % too large must
//! be rejected by the same check.

use std::sync::Mutex;

use kelvin::data::{Examples, Targets};
use kelvin::exact::Quadratic;
use kelvin::likelihood::Likelihood;
use kelvin::network::{Layer, Network, Role, Rows, Shape};
use kelvin::potential::{Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::sampler::{Batches, Chain, Integrator, Keep, Langevin, LayerwiseMass, MassRule, Plan, run_population};
use kelvin::temperature::Temperature;

const NUM_IMAGES: usize = 32;
const PRIOR_VARIANCE: f64 = 0.5;
const LEARNING_RATE: f64 = 0.3;
const MOMENTUM: f64 = 0.9;
const NUM_CHAINS: u32 = 4;

/// Four convolutions with batch norm, one of them in a projection shortcut: 48 biases that no likelihood knows.
fn network() -> Network {
    let conv = |kernel, stride| Layer::Conv { filters: 12, kernel, stride, groups: 1 };
    let body = vec![conv(3, 2), Layer::BATCH_NORM, Layer::Relu, conv(3, 1), Layer::BATCH_NORM];
    let layers = vec![
        conv(3, 1),
        Layer::BATCH_NORM,
        Layer::Relu,
        Layer::Residual { body, shortcut: vec![conv(1, 2), Layer::BATCH_NORM] },
        Layer::Relu,
        Layer::GlobalAvgPool,
        Layer::Dense { units: 2 },
    ];
    Network::new(Shape::image(4, 4, 1), layers).unwrap()
}

fn examples() -> Examples {
    let mut inputs = vec![0.0; NUM_IMAGES * 16];
    NoiseKey { seed: 8, purpose: Purpose::Synthetic, chain: 0, step: 0 }.fill_normal(&mut inputs);
    let labels = inputs.chunks_exact(16).map(|image| u32::from(image[5] + image[10] > 0.0)).collect();
    Examples { inputs: inputs.into(), num_features: 16, targets: Targets::Classes(labels) }
}

/// The time average of b² of every bias of every chain, at noise of this temperature.
fn mean_squares(temperature: f64, mass: MassRule) -> Vec<f64> {
    let (network, examples) = (network(), examples());
    let prior = IsotropicGaussian::new(PRIOR_VARIANCE).unwrap();
    let likelihood = Likelihood::Categorical { num_classes: 2 };
    let posterior = Posterior::new(&network, likelihood, prior, &examples).unwrap();
    let layout = network.layout();
    let biases: Vec<usize> = layout
        .tensors()
        .iter()
        .filter(|tensor| tensor.role == Role::Bias && tensor.layer().contains("conv"))
        .flat_map(|tensor| tensor.range.clone())
        .collect();
    assert_eq!(biases.len(), 48);
    let mut chains: Vec<Chain> = (0..NUM_CHAINS)
        .map(|id| {
            let start = network.initial_parameters(5, id);
            Chain::new(id, Temperature::new(temperature).unwrap(), start, &layout)
        })
        .collect();
    let rule = Langevin { mass, ..Langevin::new(Integrator::Sghmc, LEARNING_RATE, MOMENTUM) };
    let plan = Plan {
        seed: temperature.to_bits(),
        batches: Batches::new(NUM_IMAGES, Some(16)).unwrap(),
        num_steps: 4_500,
        keep: Keep { burn_in: 500, every: 4 },
    };
    let sums = Mutex::new(vec![vec![0.0; biases.len()]; chains.len()]);
    let watch = |index: usize, chain: &Chain| {
        let mut sums = sums.lock().unwrap();
        for (sum, &bias) in sums[index].iter_mut().zip(&biases) {
            *sum += f64::from(chain.state.position[bias]).powi(2);
        }
    };
    run_population(&posterior, &rule, &plan, &mut chains, &watch);
    assert!(chains.iter().all(|chain| chain.divergence.is_none()));
    let kept = ((plan.num_steps - plan.keep.burn_in) / plan.keep.every) as f64;
    sums.into_inner().unwrap().concat().into_iter().map(|sum| sum / kept).collect()
}

/// What the integrator gives for U = b²/(2σ_p²) at temperature T.
fn expected(temperature: f64) -> f64 {
    let conditions = Integrator::Sghmc.conditions(LEARNING_RATE, MOMENTUM, NUM_IMAGES, 1.0, temperature);
    let bowl = Quadratic { curvature: 1.0 / PRIOR_VARIANCE, temperature, gradient_noise_variance: 0.0, mass: 1.0 };
    let law = bowl.symplectic_euler(conditions.step_size, conditions.retained_momentum).unwrap();
    let exact = PRIOR_VARIANCE * temperature;
    assert!((law.position_variance / exact - 1.0).abs() < 0.01, "the step is small: the law is nearly N(0, σ_p² T)");
    law.position_variance
}

fn z(values: &[f64], expected: f64) -> f64 {
    assert!(values.len() >= 192, "too few averages for the false-alarm rate");
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean - expected) / (variance / count).sqrt()
}

fn check(temperature: f64, mass: MassRule) {
    let z_right = z(&mean_squares(temperature, mass), expected(temperature));
    assert!(z_right.abs() < 5.0, "T = {temperature}, {mass:?}: z = {z_right}");
    let z_twin = z(&mean_squares(temperature * 1.05 * 1.05, mass), expected(temperature));
    assert!(z_twin > 5.0, "T = {temperature}, {mass:?}: noise that is 5 % too large was not noticed, z = {z_twin}");
}

#[test]
fn biases_in_front_of_batch_norm_have_the_prior_at_the_temperature() {
    for temperature in [0.3, 1.0] {
        check(temperature, MassRule::Fixed);
    }
}

/// Masses that change at every epoch, with momenta rescaled, leave the law of the positions alone.
#[test]
fn so_they_do_with_layerwise_masses() {
    check(1.0, MassRule::Layerwise(LayerwiseMass { num_batches: 2, ..LayerwiseMass::default() }));
}

/// What a chain keeps of several batches is the plain average of what each has.
#[test]
fn statistics_of_batches_are_averaged() {
    let (network, examples) = (network(), examples());
    let prior = IsotropicGaussian::new(PRIOR_VARIANCE).unwrap();
    let posterior = Posterior::new(&network, Likelihood::Categorical { num_classes: 2 }, prior, &examples).unwrap();
    let position = network.initial_parameters(5, 0);
    let rows: Vec<u32> = (0..NUM_IMAGES as u32).collect();
    let of = |batches: &[&[u32]]| {
        let batches = batches.iter().map(|batch| Rows::These(batch));
        posterior.average_statistics(&position, batches, &mut posterior.workspace())
    };
    let (first, second) = rows.split_at(8);
    let (a, b, both) = (of(&[first]), of(&[second]), of(&[first, second]));
    assert_ne!(a, b);
    for ((a, b), both) in a.iter().zip(&b).zip(&both) {
        assert!((0.5 * (a + b) - both).abs() <= 1e-6 * (1.0 + both.abs()), "{a} {b} {both}");
    }
}
