//! The predictive probabilities of a classifier, accumulated draw by draw at held-out points.

use std::num::NonZeroUsize;

use super::brier::BrierScore;
use super::calibration::ReliabilityDiagram;
use super::error::{PredictiveError, check_outputs, positive};
use super::log_mean_exp::LogMeanExp;
use super::model::{ByModel, PredictiveModel};
use super::scores::ClassificationScores;

/// The bins of the expected calibration error among the scores.
const NUM_ECE_BINS: NonZeroUsize = NonZeroUsize::new(10).unwrap();

/// p̂(k|x) = (1/S) Σ_s softmax(b z_s(x))_k, with b = 1 for the standard and b = β for the tempered model.
///
/// For each point it keeps running sums of what the scores need: the probabilities and the entropy under both
/// models, and the label's log density in log space, so that e⁻¹³⁰ and less survive.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassificationPredictive {
    labels: Vec<u32>,
    num_classes: usize,
    inverse_temperature: f64,
    num_draws: usize,
    sums: ByModel<Sums>,
}

/// Sums over draws under one model.
#[derive(Clone, Debug, PartialEq)]
struct Sums {
    probabilities: Vec<f64>,
    entropies: Vec<f64>,
    log_densities: Vec<LogMeanExp>,
}

impl ClassificationPredictive {
    /// An accumulator for these labels (from 0) among `num_classes`, at inverse temperature β.
    pub fn new(labels: &[u32], num_classes: usize, inverse_temperature: f64) -> Result<Self, PredictiveError> {
        let inverse_temperature = positive("the inverse temperature", inverse_temperature)?;
        if labels.is_empty() {
            return Err(PredictiveError::NoPoints);
        }
        if let Some(point) = labels.iter().position(|&label| label as usize >= num_classes) {
            return Err(PredictiveError::LabelOutOfRange { point, label: labels[point], num_classes });
        }
        let sums = ByModel::from_fn(|_| Sums {
            probabilities: vec![0.0; labels.len() * num_classes],
            entropies: vec![0.0; labels.len()],
            log_densities: vec![LogMeanExp::new(); labels.len()],
        });
        Ok(Self { labels: labels.to_vec(), num_classes, inverse_temperature, num_draws: 0, sums })
    }

    /// Counts one draw, given its logits, `num_classes` to a point; after an error nothing has changed.
    pub fn add_draw(&mut self, logits: &[f32]) -> Result<(), PredictiveError> {
        check_outputs(logits, self.num_draws, self.labels.len(), self.num_classes)?;
        self.num_draws += 1;
        for model in PredictiveModel::BOTH {
            self.sums.get_mut(model).add_draw(logits, &self.labels, model.power(self.inverse_temperature));
        }
        Ok(())
    }

    /// Counts the draws of another accumulator of the same points.
    ///
    /// # Errors
    /// Where it has other points.
    pub fn merge(&mut self, other: &Self) -> Result<(), PredictiveError> {
        if self.labels != other.labels || self.num_classes != other.num_classes {
            return Err(PredictiveError::OtherPoints);
        }
        self.num_draws += other.num_draws;
        for model in PredictiveModel::BOTH {
            let (mine, theirs) = (self.sums.get_mut(model), other.sums.get(model));
            mine.probabilities.iter_mut().zip(&theirs.probabilities).for_each(|(sum, more)| *sum += more);
            mine.entropies.iter_mut().zip(&theirs.entropies).for_each(|(sum, more)| *sum += more);
            mine.log_densities.iter_mut().zip(&theirs.log_densities).for_each(|(mean, more)| mean.merge(more));
        }
        Ok(())
    }

    /// The running sums, for [`ClassificationPredictive::restore`].
    pub fn state(&self) -> Vec<f64> {
        let mut state = vec![self.num_draws as f64];
        for model in PredictiveModel::BOTH {
            let Sums { probabilities, entropies, log_densities } = self.sums.get(model);
            state.extend(probabilities);
            state.extend(entropies);
            state.extend(log_densities.iter().flat_map(LogMeanExp::parts));
        }
        state
    }

