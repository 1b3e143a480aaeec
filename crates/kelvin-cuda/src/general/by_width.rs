//! Kernels in two widths: a number at a time, or sixteen bytes.

use super::precision::Precision;
use crate::gpu::device::Kernel;

/// A kernel in two widths: for any number of channels, and sixteen bytes at a time.
#[derive(Clone, Copy, Debug)]
pub struct ByWidth {
    any: Kernel,
    wide: Kernel,
}

impl ByWidth {
    /// A kernel that `any` number of channels may have, and one of sixteen bytes at a time.
    pub(super) fn new(any: Kernel, wide: Kernel) -> Self {
        Self { any, wide }
    }

    /// The kernel for so many channels, and how many of them a thread takes.
    pub fn of(self, precision: Precision, channels: usize) -> (Kernel, usize) {
        let wide = precision.wide();
        if channels.is_multiple_of(wide) { (self.wide, wide) } else { (self.any, 1) }
    }
}
