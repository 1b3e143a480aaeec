//! Several targets of a row: a linear network of two is two networks of one, and one with hidden layers has the gradient of its energy.

use kelvin::data::{Examples, Inputs, Targets};
use kelvin::exact::{Cholesky, LinearRegression};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Activation, Mode, Network, Rows};
use kelvin::potential::{Batch, Posterior, PosteriorError, Potential, TemperedModel};
use kelvin::predictive::{PredictiveModel, RegressionPredictive};
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};

const FEATURES: usize = 3;
const ROWS: usize = 40;
const NOISE: f64 = 0.2;
const PRIOR: f64 = 0.7;
const BOTH: [PredictiveModel; 2] = PredictiveModel::BOTH;

fn normals(step: u64, count: usize) -> Vec<f32> {
    let mut numbers = vec![0.0; count];
    NoiseKey { seed: 21, purpose: Purpose::Synthetic, chain: 0, step }.fill_normal(&mut numbers);
    numbers
}

/// Rows whose two targets follow the inputs in ways of their own.
fn rows() -> Examples {
    let (inputs, noise) = (normals(0, ROWS * FEATURES), normals(1, ROWS * 2));
    let row = |(x, e): (&[f32], &[f32])| [x[0] - 0.5 * x[1] + 0.4 * e[0], 0.3 + x[1] * x[2] + 0.8 * e[1]];
    let targets = inputs.chunks_exact(FEATURES).zip(noise.chunks_exact(2)).flat_map(row).collect();
    Examples { inputs: inputs.into(), num_features: FEATURES, targets: Targets::Real(targets) }
}

/// The same rows with one of the targets.
fn with_target(rows: &Examples, target: usize) -> Examples {
    let Targets::Real(targets) = &rows.targets else { unreachable!() };
    let own = targets.iter().skip(target).step_by(2).copied().collect();
    Examples { targets: Targets::Real(own), ..rows.clone() }
}

/// The places in θ of a linear network of two targets that one of them has, in the order of a network of one.
fn places(likelihood: Likelihood, target: usize) -> Vec<usize> {
    let (width, num_own) = (likelihood.num_outputs(), likelihood.num_parameters());
    let outputs = |row: usize| (0..width).map(move |output| (row * 2 + target) * width + output);
    let of_network = (0..=FEATURES).flat_map(outputs);
    let own = (0..num_own).map(|own| (FEATURES + 1) * 2 * width + target * num_own + own);
    of_network.chain(own).collect()
}

/// U and its gradient are the sums of those of two posteriors, so that the posterior of both targets is theirs, independent: of constant noise that is known or
/// learned, of noise that varies and of far tails; over all rows and over some, counted once or with weights.
#[test]
fn a_linear_network_of_two_targets_is_two_of_one() {
    let all = rows();
    let picked = [3, 1, 4, 15, 9, 2, 6];
    let weights: Vec<f32> = (0..ROWS).map(|row| (row % 3) as f32).collect();
    let known = Likelihood::Gaussian { noise_variance: NOISE };
    for (likelihood, is_weighed) in [
        (known, false),
        (known, true),
        (Likelihood::LearnedGaussian, false),
        (Likelihood::LearnedGaussian, true),
        (Likelihood::VaryingGaussian, false),
        (Likelihood::StudentT, false),
        (Likelihood::VaryingStudentT, false),
    ] {
        let posterior = |likelihood: Likelihood, examples: &Examples| {
            let network = Network::dense(FEATURES, &[], likelihood.num_outputs()).unwrap();
            let prior = IsotropicGaussian::new(PRIOR).unwrap();
            let posterior = Posterior::new(&network, likelihood, prior, examples).unwrap();
            if is_weighed { posterior.with_row_weights(&weights).unwrap() } else { posterior }
        };
        let both = posterior(likelihood.of_targets(2).unwrap(), &all);
        let position: Vec<f32> = normals(7, both.dim()).iter().map(|x| 0.6 * x).collect();
        for rows in [Rows::All, Rows::These(&picked)] {
            let batch = Batch { rows, likelihood_weight: 1.5, mode: Mode::Training };
            let energy = |posterior: &Posterior, position: &[f32]| {
                let mut gradient = vec![0.0; posterior.dim()];
                let energy = posterior.evaluate(position, batch, &mut gradient, &mut posterior.workspace());
                (energy, gradient)
            };
            let (sum, gradient) = energy(&both, &position);
            let mut apart = 0.0;
            for target in [0, 1] {
                let places = places(likelihood, target);
                let own: Vec<f32> = places.iter().map(|&place| position[place]).collect();
                let (own_energy, expected) = energy(&posterior(likelihood, &with_target(&all, target)), &own);
                apart += own_energy;
                for (&place, expected) in places.iter().zip(&expected) {
                    let found = gradient[place];
                    assert!(
                        (found - expected).abs() < 1e-4 * (1.0 + expected.abs()),
                        "{likelihood:?}, target {target}, {place}: {found} {expected}"
                    );
                }
            }
            assert!((sum - apart).abs() < 1e-6 * (1.0 + apart.abs()), "{likelihood:?}: {sum} {apart}");
        }
    }
}

