//! Generalized-Bayes selectors on logistic models, where each has a closed form, a limit or an integral.

use crate::support::given::{Given, logistic, normals};
use kelvin::data::{Examples, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::Network;
use kelvin::predictive::PredictiveModel;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::selection::{
    BootstrapSpreadSelector, CredibleCoverageSelector, EvidenceSelector, PredictionCoverageSelector, SafeBayesSelector,
};
use kelvin::temperature::Tempering;

#[test]
fn a_well_specified_logistic_model_needs_no_temperature() {
    let given = logistic(2000, 1, Tempering::Posterior);
    let spread = given.select(&BootstrapSpreadSelector);
    assert!((spread - 1.0).abs() < 0.03, "{spread}");
    // Sets of the 5 % farthest of 400 samples: a quantile known to some 15 %.
    let credible = logistic(600, 1, Tempering::Posterior).select(&CredibleCoverageSelector::default());
    assert!((credible - 1.0).abs() < 0.3, "{credible}");
    let sets = PredictionCoverageSelector { model: PredictiveModel::Tempered, ..Default::default() };
    let prediction = logistic(600, 1, Tempering::Posterior).select(&sets);
    assert!(prediction.ln().abs() < 0.4, "{prediction}");
    for tempering in [Tempering::Posterior, Tempering::Likelihood] {
        let few = logistic(200, 1, tempering);
        assert_eq!(few.select(&SafeBayesSelector::default()), 1.0, "{tempering:?}");
    }
    // Copies of rows look like rows: the bootstrap cannot know that they tell nothing new.
    let copied = logistic(1000, 4, Tempering::Posterior).select(&BootstrapSpreadSelector);
    let plain = logistic(1000, 1, Tempering::Posterior).select(&BootstrapSpreadSelector);
    assert!((copied / plain - 1.0).abs() < 0.01, "{copied} {plain}");
}

/// x = −1, 0, 1 equally often, P(1) = 0.9, 0.3, 0.9: the best line is flat at 0.7, so that by hand J = 0.21 diag(1, 2/3),
/// I = diag(0.21, 0.13 · 2/3), with 0.13 = 0.9 · 0.1 + 0.2², and β = (0.21 + 0.14²/0.0867)/0.35.
#[test]
fn the_bootstrap_of_a_wrong_logistic_model_has_its_closed_form() {
    let (mut inputs, mut labels) = (Vec::new(), Vec::new());
    for (x, ones) in [(-1.0f32, 90), (0.0, 30), (1.0, 90)] {
        inputs.extend([x; 100]);
        labels.extend((0..100).map(|row| u32::from(row < ones)));
    }
    let train = Examples { inputs: inputs.into(), num_features: 1, targets: Targets::Classes(labels) };
    let given = Given { train, prior_variance: 1e6, ..logistic(10, 1, Tempering::Posterior) };
    let expected = (0.21 + 0.14f64.powi(2) / (0.13 * 2.0 / 3.0)) / 0.35;
    let found = given.select(&BootstrapSpreadSelector);
    assert!((found / expected - 1.0).abs() < 1e-5, "{found} {expected}");
}

/// Spreads of three classes: with every logit's weights drawn from the prior, three classes are three, not two and a shadow.
#[test]
fn three_classes_have_two_directions_each() {
    let inputs = normals(5, 0, 3000);
    let key = NoiseKey { seed: 5, purpose: Purpose::Synthetic, chain: 1, step: 0 };
    let label = |(row, x): (usize, &f32)| {
        let weights = [1.0, (0.8 * f64::from(*x)).exp(), (-0.5 - 0.6 * f64::from(*x)).exp()];
        let mut left = key.uniform(row as u32) * weights.iter().sum::<f64>();
        weights
            .iter()
            .take_while(|weight| {
                left -= *weight;
                left > 0.0
            })
            .count() as u32
    };
    let labels = inputs.iter().enumerate().map(label).collect();
    let train = Examples { inputs: inputs.into(), num_features: 1, targets: Targets::Classes(labels) };
    let given = Given {
        network: Network::dense(1, &[], 3).unwrap(),
        likelihood: Likelihood::Categorical { num_classes: 3 },
        train,
        ..logistic(10, 1, Tempering::Posterior)
    };
    // 3 logits × (weight, bias) less what softmax does not feel: I would be singular with all six.
    let spread = given.select(&BootstrapSpreadSelector);
    assert!((spread - 1.0).abs() < 0.04, "{spread}");
}

/// The evidence of a logistic model by summing over a lattice of its two parameters.
#[test]
fn evidence_of_a_logistic_model_agrees_with_numerical_integration() {
    for tempering in [Tempering::Posterior, Tempering::Likelihood] {
        let given = Given { prior_variance: 0.3, ..logistic(80, 1, tempering) };
        let Targets::Classes(labels) = &given.train.targets else { panic!("classes") };
        let rows: Vec<(f64, f64)> = given
            .train
            .inputs
            .numbers()
            .iter()
            .zip(labels)
            .map(|(&x, &label)| (f64::from(x), if label == 0 { 1.0 } else { -1.0 }))
            .collect();
        // The difference of two logits' parameters has twice their variance; the rest integrates to 1.
        let log_evidence = |log_beta: f64| {
            let beta = log_beta.exp();
            let variance = 2.0 * 0.3 / if tempering == Tempering::Posterior { beta } else { 1.0 };
            let reach = 7.0 * variance.sqrt();
            let lattice = |step: i32| reach * (f64::from(step) + 0.5) / 60.0;
            let (mut sum, mut largest) = (0.0, f64::NEG_INFINITY);
            for i in -60..60 {
                for j in -60..60 {
                    let (weight, bias) = (lattice(i), lattice(j));
                    let likelihood: f64 =
                        rows.iter().map(|(x, sign)| -(-sign * beta * (weight * x + bias)).exp().ln_1p()).sum();
                    let prior =
                        -(weight * weight + bias * bias) / (2.0 * variance) - (std::f64::consts::TAU * variance).ln();
                    let value: f64 = likelihood + prior;
                    if value > largest {
                        sum *= (largest - value).exp();
                        largest = value;
                    }
                    sum += (value - largest).exp();
                }
            }
            largest + (sum * (reach / 60.0).powi(2)).ln()
        };
        let values: Vec<(f64, f64)> = (0..12).map(|i| 0.2 * f64::from(i) - 0.4).map(|s| (log_evidence(s), s)).collect();
        let best = (1..11).max_by(|&a, &b| values[a].0.total_cmp(&values[b].0)).unwrap();
        let [low, at, high] = [best - 1, best, best + 1].map(|i| values[i].0);
        assert!(at > low && at > high, "{tempering:?} {values:?}");
        let expected = (values[best].1 + 0.1 * (high - low) / (2.0 * at - low - high)).exp();
        let found = given.select(&EvidenceSelector);
        assert!((found / expected - 1.0).abs() < 0.05, "{tempering:?}: {found} {expected}");
    }
}
