//! A GPU keeps the contract of a device; skipped loudly where there is none.

use std::sync::Arc;
use std::thread;

use crate::support::gpu_for_tests;
use bytemuck::{Pod, Zeroable};
use kelvin_cuda::gpu::device::{Address, Kernel, Launch};
use kelvin_cuda::gpu::kernels::text_of;
use kelvin_cuda::{Buffer, CudaDevice, Device, DeviceError};

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Arguments {
    to: Address,
    len: u32,
    add: u32,
}

const DECLARATION: &str = "#include \"gpu.cuh\"\nstruct Arguments { u64 to; u32 len; u32 add; };\n";

/// Adds to each of `len` numbers.
fn add_kernel(device: &Arc<dyn Device>) -> Kernel {
    let source = format!(
        "{DECLARATION}extern \"C\" __global__ void add(const Arguments arguments) {{\n\
         const u32 i = blockIdx.x * blockDim.x + threadIdx.x;\n\
         if (i < arguments.len) ((u32*)arguments.to)[i] += arguments.add;\n}}"
    );
    device.compile_text("add", &text_of("add.cu", &source, &[])).unwrap()
}

fn add(kernel: Kernel, numbers: &Buffer<u32>, amount: u32) -> Launch {
    let arguments = Arguments { to: numbers.at(0), len: numbers.len() as u32, add: amount };
    Launch::new(kernel, [(numbers.len() as u32).div_ceil(256), 1, 1], 256, 0, &arguments)
}

#[test]
fn it_says_what_it_is() {
    let Some(device) = gpu_for_tests() else { return };
    let limits = device.limits();
    eprintln!("{}: {limits:?}, {} bytes are free", device.name(), device.free_memory().unwrap());
    assert!(!device.name().is_empty());
    assert!(limits.num_multiprocessors > 0 && limits.shared_bytes >= 99 << 10);
    assert!(device.free_memory().unwrap() <= limits.memory_bytes);
    assert!(CudaDevice::count().unwrap() > 0);
    let message = CudaDevice::open(1000).err().unwrap().to_string();
    assert!(message.contains("GPU 1000 was asked for"), "{message}");
}

#[test]
fn without_a_gpu_it_says_what_is_missing() {
    if let Err(error) = CudaDevice::open(0) {
        let message = error.to_string();
        assert!(matches!(error, DeviceError::Absent { .. } | DeviceError::Unavailable { .. }), "{message}");
        assert!(["driver", "NVRTC", "GPU"].iter().any(|thing| message.contains(thing)), "{message}");
    }
}

#[test]
fn memory_is_zero_at_first_and_keeps_what_is_written() {
    let Some(device) = gpu_for_tests() else { return };
    for len in [1, 255, 1 << 20] {
        let buffer = Buffer::<u32>::zeros(&device, len).unwrap();
        assert!(buffer.at(0).is_multiple_of(256));
        assert!(buffer.to_vec().unwrap().iter().all(|&number| number == 0));
        let numbers: Vec<u32> = (0..len as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
        buffer.write(0, &numbers).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), numbers);
        let mut last = [0];
        buffer.read(len - 1, &mut last).unwrap();
        assert_eq!(last[0], numbers[len - 1]);
    }
}

#[test]
fn launches_run_in_order() {
    let Some(device) = gpu_for_tests() else { return };
    let kernel = add_kernel(&device);
    assert_eq!(add_kernel(&device), kernel);
    let numbers = Buffer::of(&device, &(0..1000).collect::<Vec<u32>>()).unwrap();
    for _ in 0..100 {
        device.launch(&add(kernel, &numbers, 3)).unwrap();
    }
    // Read without waiting: the copy comes after what was launched.
    assert_eq!(numbers.to_vec().unwrap(), (300..1300).collect::<Vec<u32>>());
    device.synchronize().unwrap();
}

/// From more than 48 KiB on, shared memory must be asked for; the largest block of all has it.
#[test]
fn a_block_may_have_all_the_shared_memory() {
    let Some(device) = gpu_for_tests() else { return };
    let source = format!(
        "{DECLARATION}extern \"C\" __global__ void reverse(const Arguments arguments) {{\n\
         SHARED_MEMORY(shared);\n\
         u32* numbers = (u32*)shared;\n\
         for (u32 i = threadIdx.x; i < arguments.len; i += blockDim.x) numbers[i] = i + arguments.add;\n\
         __syncthreads();\n\
         for (u32 i = threadIdx.x; i < arguments.len; i += blockDim.x)\n\
         ((u32*)arguments.to)[i] = numbers[arguments.len - 1 - i];\n}}"
    );
    let kernel = device.compile_text("reverse", &text_of("reverse.cu", &source, &[])).unwrap();
    let most = device.limits().shared_bytes;
    for shared_bytes in [1 << 10, 48 << 10, 64 << 10, most, 16 << 10] {
        let len = shared_bytes / 4;
        let numbers = Buffer::<u32>::zeros(&device, len as usize).unwrap();
        let arguments = Arguments { to: numbers.at(0), len, add: 7 };
        device.launch(&Launch::new(kernel, [1, 1, 1], 1024, shared_bytes, &arguments)).unwrap();
        device.synchronize().unwrap();
        assert_eq!(numbers.to_vec().unwrap(), (7..7 + len).rev().collect::<Vec<u32>>());
    }
    let numbers = Buffer::<u32>::zeros(&device, 1).unwrap();
    let arguments = Arguments { to: numbers.at(0), len: 1, add: 0 };
    let message = device.launch(&Launch::new(kernel, [1, 1, 1], 32, most + 1024, &arguments)).unwrap_err().to_string();
    assert!(message.contains("launching a kernel"), "{message}");
    // Nothing is lost by asking for too much.
    device.launch(&Launch::new(kernel, [1, 1, 1], 32, 1024, &arguments)).unwrap();
    device.synchronize().unwrap();
}

