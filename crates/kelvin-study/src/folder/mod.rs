//! The folder of a run: its record, lock, provenance, status, predictions, hashes, and a finished run read back.

mod finished_run;
mod fitted_model;
mod hashes;
mod links;
mod lock;
mod model;
mod model_parts;
mod parts;
mod provenance;
mod record;
mod run_folder;
mod selection_file;
mod selection_shards;
mod shard;
mod status;

pub use finished_run::FinishedRun;
pub use fitted_model::{ClassPredictions, FittedModel, NumberPredictions, write_files};
pub use hashes::{HASHES, Hashes, file_hash};
pub use links::check_keeps_to_itself;
pub(crate) use model::MODEL;
pub use model::{SavedDraws, SavedForm, SavedModel, SavedPredictor, SavedRows, linear_form};
pub use parts::{PartState, PartStatus, Parts};
pub use provenance::{ChainOrigin, Continued, Provenance, chains_differ, data_hashes};
pub use record::{DataHashes, RunRecord, differing_settings};
pub use run_folder::{
    CHECKPOINTS, PROVENANCE, RunFolder, SETTINGS, check_is_run, is_being_written, last_writer, remove_leftovers,
    stored_run, write, writer,
};
pub(crate) use run_folder::{record_of, run_path};
pub use selection_file::{
    SELECTION, SelectResult, SelectionShard, StoredChoice, StoredSelection, is_selection, open_folder,
};
pub use selection_shards::merge_selections;
pub use shard::{SHARDS, Shard};
pub use status::{ChainStatus, Moment, Phase, Stage, Status, duration};
pub(crate) use status::{StatusFile, Timeline};
