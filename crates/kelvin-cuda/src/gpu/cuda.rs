//! A GPU through NVIDIA's driver: one stream, kernels compiled by NVRTC, recordings as CUDA graphs.

use std::collections::{HashMap, HashSet};
use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{ptr, thread};

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUdevice_attribute, CUresult, CUstreamCaptureMode};

use crate::gpu::branch::{Aside, Branch, lane_stream};
use crate::gpu::device::{Address, Device, DeviceError, Kernel, Launch, Limits, MOST_LANES, Recording};
use crate::gpu::driver::{self, failed, shown, unavailable};
use crate::gpu::kernel_cache::KernelCache;
use crate::gpu::kernels::KernelSource;
use crate::gpu::loaded_kernel::LoadedKernel;
use crate::gpu::nvrtc;
use crate::gpu::speeds::{Clocks, Speeds};

/// A GPU of this machine, used through one stream; recordings of several lanes branch off it and come back.
pub struct CudaDevice {
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    /// Where launches of further lanes are put while they are recorded.
    branch: Branch,
    name: String,
    limits: Limits,
    speeds: Option<Speeds>,
    driver_version: i32,
    nvrtc_version: (i32, i32),
    architecture: String,
    cache: KernelCache,
    /// Held through every use of the stream, so that nothing else slips into what is being recorded.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kernels: Vec<LoadedKernel>,
    /// By entry and text.
    known: HashMap<(String, String), Kernel>,
    recordings: Vec<Option<sys::CUgraphExec>>,
}

// SAFETY: the driver's handles may be used from any thread; what is changed lies behind the mutex.
unsafe impl Send for CudaDevice {}
// SAFETY: as above.
unsafe impl Sync for CudaDevice {}

