//! Runs a population of chains as one batch on a GPU: the same chains, random numbers and rules as the CPU engine.
//!
//! [`Device`] is a machine that runs kernels; [`kernels`] are its programs. [`TableEngine`] moves chains of
//! small networks. Everything above devices is safe Rust.

pub mod device;
pub mod kernels;
pub mod tables;

pub use device::{Buffer, Device, DeviceError};
pub use tables::{TableEngine, TableError};
