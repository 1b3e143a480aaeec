//! The columns of `kelvin predict`: what a model says of each row, and how well it was right where the answers are there.
//!
//! ```text
//! numbers   mean, std, quantiles; std² = aleatoric² + epistemic²     noise, and how far draws disagree
//! classes   probabilities; entropy = aleatoric + epistemic           expected entropy, and mutual information, in nats
//! outside   whether a value is like none of the training rows: beyond their range by more than a tenth of it, or an unseen level
//! answers   log_density in the target's own units, pit
//! ```

use anyhow::Context;
use kelvin::data::{Answers, Cell, NewRows, Standardiser, Table};
use kelvin::likelihood::{Likelihood, TargetKind};
use kelvin::predictive::NumberMixture;
use kelvin_study::folder::SavedModel;
use kelvin_study::number::{fixed, significant};
use rayon::prelude::*;
use serde_json::Value;

/// A value is outside the training rows where it lies beyond their range by more than this share of it.
const BEYOND: f64 = 0.1;

/// How outputs are turned into columns.
pub struct Columns<'m> {
    pub names: Vec<String>,
    likelihood: Likelihood,
    classes: &'m [String],
    standardiser: Option<&'m Standardiser>,
    quantiles: &'m [f64],
    answers: Option<RowAnswers>,
    scores: Scores,
}

/// The answers of rows, where the input has them; none where a cell says nothing that the run knows.
pub enum RowAnswers {
    /// In the target's own units.
    Numbers(Vec<Option<f64>>),
    /// Classes.
    Classes(Vec<Option<usize>>),
}

impl RowAnswers {
    /// The target's column of a table, where it is there.
    pub fn of(table: &Table, model: &SavedModel) -> Option<Self> {
        let answers = table.answers(table.column(&model.target_name).ok()?);
        let place = |name: &str| model.class_names.iter().position(|class| class == name);
        let number = |word: &str| match Cell::new(word) {
            Cell::Number(number) => Some(number),
            _ => None,
        };
        Some(match (model.likelihood.kind(), answers) {
            (TargetKind::Numbers, Answers::Numbers(numbers)) => {
                Self::Numbers(numbers.iter().map(|&number| (!number.is_nan()).then_some(number)).collect())
            }
            (TargetKind::Numbers, Answers::Words(words)) => {
                Self::Numbers(words.iter().map(|word| number(word)).collect())
            }
            (TargetKind::Classes { .. }, Answers::Numbers(numbers)) => {
                Self::Classes(numbers.iter().map(|number| place(&(number + 0.0).to_string())).collect())
            }
            (TargetKind::Classes { .. }, Answers::Words(words)) => {
                Self::Classes(words.iter().map(|word| place(word)).collect())
            }
        })
    }
}

/// Sums over rows with answers.
#[derive(Default)]
struct Scores {
    count: f64,
    log_density: f64,
    squares: f64,
    distances: f64,
    right: f64,
    inside: f64,
}

impl Scores {
    fn add(&mut self, row: &Self) {
        self.count += row.count;
        self.log_density += row.log_density;
        self.squares += row.squares;
        self.distances += row.distances;
        self.right += row.right;
        self.inside += row.inside;
    }
}

/// The cells of a row before and after the one that flags it, and its scores where it has an answer.
struct OfRow {
    cells: Vec<Value>,
    of_answer: Vec<Value>,
    score: Option<Scores>,
}

