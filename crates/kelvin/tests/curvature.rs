//! Curvature against closed forms: linear regression, and a small network with its exact Hessian and eigenvalues in f64.

use std::sync::Mutex;

use kelvin::curvature::{GaussNewtonMeans, HessianProduct, LargestCurvature};
use kelvin::data::{Examples, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::Network;
use kelvin::potential::{Batch, Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::sampler::{Batches, Chain, Integrator, Keep, Langevin, Plan, Silent, WarmUp, run_population};
use kelvin::temperature::Temperature;

const NOISE_VARIANCE: f64 = 0.25;
const PRIOR_VARIANCE: f64 = 0.5;
const ROWS: usize = 60;
const FEATURES: usize = 3;
const HIDDEN: usize = 4;

fn examples() -> Examples {
    let mut inputs = vec![0.0; ROWS * FEATURES];
    NoiseKey { seed: 8, purpose: Purpose::Split, chain: 0, step: 0 }.fill_normal(&mut inputs);
    let targets = inputs.chunks_exact(FEATURES).map(|x| x[0] - 0.7 * x[1] * x[2] + 0.3).collect();
    Examples { inputs: inputs.into(), num_features: FEATURES, targets: Targets::Real(targets) }
}

fn posterior(network: &Network) -> Posterior {
    let prior = IsotropicGaussian::new(PRIOR_VARIANCE).unwrap();
    Posterior::new(network, Likelihood::Gaussian { noise_variance: NOISE_VARIANCE }, prior, &examples()).unwrap()
}

/// H = XᵀX/σ² + 1/τ², with the bias as a last feature that is always 1.
fn linear_hessian() -> Vec<Vec<f64>> {
    let examples = examples();
    let rows = examples.inputs.numbers();
    let rows = rows.chunks_exact(FEATURES).map(|x| x.iter().map(|&x| f64::from(x)).chain([1.0]).collect::<Vec<_>>());
    let mut hessian = vec![vec![0.0; FEATURES + 1]; FEATURES + 1];
    for x in rows {
        add_outer(&mut hessian, &x, 1.0 / NOISE_VARIANCE);
    }
    hessian.iter_mut().enumerate().for_each(|(i, row)| row[i] += 1.0 / PRIOR_VARIANCE);
    hessian
}

fn add_outer(matrix: &mut [Vec<f64>], x: &[f64], scale: f64) {
    for (row, a) in matrix.iter_mut().zip(x) {
        row.iter_mut().zip(x).for_each(|(entry, b)| *entry += scale * a * b);
    }
}

/// The exact Hessian of f = Σ_k a_k relu(w_k·x + b_k) + c between its kinks, and the diagonal of its Gauss–Newton part, with the prior's.
/// Parameters lie as in the network: kernel (inputs × units), biases, kernel, bias.
fn network_hessian(theta: &[f32]) -> (Vec<Vec<f64>>, Vec<f64>) {
    let theta: Vec<f64> = theta.iter().map(|&x| f64::from(x)).collect();
    let (kernel, rest) = theta.split_at(FEATURES * HIDDEN);
    let (bias, rest) = rest.split_at(HIDDEN);
    let (a, c) = (&rest[..HIDDEN], rest[HIDDEN]);
    let (of_bias, of_a) = (FEATURES * HIDDEN, FEATURES * HIDDEN + HIDDEN);
    let mut hessian = vec![vec![0.0; theta.len()]; theta.len()];
    let mut diagonal = vec![1.0 / PRIOR_VARIANCE; theta.len()];
    let examples = examples();
    let Targets::Real(targets) = &examples.targets else { unreachable!() };
    for (x, &y) in examples.inputs.numbers().chunks_exact(FEATURES).zip(targets) {
        let x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let before = |k: usize| bias[k] + (0..FEATURES).map(|j| x[j] * kernel[j * HIDDEN + k]).sum::<f64>();
        let mut jacobian = vec![0.0; theta.len()];
        let mut output = c;
        for k in 0..HIDDEN {
            let on = f64::from(u8::from(before(k) > 0.0));
            output += a[k] * on * before(k);
            (0..FEATURES).for_each(|j| jacobian[j * HIDDEN + k] = a[k] * on * x[j]);
            jacobian[of_bias + k] = a[k] * on;
            jacobian[of_a + k] = on * before(k);
        }
        jacobian[theta.len() - 1] = 1.0;
        add_outer(&mut hessian, &jacobian, 1.0 / NOISE_VARIANCE);
        diagonal.iter_mut().zip(&jacobian).for_each(|(sum, j)| *sum += j * j / NOISE_VARIANCE);
        let residual = (output - f64::from(y)) / NOISE_VARIANCE;
        for k in (0..HIDDEN).filter(|&k| before(k) > 0.0) {
            for (place, value) in (0..FEATURES).map(|j| (j * HIDDEN + k, x[j])).chain([(of_bias + k, 1.0)]) {
                hessian[place][of_a + k] += residual * value;
                hessian[of_a + k][place] += residual * value;
            }
        }
    }
    hessian.iter_mut().enumerate().for_each(|(i, row)| row[i] += 1.0 / PRIOR_VARIANCE);
    (hessian, diagonal)
}

/// All eigenvalues of a symmetric matrix, by Jacobi's rotations.
fn eigenvalues(mut matrix: Vec<Vec<f64>>) -> Vec<f64> {
    let size = matrix.len();
    for _ in 0..60 {
        for p in 0..size {
            for q in p + 1..size {
                if matrix[p][q].abs() < 1e-14 {
                    continue;
                }
                let theta = 0.5 * (2.0 * matrix[p][q]).atan2(matrix[p][p] - matrix[q][q]);
                let (sin, cos) = theta.sin_cos();
                for row in matrix.iter_mut() {
                    (row[p], row[q]) = (cos * row[p] + sin * row[q], cos * row[q] - sin * row[p]);
                }
                let (above, below) = matrix.split_at_mut(q);
                for (up, low) in above[p].iter_mut().zip(&mut below[0]) {
                    (*up, *low) = (cos * *up + sin * *low, cos * *low - sin * *up);
                }
            }
        }
    }
    (0..size).map(|i| matrix[i][i]).collect()
}

fn multiply(matrix: &[Vec<f64>], x: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| row.iter().zip(x).map(|(a, b)| a * b).sum()).collect()
}

fn length(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Small enough a network, at a state where no row is near a kink.
fn network_at() -> (Network, Vec<f32>) {
    let network = Network::dense(FEATURES, &[HIDDEN], 1).unwrap();
    let position = network.initial_parameters(1, 0).iter().map(|x| 0.8 * x + 0.05).collect();
    (network, position)
}

/// Relative to the length of the exact product: 10⁻³ on a quadratic, where rounding is all; 2 % where a row may change sides.
#[test]
fn products_agree_with_exact_ones() {
    let linear = Network::dense(FEATURES, &[], 1).unwrap();
    let (network, at) = network_at();
    let cases = [
        (linear, vec![0.4, -0.2, 0.1, 0.3], linear_hessian(), 1e-3),
        (Network::dense(FEATURES, &[], 1).unwrap(), vec![0.0; 4], linear_hessian(), 1e-3),
        (network, at.clone(), network_hessian(&at).0, 2e-2),
    ];
    for (network, position, hessian, tolerance) in cases {
        let (posterior, dim) = (posterior(&network), position.len());
        let (mut work, mut product) = (posterior.workspace(), vec![0.0; dim]);
        for direction in 0..dim {
            let direction: Vec<f64> = (0..dim).map(|i| ((i * (direction + 2)) as f64).sin()).collect();
            if length(&direction) == 0.0 {
                continue;
            }
            let mut hessian_product = HessianProduct::new(dim);
            hessian_product.apply(&posterior, &position, Batch::ALL, &direction, &mut product, &mut work);
            let exact = multiply(&hessian, &direction);
            let error: Vec<f64> = product.iter().zip(&exact).map(|(a, b)| a - b).collect();
            assert!(length(&error) < tolerance * length(&exact), "{product:?} instead of {exact:?}");
        }
        HessianProduct::new(dim).apply(&posterior, &position, Batch::ALL, &vec![0.0; dim], &mut product, &mut work);
        assert_eq!(product, vec![0.0; dim]);
    }
}

/// Against all eigenvalues of M^{-1/2} H M^{-1/2}, with masses that change which direction is the fastest.
#[test]
fn the_largest_curvature_is_the_largest_eigenvalue() {
    let linear = Network::dense(FEATURES, &[], 1).unwrap();
    let (network, at) = network_at();
    for (network, position, hessian, masses) in [
        (linear.clone(), vec![0.4, -0.2, 0.1, 0.3], linear_hessian(), vec![1.0, 1.0]),
        (linear, vec![0.4, -0.2, 0.1, 0.3], linear_hessian(), vec![5.0, 0.5]),
        (network.clone(), at.clone(), network_hessian(&at).0, vec![1.0; 4]),
        (network, at.clone(), network_hessian(&at).0, vec![3.0, 0.7, 2.0, 0.2]),
    ] {
        let posterior = posterior(&network);
        let (layout, mut work) = (posterior.layout(), posterior.workspace());
        let mut root = vec![0.0; position.len()];
        for (tensor, mass) in layout.tensors().iter().zip(&masses) {
            root[tensor.range.clone()].fill(f64::sqrt(*mass));
        }
        let scaled = hessian
            .iter()
            .enumerate()
            .map(|(i, row)| row.iter().enumerate().map(|(j, entry)| entry / (root[i] * root[j])).collect::<Vec<_>>());
        let exact = eigenvalues(scaled.collect()).into_iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        let mut direction: Vec<f32> = (0..position.len()).map(|i| 1.0 + (i as f32).cos()).collect();
        let mut largest = LargestCurvature::new(position.len());
        let mut find = |rounds: usize, direction: &mut Vec<f32>| {
            largest.find(&posterior, &position, Batch::ALL, &layout, &masses, rounds, direction, &mut work)
        };
        let few = find(2, &mut direction);
        let found = find(40, &mut direction);
        assert!((found / exact - 1.0).abs() < 0.01, "{found} instead of {exact}");
        assert!(few < 1.01 * found, "it grows from below: {few}, then {found}");
        assert!((direction.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-4);
        let again = find(1, &mut direction);
        assert!((again / found - 1.0).abs() < 1e-3, "where it ended is where to begin: {again}, {found}");
    }
}

/// 4000 probes: a tensor's mean has a relative standard error of at most √(2/4000) = 2.2 %. The band is five of them, the false-alarm rate of
/// these six numbers below 10⁻⁵, and the seed is fixed.
#[test]
fn probes_have_the_gauss_newton_diagonal_as_their_mean() {
    let linear = Network::dense(FEATURES, &[], 1).unwrap();
    let (network, at) = network_at();
    let linear_diagonal: Vec<f64> = linear_hessian().iter().enumerate().map(|(i, row)| row[i]).collect();
    let cases = [(linear, vec![0.4, -0.2, 0.1, 0.3], linear_diagonal), (network, at.clone(), network_hessian(&at).1)];
    for (network, position, diagonal) in cases {
        let posterior = posterior(&network);
        let (layout, mut work) = (posterior.layout(), posterior.workspace());
        let mut means = vec![0.0; layout.tensors().len()];
        let mut probes = GaussNewtonMeans::new(position.len());
        const PROBES: u64 = 4000;
        for step in 0..PROBES {
            let key = NoiseKey { seed: 1, purpose: Purpose::Curvature, chain: 0, step };
            let share = 1.0 / PROBES as f64;
            probes.add_probe(&posterior, &position, Batch::ALL, &layout, key, share, &mut means, &mut work);
        }
        for (tensor, found) in layout.tensors().iter().zip(&means) {
            let exact = diagonal[tensor.range.clone()].iter().sum::<f64>() / tensor.range.len() as f64;
            assert!((found / exact - 1.0).abs() < 0.112, "{}: {found} instead of {exact}", tensor.name);
        }
    }
}

/// On a regression the rule can be worked out: masses go with the diagonal of H, and h = 1.2/√λmax. Masses are means of some twenty probes of two
/// tensors, so they are known to a fifth; λmax is that of the masses, a little less where masses have moved since.
#[test]
fn a_warm_up_finds_masses_and_step_size_and_keeps_them() {
    let network = Network::dense(FEATURES, &[], 1).unwrap();
    let posterior = posterior(&network);
    let (layout, hessian) = (posterior.layout(), linear_hessian());
    let rule = Langevin {
        warm_up: Some(WarmUp { num_steps: 2000, friction: None }),
        ..Langevin::new(Integrator::Baoab, f64::NAN, f64::NAN)
    };
    let run = |num_steps: u64, id: u32| {
        let mut chain = Chain::new(id, Temperature::new(0.5).unwrap(), vec![2.0, 0.0, -1.0, 0.5], &layout);
        let keep = Keep { burn_in: 2000, every: 100 };
        let plan = Plan { seed: 3, batches: Batches::full(ROWS), num_steps, keep };
        run_population(&posterior, &rule, &plan, std::slice::from_mut(&mut chain), &Silent);
        assert_eq!(chain.divergence, None);
        chain.state
    };
    for id in 0..4 {
        let state = run(2000, id);
        let found = &state.adapted;
        let root: Vec<f64> = [vec![state.mass[0].sqrt(); FEATURES], vec![state.mass[1].sqrt()]].concat();
        let scaled = hessian
            .iter()
            .enumerate()
            .map(|(i, row)| row.iter().enumerate().map(|(j, entry)| entry / (root[i] * root[j])).collect::<Vec<_>>());
        let exact = eigenvalues(scaled.collect()).into_iter().fold(0.0, f64::max);
        let stiffness = found.step_size * exact.sqrt();
        assert!((0.85..1.25).contains(&stiffness), "h√λmax = {stiffness}");
        let mean = (0..FEATURES).map(|i| hessian[i][i]).sum::<f64>() / FEATURES as f64;
        let ratio = state.mass[0] / state.mass[1] / (mean / hessian[FEATURES][FEATURES]);
        assert!((0.4..2.5).contains(&ratio), "masses are off by {ratio}");
        assert!((state.mass[0].ln() * FEATURES as f64 + state.mass[1].ln()).abs() < 1e-9, "{:?}", state.mass);
        assert_eq!(found.energies.len(), 250);
        let later = run(2600, id);
        assert_eq!((&later.adapted, &later.mass), (found, &state.mass), "what was found stays");
    }
    assert_ne!(run(2000, 0).adapted.step_size, run(2000, 1).adapted.step_size, "each chain finds its own");
}

/// Batches of a tenth of the rows make gradients so noisy that the usual friction leaves positions many times as hot; what a warm-up finds instead leaves
/// them 5 % too hot, or less, as far as the noise is known. Steps are then short and draws depend on each other: the standard error is about 4 %.
#[test]
fn a_warm_up_bounds_the_heat_of_minibatches() {
    let posterior = posterior(&Network::dense(FEATURES, &[], 1).unwrap());
    let (layout, temperature) = (posterior.layout(), 0.5);
    let hot = |friction: Option<f64>| {
        let rule = Langevin {
            warm_up: Some(WarmUp { num_steps: 2000, friction }),
            ..Langevin::new(Integrator::Baoab, f64::NAN, f64::NAN)
        };
        let keep = Keep { burn_in: 4000, every: 10 };
        let batches = Batches::new(ROWS, Some(ROWS / 10)).unwrap();
        let plan = Plan { seed: 5, batches, num_steps: 64_000, keep };
        let start = |id: u32| Chain::new(id, Temperature::new(temperature).unwrap(), vec![0.0; FEATURES + 1], &layout);
        let mut chains: Vec<Chain> = (0..16).map(start).collect();
        let draws = Mutex::new(Vec::new());
        let watch = |_: usize, chain: &Chain| draws.lock().unwrap().push(chain.state.position.clone());
        run_population(&posterior, &rule, &plan, &mut chains, &watch);
        let draws = draws.into_inner().unwrap();
        let mean: Vec<f64> = (0..=FEATURES)
            .map(|index| draws.iter().map(|draw| f64::from(draw[index])).sum::<f64>() / draws.len() as f64)
            .collect();
        let (mut gradient, mut work) = (vec![0.0; FEATURES + 1], posterior.workspace());
        let virial = draws.iter().map(|draw| {
            posterior.gradient(draw, Batch::ALL, &mut gradient, &mut work);
            let terms = draw.iter().zip(&mean).zip(&gradient);
            terms.map(|((&theta, mean), &slope)| (f64::from(theta) - mean) * f64::from(slope)).sum::<f64>()
        });
        virial.sum::<f64>() / (draws.len() * (FEATURES + 1)) as f64 / temperature
    };
    let (bounded, usual) = (hot(None), hot(Some(4.0)));
    assert!((0.85..1.25).contains(&bounded), "{bounded} times as hot as asked");
    assert!(usual > 2.0, "{usual} times as hot: the noise of these batches is too small for a test");
}
