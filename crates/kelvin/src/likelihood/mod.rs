//! What an output says about a target: p(y | output), its tempered form, and their gradients.
//!
//! The tempered model is p(y|x,θ)^β, normalised over y. Gaussian: N(y | μ, σ²/β). Categorical: softmax(β · logits).
//! β = 1 is the model itself.
//!
//! Each likelihood is a file here that implements `Model`, a variant of [`Likelihood`] and a line of `Likelihood::ask` (both in `known.rs`). Everybody
//! else asks a question, and never which likelihood it is.
//!
//! A likelihood may have parameters of its own, such as log σ²: the last numbers of θ, with a prior of their own. Where it is given what
//! the network says of rows, each row's outputs are followed by them: these are the row's *values*.
//!
//! Rows may have several numbers as targets (`independent.rs`): these lie row after row, and p(y | outputs) is of all of a row.

mod categorical;
mod count;
mod counts;
mod drawn;
mod gaussian;
mod independent;
mod known;
mod learned_gaussian;
mod log_normal;
mod model;
pub(crate) mod normal;
mod number;
mod power_normal;
mod rows;
mod student_t;
mod sum;
mod targets;
mod varying_gaussian;
mod varying_student_t;
mod weighed;
mod yeo_johnson;

pub(crate) use count::least_count;
pub(crate) use drawn::DrawnScores;
pub use independent::EachNumber;
pub use known::Likelihood;
pub use model::{LikelihoodError, LogBetaCurve, LogLikelihood, TargetKind, TemperedDensity};
pub use number::NumberDistribution;
pub(crate) use rows::Given;
pub(crate) use sum::LikelihoodSum;
pub use yeo_johnson::YeoJohnson;
