//! A device that counts what is asked of another one and still held, fails when told to, and can have less memory.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use kelvin_cuda::gpu::device::{Address, Device, DeviceError, Kernel, Launch, Limits, Recording};
use kelvin_cuda::gpu::kernels::KernelSource;

/// Another device, watched.
pub struct WatchedDevice {
    device: Arc<dyn Device>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Calls that go well before the one that fails.
    calls_left: Option<usize>,
    /// Bytes that may be held.
    most_bytes: Option<usize>,
    held: HashMap<Address, usize>,
    recordings: HashSet<usize>,
    num_allocated: usize,
    num_recorded: usize,
    num_launched: usize,
}

/// What the failing call says.
pub const FAULT: &str = "as it was told to";

impl WatchedDevice {
    /// Watches a device.
    pub fn new(device: Arc<dyn Device>) -> Arc<Self> {
        Arc::new(Self { device, state: Mutex::default() })
    }

    /// Lets the call after so many fail, once; compiling does not count, nor does giving back.
    pub fn fail_after(&self, num_calls: usize) {
        self.state().calls_left = Some(num_calls);
    }

    /// Lets no call fail; says whether one was still to.
    pub fn cancel_failure(&self) -> bool {
        self.state().calls_left.take().is_some()
    }

    /// Leaves so many bytes free of those that are.
    pub fn leave_free(&self, num_bytes: usize) {
        let held = self.bytes_held();
        self.state().most_bytes = Some(held + num_bytes);
    }

    /// Bytes allocated and not given back.
    pub fn bytes_held(&self) -> usize {
        self.state().held.values().sum()
    }

    /// Recordings not forgotten.
    pub fn recordings_held(&self) -> usize {
        self.state().recordings.len()
    }

    /// Bytes allocated and recordings made since this was asked last.
    pub fn made(&self) -> (usize, usize) {
        let mut state = self.state();
        let made = (state.num_allocated, state.num_recorded);
        (state.num_allocated, state.num_recorded) = (0, 0);
        made
    }

    /// Launches since this was asked last, but for recorded ones.
    pub fn launched(&self) -> usize {
        std::mem::take(&mut self.state().num_launched)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn call(&self) -> Result<(), DeviceError> {
        let mut state = self.state();
        match &mut state.calls_left {
            None => Ok(()),
            Some(0) => {
                state.calls_left = None;
                Err(DeviceError::Failed { doing: "failing", reason: FAULT.to_owned() })
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

impl Device for WatchedDevice {
    fn name(&self) -> String {
        self.device.name()
    }

    fn limits(&self) -> Limits {
        self.device.limits()
    }

    fn free_memory(&self) -> Result<usize, DeviceError> {
        self.call()?;
        let (free, held) = (self.device.free_memory()?, self.bytes_held());
        Ok(self.state().most_bytes.map_or(free, |most| free.min(most.saturating_sub(held))))
    }

    fn allocate(&self, num_bytes: usize) -> Result<Address, DeviceError> {
        let free = self.free_memory()?;
        if num_bytes > free {
            return Err(DeviceError::OutOfMemory { asked: num_bytes, free });
        }
        let address = self.device.allocate(num_bytes)?;
        let mut state = self.state();
        state.num_allocated += num_bytes;
        state.held.insert(address, num_bytes);
        Ok(address)
    }

    fn release(&self, address: Address) {
        self.state().held.remove(&address);
        self.device.release(address);
    }

    fn write(&self, to: Address, bytes: &[u8]) -> Result<(), DeviceError> {
        self.call()?;
        self.device.write(to, bytes)
    }

    fn read(&self, from: Address, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.call()?;
        self.device.read(from, bytes)
    }

    fn compile_text(&self, entry: &str, text: &str) -> Result<Kernel, DeviceError> {
        self.device.compile_text(entry, text)
    }

    fn compile_all(&self, sources: &[KernelSource]) -> Result<Vec<Kernel>, DeviceError> {
        self.device.compile_all(sources)
    }

    fn launch(&self, launch: &Launch) -> Result<(), DeviceError> {
        self.call()?;
        self.state().num_launched += 1;
        self.device.launch(launch)
    }

    fn record(&self, lanes: &[&[Launch]]) -> Result<Recording, DeviceError> {
        self.call()?;
        let recording = self.device.record(lanes)?;
        let mut state = self.state();
        state.num_recorded += 1;
        state.recordings.insert(recording.0);
        Ok(recording)
    }

    fn replay(&self, recording: Recording, times: u64) -> Result<(), DeviceError> {
        self.call()?;
        self.device.replay(recording, times)
    }

    fn forget(&self, recording: Recording) {
        self.state().recordings.remove(&recording.0);
        self.device.forget(recording);
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.call()?;
        self.device.synchronize()
    }
}
