//! A run in the formats of other tools: a zarr store for ArviZ, .npz for NumPy, tables as CSV, event files for TensorBoard.

mod array;
mod draws_table;
mod event_file;
mod npz;
mod posterior;
mod predicted;
mod selection;
mod zarr;

pub use draws_table::write_draws;
pub use event_file::{is_own_events, write_events};
pub use npz::NpzFile;
pub use posterior::Export;
pub use selection::{Selection, betas, tensors};
pub use zarr::ZarrFolder;
