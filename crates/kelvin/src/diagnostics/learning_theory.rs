//! Singular learning theory from draws: WAIC, functional variance, the learning coefficient λ and the singular fluctuation ν(β).
//!
//! With log p_is = log p(y_i|x_i,θ_s) at training rows and draws of a posterior at β, E and Var over draws,
//!
//! ```text
//! T  = −mean_i log E p_is            training loss           E_D T = L₀ + ((λ − ν)/β − ν)/n
//! V  = Σ_i Var log p_is              functional variance
//! W  = T + β V/n                     WAIC, as a loss         E_D W = E_D of the test loss + O(1/n²)
//! ν̂  = β V/2
//! λ̂  = β n (E L − L(θ̂)),             L(θ) = −mean_i log p(y_i|x_i,θ)
//!    or n (E_β L − E_β' L)/(1/β − 1/β') of draws at two temperatures, which needs no θ̂
//! −LPD(β) = L₀ + ((λ − ν(β))/β + ν(β))/n + o(1/n)                                             the paper's eq. 4
//! ```
//! (Watanabe, JMLR 2010 and 2013; the second λ̂ is his thermodynamic difference.) The first λ̂ is that of WBIC and of the local
//! learning coefficient (Lau et al. 2023): asymptotically right at β = 1/log n with θ̂ a global minimum of L, at every β for regular
//! models, and with a local θ̂ a statement about its neighbourhood alone. Where the posterior tempers the prior too, or the prior
//! is not flat on the scale of the posterior, both feel it. A well-specified regular model has λ = ν = d/2.

use serde::{Deserialize, Serialize};

/// A row whose log density varies by more over draws makes WAIC doubtful (Vehtari, Gelman and Gabry 2017).
pub const UNSTEADY_VARIANCE: f64 = 0.4;

/// Log densities of training rows, gathered draw by draw.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingDensities {
    inverse_temperature: f64,
    num_draws: usize,
    /// n, all training rows: those that are seen stand for them.
    num_examples: usize,
    /// Per row: largest log density, Σ exp(log p − largest), running mean and Σ of squared deviations of log p.
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    largest: f64,
    scaled_sum: f64,
    mean: f64,
    squared_deviations: f64,
}

/// What draws at one β say about the posterior's generalisation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearningTheory {
    /// β.
    pub inverse_temperature: f64,
    /// n.
    pub num_rows: usize,
    /// Rows that were looked at: all, or some that stand for them.
    pub num_rows_seen: usize,
    /// T: the mean negative log predictive density of the training rows.
    pub training_loss: f64,
    /// E L: the mean over draws and rows of the negative log density.
    pub gibbs_loss: f64,
    /// V, of all n rows.
    pub functional_variance: f64,
    /// The share of rows whose log density varies by more than [`UNSTEADY_VARIANCE`] over draws.
    pub unsteady_share: f64,
}

impl TrainingDensities {
    /// None yet, of so many rows, at β.
    pub fn new(inverse_temperature: f64, num_rows: usize) -> Self {
        let unseen = Row { largest: f64::NEG_INFINITY, scaled_sum: 0.0, mean: 0.0, squared_deviations: 0.0 };
        Self { inverse_temperature, num_draws: 0, num_examples: num_rows, rows: vec![unseen; num_rows] }
    }

    /// The same rows as a sample of so many.
    pub fn standing_for(self, num_examples: usize) -> Self {
        Self { num_examples, ..self }
    }

    /// Counts one draw, given log p(y_i|x_i,θ) of every row.
    ///
    /// # Panics
    /// If there are not as many as rows.
    pub fn add_draw(&mut self, log_densities: &[f64]) {
        assert_eq!(log_densities.len(), self.rows.len(), "one log density for each training row");
        self.num_draws += 1;
        for (row, &log_density) in self.rows.iter_mut().zip(log_densities) {
            if log_density > row.largest {
                row.scaled_sum = row.scaled_sum * (row.largest - log_density).exp() + 1.0;
                row.largest = log_density;
            } else {
                row.scaled_sum += (log_density - row.largest).exp();
            }
            let deviation = log_density - row.mean;
            row.mean += deviation / self.num_draws as f64;
            row.squared_deviations += deviation * (log_density - row.mean);
        }
    }