/// Inputs with a constant behind, and the numbers of one target.
fn design(rows: &Examples) -> (Vec<f64>, Vec<f64>) {
    let (Inputs::Numbers(inputs), Targets::Real(targets)) = (&rows.inputs, &rows.targets) else { unreachable!() };
    let row = |row: &[f32]| row.iter().map(|&x| f64::from(x)).chain([1.0]).collect::<Vec<f64>>();
    (inputs.chunks_exact(FEATURES).flat_map(row).collect(), targets.iter().map(|&y| f64::from(y)).collect())
}

/// XᵀX/σ² + 1/σ_p²: that of one target's posterior.
fn precision(inputs: &[f64]) -> Vec<f64> {
    let width = FEATURES + 1;
    let mut matrix = vec![0.0; width * width];
    for row in inputs.chunks_exact(width) {
        for (entry, index) in matrix.iter_mut().zip(0..) {
            *entry += row[index / width] * row[index % width] / NOISE;
        }
    }
    matrix.iter_mut().step_by(width + 1).for_each(|entry| *entry += 1.0 / PRIOR);
    matrix
}

/// With known noise the posterior is known: its mean has no gradient, and its precision, told by differences of a gradient that is linear, is that of each
/// target by itself, with nothing between them.
#[test]
fn means_and_variances_are_those_of_two_regressions() {
    let (all, likelihood) = (rows(), Likelihood::Gaussian { noise_variance: NOISE });
    let network = Network::dense(FEATURES, &[], 2).unwrap();
    let prior = IsotropicGaussian::new(PRIOR).unwrap();
    let posterior = Posterior::new(&network, likelihood.of_targets(2).unwrap(), prior, &all).unwrap();
    let mut mean = vec![0.0f32; posterior.dim()];
    let mut precision = vec![0.0f64; posterior.dim() * posterior.dim()];
    for target in [0, 1] {
        let (inputs, targets) = design(&with_target(&all, target));
        let exact = LinearRegression::new(&inputs, &targets, FEATURES + 1, NOISE, PRIOR).unwrap();
        let places = places(likelihood, target);
        places.iter().zip(exact.mean()).for_each(|(&place, &value)| mean[place] = value as f32);
        let own = self::precision(&inputs);
        for (row, &i) in places.iter().enumerate() {
            for (column, &j) in places.iter().enumerate() {
                precision[i * posterior.dim() + j] = own[row * places.len() + column];
            }
        }
    }
    let mut work = posterior.workspace();
    let mut gradient = |position: &[f32]| {
        let mut gradient = vec![0.0; position.len()];
        posterior.evaluate(position, Batch::ALL, &mut gradient, &mut work);
        gradient
    };
    assert!(gradient(&mean).iter().all(|slope| slope.abs() < 2e-3), "{:?}", gradient(&mean));
    for i in 0..mean.len() {
        let mut at = |step: f32| {
            let mut moved = mean.clone();
            moved[i] += step;
            gradient(&moved)
        };
        for (j, (ahead, behind)) in at(0.5).iter().zip(at(-0.5)).enumerate() {
            let (found, expected) = (f64::from(ahead - behind), precision[i * mean.len() + j]);
            assert!((found - expected).abs() < 1e-3 * (1.0 + expected.abs()), "{i}, {j}: {found} {expected}");
        }
    }
}

