//! Last-layer Laplace: the network that the search found, with a Gaussian over the weights and biases of its last layer.
//!
//! ```text
//! θ_L ~ N(θ̂_L, A⁻¹),   A = Σ_rows Hᵢ ⊗ φᵢφᵢᵀ + λ I
//! numbers   Hᵢ = diag(β/σ²)                  the curvature of −log p(y|x,θ,β) in the output
//! classes   Hᵢ = β² (diag(pᵢ) − pᵢpᵢᵀ),  pᵢ = softmax(β outputs)
//! ```
//! φ are the inputs of the last layer with a 1 behind them, found as differences of outputs, which are linear in its weights. λ is the best of a grid
//! at the validation rows, by the LPD of the tempered model at the β of the search. (MacKay 1992; Daxberger et al., NeurIPS 2021.)

use kelvin::data::Examples;
use kelvin::draws::Draws;
use kelvin::exact::Cholesky;
use kelvin::likelihood::{Likelihood, TargetKind};
use kelvin::network::{Layer, Role, Weights};
use kelvin::random::{NoiseKey, Purpose};
use kelvin::selection::JointChoice;

use crate::error::ExperimentError;
use crate::experiment::baselines::{NUM_DRAWS, unmeasured};
use crate::experiment::prepared::Experiment;

/// Precisions λ that are tried.
const PRECISIONS: [f64; 7] = [1e-2, 1e-1, 1.0, 10.0, 100.0, 1e3, 1e4];
/// Parameters of the largest last layer: its curvature is a matrix of so many rows and columns.
const MOST_PARAMETERS: usize = 700;
/// More rows than these are thinned, and count for those left out.
const MOST_ROWS: usize = 2000;

/// Where the weights of the last layer lie in θ; those of a skip beside the hidden layers belong to it.
struct LastLayer {
    /// For each feature the place of its weight for the first output, those for the others behind it. The last is the 1.
    places: Vec<usize>,
    num_outputs: usize,
}

impl LastLayer {
    /// Of a network that ends in a dense layer with biases, or in the sum of two.
    fn of(experiment: &Experiment) -> Option<Self> {
        let network = &experiment.problem.network;
        let (layout, num_outputs) = (network.layout(), network.num_outputs());
        let num_kernels = if matches!(network.layers().last(), Some(Layer::Residual { .. })) { 2 } else { 1 };
        let tensors = layout.tensors();
        let kernels = tensors.iter().rev().filter(|tensor| tensor.role == Role::Kernel).take(num_kernels);
        let mut places = Vec::new();
        for kernel in kernels {
            if kernel.shape != [kernel.range.len() / num_outputs, num_outputs] {
                return None;
            }
            places.extend(kernel.range.clone().step_by(num_outputs));
        }
        let bias = tensors.last().filter(|tensor| tensor.role == Role::Bias && tensor.range.len() == num_outputs)?;
        places.push(bias.range.start);
        (places.len() * num_outputs <= MOST_PARAMETERS).then_some(Self { places, num_outputs })
    }

    fn num_features(&self) -> usize {
        self.places.len()
    }

    fn num_parameters(&self) -> usize {
        self.num_features() * self.num_outputs
    }

    /// The place in θ of the weight of a feature for an output.
    fn place(&self, feature: usize, output: usize) -> usize {
        self.places[feature] + output
    }
}

impl Experiment {
    /// Draws of the network with a Gaussian over its last layer; none where the likelihood or the network does not suit.
    ///
    /// # Errors
    /// If the engine fails.
    pub(super) fn last_layer_draws(&self, choice: &JointChoice) -> Result<Option<Draws>, ExperimentError> {
        let (Some(layer), Some(curvature)) = (LastLayer::of(self), Curvature::of(self, choice)) else {
            return Ok(None);
        };
        let every = self.problem.train.len().div_ceil(MOST_ROWS);
        let rows: Vec<u32> = (0..self.problem.train.len() as u32).step_by(every).collect();
        let stands_for = self.problem.train.len() as f64 / rows.len() as f64;
        let weight =
            |&row: &u32| self.problem.row_weights.as_ref().map_or(1.0, |weights| f64::from(weights[row as usize]));
        let weights: Vec<f64> = rows.iter().map(|row| stands_for * weight(row)).collect();
        let rows = self.problem.train.these(&rows);
        let features = self.last_layer_features(&layer, choice, &rows)?;
        let outputs = self.outputs_at(&rows, &choice.position, choice)?;
        let matrix = curvature.sum(&layer, &features, &outputs, &weights);
        let mut best: Option<(f64, Draws)> = None;
        for precision in PRECISIONS {
            let Some(draws) = self.draws_around(&layer, choice, &matrix, precision)? else { continue };
            let lpd = self.predictive(&self.validation, choice.inverse_temperature, [&draws])?.lpd()?.tempered;
            if lpd.is_finite() && best.as_ref().is_none_or(|(most, _)| lpd > *most) {
                best = Some((lpd, draws));
            }
        }
        match best {
            Some((_, draws)) => Ok(Some(draws)),
            // What cannot be widened is the network itself.
            None => Ok(Some(unmeasured([choice.position.clone()], choice)?)),
        }
    }

