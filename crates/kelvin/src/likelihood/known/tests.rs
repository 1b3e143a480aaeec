//! All likelihoods side by side: sums, derivatives, tails and what each says of itself.

use super::*;
use crate::likelihood::rows::Given;
use crate::likelihood::sum::LikelihoodSum;
use crate::network::{OutputGradient, Rows};

/// One of each, with three rows of values and targets.
fn all() -> Vec<(Likelihood, Vec<f32>, Targets)> {
    let numbers = || Targets::Real(vec![0.75, 2.0, -0.4]);
    let counts = || Targets::Real(vec![3.0, 0.0, 17.0]);
    vec![
        (Likelihood::Gaussian { noise_variance: 0.2 }, vec![0.5, -1.25, 0.3], numbers()),
        (Likelihood::LearnedGaussian, vec![0.5, -0.7, -1.25, -0.7, 0.3, -0.7], numbers()),
        (Likelihood::VaryingGaussian, vec![0.5, -0.7, -1.25, 0.9, 0.3, -4.0], numbers()),
        (Likelihood::StudentT, vec![0.5, -0.7, -1.25, -0.7, 0.3, -0.7], numbers()),
        (Likelihood::VaryingStudentT, vec![0.5, -0.7, -1.25, 0.9, 0.3, -4.0], numbers()),
        (
            Likelihood::LogNormal { log_mean: 0.3, log_std: 0.8 },
            vec![0.5, -0.7, -1.25, 0.9, 0.3, -4.0],
            Targets::Real(vec![0.75, 2.0, 1.6]),
        ),
        (
            Likelihood::PowerNormal { power: 0.4, mean: 0.3, std: 0.8 },
            vec![0.5, -0.7, -1.25, 0.9, 0.3, -4.0],
            numbers(),
        ),
        (Likelihood::PowerNormal { power: 2.0, mean: 0.3, std: 0.8 }, vec![0.5, -0.7, 0.2, 0.9, 0.3, 0.1], numbers()),
        (Likelihood::Poisson { log_mean: 0.7 }, vec![0.5, -1.25, 2.3], counts()),
        (Likelihood::NegativeBinomial { log_mean: 0.7 }, vec![0.5, 0.4, -1.25, 0.4, 2.3, 0.4], counts()),
        (
            Likelihood::LearnedGaussian.of_targets(2).unwrap(),
            vec![0.5, 0.1, -0.7, 0.4, -1.25, 0.6, -0.7, 0.4, 0.3, 2.1, -0.7, 0.4],
            Targets::Real(vec![0.75, -0.3, 2.0, 0.2, -0.4, 1.1]),
        ),
        (
            Likelihood::VaryingStudentT.of_targets(2).unwrap(),
            vec![0.5, -0.7, 0.1, 0.2, -1.25, 0.9, 0.6, -1.5, 0.3, -4.0, 2.1, 0.8],
            Targets::Real(vec![0.75, -0.3, 2.0, 0.2, -0.4, 1.1]),
        ),
        (
            Likelihood::Categorical { num_classes: 3 },
            vec![0.5, -1.0, 40.0, 3.0, 2.0, 1.0, 0.3, -0.4, 0.9],
            Targets::Classes(vec![1, 0, 2]),
        ),
    ]
}

#[test]
fn single_rows_add_up_to_the_sum() {
    for (likelihood, values, targets) in all() {
        let close = |sum: f64, rows: &[f64]| (rows.iter().sum::<f64>() - sum).abs() < 1e-5 * (1.0 + sum.abs());
        let rows = likelihood.log_densities(&values, &targets);
        let sum = likelihood.log_likelihood(&values, &targets, 1.0).value;
        assert!(rows.len() == 3 && close(sum, &rows), "{likelihood:?}: {rows:?} {sum}");
        let (mut rows, mut slopes) = (Vec::new(), Vec::new());
        likelihood.tempered_densities(&values, &targets, 2.5, |row| {
            rows.push(row.log_density);
            slopes.push(2.5 * row.slope);
        });
        let sum = likelihood.log_likelihood(&values, &targets, 2.5);
        assert!(rows.len() == 3 && close(sum.value, &rows) && close(sum.log_beta_gradient, &slopes));
        let curve = likelihood.log_beta_curve(&values, &targets, 2.5f64.ln());
        assert!(close(sum.value, &[curve.value]) && close(sum.log_beta_gradient, &[curve.slope]));
    }
}

#[test]
fn derivatives_in_log_beta_agree_with_differences() {
    for (likelihood, values, targets) in all() {
        let at = |log_beta: f64| likelihood.log_likelihood(&values, &targets, log_beta.exp());
        let slope = (at(0.7 + 1e-5).value - at(0.7 - 1e-5).value) / 2e-5;
        assert!((slope - at(0.7).log_beta_gradient).abs() < 1e-6, "{likelihood:?}");
        let curve = |log_beta: f64| likelihood.log_beta_curve(&values, &targets, log_beta);
        let curvature = (curve(0.7 + 1e-5).slope - curve(0.7 - 1e-5).slope) / 2e-5;
        assert!((curvature - curve(0.7).curvature).abs() < 1e-5, "{likelihood:?}");
    }
}

