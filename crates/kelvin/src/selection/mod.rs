//! Ways to choose a temperature from data: each a [`Selector`] in a file of its own, with its equation, cost and goal.
//!
//! A selector asks a [`Laboratory`] for searches and chains and answers with a [`Selection`]: β, how well it is known, what it
//! took, and what to know before believing it.

mod error;
mod guo;
mod joint;
mod laboratory;
mod selector;

pub use error::SelectionError;
pub use guo::{GuoSelector, Scaling, best_scaling};
pub use joint::{Checkpoint, JointChoice, JointSelector, Search, choose_jointly};
pub use laboratory::Laboratory;
pub use selector::{BetaInterval, Cost, Goal, IntervalMeaning, Prices, Selection, Selector};
