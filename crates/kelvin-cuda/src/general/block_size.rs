//! The block that most kernels of this room are launched with.

/// Threads of a block of the plain kernels.
pub const THREADS: usize = 256;
/// Bytes that sums of f64 over a block of threads take.
pub const SHARED_SUMS: u32 = (THREADS * size_of::<f64>()) as u32;