    /// What they say; none of fewer than two draws, or of densities that are not finite.
    pub fn summary(&self) -> Option<LearningTheory> {
        let (rows, draws) = (self.rows.len() as f64, self.num_draws as f64);
        let log_mean = |row: &Row| row.largest + (row.scaled_sum / draws).ln();
        let variances = || self.rows.iter().map(|row| row.squared_deviations / (draws - 1.0));
        let found = LearningTheory {
            inverse_temperature: self.inverse_temperature,
            num_rows: self.num_examples,
            num_rows_seen: self.rows.len(),
            training_loss: -self.rows.iter().map(log_mean).sum::<f64>() / rows,
            gibbs_loss: -self.rows.iter().map(|row| row.mean).sum::<f64>() / rows,
            functional_variance: variances().sum::<f64>() * (self.num_examples as f64 / rows),
            unsteady_share: variances().filter(|&variance| variance > UNSTEADY_VARIANCE).count() as f64 / rows,
        };
        let finite = [found.training_loss, found.gibbs_loss, found.functional_variance].iter().all(|x| x.is_finite());
        (self.num_draws > 1 && !self.rows.is_empty() && finite).then_some(found)
    }

    /// All numbers one after the other, for [`TrainingDensities::restore`].
    pub fn state(&self) -> Vec<f64> {
        let of_row = |row: &Row| [row.largest, row.scaled_sum, row.mean, row.squared_deviations];
        std::iter::once(self.num_draws as f64).chain(self.rows.iter().flat_map(of_row)).collect()
    }

    /// Takes what was stored of the same rows; `None`, and nothing is changed, where it does not fit.
    pub fn restore(&mut self, state: &[f64]) -> Option<()> {
        let (num_draws, rows) = state.split_first()?;
        if rows.len() != 4 * self.rows.len() {
            return None;
        }
        self.num_draws = *num_draws as usize;
        for (row, stored) in self.rows.iter_mut().zip(rows.chunks_exact(4)) {
            *row = Row { largest: stored[0], scaled_sum: stored[1], mean: stored[2], squared_deviations: stored[3] };
        }
        Some(())
    }
}

impl LearningTheory {
    /// WAIC as a loss: an estimate of −LPD from training rows alone.
    pub fn waic(&self) -> f64 {
        self.training_loss + self.inverse_temperature * self.functional_variance / self.num_rows as f64
    }

    /// ν̂(β) = β V/2.
    pub fn singular_fluctuation(&self) -> f64 {
        0.5 * self.inverse_temperature * self.functional_variance
    }

    /// λ̂ = β n (E L − L(θ̂)), given the least L, that of θ̂.
    pub fn learning_coefficient(&self, least_loss: f64) -> f64 {
        self.inverse_temperature * self.num_rows as f64 * (self.gibbs_loss - least_loss)
    }

    /// λ̂ from draws at two temperatures; NaN where they are the same.
    pub fn learning_coefficient_between(&self, other: &Self) -> f64 {
        let temperatures = 1.0 / self.inverse_temperature - 1.0 / other.inverse_temperature;
        self.num_rows as f64 * (self.gibbs_loss - other.gibbs_loss) / temperatures
    }

    /// L₀, the loss of the best parameters: T less what the theory expects it to lie above, for this λ.
    pub fn offset(&self, learning_coefficient: f64) -> f64 {
        let (lambda, nu) = (learning_coefficient, self.singular_fluctuation());
        self.training_loss - ((lambda - nu) / self.inverse_temperature - nu) / self.num_rows as f64
    }
}

