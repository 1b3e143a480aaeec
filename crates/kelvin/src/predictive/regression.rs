//! The predictive density of a regression, accumulated draw by draw at held-out points.

use super::calibration::PitValues;
use super::error::{PredictiveError, check_outputs, positive};
use super::log_mean_exp::LogMeanExp;
use super::model::{ByModel, PredictiveModel};
use super::scores::RegressionScores;
use crate::likelihood::Likelihood;

/// p̂(y|x) = (1/S) Σ_s p(y | x, θ_s)^b, normalised: b = 1 for the standard and β for the tempered model. For a Gaussian likelihood
/// (1/S) Σ_s N(y | μ_s(x), σ²/b).
///
/// Of several targets a point is one of a row, row after row, with a density of its own; log p̂ of a row is of all its targets: the average over draws
/// of the product of their densities.
///
/// For each point it keeps running sums of what the scores need: the log density and the PIT value of the target
/// under both models, and mean and spread of μ_s. The draws themselves are not kept; where quantiles are wanted,
/// keep them and see [`NumberMixture`](super::NumberMixture).
#[derive(Clone, Debug, PartialEq)]
pub struct RegressionPredictive {
    likelihood: Likelihood,
    inverse_temperature: f64,
    num_draws: usize,
    points: Vec<Point>,
    /// log p̂ of all targets of each row; empty where a row has one, whose point knows it.
    joint: Vec<ByModel<LogMeanExp>>,
}

/// What is known of one held-out point: a target of a row.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    target: f64,
    mean: f64,
    squared_deviations: f64,
    /// The mean over draws of the variance that is left given θ.
    noise_variance: ByModel<f64>,
    log_density: ByModel<LogMeanExp>,
    cumulative_sum: ByModel<f64>,
}

impl RegressionPredictive {
    /// An accumulator for these targets, normal with noise variance σ², at inverse temperature β.
    ///
    /// # Errors
    /// As [`RegressionPredictive::of`].
    pub fn new(targets: &[f32], noise_variance: f64, inverse_temperature: f64) -> Result<Self, PredictiveError> {
        Self::of(Likelihood::Gaussian { noise_variance }, targets, inverse_temperature)
    }

    /// An accumulator for targets of a likelihood of numbers, at inverse temperature β; several targets of a row stand side by side.
    ///
    /// # Errors
    /// Where there are no targets or no whole rows of them, or one of these is no number to predict with.
    pub fn of(likelihood: Likelihood, targets: &[f32], inverse_temperature: f64) -> Result<Self, PredictiveError> {
        if let Some(noise_variance) = likelihood.known_noise_variance() {
            positive("the noise variance", noise_variance)?;
        }
        let inverse_temperature = positive("the inverse temperature", inverse_temperature)?;
        let least = likelihood.least_power();
        if inverse_temperature <= least {
            return Err(PredictiveError::NoTemperedModel { inverse_temperature, least });
        }
        if targets.is_empty() {
            return Err(PredictiveError::NoPoints);
        }
        let num_targets = likelihood.num_targets();
        if !targets.len().is_multiple_of(num_targets) {
            return Err(PredictiveError::NotWholeRows { found: targets.len(), num_targets });
        }
        if let Some(point) = targets.iter().position(|target| !target.is_finite()) {
            return Err(PredictiveError::NonFiniteTarget { point, value: targets[point] });
        }
        let unseen = |&target: &f32| Point {
            target: f64::from(target),
            mean: 0.0,
            squared_deviations: 0.0,
            noise_variance: ByModel::default(),
            log_density: ByModel::default(),
            cumulative_sum: ByModel::default(),
        };
        let points = targets.iter().map(unseen).collect();
        let num_joint = if num_targets > 1 { targets.len() / num_targets } else { 0 };
        Ok(Self { likelihood, inverse_temperature, num_draws: 0, points, joint: vec![ByModel::default(); num_joint] })
    }

