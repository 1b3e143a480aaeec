//! A machine that runs kernels: memory, launches, recorded sequences of launches.
//!
//! A GPU is one; the emulator of the tests is another, so that kernels and what drives them are tested without a GPU.

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::{NoUninit, Pod};
use thiserror::Error;

use crate::gpu::kernels::KernelSource;
use crate::gpu::speeds::Speeds;

/// A place in a device's memory, in bytes.
pub type Address = u64;

/// What can go wrong on a device.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum DeviceError {
    /// This machine has no GPU of NVIDIA's.
    #[error("no CUDA device can be used: {reason}")]
    Absent {
        /// What was not found.
        reason: String,
    },
    /// A GPU may be there, but not all that it needs: its driver or NVRTC is missing or does not work.
    #[error("no CUDA device can be used: {reason}")]
    Unavailable {
        /// What was missing, and what to do.
        reason: String,
    },
    /// The device has less free memory than was asked for.
    #[error("the device has no room for {asked} more bytes ({free} are free)")]
    OutOfMemory {
        /// Bytes asked for.
        asked: usize,
        /// Bytes free.
        free: usize,
    },
    /// A kernel does not compile: a fault of this crate.
    #[error("kernel {kernel} does not compile:\n{log}")]
    Compile {
        /// Its file and entry.
        kernel: String,
        /// What the compiler says.
        log: String,
    },
    /// The driver reports a fault; the device may be lost.
    #[error("the device failed while {doing}: {reason}")]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// What the driver says.
        reason: String,
    },
}

/// What a device has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Multiprocessors: blocks that run at the same time, at least.
    pub num_multiprocessors: u32,
    /// The most shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Whether four warps can multiply together (`wgmma.cuh`), one thread ask for runs of memory (`bulk_copy.cuh`), and up to
    /// eight blocks be launched as a cluster (`cluster.cuh`).
    pub warpgroup_products: bool,
    /// Memory of the device, in bytes.
    pub memory_bytes: usize,
}

/// A compiled kernel of a device, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kernel(pub usize);

/// A recorded sequence of launches of a device, by number; [`Recorded`] owns one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Recording(pub usize);

/// The most sequences of a recording.
pub const MOST_LANES: usize = 2;

/// One launch: every kernel takes a single structure by value.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// The kernel that runs.
    pub kernel: Kernel,
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: u32,
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Neighbouring blocks along x that run at the same time and reach each other's shared memory.
    pub cluster: u32,
    /// Whether in a recording those after it need not wait for it, up to the first that joins.
    pub beside: bool,
    /// Whether in a recording it waits for all that was launched beside.
    pub joins: bool,
    /// The structure's bytes, in eights so that they are aligned for any of its fields.
    arguments: Vec<u64>,
}

impl Launch {
    /// A launch of `kernel` with `arguments`, laid out as the kernel's own structure is.
    pub fn new<A: NoUninit>(kernel: Kernel, grid: [u32; 3], block: u32, shared_bytes: u32, arguments: &A) -> Self {
        let bytes = bytemuck::bytes_of(arguments);
        let mut words = vec![0; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Self { kernel, grid, block, shared_bytes, cluster: 1, beside: false, joins: false, arguments: words }
    }

    /// The same with clusters of so many blocks, where [`Limits::warpgroup_products`] says that there are any.
    pub fn in_clusters_of(self, cluster: u32) -> Self {
        Self { cluster, ..self }
    }

    /// The same, beside those after it.
    pub fn beside(self) -> Self {
        Self { beside: true, ..self }
    }

    /// The same, waiting for what was launched beside.
    pub fn joining(self) -> Self {
        Self { joins: true, ..self }
    }

    /// The structure's bytes, followed by zeros up to a multiple of eight.
    pub fn arguments(&self) -> &[u64] {
        &self.arguments
    }
}

/// A machine that runs kernels, one after the other in the order they were given, but for the lanes of a recording.
pub trait Device: Send + Sync {
    /// For people and provenance.
    fn name(&self) -> String;

    /// What it has room for.
    fn limits(&self) -> Limits;

    /// What it could do at most, where that is known.
    fn speeds(&self) -> Option<Speeds> {
        None
    }

    /// Bytes of memory that are free now.
    fn free_memory(&self) -> Result<usize, DeviceError>;

    /// Memory of this size, all zeros, aligned to 256 bytes. [`Buffer`] gives it back.
    fn allocate(&self, num_bytes: usize) -> Result<Address, DeviceError>;

