//! The cases of a run as blocks of its page: pictures where there are any, tables of single predictions otherwise.

use kelvin::predictive::PredictiveModel;

use crate::cases::{Cases, model_of};
use crate::page::page_html::{Block, Picture};
use crate::run_files::RunFiles;
use crate::tables::Table;
use kelvin_study::findings::{ClassPrediction, NumberPrediction, Predictions, TargetPredictions};
use kelvin_study::number::fixed;

/// The most uncertain and the most wrong; nothing where there are no predictions.
pub fn case_blocks(run: &RunFiles) -> Vec<Block> {
    let Some(chosen) = &run.chosen else { return Vec::new() };
    let (cases, model) = (Cases::of(chosen), model_of(chosen));
    let mut blocks = Vec::new();
    if !run.pictures.is_empty() {
        let text = "What was predicted, with its probability under SM, and the truth where it is another.";
        blocks.push(Block::Paragraph(text.into()));
    }
    for (title, indices) in [("Most uncertain", cases.uncertain), ("Most wrong", cases.wrong)] {
        if indices.is_empty() {
            blocks.push(Block::Paragraph(format!("{title}: none, all answers are right.")));
            continue;
        }
        match chosen {
            Predictions::Numbers(targets) => {
                for TargetPredictions { target, points } in targets {
                    let own: Vec<&NumberPrediction> = indices.iter().map(|&index| &points[index]).collect();
                    let of = if target.is_empty() { String::new() } else { format!(", {target}") };
                    blocks.push(Block::Table(numbers(&format!("{title} (TM){of}"), &own, model)));
                }
            }
            Predictions::Classes(points) => {
                let pictures: Vec<Picture> = indices
                    .iter()
                    .filter_map(|index| Some(picture(run.pictures.get(index)?, &points[*index], run, model)))
                    .collect();
                if pictures.is_empty() {
                    let own: Vec<&ClassPrediction> = indices.iter().map(|&index| &points[index]).collect();
                    blocks.push(Block::Table(classes(&format!("{title} (SM)"), &own, run, model)));
                } else {
                    blocks.push(Block::Heading(title.into()));
                    blocks.push(Block::Pictures(pictures));
                }
            }
        }
    }
    blocks
}

fn numbers(title: &str, points: &[&NumberPrediction], model: PredictiveModel) -> Table {
    let mut table = Table::new(title, ["row", "truth", "predicted", "SD", "90 % interval", "log density"]);
    // One number of decimals for all: three digits of the widest distribution.
    let widest = points.iter().map(|point| *point.sd.get(model)).fold(f64::MIN_POSITIVE, f64::max);
    let decimals = (2.0 - widest.log10().floor()).clamp(0.0, 8.0) as usize;
    let number = |value| fixed(value, decimals);
    for point in points {
        let (low, high) = *point.interval.get(model);
        table.push([
            point.row.to_string(),
            number(point.truth),
            number(point.mean),
            number(*point.sd.get(model)),
            format!("{} to {}", number(low), number(high)),
            fixed(*point.log_density.get(model), 2),
        ]);
    }
    table
}

fn class_name(run: &RunFiles, class: usize) -> String {
    run.findings.problem.classes.get(class).cloned().unwrap_or_else(|| class.to_string())
}

/// Predicted class with its probability, the true one with its own, entropy.
fn described(point: &ClassPrediction, run: &RunFiles, model: PredictiveModel) -> [(String, f64); 2] {
    let of = |class: usize| (class_name(run, class), point.probabilities.get(model)[class]);
    [of(*point.predicted.get(model)), of(point.label)]
}

fn percent(probability: f64) -> String {
    let decimals = if (0.01..=0.99).contains(&probability) { 0 } else { 1 };
    format!("{}\u{a0}%", fixed(100.0 * probability, decimals))
}

fn classes(title: &str, points: &[&ClassPrediction], run: &RunFiles, model: PredictiveModel) -> Table {
    let mut table = Table::new(title, ["row", "truth", "its probability", "predicted", "its probability", "entropy"]);
    for point in points {
        let [(predicted, p_predicted), (truth, p_truth)] = described(point, run, model);
        table.push([
            point.row.to_string(),
            truth,
            percent(p_truth),
            predicted,
            percent(p_predicted),
            fixed(*point.entropy.get(model), 2),
        ]);
    }
    table
}

fn picture(png: &[u8], point: &ClassPrediction, run: &RunFiles, model: PredictiveModel) -> Picture {
    let [(predicted, p_predicted), (truth, p_truth)] = described(point, run, model);
    let is_right = point.label == *point.predicted.get(model);
    let verdict = if is_right { "right" } else { "wrong" };
    let mut caption = vec![format!("{predicted} ({})", percent(p_predicted))];
    caption.push(if is_right { "right".into() } else { format!("truth: {truth} ({})", percent(p_truth)) });
    Picture {
        png: png.to_vec(),
        alternative: format!("Test image {}: {truth}, predicted {predicted}, {verdict}", point.row),
        caption,
    }
}