    /// Outputs of the network at some rows, row-major.
    fn outputs_at(&self, rows: &Examples, position: &[f32], choice: &JointChoice) -> Result<Vec<f64>, ExperimentError> {
        let weights = Weights { parameters: position, statistics: &choice.statistics };
        let held_out = self.posterior.held_out(rows);
        let (values, width) = (held_out.num_values(), self.problem.network.num_outputs());
        let outputs = self.engine.outputs(&held_out, &[weights])?.remove(0);
        Ok(outputs.chunks_exact(values).flat_map(|row| row[..width].iter().map(|&value| f64::from(value))).collect())
    }

    /// φ of each row: what the first output gains by a weight of 1 in place of 0.
    fn last_layer_features(
        &self,
        layer: &LastLayer,
        choice: &JointChoice,
        rows: &Examples,
    ) -> Result<Vec<f64>, ExperimentError> {
        let mut position = choice.position.clone();
        for feature in 0..layer.num_features() {
            (0..layer.num_outputs).for_each(|output| position[layer.place(feature, output)] = 0.0);
        }
        let without = self.outputs_at(rows, &position, choice)?;
        let mut features = vec![0.0; rows.len() * layer.num_features()];
        for feature in 0..layer.num_features() {
            position[layer.place(feature, 0)] = 1.0;
            let with = self.outputs_at(rows, &position, choice)?;
            position[layer.place(feature, 0)] = 0.0;
            for row in 0..rows.len() {
                let at = row * layer.num_outputs;
                features[row * layer.num_features() + feature] = with[at] - without[at];
            }
        }
        Ok(features)
    }

    /// Draws of N(θ̂, (matrix + λ)⁻¹) over the last layer; none where that is no precision.
    fn draws_around(
        &self,
        layer: &LastLayer,
        choice: &JointChoice,
        matrix: &[f64],
        precision: f64,
    ) -> Result<Option<Draws>, ExperimentError> {
        let size = layer.num_parameters();
        let mut matrix = matrix.to_vec();
        matrix.iter_mut().step_by(size + 1).for_each(|entry| *entry += precision);
        let Some(factor) = Cholesky::new(&matrix, size) else { return Ok(None) };
        let draw = |number: usize| {
            let key = NoiseKey {
                seed: self.settings.run.seed,
                purpose: Purpose::GaussianDraw,
                chain: 1,
                step: number as u64,
            };
            let mut noise = vec![0.0f32; size];
            key.fill_normal(&mut noise);
            let noise: Vec<f64> = noise.iter().map(|&number| f64::from(number)).collect();
            let shift = factor.half_solve_transposed(&noise);
            let mut position = choice.position.clone();
            for (index, shift) in shift.iter().enumerate() {
                position[layer.place(index / layer.num_outputs, index % layer.num_outputs)] += *shift as f32;
            }
            position
        };
        Ok(Some(unmeasured((0..NUM_DRAWS).map(draw), choice)?))
    }
}

/// The curvature of −log p(y|x,θ,β) in the outputs of a row.
enum Curvature {
    /// Of each target that is a number: the same in every row.
    Numbers { curvatures: Vec<f64> },
    /// Of classes, at this β.
    Classes { beta: f64 },
}

impl Curvature {
    /// None of likelihoods whose curvature depends on more than a mean.
    fn of(experiment: &Experiment, choice: &JointChoice) -> Option<Self> {
        let (likelihood, beta) = (experiment.problem.likelihood, choice.inverse_temperature);
        let num_targets = likelihood.num_targets();
        let noise_variances = match likelihood.of_one_target() {
            Likelihood::LearnedGaussian => {
                let own = &choice.position[choice.position.len() - num_targets..];
                Some(own.iter().map(|&log_variance| f64::from(log_variance).exp()).collect())
            }
            one => one.known_noise_variance().map(|variance| vec![variance; num_targets]),
        };
        match likelihood.kind() {
            TargetKind::Classes { .. } => Some(Self::Classes { beta }),
            TargetKind::Numbers => {
                let curvatures = noise_variances?.iter().map(|variance: &f64| beta / variance).collect();
                Some(Self::Numbers { curvatures })
            }
        }
    }