#[test]
fn a_recording_runs_a_thousand_times() {
    let Some(device) = gpu_for_tests() else { return };
    let kernel = add_kernel(&device);
    let numbers = Buffer::<u32>::zeros(&device, 5000).unwrap();
    let others = Buffer::<u32>::zeros(&device, 10).unwrap();
    let recording =
        device.record(&[&[add(kernel, &numbers, 1), add(kernel, &others, 2), add(kernel, &numbers, 4)]]).unwrap();
    // Recording runs nothing.
    assert_eq!(numbers.to_vec().unwrap()[0], 0);
    device.replay(recording, 1000).unwrap();
    device.launch(&add(kernel, &others, 1)).unwrap();
    device.replay(recording, 1).unwrap();
    device.synchronize().unwrap();
    assert!(numbers.to_vec().unwrap().iter().all(|&number| number == 5005));
    assert_eq!(others.to_vec().unwrap(), [2003; 10]);
    device.forget(recording);
    assert!(device.replay(recording, 1).unwrap_err().to_string().contains("there is no recording"));
}

/// What is launched beside runs after what came before it, and is waited for by who joins and by what comes after the recording.
#[test]
fn what_is_launched_beside_others_is_waited_for() {
    let Some(device) = gpu_for_tests() else { return };
    let kernel = add_kernel(&device);
    let source = format!(
        "{DECLARATION}extern \"C\" __global__ void turn(const Arguments arguments) {{\n\
         const u32 i = blockIdx.x * blockDim.x + threadIdx.x;\n\
         if (i < arguments.len) ((u32*)arguments.to)[i] = ((u32*)arguments.to)[i] * 3 + arguments.add;\n}}"
    );
    let turn_kernel = device.compile_text("turn", &text_of("turn.cu", &source, &[])).unwrap();
    let [numbers, others] = [1 << 20, 7].map(|len| Buffer::<u32>::zeros(&device, len).unwrap());
    let turn = |amount| {
        let arguments = Arguments { to: numbers.at(0), len: numbers.len() as u32, add: amount };
        Launch::new(turn_kernel, [(numbers.len() as u32).div_ceil(256), 1, 1], 256, 0, &arguments)
    };
    let lane =
        [turn(1), turn(2).beside(), add(kernel, &others, 1), turn(3).beside(), turn(4).joining(), turn(5).beside()];
    let recording = device.record(&[&lane]).unwrap();
    device.replay(recording, 1).unwrap();
    let wanted = (1..=5u32).fold(0u32, |number, amount| number * 3 + amount);
    assert!(numbers.to_vec().unwrap().iter().all(|&number| number == wanted));
    device.replay(recording, 99).unwrap();
    assert_eq!(others.to_vec().unwrap(), [100; 7]);
    device.forget(recording);
}

/// What goes wrong while recording leaves the stream usable.
#[test]
fn a_failed_recording_harms_nothing() {
    let Some(device) = gpu_for_tests() else { return };
    let kernel = add_kernel(&device);
    let numbers = Buffer::<u32>::zeros(&device, 8).unwrap();
    let mut too_large = add(kernel, &numbers, 1);
    too_large.block = 4096;
    assert!(device.record(&[&[add(kernel, &numbers, 1), too_large]]).is_err());
    device.launch(&add(kernel, &numbers, 5)).unwrap();
    assert_eq!(numbers.to_vec().unwrap(), [5; 8]);
}

#[test]
fn threads_may_share_a_device() {
    let Some(device) = gpu_for_tests() else { return };
    let kernel = add_kernel(&device);
    let numbers = Buffer::<u32>::zeros(&device, 64).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    device.launch(&add(kernel, &numbers, 1)).unwrap();
                    let recording = device.record(&[&[add(kernel, &numbers, 2)]]).unwrap();
                    device.replay(recording, 2).unwrap();
                    device.forget(recording);
                }
            });
        }
    });
    assert_eq!(numbers.to_vec().unwrap(), [2000; 64]);
}

#[test]
fn arguments_of_another_size_are_refused() {
    let Some(device) = gpu_for_tests() else { return };
    let kernel = add_kernel(&device);
    match device.launch(&Launch::new(kernel, [1, 1, 1], 1, 0, &[0u64; 3])) {
        // Drivers before CUDA 12.4 do not tell the size; the numbers are harmless: none is added to.
        Ok(()) => device.synchronize().unwrap(),
        Err(error) => assert!(error.to_string().contains("arguments take 16 bytes, the launch gives 24"), "{error}"),
    }
}

#[test]
fn a_kernel_that_does_not_compile_says_why() {
    let Some(device) = gpu_for_tests() else { return };
    let text = text_of("wrong.cu", "\nint x = nothing;", &[]);
    let message = device.compile_text("wrong", &text).unwrap_err().to_string();
    assert!(message.contains("kernel wrong does not compile"), "{message}");
    assert!(message.contains("wrong.cu(2)") && message.contains("nothing"), "{message}");
    let absent = device.compile_text("absent", "extern \"C\" __global__ void present() {}").unwrap_err().to_string();
    assert!(absent.contains("absent"), "{absent}");
}

#[test]
fn too_much_memory_is_refused_with_what_is_free() {
    let Some(device) = gpu_for_tests() else { return };
    let asked = device.limits().memory_bytes * 2;
    match device.allocate(asked) {
        Err(DeviceError::OutOfMemory { asked: told, free }) => assert!(told == asked && free > 0 && free < asked),
        other => panic!("{other:?}"),
    }
    Buffer::<u32>::zeros(&device, 1000).unwrap();
}
