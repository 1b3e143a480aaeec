//! Several numbers of a row, independent given its outputs: y_k ~ p(y_k | outputs_k), each with outputs and parameters of its own.
//!
//! ```text
//! log p = Σ_k log p(y_k | outputs_k, own_k)      ∂/∂outputs_k, ∂/∂own_k those of target k alone      ∂/∂log β their sum
//! ```
//! Targets share what is below the last layer. Outputs of a row stand target after target, and so do the likelihood's own parameters.

use serde::{Deserialize, Serialize};

use super::gaussian::Gaussian;
use super::learned_gaussian::LearnedGaussian;
use super::model::{LikelihoodError, LogBetaCurve, LogLikelihood, Model, TargetKind, TemperedDensity};
use super::number::NumberDistribution;
use super::rows::{Given, MOST_TARGETS, RowSums, TargetRows};
use super::student_t::StudentT;
use super::targets::numbers;
use super::varying_gaussian::VaryingGaussian;
use super::varying_student_t::VaryingStudentT;
use crate::data::Targets;
use crate::network::Layout;

/// The likelihoods of one number that each of several can have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EachNumber {
    /// [`Likelihood::Gaussian`](super::Likelihood::Gaussian), with one noise variance for all standardised targets.
    Gaussian {
        /// σ².
        noise_variance: f64,
    },
    /// [`Likelihood::LearnedGaussian`](super::Likelihood::LearnedGaussian).
    LearnedGaussian,
    /// [`Likelihood::VaryingGaussian`](super::Likelihood::VaryingGaussian).
    VaryingGaussian,
    /// [`Likelihood::StudentT`](super::Likelihood::StudentT).
    StudentT,
    /// [`Likelihood::VaryingStudentT`](super::Likelihood::VaryingStudentT).
    VaryingStudentT,
}

impl EachNumber {
    /// Asks the likelihood of one of them.
    fn ask<R>(self, question: impl FnOnce(&dyn Model) -> R) -> R {
        match self {
            Self::Gaussian { noise_variance } => question(&Gaussian { noise_variance }),
            Self::LearnedGaussian => question(&LearnedGaussian),
            Self::VaryingGaussian => question(&VaryingGaussian),
            Self::StudentT => question(&StudentT),
            Self::VaryingStudentT => question(&VaryingStudentT),
        }
    }
}

/// So many targets of one likelihood.
pub(super) struct Independent {
    pub each: EachNumber,
    pub num_targets: usize,
}

/// Rows whose outputs for one target are gathered at a time.
const ROWS: usize = 64;
/// Outputs and own parameters that one target can have.
const MOST_OUTPUTS: usize = 2;
const MOST_OWN: usize = 1;

impl Independent {
    fn num_own(&self) -> usize {
        let mut own = Layout::default();
        self.each.ask(|model| model.add_tensors(&mut own));
        own.len()
    }

    /// Outputs of one target.
    fn width(&self) -> usize {
        self.each.ask(|model| model.num_outputs())
    }

    /// The values of one target among those of a row, and how many these are.
    fn values_of(&self, target: usize, row: &[f32]) -> ([f32; MOST_OUTPUTS + MOST_OWN], usize) {
        let width = self.width();
        let num_own = row.len() / self.num_targets - width;
        let mut values = [0.0; MOST_OUTPUTS + MOST_OWN];
        values[..width].copy_from_slice(&row[target * width..][..width]);
        values[width..width + num_own].copy_from_slice(&row[self.num_targets * width + target * num_own..][..num_own]);
        (values, width + num_own)
    }

    /// The values and the numbers of one target in all rows.
    fn of_target(&self, target: usize, values: &[f32], targets: &Targets) -> (Vec<f32>, Targets) {
        let row_width = self.num_targets * (self.width() + self.num_own());
        let mut own = Vec::with_capacity(values.len() / self.num_targets);
        for row in values.chunks_exact(row_width) {
            let (values, count) = self.values_of(target, row);
            own.extend_from_slice(&values[..count]);
        }
        (own, Targets::Real(numbers(targets).iter().skip(target).step_by(self.num_targets).copied().collect()))
    }
}

