//! The machine that runs kernels: the GPU and the emulator, the kernels' sources, random numbers on a device.

mod cuda_device;
mod emulator;
mod emulator_faults;
mod kernels_compile;
mod random;
#[path = "../support/mod.rs"]
mod support;
