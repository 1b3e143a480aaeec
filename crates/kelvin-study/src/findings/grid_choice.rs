//! What a grid search chooses: the temperature whose validation rows are predicted best.

use kelvin::predictive::{PredictiveModel, Scores};

use crate::findings::row::{Method, Row};

/// What a grid search looks at on the validation rows.
#[derive(Clone, Copy, Debug)]
pub enum Criterion {
    /// The error or accuracy of point predictions.
    Point,
    /// The log predictive density of a model.
    Lpd(PredictiveModel),
}

impl Criterion {
    /// The number on validation or test rows, larger is better.
    fn score(self, scores: &Scores) -> f64 {
        match self {
            Self::Point if scores.larger_point_metric_is_better() => scores.point_metric(),
            Self::Point => -scores.point_metric(),
            Self::Lpd(model) => *scores.lpd().get(model),
        }
    }

    /// The test score as tables print it: accuracy in percent, MSE times 1000, or LPD in nats.
    pub fn shown(self, row: &Row) -> f64 {
        match self {
            Self::Point if row.test.larger_point_metric_is_better() => 100.0 * row.test.point_metric(),
            Self::Point => 1e3 * row.test.point_metric(),
            Self::Lpd(model) => *row.test.lpd().get(model),
        }
    }
}

/// Each repetition's grid point that is best on the validation rows; the one of all chains together where they are pooled.
pub fn grid_choice(rows: &[Row], criterion: Criterion) -> Vec<&Row> {
    let grid: Vec<&Row> = rows.iter().filter(|row| row.method == Method::Grid).collect();
    distinct_repetitions(&grid)
        .into_iter()
        .filter_map(|repetition| {
            let own = grid.iter().filter(|row| row.repetition == repetition);
            own.max_by(|a, b| criterion.score(&a.validation).total_cmp(&criterion.score(&b.validation))).copied()
        })
        .collect()
}

/// The repetitions of these rows, each once and in order; `None` stands for pooled chains.
pub fn distinct_repetitions(rows: &[&Row]) -> Vec<Option<u32>> {
    let mut repetitions: Vec<Option<u32>> = rows.iter().map(|row| row.repetition).collect();
    repetitions.sort();
    repetitions.dedup();
    repetitions
}
