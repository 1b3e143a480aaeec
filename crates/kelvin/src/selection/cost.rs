//! What selectors take, in gradients of single rows.

use serde::{Deserialize, Serialize};

/// What a selector took: gradients, since all else (outputs at validation rows) is small beside them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Gradients of single rows.
    pub row_gradients: f64,
    /// The same in sampled chains of the experiment's full length.
    pub chains: f64,
}

/// What the laboratory's runs cost, in gradients of single rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// A search from one start.
    pub search: f64,
    /// A sampled chain.
    pub chain: f64,
    /// A chain that goes on from another at a nearby temperature.
    pub continued_chain: f64,
}

impl Prices {
    /// The cost of so many gradients of single rows.
    pub fn cost(&self, row_gradients: f64) -> Cost {
        Cost { row_gradients, chains: row_gradients / self.chain }
    }
}
