//! Generalized-Bayes selectors on linear regressions, where each has a closed form or a limit; and what they refuse.
//! `small_models.rs` has networks, `logistic_models.rs` classes.

use crate::support::conjugate::{ConjugateLaboratory, LinearProblem, normals};
use kelvin::data::{Examples, Targets};
use kelvin::predictive::PredictiveModel;
use kelvin::sampler::Silent;
use kelvin::selection::{
    BootstrapSpreadSelector, CredibleCoverageSelector, EvidenceSelector, Goal, InformationGainSelector,
    PredictionCoverageSelector, SafeBayesSelector, SafeLoss, SelectionError, Selector,
};
use kelvin_study::experiment::{Experiment, ExperimentLaboratory};
use kelvin_study::problem::Problem;
use kelvin_study::settings::preset;

/// Noise of variance 0.15 where the model says 0.05: β = 1/3 makes up for it.
fn noisier_than_believed() -> LinearProblem {
    LinearProblem::new(5, 3, [400, 10], 0.15, 0.05)
}

/// σ² n / SSE, the ratio of believed to found noise.
fn ratio(problem: &LinearProblem) -> f64 {
    let exact = problem.exact();
    let (inputs, targets) = problem.design(&problem.train);
    let residual = |(x, y): (&[f64], &f64)| (y - x.iter().zip(exact.mean()).map(|(a, b)| a * b).sum::<f64>()).powi(2);
    let squares: f64 = inputs.chunks_exact(problem.num_features + 1).zip(&targets).map(residual).sum();
    problem.noise_variance * targets.len() as f64 / squares
}

fn select(selector: &dyn Selector, problem: &LinearProblem) -> f64 {
    let selection = selector.select(&ConjugateLaboratory::new(problem, 1, 1)).unwrap();
    assert!(!selection.goal.serves_lpd() && selection.cost.row_gradients > 0.0);
    selection.inverse_temperature
}

#[test]
fn methods_that_match_spread_or_coverage_find_the_ratio_of_variances() {
    let problem = noisier_than_believed();
    let expected = ratio(&problem);
    assert!((expected - 1.0 / 3.0).abs() < 0.1, "{expected}");
    // Bootstraps have errors of their own: a few percent, and more for tail quantiles.
    let spread = select(&BootstrapSpreadSelector, &problem);
    assert!((spread / expected - 1.0).abs() < 0.1, "{spread} {expected}");
    let credible = select(&CredibleCoverageSelector::default(), &problem);
    assert!((credible / expected - 1.0).abs() < 0.25, "{credible} {expected}");
    let tempered = PredictionCoverageSelector { model: PredictiveModel::Tempered, ..Default::default() };
    let prediction = select(&tempered, &problem);
    assert!((prediction / expected - 1.0).abs() < 0.2, "{prediction} {expected}");
}

/// With one feature that is always 1, all rows have the leverage 1/n: σ²(1 + 1/(nβ)) = τ² for the SM.
#[test]
fn prediction_intervals_of_the_standard_model_need_a_far_warmer_posterior() {
    let mut problem = noisier_than_believed();
    // The inputs are all zero; what is left is the bias.
    let count = problem.train.len();
    let targets = normals(9, 0, count).iter().map(|noise| (0.5 + 0.15f64.sqrt() * noise) as f32).collect();
    problem.train = Examples {
        inputs: vec![0.0; count * problem.num_features].into(),
        num_features: problem.num_features,
        targets: Targets::Real(targets),
    };
    let found = select(&PredictionCoverageSelector::default(), &problem);
    let variance = problem.noise_variance / ratio(&problem);
    let expected = problem.noise_variance / (variance - problem.noise_variance) / count as f64;
    assert!((found / expected).ln().abs() < 0.4, "{found} {expected}");
    // A model that is too wide as it is has no such β.
    problem.noise_variance = 1.0;
    let refused = PredictionCoverageSelector::default().select(&ConjugateLaboratory::new(&problem, 1, 1)).unwrap_err();
    assert!(matches!(refused, SelectionError::NothingFound { .. }), "{refused}");
}

