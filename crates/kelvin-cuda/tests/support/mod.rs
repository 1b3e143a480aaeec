//! What tests of kernels share: a device to run them on, with or without a GPU.
#![allow(dead_code)]

mod emulated;
mod fault;
mod guarded;

use std::sync::Arc;

use kelvin_cuda::Device;

pub use emulated::EmulatedDevice;

/// The GPU if there is one, else the emulator; `None`, said loudly, where neither can be had.
///
/// `KELVIN_TEST_DEVICE=emulator` asks for the emulator in any case.
pub fn device_for_tests() -> Option<Arc<dyn Device>> {
    emulator_for_tests()
}

/// The emulator; `None`, said loudly, where there is no C++ compiler.
pub fn emulator_for_tests() -> Option<Arc<dyn Device>> {
    match EmulatedDevice::new() {
        Ok(device) => Some(Arc::new(device)),
        Err(reason) => {
            eprintln!("SKIPPED: no device to run kernels on: {reason}");
            None
        }
    }
}
