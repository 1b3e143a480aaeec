//! The columns of `kelvin predict`: what a model says of each row, and how well it was right where the answers are there.
//!
//! ```text
//! numbers   mean, std, quantiles; std² = aleatoric² + epistemic²     noise, and how far draws disagree
//! classes   probabilities; entropy = aleatoric + epistemic           expected entropy, and mutual information, in nats
//! outside   whether a value is like none of the training rows: beyond their range by more than a tenth of it, or an unseen level
//! answers   log_density in the target's own units, pit
//! ```
//! Of several targets the columns of each carry its name, and the log density is that of all of them together.

use anyhow::bail;
use kelvin::data::{Answers, Cell, NewRows, Standardiser, Table, TargetNames};
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
    /// All targets of a row, in their own units.
    Numbers(Vec<Option<Vec<f64>>>),
    /// Classes.
    Classes(Vec<Option<usize>>),
}

impl RowAnswers {
    /// The targets' columns of a table, where all are there.
    pub fn of(table: &Table, model: &SavedModel) -> Option<Self> {
        let columns = model.target_names.columns(table).ok()?;
        if model.likelihood.kind() == TargetKind::Numbers {
            let of_targets: Vec<Vec<Option<f64>>> = columns.iter().map(|&column| numbers(table, column)).collect();
            let of_row = |row: usize| of_targets.iter().map(|own| own[row]).collect();
            return Some(Self::Numbers((0..table.num_rows()).map(of_row).collect()));
        }
        let place = |name: &str| model.class_names.iter().position(|class| class == name);
        Some(Self::Classes(match table.answers(columns[0]) {
            Answers::Numbers(numbers) => numbers.iter().map(|number| place(&(number + 0.0).to_string())).collect(),
            Answers::Words(words) => words.iter().map(|word| place(word)).collect(),
        }))
    }
}

/// The numbers of a column; none where a cell is none.
fn numbers(table: &Table, column: usize) -> Vec<Option<f64>> {
    let number = |word: &&str| match Cell::new(word) {
        Cell::Number(number) => Some(number),
        _ => None,
    };
    match table.answers(column) {
        Answers::Numbers(numbers) => numbers.iter().map(|&number| (!number.is_nan()).then_some(number)).collect(),
        Answers::Words(words) => words.iter().map(number).collect(),
    }
}

/// Sums over rows with answers.
#[derive(Default)]
struct Scores {
    count: f64,
    log_density: f64,
    right: f64,
    /// Of each target that is a number.
    targets: Vec<TargetScores>,
}

/// Sums over rows with answers, of one target.
#[derive(Clone, Default)]
struct TargetScores {
    squares: f64,
    distances: f64,
    inside: f64,
}

