//! When a measured number becomes a warning.

use super::kinetic::mean_temperature_band;
use super::trend::Trend;
use super::warning::{Reading, Stated, Warning};

/// The borders beyond which a result is called doubtful; a measured NaN is always doubtful.
///
/// The defaults of temperature and R̂ are what the paper's own runs keep to; those of heating, effective draws, the
/// spread of β̂, unsteady rows, predictions and ranges are a matter of judgement. Where chance alone can lead beyond a border, the
/// border holds with a stated rate of false alarms, and a difference must be large as well as no chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Largest |measured β / target β − 1|. Healthy chains stay within 1–5 %.
    pub relative_temperature_error: f64,
    /// Largest kinetic temperature over all steps, relative to what the discretisation should show.
    pub heating: f64,
    /// Largest h√λmax: beyond it, on Concrete, energies were off by more than a percent.
    pub step_ratio: f64,
    /// Largest gain in SM LPD from halves of the draws to all, in nats.
    pub few_draws_bias: f64,
    /// Smallest bulk ESS of the kept draws.
    pub effective_draws: f64,
    /// Largest R̂ of the potential energy; up to 4 is usual here.
    pub rhat: f64,
    /// Largest ratio of the largest to the smallest β̂ over seeds.
    pub beta_ratio: f64,
    /// Largest share of training rows whose log density varies too much for WAIC.
    pub unsteady_share: f64,
    /// Largest R̂ of predictions at the median held-out row.
    pub prediction_rhat: f64,
    /// Largest R̂ of predictions at the worst held-out row, which chance alone takes further.
    pub worst_prediction_rhat: f64,
    /// Largest difference between the share of held-out targets that intervals or quantiles hold and the one they state.
    pub coverage_gap: f64,
    /// How often calibrated predictions, or tensors of the right temperature, are warned of.
    pub false_alarm_rate: f64,
    /// Largest β̂.
    pub beta: f64,
    /// How far below that of the base rate an LPD may lie, in standard errors of the difference.
    pub base_rate_errors: f64,
    /// How far outside the training range a feature may lie, in widths of the range.
    pub range_widths: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            relative_temperature_error: 0.05,
            heating: 1.25,
            step_ratio: 1.5,
            few_draws_bias: 0.02,
            effective_draws: 20.0,
            rhat: 4.0,
            beta_ratio: 3.0,
            unsteady_share: 0.05,
            prediction_rhat: 1.05,
            worst_prediction_rhat: 2.0,
            coverage_gap: 0.1,
            false_alarm_rate: 1e-3,
            beta: 100.0,
            base_rate_errors: 2.0,
            range_widths: 1.0,
        }
    }
}

impl Limits {
    /// Compares a measured inverse temperature with the one asked for.
    pub fn check_temperature(&self, label: &str, target_beta: f64, measured_beta: f64, at: Reading) -> Option<Warning> {
        let within = (measured_beta / target_beta - 1.0).abs() <= self.relative_temperature_error;
        (!within).then(|| Warning::MeasuredTemperatureOff { label: label.into(), target_beta, measured_beta, at })
    }

    /// Compares the mean kinetic temperature over all steps with the one the discretisation should show. Heat that is there where the step is
    /// smallest as well (`at_small_steps`, relative to the temperature asked for) is no matter of the step.
    pub fn check_heating(
        &self,
        label: &str,
        measured_temperature: f64,
        discretised_target: f64,
        at_small_steps: Option<f64>,
    ) -> Option<Warning> {
        let heating = measured_temperature / discretised_target;
        if heating <= self.heating {
            return None;
        }
        Some(match at_small_steps.filter(|&left| left > self.heating) {
            Some(heating) => Warning::NotInEquilibrium { label: label.into(), heating },
            None => Warning::StepSizeTooLarge { label: label.into(), heating },
        })
    }

