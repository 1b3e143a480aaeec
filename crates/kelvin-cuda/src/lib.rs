//! Runs a population of chains as one batch on a GPU: the same chains, random numbers and rules as the CPU engine.
//!
//! [`Device`] is a machine that runs kernels, [`CudaDevice`] the one that is a GPU; [`kernels`] are its programs.
//! [`TableEngine`] moves chains of small networks. Everything above devices is safe Rust.

mod cuda;
pub mod device;
mod driver;
mod kernel_cache;
pub mod kernels;
mod loaded_kernel;
pub mod nvrtc;
pub mod tables;

pub use cuda::CudaDevice;
pub use device::{Buffer, Device, DeviceError};
pub use tables::{TableEngine, TableError};
