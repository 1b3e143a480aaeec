//! Kernels of a few lines for tests: numbers in, numbers out.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use kelvin_cuda::gpu::device::{Address, Launch};
use kelvin_cuda::gpu::kernels::text_of;
use kelvin_cuda::{Buffer, Device, DeviceError};

/// Where a kernel of these tests reads and writes.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct InOut {
    input: Address,
    output: Address,
}

/// Runs a kernel with this body, which finds `arguments.input` and `arguments.output`, and reads what it put out.
pub fn run_body<T: Pod, U: Pod>(
    device: &Arc<dyn Device>,
    name: &str,
    body: &str,
    (grid, block, shared_bytes): (u32, u32, u32),
    input: &[T],
    num_outputs: usize,
) -> Result<Vec<U>, DeviceError> {
    let text = text_of(
        name,
        &format!(
            "#include \"bulk_copy.cuh\"\n#include \"wgmma.cuh\"\n\
             struct InOut {{ u64 input; u64 output; }};\n\
             extern \"C\" __global__ void {name}(const InOut arguments) {{\n{body}\n}}\n"
        ),
        &[],
    );
    let kernel = device.compile_text(name, &text)?;
    let (input, output) = (Buffer::of(device, input)?, Buffer::<U>::zeros(device, num_outputs)?);
    let arguments = InOut { input: input.at(0), output: output.at(0) };
    device.launch(&Launch::new(kernel, [grid, 1, 1], block, shared_bytes, &arguments))?;
    device.synchronize()?;
    output.to_vec()
}
