//! The engine of small tables, against the CPU.

mod deep;
mod problems;
mod run;
#[path = "../support/mod.rs"]
mod support;
mod warm_up;