    /// Compares the kinetic temperature of chains whose step fits the curvature, relative to the expected one, with 1: what is off is no matter of the
    /// step. The noise of minibatches may heat by as much again, as its bound allows.
    pub fn check_rest(&self, label: &str, heating: f64, minibatches: bool) -> Option<Warning> {
        let most = if minibatches { 2.0 } else { 1.0 } * self.relative_temperature_error;
        let within = (heating - 1.0).abs() <= most;
        (!within).then(|| Warning::NotInEquilibrium { label: label.into(), heating })
    }

    /// Compares h√λmax with what keeps energies right.
    pub fn check_step(&self, label: &str, ratio: f64) -> Option<Warning> {
        let fits = ratio <= self.step_ratio;
        (!fits).then(|| Warning::StepBeyondCurvature { label: label.into(), ratio })
    }

    /// Asks whether more draws would still raise the predictive density.
    pub fn check_few_draws(&self, label: &str, gained: f64) -> Option<Warning> {
        let enough = gained <= self.few_draws_bias;
        (!enough).then(|| Warning::FewDrawsBias { label: label.into(), gained })
    }

    /// Asks whether the kept draws are worth enough independent ones.
    pub fn check_effective_draws(&self, label: &str, bulk_ess: f64, num_draws: usize) -> Option<Warning> {
        let enough = bulk_ess >= self.effective_draws;
        (!enough).then(|| Warning::FewEffectiveDraws { label: label.into(), bulk_ess, num_draws })
    }

    /// Asks whether the chains agree as far as chains of a neural network do.
    pub fn check_agreement(&self, label: &str, rhat: f64) -> Option<Warning> {
        let agree = rhat <= self.rhat;
        (!agree).then(|| Warning::ChainsDisagree { label: label.into(), rhat })
    }

    /// Asks whether U was seen to settle in a warm-up; without a trend (no warm-up, or a very short one) there is nothing to say.
    pub fn check_trend(&self, label: &str, trend: Option<Trend>) -> Option<Warning> {
        let Trend { change, standard_error, effective } =
            trend.filter(|trend| trend.is_clear() || !trend.can_tell())?;
        Some(Warning::EnergyStillMoving { label: label.into(), change, standard_error, effective })
    }

    /// Asks whether WAIC's correction holds: it is the first term of a series in how log densities vary over draws.
    pub fn check_unsteady_rows(&self, label: &str, share: f64) -> Option<Warning> {
        let steady = share <= self.unsteady_share;
        (!steady).then(|| Warning::UnsteadyRows { label: label.into(), share })
    }

    /// Asks whether the chains predict the same at held-out rows.
    pub fn check_predictions(
        &self,
        label: &str,
        median_rhat: f64,
        worst_rhat: f64,
        num_rows: usize,
    ) -> Option<Warning> {
        let agree = median_rhat <= self.prediction_rhat && worst_rhat <= self.worst_prediction_rhat;
        (!agree).then(|| Warning::PredictionsDisagree { label: label.into(), median_rhat, worst_rhat, num_rows })
    }

    /// Compares the kinetic temperatures of tensors, given by name, size and ratio to the one asked for, with what chance makes of
    /// the mean of so many independent readings. The rate of false alarms is that of all tensors together.
    pub fn check_tensors(
        &self,
        label: &str,
        tensors: &[(&str, usize, f64)],
        independent_readings: f64,
    ) -> Option<Warning> {
        let num_tensors = tensors.len();
        let level = 1.0 - self.false_alarm_rate / num_tensors.max(1) as f64;
        let off = tensors.iter().filter_map(|&(tensor, size, ratio)| {
            let band = mean_temperature_band(size, independent_readings, level).ok()?;
            let is_near = (ratio - 1.0).abs() <= self.relative_temperature_error;
            (!is_near && !(band.0..=band.1).contains(&ratio)).then_some((tensor, ratio, band))
        });
        let off: Vec<(&str, f64, (f64, f64))> = off.collect();
        let far = |ratio: f64| ratio.ln().abs();
        let &(tensor, ratio, (low, high)) = off.iter().max_by(|a, b| far(a.1).total_cmp(&far(b.1)))?;
        let (label, num_off, tensor) = (label.into(), off.len(), tensor.into());
        Some(Warning::TensorTemperatureOff { label, num_off, num_tensors, tensor, ratio, low, high })
    }

