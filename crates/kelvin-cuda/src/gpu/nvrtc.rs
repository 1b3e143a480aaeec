//! NVRTC: from a kernel's text to the machine code of one kind of GPU. Needs no GPU and no driver.

use std::ffi::{CString, c_char};

use cudarc::nvrtc::result::{self, NvrtcError};
use cudarc::nvrtc::sys::{self, nvrtcResult};

use crate::gpu::device::DeviceError;
use crate::gpu::driver::unavailable;

const MISSING: &str = "NVRTC, CUDA's compiler, is not found: install the NVRTC library of CUDA 12 or newer, e.g. the Python \
                       package nvidia-cuda-nvrtc, and put its folder on LD_LIBRARY_PATH";

/// How kernels are compiled, besides for which architecture: IEEE arithmetic, and lines for profilers.
pub(crate) const OPTIONS: [&str; 3] = ["--std=c++17", "--device-as-default-execution-space", "--generate-line-info"];

/// The compiler's version (major, minor), or why there is none.
pub fn version() -> Result<(i32, i32), DeviceError> {
    // SAFETY: looks for a library and lets it go again.
    if !unsafe { sys::is_culib_present() } {
        return Err(unavailable(MISSING));
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two numbers; every NVRTC has this function.
    unsafe { sys::nvrtcVersion(&mut major, &mut minor) }.result().map_err(failed)?;
    if major < 12 {
        return Err(unavailable(&format!("NVRTC is that of CUDA {major}.{minor}: install one of CUDA 12 or newer")));
    }
    Ok((major, minor))
}

/// The machine code of `text` for an architecture such as `sm_90`.
///
/// `entry` is for messages: a text may have several kernels.
pub fn compile(entry: &str, text: &str, architecture: &str) -> Result<Vec<u8>, DeviceError> {
    let (major, minor) = version()?;
    let broken = |log: String| DeviceError::Compile { kernel: entry.to_owned(), log };
    let source = CString::new(text).map_err(|error| broken(error.to_string()))?;
    let name = CString::new(format!("{entry}.cu")).map_err(|error| broken(error.to_string()))?;
    let architecture = format!("--gpu-architecture={architecture}");
    let options: Vec<&str> = OPTIONS.into_iter().chain([architecture.as_str()]).collect();
    let program = Program(result::create_program(&source, Some(&name)).map_err(failed)?);
    // SAFETY: the program is alive, and so are its text and name.
    match unsafe { result::compile_program(program.0, &options) } {
        Ok(()) => program.machine_code().map_err(failed),
        Err(NvrtcError(nvrtcResult::NVRTC_ERROR_COMPILATION)) => Err(broken(program.log())),
        Err(NvrtcError(nvrtcResult::NVRTC_ERROR_INVALID_OPTION)) => Err(unavailable(&format!(
            "NVRTC {major}.{minor} does not know {architecture}: install a newer one ({})",
            program.log().trim()
        ))),
        Err(error) => Err(broken(format!("{error}\n{}", program.log()))),
    }
}

fn failed(error: NvrtcError) -> DeviceError {
    DeviceError::Failed { doing: "compiling with NVRTC", reason: error.to_string() }
}

/// A program of NVRTC, destroyed when dropped.
struct Program(sys::nvrtcProgram);

impl Program {
    fn log(&self) -> String {
        // SAFETY: the program is alive.
        let log = unsafe { result::get_program_log(self.0) }.unwrap_or_default();
        let bytes: Vec<u8> = log.into_iter().map(|byte| byte as u8).take_while(|&byte| byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn machine_code(&self) -> Result<Vec<u8>, NvrtcError> {
        let mut size = 0;
        // SAFETY: the program is alive and compiled; the second call writes `size` bytes.
        unsafe {
            sys::nvrtcGetCUBINSize(self.0, &mut size).result()?;
            let mut code = vec![0; size];
            sys::nvrtcGetCUBIN(self.0, code.as_mut_ptr().cast::<c_char>()).result()?;
            Ok(code)
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program is alive and nobody uses it any more. Nothing can be done if it does not go.
        unsafe { result::destroy_program(self.0) }.ok();
    }
}
