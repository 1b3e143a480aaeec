//! A device without a GPU: kernels compiled as C++ for this processor, run at once and in order.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_char};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, fs, io, process, ptr, slice, thread};

use kelvin_cuda::gpu::device::{Address, Device, DeviceError, Kernel, Launch, Limits, Recording};
use kelvin_cuda::gpu::kernels::KernelSource;
use libloading::Library;

use super::fault::{self, Touched};
use super::guarded::GuardedMemory;

const EMULATOR: [&str; 6] = [
    include_str!("emulator/fibers.h"),
    include_str!("emulator/words.h"),
    include_str!("emulator/gpu.h"),
    include_str!("emulator/cluster.h"),
    include_str!("emulator/bulk_copy.h"),
    include_str!("emulator/wgmma.h"),
];

const LIMITS: Limits =
    Limits { num_multiprocessors: 40, shared_bytes: 227 << 10, warpgroup_products: true, memory_bytes: 4 << 30 };
const MAX_THREADS: u32 = 1024;
/// The emulator's `MAX_THREADS`.
const MAX_THREADS_OF_CLUSTER: u32 = 2048;

/// Runs kernels on this processor, each block's threads as fibers; see `emulator/fibers.h`.
pub struct EmulatedDevice {
    compiler: String,
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    memory: BTreeMap<Address, GuardedMemory>,
    kernels: Vec<Arc<CompiledKernel>>,
    by_text: HashMap<(String, String), Kernel>,
    recordings: Vec<Option<Vec<Launch>>>,
    num_launches: u64,
}

struct CompiledKernel {
    entry: String,
    run: unsafe extern "C" fn(launch: *const EmulatedLaunch, report: *mut c_char, report_bytes: usize) -> bool,
    touched: Touched,
    /// Kept as long as its functions are.
    _library: Library,
}

/// `emulator::Launch`.
#[repr(C)]
struct EmulatedLaunch {
    arguments: *const u64,
    num_argument_bytes: usize,
    grid: [u32; 3],
    block: u32,
    cluster: u32,
    shared_bytes: usize,
    backward: bool,
}

impl EmulatedDevice {
    /// The emulator, or why it cannot be had.
    pub fn new() -> Result<Self, String> {
        let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
        match Command::new(&compiler).arg("--version").output() {
            Ok(output) if output.status.success() => Ok(Self { compiler, limits: LIMITS, state: Mutex::default() }),
            _ => Err(format!("the emulator needs a C++ compiler, and `{compiler}` does not run (CXX names another)")),
        }
    }

    /// The same as a GPU of before Hopper.
    pub fn without_warpgroups(mut self) -> Self {
        self.limits.warpgroup_products = false;
        self
    }