impl<'m> Columns<'m> {
    pub fn new(
        model: &'m SavedModel,
        likelihood: Likelihood,
        standardiser: Option<&'m Standardiser>,
        quantiles: &'m [f64],
        answers: Option<RowAnswers>,
    ) -> Self {
        let mut names: Vec<String> = match likelihood.kind() {
            TargetKind::Numbers => {
                let quantiles = quantiles.iter().map(|&p| quantile_name(p));
                ["mean".into(), "std".into()].into_iter().chain(quantiles).collect()
            }
            TargetKind::Classes { .. } => {
                let classes = model.class_names.iter().map(|name| format!("p({name})"));
                std::iter::once("class".into()).chain(classes).collect()
            }
        };
        names.extend(["aleatoric".into(), "epistemic".into()]);
        names.extend(standardiser.map(|_| "outside".to_owned()));
        match &answers {
            Some(RowAnswers::Numbers(_)) => names.extend(["log_density".into(), "pit".into()]),
            Some(RowAnswers::Classes(_)) => names.push("log_density".into()),
            None => {}
        }
        Self {
            names,
            likelihood,
            classes: &model.class_names,
            standardiser,
            quantiles,
            answers,
            scores: Scores::default(),
        }
    }

    /// The cells of some rows, the first of which is row `first` of the input. `outputs` are those of each draw, with its power; `outside` says which rows
    /// of the input lie outside the training rows.
    pub fn rows(
        &mut self,
        first: usize,
        outputs: &[(Vec<f32>, f64)],
        outside: &[bool],
    ) -> anyhow::Result<Vec<Vec<Value>>> {
        let width = self.likelihood.num_values();
        let num_rows = outputs[0].0.len() / width;
        let of_row =
            |row: usize| outputs.iter().map(move |(outputs, power)| (&outputs[row * width..][..width], *power));
        let looked_at: Vec<OfRow> = match self.likelihood.kind() {
            TargetKind::Numbers => {
                let this = &*self;
                let number = |row: usize| {
                    let mixture = NumberMixture::of_powers(this.likelihood, of_row(row))?;
                    this.number_cells(first + row, &mixture)
                };
                (0..num_rows).into_par_iter().map(number).collect::<anyhow::Result<_>>()?
            }
            TargetKind::Classes { num_classes } => {
                let class = |row: usize| {
                    let draws: Vec<Vec<f64>> =
                        of_row(row).map(|(logits, power)| probabilities(&logits[..num_classes], power)).collect();
                    self.class_cells(first + row, &draws)
                };
                (0..num_rows).map(class).collect()
            }
        };
        let with_flag = |(row, of_row): (usize, OfRow)| {
            if let Some(score) = of_row.score {
                self.scores.add(&score);
            }
            let mut cells = of_row.cells;
            cells.extend(self.standardiser.map(|_| Value::from(outside[first + row])));
            cells.extend(of_row.of_answer);
            cells
        };
        Ok(looked_at.into_iter().enumerate().map(with_flag).collect())
    }

    fn number_cells(&self, row: usize, mixture: &NumberMixture) -> anyhow::Result<OfRow> {
        let standardiser = self.standardiser.context("a regression needs the scale of its target")?;
        let mean = standardiser.target_value(mixture.mean());
        let std = |variance: f64| standardiser.target_std(variance.sqrt());
        let mut cells = vec![mean, std(mixture.variance())];
        cells.extend(mixture.quantiles(self.quantiles)?.into_iter().map(|y| standardiser.target_value(y)));
        cells.extend([std(mixture.aleatoric_variance()), std(mixture.epistemic_variance())]);
        let cells = cells.into_iter().map(Value::from).collect();
        let Some(RowAnswers::Numbers(answers)) = &self.answers else {
            return Ok(OfRow { cells, of_answer: Vec::new(), score: None });
        };
        let Some(truth) = answers[row] else {
            return Ok(OfRow { cells, of_answer: vec![Value::Null; 2], score: None });
        };
        let standardised = (truth - standardiser.target_value(0.0)) / standardiser.target_std(1.0);
        let log_density = mixture.log_density(standardised) - standardiser.target_std(1.0).ln();
        let pit = mixture.cumulative(standardised);
        let score = Scores {
            count: 1.0,
            log_density,
            squares: (truth - mean).powi(2),
            distances: (truth - mean).abs(),
            inside: f64::from(u8::from((0.05..=0.95).contains(&pit))),
            ..Scores::default()
        };
        Ok(OfRow { cells, of_answer: vec![Value::from(log_density), Value::from(pit)], score: Some(score) })
    }

