//! A kernel on a GPU: its module, and what must be told to the driver before it is launched.

use std::ffi::{CString, c_int, c_void};
use std::ptr;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys::{self, CUfunction_attribute, CUresult};

use crate::gpu::device::{DeviceError, Launch};
use crate::gpu::driver::failed;

/// More dynamic shared memory than this must be asked for kernel by kernel.
const SHARED_BYTES_UNASKED: u32 = 48 << 10;
/// From this CUDA on the driver tells how large a kernel's arguments are.
const TELLS_ARGUMENTS: i32 = 12_040;

/// A kernel that can be launched, unloaded when dropped.
pub(crate) struct LoadedKernel {
    /// Keeps the function loaded.
    _module: Module,
    function: sys::CUfunction,
    /// Dynamic shared memory it may be launched with, so far.
    shared_bytes: u32,
    /// Bytes of its arguments, where the driver tells.
    num_argument_bytes: Option<usize>,
}

struct Module(sys::CUmodule);

impl LoadedKernel {
    /// The function `entry` of machine code.
    ///
    /// # Safety
    /// The code must be whole. The device's context must be current, here and when this is dropped.
    pub(crate) unsafe fn new(entry: &str, code: &[u8], driver_version: i32) -> Result<Self, DriverError> {
        let name = CString::new(entry).map_err(|_| DriverError(CUresult::CUDA_ERROR_NOT_FOUND))?;
        // SAFETY: as promised; the function lives as long as its module.
        unsafe {
            let module = Module(result::module::load_data(code.as_ptr().cast())?);
            let function = result::module::get_function(module.0, name)?;
            // Asking for something loads the function now, rather than in a first launch that may be recorded.
            result::function::get_function_attribute(function, CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?;
            let (mut offset, mut size) = (0, 0);
            let told = driver_version >= TELLS_ARGUMENTS
                && sys::cuFuncGetParamInfo(function, 0, &mut offset, &mut size).result().is_ok();
            let num_argument_bytes = told.then_some(size);
            Ok(Self { _module: module, function, shared_bytes: SHARED_BYTES_UNASKED, num_argument_bytes })
        }
    }

    /// Puts a launch into a stream.
    ///
    /// # Safety
    /// The device's context must be current, and the stream one of it.
    pub(crate) unsafe fn enqueue(&mut self, launch: &Launch, stream: sys::CUstream) -> Result<(), DeviceError> {
        const DOING: &str = "launching a kernel";
        let given = size_of_val(launch.arguments());
        if let Some(expected) = self.num_argument_bytes.filter(|size| size.next_multiple_of(8) != given) {
            let reason = format!("the kernel's arguments take {expected} bytes, the launch gives {given}");
            return Err(DeviceError::Failed { doing: DOING, reason });
        }
        // SAFETY: the function is loaded as long as its module lives, and the rest is promised. The one parameter points to
        // arguments as large as the kernel's structure; the driver copies them before it returns. That a kernel stays
        // within its memory is what its tests are for.
        unsafe {
            if launch.shared_bytes > self.shared_bytes {
                let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
                result::function::set_function_attribute(self.function, attribute, launch.shared_bytes as c_int)
                    .map_err(failed(DOING))?;
                self.shared_bytes = launch.shared_bytes;
            }
            let [x, y, z] = launch.grid;
            let mut parameters = [launch.arguments().as_ptr().cast_mut().cast::<c_void>()];
            let block = (launch.block, 1, 1);
            if launch.cluster == 1 {
                return result::launch_kernel(
                    self.function,
                    (x, y, z),
                    block,
                    launch.shared_bytes,
                    stream,
                    &mut parameters,
                )
                .map_err(failed(DOING));
            }
            let mut attribute = sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue {
                    clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: launch.cluster, y: 1, z: 1 },
                },
            };
            let config = sys::CUlaunchConfig {
                gridDimX: x,
                gridDimY: y,
                gridDimZ: z,
                blockDimX: launch.block,
                blockDimY: 1,
                blockDimZ: 1,
                sharedMemBytes: launch.shared_bytes,
                hStream: stream,
                attrs: &raw mut attribute,
                numAttrs: 1,
            };
            sys::cuLaunchKernelEx(&raw const config, self.function, parameters.as_mut_ptr(), ptr::null_mut())
                .result()
                .map_err(failed(DOING))
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded once, used by nobody any more; the context is current as `LoadedKernel::new` asks.
        unsafe { result::module::unload(self.0) }.ok();
    }
}