/// Draws of two independent posteriors: at each target the predictive is that of its own, to the last bit; the log density of a row is that of the product,
/// whose limit is the sum of the exact ones.
#[test]
fn predictives_of_targets_are_their_own_and_log_densities_add_up() {
    const DRAWS: usize = 20_000;
    let (all, one) = (rows(), Likelihood::Gaussian { noise_variance: NOISE });
    let Targets::Real(targets) = &all.targets else { unreachable!() };
    let beta = 2.0;
    let mut both = RegressionPredictive::of(one.of_targets(2).unwrap(), targets, beta).unwrap();
    let mut own = [0, 1].map(|target| {
        let Targets::Real(targets) = with_target(&all, target).targets else { unreachable!() };
        RegressionPredictive::of(one, &targets, beta).unwrap()
    });
    let exact = [0, 1].map(|target| {
        let (inputs, targets) = design(&with_target(&all, target));
        (LinearRegression::new(&inputs, &targets, FEATURES + 1, NOISE, PRIOR).unwrap(), inputs, targets)
    });
    let (mut first_half, half) = (both.clone(), DRAWS / 2);
    for draw in 0..DRAWS {
        let outputs = [0, 1].map(|target| {
            let (exact, inputs, _) = &exact[target];
            let factor = Cholesky::new(&precision(inputs), FEATURES + 1).unwrap();
            let noise: Vec<f64> =
                normals(100 + (2 * draw + target) as u64, FEATURES + 1).iter().map(|&z| f64::from(z)).collect();
            let theta: Vec<f64> = exact
                .mean()
                .iter()
                .zip(factor.half_solve_transposed(&noise))
                .map(|(mean, shift)| mean + shift)
                .collect();
            let output = |row: &[f64]| row.iter().zip(&theta).map(|(x, w)| x * w).sum::<f64>() as f32;
            inputs.chunks_exact(FEATURES + 1).map(output).collect::<Vec<f32>>()
        });
        let values: Vec<f32> = outputs[0].iter().zip(&outputs[1]).flat_map(|(&a, &b)| [a, b]).collect();
        both.add_draw(&values).unwrap();
        own.iter_mut().zip(&outputs).for_each(|(own, outputs)| own.add_draw(outputs).unwrap());
        if draw < half {
            first_half.add_draw(&values).unwrap();
        }
    }
    let of = |values: Vec<f64>, target: usize| values.into_iter().skip(target).step_by(2).collect::<Vec<f64>>();
    for (target, own) in own.iter().enumerate() {
        assert_eq!(of(both.means().unwrap(), target), own.means().unwrap());
        for model in BOTH {
            let close = |a: Vec<f64>, b: Vec<f64>| a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-9);
            assert!(close(of(both.variances(model).unwrap(), target), own.variances(model).unwrap()));
            assert_eq!(of(both.point_log_densities(model).unwrap(), target), own.log_densities(model).unwrap());
            let pits = |one: &RegressionPredictive| one.pit_values(model).unwrap().values().to_vec();
            assert_eq!(of(pits(&both), target), pits(own));
            let (found, expected) = (both.scores_by_target().unwrap()[target], own.both_scores().unwrap());
            assert_eq!(
                (found.get(model).lpd, found.get(model).mse),
                (expected.get(model).lpd, expected.get(model).mse)
            );
        }
    }
    let joint = both.log_densities(PredictiveModel::Standard).unwrap();
    for (row, joint) in joint.iter().enumerate() {
        let expected: f64 = exact
            .iter()
            .map(|(exact, inputs, targets)| {
                let input = &inputs[row * (FEATURES + 1)..][..FEATURES + 1];
                exact.standard_predictive(input, 1.0).log_density(targets[row])
            })
            .sum();
        // Rows that are far off are told by few of the draws.
        assert!((joint - expected).abs() < 0.05 + 0.02 * expected.abs(), "{row}: {joint} {expected}");
    }
    let scores = both.both_scores().unwrap().standard;
    let mse = own.each_ref().map(|own| own.scores(PredictiveModel::Standard).unwrap().mse);
    assert!((scores.mse - 0.5 * (mse[0] + mse[1])).abs() < 1e-12, "the mean over targets");
    assert!((scores.lpd - joint.iter().sum::<f64>() / ROWS as f64).abs() < 1e-12, "of rows");

    let mut resumed = RegressionPredictive::of(one.of_targets(2).unwrap(), targets, beta).unwrap();
    assert!(resumed.restore(&first_half.state()).is_some() && resumed == first_half);
    assert!(
        resumed.restore(&first_half.state()[1..]).is_none() && own[0].clone().restore(&first_half.state()).is_none()
    );
    let mut merged = first_half.clone();
    merged.merge(&first_half).unwrap();
    let densities = |of: &RegressionPredictive| of.log_densities(PredictiveModel::Tempered).unwrap();
    assert!(densities(&merged).iter().zip(densities(&first_half)).all(|(a, b)| (a - b).abs() < 1e-12));
    assert_eq!(merged.num_draws(), DRAWS);
}