impl Scores {
    fn add(&mut self, row: &Self) {
        self.count += row.count;
        self.log_density += row.log_density;
        self.right += row.right;
        self.targets.resize(row.targets.len(), TargetScores::default());
        for (sum, own) in self.targets.iter_mut().zip(&row.targets) {
            sum.squares += own.squares;
            sum.distances += own.distances;
            sum.inside += own.inside;
        }
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
                let of_target = |target: usize| {
                    let quantiles = quantiles.iter().map(|&p| quantile_name(p));
                    let columns = ["mean".to_owned(), "std".into()].into_iter().chain(quantiles);
                    let columns = columns.chain(["aleatoric".into(), "epistemic".into()]);
                    columns.map(|column| column_of(model, target, column)).collect::<Vec<_>>()
                };
                (0..likelihood.num_targets()).flat_map(of_target).collect()
            }
            TargetKind::Classes { .. } => {
                let classes = model.class_names.iter().map(|name| format!("p({name})"));
                let doubts = ["aleatoric".into(), "epistemic".into()];
                std::iter::once("class".into()).chain(classes).chain(doubts).collect()
            }
        };
        names.extend(standardiser.map(|_| "outside".to_owned()));
        match &answers {
            Some(RowAnswers::Numbers(_)) => {
                names.push("log_density".into());
                names.extend((0..likelihood.num_targets()).map(|target| column_of(model, target, "pit".into())));
            }
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
                    let targets = 0..this.likelihood.num_targets();
                    let mixture = |target| NumberMixture::of_powers(this.likelihood, target, of_row(row));
                    let mixtures = targets.map(mixture).collect::<Result<Vec<_>, _>>()?;
                    this.number_cells(first + row, &mixtures)
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

    /// Given what is said of each target.
    fn number_cells(&self, row: usize, mixtures: &[NumberMixture]) -> anyhow::Result<OfRow> {
        let units = self.standardiser.map_or(&[][..], |standardiser| &standardiser.targets);
        if units.len() != mixtures.len() {
            bail!("a regression needs the scale of its target");
        }
        let mut cells = Vec::new();
        for (mixture, units) in mixtures.iter().zip(units) {
            let std = |variance: f64| units.std * variance.sqrt();
            cells.extend([units.original(mixture.mean()), std(mixture.variance())]);
            cells.extend(mixture.quantiles(self.quantiles)?.into_iter().map(|y| units.original(y)));
            cells.extend([std(mixture.aleatoric_variance()), std(mixture.epistemic_variance())]);
        }
        let cells = cells.into_iter().map(Value::from).collect();
        let Some(RowAnswers::Numbers(answers)) = &self.answers else {
            return Ok(OfRow { cells, of_answer: Vec::new(), score: None });
        };
        let Some(truths) = &answers[row] else {
            return Ok(OfRow { cells, of_answer: vec![Value::Null; 1 + mixtures.len()], score: None });
        };
        let standardised: Vec<f64> =
            truths.iter().zip(units).map(|(truth, units)| (truth - units.mean) / units.std).collect();
        let scale: f64 = units.iter().map(|units| units.std.ln()).sum();
        let log_density = NumberMixture::joint_log_density(mixtures, &standardised) - scale;
        let (mut of_answer, mut targets) = (vec![Value::from(log_density)], Vec::new());
        for (((mixture, units), truth), y) in mixtures.iter().zip(units).zip(truths).zip(&standardised) {
            let (error, pit) = (truth - units.original(mixture.mean()), mixture.cumulative(*y));
            of_answer.push(Value::from(pit));
            let inside = f64::from(u8::from((0.05..=0.95).contains(&pit)));
            targets.push(TargetScores { squares: error.powi(2), distances: error.abs(), inside });
        }
        let score = Scores { count: 1.0, log_density, targets, ..Scores::default() };
        Ok(OfRow { cells, of_answer, score: Some(score) })
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
    pub fn summary(&self, targets: &TargetNames) -> Option<String> {
        let Scores { count, log_density, right, .. } = self.scores;
        if count == 0.0 {
            return None;
        }
        let lpd = fixed(log_density / count, 3);
        let errors = |own: &TargetScores| {
            format!(
                "RMSE {}, MAE {}, inside 90 % intervals {} %",
                significant((own.squares / count).sqrt(), 3),
                significant(own.distances / count, 3),
                fixed(100.0 * own.inside / count, 1)
            )
        };
        let scores = match (self.likelihood.kind(), &self.scores.targets[..]) {
            (TargetKind::Numbers, [own]) => format!("LPD {lpd} nats in its own units, {}", errors(own)),
            (TargetKind::Numbers, several) => {
                let each = targets.iter().zip(several).map(|(name, own)| format!("`{name}` {}", errors(own)));
                format!("LPD {lpd} nats in their own units; {}", each.collect::<Vec<_>>().join("; "))
            }
            (TargetKind::Classes { .. }, _) => {
                format!(
                    "log loss {}, right answers {} %",
                    fixed(-log_density / count, 3),
                    fixed(100.0 * right / count, 1)
                )
            }
        };
        let are = if targets.len() > 1 { "are" } else { "is" };
        Some(format!("{} {are} there in {count} rows: {scores}", targets.quoted()))
    }
}

/// The column of a target, which carries its name where there are several.
fn column_of(model: &SavedModel, target: usize, column: String) -> String {
    match &model.target_names[..] {
        [_] => column,
        names => format!("{column}({})", names[target]),
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
