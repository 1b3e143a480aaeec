//! What everyone would try first: ridge regression, or logistic regression, on the same rows.
//!
//! ```text
//! numbers   y ~ N(a + xᵀw, s²),  w by least squares with λ|w|²,  s² the mean squared error at the validation rows
//! classes   p ∝ exp(a_c + xᵀw_c),  by maximum likelihood with λ|w|²/2
//! ```
//! λ is the best of a grid at the validation rows; several targets share it, and have an s² each. A row of weight w counts as w such rows.

use kelvin::data::{Examples, Targets};
use kelvin::exact::LinearRegression;

use crate::problem::Problem;

/// Rows to learn from, with what each counts for.
#[derive(Clone, Copy)]
pub(crate) struct Weighed<'a> {
    rows: &'a Examples,
    /// None where each counts once.
    weights: Option<&'a [f32]>,
}

impl<'a> Weighed<'a> {
    /// The training rows of a problem.
    pub fn of(problem: &'a Problem) -> Self {
        Self { rows: &problem.train, weights: problem.row_weights.as_deref() }
    }

    fn weight(&self, row: usize) -> f64 {
        self.weights.map_or(1.0, |weights| f64::from(weights[row]))
    }
}

/// A linear model of rows, and what it says of others.
#[derive(Debug)]
pub(crate) struct LinearBaseline {
    num_outputs: usize,
    /// For each input with a 1 behind it, a weight for each output.
    weights: Vec<f64>,
    /// Of each target that is a number; 1 for classes.
    pub noise_variances: Vec<f64>,
    /// λ, the best at the validation rows.
    penalty: f64,
}

/// λ for a unit of noise, from hardly any to a strong one; where tables have it, closer than by factors of ten (on one of 19 classes and 35 columns of text, λ = 0.3 is
/// 0.011 nats ahead of 0.1 and of 1).
const PENALTIES: [f64; 9] = [1e-3, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0];
/// Steps of accelerated gradient descent: enough for standardised columns, where it is at its maximum within 1e-3 of a nat.
const STEPS: usize = 300;
/// More rows than these are thinned for classes: a line needs no more.
const MOST_ROWS: usize = 20_000;

