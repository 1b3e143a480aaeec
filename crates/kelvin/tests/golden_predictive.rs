//! Golden: predictive densities and scores agree with the reference vectors of an independent JAX implementation.

use crate::support::Golden;
use kelvin::predictive::{ClassificationPredictive, PredictiveModel, RegressionPredictive};

const FILE: &str = "predictive.safetensors";
const MODELS: [(&str, PredictiveModel); 2] = [("sm", PredictiveModel::Standard), ("tm", PredictiveModel::Tempered)];

/// Every number by itself within 1e-5 of its size, so that an outlier's density cannot hide the others.
fn assert_each_close(golden: &Golden, name: &str, found: &[f64]) {
    let expected = golden.f64s(name);
    assert_eq!(found.len(), expected.len(), "{name}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs();
        assert!(error <= 1e-5 * expected.abs() + 1e-12, "{name}[{index}]: {found} instead of {expected}");
    }
}

#[test]
fn regression() {
    let Some(golden) = Golden::open(FILE) else { return };
    let num_points = golden.shape("regression.mu")[1];
    let mut predictive = RegressionPredictive::new(
        &golden.f32s("regression.y"),
        golden.scalar("regression.sigma2"),
        golden.scalar("beta"),
    )
    .unwrap();
    for means in golden.f32s("regression.mu").chunks_exact(num_points) {
        predictive.add_draw(means).unwrap();
    }
    assert_eq!(predictive.num_draws(), golden.shape("regression.mu")[0]);

    assert_each_close(&golden, "expected.regression.mean", &predictive.means().unwrap());
    for (prefix, model) in MODELS {
        let name = |array: &str| format!("expected.regression.{prefix}.{array}");
        let scores = predictive.scores(model).unwrap();
        assert_each_close(&golden, "expected.regression.mse", &[scores.mse]);
        assert_each_close(&golden, &name("log_density"), &predictive.log_densities(model).unwrap());
        assert_each_close(&golden, &name("lpd"), &[scores.lpd]);
        assert_each_close(&golden, &name("variance"), &predictive.variances(model).unwrap());
    }
}

#[test]
fn classification() {
    let Some(golden) = Golden::open(FILE) else { return };
    let [num_draws, num_points, num_classes] = golden.shape("classification.logits")[..] else {
        panic!("logits must have three axes")
    };
    let labels: Vec<u32> = golden.indices("classification.labels").into_iter().map(|label| label as u32).collect();
    let mut predictive = ClassificationPredictive::new(&labels, num_classes, golden.scalar("beta")).unwrap();
    for logits in golden.f32s("classification.logits").chunks_exact(num_points * num_classes) {
        predictive.add_draw(logits).unwrap();
    }
    assert_eq!(predictive.num_draws(), num_draws);

    for (prefix, model) in MODELS {
        let name = |array: &str| format!("expected.classification.{prefix}.{array}");
        let per_point = [
            ("probabilities", predictive.probabilities(model)),
            ("log_density", predictive.log_densities(model)),
            ("entropy", predictive.entropies(model)),
            ("expected_entropy", predictive.expected_entropies(model)),
            ("mutual_information", predictive.mutual_informations(model)),
        ];
        for (array, found) in per_point {
            assert_each_close(&golden, &name(array), &found.unwrap());
        }
        let scores = predictive.scores(model).unwrap();
        for (array, found) in [
            ("lpd", scores.lpd),
            ("ece", scores.ece),
            ("brier", scores.brier),
            ("brier_uncertainty", scores.brier_uncertainty),
            ("brier_resolution", scores.brier_resolution),
            ("brier_reliability", scores.brier_reliability),
            ("brier_remainder", scores.brier_remainder),
            ("mean_entropy", scores.mean_entropy),
        ] {
            assert_each_close(&golden, &name(array), &[found]);
        }
        let predicted: Vec<usize> =
            predictive.predicted_classes(model).unwrap().into_iter().map(|class| class as usize).collect();
        assert_eq!(predicted, golden.indices(&name("predicted_class")));
        assert_eq!(scores.accuracy, golden.scalar(&name("accuracy")));
    }
}