impl Model for Independent {
    fn name(&self) -> &'static str {
        self.each.ask(|model| model.name())
    }

    fn kind(&self) -> TargetKind {
        TargetKind::Numbers
    }

    fn num_targets(&self) -> usize {
        self.num_targets
    }

    fn num_outputs(&self) -> usize {
        self.num_targets.saturating_mul(self.width())
    }

    fn spread_output(&self) -> Option<usize> {
        self.each.ask(|model| model.spread_output())
    }

    fn check_settings(&self) -> Result<(), LikelihoodError> {
        let found = self.num_targets;
        if !(2..=MOST_TARGETS).contains(&found) {
            return Err(LikelihoodError::NumTargets { found, most: MOST_TARGETS });
        }
        self.each.ask(|model| model.check_settings())
    }

    fn add_tensors(&self, layout: &mut Layout) {
        let mut own = Layout::default();
        self.each.ask(|model| model.add_tensors(&mut own));
        layout.push_lists(&own, self.num_targets);
    }

    fn initial_parameters(&self) -> Vec<f32> {
        self.each.ask(|model| model.initial_parameters()).repeat(self.num_targets)
    }

    fn log_prior(&self, own: &[f32]) -> f64 {
        let num_own = (own.len() / self.num_targets).max(1);
        self.each.ask(|model| own.chunks_exact(num_own).map(|own| model.log_prior(own)).sum())
    }

    fn add_prior_energy_gradient(&self, own: &[f32], scale: f64, gradient: &mut [f32]) {
        let num_own = (own.len() / self.num_targets).max(1);
        for (own, gradient) in own.chunks_exact(num_own).zip(gradient.chunks_exact_mut(num_own)) {
            self.each.ask(|model| model.add_prior_energy_gradient(own, scale, gradient));
        }
    }

    fn hides_beta(&self) -> Option<&'static str> {
        self.each.ask(|model| model.hides_beta())
    }

    fn least_power(&self) -> f64 {
        self.each.ask(|model| model.least_power())
    }

    /// The first sum is Σ log p, the second its derivative in log β: each target has sums of its own, which are added up block by block.
    fn differentiate(&self, targets: TargetRows<'_>, given: Given<'_>, outputs: &mut [f32], sums: &mut RowSums) {
        let (width, num_own) = (self.width(), given.own.len() / self.num_targets);
        let row_width = width * self.num_targets;
        let mut gathered = [0.0f32; ROWS * MOST_OUTPUTS];
        self.each.ask(|model| {
            for (block, outputs) in outputs.chunks_mut(ROWS * row_width).enumerate() {
                let gathered = &mut gathered[..outputs.len() / self.num_targets];
                for target in 0..self.num_targets {
                    let own = Given { own: &given.own[target * num_own..][..num_own], ..given };
                    for (to, row) in gathered.chunks_exact_mut(width).zip(outputs.chunks_exact(row_width)) {
                        to.copy_from_slice(&row[target * width..][..width]);
                    }
                    let rows = TargetRows { first_row: targets.first_row + block * ROWS, target, ..targets };
                    let mut of_block = RowSums::default();
                    model.differentiate(rows, own, gathered, &mut of_block);
                    for (from, row) in gathered.chunks_exact(width).zip(outputs.chunks_exact_mut(row_width)) {
                        row[target * width..][..width].copy_from_slice(from);
                    }
                    let total = model.total(own, &of_block);
                    sums.first += total.value;
                    sums.second += total.log_beta_gradient;
                    let mut gradient = [0.0f32; MOST_OWN];
                    model.own_gradient(own, &of_block, &mut gradient[..num_own]);
                    for (sum, of_block) in sums.own[target * num_own..].iter_mut().zip(&gradient[..num_own]) {
                        *sum += f64::from(*of_block);
                    }
                }
            }
        });
    }

    fn total(&self, _: Given<'_>, sums: &RowSums) -> LogLikelihood {
        LogLikelihood { value: sums.first, log_beta_gradient: sums.second }
    }

    fn own_gradient(&self, _: Given<'_>, sums: &RowSums, gradient: &mut [f32]) {
        gradient.iter_mut().zip(sums.own).for_each(|(to, sum)| *to = sum as f32);
    }

    fn log_densities(&self, values: &[f32], targets: &Targets) -> Vec<f64> {
        let mut sums = Vec::new();
        for target in 0..self.num_targets {
            let (values, targets) = self.of_target(target, values, targets);
            let own = self.each.ask(|model| model.log_densities(&values, &targets));
            sums.resize(own.len(), 0.0);
            sums.iter_mut().zip(own).for_each(|(sum, density)| *sum += density);
        }
        sums
    }

    fn tempered_densities(&self, values: &[f32], targets: &Targets, beta: f64, show: &mut dyn FnMut(TemperedDensity)) {
        let mut sums: Vec<TemperedDensity> = Vec::new();
        for target in 0..self.num_targets {
            let (values, targets) = self.of_target(target, values, targets);
            let mut row = 0;
            let mut add = |own: TemperedDensity| {
                match sums.get_mut(row) {
                    Some(sum) => {
                        sum.log_density += own.log_density;
                        sum.slope += own.slope;
                    }
                    None => sums.push(own),
                }
                row += 1;
            };
            self.each.ask(|model| model.tempered_densities(&values, &targets, beta, &mut add));
        }
        sums.into_iter().for_each(show);
    }

    fn log_beta_curve(&self, values: &[f32], targets: &Targets, log_beta: f64) -> LogBetaCurve {
        let mut sum = LogBetaCurve::default();
        for target in 0..self.num_targets {
            let (values, targets) = self.of_target(target, values, targets);
            let own = self.each.ask(|model| model.log_beta_curve(&values, &targets, log_beta));
            sum.value += own.value;
            sum.slope += own.slope;
            sum.curvature += own.curvature;
        }
        sum
    }

    fn number_distribution_of(&self, target: usize, values: &[f32], power: f64) -> NumberDistribution {
        let (values, count) = self.values_of(target, values);
        self.each.ask(|model| model.number_distribution(&values[..count], power))
    }
}

