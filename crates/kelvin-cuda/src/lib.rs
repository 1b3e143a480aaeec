//! Runs a population of chains as one batch on a GPU: the same chains, random numbers and rules as the CPU engine.
//!
//! [`Device`] is a machine that runs kernels; [`kernels`] are its programs; [`CudaEngine`] is what an experiment runs on.
//! Everything above the device is safe Rust.

pub mod device;
mod engine;
pub mod kernels;

pub use device::{Buffer, Device, DeviceError};
pub use engine::{CudaEngine, Precision};
