//! From a file to rows or images a network can read.
//!
//! ```text
//! bytes ─▶ Table (cells) ─▶ Dataset (columns by kind) ─▶ Split (which rows) ─▶ Standardiser ─▶ Examples
//! bytes ─▶ ImageDataset (bytes of train, validation, test) ─▶ Augmentation ─▶ numbers of a batch
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

mod arrays;
mod augment;
mod catalog;
mod cell;
mod cifar;
mod column;
mod column_kind;
mod column_report;
mod concrete;
mod corruption;
mod dataset;
mod date_form;
mod date_parts;
mod encoder;
mod error;
mod examples;
mod features;
mod idx;
mod images;
mod known_dataset;
mod known_sets;
mod levels;
mod nearest;
mod new_rows;
pub mod one_or_several;
mod presence;
mod row_lines;
mod shape;
mod source_text;
mod split;
mod standardise;
mod synthetic;
mod table;
mod target;
mod target_names;
mod unpack;

pub use augment::{Augmentation, PADDING, Pixel, Placement, scaled, write_augmented};
pub use catalog::{known_dataset, known_datasets};
pub use cell::Cell;
pub use cifar::read_cifar_batch;
pub use column::Answers;
pub use column_kind::{ColumnKind, FeatureKind};
pub use column_report::{ColumnReport, column_reports};
pub use corruption::{Corruption, CorruptionKind};
pub use dataset::{Dataset, Roles};
pub use date_form::DateForm;
pub use date_parts::DateParts;
pub use encoder::{ColumnEncoder, Encoder};
pub use error::{BadCell, CellRole, DataError, MissingFile, Place};
pub use examples::{Examples, Inputs, Targets};
pub use features::{LeftOut, LeftOutReason};
pub use idx::{labels_from_idx, read_idx_images};
pub use images::{Halves, ImageDataset, ImageSet, Images};
pub use known_dataset::{Kind, KnownDataset, KnownFile};
pub use levels::Levels;
pub use nearest::nearest_name;
pub use new_rows::{NewRows, Outside, OutsideValue};
pub use presence::{FilePresence, Presence};
pub use shape::Shape;
pub use split::Split;
pub use standardise::{Scale, Standardiser};
pub use table::Table;
pub use target::{Target, Task};
pub use target_names::TargetNames;
