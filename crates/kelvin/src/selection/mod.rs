//! Ways to choose a temperature from data.

mod joint;

pub use joint::{Checkpoint, JointChoice, Search, choose_jointly};
