//! The kernels of all rooms as networks of the presets use them, at least one of each `.cu` file.

use crate::gpu::kernels::KernelSource;
use crate::{general, tables};

/// The sources; tests compile them all.
pub fn kernel_examples() -> Vec<KernelSource> {
    let mut sources = tables::example_kernels();
    sources.extend(general::kernel_sources());
    sources
}