/// Numbers: the distribution of a row is the density of its target, and has its mean and variance.
#[test]
fn the_distribution_of_a_number_is_that_of_its_density() {
    for (likelihood, values, targets) in all() {
        let Targets::Real(numbers) = &targets else { continue };
        if likelihood.num_targets() > 1 {
            continue;
        }
        let width = values.len() / numbers.len();
        let mut rows = Vec::new();
        likelihood.tempered_densities(&values, &targets, 3.0, |row| rows.push(row.log_density));
        for ((values, &target), log_density) in values.chunks_exact(width).zip(numbers).zip(rows) {
            let distribution = likelihood.number_distribution(values, 3.0);
            assert!((distribution.log_density(f64::from(target)) - log_density).abs() < 1e-10, "{likelihood:?}");
            let (below, at) = (0.066_807_201_268_858, distribution.at(-1.5));
            if likelihood.are_counts() {
                assert!(distribution.at_most(at) >= below && distribution.at_most(at - 1.0) < below);
                let middle = distribution.at_most(at) - 0.5 * distribution.log_density(at).exp();
                assert!((distribution.cumulative(at) - middle).abs() < 1e-10, "{likelihood:?}");
            } else {
                assert!((distribution.cumulative(at) - below).abs() < 1e-12, "{likelihood:?}");
            }
            assert!((distribution.cumulative(at) + distribution.above(at) - 1.0).abs() < 1e-12);
        }
    }
}

/// ∂/∂outputs and ∂/∂own of Σ log p^β/Z, at β = 1 and at another.
#[test]
fn gradients_agree_with_differences() {
    for ((likelihood, values, targets), beta) in all().into_iter().flat_map(|one| [(one.clone(), 1.0), (one, 1.7)]) {
        let (num_outputs, num_values) = (likelihood.num_outputs(), likelihood.num_values());
        let own: Vec<f32> = values[num_outputs..num_values].to_vec();
        let outputs: Vec<f32> = values.chunks_exact(num_values).flat_map(|row| &row[..num_outputs]).copied().collect();
        let sum = |outputs: &[f32], own: &[f32]| {
            let given = Given { beta, own };
            let (mut outputs, mut of_own) = (outputs.to_vec(), vec![0.0; own.len()]);
            let mut sum = LikelihoodSum::new(likelihood, given, &targets, Rows::All);
            sum.differentiate(0, &mut outputs);
            sum.own_gradient(&mut of_own);
            (sum.total().value, outputs, of_own)
        };
        let (_, of_outputs, of_own) = sum(&outputs, &own);
        for (index, found) in of_outputs.iter().chain(&of_own).enumerate() {
            let at = |step: f32| {
                let (mut outputs, mut own) = (outputs.clone(), own.clone());
                *outputs.iter_mut().chain(&mut own).nth(index).unwrap() += step;
                sum(&outputs, &own).0
            };
            // Fourth order, with steps that f32 has exactly.
            let step = 0.015_625;
            let slope = (8.0 * (at(step) - at(-step)) - (at(2.0 * step) - at(-2.0 * step))) / (12.0 * f64::from(step));
            let error = (slope - f64::from(*found)).abs();
            assert!(error < 2e-3 * (1.0 + slope.abs()), "{likelihood:?}, β = {beta}, {index}: {slope} {found}");
        }
    }
}

#[test]
fn parameters_of_its_own_have_names_starts_and_a_prior() {
    for (likelihood, values, _) in all() {
        assert_eq!(values.len(), 3 * likelihood.num_values(), "{likelihood:?}");
        let own = likelihood.initial_parameters();
        assert_eq!(own.len(), likelihood.num_parameters());
        for index in 0..own.len() {
            let at = |step: f32| {
                let mut moved: Vec<f32> = own.iter().map(|value| value + 0.7).collect();
                moved[index] += step;
                moved
            };
            let mut gradient = vec![2.0; own.len()];
            likelihood.add_prior_energy_gradient(&at(0.0), -1.5, &mut gradient);
            let slope = (likelihood.log_prior(&at(0.125)) - likelihood.log_prior(&at(-0.125))) / 0.25;
            assert!((f64::from(gradient[index]) - (-3.0 - slope)).abs() < 1e-3, "{likelihood:?}");
        }
    }
}

#[test]
fn refuses_targets_of_another_kind() {
    let error = Likelihood::Gaussian { noise_variance: 0.1 }.check(&Targets::Classes(vec![0])).unwrap_err();
    assert_eq!(error.to_string(), "a Gaussian likelihood needs numbers, but the targets are classes");
    assert!(Likelihood::Gaussian { noise_variance: 0.0 }.check(&Targets::Real(vec![])).is_err());
    assert!(Likelihood::Categorical { num_classes: 2 }.check(&Targets::Classes(vec![2])).is_err());
    let poisson = Likelihood::Poisson { log_mean: 0.0 };
    let error = poisson.check(&Targets::Real(vec![1.0, 0.5])).unwrap_err().to_string();
    assert!(error.contains("Poisson likelihood needs counts") && error.contains("a target is 0.5"), "{error}");
    assert!(Likelihood::NegativeBinomial { log_mean: f64::NEG_INFINITY }.check_settings().is_err());
    for (likelihood, _, targets) in all() {
        assert!(likelihood.check(&targets).is_ok() && likelihood.check(&likelihood.unknown_targets(2)).is_ok());
    }
}