    /// Compares the share of held-out targets that intervals or quantiles hold with the one they state, at the level where they
    /// differ most. By the inequality of Dvoretzky, Kiefer and Wolfowitz, P(sup |F̂ − F| > ε) ≤ 2 exp(−2nε²), calibrated predictions
    /// are warned of at most at half the rate of false alarms, so that both kinds of levels can be asked for.
    pub fn check_coverage(
        &self,
        label: &str,
        stated: Stated,
        (nominal, observed): (f64, f64),
        num_rows: usize,
    ) -> Option<Warning> {
        let chance = ((4.0 / self.false_alarm_rate).ln() / (2.0 * num_rows as f64)).sqrt();
        let holds = (observed - nominal).abs() <= chance.max(self.coverage_gap);
        (!holds).then(|| Warning::CoverageOff { label: label.into(), stated, nominal, observed, num_rows })
    }

    /// Asks whether β̂ is one that data ask for.
    pub fn check_beta(&self, beta: f64) -> Option<Warning> {
        let usual = beta <= self.beta;
        (!usual).then_some(Warning::BetaVeryLarge { beta })
    }

    /// Compares log densities of held-out targets, row by row, with those of a prediction that ignores the inputs.
    pub fn check_base_rate(&self, label: &str, log_densities: &[f64], base: &[f64], classes: bool) -> Option<Warning> {
        let count = log_densities.len() as f64;
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / count;
        let lpd = mean(&mut log_densities.iter().copied());
        let base_lpd = mean(&mut base.iter().copied());
        let gains = || log_densities.iter().zip(base).map(|(log_density, base)| log_density - base);
        let gain = mean(&mut gains());
        let squares: f64 = gains().map(|each| (each - gain).powi(2)).sum();
        let standard_error = (squares / (count - 1.0) / count).sqrt();
        // Of one row, or of a density of 0, there is no standard error.
        let slack = if standard_error.is_finite() { self.base_rate_errors * standard_error } else { 0.0 };
        let better = gain >= -slack || log_densities.is_empty();
        (!better).then(|| Warning::WorseThanBaseRate { label: label.into(), lpd, base_lpd, classes })
    }

    /// Compares features of rows to predict, row-major, with the smallest and largest of the training rows.
    pub fn check_ranges(&self, names: &[String], ranges: &[(f64, f64)], rows: &[f64]) -> Option<Warning> {
        let width = ranges.len().max(1);
        let mut num_outside = 0;
        let mut furthest = (self.range_widths, None);
        for row in rows.chunks_exact(width) {
            // 0/0 is no number: a value that is the only one of the training rows is not outside.
            let beyond = |(&(low, high), value): (&(f64, f64), &f64)| (low - value).max(value - high) / (high - low);
            let far = ranges.iter().zip(row).map(beyond).enumerate().filter(|(_, beyond)| *beyond > self.range_widths);
            let worst = far.max_by(|a, b| a.1.total_cmp(&b.1));
            num_outside += usize::from(worst.is_some());
            if let Some((column, beyond)) = worst.filter(|(_, beyond)| *beyond > furthest.0) {
                furthest = (beyond, Some((column, row[column])));
            }
        }
        let (column, value) = furthest.1?;
        let ((low, high), column) = (ranges[column], names[column].clone());
        let num_rows = rows.len() / width;
        Some(Warning::RowsOutsideTraining { num_outside, num_rows, column, value, low, high })
    }

    /// Asks whether the seeds chose about the same inverse temperature.
    pub fn check_seeds(&self, betas: &[f64]) -> Option<Warning> {
        let largest = betas.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let smallest = betas.iter().copied().fold(f64::INFINITY, f64::min);
        let alike = betas.iter().all(|beta| !beta.is_nan()) && largest <= self.beta_ratio * smallest;
        (!alike).then(|| Warning::BetaUnstableOverSeeds { betas: betas.to_vec() })
    }