    /// Takes on the running sums that an accumulator of the same points had; `None`, and nothing changed, where they do not fit.
    pub fn restore(&mut self, state: &[f64]) -> Option<()> {
        let num_points = self.labels.len();
        let (num_draws, sums) = state.split_first()?;
        let per_model = num_points * (self.num_classes + 1 + 3);
        if sums.len() != 2 * per_model {
            return None;
        }
        self.num_draws = *num_draws as usize;
        for (model, sums) in PredictiveModel::BOTH.into_iter().zip(sums.chunks_exact(per_model)) {
            let (probabilities, rest) = sums.split_at(num_points * self.num_classes);
            let (entropies, parts) = rest.split_at(num_points);
            let part = |parts: &[f64]| LogMeanExp::from_parts([parts[0], parts[1], parts[2]]);
            *self.sums.get_mut(model) = Sums {
                probabilities: probabilities.to_vec(),
                entropies: entropies.to_vec(),
                log_densities: parts.chunks_exact(3).map(part).collect(),
            };
        }
        Some(())
    }

    /// How many points are held out.
    pub fn num_points(&self) -> usize {
        self.labels.len()
    }

    /// How many classes there are.
    pub fn num_classes(&self) -> usize {
        self.num_classes
    }

    /// How many draws were counted.
    pub fn num_draws(&self) -> usize {
        self.num_draws
    }

    fn sums(&self, model: PredictiveModel) -> Result<&Sums, PredictiveError> {
        if self.num_draws == 0 { Err(PredictiveError::NoDraws) } else { Ok(self.sums.get(model)) }
    }

    fn over_draws(&self, sums: &[f64]) -> Vec<f64> {
        sums.iter().map(|sum| sum / self.num_draws as f64).collect()
    }

    /// The averaged probabilities p̂(k|x_i), row-major, `num_classes` to a point.
    pub fn probabilities(&self, model: PredictiveModel) -> Result<Vec<f64>, PredictiveError> {
        Ok(self.over_draws(&self.sums(model)?.probabilities))
    }

    /// log p̂(y_i|x_i) of every label.
    pub fn log_densities(&self, model: PredictiveModel) -> Result<Vec<f64>, PredictiveError> {
        let log_densities = &self.sums(model)?.log_densities;
        Ok(log_densities.iter().map(|mean| mean.value().unwrap_or(f64::NEG_INFINITY)).collect())
    }

    /// The most probable class of every point, the first of equals; the two models may disagree.
    pub fn predicted_classes(&self, model: PredictiveModel) -> Result<Vec<u32>, PredictiveError> {
        Ok(self.most_probable(&self.probabilities(model)?).into_iter().map(|(class, _)| class).collect())
    }

    /// The probability of the predicted class of every point.
    fn confidences(&self, model: PredictiveModel) -> Result<Vec<f64>, PredictiveError> {
        Ok(self.most_probable(&self.probabilities(model)?).into_iter().map(|(_, confidence)| confidence).collect())
    }

    /// The entropy in nats of the averaged probabilities of every point: total uncertainty.
    pub fn entropies(&self, model: PredictiveModel) -> Result<Vec<f64>, PredictiveError> {
        let entropy = |row: &[f64]| row.iter().filter(|&&p| p > 0.0).map(|p| -p * p.ln()).sum();
        Ok(self.probabilities(model)?.chunks_exact(self.num_classes).map(entropy).collect())
    }

    /// The mean over draws of each draw's entropy at every point: uncertainty that no draw removes.
    pub fn expected_entropies(&self, model: PredictiveModel) -> Result<Vec<f64>, PredictiveError> {
        Ok(self.over_draws(&self.sums(model)?.entropies))
    }

    /// Entropy − expected entropy at every point: the mutual information of label and parameters.
    pub fn mutual_informations(&self, model: PredictiveModel) -> Result<Vec<f64>, PredictiveError> {
        let (total, expected) = (self.entropies(model)?, self.expected_entropies(model)?);
        // Never negative but for rounding, which would be all there is with one draw.
        Ok(total.iter().zip(expected).map(|(total, expected)| (total - expected).max(0.0)).collect())
    }

    /// Accuracy against confidence in `num_bins` equal bins.
    pub fn reliability(
        &self,
        model: PredictiveModel,
        num_bins: NonZeroUsize,
    ) -> Result<ReliabilityDiagram, PredictiveError> {
        let (predicted, confidences): (Vec<u32>, Vec<f64>) =
            self.most_probable(&self.probabilities(model)?).into_iter().unzip();
        let correct: Vec<bool> = predicted.iter().zip(&self.labels).map(|(class, label)| class == label).collect();
        ReliabilityDiagram::new(&confidences, &correct, num_bins)
    }

