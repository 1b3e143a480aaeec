//! Randomness by name: every random number is a function of what it is for, never of a generator's state.

mod normal;
mod permutation;
mod philox;

pub use permutation::Permutation;
pub use philox::{NoiseKey, Purpose};
