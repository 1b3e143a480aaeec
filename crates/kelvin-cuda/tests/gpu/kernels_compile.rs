//! Every kernel compiles with NVRTC, which needs no GPU; skipped loudly where there is no NVRTC.

use crate::support::{Need, skipped};
use kelvin_cuda::gpu::kernels::{FILES, KernelSource, text_of};
use kelvin_cuda::gpu::nvrtc;
use kelvin_cuda::{DeviceError, kernel_examples};

/// The oldest architecture that kelvin runs on, and the one it is made for, as devices name it.
const ARCHITECTURES: [&str; 2] = ["sm_80", "sm_90a"];

fn compiler_is_missing() -> bool {
    match nvrtc::version() {
        Ok((major, minor)) => {
            eprintln!("NVRTC {major}.{minor}");
            false
        }
        Err(error) => {
            skipped(Need::Nvrtc, &error.to_string());
            true
        }
    }
}

fn compile(entry: &str, text: &str) {
    for architecture in ARCHITECTURES {
        match nvrtc::compile(entry, text, architecture) {
            Ok(code) => assert!(code.starts_with(b"\x7FELF"), "{entry} for {architecture}"),
            Err(error) => panic!("{architecture}: {error}"),
        }
    }
}

#[test]
fn every_kernel_compiles() {
    if compiler_is_missing() {
        return;
    }
    let sources = kernel_examples();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for first in 0..threads {
            let part = sources.iter().skip(first).step_by(threads);
            scope.spawn(|| part.for_each(|source| compile(source.entry, &source.text())));
        }
    });
}

#[test]
fn headers_compile_on_their_own() {
    if compiler_is_missing() {
        return;
    }
    for file in ["gpu.cuh", "bulk_copy.cuh", "cluster.cuh", "wgmma.cuh", "philox.cuh", "augment.cuh"] {
        let source = format!("#include \"{file}\"\nextern \"C\" __global__ void alone() {{}}\n");
        compile("alone", &text_of("alone.cu", &source, &[]));
    }
}

#[test]
fn every_kernel_file_has_an_example() {
    let with_examples: Vec<&str> = kernel_examples().iter().map(|source: &KernelSource| source.file).collect();
    for (file, _) in FILES.iter().filter(|(file, _)| file.ends_with(".cu")) {
        assert!(with_examples.contains(file), "kernels::kernel_examples() has none of {file}");
    }
}

#[test]
fn what_does_not_compile_says_where() {
    if compiler_is_missing() {
        return;
    }
    let text = text_of("wrong.cu", "#include \"gpu.cuh\"\n\nint x = nothing;", &[]);
    let Err(DeviceError::Compile { kernel, log }) = nvrtc::compile("wrong", &text, "sm_90") else {
        panic!("it compiles")
    };
    assert_eq!(kernel, "wrong");
    assert!(log.contains("wrong.cu(3)") && log.contains("nothing"), "{log}");
}

#[test]
fn an_architecture_that_nobody_knows_is_named() {
    if compiler_is_missing() {
        return;
    }
    let text = "extern \"C\" __global__ void empty() {}";
    let message = nvrtc::compile("empty", text, "sm_999").unwrap_err().to_string();
    assert!(message.contains("does not know") && message.contains("sm_999"), "{message}");
}