    /// Given the probabilities of the classes by each draw.
    fn class_cells(&self, row: usize, draws: &[Vec<f64>]) -> OfRow {
        let share = 1.0 / draws.len() as f64;
        let mut mean = vec![0.0; self.classes.len()];
        for draw in draws {
            mean.iter_mut().zip(draw).for_each(|(mean, p)| *mean += share * p);
        }
        let best = (0..mean.len()).max_by(|&a, &b| mean[a].total_cmp(&mean[b])).unwrap_or(0);
        let aleatoric = draws.iter().map(|draw| share * entropy(draw)).sum::<f64>();
        // Of equal draws rounding may leave less than nothing.
        let epistemic = (entropy(&mean) - aleatoric).max(0.0);
        let (mut of_answer, mut score) = (Vec::new(), None);
        if let Some(RowAnswers::Classes(answers)) = &self.answers {
            score = answers[row].map(|class| Scores {
                count: 1.0,
                log_density: mean[class].ln(),
                right: f64::from(u8::from(class == best)),
                ..Scores::default()
            });
            of_answer.push(score.as_ref().map_or(Value::Null, |score| Value::from(score.log_density)));
        }
        let mut cells = vec![Value::from(self.classes[best].as_str())];
        cells.extend(mean.into_iter().chain([aleatoric, epistemic]).map(Value::from));
        OfRow { cells, of_answer, score }
    }

    /// How well the rows with answers were predicted; nothing where there were none.
    pub fn summary(&self, target: &str) -> Option<String> {
        let Scores { count, log_density, squares, distances, right, inside } = self.scores;
        if count == 0.0 {
            return None;
        }
        let lpd = fixed(log_density / count, 3);
        let scores = match self.likelihood.kind() {
            TargetKind::Numbers => format!(
                "LPD {lpd} nats in its own units, RMSE {}, MAE {}, inside 90 % intervals {} %",
                significant((squares / count).sqrt(), 3),
                significant(distances / count, 3),
                fixed(100.0 * inside / count, 1)
            ),
            TargetKind::Classes { .. } => {
                format!(
                    "log loss {}, right answers {} %",
                    fixed(-log_density / count, 3),
                    fixed(100.0 * right / count, 1)
                )
            }
        };
        Some(format!("`{target}` is there in {count} rows: {scores}"))
    }
}

/// Which rows are unlike all training rows: by a number beyond its range by more than a tenth of that, a level that none has, or a value that is missing in
/// none.
pub fn are_outside(ranges: &[(f64, f64)], standardiser: &Standardiser, rows: &NewRows) -> Vec<bool> {
    let mut are = vec![false; rows.num_rows()];
    rows.outside(standardiser, ranges, BEYOND).iter().for_each(|found| are[found.row] = true);
    are
}

/// The name of a quantile's column: its digits after the point, at least two.
fn quantile_name(probability: f64) -> String {
    let text = probability.to_string();
    format!("q{:0<2}", text.trim_start_matches("0."))
}

/// softmax(b · logits).
fn probabilities(logits: &[f32], power: f64) -> Vec<f64> {
    let largest = logits.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    let weights: Vec<f64> = logits.iter().map(|&z| (power * f64::from(z - largest)).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// In nats.
fn entropy(probabilities: &[f64]) -> f64 {
    -probabilities.iter().filter(|&&p| p > 0.0).map(|p| p * p.ln()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_named_by_their_digits() {
        let names = [0.05, 0.5, 0.95, 0.005, 0.975, 0.1].map(quantile_name);
        assert_eq!(names, ["q05", "q50", "q95", "q005", "q975", "q10"]);
    }

    #[test]
    fn entropies_of_known_distributions() {
        assert!((entropy(&[0.25; 4]) - 4f64.ln()).abs() < 1e-15);
        assert_eq!(entropy(&[1.0, 0.0]), 0.0);
        let p = probabilities(&[1.0, 0.0], 2.0);
        assert!((p[0] / p[1] - 2f64.exp()).abs() < 1e-12);
    }
}
