//! Runs a population of chains as one batch on a GPU: the same chains, random numbers and rules as the CPU engine.
//!
//! [`Device`] is a machine that runs kernels; [`kernels`] are its programs. Everything above them is safe Rust.
//! [`images`] is the engine for images and any other network.

pub mod device;
pub mod images;
pub mod kernels;

pub use device::{Buffer, Device, DeviceError};
pub use images::{ImageEngine, Precision};
