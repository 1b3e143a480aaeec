//! Runs a population of chains as one batch on a GPU: the same chains, random numbers and rules as the CPU engine.
//!
//! [`Device`] is a machine that runs kernels, [`CudaDevice`] the one that is a GPU; [`kernels`] are its programs. Everything
//! above them is safe Rust. [`tables`] runs whole chains of small networks, [`images`] any network group by group, and
//! [`CudaEngine`] is what an experiment runs on.

mod branch;
mod cuda;
pub mod device;
mod driver;
mod engine;
pub mod images;
mod kernel_cache;
pub mod kernels;
mod loaded_kernel;
pub mod nvrtc;
mod samplers;
pub mod tables;

pub use cuda::CudaDevice;
pub use device::{Buffer, Device, DeviceError};
pub use engine::CudaEngine;
pub use images::{ImageEngine, Precision};
pub use tables::{TableEngine, TableError};
