//! Runs a population of chains as one batch on a GPU: the same chains, random numbers and rules as the CPU engine.
//!
//! [`gpu`] is the machine that runs kernels: [`Device`], of which [`CudaDevice`] is a GPU, and the kernels' sources. Everything
//! above it is safe Rust. [`tables`] runs whole chains of small networks in one launch, [`general`] any network group by group,
//! and [`CudaEngine`] is what an experiment runs on.

mod engine;
pub mod general;
pub mod gpu;
mod kernel_examples;
mod samplers;
pub mod tables;

pub use engine::CudaEngine;
pub use general::{GeneralEngine, Precision};
pub use gpu::cuda::CudaDevice;
pub use gpu::device::{Buffer, Device, DeviceError};
pub use kernel_examples::kernel_examples;
pub use tables::{TableEngine, TableError};