#[test]
fn information_gain_has_its_closed_form_and_limits() {
    let mut problem = noisier_than_believed();
    let found = select(&InformationGainSelector, &problem);
    let exact = problem.exact();
    let (inputs, targets) = problem.design(&problem.train);
    let (mut expected, mut observed) = (0.0, 0.0);
    for (x, y) in inputs.chunks_exact(4).zip(&targets) {
        let (size, mean): (f64, f64) =
            (x.iter().map(|a| a * a).sum(), x.iter().zip(exact.mean()).map(|(a, b)| a * b).sum());
        expected += size * (mean * mean + 0.05 + size);
        observed += size * (y * y + size);
    }
    assert!((found - (expected / observed).sqrt()).abs() < 1e-12);
    // A wide prior drowns what tells right models from wrong ones.
    problem.prior_variance = 1e6;
    assert!((select(&InformationGainSelector, &problem) - 1.0).abs() < 1e-4);
    // A prior that is sure of 0 leaves √(σ²/mean y²) of pure noise.
    problem.prior_variance = 1e-9;
    let noise = normals(3, 0, 400);
    let square = noise.iter().map(|e| 0.15 * e * e).sum::<f64>() / 400.0;
    problem.train = Examples {
        inputs: vec![0.0; 1200].into(),
        num_features: 3,
        targets: Targets::Real(noise.iter().map(|e| (0.15f64.sqrt() * e) as f32).collect()),
    };
    let found = select(&InformationGainSelector, &problem);
    assert!((found / (0.05 / square).sqrt() - 1.0).abs() < 1e-3, "{found}");
}

#[test]
fn safe_bayes_minimises_the_loss_of_what_comes_next() {
    let problem = LinearProblem::new(8, 2, [25, 5], 0.6, 0.05);
    let (inputs, targets) = problem.design(&problem.train);
    for loss in [SafeLoss::Randomised, SafeLoss::InModel] {
        let found = select(&SafeBayesSelector { loss }, &problem);
        // The same by prefixes of the data, with covariances written out.
        let cumulative = |beta: f64| -> f64 {
            let next = |row: usize| {
                let fit =
                    kelvin::exact::LinearRegression::new(&inputs[..row * 3], &targets[..row], 3, 0.05, 1.0).unwrap();
                let x = &inputs[row * 3..row * 3 + 3];
                let mean: f64 = x.iter().zip(fit.mean()).map(|(a, b)| a * b).sum();
                let covariance = fit.posterior_covariance(beta);
                let spread: f64 = (0..9).map(|at| x[at / 3] * covariance[at] * x[at % 3]).sum();
                (targets[row] - mean).powi(2) + if loss == SafeLoss::Randomised { spread } else { 0.0 }
            };
            (0..targets.len()).map(next).sum()
        };
        let grid = (0..=12).map(|step| 0.5f64.powf(0.5 * f64::from(step)));
        let best = grid.min_by(|&a, &b| cumulative(a).total_cmp(&cumulative(b))).unwrap();
        assert_eq!(found, best, "{loss:?}");
    }
    // With posterior tempering the mean does not move with β, so that the spread alone counts: the largest rate.
    assert_eq!(select(&SafeBayesSelector::default(), &problem), 1.0);
}

#[test]
fn too_few_rows_are_refused_with_the_reason() {
    let few = LinearProblem::new(5, 3, [4, 4], 0.15, 0.05);
    let refused = BootstrapSpreadSelector.select(&ConjugateLaboratory::new(&few, 1, 1)).unwrap_err().to_string();
    assert!(refused.contains("4 parameters cannot be told from 4 rows"), "{refused}");
}

/// n / (yᵀK⁻¹y) = n σ² / (SSE + σ²‖θ̂‖²/σ_p²), here with σ² = σ_p².
#[test]
fn evidence_is_exact_for_a_linear_network() {
    let mut settings = preset("concrete").unwrap().settings();
    settings.model.hidden = None;
    settings.model.layers = Some(vec![kelvin::network::Layer::Dense { units: 1 }]);
    settings.model.noise_variance = 0.1;
    let problem = Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap();
    let (Targets::Real(targets), inputs) = (&problem.train.targets, problem.train.inputs.numbers()) else {
        panic!("numbers")
    };
    let design: Vec<f64> = inputs
        .chunks_exact(8)
        .flat_map(|row| row.iter().map(|&x| f64::from(x)).chain([1.0]).collect::<Vec<_>>())
        .collect();
    let answers: Vec<f64> = targets.iter().map(|&y| f64::from(y)).collect();
    let exact = kelvin::exact::LinearRegression::new(&design, &answers, 9, 0.1, 0.1).unwrap();
    let residual = |(x, y): (&[f64], &f64)| (y - x.iter().zip(exact.mean()).map(|(a, b)| a * b).sum::<f64>()).powi(2);
    let squares: f64 = design.chunks_exact(9).zip(&answers).map(residual).sum();
    let size: f64 = exact.mean().iter().map(|theta| theta * theta).sum();
    let expected = 0.1 * answers.len() as f64 / (squares + size);
    let experiment = Experiment::new(problem, settings).unwrap();
    let selection = EvidenceSelector.select(&ExperimentLaboratory::new(&experiment, 1, &Silent)).unwrap();
    assert_eq!(selection.goal, Goal::Evidence);
    let found = selection.inverse_temperature;
    assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");
}
