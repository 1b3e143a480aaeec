//! Runs read for comparison, and how far two of them differ on their test points.

use kelvin_study::error::{Context, Result, refused};
use std::path::Path;

use kelvin::likelihood::TargetKind;
use kelvin::predictive::PredictiveModel;
use serde::Serialize;

use crate::compare::difference::{Difference, Pairing, Scores, difference};
use kelvin_study::findings::{BETA_STAR, Findings, Method, Predictions, Row, are_classes, mean_and_std};
use kelvin_study::folder::SETTINGS;
use kelvin_study::number::{fixed, significant};

/// A run or a sweep, read with its predictions for a comparison.
pub struct Run {
    /// Names it in tables: A, B, ….
    pub letter: String,
    /// Its run folder, as it was given.
    pub folder: String,
    /// Everything that it found.
    pub findings: Findings,
    /// The text of its experiment.toml.
    pub settings: String,
    /// The kinds of predictions it has, each with one set of predictions for each repetition.
    predictions: Vec<(Kind, Vec<Predictions>)>,
}

/// How a prediction was made, as far as runs have it in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The optimiser's point estimate.
    Sgd,
    /// Draws at β = 1.
    Bayes,
    /// Draws at β̂*, the β that the search chose.
    Chosen,
}

impl Kind {
    /// All kinds, in the order of the tables.
    pub const ALL: [Self; 3] = [Self::Sgd, Self::Bayes, Self::Chosen];

    /// "SGD", "β = 1" or "β̂*".
    pub fn name(self) -> &'static str {
        match self {
            Self::Sgd => "SGD",
            Self::Bayes => "β = 1",
            Self::Chosen => BETA_STAR,
        }
    }

    /// The rows of this kind.
    pub(crate) fn rows(self, findings: &Findings) -> impl Iterator<Item = &Row> {
        // β = 1 of a sweep is a temperature of its grid.
        let has_bayes = findings.rows.iter().any(|row| row.method == Method::Bayes);
        findings.rows.iter().filter(move |row| match self {
            Self::Sgd => row.method == Method::Sgd,
            Self::Chosen => row.method == Method::Chosen,
            Self::Bayes if has_bayes => row.method == Method::Bayes,
            Self::Bayes => row.method == Method::Grid && row.beta == 1.0,
        })
    }
}

/// A difference between two runs, first minus second.
#[derive(Debug, Serialize)]
pub struct Compared {
    /// The letter of the first run.
    pub first: String,
    /// The letter of the second run.
    pub second: String,
    /// The predictions that are compared: "β̂* TM", "β = 1", ….
    pub of: String,
    /// "log density" in nats, "accuracy" as a share, or "squared error" in standardised units.
    pub score: &'static str,
    /// The difference; none if a score is not finite.
    pub difference: Option<Difference>,
}

/// Two runs that were compared.
#[derive(Serialize)]
pub struct Pair {
    /// The letter of the first run.
    pub first: String,
    /// The letter of the second run.
    pub second: String,
    /// Whether both have the same test points, so that differences are taken point by point.
    pub paired: bool,
    /// The result at β̂* in a sentence.
    pub sentence: String,
}

/// Mean test scores of one kind, with their spread over repetitions.
#[derive(Serialize)]
pub struct Score {
    /// The name of the kind, as [`Kind::name`] gives it.
    pub kind: &'static str,
    /// The number of repetitions; 1 for a run.
    pub repetitions: usize,
    /// Mean and standard deviation over repetitions of the test LPD of the standard model, in nats.
    pub lpd_sm: (f64, f64),
    /// The same of the tempered model.
    pub lpd_tm: (f64, f64),
    /// Mean and standard deviation of MSE in standardised units, or of accuracy as a share.
    pub point_metric: (f64, f64),
}

impl Run {
    /// Reads a finished run with all its predictions; `letter` names it in tables.
    ///
    /// # Errors
    /// If the run is not finished, or a file is missing or damaged.
    pub fn read(folder: &Path, letter: String) -> Result<Self> {
        let findings = Findings::read(folder)?;
        let path = folder.join(SETTINGS);
        let settings = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut predictions = Vec::new();
        for kind in Kind::ALL {
            let own: Result<Vec<Predictions>> = kind
                .rows(&findings)
                .map(|row| Predictions::read(&folder.join(format!("predictions/{}.csv", row.file_name()))))
                .collect();
            let own = own?;
            if !own.is_empty() {
                predictions.push((kind, own));
            }
        }
        Ok(Self { letter, folder: folder.display().to_string(), findings, settings, predictions })
    }