impl CudaDevice {
    /// How many GPUs there are, or why none can be used.
    pub fn count() -> Result<usize, DeviceError> {
        driver::start()?;
        let count = result::device::get_count().map_err(failed("counting devices"))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// GPU number `ordinal`, as the driver counts.
    pub fn open(ordinal: usize) -> Result<Self, DeviceError> {
        let driver_version = driver::start()?;
        let count = Self::count()?;
        if ordinal >= count {
            return Err(unavailable(&format!("GPU {ordinal} was asked for, and there are {count} (the first is 0)")));
        }
        let opening = failed("opening a device");
        let device = result::device::get(ordinal as c_int).map_err(&opening)?;
        let attribute = |attribute| {
            // SAFETY: the device is one of the driver's.
            unsafe { result::device::get_attribute(device, attribute) }.map_err(&opening)
        };
        let name = result::device::get_name(device).map_err(&opening)?;
        let major = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        if major < 8 {
            return Err(unavailable(&format!(
                "{name} has compute capability {major}.{minor}: products of bf16 need 8.0 or more (Ampere or newer)"
            )));
        }
        let limits = Limits {
            num_multiprocessors: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
            shared_bytes: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as u32,
            // Instructions of this architecture alone.
            warpgroup_products: (major, minor) == (9, 0),
            // SAFETY: the device is one of the driver's.
            memory_bytes: unsafe { result::device::total_mem(device) }.map_err(&opening)?,
        };
        // A driver may not tell a clock: then nobody is told how near to the limit a step is.
        let told = |of| attribute(of).unwrap_or(0);
        let speeds = Speeds::of(Clocks {
            capability: (major, minor),
            multiprocessors: limits.num_multiprocessors as i32,
            kilohertz: told(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
            memory_kilohertz: told(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
            memory_bits: told(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
        });
        let nvrtc_version = nvrtc::version()?;
        let architecture = architecture(major, minor);
        let compiler = format!("NVRTC {nvrtc_version:?} {architecture} {}", nvrtc::OPTIONS.join(" "));
        // SAFETY: the device is one of the driver's; `Drop` releases what is retained here.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(&opening)?;
        let release = |error| {
            // SAFETY: retained just now, and used by nobody.
            unsafe { result::primary_ctx::release(device) }.ok();
            opening(error)
        };
        // SAFETY: the context was retained just now.
        unsafe { result::ctx::set_current(context) }.map_err(release)?;
        let stream = lane_stream().map_err(release)?;
        let branch = Branch::new().map_err(|error| {
            // SAFETY: made just now, and used by nobody.
            unsafe { result::stream::destroy(stream) }.ok();
            release(error)
        })?;
        Ok(Self {
            device,
            context,
            stream,
            branch,
            name,
            limits,
            speeds,
            driver_version,
            nvrtc_version,
            architecture,
            cache: KernelCache::of_user(compiler),
            state: Mutex::default(),
        })
    }

    /// Makes this device the calling thread's, and nobody else's meanwhile.
    fn enter(&self) -> Result<MutexGuard<'_, State>, DeviceError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the context is retained as long as `self` lives.
        unsafe { result::ctx::set_current(self.context) }.map_err(failed("entering a device"))?;
        Ok(state)
    }

    /// Waits for the stream; the caller has entered.
    fn wait(&self, doing: &'static str) -> Result<(), DeviceError> {
        // SAFETY: the stream lives as long as `self`.
        unsafe { result::stream::synchronize(self.stream) }.map_err(failed(doing))
    }

    /// The machine code of a text: kept from before, or compiled now and kept.
    fn machine_code(&self, entry: &str, text: &str) -> Result<Vec<u8>, DeviceError> {
        if let Some(code) = self.cache.read(text) {
            return Ok(code);
        }
        let code = nvrtc::compile(entry, text, &self.architecture)?;
        self.cache.write(text, &code);
        Ok(code)
    }

    /// Loads machine code; the caller has entered.
    fn load(&self, entry: &str, code: &[u8]) -> Result<LoadedKernel, DeviceError> {
        // SAFETY: the code is whole, from NVRTC or with its hash; the context is current and outlives `State`.
        unsafe { LoadedKernel::new(entry, code, self.driver_version) }.map_err(|error| DeviceError::Failed {
            doing: "loading a kernel",
            reason: format!("{entry}: {}{}", driver::describe(error), self.hint_at_versions()),
        })
    }

    /// What to do where the compiler is newer than the driver, which then may not know its machine code.
    fn hint_at_versions(&self) -> String {
        let ((major, minor), driver) = (self.nvrtc_version, shown(self.driver_version));
        if self.driver_version >= 1000 * major + 10 * minor {
            return String::new();
        }
        format!(
            " (the driver supports CUDA {driver} and NVRTC is that of {major}.{minor}: update the driver, or install the NVRTC \
             of CUDA {driver})"
        )
    }

    /// Puts a launch into a stream of this device; the caller has entered.
    fn enqueue(&self, state: &mut State, launch: &Launch, stream: sys::CUstream) -> Result<(), DeviceError> {
        match state.kernels.get_mut(launch.kernel.0) {
            // SAFETY: the context is current, and the streams live as long as `self`.
            Some(kernel) => unsafe { kernel.enqueue(launch, stream) },
            None => Err(DeviceError::Failed {
                doing: "launching a kernel",
                reason: format!("there is no kernel {}", launch.kernel.0),
            }),
        }
    }

    /// The launches of all lanes as a graph; the caller has entered.
    fn captured(&self, state: &mut State, lanes: &[&[Launch]]) -> Result<sys::CUgraph, DeviceError> {
        let recording = failed("recording launches");
        // SAFETY: the stream lives, and is not being captured: the state is ours. What begins here ends below.
        unsafe { result::stream::begin_capture(self.stream, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED) }
            .map_err(&recording)?;
        let enqueued = self.enqueue_lanes(state, lanes);
        // SAFETY: as above.
        let graph = unsafe { result::stream::end_capture(self.stream) };
        match (enqueued, graph) {
            (Ok(()), graph) => graph.map_err(&recording),
            (Err(error), graph) => {
                if let Ok(graph) = graph {
                    // SAFETY: made just now, and used by nobody.
                    unsafe { result::graph::destroy(graph) }.ok();
                }
                Err(error)
            }
        }
    }
}

impl CudaDevice {
    /// The first lane into the stream, each other into a branch of it that ends before the stream goes on.
    fn enqueue_lanes(&self, state: &mut State, lanes: &[&[Launch]]) -> Result<(), DeviceError> {
        let Some((first, others)) = lanes.split_first() else { return Ok(()) };
        let recording = failed("recording launches");
        let Branch { streams, begin, ends, asides } = &self.branch;
        // SAFETY: streams and events live as long as `self`; the context is current.
        unsafe {
            result::event::record(*begin, self.stream).map_err(&recording)?;
            for ((lane, &stream), aside) in others.iter().zip(streams).zip(&asides[1..]) {
                result::stream::wait_event(stream, *begin, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)
                    .map_err(&recording)?;
                self.enqueue_lane(state, lane, stream, aside)?;
            }
            self.enqueue_lane(state, first, self.stream, &asides[0])?;
            for ((_, &stream), &end) in others.iter().zip(streams).zip(ends) {
                result::event::record(end, stream).map_err(&recording)?;
                result::stream::wait_event(self.stream, end, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)
                    .map_err(&recording)?;
            }
        }
        Ok(())
    }

    /// A lane into a stream, what is launched beside it into another that comes back before the lane ends.
    fn enqueue_lane(
        &self,
        state: &mut State,
        lane: &[Launch],
        stream: sys::CUstream,
        aside: &Aside,
    ) -> Result<(), DeviceError> {
        let after = |event, of: sys::CUstream, waits: sys::CUstream| {
            // SAFETY: streams and events live as long as `self`; the context is current.
            unsafe {
                result::event::record(event, of).and_then(|()| {
                    result::stream::wait_event(waits, event, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)
                })
            }
            .map_err(failed("recording launches"))
        };
        let mut is_away = false;
        for launch in lane {
            if launch.joins && std::mem::take(&mut is_away) {
                after(aside.returns, aside.stream, stream)?;
            }
            if launch.beside {
                after(aside.leaves, stream, aside.stream)?;
                is_away = true;
            }
            self.enqueue(state, launch, if launch.beside { aside.stream } else { stream })?;
        }
        if is_away { after(aside.returns, aside.stream, stream) } else { Ok(()) }
    }
}

/// The name of an architecture for NVRTC. Hopper's own instructions have a name of their own.
fn architecture(major: i32, minor: i32) -> String {
    let own = if (major, minor) == (9, 0) { "a" } else { "" };
    format!("sm_{major}{minor}{own}")
}

impl Device for CudaDevice {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn speeds(&self) -> Option<Speeds> {
        self.speeds
    }

    fn free_memory(&self) -> Result<usize, DeviceError> {
        let _state = self.enter()?;
        let (free, _) = result::mem_get_info().map_err(failed("asking for free memory"))?;
        Ok(free)
    }

    fn allocate(&self, num_bytes: usize) -> Result<Address, DeviceError> {
        let _state = self.enter()?;
        // SAFETY: new memory, given to nobody before it is all zeros (in the order of the stream).
        unsafe {
            let address = result::malloc_sync(num_bytes).map_err(|error| match error.0 {
                CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                    let free = result::mem_get_info().map_or(0, |(free, _)| free);
                    DeviceError::OutOfMemory { asked: num_bytes, free }
                }
                _ => failed("allocating memory")(error),
            })?;
            if let Err(error) = result::memset_d8_async(address, 0, num_bytes, self.stream) {
                result::free_sync(address).ok();
                return Err(failed("clearing memory")(error));
            }
            Ok(address)
        }
    }

    fn release(&self, address: Address) {
        let Ok(_state) = self.enter() else { return };
        // What still runs may use it. If the device is lost, so is its memory.
        self.wait("releasing memory").ok();
        // SAFETY: the memory was allocated here and is not used any more.
        unsafe { result::free_sync(address) }.ok();
    }

    fn write(&self, to: Address, bytes: &[u8]) -> Result<(), DeviceError> {
        let _state = self.enter()?;
        // SAFETY: the bytes live until they have been copied, which is waited for.
        unsafe { result::memcpy_htod_async(to, bytes, self.stream) }.map_err(failed("copying to the device"))?;
        self.wait("copying to the device")
    }

    fn read(&self, from: Address, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let _state = self.enter()?;
        // SAFETY: as in `write`; nobody else has the bytes.
        unsafe { result::memcpy_dtoh_async(bytes, from, self.stream) }.map_err(failed("copying from the device"))?;
        self.wait("copying from the device")
    }

    fn compile_text(&self, entry: &str, text: &str) -> Result<Kernel, DeviceError> {
        let name = (entry.to_owned(), text.to_owned());
        if let Some(&kernel) = self.enter()?.known.get(&name) {
            return Ok(kernel);
        }
        let code = self.machine_code(entry, text)?;
        let mut state = self.enter()?;
        let loaded = match self.load(entry, &code) {
            Ok(loaded) => loaded,
            // It may have come from the cache: once more from the text.
            Err(error) => {
                self.cache.remove(text);
                let fresh = nvrtc::compile(entry, text, &self.architecture)?;
                if fresh == code {
                    return Err(error);
                }
                self.cache.write(text, &fresh);
                self.load(entry, &fresh)?
            }
        };
        let kernel = Kernel(state.kernels.len());
        state.kernels.push(loaded);
        state.known.insert(name, kernel);
        Ok(kernel)
    }

    fn compile_all(&self, sources: &[KernelSource]) -> Result<Vec<Kernel>, DeviceError> {
        // Threads fill the cache of machine code; then each kernel is loaded in turn.
        let mut seen = HashSet::new();
        let texts: Vec<(&str, String)> = sources
            .iter()
            .map(|source| (source.entry, source.text()))
            .filter(|(_, text)| seen.insert(text.clone()))
            .collect();
        let num_threads = thread::available_parallelism().map_or(1, usize::from).min(texts.len());
        let next = AtomicUsize::new(0);
        let compile = || {
            while let Some((entry, text)) = texts.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.compile_text(entry, text)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..num_threads).map(|_| scope.spawn(compile)).collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| {
                    Err(DeviceError::Failed { doing: "compiling kernels", reason: "a thread panicked".to_owned() })
                })
            })
        })?;
        sources.iter().map(|source| self.compile(source)).collect()
    }

    fn launch(&self, launch: &Launch) -> Result<(), DeviceError> {
        let mut state = self.enter()?;
        self.enqueue(&mut state, launch, self.stream)
    }

    fn record(&self, lanes: &[&[Launch]]) -> Result<Recording, DeviceError> {
        assert!(lanes.len() <= MOST_LANES, "a recording has at most {MOST_LANES} lanes");
        let mut state = self.enter()?;
        let graph = self.captured(&mut state, lanes)?;
        // SAFETY: the graph was made just now; what is instantiated from it does not need it any more.
        let instantiated = unsafe {
            let instantiated = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
            result::graph::destroy(graph).ok();
            instantiated.map_err(failed("recording launches"))?
        };
        state.recordings.push(Some(instantiated));
        Ok(Recording(state.recordings.len() - 1))
    }

    fn replay(&self, recording: Recording, times: u64) -> Result<(), DeviceError> {
        let state = self.enter()?;
        let Some(&Some(graph)) = state.recordings.get(recording.0) else {
            let reason = format!("there is no recording {}", recording.0);
            return Err(DeviceError::Failed { doing: "replaying launches", reason });
        };
        for _ in 0..times {
            // SAFETY: the graph lives until it is forgotten.
            unsafe { result::graph::launch(graph, self.stream) }.map_err(failed("replaying launches"))?;
        }
        Ok(())
    }

    fn forget(&self, recording: Recording) {
        let Ok(mut state) = self.enter() else { return };
        if let Some(graph) = state.recordings.get_mut(recording.0).and_then(Option::take) {
            // SAFETY: taken out, so nobody launches it again; what still runs of it the driver keeps.
            unsafe { result::graph::exec_destroy(graph) }.ok();
        }
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        let _state = self.enter()?;
        self.wait("running kernels")
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        let Ok(mut state) = self.enter() else { return };
        self.wait("closing a device").ok();
        // SAFETY: everything is this device's own, and nothing runs any more.
        unsafe {
            for graph in state.recordings.drain(..).flatten() {
                result::graph::exec_destroy(graph).ok();
            }
            state.kernels.clear();
            self.branch.destroy();
            result::stream::destroy(self.stream).ok();
            result::ctx::set_current(ptr::null_mut()).ok();
            result::primary_ctx::release(self.device).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::architecture;

    #[test]
    fn hopper_has_instructions_of_its_own() {
        assert_eq!(
            [(8, 0), (8, 9), (9, 0), (12, 0)].map(|(a, b)| architecture(a, b)),
            ["sm_80", "sm_89", "sm_90a", "sm_120"]
        );
    }
}
