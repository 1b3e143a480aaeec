//! The table of corrupted test images: accuracy, LPD and ECE by strength, each the mean over the kinds of corruption.

use kelvin::data::Corruption;
use kelvin::predictive::{ByModel, ClassificationScores, Scores};
use kelvin_study::findings::Row;

use crate::tables::paper_tables::{Spread, mean_and_spread};
use crate::tables::table::{Alignment, Table};

type Score = fn(&ByModel<ClassificationScores>) -> f64;

/// What a line of the table holds.
const SCORES: [(&str, Score); 5] = [
    ("accuracy %", |scores| 100.0 * scores.standard.accuracy),
    ("LPD SM", |scores| scores.standard.lpd),
    ("LPD TM", |scores| scores.tempered.lpd),
    ("ECE SM", |scores| scores.standard.ece),
    ("ECE TM", |scores| scores.tempered.ece),
];

/// Methods with their rows, each row a repetition (or all chains of a run together); nothing where no corruptions were asked for. `shown` says what stands
/// in the cells, where that is more than one number.
pub fn corruption_table(methods: &[(String, Vec<&Row>)], shown: Option<&str>) -> Option<Table> {
    let all = methods.iter().flat_map(|(_, rows)| rows).find(|row| !row.corrupted.is_empty())?;
    let mut kinds: Vec<&str> = all.corrupted.iter().map(|at| at.corruption.kind.name()).collect();
    kinds.dedup();
    let title = format!(
        "Test images as they are (0) and corrupted in strengths 1 to {}, means over {}{}",
        Corruption::STRENGTHS,
        kinds.join(", "),
        shown.map_or(String::new(), |shown| format!("; {shown}")),
    );
    let strengths = (0..=Corruption::STRENGTHS).map(|strength| strength.to_string());
    let header: Vec<String> = ["method".to_owned(), "score".into()].into_iter().chain(strengths).collect();
    let mut table = Table::new(title, header);
    table.alignments[1] = Alignment::Left;
    for (name, rows) in methods {
        for (score, value) in SCORES {
            let cells = (0..=Corruption::STRENGTHS).map(|strength| {
                let values: Vec<f64> = rows.iter().filter_map(|row| at_strength(row, strength, value)).collect();
                mean_and_spread(&values, Spread::StandardDeviation)
            });
            table.push([name.clone(), score.into()].into_iter().chain(cells));
        }
    }
    Some(table)
}

/// The mean of a score over all corruptions of one strength; that of the test images themselves at strength 0.
fn at_strength(row: &Row, strength: usize, value: Score) -> Option<f64> {
    let of_classes = |scores: &Scores| match scores {
        Scores::Classification(scores) => Some(value(scores)),
        Scores::Regression(_) => None,
    };
    if strength == 0 {
        return of_classes(&row.test);
    }
    let corrupted = row.corrupted.iter().filter(|at| at.corruption.strength == strength);
    let values: Vec<f64> = corrupted.filter_map(|at| of_classes(&at.scores)).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
