//! From a file to rows a network can read.
//!
//! ```text
//! bytes ─▶ Table (text cells) ─▶ Dataset (numbers) ─▶ Split (which rows) ─▶ Standardiser ─▶ Examples
//! ```
//! ```
//! use kelvin::data::{Dataset, Split, Standardiser, known_dataset};
//!
//! let concrete = known_dataset("concrete")?.load(None)?;
//! let split = Split::random(concrete.num_rows(), 0)?;
//! let standardiser = Standardiser::fit(&concrete, &split.train)?;
//! let train = standardiser.examples(&concrete, &split.train)?;
//! assert_eq!((train.len(), train.num_features), (824, 8));
//! # Ok::<(), kelvin::data::DataError>(())
//! ```

mod catalog;
mod cell;
mod concrete;
mod dataset;
mod error;
mod examples;
mod nearest;
mod source_text;
mod split;
mod standardise;
mod table;
mod target;

pub use catalog::{KnownDataset, Presence, known_dataset, known_datasets};
pub use cell::Cell;
pub use dataset::{Dataset, prediction_inputs};
pub use error::{DataError, Place};
pub use examples::{Examples, Inputs, Targets};
pub use nearest::nearest_name;
pub use split::Split;
pub use standardise::{Scale, Standardiser};
pub use table::Table;
pub use target::{Target, Task};