impl LinearBaseline {
    /// Fitted to the training rows, with the penalty that validation rows choose; none of inputs that are no finite numbers.
    pub fn fit(train: Weighed<'_>, validation: &Examples, num_classes: usize) -> Option<Self> {
        let candidates = PENALTIES.into_iter().filter_map(|penalty| match &train.rows.targets {
            Targets::Real(targets) => Self::ridge(train, targets, validation, penalty),
            Targets::Classes(labels) => Some(Self::logistic(train, labels, num_classes, penalty)),
        });
        let scored = candidates.filter_map(|model| {
            let densities = model.log_densities(validation);
            let lpd = densities.iter().sum::<f64>() / densities.len().max(1) as f64;
            lpd.is_finite().then_some((lpd, model))
        });
        scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, model)| model)
    }

    /// The same model with weights of other rows: its penalty stays, and its σ², which held-out rows told, in the units of `stds` where they had
    /// `own_stds`.
    pub fn of_rows(&self, rows: Weighed<'_>, own_stds: &[f64], stds: &[f64]) -> Option<Self> {
        match &rows.rows.targets {
            Targets::Real(targets) => {
                let units = own_stds.iter().zip(stds).map(|(own, other)| (own / other).powi(2));
                let noise_variances = self.noise_variances.iter().zip(units).map(|(variance, unit)| variance * unit);
                let noise_variances = noise_variances.collect();
                Some(Self { noise_variances, ..Self::least_squares(rows, targets, self.penalty)? })
            }
            Targets::Classes(labels) => Some(Self::logistic(rows, labels, self.num_outputs, self.penalty)),
        }
    }

    /// Outputs of a row: the number of targets, or of classes.
    pub fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// For each input with a 1 behind it, a weight for each output.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    fn least_squares(train: Weighed<'_>, targets: &[f32], penalty: f64) -> Option<Self> {
        let width = train.rows.num_features + 1;
        let num_targets = train.rows.num_targets();
        let mut inputs = with_ones(train.rows, 1);
        let mut targets: Vec<f64> = targets.iter().map(|&y| f64::from(y)).collect();
        if train.weights.is_some() {
            // w (y − xᵀθ)² is the square of √w y − √w xᵀθ.
            let rows = inputs.chunks_exact_mut(width).zip(targets.chunks_exact_mut(num_targets));
            for (row, (inputs, targets)) in rows.enumerate() {
                let root = train.weight(row).sqrt();
                inputs.iter_mut().chain(targets).for_each(|value| *value *= root);
            }
        }
        let mut weights = vec![0.0; width * num_targets];
        for target in 0..num_targets {
            let own: Vec<f64> = targets.iter().skip(target).step_by(num_targets).copied().collect();
            let fit = LinearRegression::new(&inputs, &own, width, 1.0, 1.0 / penalty).ok()?;
            weights.iter_mut().skip(target).step_by(num_targets).zip(fit.mean()).for_each(|(to, weight)| *to = *weight);
        }
        Some(Self { num_outputs: num_targets, weights, noise_variances: vec![1.0; num_targets], penalty })
    }

    fn ridge(train: Weighed<'_>, targets: &[f32], validation: &Examples, penalty: f64) -> Option<Self> {
        let mut model = Self::least_squares(train, targets, penalty)?;
        let Targets::Real(held_out) = &validation.targets else { return None };
        let outputs = model.outputs(validation);
        let squares = || outputs.iter().zip(held_out).map(|(mean, &y)| (f64::from(y) - mean).powi(2));
        for (target, variance) in model.noise_variances.iter_mut().enumerate() {
            let sum = squares().skip(target).step_by(model.num_outputs).sum::<f64>();
            *variance = (sum / validation.len() as f64).max(1e-12);
        }
        Some(model)
    }

    /// Nesterov's accelerated gradient descent on the mean loss, whose curvature is at most that of |x|²/2 a row.
    fn logistic(train: Weighed<'_>, labels: &[u32], num_classes: usize, penalty: f64) -> Self {
        let every = train.rows.len().div_ceil(MOST_ROWS);
        let inputs = with_ones(train.rows, every);
        let labels: Vec<(u32, f64)> =
            labels.iter().enumerate().step_by(every).map(|(row, &label)| (label, train.weight(row))).collect();
        let (width, n) = (train.rows.num_features + 1, labels.iter().map(|(_, weight)| weight).sum::<f64>());
        let squares = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>();
        let rows = inputs.chunks_exact(width).zip(&labels);
        let largest = rows.map(|(row, (_, weight))| weight * squares(row)).sum::<f64>() / n;
        let decay = penalty / n;
        let rate = 1.0 / (0.5 * largest + decay);
        let mut weights = vec![0.0; width * num_classes];
        let (mut ahead, mut gradient) = (weights.clone(), vec![0.0; weights.len()]);
        for step in 0..STEPS {
            gradient.iter_mut().zip(&ahead).enumerate().for_each(|(index, (g, w))| {
                // The constant is not pulled towards 0.
                *g = if index / num_classes == width - 1 { 0.0 } else { decay * w };
            });
            for (row, &(label, weight)) in inputs.chunks_exact(width).zip(&labels) {
                let mut p = softmax(&linear(row, &ahead, num_classes));
                p[label as usize] -= 1.0;
                p.iter_mut().for_each(|p| *p *= weight);
                for (x, g) in row.iter().zip(gradient.chunks_exact_mut(num_classes)) {
                    g.iter_mut().zip(&p).for_each(|(g, p)| *g += x * p / n);
                }
            }
            let momentum = step as f64 / (step as f64 + 3.0);
            for ((w, ahead), g) in weights.iter_mut().zip(&mut ahead).zip(&gradient) {
                let next = *ahead - rate * g;
                *ahead = next + momentum * (next - *w);
                *w = next;
            }
        }
        Self { num_outputs: num_classes, weights, noise_variances: vec![1.0], penalty }
    }

    /// The means of the targets, or the logits, of each row.
    pub fn outputs(&self, rows: &Examples) -> Vec<f64> {
        let inputs = with_ones(rows, 1);
        let outputs =
            inputs.chunks_exact(rows.num_features + 1).flat_map(|row| linear(row, &self.weights, self.num_outputs));
        outputs.collect()
    }

    /// Log density of each row's answers.
    pub fn log_densities(&self, rows: &Examples) -> Vec<f64> {
        let outputs = self.outputs(rows);
        match &rows.targets {
            Targets::Real(targets) => {
                let density = |((mean, &y), variance): ((&f64, &f32), &f64)| {
                    let norm = (std::f64::consts::TAU * variance).ln();
                    -0.5 * (norm + (f64::from(y) - mean).powi(2) / variance)
                };
                let rows = outputs.chunks_exact(self.num_outputs).zip(targets.chunks_exact(self.num_outputs));
                rows.map(|(means, row)| means.iter().zip(row).zip(&self.noise_variances).map(density).sum()).collect()
            }
            Targets::Classes(labels) => {
                let rows = outputs.chunks_exact(self.num_outputs).zip(labels);
                rows.map(|(logits, &label)| softmax(logits)[label as usize].ln()).collect()
            }
        }
    }
}