/// The paper's asymptotic relation: LPD(β) = −L₀ − ((λ − ν)/β + ν)/n.
pub fn predicted_lpd(
    offset: f64,
    learning_coefficient: f64,
    singular_fluctuation: f64,
    inverse_temperature: f64,
    num_rows: usize,
) -> f64 {
    let (lambda, nu) = (learning_coefficient, singular_fluctuation);
    -offset - ((lambda - nu) / inverse_temperature + nu) / num_rows as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_by_hand() {
        let mut densities = TrainingDensities::new(2.0, 2);
        densities.add_draw(&[1f64.ln(), -1.0]);
        assert_eq!(densities.summary(), None);
        densities.add_draw(&[3f64.ln(), -3.0]);
        let found = densities.summary().unwrap();
        let second = (0.5 * ((-1f64).exp() + (-3f64).exp())).ln();
        assert!((found.training_loss + 0.5 * (2f64.ln() + second)).abs() < 1e-14);
        assert!((found.gibbs_loss + 0.5 * (0.5 * 3f64.ln() - 2.0)).abs() < 1e-14);
        let variance = 0.5 * 3f64.ln().powi(2) + 2.0;
        assert!((found.functional_variance - variance).abs() < 1e-14);
        assert!((found.waic() - (found.training_loss + variance)).abs() < 1e-14);
        assert!((found.singular_fluctuation() - variance).abs() < 1e-14);
        // Variances 0.6 and 2 are both more than 0.4.
        assert_eq!((found.num_rows, found.num_rows_seen, found.unsteady_share), (2, 2, 1.0));
        densities.add_draw(&[f64::NAN, 0.0]);
        assert_eq!(densities.summary(), None);
    }

    #[test]
    fn rows_stand_for_others_and_sums_go_on_where_they_were() {
        let draws = [[-1.0, -0.5], [-1.5, -0.4], [-0.7, -0.45]];
        let mut all = TrainingDensities::new(2.0, 4);
        let mut sample = TrainingDensities::new(2.0, 2).standing_for(4);
        let mut again = sample.clone();
        for [first, second] in draws {
            all.add_draw(&[first, second, first, second]);
            sample.add_draw(&[first, second]);
            assert!(again.restore(&sample.state()).is_some());
            assert_eq!(again, sample);
        }
        assert!(again.restore(&[1.0, 2.0]).is_none());
        let (all, sample) = (all.summary().unwrap(), sample.summary().unwrap());
        assert!((all.functional_variance - sample.functional_variance).abs() < 1e-14);
        assert!((all.waic() - sample.waic()).abs() < 1e-14);
        assert_eq!((sample.num_rows, sample.num_rows_seen, sample.unsteady_share), (4, 2, 0.0));
    }

    #[test]
    fn the_relation_is_the_one_that_the_offset_undoes() {
        let found = LearningTheory {
            inverse_temperature: 0.5,
            num_rows: 100,
            num_rows_seen: 100,
            training_loss: 1.2,
            gibbs_loss: 1.3,
            functional_variance: 12.0,
            unsteady_share: 0.0,
        };
        // E of the test loss is that of the training loss plus 2ν/n: WAIC.
        let predicted = predicted_lpd(found.offset(4.0), 4.0, found.singular_fluctuation(), 0.5, 100);
        assert!((predicted + found.waic()).abs() < 1e-14);
    }

    /// λ (1/β − 1/β') = n (E L − E' L).
    #[test]
    fn two_temperatures_give_the_learning_coefficient() {
        let at = |inverse_temperature, gibbs_loss| LearningTheory {
            inverse_temperature,
            num_rows: 50,
            num_rows_seen: 50,
            training_loss: 0.0,
            gibbs_loss,
            functional_variance: 0.0,
            unsteady_share: 0.0,
        };
        let found = at(0.5, 1.5).learning_coefficient_between(&at(4.0, 1.15));
        assert!((found - 50.0 * 0.35 / 1.75).abs() < 1e-12, "{found}");
    }
}