    /// Counts one draw, given the likelihood's values at every row; after an error nothing has changed.
    pub fn add_draw(&mut self, values: &[f32]) -> Result<(), PredictiveError> {
        let (per_row, num_targets) = (self.likelihood.num_values(), self.num_targets());
        check_outputs(values, self.num_draws, self.num_rows(), per_row)?;
        self.num_draws += 1;
        let mut of_row = ByModel { standard: 0.0, tempered: 0.0 };
        for (place, point) in self.points.iter_mut().enumerate() {
            let (row, target) = (place / num_targets, place % num_targets);
            let values = &values[row * per_row..][..per_row];
            let of_draw = ByModel::from_fn(|model| {
                let power = model.power(self.inverse_temperature);
                self.likelihood.number_distribution_of(target, values, power)
            });
            // Welford: no difference of large sums.
            let mean = of_draw.standard.mean();
            let deviation = mean - point.mean;
            point.mean += deviation / self.num_draws as f64;
            point.squared_deviations += deviation * (mean - point.mean);
            for model in PredictiveModel::BOTH {
                let (of_draw, noise) = (of_draw.get(model), point.noise_variance.get_mut(model));
                // Exact where the variance is the same for all draws; once infinite, as far tails can be, it stays so.
                let variance = of_draw.variance();
                *noise = match variance.is_finite() && noise.is_finite() {
                    true => *noise + (variance - *noise) / self.num_draws as f64,
                    false => f64::INFINITY,
                };
                let log_density = of_draw.log_density(point.target);
                point.log_density.get_mut(model).add(log_density);
                *point.cumulative_sum.get_mut(model) += of_draw.cumulative(point.target);
                *of_row.get_mut(model) += log_density;
            }
            if target + 1 == num_targets {
                for model in PredictiveModel::BOTH {
                    let log_density = std::mem::take(of_row.get_mut(model));
                    if let Some(joint) = self.joint.get_mut(row) {
                        joint.get_mut(model).add(log_density);
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts the draws of another accumulator of the same points.
    ///
    /// # Errors
    /// Where it has other points.
    pub fn merge(&mut self, other: &Self) -> Result<(), PredictiveError> {
        let same = self.points.len() == other.points.len()
            && self.joint.len() == other.joint.len()
            && self.points.iter().zip(&other.points).all(|(mine, theirs)| mine.target == theirs.target);
        if !same {
            return Err(PredictiveError::OtherPoints);
        }
        let (mine, theirs) = (self.num_draws as f64, other.num_draws as f64);
        self.num_draws += other.num_draws;
        if self.num_draws == 0 {
            return Ok(());
        }
        let all = self.num_draws as f64;
        for (point, added) in self.points.iter_mut().zip(&other.points) {
            let apart = added.mean - point.mean;
            point.mean += apart * theirs / all;
            point.squared_deviations += added.squared_deviations + apart * apart * mine * theirs / all;
            for model in PredictiveModel::BOTH {
                let (noise, added_noise) = (point.noise_variance.get_mut(model), *added.noise_variance.get(model));
                *noise = if mine == 0.0 { added_noise } else { *noise + (added_noise - *noise) * theirs / all };
                point.log_density.get_mut(model).merge(added.log_density.get(model));
                *point.cumulative_sum.get_mut(model) += added.cumulative_sum.get(model);
            }
        }
        for (joint, added) in self.joint.iter_mut().zip(&other.joint) {
            PredictiveModel::BOTH.iter().for_each(|&model| joint.get_mut(model).merge(added.get(model)));
        }
        Ok(())
    }

    /// What the mean variance given θ is once there are draws, where all draws have the same.
    fn known_noise_variance(&self) -> Option<ByModel<f64>> {
        let noise_variance = self.likelihood.known_noise_variance()?;
        Some(ByModel::from_fn(|model| noise_variance / model.power(self.inverse_temperature)))
    }

    /// The running sums, for [`RegressionPredictive::restore`].
    pub fn state(&self) -> Vec<f64> {
        let mut state = vec![self.num_draws as f64];
        let is_known = self.likelihood.known_noise_variance().is_some();
        for point in &self.points {
            state.extend([point.mean, point.squared_deviations]);
            if !is_known {
                state.extend([point.noise_variance.standard, point.noise_variance.tempered]);
            }
            for model in PredictiveModel::BOTH {
                state.extend(point.log_density.get(model).parts());
                state.push(*point.cumulative_sum.get(model));
            }
        }
        for joint in &self.joint {
            PredictiveModel::BOTH.iter().for_each(|&model| state.extend(joint.get(model).parts()));
        }
        state
    }

    /// Takes on the running sums that an accumulator of the same points had; `None`, and nothing changed, where they do not fit.
    pub fn restore(&mut self, state: &[f64]) -> Option<()> {
        let known = self.known_noise_variance();
        let moments = if known.is_some() { 2 } else { 4 };
        let per_point = moments + 8;
        let (num_draws, sums) = state.split_first()?;
        if sums.len() != per_point * self.points.len() + 6 * self.joint.len() {
            return None;
        }
        let (points, joint) = sums.split_at(per_point * self.points.len());
        self.num_draws = *num_draws as usize;
        for (point, state) in self.points.iter_mut().zip(points.chunks_exact(per_point)) {
            (point.mean, point.squared_deviations) = (state[0], state[1]);
            point.noise_variance = match known {
                _ if self.num_draws == 0 => ByModel::default(),
                Some(known) => known,
                None => ByModel { standard: state[2], tempered: state[3] },
            };
            for (model, sums) in PredictiveModel::BOTH.into_iter().zip(state[moments..].chunks_exact(4)) {
                *point.log_density.get_mut(model) = LogMeanExp::from_parts([sums[0], sums[1], sums[2]]);
                *point.cumulative_sum.get_mut(model) = sums[3];
            }
        }
        for (row, sums) in self.joint.iter_mut().zip(joint.chunks_exact(6)) {
            for (model, sums) in PredictiveModel::BOTH.into_iter().zip(sums.chunks_exact(3)) {
                *row.get_mut(model) = LogMeanExp::from_parts([sums[0], sums[1], sums[2]]);
            }
        }
        Some(())
    }

    /// How many points are held out: targets of rows.
    pub fn num_points(&self) -> usize {
        self.points.len()
    }

    /// Targets of a row.
    pub fn num_targets(&self) -> usize {
        self.likelihood.num_targets()
    }

    /// How many rows are held out.
    pub fn num_rows(&self) -> usize {
        self.points.len() / self.num_targets()
    }

    /// How many draws were counted.
    pub fn num_draws(&self) -> usize {
        self.num_draws
    }

    /// One number for every point, once there are draws.
    fn each_point(&self, number: impl Fn(&Point) -> f64) -> Result<Vec<f64>, PredictiveError> {
        if self.num_draws == 0 { Err(PredictiveError::NoDraws) } else { Ok(self.points.iter().map(number).collect()) }
    }

    /// The point predictions ŷ: the mean of μ_s over draws, the same for both models.
    pub fn means(&self) -> Result<Vec<f64>, PredictiveError> {
        self.each_point(|point| point.mean)
    }

    /// The predictive variances: the mean variance given θ + population variance of μ_s over draws.
    pub fn variances(&self, model: PredictiveModel) -> Result<Vec<f64>, PredictiveError> {
        self.each_point(|point| point.noise_variance.get(model) + point.squared_deviations / self.num_draws as f64)
    }

    /// log p̂(y_i|x_i) of every row: of all its targets together.
    pub fn log_densities(&self, model: PredictiveModel) -> Result<Vec<f64>, PredictiveError> {
        if self.joint.is_empty() || self.num_draws == 0 {
            return self.point_log_densities(model);
        }
        Ok(self.joint.iter().map(|joint| joint.get(model).value().unwrap_or(f64::NEG_INFINITY)).collect())
    }

    /// log p̂(y_i|x_i) of every point: of one target, whatever the others of its row are.
    pub fn point_log_densities(&self, model: PredictiveModel) -> Result<Vec<f64>, PredictiveError> {
        self.each_point(|point| point.log_density.get(model).value().unwrap_or(f64::NEG_INFINITY))
    }

    /// PIT_i = (1/S) Σ_s P(y < y_i | x_i, θ_s) of every point, from which coverage follows.
    pub fn pit_values(&self, model: PredictiveModel) -> Result<PitValues, PredictiveError> {
        PitValues::new(self.each_point(|point| point.cumulative_sum.get(model) / self.num_draws as f64)?)
    }

    /// The scores under one model, in the units of the targets given; of several targets the LPD is of whole rows, and the others are means over points.
    pub fn scores(&self, model: PredictiveModel) -> Result<RegressionScores, PredictiveError> {
        let average = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let pit_values = self.pit_values(model)?;
        Ok(RegressionScores {
            lpd: average(self.log_densities(model)?),
            mse: average(self.each_point(|point| (point.target - point.mean).powi(2))?),
            mae: average(self.each_point(|point| (point.target - point.mean).abs())?),
            mean_variance: average(self.variances(model)?),
            coverage_50: pit_values.share_inside(0.50),
            coverage_90: pit_values.share_inside(0.90),
            coverage_95: pit_values.share_inside(0.95),
            calibration_error: pit_values.calibration_error(),
        })
    }

    /// The scores of each target by itself, whatever the others of its row are.
    pub fn scores_by_target(&self) -> Result<Vec<ByModel<RegressionScores>>, PredictiveError> {
        let num_targets = self.num_targets();
        let one = |target: usize| Self {
            points: self.points.iter().skip(target).step_by(num_targets).cloned().collect(),
            joint: Vec::new(),
            ..*self
        };
        (0..num_targets).map(|target| one(target).both_scores()).collect()
    }

    /// The scores under both models.
    pub fn both_scores(&self) -> Result<ByModel<RegressionScores>, PredictiveError> {
        Ok(ByModel {
            standard: self.scores(PredictiveModel::Standard)?,
            tempered: self.scores(PredictiveModel::Tempered)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::NumberMixture;
    use super::*;
    use crate::likelihood::normal;
    use crate::quantile::normal_quantile;

    const STANDARD: PredictiveModel = PredictiveModel::Standard;
    const TEMPERED: PredictiveModel = PredictiveModel::Tempered;

    /// The paper's plug-in rows: LPD = −½ log(2πσ²) − MSE/(2σ²) = 1.3836 − MSE/0.02 at σ² = 0.01.
    #[test]
    fn one_draw_is_the_point_estimate() {
        let mut predictive = RegressionPredictive::new(&[0.5, -1.0], 0.01, 4.0).unwrap();
        predictive.add_draw(&[0.25, -1.5]).unwrap();
        let scores = predictive.both_scores().unwrap();
        let mse = (0.0625 + 0.25) / 2.0;
        assert_eq!((scores.standard.mse, scores.tempered.mse, scores.standard.mae), (mse, mse, 0.375));
        assert!((scores.standard.lpd - (1.383_646_559_789_373 - mse / 0.02)).abs() < 1e-12);
        assert!((scores.tempered.lpd - (1.383_646_559_789_373 + 2f64.ln() - 4.0 * mse / 0.02)).abs() < 1e-12);
        assert_eq!((scores.standard.mean_variance, scores.tempered.mean_variance), (0.01, 0.0025));
        assert_eq!(predictive.means().unwrap(), [0.25, -1.5]);
    }

    #[test]
    fn the_running_sums_agree_with_the_mixture() {
        let draws: [f32; 5] = [0.1, -0.4, 0.9, 2.0, 0.3];
        let mut predictive = RegressionPredictive::new(&[0.6], 0.04, 3.0).unwrap();
        draws.iter().for_each(|&mean| predictive.add_draw(&[mean]).unwrap());
        for (model, variance) in [(STANDARD, 0.04), (TEMPERED, 0.04 / 3.0)] {
            let mixture = NumberMixture::normal(&draws, variance).unwrap();
            let target = f64::from(0.6f32);
            assert!((predictive.log_densities(model).unwrap()[0] - mixture.log_density(target)).abs() < 1e-13);
            assert!((predictive.pit_values(model).unwrap().values()[0] - mixture.cumulative(target)).abs() < 1e-15);
            assert!((predictive.variances(model).unwrap()[0] - mixture.variance()).abs() < 1e-14);
            assert!((predictive.means().unwrap()[0] - mixture.mean()).abs() < 1e-15);
        }
    }

    /// Targets at the stratified quantiles of N(0, σ²): the standard intervals cover exactly; the tempered ones, of
    /// half the width, cover 2Φ(z_q/2) − 1.
    #[test]
    fn exact_normal_targets_are_covered_as_stated() {
        let targets: Vec<f32> =
            (0..4000).map(|i| (0.1 * normal_quantile((f64::from(i) + 0.5) / 4000.0)) as f32).collect();
        let mut predictive = RegressionPredictive::new(&targets, 0.01, 4.0).unwrap();
        predictive.add_draw(&vec![0.0; targets.len()]).unwrap();
        let scores = predictive.both_scores().unwrap();
        let standard = [scores.standard.coverage_50, scores.standard.coverage_90, scores.standard.coverage_95];
        assert_eq!(standard, [0.5, 0.9, 0.95]);
        assert!(scores.standard.calibration_error < 1e-12);
        let tempered = [scores.tempered.coverage_50, scores.tempered.coverage_90, scores.tempered.coverage_95];
        for (found, upper) in tempered.iter().zip([0.75, 0.95, 0.975]) {
            let expected = 2.0 * normal::cumulative(0.5 * normal_quantile(upper)) - 1.0;
            assert!((found - expected).abs() < 1e-3, "{found} {expected}");
        }
        assert!(scores.tempered.calibration_error > 0.2);
    }

    #[test]
    fn a_far_outlier_keeps_a_finite_density() {
        let mut predictive = RegressionPredictive::new(&[1000.0], 0.01, 100.0).unwrap();
        predictive.add_draw(&[0.0]).unwrap();
        predictive.add_draw(&[1.0]).unwrap();
        let expected = normal::log_density(999.0, 0.01) - 2f64.ln();
        assert!((predictive.log_densities(STANDARD).unwrap()[0] / expected - 1.0).abs() < 1e-12);
        assert!(predictive.scores(TEMPERED).unwrap().lpd.is_finite());
    }

    #[test]
    fn a_refused_draw_changes_nothing() {
        let mut predictive = RegressionPredictive::new(&[0.0, 1.0], 1.0, 1.0).unwrap();
        assert_eq!(predictive.means(), Err(PredictiveError::NoDraws));
        assert_eq!(predictive.scores(STANDARD), Err(PredictiveError::NoDraws));
        predictive.add_draw(&[0.5, 0.5]).unwrap();
        let before = predictive.clone();
        assert!(matches!(predictive.add_draw(&[0.5]), Err(PredictiveError::WrongLength { draw: 1, found: 1, .. })));
        let broken = predictive.add_draw(&[0.5, f32::INFINITY]);
        assert!(matches!(broken, Err(PredictiveError::NonFiniteOutput { draw: 1, point: 1, .. })));
        assert_eq!(predictive, before);
    }

    #[test]
    fn bad_settings_are_refused() {
        assert_eq!(RegressionPredictive::new(&[], 1.0, 1.0), Err(PredictiveError::NoPoints));
        assert!(RegressionPredictive::new(&[0.0], 0.0, 1.0).is_err());
        assert!(RegressionPredictive::new(&[0.0], 1.0, f64::NAN).is_err());
        let error = RegressionPredictive::new(&[0.0, f32::NAN], 1.0, 1.0).unwrap_err();
        assert!(matches!(error, PredictiveError::NonFiniteTarget { point: 1, .. }));
    }

    #[test]
    fn an_accumulator_survives_a_checkpoint() {
        let empty = RegressionPredictive::new(&[0.0, 1.0], 0.01, 4.0).unwrap();
        let (mut straight, mut resumed) = (empty.clone(), empty.clone());
        for means in [[0.5, 0.25], [0.1, 1.3]] {
            let state = resumed.state();
            resumed = empty.clone();
            resumed.restore(&state).unwrap();
            resumed.add_draw(&means).unwrap();
            straight.add_draw(&means).unwrap();
        }
        assert_eq!(resumed, straight);
        assert!(resumed.restore(&[1.0; 3]).is_none() && resumed == straight);
    }

    #[test]
    fn draws_may_be_counted_apart_and_put_together() {
        let draws: [[f32; 2]; 5] = [[0.1, 2.0], [-0.4, 1.0], [0.9, 1.5], [2.0, 0.0], [0.3, 1.1]];
        let empty = RegressionPredictive::new(&[0.6, 1.0], 0.04, 3.0).unwrap();
        let mut straight = empty.clone();
        draws.iter().for_each(|means| straight.add_draw(means).unwrap());
        for cut in 0..=draws.len() {
            let mut parts = [empty.clone(), empty.clone()];
            draws.iter().enumerate().for_each(|(i, means)| parts[usize::from(i >= cut)].add_draw(means).unwrap());
            let [mut first, second] = parts;
            first.merge(&second).unwrap();
            let (merged, wanted) = (first.scores(TEMPERED).unwrap(), straight.scores(TEMPERED).unwrap());
            assert_eq!(first.num_draws(), 5);
            for (merged, wanted) in
                [(merged.lpd, wanted.lpd), (merged.mse, wanted.mse), (merged.mean_variance, wanted.mean_variance)]
            {
                assert!((merged - wanted).abs() < 1e-13, "{cut}: {merged} {wanted}");
            }
        }
        let other = RegressionPredictive::new(&[0.6, 1.5], 0.04, 3.0).unwrap();
        assert_eq!(straight.merge(&other), Err(PredictiveError::OtherPoints));
    }
}
