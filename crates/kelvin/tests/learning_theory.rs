//! Learning theory on a regular linear model, sampled exactly: λ and ν are d/2, and WAIC is the loss on new rows.

use crate::support::conjugate::{ConjugateLaboratory, LinearProblem};
use kelvin::diagnostics::{LearningTheory, predicted_lpd};
use kelvin::exact::Objective;
use kelvin::held_out::HeldOut;
use kelvin::selection::{HeldOutDraws, Laboratory, SampledStart};

const NUM_ROWS: usize = 1500;
const HALF_THE_PARAMETERS: f64 = 2.0;

/// Draws at β, seen by the training rows.
fn theory(laboratory: &ConjugateLaboratory<'_>, train: &HeldOut, beta: f64) -> LearningTheory {
    let draws = laboratory.sample(&[beta]).unwrap().remove(0);
    HeldOutDraws::new(laboratory, train, beta, SampledStart::draws_of(&draws)).unwrap().learning_theory().unwrap()
}

fn within(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() < tolerance, "{found} instead of {expected}");
}

#[test]
fn a_regular_model_has_half_its_parameters() {
    let mut problem = LinearProblem::new(2, 3, [NUM_ROWS, 5000], 0.2, 0.2);
    problem.prior_variance = 1e4;
    let laboratory = ConjugateLaboratory::new(&problem, 2, 1500);
    let train = HeldOut::new(&problem.network(), &problem.train);
    let exact = problem.exact();
    let (inputs, targets) = problem.design(&problem.train);
    let log_density = |(x, y): (&[f64], &f64)| {
        let residual = y - x.iter().zip(exact.mean()).map(|(a, b)| a * b).sum::<f64>();
        -0.5 * (std::f64::consts::TAU * 0.2).ln() - residual * residual / 0.4
    };
    let least_loss = -inputs.chunks_exact(4).zip(&targets).map(log_density).sum::<f64>() / NUM_ROWS as f64;

    let (bayes, warm) = (theory(&laboratory, &train, 1.0), theory(&laboratory, &train, 0.25));
    for found in [bayes, warm] {
        // Errors: 3.7 % of ν from the residuals, 2 % of λ from the draws.
        within(found.singular_fluctuation(), HALF_THE_PARAMETERS, 0.15);
        within(found.learning_coefficient(least_loss), HALF_THE_PARAMETERS, 0.1);
    }
    within(bayes.learning_coefficient_between(&warm), HALF_THE_PARAMETERS, 0.1);

    // The loss on new rows; both means have errors of √(½/n).
    let (inputs, targets) = problem.design(&problem.validation);
    let error = 4.0 * (0.5 / NUM_ROWS as f64 + 0.5 / 5000.0).sqrt();
    for found in [bayes, warm] {
        let beta = found.inverse_temperature;
        let lpd = exact.mean_log_density(Objective::StandardModel, &inputs, &targets, beta).unwrap();
        assert!((found.waic() + lpd).abs() < error, "{} {lpd}", found.waic());
        let predicted = predicted_lpd(
            found.offset(HALF_THE_PARAMETERS),
            HALF_THE_PARAMETERS,
            found.singular_fluctuation(),
            beta,
            NUM_ROWS,
        );
        assert!((predicted - lpd).abs() < error);
    }
    // To first order temperature does not matter in such a model.
    assert!((bayes.waic() - warm.waic()).abs() < 0.01);
}