    /// Σ Hᵢ ⊗ φᵢφᵢᵀ, the lower triangle; parameters are ordered by feature, then by output.
    fn sum(&self, layer: &LastLayer, features: &[f64], outputs: &[f64], weights: &[f64]) -> Vec<f64> {
        let (size, width) = (layer.num_parameters(), layer.num_outputs);
        let mut matrix = vec![0.0; size * size];
        let rows = features.chunks_exact(layer.num_features()).zip(outputs.chunks_exact(width));
        for ((phi, outputs), weight) in rows.zip(weights) {
            let of_row = self.at(outputs);
            for (i, &a) in phi.iter().enumerate() {
                for (j, &b) in phi[..=i].iter().enumerate() {
                    let product = weight * a * b;
                    for (k, curvatures) in of_row.chunks_exact(width).enumerate() {
                        let start = (i * width + k) * size + j * width;
                        let entries = &mut matrix[start..start + width];
                        entries.iter_mut().zip(curvatures).for_each(|(entry, h)| *entry += product * h);
                    }
                }
            }
        }
        matrix
    }

    /// H of a row, row-major.
    fn at(&self, outputs: &[f64]) -> Vec<f64> {
        match self {
            Self::Numbers { curvatures } => {
                let mut diagonal = vec![0.0; curvatures.len().pow(2)];
                let entries = diagonal.iter_mut().step_by(curvatures.len() + 1);
                entries.zip(curvatures).for_each(|(entry, curvature)| *entry = *curvature);
                diagonal
            }
            Self::Classes { beta } => {
                let largest = outputs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = outputs.iter().map(|output| (beta * (output - largest)).exp()).collect();
                let total: f64 = weights.iter().sum();
                let p = |class: usize| weights[class] / total;
                let entry = |k: usize, l: usize| beta * beta * (if k == l { p(k) } else { 0.0 } - p(k) * p(l));
                (0..weights.len())
                    .flat_map(|k| (0..weights.len()).map(move |l| (k, l)))
                    .map(|(k, l)| entry(k, l))
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::automatic_settings;
    use crate::problem::Problem;
    use crate::settings::{DataSettings, RunSettings};
    use kelvin::data::{Dataset, Table};
    use kelvin::predictive::{Predictive, PredictiveModel};

    /// A line with noise 0.3, learned by a network without hidden layers: its last layer is all of it, and Laplace is exact.
    fn experiment() -> (Experiment, JointChoice) {
        let mut csv = String::from("x,y\n");
        for i in 0..200 {
            let (x, e) = ((f64::from(i) * 0.37).sin(), 0.3 * (f64::from(i) * 12.9).sin() * 1.4);
            csv += &format!("{x},{}\n", 2.0 * x + e);
        }
        let dataset =
            Dataset::from_table(&Table::from_bytes("t.csv", csv.as_bytes()).unwrap(), "y", &[], None).unwrap();
        let data = DataSettings { source: "t.csv".into(), target: "y".into(), ..DataSettings::default() };
        let mut settings = automatic_settings("t", data, &dataset, RunSettings::default());
        settings.model.hidden = Some(Vec::new());
        let experiment = Experiment::new(Problem::new(dataset, &settings).unwrap(), settings).unwrap();
        let choice = experiment.select(&[0], &kelvin::sampler::Silent).unwrap().remove(0);
        (experiment, choice)
    }

    #[test]
    fn the_variance_of_a_line_is_that_of_least_squares() {
        let (experiment, choice) = experiment();
        let draws = experiment.last_layer_draws(&choice).unwrap().unwrap();
        let found = experiment.predictive(&experiment.test, choice.inverse_temperature, [&draws]).unwrap();
        let Predictive::Regression(found) = &found else { panic!("numbers") };
        let noise = experiment.problem.likelihood.known_noise_variance().unwrap() / choice.inverse_temperature;
        let inputs = experiment.problem.train.inputs.numbers();
        let n = inputs.len() as f64;
        let squares: f64 = inputs.iter().map(|&x| f64::from(x).powi(2)).sum();
        let test = experiment.problem.test.inputs.numbers();
        let variances = found.variances(PredictiveModel::Tempered).unwrap();
        for (&x, variance) in test.iter().zip(variances) {
            // Inputs are standardised: the constant and the slope are independent. λ takes a little away.
            let expected = noise * (1.0 / n + f64::from(x).powi(2) / squares);
            let ratio = (variance - noise) / expected;
            assert!((0.5..1.4).contains(&ratio), "{ratio}");
        }
        assert_eq!(draws.len(), NUM_DRAWS);
    }

    #[test]
    fn curvatures_of_classes_add_up_to_nothing_over_classes() {
        let h = Curvature::Classes { beta: 2.0 }.at(&[0.3, -1.0, 0.8]);
        for row in h.chunks_exact(3) {
            assert!(row.iter().sum::<f64>().abs() < 1e-12, "{h:?}");
        }
        assert!(h[0] > 0.0 && h[1] < 0.0);
    }
}