    /// The library of this text: made before, or compiled now.
    fn library(&self, entry: &str, text: &str) -> Result<PathBuf, DeviceError> {
        // The entry may have the name of a function of the C library.
        let program = format!(
            "#define {entry} kernel_{entry}\n{text}\n#line 1 \"emulated.rs\"\n\
             #define VISIBLE extern \"C\" __attribute__((visibility(\"default\")))\n\
             VISIBLE bool kelvin_emulate(const emulator::Launch* launch, char* report, size_t report_bytes) {{\n\
             return emulator::Entry<{entry}>::run(*launch, report, report_bytes);\n}}\n\
             VISIBLE void kelvin_touched(const void* address) {{ emulator::touched(address); }}\n"
        );
        let flags = flags();
        let mut hasher = DefaultHasher::new();
        (EMULATOR, &program, &flags, &self.compiler).hash(&mut hasher);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulated-kernels");
        let name = format!("{entry}-{:016x}", hasher.finish());
        let library = folder.join(format!("{name}.so"));
        if library.exists() {
            return Ok(library);
        }
        // Written beside and renamed: other tests may make the same one at the same time.
        let beside = folder.join(format!("{name}-{}-{:?}", process::id(), thread::current().id()));
        let (source, object) = (beside.with_extension("cpp"), beside.with_extension("so"));
        let failed = |reason: String| DeviceError::Failed { doing: "compiling for the emulator", reason };
        fs::create_dir_all(&folder).and_then(|()| fs::write(&source, &program)).map_err(|e| failed(e.to_string()))?;
        let [header, emulator] = self.emulator(&folder, &flags).map_err(|error| failed(error.to_string()))?;
        let mut command = Command::new(&self.compiler);
        command.args(&flags).args(["-shared", "-x", "c++", "-include"]).arg(header).arg(&source);
        command.args(["-x", "none"]).arg(emulator).arg("-o").arg(&object);
        let output = command.output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stderr).into_owned();
            fs::remove_file(&source).ok();
            return Err(DeviceError::Compile { kernel: entry.to_owned(), log });
        }
        fs::rename(&object, &library).map_err(|error| failed(error.to_string()))?;
        fs::rename(&source, library.with_extension("cpp")).ok();
        Ok(library)
    }

    /// The emulator for kernels to be compiled with: its header, and its own code beside it. Compiled again with every kernel
    /// they would take half of the time of each.
    fn emulator(&self, folder: &Path, flags: &[&str]) -> io::Result<[PathBuf; 2]> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hasher = DefaultHasher::new();
        (EMULATOR, flags, &self.compiler).hash(&mut hasher);
        let header = folder.join(format!("emulator-{:016x}.h", hasher.finish()));
        let object = header.with_extension("o");
        if header.exists() {
            return Ok([header, object]);
        }
        let beside = folder.join(format!("emulator-{}.h", process::id()));
        fs::write(&beside, EMULATOR.concat())?;
        let compile = |how: &[&str], to: &Path| -> io::Result<()> {
            let output = Command::new(&self.compiler).args(flags).args(how).arg(&beside).arg("-o").arg(to).output()?;
            let log = String::from_utf8_lossy(&output.stderr);
            if output.status.success() { Ok(()) } else { Err(io::Error::other(format!("the emulator itself: {log}"))) }
        };
        let made = beside.with_extension("o");
        compile(&["-DEMULATOR_BODIES", "-x", "c++", "-c"], &made)?;
        fs::rename(&made, &object)?;
        // A compiler without precompiled headers reads the text.
        let precompiled = beside.with_extension("h.gch");
        if compile(&["-x", "c++-header"], &precompiled).is_ok() {
            fs::rename(&precompiled, header.with_extension("h.gch"))?;
        }
        // Last: where it is, the others are.
        fs::rename(&beside, &header)?;
        Ok([header, object])
    }

    fn load(&self, entry: &str, text: &str) -> Result<CompiledKernel, DeviceError> {
        let path = self.library(entry, text)?;
        let failed = |error: libloading::Error| DeviceError::Failed {
            doing: "loading an emulated kernel",
            reason: error.to_string(),
        };
        // SAFETY: the library is the one compiled above, whose functions have these types; loading it runs nothing.
        unsafe {
            let library = Library::new(&path).map_err(failed)?;
            let run = *library.get(b"kelvin_emulate").map_err(failed)?;
            let touched = *library.get::<Touched>(b"kelvin_touched").map_err(failed)?;
            Ok(CompiledKernel { entry: entry.to_owned(), run, touched, _library: library })
        }
    }

    /// Where `len` bytes at `address` lie, all of them in one piece of memory.
    fn place(&self, address: Address, len: usize) -> Result<*mut u8, DeviceError> {
        let state = self.state.lock().unwrap();
        let found = state.memory.range(..=address).next_back();
        match found {
            Some((start, memory)) if (address - start) as usize + len <= memory.len() => {
                Ok(ptr::with_exposed_provenance_mut(address as usize))
            }
            _ => Err(DeviceError::Failed {
                doing: "copying",
                reason: format!("{len} bytes at {address:#x} are not in one piece of its memory"),
            }),
        }
    }

    fn run(&self, launch: &Launch) -> Result<(), DeviceError> {
        let failed = |reason: String| DeviceError::Failed { doing: "running a kernel", reason };
        let (kernel, backward) = {
            let mut state = self.state.lock().unwrap();
            state.num_launches += 1;
            let kernel = state.kernels.get(launch.kernel.0).ok_or_else(|| failed("no such kernel".to_owned()))?;
            (Arc::clone(kernel), state.num_launches.is_multiple_of(2))
        };
        let Launch { grid, block, shared_bytes, cluster, .. } = *launch;
        if grid.contains(&0) || grid[1..].iter().any(|&size| size > 65535) || block == 0 || block > MAX_THREADS {
            return Err(failed(format!("{}: a grid of {grid:?} blocks of {block} threads", kernel.entry)));
        }
        let is_whole = cluster == 1 || (cluster > 0 && grid[0].is_multiple_of(cluster) && block.is_multiple_of(32));
        if !is_whole || block * cluster > MAX_THREADS_OF_CLUSTER {
            return Err(failed(format!(
                "{}: {grid:?} blocks of {block} threads in clusters of {cluster}",
                kernel.entry
            )));
        }
        if cluster > 1 && !self.limits.warpgroup_products {
            return Err(failed(format!("{}: clusters on a GPU that has none", kernel.entry)));
        }
        if shared_bytes > LIMITS.shared_bytes {
            return Err(failed(format!("{}: {shared_bytes} bytes of shared memory", kernel.entry)));
        }
        let emulated = EmulatedLaunch {
            arguments: launch.arguments().as_ptr(),
            num_argument_bytes: size_of_val(launch.arguments()),
            grid,
            block,
            cluster,
            shared_bytes: shared_bytes as usize,
            backward,
        };
        let mut report = [0 as c_char; 2048];
        // SAFETY: the launch and the report live through the call; what the kernel does to the device's memory is its own
        // affair, and other memory it is not given.
        let went_well =
            fault::catching(kernel.touched, || unsafe { (kernel.run)(&emulated, report.as_mut_ptr(), report.len()) });
        if went_well {
            return Ok(());
        }
        // SAFETY: the emulator ends its report with a zero.
        let report = unsafe { CStr::from_ptr(report.as_ptr()) };
        Err(failed(format!("{}: {}", kernel.entry, report.to_string_lossy())))
    }

    /// Says which memory was written behind (or before) its end.
    fn check_memory(&self) -> Result<(), DeviceError> {
        let state = self.state.lock().unwrap();
        match state.memory.iter().find(|(_, memory)| !memory.is_intact()) {
            None => Ok(()),
            Some((address, memory)) => Err(DeviceError::Failed {
                doing: "running a kernel",
                reason: format!("something was written just outside of the {} bytes at {address:#x}", memory.len()),
            }),
        }
    }
}