    /// The last part of its folder's path.
    pub fn name(&self) -> String {
        let path = Path::new(&self.folder);
        path.file_name().map_or_else(|| self.folder.clone(), |name| name.to_string_lossy().into_owned())
    }

    fn of(&self, kind: Kind) -> Option<&[Predictions]> {
        self.predictions.iter().find(|(own, _)| *own == kind).map(|(_, predictions)| &predictions[..])
    }

    /// Which rows were predicted, with their truths.
    fn truths(&self) -> Vec<(usize, f64)> {
        self.predictions.first().and_then(|(_, own)| own.first()).map_or(Vec::new(), Predictions::truths)
    }

    /// What each target was divided by; 1 for classes.
    fn target_stds(&self) -> Vec<f64> {
        let units = &self.findings.problem.target_units;
        if units.is_empty() { vec![1.0] } else { units.iter().map(|units| units.std).collect() }
    }

    /// β̂*: one value of a run, one for each repetition of a sweep.
    pub fn beta_star(&self) -> Vec<f64> {
        self.findings.beta_star.map_or_else(|| self.findings.searched_betas(), |beta| vec![beta])
    }

    /// Test scores of each kind of predictions that it has.
    pub fn scores(&self) -> Vec<Score> {
        let of_kind = |kind: Kind| {
            let rows: Vec<&Row> = kind.rows(&self.findings).collect();
            let spread = |value: fn(&Row) -> f64| mean_and_std(&rows.iter().map(|row| value(row)).collect::<Vec<_>>());
            (!rows.is_empty()).then(|| Score {
                kind: kind.name(),
                repetitions: rows.len(),
                lpd_sm: spread(|row| row.test.lpd().standard),
                lpd_tm: spread(|row| row.test.lpd().tempered),
                point_metric: spread(|row| row.test.point_metric()),
            })
        };
        Kind::ALL.into_iter().filter_map(of_kind).collect()
    }
}

/// Whether two runs have the same test points; an error where they are about different things.
fn are_paired(first: &Run, second: &Run) -> Result<bool> {
    let (a, b) = (&first.findings.problem, &second.findings.problem);
    let have_one_kind = std::mem::discriminant(&a.likelihood.kind()) == std::mem::discriminant(&b.likelihood.kind());
    let (points_a, points_b) = (first.truths(), second.truths());
    // Truths were standardised in single precision and brought back.
    let (stds_a, stds_b) = (first.target_stds(), second.target_stds());
    let num_points = points_a.len() / stds_a.len();
    let scales = stds_a.iter().zip(&stds_b).flat_map(|(a, b)| std::iter::repeat_n(a.max(*b), num_points));
    let mut points = points_a.iter().zip(&points_b).zip(scales);
    let mut are_same = || points.all(|((a, b), scale)| a.0 == b.0 && (a.1 - b.1).abs() <= 1e-5 * (scale + a.1.abs()));
    if have_one_kind
        && points_a.len() == points_b.len()
        && stds_a.len() == stds_b.len()
        && are_same()
        && (&a.classes, a.image) == (&b.classes, b.image)
        // Images have no truth but their label.
        && (a.image.is_none() || a.data == b.data)
    {
        return Ok(true);
    }
    if have_one_kind && (&a.data, &a.target, &a.classes) == (&b.data, &b.target, &b.classes) {
        return Ok(false);
    }
    let about = |run: &Run| {
        let problem = &run.findings.problem;
        let kind = match (problem.likelihood.kind(), problem.target.len()) {
            (TargetKind::Numbers, 0 | 1) => "a number",
            (TargetKind::Numbers, _) => "numbers",
            (TargetKind::Classes { .. }, _) => "a class",
        };
        format!(
            "{} predicts {} of {} ({kind}, {} test points)",
            run.folder,
            problem.target.quoted(),
            problem.data,
            problem.test_rows
        )
    };
    Err(refused(format!(
        "these runs have different test points and cannot be compared\n  {}\n  {}\n  \
         name runs of the same data and target",
        about(first),
        about(second)
    )))
}