/// p^b falls as |y|^{−b (ν + 1)}, which has an integral where b (ν + 1) > 1; all others fall faster than any power.
#[test]
fn tails_decide_which_powers_have_an_integral() {
    for (likelihood, values, _) in all() {
        let width = likelihood.num_values();
        if likelihood.kind() != TargetKind::Numbers || likelihood.are_counts() || likelihood.has_own_units() {
            assert_eq!(likelihood.least_power(), 0.0, "{likelihood:?}");
            continue;
        }
        let tail = likelihood.number_distribution(&values[..width], 1.0);
        let falls = (tail.log_density(1e60) - tail.log_density(1e30)) / (30.0 * std::f64::consts::LN_10);
        let expected = if falls < -1e3 { 0.0 } else { -1.0 / falls };
        assert!((likelihood.least_power() - expected).abs() < 1e-6, "{likelihood:?}: {expected}");
    }
}

/// The output that says how far targets spread moves the scale and not the middle; only those with one have it.
#[test]
fn the_output_of_the_spread_spreads() {
    for (likelihood, values, _) in all() {
        let width = likelihood.num_values();
        let Some(&output) = likelihood.spread_outputs().first() else {
            let name = likelihood.ask(|model| model.name());
            assert!(!name.contains("varying") && name != "log-normal", "{likelihood:?}");
            continue;
        };
        let mut wider = values[..width].to_vec();
        wider[output] += 1.0;
        let [narrow, wide] = [&values[..width], &wider].map(|values| likelihood.number_distribution(values, 1.0));
        assert!(wide.scale() > 1.1 * narrow.scale(), "{likelihood:?}: {} {}", wide.scale(), narrow.scale());
        assert!((wide.at(0.0) - narrow.at(0.0)).abs() < 1e-9, "{likelihood:?}: {} {}", wide.at(0.0), narrow.at(0.0));
    }
}

/// What holds a scale of its own hides β, as counts do, whose law has no scale; each says what it is that hides it.
#[test]
fn scales_of_the_noise_hide_beta() {
    for (likelihood, _, _) in all() {
        let has_scale = !likelihood.spread_outputs().is_empty() || likelihood.num_parameters() > 0;
        assert_eq!(likelihood.identifies_beta(), !has_scale && !likelihood.are_counts(), "{likelihood:?}");
        if let Some(why) = likelihood.hides_beta() {
            assert!(why.split_whitespace().count() >= 5, "{likelihood:?} has no reason: {why}");
        }
    }
}

#[test]
fn names_and_units_are_those_people_read_of() {
    let names: Vec<&str> = all().iter().map(|(likelihood, _, _)| likelihood.ask(|model| model.name())).collect();
    let expected = [
        "Gaussian",
        "Gaussian",
        "Gaussian with varying noise",
        "Student-t",
        "Student-t with varying scale",
        "log-normal",
        "power-normal",
        "power-normal",
        "Poisson",
        "negative binomial",
        "Gaussian",
        "Student-t with varying scale",
        "categorical",
    ];
    assert_eq!(names, expected);
    let own: Vec<bool> = all().iter().map(|(likelihood, _, _)| likelihood.has_own_units()).collect();
    let expected = [false, false, false, false, false, true, false, false, true, true, false, false, false];
    assert_eq!(own, expected, "counts and logs know their units");
}

/// The energy of its own parameters is −log p of them: gradients are differences, added to a scaled one.
#[test]
fn own_parameters_have_the_gradient_of_their_prior() {
    for (likelihood, _, _) in all() {
        let own: Vec<f32> = (0..likelihood.num_parameters()).map(|index| 0.7 - 0.2 * index as f32).collect();
        let mut gradient = vec![1.5f32; own.len()];
        likelihood.add_prior_energy_gradient(&own, 2.0, &mut gradient);
        for index in 0..own.len() {
            let at = |step: f32| {
                let mut moved = own.clone();
                moved[index] += step;
                likelihood.log_prior(&moved)
            };
            let slope = (at(1e-2) - at(-1e-2)) / 2e-2;
            assert!((f64::from(gradient[index]) - (3.0 - slope)).abs() < 1e-4, "{likelihood:?}: {gradient:?} {slope}");
        }
        if own.is_empty() {
            assert_eq!(likelihood.log_prior(&own), 0.0, "{likelihood:?}");
        }
        assert_eq!(likelihood.initial_parameters().len(), own.len(), "{likelihood:?}");
        assert!(likelihood.initial_parameters().iter().all(|value| *value == 0.0), "{likelihood:?}");
    }
}
