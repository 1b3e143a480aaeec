//! What NVIDIA's driver is, and what its errors mean to a person.

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUresult};

use crate::gpu::device::DeviceError;

/// The oldest CUDA that a driver must support, as the driver counts: 1000 major + 10 minor.
const OLDEST: i32 = 12_000;

/// Starts the driver, once it is known to be there; the newest CUDA it supports.
pub(crate) fn start() -> Result<i32, DeviceError> {
    // SAFETY: looks for a library and lets it go again.
    if !unsafe { sys::is_culib_present() } {
        return Err(absent("there is no NVIDIA driver on this machine (libcuda.so.1 is not found)"));
    }
    result::init().map_err(|error| match error.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => {
            absent("the NVIDIA driver finds no GPU (if there is one, CUDA_VISIBLE_DEVICES may hide it)")
        }
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            unavailable("the NVIDIA driver was updated while it was loaded: restart the machine")
        }
        _ => unavailable(&format!("the NVIDIA driver does not start: {}", describe(error))),
    })?;
    let mut version = 0;
    // SAFETY: writes one number.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(failed("asking for the driver's version"))?;
    if version < OLDEST {
        let reason =
            format!("the NVIDIA driver supports CUDA {} only: update it to one for 12.0 or newer", shown(version));
        return Err(unavailable(&reason));
    }
    Ok(version)
}

fn absent(reason: &str) -> DeviceError {
    DeviceError::Absent { reason: reason.to_owned() }
}

pub(crate) fn unavailable(reason: &str) -> DeviceError {
    DeviceError::Unavailable { reason: reason.to_owned() }
}

/// An error of the driver while `doing` something.
pub(crate) fn failed(doing: &'static str) -> impl Fn(DriverError) -> DeviceError {
    move |error| DeviceError::Failed { doing, reason: describe(error) }
}

/// 12040 is CUDA 12.4.
pub(crate) fn shown(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The driver's name and words for an error, and whether the device can still be used.
pub(crate) fn describe(error: DriverError) -> String {
    let name = error.error_name().map_or_else(|_| format!("{:?}", error.0), |name| name.to_string_lossy().into_owned());
    let words = error.error_string().map_or_else(|_| String::new(), |words| format!(": {}", words.to_string_lossy()));
    let lost = match error.0 {
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
        | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
        | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | CUresult::CUDA_ERROR_INVALID_PC
        | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
        | CUresult::CUDA_ERROR_ASSERT
        | CUresult::CUDA_ERROR_LAUNCH_FAILED
        | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
        | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
        | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
        | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => "; the device is lost to this process: start it again",
        _ => "",
    };
    format!("{name}{words}{lost}")
}