/// Compares two runs on their test points, in log density and in accuracy or squared error.
///
/// # Errors
/// If the runs predict different things.
pub fn compare_pair(first: &Run, second: &Run) -> Result<(Pair, Vec<Compared>)> {
    let paired = are_paired(first, second)?;
    let same_seed = first.findings.sampling.seed == second.findings.sampling.seed;
    let pairing = Pairing { points: paired, repetitions: same_seed };
    let is_classes = are_classes(&first.findings.rows);
    let mut compared = Vec::new();
    for kind in Kind::ALL.into_iter().rev() {
        let (Some(a), Some(b)) = (first.of(kind), second.of(kind)) else { continue };
        let mut push = |of: String, score, scores: &dyn Fn(&Run, &Predictions) -> Vec<f64>| {
            let all = |run: &Run, own: &[Predictions]| own.iter().map(|one| scores(run, one)).collect::<Scores>();
            let difference = difference(&all(first, a), &all(second, b), pairing);
            compared.push(Compared {
                first: first.letter.clone(),
                second: second.letter.clone(),
                of,
                score,
                difference,
            });
        };
        for (model, short) in [(PredictiveModel::Tempered, "TM"), (PredictiveModel::Standard, "SM")] {
            // At β = 1 the two are one.
            if kind == Kind::Bayes && model == PredictiveModel::Tempered {
                continue;
            }
            let of = if kind == Kind::Bayes { kind.name().into() } else { format!("{} {short}", kind.name()) };
            push(of, "log density", &|run, own| {
                // Densities are of standardised units, and each run has its own.
                let scale: f64 = run.target_stds().iter().map(|std| std.ln()).sum();
                own.log_densities(model).iter().map(|density| density - scale).collect()
            });
        }
        if is_classes {
            push(kind.name().into(), "accuracy", &|_, own| right_answers(own));
        } else {
            let stds = first.target_stds();
            push(kind.name().into(), "squared error", &|_, own| squared_errors(own, &stds));
        }
    }
    let sentence = sentence(first, second, &compared, is_classes, paired);
    Ok((Pair { first: first.letter.clone(), second: second.letter.clone(), paired, sentence }, compared))
}

/// 1 where the standard model's most probable class is the right one.
fn right_answers(predictions: &Predictions) -> Vec<f64> {
    match predictions {
        Predictions::Classes(points) => {
            points.iter().map(|point| f64::from(u8::from(point.predicted.standard == point.label))).collect()
        }
        Predictions::Numbers(_) => Vec::new(),
    }
}

/// Of the predictive mean, in units of the first run's standard deviation; the mean over targets.
fn squared_errors(predictions: &Predictions, stds: &[f64]) -> Vec<f64> {
    match predictions {
        Predictions::Numbers(targets) => {
            let share = 1.0 / targets.len() as f64;
            let mut sums = vec![0.0; targets.first().map_or(0, |own| own.points.len())];
            for (own, std) in targets.iter().zip(stds) {
                let errors = own.points.iter().map(|point| ((point.mean - point.truth) / std).powi(2));
                sums.iter_mut().zip(errors).for_each(|(sum, error)| *sum += share * error);
            }
            sums
        }
        Predictions::Classes(_) => Vec::new(),
    }
}

/// What the differences say about β̂* in words; by the model that `predict` takes.
fn sentence(first: &Run, second: &Run, compared: &[Compared], is_classes: bool, paired: bool) -> String {
    let (a, b) = (&first.letter, &second.letter);
    let model = if is_classes { "SM" } else { "TM" };
    let headline = format!("{BETA_STAR} {model}");
    let own = compared.iter().find(|line| line.of == headline && line.score == "log density");
    let unpaired = if paired { "" } else { " (other test points: unpaired)" };
    match own.map(|line| line.difference) {
        Some(Some(found)) => {
            let numbers = format!("{} ± {} nats a point", fixed(found.mean.abs(), 3), fixed(found.standard_error, 3));
            if found.is_seen() {
                let (better, worse) = if found.mean > 0.0 { (a, b) } else { (b, a) };
                let errors = significant(found.in_standard_errors().abs(), 2);
                format!(
                    "{better} predicts better than {worse} by {numbers}, {errors} standard errors, at {headline}{unpaired}."
                )
            } else {
                let numbers = numbers.replacen(&fixed(found.mean.abs(), 3), &fixed(found.mean, 3), 1);
                format!("No difference can be seen between {a} and {b}: {numbers} at {headline}{unpaired}.")
            }
        }
        Some(None) => format!("{a} and {b} cannot be compared at {headline}: a test point has no density there."),
        None => format!("{a} and {b} have no predictions at {BETA_STAR} in common."),
    }
}