/// With a hidden layer that targets share, beside a linear one.
#[test]
fn gradients_are_those_of_the_energy() {
    let all = rows();
    for likelihood in [Likelihood::LearnedGaussian, Likelihood::VaryingGaussian, Likelihood::VaryingStudentT] {
        let likelihood = likelihood.of_targets(2).unwrap();
        let network = Network::table(FEATURES, &[4], likelihood.num_outputs(), Activation::Tanh, true).unwrap();
        let posterior = Posterior::new(&network, likelihood, IsotropicGaussian::new(PRIOR).unwrap(), &all).unwrap();
        let position: Vec<f32> = normals(9, posterior.dim()).iter().map(|x| 0.4 * x).collect();
        let (mut work, mut gradient, mut tempered) =
            (posterior.workspace(), vec![0.0; posterior.dim()], vec![0.0; posterior.dim()]);
        posterior.evaluate(&position, Batch::ALL, &mut gradient, &mut work);
        let value = posterior.tempered_gradient(&position, Rows::All, Mode::Training, 1.7, &mut tempered, &mut work);
        let mut unused = vec![0.0; posterior.dim()];
        for index in 0..posterior.dim() {
            let mut at = |step: f32| {
                let mut moved = position.clone();
                moved[index] += step;
                let energy = posterior.evaluate(&moved, Batch::ALL, &mut unused, &mut work);
                let sum = posterior.tempered_gradient(&moved, Rows::All, Mode::Training, 1.7, &mut unused, &mut work);
                (energy, sum.value)
            };
            // Fourth order, with steps that f32 has exactly.
            let slope = |f: &mut dyn FnMut(f32) -> f64| {
                (8.0 * (f(0.015_625) - f(-0.015_625)) - (f(0.031_25) - f(-0.031_25))) / 0.1875
            };
            let (energy, sum) = (slope(&mut |step| at(step).0), slope(&mut |step| at(step).1));
            for (slope, found) in [(energy, gradient[index]), (sum, tempered[index])] {
                assert!(
                    (slope - f64::from(found)).abs() < 5e-3 * (1.0 + slope.abs()),
                    "{likelihood:?}, {index}: {slope} {found}"
                );
            }
        }
        let mut slope = |beta: f64| {
            posterior.tempered_gradient(&position, Rows::All, Mode::Training, beta, &mut unused, &mut work).value
        };
        let found = (slope(1.7 * 1.001) - slope(1.7 / 1.001)) / (2.0 * 1.001f64.ln());
        assert!((found - value.log_beta_gradient).abs() < 1e-3 * (1.0 + found.abs()), "{found} {value:?}");
    }
}

#[test]
fn rows_must_have_as_many_targets_as_the_likelihood() {
    let network = Network::dense(FEATURES, &[], 3).unwrap();
    let likelihood = Likelihood::LearnedGaussian.of_targets(3).unwrap();
    let error = Posterior::new(&network, likelihood, IsotropicGaussian::new(1.0).unwrap(), &rows()).err().unwrap();
    assert!(matches!(error, PosteriorError::Likelihood(_)), "{error}");
    assert_eq!(error.to_string(), "the likelihood is of 3 targets a row, and rows have 2");
    let error = RegressionPredictive::of(likelihood, &[0.0; 4], 1.0).unwrap_err().to_string();
    assert!(error.contains("4 targets are not 3 for each row"), "{error}");
}