    /// The Brier score with its parts.
    pub fn brier(&self, model: PredictiveModel) -> Result<BrierScore, PredictiveError> {
        let (probabilities, predicted) = (self.probabilities(model)?, self.predicted_classes(model)?);
        Ok(BrierScore::new(&probabilities, &predicted, &self.labels, self.num_classes))
    }

    /// The scores under one model.
    pub fn scores(&self, model: PredictiveModel) -> Result<ClassificationScores, PredictiveError> {
        let average = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let predicted = self.predicted_classes(model)?;
        let num_correct = predicted.iter().zip(&self.labels).filter(|(class, label)| class == label).count();
        let brier = self.brier(model)?;
        Ok(ClassificationScores {
            lpd: average(self.log_densities(model)?),
            accuracy: num_correct as f64 / self.labels.len() as f64,
            mean_confidence: average(self.confidences(model)?),
            ece: self.reliability(model, NUM_ECE_BINS)?.expected_calibration_error(),
            brier: brier.total,
            brier_uncertainty: brier.uncertainty,
            brier_resolution: brier.resolution,
            brier_reliability: brier.reliability,
            brier_remainder: brier.remainder,
            mean_entropy: average(self.entropies(model)?),
            mean_mutual_information: average(self.mutual_informations(model)?),
        })
    }

    /// The scores under both models.
    pub fn both_scores(&self) -> Result<ByModel<ClassificationScores>, PredictiveError> {
        Ok(ByModel {
            standard: self.scores(PredictiveModel::Standard)?,
            tempered: self.scores(PredictiveModel::Tempered)?,
        })
    }

    /// The most probable class of every row, with its probability.
    fn most_probable(&self, probabilities: &[f64]) -> Vec<(u32, f64)> {
        let first_largest = |row: &[f64]| {
            let start = (0, f64::NEG_INFINITY);
            row.iter().zip(0..).fold(start, |best, (&p, class)| if p > best.1 { (class, p) } else { best })
        };
        probabilities.chunks_exact(self.num_classes).map(first_largest).collect()
    }
}