    /// Gives memory back.
    fn release(&self, address: Address);

    /// Copies to the device, after what was launched before.
    fn write(&self, to: Address, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Copies from the device, after what was launched before.
    fn read(&self, from: Address, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Compiles the function `entry` of a whole text, or finds it among those compiled before.
    fn compile_text(&self, entry: &str, text: &str) -> Result<Kernel, DeviceError>;

    /// Compiles a kernel, or finds it among those compiled before.
    fn compile(&self, source: &KernelSource) -> Result<Kernel, DeviceError> {
        self.compile_text(source.entry, &source.text())
    }

    /// Compiles several at a time, which may be much faster.
    fn compile_all(&self, sources: &[KernelSource]) -> Result<Vec<Kernel>, DeviceError> {
        sources.iter().map(|source| self.compile(source)).collect()
    }

    /// Launches a kernel; returns before it has run.
    fn launch(&self, launch: &Launch) -> Result<(), DeviceError>;

    /// Prepares sequences of launches to be run as one. Sequences do not wait for each other, so none may touch what another
    /// writes; nor may launches `beside` others and these, up to the first that `joins`.
    fn record(&self, lanes: &[&[Launch]]) -> Result<Recording, DeviceError>;

    /// Runs what was recorded so many times, one after the other; returns before it has run.
    fn replay(&self, recording: Recording, times: u64) -> Result<(), DeviceError>;

    /// Forgets a recorded sequence.
    fn forget(&self, recording: Recording);

    /// Waits until everything launched has run, and says whether it went well.
    fn synchronize(&self) -> Result<(), DeviceError>;
}

/// Numbers in a device's memory, given back when dropped.
pub struct Buffer<T> {
    device: Arc<dyn Device>,
    address: Address,
    len: usize,
    holds: PhantomData<T>,
}

impl<T: Pod> Buffer<T> {
    /// Room for `len` numbers, all zero.
    pub fn zeros(device: &Arc<dyn Device>, len: usize) -> Result<Self, DeviceError> {
        let address = device.allocate((len * size_of::<T>()).max(1))?;
        Ok(Self { device: Arc::clone(device), address, len, holds: PhantomData })
    }

    /// A copy of these numbers.
    pub fn of(device: &Arc<dyn Device>, values: &[T]) -> Result<Self, DeviceError> {
        let buffer = Self::zeros(device, values.len())?;
        buffer.write(0, values)?;
        Ok(buffer)
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where number `index` lies.
    ///
    /// # Panics
    /// If it lies outside.
    pub fn at(&self, index: usize) -> Address {
        assert!(index <= self.len, "number {index} of a buffer of {}", self.len);
        self.address + (index * size_of::<T>()) as u64
    }

    /// Overwrites the numbers from `first` on.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&self, first: usize, values: &[T]) -> Result<(), DeviceError> {
        assert!(first + values.len() <= self.len, "{} numbers at {first} of {}", values.len(), self.len);
        if values.is_empty() { Ok(()) } else { self.device.write(self.at(first), bytemuck::cast_slice(values)) }
    }

    /// Copies the numbers from `first` on.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn read(&self, first: usize, values: &mut [T]) -> Result<(), DeviceError> {
        assert!(first + values.len() <= self.len, "{} numbers at {first} of {}", values.len(), self.len);
        if values.is_empty() { Ok(()) } else { self.device.read(self.at(first), bytemuck::cast_slice_mut(values)) }
    }

    /// A copy of all numbers.
    pub fn to_vec(&self) -> Result<Vec<T>, DeviceError> {
        let mut values = vec![T::zeroed(); self.len];
        self.read(0, &mut values)?;
        Ok(values)
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        self.device.release(self.address);
    }
}

/// Launches recorded on a device, forgotten when dropped: whatever fails after they were recorded, none stays behind.
pub struct Recorded {
    device: Arc<dyn Device>,
    recording: Recording,
}

impl Recorded {
    /// Records sequences of launches, as [`Device::record`] does.
    pub fn new(device: &Arc<dyn Device>, lanes: &[&[Launch]]) -> Result<Self, DeviceError> {
        let recording = device.record(lanes)?;
        Ok(Self { device: Arc::clone(device), recording })
    }

    /// Runs them so many times, one after the other; returns before they have run.
    pub fn replay(&self, times: u64) -> Result<(), DeviceError> {
        self.device.replay(self.recording, times)
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.device.forget(self.recording);
    }
}