    /// Asks whether the chosen inverse temperature lies inside the grid; a grid of one has no inside to leave.
    pub fn check_grid(&self, grid: &[f64], beta: f64, metric: &str) -> Option<Warning> {
        let inside = grid.iter().any(|&other| other < beta) && grid.iter().any(|&other| other > beta);
        (grid.len() > 1 && !inside).then(|| Warning::BetaAtGridEdge { beta, metric: metric.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures_of_the_checked_recipe() {
        let limits = Limits::default();
        let at = Reading::CycleEnds;
        for (target, measured, off) in [(1.0, 0.996, false), (100.0, 99.0, false), (1000.0, 917.0, true)] {
            assert_eq!(limits.check_temperature("energy", target, measured, at).is_some(), off, "{target}");
        }
        assert!(limits.check_temperature("broken", 1.0, f64::NAN, at).is_some());
        assert!(limits.check_heating("naval", 3.0, 1.0, None).is_some());
        assert!(limits.check_heating("naval", 1.0101, 1.0101, None).is_none());
    }

    #[test]
    fn draws_chains_seeds_and_grids() {
        let limits = Limits::default();
        assert!(limits.check_effective_draws("a", 8.0, 100).is_some());
        assert!(limits.check_effective_draws("a", 80.0, 100).is_none());
        assert!(limits.check_agreement("a", 3.9).is_none());
        assert!(limits.check_agreement("a", f64::INFINITY).is_some());
        assert!(limits.check_seeds(&[7.4, 4.9, 7.9, 4.1, 4.6]).is_none());
        assert!(limits.check_seeds(&[21.0, 3.5, 3.4, 3.5, 20.0]).is_some());
        assert!(limits.check_seeds(&[]).is_none());
        assert!(limits.check_seeds(&[1.0, f64::NAN]).is_some());
        assert!(limits.check_agreement("a", f64::NAN).is_some());
        assert!(limits.check_grid(&[0.1, 1.0, 10.0], 10.0, "MSE").is_some());
        assert!(limits.check_grid(&[0.1, 1.0, 10.0], 1.0, "MSE").is_none());
        assert!(limits.check_grid(&[1.0], 1.0, "MSE").is_none());
        assert!(limits.check_unsteady_rows("a", 0.04).is_none());
        assert!(limits.check_unsteady_rows("a", 0.06).is_some());
    }

    /// What lies on a border is within it.
    #[test]
    fn borders_belong_to_what_is_fine() {
        let limits = Limits::default();
        assert!(
            limits.check_heating("a", 1.25, 1.0, None).is_none()
                && limits.check_heating("a", 1.26, 1.0, None).is_some()
        );
        // Heat that a small step has as well is not the step's.
        let left = |ratio| limits.check_heating("a", 1.5, 1.0, Some(ratio)).unwrap();
        assert_eq!((left(1.25).name(), left(1.26).name()), ("step size too large", "not in equilibrium"));
        assert!(limits.check_step("a", 1.5).is_none() && limits.check_step("a", 1.51).is_some());
        assert!(limits.check_few_draws("a", 0.02).is_none() && limits.check_few_draws("a", 0.021).is_some());
        assert!(limits.check_effective_draws("a", 20.0, 100).is_none());
        assert!(limits.check_effective_draws("a", 19.9, 100).is_some());
        assert!(limits.check_agreement("a", 4.0).is_none() && limits.check_agreement("a", 4.01).is_some());
        assert!(limits.check_unsteady_rows("a", 0.05).is_none());
        assert!(limits.check_seeds(&[1.0, 3.0]).is_none() && limits.check_seeds(&[1.0, 3.01]).is_some());
        assert!(limits.check_grid(&[0.1, 1.0, 10.0], 0.1, "MSE").is_some(), "the lower end is an edge too");
        // Both sides of a temperature: 5 % is allowed, 6 % is not.
        for (measured, off) in [(0.951, false), (1.049, false), (0.94, true), (1.06, true)] {
            assert_eq!(limits.check_temperature("a", 1.0, measured, Reading::AllSteps).is_some(), off, "{measured}");
        }
    }

    #[test]
    fn chains_that_predict_apart() {
        let limits = Limits::default();
        let check = |median, worst| limits.check_predictions("a", median, worst, 10).is_some();
        assert!(!check(1.05, 2.0) && !check(0.99, 1.0));
        assert!(check(1.051, 1.06) && check(1.0, 2.01) && check(f64::NAN, 1.0));
    }

    /// Of 40 readings of 10 momenta the band at 1 in 2000 is about 1 ± 3.5 √(2/400); of 4000 momenta it is narrower than 5 %, and
    /// 5 % must be passed as well.
    #[test]
    fn tensors_off_their_temperature() {
        let limits = Limits::default();
        let off = |small: f64, large: f64| {
            let tensors = [("bias", 10, small), ("kernel", 4000, large)];
            let Warning::TensorTemperatureOff { num_off, num_tensors: 2, tensor, low, high, .. } =
                limits.check_tensors("a", &tensors, 40.0)?
            else {
                panic!("another warning")
            };
            assert!(low < 1.0 && high > 1.0);
            Some((num_off, tensor))
        };
        assert_eq!((off(1.2, 1.04), off(0.8, 0.96)), (None, None));
        assert_eq!(off(1.3, 1.06), Some((2, "bias".into())));
        assert_eq!(off(0.7, 1.0), Some((1, "bias".into())));
        assert_eq!(off(1.3, 0.5), Some((2, "kernel".into())), "colder by half is further than hotter by a third");
        assert_eq!(off(1.3, f64::NAN), Some((2, "kernel".into())));
    }

    /// ε = √(log(4/0.001)/2n) is 0.2036 for 100 rows and 0.0644 for 1000, where the gap of 0.1 rules.
    #[test]
    fn shares_that_are_not_what_is_stated() {
        let limits = Limits::default();
        let off = |observed: f64, num_rows| {
            limits.check_coverage("a", Stated::CentralInterval, (0.2, observed), num_rows).is_some()
        };
        assert!(off(0.57, 103), "what was seen on a real table");
        assert!(!off(0.40, 100) && off(0.41, 100) && !off(0.0, 100));
        assert!(!off(0.299, 1000) && off(0.301, 1000) && off(0.09, 1000));
    }

    #[test]
    fn a_large_beta() {
        let limits = Limits::default();
        assert!(limits.check_beta(100.0).is_none() && limits.check_beta(0.01).is_none());
        assert!(limits.check_beta(100.1).is_some() && limits.check_beta(f64::NAN).is_some());
    }

    /// Gains −1 ± 0.4 of two rows: mean −1, standard error 0.4. Gains −0.5 ± 0.4: within two of them.
    #[test]
    fn densities_worse_than_the_base_rate() {
        let limits = Limits::default();
        let check = |gains: [f64; 2]| limits.check_base_rate("a", &gains.map(|gain| gain - 0.7), &[-0.7; 2], true);
        let Some(Warning::WorseThanBaseRate { lpd, base_lpd, classes: true, .. }) = check([-1.4, -0.6]) else {
            panic!("it is worse")
        };
        assert!((lpd + 1.7).abs() < 1e-12 && (base_lpd + 0.7).abs() < 1e-12);
        assert!(check([-0.9, -0.1]).is_none() && check([0.5, 0.6]).is_none());
        assert!(check([f64::NEG_INFINITY, 0.0]).is_some() && check([f64::NAN, 0.0]).is_some());
        assert!(limits.check_base_rate("a", &[-2.0], &[-1.0], false).is_some());
        assert!(limits.check_base_rate("a", &[], &[], false).is_none());
    }

    #[test]
    fn rows_outside_of_what_was_learned_from() {
        let limits = Limits::default();
        let names = ["a", "b"].map(String::from);
        let ranges = [(0.0, 10.0), (5.0, 6.0)];
        let check = |rows: &[f64]| limits.check_ranges(&names, &ranges, rows);
        assert_eq!(check(&[-10.0, 7.0, 20.0, 4.0]), None, "one width beyond each end");
        // Beyond by 1.1 widths, by 1.5 and by 2: the last counts, and the middle row is inside.
        let found = check(&[21.0, 7.5, 5.0, 5.5, 5.0, 3.0]);
        let expected = Warning::RowsOutsideTraining {
            num_outside: 2,
            num_rows: 3,
            column: "b".into(),
            value: 3.0,
            low: 5.0,
            high: 6.0,
        };
        assert_eq!(found, Some(expected));
        // A column that is constant in the training rows is outside as soon as it differs.
        let constant = |value| limits.check_ranges(&names[..1], &[(2.0, 2.0)], &[value]);
        assert!(constant(2.0).is_none() && constant(2.5).is_some() && constant(1.5).is_some());
    }

    #[test]
    fn heat_is_measured_against_what_the_step_should_show() {
        let limits = Limits::default();
        assert!(limits.check_heating("a", 2.4, 2.0, None).is_none());
        let found = limits.check_heating("a", 3.0, 2.0, None);
        assert_eq!(found, Some(Warning::StepSizeTooLarge { label: "a".into(), heating: 1.5 }));
    }

    /// One width beyond a range is still within reach of it; of two values as far outside the first is named.
    #[test]
    fn rows_outside_begin_beyond_one_width() {
        let limits = Limits::default();
        let names = ["a".to_owned(), "b".to_owned()];
        let ranges = [(0.0, 2.0), (10.0, 14.0)];
        assert_eq!(limits.check_ranges(&names, &ranges, &[4.0, 6.0, -2.0, 18.0]), None);
        let rows = [5.0, 12.0, 1.0, 20.0, 1.0, 12.0, -3.0, 4.0];
        let found = limits.check_ranges(&names, &ranges, &rows);
        let furthest = Warning::RowsOutsideTraining {
            num_outside: 3,
            num_rows: 4,
            column: "a".into(),
            value: 5.0,
            low: 0.0,
            high: 2.0,
        };
        assert_eq!(found, Some(furthest));
    }

    #[test]
    fn chains_at_rest_are_near_their_temperature() {
        let limits = Limits::default();
        let off = |heating, minibatches| limits.check_rest("a", heating, minibatches).is_some();
        assert_eq!([1.049, 0.951, 1.051, 0.949].map(|heating| off(heating, false)), [false, false, true, true]);
        assert_eq!([1.099, 0.901, 1.101, 0.899].map(|heating| off(heating, true)), [false, false, true, true]);
    }

    #[test]
    fn energies_that_move_or_cannot_tell_are_said() {
        let limits = Limits::default();
        let said = |change, effective| {
            let trend = Trend { change, standard_error: 1.0, effective };
            limits.check_trend("a", Some(trend)).is_some()
        };
        assert_eq!([said(10.0, 50.0), said(0.1, 50.0), said(0.1, 5.0)], [true, false, true]);
        assert_eq!(limits.check_trend("a", None), None);
    }

    /// Half of the rate of false alarms for each of two tensors.
    #[test]
    fn alarms_are_shared_out_over_tensors() {
        let limits = Limits::default();
        let (_, high) = mean_temperature_band(10, 40.0, 1.0 - 0.5 * limits.false_alarm_rate).unwrap();
        let off = |ratio| limits.check_tensors("a", &[("bias", 10, ratio), ("kernel", 4000, 1.0)], 40.0).is_some();
        assert_eq!([off(0.999 * high), off(1.001 * high)], [false, true]);
    }

    /// Four gains −1 ± d have the standard error d/√3, and twice that is allowed.
    #[test]
    fn losses_within_two_standard_errors_are_no_news() {
        let limits = Limits::default();
        let worse =
            |d: f64| limits.check_base_rate("a", &[-1.0 - d, -1.0 + d, -1.0 - d, -1.0 + d], &[0.0; 4], false).is_some();
        assert_eq!([worse(0.86), worse(0.87)], [true, false]);
    }
}