impl Sums {
    /// Adds softmax(b z) of every point, its entropy, and its log at the label.
    fn add_draw(&mut self, logits: &[f32], labels: &[u32], power: f64) {
        let num_classes = logits.len() / labels.len();
        let rows = logits.chunks_exact(num_classes).zip(self.probabilities.chunks_exact_mut(num_classes));
        let mut log_probabilities = vec![0.0; num_classes];
        for (point, (logits, probabilities)) in rows.enumerate() {
            let largest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            for (log_probability, &logit) in log_probabilities.iter_mut().zip(logits) {
                *log_probability = power * (f64::from(logit) - largest);
            }
            let log_normaliser = log_probabilities.iter().map(|scaled| scaled.exp()).sum::<f64>().ln();
            for (sum, log_probability) in probabilities.iter_mut().zip(&mut log_probabilities) {
                *log_probability -= log_normaliser;
                let probability = log_probability.exp();
                *sum += probability;
                self.entropies[point] -= probability * *log_probability;
            }
            self.log_densities[point].add(log_probabilities[labels[point] as usize]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::distribution::Predictive;
    use super::*;

    const STANDARD: PredictiveModel = PredictiveModel::Standard;
    const TEMPERED: PredictiveModel = PredictiveModel::Tempered;

    fn close(found: f64, expected: f64) -> bool {
        (found - expected).abs() < 1e-7 // logits are f32
    }

    /// Logits log 3 and 0: softmax is (3/4, 1/4), and (9/10, 1/10) at β = 2.
    #[test]
    fn one_draw_is_the_point_estimate() {
        let mut predictive = ClassificationPredictive::new(&[0, 1], 2, 2.0).unwrap();
        predictive.add_draw(&[3f32.ln(), 0.0, 3f32.ln(), 0.0]).unwrap();
        let scores = predictive.both_scores().unwrap();
        assert!(close(scores.standard.lpd, 0.5 * (3f64 / 16.0).ln()) && close(scores.tempered.lpd, 0.5 * 0.09f64.ln()));
        assert!(close(scores.standard.mean_confidence, 0.75) && close(scores.tempered.mean_confidence, 0.9));
        assert!(close(scores.standard.ece, 0.25) && close(scores.tempered.ece, 0.4));
        assert!(close(scores.standard.brier, 0.5 * (0.125 + 1.125)));
        let entropy = -(0.75 * 0.75f64.ln() + 0.25 * 0.25f64.ln());
        assert!(close(scores.standard.mean_entropy, entropy));
        assert!(close(predictive.expected_entropies(STANDARD).unwrap()[1], entropy));
        assert!(scores.standard.mean_mutual_information < 1e-15);
        assert_eq!((scores.standard.accuracy, scores.tempered.accuracy), (0.5, 0.5));
    }

    /// Two weak votes for class 1 and one strong for class 0: mean probabilities (.602, .398) at β = 1, but at β = 10
    /// each vote is nearly whole and class 1 wins two to one.
    #[test]
    fn the_two_models_may_disagree_on_the_class() {
        let mut predictive = ClassificationPredictive::new(&[0], 2, 10.0).unwrap();
        for logits in [[0.0, 0.3], [0.0, 0.3], [3.0, 0.0]] {
            predictive.add_draw(&logits).unwrap();
        }
        assert_eq!(predictive.predicted_classes(STANDARD).unwrap(), [0]);
        assert_eq!(predictive.predicted_classes(TEMPERED).unwrap(), [1]);
        assert_eq!(predictive.scores(STANDARD).unwrap().accuracy, 1.0);
    }

    #[test]
    fn of_equal_classes_the_first_is_predicted() {
        let mut predictive = ClassificationPredictive::new(&[1, 1], 3, 1.0).unwrap();
        predictive.add_draw(&[0.0, 2.0, 2.0, 1.0, 1.0, 1.0]).unwrap();
        assert_eq!(predictive.predicted_classes(STANDARD).unwrap(), [1, 0]);
        assert_eq!(predictive.scores(STANDARD).unwrap().accuracy, 0.5);
    }

    #[test]
    fn disagreeing_draws_have_mutual_information() {
        let mut predictive = ClassificationPredictive::new(&[0], 2, 1.0).unwrap();
        predictive.add_draw(&[1000.0, 0.0]).unwrap();
        predictive.add_draw(&[0.0, 1000.0]).unwrap();
        assert_eq!(predictive.probabilities(STANDARD).unwrap(), [0.5, 0.5]);
        assert_eq!(predictive.expected_entropies(STANDARD).unwrap(), [0.0]);
        assert!((predictive.mutual_informations(STANDARD).unwrap()[0] - 2f64.ln()).abs() < 1e-15);
    }

    #[test]
    fn draws_may_be_counted_apart_stored_and_put_together() {
        let draws = [[0.5, 0.0, 1.0, 3.0], [0.0, 0.3, -1.0, 0.0], [3.0, 0.0, 0.0, 0.25]];
        let empty = ClassificationPredictive::new(&[0, 1], 2, 10.0).unwrap();
        let mut straight = empty.clone();
        draws.iter().for_each(|logits| straight.add_draw(logits).unwrap());
        let mut resumed = empty.clone();
        for logits in &draws {
            let state = resumed.state();
            resumed = empty.clone();
            resumed.restore(&state).unwrap();
            resumed.add_draw(logits).unwrap();
        }
        assert_eq!(resumed, straight);
        assert!(resumed.restore(&[1.0; 5]).is_none() && resumed == straight);
        let mut parts = [empty.clone(), empty];
        parts[0].add_draw(&draws[0]).unwrap();
        parts[1].add_draw(&draws[1]).unwrap();
        parts[1].add_draw(&draws[2]).unwrap();
        let [mut merged, second] = parts;
        merged.merge(&second).unwrap();
        for model in PredictiveModel::BOTH {
            assert!((merged.scores(model).unwrap().lpd - straight.scores(model).unwrap().lpd).abs() < 1e-14);
            assert!((merged.scores(model).unwrap().brier - straight.scores(model).unwrap().brier).abs() < 1e-14);
        }
        let other = ClassificationPredictive::new(&[1, 1], 2, 10.0).unwrap();
        assert_eq!(straight.merge(&other), Err(PredictiveError::OtherPoints));
    }

    #[test]
    fn a_surely_wrong_point_keeps_a_finite_density() {
        let mut predictive = ClassificationPredictive::new(&[1], 2, 100.0).unwrap();
        predictive.add_draw(&[130.0, 0.0]).unwrap();
        predictive.add_draw(&[3000.0, 0.0]).unwrap();
        assert!((predictive.log_densities(STANDARD).unwrap()[0] - (-130.0 - 2f64.ln())).abs() < 1e-12);
        assert!((predictive.log_densities(TEMPERED).unwrap()[0] - (-13000.0 - 2f64.ln())).abs() < 1e-9);
    }

    #[test]
    fn a_refused_draw_changes_nothing() {
        let mut predictive = ClassificationPredictive::new(&[0, 1], 3, 1.0).unwrap();
        assert_eq!(predictive.scores(TEMPERED), Err(PredictiveError::NoDraws));
        let before = predictive.clone();
        let short = predictive.add_draw(&[0.0; 5]);
        assert!(matches!(short, Err(PredictiveError::WrongLength { draw: 0, outputs_per_point: 3, .. })));
        let broken = predictive.add_draw(&[0.0, 0.0, 0.0, 0.0, f32::NAN, 0.0]);
        assert!(matches!(broken, Err(PredictiveError::NonFiniteOutput { draw: 0, point: 1, output: 1, .. })));
        assert_eq!(predictive, before);
    }

    #[test]
    fn bad_settings_are_refused() {
        let error = ClassificationPredictive::new(&[0, 3], 3, 1.0).unwrap_err();
        assert_eq!(error.to_string(), "point 1 has label 3, but with 3 classes labels run from 0 to below 3");
        assert_eq!(ClassificationPredictive::new(&[], 3, 1.0), Err(PredictiveError::NoPoints));
        assert!(ClassificationPredictive::new(&[0], 3, -1.0).is_err());
    }

    proptest! {
        #[test]
        fn probabilities_sum_to_one_and_explain_the_densities(
            draws in prop::collection::vec(prop::collection::vec(-30.0..30.0f32, 12), 1..6),
            labels in prop::collection::vec(0..4u32, 3), inverse_temperature in 0.05..20.0f64,
        ) {
            let mut predictive = ClassificationPredictive::new(&labels, 4, inverse_temperature).unwrap();
            for logits in &draws {
                predictive.add_draw(logits).unwrap();
            }
            for model in PredictiveModel::BOTH {
                let probabilities = predictive.probabilities(model).unwrap();
                let log_densities = predictive.log_densities(model).unwrap();
                for (point, row) in probabilities.chunks_exact(4).enumerate() {
                    prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
                    prop_assert!((row[labels[point] as usize] - log_densities[point].exp()).abs() < 1e-12);
                }
                let scores = predictive.scores(model).unwrap();
                let parts = scores.brier_uncertainty - scores.brier_resolution + scores.brier_reliability
                    + scores.brier_remainder;
                prop_assert!((scores.brier - parts).abs() < 1e-12);
            }
        }
    }

    /// Chains that are counted apart and put together, or stored on the way, are those counted at once.
    #[test]
    fn parts_merge_to_the_whole() {
        let draws = [[0.0, 0.3, 1.0, 2.0, -1.0, 0.5], [1.0, 0.3, -1.0, 0.2, 0.1, 0.0], [3.0, 0.0, 0.5, -2.0, 1.0, 1.5]];
        let empty = || ClassificationPredictive::new(&[0, 2], 3, 4.0).unwrap();
        let of = |draws: &[[f32; 6]]| {
            let mut found = empty();
            draws.iter().for_each(|draw| found.add_draw(draw).unwrap());
            found
        };
        let whole = of(&draws);
        assert_eq!((whole.num_points(), whole.num_classes(), whole.num_draws()), (2, 3, 3));
        let mut merged = Predictive::Classification(of(&draws[..2]));
        merged.merge(&Predictive::Classification(of(&draws[2..]))).unwrap();
        let Predictive::Classification(merged) = merged else { panic!("classes") };
        assert!(merged.state().iter().zip(whole.state()).all(|(a, b)| (a - b).abs() < 1e-12), "{merged:?}");
        let mut restored = empty();
        restored.restore(&whole.state()).unwrap();
        assert_eq!(restored.state(), whole.state());
        let state = whole.state();
        assert!(empty().restore(&state[1..]).is_none() && empty().restore(&[]).is_none());
    }

    /// A probability that rounds to zero adds nothing.
    #[test]
    fn a_class_that_cannot_be_leaves_the_entropy_finite() {
        let mut predictive = ClassificationPredictive::new(&[0], 3, 2.0).unwrap();
        predictive.add_draw(&[0.0, 0.0, -4000.0]).unwrap();
        for model in PredictiveModel::BOTH {
            assert_eq!(predictive.probabilities(model).unwrap()[2], 0.0);
            assert!((predictive.entropies(model).unwrap()[0] - std::f64::consts::LN_2).abs() < 1e-12, "{model:?}");
        }
    }
}
