//! The machine that runs kernels: a GPU through the driver and NVRTC, or the tests' emulator behind the same trait.

mod branch;
pub mod cuda;
pub mod device;
mod driver;
mod kernel_cache;
pub mod kernels;
mod loaded_kernel;
pub mod nvrtc;
pub mod speeds;
