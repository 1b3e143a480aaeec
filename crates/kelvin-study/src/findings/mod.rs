//! What was found: one value from which everything a person looks at is made.

mod command;
mod cross_validation;
mod grid_choice;
mod metrics_file;
mod predicting;
mod prediction_warnings;
mod predictions;
mod results;
mod row;
mod row_blocks;
mod scores_file;
mod selection;
mod trials;
mod which_way;

pub use command::RunCommand;
pub use cross_validation::{
    CrossValidation, HeldOutModel, ModelDifference, ModelKind, ModelScores, TargetScores, Told,
};
pub(crate) use cross_validation::{FoldPredictions, ModelPredictions};
pub use grid_choice::{Criterion, distinct_repetitions, grid_choice};
pub use metrics_file::metrics_csv;
pub use predicting::{Candidate, JudgedOn, Predicting};
pub(crate) use prediction_warnings::{agreement_warning, prediction_warnings};
pub use predictions::{ClassPrediction, NumberPrediction, Predictions, TargetPredictions};
pub(crate) use results::FinishedSearch;
pub use results::{Agreement, ChainFindings, FINDINGS, Findings, ProblemFacts, SamplingFacts, SearchFindings, Visit};
pub(crate) use row::with_draws;
pub use row::{BETA_STAR, CorruptedScores, HeldOutScores, Method, Row, are_classes, deviation, mean_and_std};
pub use row_blocks::{RowBlocks, outputs_of_draws};
pub use scores_file::scores_csv;
pub use selection::{Choice, Refusal, SEARCHING, StartChoice};
pub use trials::{Trials, Tried};
pub use which_way::{WhichWay, which_way};