#[cfg(test)]
mod tests {
    use super::super::known::Likelihood;
    use super::super::sum::LikelihoodSum;
    use super::*;
    use crate::network::{OutputGradient, Rows};

    const EACH: [EachNumber; 5] = [
        EachNumber::Gaussian { noise_variance: 0.3 },
        EachNumber::LearnedGaussian,
        EachNumber::VaryingGaussian,
        EachNumber::StudentT,
        EachNumber::VaryingStudentT,
    ];
    const TARGETS: usize = 3;

    /// The sum over some rows, with the gradients in outputs and own parameters.
    fn sum(
        likelihood: Likelihood,
        outputs: &[f32],
        own: &[f32],
        targets: &Targets,
        weights: Option<&[f32]>,
        rows: Rows<'_>,
    ) -> (LogLikelihood, Vec<f32>, Vec<f32>) {
        let (mut outputs, mut of_own) = (outputs.to_vec(), vec![0.0; own.len()]);
        let mut sum = LikelihoodSum::new(likelihood, Given { beta: 1.7, own }, targets, rows).weighed(weights);
        sum.differentiate(0, &mut outputs);
        sum.own_gradient(&mut of_own);
        (sum.total(), outputs, of_own)
    }

    /// Of 150 rows, so that blocks are whole and cut short; in order and picked; each counted once and weighed.
    #[test]
    fn each_target_has_the_gradient_of_its_own_and_sums_add_up() {
        let number = |i: usize| ((i * 37 % 101) as f32 / 50.0 - 1.0) * 1.5;
        let num_rows = 150;
        let weights: Vec<f32> = (0..num_rows).map(|row| (row % 4) as f32 * 0.5).collect();
        let picked: Vec<u32> = (0..num_rows as u32).rev().collect();
        for (each, is_weighed, is_picked) in
            EACH.iter().flat_map(|each| [(each, false, false), (each, true, false), (each, false, true)])
        {
            let several = Likelihood::Independent { each: *each, num_targets: TARGETS };
            let one = several.of_one_target();
            assert_eq!(one.of_targets(TARGETS), Ok(several));
            let (width, num_own) = (one.num_outputs(), one.num_parameters());
            assert_eq!((several.num_outputs(), several.num_parameters()), (TARGETS * width, TARGETS * num_own));
            let targets: Vec<f32> = (0..num_rows * TARGETS).map(|i| number(i + 5)).collect();
            let outputs: Vec<f32> = (0..num_rows * TARGETS * width).map(number).collect();
            let own: Vec<f32> = (0..TARGETS * num_own).map(|i| 0.4 * i as f32 - 0.5).collect();
            let weights = is_weighed.then_some(&weights[..]);
            let rows = if is_picked { Rows::These(&picked) } else { Rows::All };
            let (total, of_outputs, of_own) =
                sum(several, &outputs, &own, &Targets::Real(targets.clone()), weights, rows);
            let mut added = LogLikelihood::default();
            for target in 0..TARGETS {
                let own_outputs: Vec<f32> =
                    outputs.chunks(width).skip(target).step_by(TARGETS).flatten().copied().collect();
                let own_targets = Targets::Real(targets.iter().skip(target).step_by(TARGETS).copied().collect());
                let (value, expected, expected_own) =
                    sum(one, &own_outputs, &own[target * num_own..][..num_own], &own_targets, weights, rows);
                added.value += value.value;
                added.log_beta_gradient += value.log_beta_gradient;
                let found = of_outputs.chunks(width).skip(target).step_by(TARGETS).flatten();
                assert!(found.eq(&expected), "{each:?}, target {target}");
                for (found, expected) in of_own[target * num_own..].iter().zip(&expected_own) {
                    assert!((found - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{each:?}: {found} {expected}");
                }
            }
            for (found, expected) in [(total.value, added.value), (total.log_beta_gradient, added.log_beta_gradient)] {
                assert!((found - expected).abs() < 1e-9 * (1.0 + expected.abs()), "{each:?}: {found} {expected}");
            }
        }
    }

    /// A row's density is the product of those of its targets, whose distributions are those of one.
    #[test]
    fn densities_of_targets_add_up() {
        for each in EACH {
            let several = Likelihood::Independent { each, num_targets: 2 };
            let values: Vec<f32> = (0..several.num_values()).map(|i| 0.3 * i as f32 - 0.4).collect();
            let own = |target| [0.7, -0.2][target];
            let joint = several.log_densities(&values, &Targets::Real(vec![0.7, -0.2]))[0];
            let parts = [0, 1].map(|target| {
                several.number_distribution_of(target, &values, 1.0).log_density(f64::from(own(target) as f32))
            });
            assert!((joint - parts[0] - parts[1]).abs() < 1e-12, "{each:?}");
        }
    }

    #[test]
    fn what_cannot_be_had_of_several_targets_is_named() {
        assert_eq!(Likelihood::LearnedGaussian.of_targets(1), Ok(Likelihood::LearnedGaussian));
        let error = Likelihood::Poisson { log_mean: 0.0 }.of_targets(2).unwrap_err().to_string();
        assert!(
            error.contains("Poisson likelihood is for one target") && error.contains("learned_gaussian"),
            "{error}"
        );
        let error = Likelihood::StudentT.of_targets(33).unwrap_err().to_string();
        assert!(error.contains("2 to 32") && error.contains("33"), "{error}");
        assert!(Likelihood::Gaussian { noise_variance: 0.0 }.of_targets(2).is_err());
        let several = Likelihood::VaryingGaussian.of_targets(3).unwrap();
        assert_eq!(several.spread_outputs(), [1, 3, 5]);
        let text = serde_json::to_string(&several).unwrap();
        assert_eq!(text, r#"{"independent":{"each":"varying_gaussian","num_targets":3}}"#);
        assert_eq!(serde_json::from_str::<Likelihood>(&text).unwrap(), several);
        let mut layout = Layout::default();
        Likelihood::LearnedGaussian.of_targets(3).unwrap().add_tensors(&mut layout);
        assert_eq!((layout.tensors().len(), layout.len()), (1, 3));
    }
}