/// What is launched beside others as late as it may run, so that others find nothing of it, and it what they have overwritten.
fn with_asides_late(lane: &[Launch]) -> Vec<Launch> {
    let (mut all, mut late) = (Vec::new(), Vec::new());
    for launch in lane {
        if launch.joins {
            all.append(&mut late);
        }
        if launch.beside { late.push(launch.clone()) } else { all.push(launch.clone()) }
    }
    all.append(&mut late);
    all
}

/// Sixteen lanes and fused multiply-adds where the processor has them; no arithmetic that the text does not spell out.
fn flags() -> Vec<&'static str> {
    let mut flags = vec!["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off"];
    flags.extend(["-U_FORTIFY_SOURCE", "-Wno-unknown-pragmas", "-Wno-unused", "-Wall", "-ftree-vectorize"]);
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("bmi2") {
        flags.push("-march=x86-64-v3");
    }
    flags
}

impl Device for EmulatedDevice {
    fn name(&self) -> String {
        "emulator".to_owned()
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn free_memory(&self) -> Result<usize, DeviceError> {
        let used: usize = self.state.lock().unwrap().memory.values().map(GuardedMemory::len).sum();
        Ok(LIMITS.memory_bytes.saturating_sub(used))
    }

    fn allocate(&self, num_bytes: usize) -> Result<Address, DeviceError> {
        let free = self.free_memory()?;
        let room = if num_bytes <= free { GuardedMemory::new(num_bytes) } else { None };
        let memory = room.ok_or(DeviceError::OutOfMemory { asked: num_bytes, free })?;
        let address = memory.start().expose_provenance() as Address;
        self.state.lock().unwrap().memory.insert(address, memory);
        Ok(address)
    }

    fn release(&self, address: Address) {
        let memory = self.state.lock().unwrap().memory.remove(&address);
        if !thread::panicking() {
            let memory = memory.expect("memory that was allocated and not yet released");
            assert!(memory.is_intact(), "a kernel wrote just outside of {} bytes of memory", memory.len());
        }
    }

    fn write(&self, to: Address, bytes: &[u8]) -> Result<(), DeviceError> {
        let place = self.place(to, bytes.len())?;
        // SAFETY: `place` is so many bytes of this device's memory; the caller's bytes lie elsewhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
        Ok(())
    }

    fn read(&self, from: Address, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let place = self.place(from, bytes.len())?;
        // SAFETY: as in `write`.
        bytes.copy_from_slice(unsafe { slice::from_raw_parts(place, bytes.len()) });
        Ok(())
    }

    fn compile_text(&self, entry: &str, text: &str) -> Result<Kernel, DeviceError> {
        let name = (entry.to_owned(), text.to_owned());
        if let Some(&kernel) = self.state.lock().unwrap().by_text.get(&name) {
            return Ok(kernel);
        }
        let compiled = self.load(entry, text)?;
        let mut state = self.state.lock().unwrap();
        let kernel = Kernel(state.kernels.len());
        state.kernels.push(Arc::new(compiled));
        state.by_text.insert(name, kernel);
        Ok(kernel)
    }

    fn compile_all(&self, sources: &[KernelSource]) -> Result<Vec<Kernel>, DeviceError> {
        let num_threads = thread::available_parallelism().map_or(1, usize::from);
        for part in sources.chunks(num_threads) {
            thread::scope(|scope| {
                let threads: Vec<_> = part.iter().map(|source| scope.spawn(|| self.compile(source))).collect();
                threads.into_iter().try_for_each(|thread| thread.join().expect("compiles or fails").map(|_| ()))
            })?;
        }
        sources.iter().map(|source| self.compile(source)).collect()
    }

    fn launch(&self, launch: &Launch) -> Result<(), DeviceError> {
        self.run(launch)
    }

    fn record(&self, lanes: &[&[Launch]]) -> Result<Recording, DeviceError> {
        let mut state = self.state.lock().unwrap();
        // The last lane first, so that one which needs another's results does not find them.
        state.recordings.push(Some(lanes.iter().rev().flat_map(|lane| with_asides_late(lane)).collect()));
        Ok(Recording(state.recordings.len() - 1))
    }

    fn replay(&self, recording: Recording, times: u64) -> Result<(), DeviceError> {
        let launches = self.state.lock().unwrap().recordings.get(recording.0).cloned().flatten();
        let launches = launches
            .ok_or_else(|| DeviceError::Failed { doing: "replaying", reason: "no such recording".to_owned() })?;
        (0..times).try_for_each(|_| launches.iter().try_for_each(|launch| self.run(launch)))
    }

    fn forget(&self, recording: Recording) {
        self.state.lock().unwrap().recordings[recording.0] = None;
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.check_memory()
    }
}