/// Each row (or one of so many) as numbers with a 1 behind it.
fn with_ones(rows: &Examples, every: usize) -> Vec<f64> {
    let numbers = rows.inputs.numbers();
    let rows = numbers.chunks_exact(rows.num_features).step_by(every);
    rows.flat_map(|row| row.iter().map(|&x| f64::from(x)).chain([1.0])).collect()
}

fn linear(row: &[f64], weights: &[f64], num_outputs: usize) -> Vec<f64> {
    let mut outputs = vec![0.0; num_outputs];
    for (x, weights) in row.iter().zip(weights.chunks_exact(num_outputs)) {
        outputs.iter_mut().zip(weights).for_each(|(output, w)| *output += x * w);
    }
    outputs
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logits.iter().map(|logit| (logit - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize, targets: impl Fn(f32, f32) -> f32, classes: bool) -> Examples {
        let at = |i: usize| ((i as f32 * 0.37).sin(), (i as f32 * 0.91).cos());
        let inputs: Vec<f32> = (0..count).flat_map(|i| [at(i).0, at(i).1]).collect();
        let answers: Vec<f32> = (0..count).map(|i| targets(at(i).0, at(i).1)).collect();
        let targets = if classes {
            Targets::Classes(answers.iter().map(|&y| y as u32).collect())
        } else {
            Targets::Real(answers)
        };
        Examples { inputs: inputs.into(), num_features: 2, targets }
    }

    fn once(rows: &Examples) -> Weighed<'_> {
        Weighed { rows, weights: None }
    }

    #[test]
    fn a_line_is_found() {
        let line = |a: f32, b: f32| 2.0 * a - b + 0.5;
        let model = LinearBaseline::fit(once(&rows(300, line, false)), &rows(40, line, false), 0).unwrap();
        for (found, expected) in model.weights.iter().zip([2.0, -1.0, 0.5]) {
            assert!((found - expected).abs() < 1e-3, "{:?}", model.weights);
        }
        assert!(model.noise_variances[0] < 1e-5);
    }

    #[test]
    fn classes_that_a_line_separates_are_told_apart() {
        let side = |a: f32, b: f32| f32::from(u8::from(a > b));
        let held_out = rows(50, side, true);
        let model = LinearBaseline::fit(once(&rows(400, side, true)), &held_out, 2).unwrap();
        let lpd = model.log_densities(&held_out).iter().sum::<f64>() / 50.0;
        assert!(lpd > -0.25, "{lpd}");
        // Three classes of equal shares that nothing tells apart have the base rate.
        let none = |_: f32, _: f32| 0.0;
        let mut labels = rows(300, none, true);
        labels.targets = Targets::Classes((0..300).map(|i| i % 3).collect());
        let model = LinearBaseline::fit(once(&labels), &labels, 3).unwrap();
        let lpd = model.log_densities(&labels).iter().sum::<f64>() / 300.0;
        assert!((lpd + 3f64.ln()).abs() < 0.02, "{lpd}");
    }

    #[test]
    fn a_whole_weight_is_that_of_as_many_rows() {
        for classes in [false, true] {
            let answers = |a: f32, b: f32| f32::from(u8::from(a > b)) + if classes { 0.0 } else { 0.3 * a * b };
            let all = rows(90, answers, classes);
            let listed: Vec<u32> = (0..90).flat_map(|row| vec![row; row as usize % 3]).collect();
            let weights: Vec<f32> = (0..90).map(|row| (row % 3) as f32).collect();
            let num_classes = if classes { 2 } else { 0 };
            let weighed = Weighed { rows: &all, weights: Some(&weights) };
            let found = LinearBaseline::fit(weighed, &all, num_classes).unwrap();
            let expected = LinearBaseline::fit(once(&all.these(&listed)), &all, num_classes).unwrap();
            for (found, expected) in found.weights.iter().zip(&expected.weights) {
                assert!((found - expected).abs() < 1e-9, "{found} {expected}");
            }
        }
    }
}
