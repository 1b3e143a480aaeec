//! Kept draws of a chain: in memory, or on disk and read a few at a time.

mod error;
mod kept;
mod layout;
mod log;
mod lot;
mod measurements;
mod store;
mod stored_weights;

pub use error::DrawsError;
pub use kept::Draws;
pub use layout::DrawLayout;
pub use log::DrawShape;
pub use lot::Lot;
pub use measurements::Measurements;
