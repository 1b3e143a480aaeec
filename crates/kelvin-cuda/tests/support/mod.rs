//! What tests of kernels share: a device to run them on, with or without a GPU.
#![allow(dead_code, unused_imports)] // each test uses a part

mod body;
mod emulated;
mod fault;
mod guarded;
#[path = "../../../kelvin/tests/support/skipped.rs"]
mod skipped;
mod watched;

use std::env;
use std::sync::Arc;

use kelvin_cuda::{CudaDevice, Device};

pub use body::run_body;
pub use emulated::EmulatedDevice;
pub use skipped::{Need, skipped};
pub use watched::{FAULT, WatchedDevice};

/// The GPU if there is one, else the emulator; `None`, said loudly, where neither can be had.
///
/// `KELVIN_TEST_DEVICE=emulator` asks for the emulator in any case.
pub fn device_for_tests() -> Option<Arc<dyn Device>> {
    if env::var("KELVIN_TEST_DEVICE").is_ok_and(|device| device == "emulator") {
        return emulator_for_tests();
    }
    match CudaDevice::open(0) {
        Ok(device) => Some(Arc::new(device)),
        Err(error) => {
            eprintln!("{error}; the emulator is used");
            emulator_for_tests()
        }
    }
}

/// The GPU; `None`, said loudly, where there is none.
pub fn gpu_for_tests() -> Option<Arc<dyn Device>> {
    match CudaDevice::open(0) {
        Ok(device) => Some(Arc::new(device)),
        Err(error) => {
            skipped(Need::Gpu, &error.to_string());
            None
        }
    }
}

/// The emulator; `None`, said loudly, where there is no C++ compiler.
pub fn emulator_for_tests() -> Option<Arc<dyn Device>> {
    match EmulatedDevice::new() {
        Ok(device) => Some(Arc::new(device)),
        Err(reason) => {
            skipped(Need::Emulator, &format!("no device to run kernels on: {reason}"));
            None
        }
    }
}
