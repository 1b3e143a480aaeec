//! What the emulator catches: threads that wait for ever, memory that is not theirs, bytes read before they have come.

use crate::support::{emulator_for_tests, run_body};
use kelvin_cuda::gpu::device::Launch;
use kelvin_cuda::gpu::kernels::text_of;

/// What `run_body` says of a kernel that fails.
fn failure(name: &str, body: &str, block: u32) -> Option<String> {
    let device = emulator_for_tests()?;
    let result: Result<Vec<u32>, _> = run_body(&device, name, body, (1, block, 64), &[0u32; 4], 64);
    Some(result.unwrap_err().to_string())
}

#[test]
fn threads_that_wait_in_different_places_are_an_error() {
    let body = "if (threadIdx.x < 40)\n__syncthreads();\nelse\n__syncthreads();";
    let Some(message) = failure("divided", body, 64) else { return };
    for part in
        ["divided: block (0, 0, 0) cannot go on", "threads 0 to 39 wait in __syncthreads at divided:6", "divided:8"]
    {
        assert!(message.contains(part), "{message}");
    }
    let message = failure("lonely", "if (threadIdx.x == 1) __syncwarp(); else __syncthreads();", 32).unwrap();
    assert!(message.contains("threads 1 to 1 wait in __syncwarp"), "{message}");
    let message = failure("outside", "__shfl_sync(0xFFu, 1, 0);", 32).unwrap();
    assert!(message.contains("leaves this lane out"), "{message}");
    let message = failure("partial", "u32 a[4] = {}; float s[4] = {}; multiply_add(s, a, 0, 0);", 16).unwrap();
    assert!(message.contains("it takes the whole warp"), "{message}");
}

#[test]
fn memory_that_is_not_the_devices_is_an_error() {
    // Far behind the end there is no memory; just behind it, a pattern that must stay.
    let far = "if (threadIdx.x == 3) ((u32*)arguments.output)[1000] = 1;";
    let Some(message) = failure("far", far, 32) else { return };
    assert!(message.contains("thread 3 of block (0, 0, 0) touches 0x"), "{message}");
    assert!(message.contains("not the device's memory"), "{message}");
    let message = failure("shared_end", "SHARED_MEMORY(shared); shared[128 + threadIdx.x] = 1;", 1).unwrap();
    assert!(message.contains("behind the end of its dynamic shared memory"), "{message}");
    let message = failure("deep", "volatile char large[200000]; large[0] = 1; large[100000] = 2;", 1).unwrap();
    assert!(message.contains("touches"), "{message}");

    let device = emulator_for_tests().unwrap();
    let address = device.allocate(10).unwrap();
    let near = "((u8*)arguments.output)[10] = 1;";
    let text = text_of(
        "near",
        &format!(
            "#include \"gpu.cuh\"\nstruct A {{ u64 output; }};\nextern \"C\" __global__ void near(const A arguments) {{ {near} }}"
        ),
        &[],
    );
    let kernel = device.compile_text("near", &text).unwrap();
    device.launch(&Launch::new(kernel, [1, 1, 1], 1, 0, &address)).unwrap();
    let message = device.synchronize().unwrap_err().to_string();
    assert!(message.contains("just outside of the 10 bytes"), "{message}");
}

#[test]
fn arguments_of_another_size_are_an_error() {
    let Some(device) = emulator_for_tests() else { return };
    let text = text_of(
        "sized",
        "struct A { unsigned long long a, b; };\nextern \"C\" __global__ void sized(const A arguments) {}",
        &[],
    );
    let kernel = device.compile_text("sized", &text).unwrap();
    assert_eq!(device.launch(&Launch::new(kernel, [1, 1, 1], 1, 0, &[0u64; 2])), Ok(()));
    let message = device.launch(&Launch::new(kernel, [1, 1, 1], 1, 0, &[0u64; 3])).unwrap_err().to_string();
    assert!(message.contains("the kernel's arguments take 16 bytes, the launch gives 24"), "{message}");
}

#[test]
fn a_kernel_that_does_not_compile_says_why() {
    let Some(device) = emulator_for_tests() else { return };
    let error = device.compile_text("wrong", &text_of("wrong.cu", "\nint x = nothing;", &[])).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("kernel wrong does not compile"), "{message}");
    assert!(message.contains("wrong.cu:2") && message.contains("nothing"), "{message}");
}

#[test]
fn a_missing_wait_is_seen() {
    let Some(device) = emulator_for_tests() else { return };
    let body = "
        SHARED_MEMORY(shared);
        copy_async(shared, (const void*)arguments.input, true);
        copy_async_commit();
        copy_async_wait<1>();
        ((float*)arguments.output)[0] = ((float*)shared)[0];";
    let output: Vec<f32> = run_body(&device, "waitless", body, (1, 1, 16), &[1.0f32; 4], 1).unwrap();
    assert!(output[0].is_nan());
}

#[test]
fn a_missing_wait_for_products_is_seen() {
    let Some(device) = emulator_for_tests() else { return };
    for (pending, is_seen) in [(0, false), (1, true)] {
        let body = format!(
            "
            SHARED_MEMORY(shared);
            for (u32 i = threadIdx.x; i < 256; i += 128) ((uint4*)shared)[i] = make_uint4(0, 0, 0, 0);
            show_to_products();
            __syncthreads();
            const u64 a = operand<Major::k>(shared, 1024, 128);
            float sum[32] = {{}};
            begin_products();
            multiply_add_async<Major::k, Major::k>(sum, a, a, true);
            commit_products();
            wait_products<{pending}>();
            ((float*)arguments.output)[threadIdx.x] = sum[31];"
        );
        let name = format!("waiting_for_{pending}");
        let output: Vec<f32> = run_body(&device, &name, &body, (1, 128, 4096), &[0u32], 128).unwrap();
        assert!(output.iter().all(|number| number.is_nan() == is_seen), "{pending}: {output:?}");
    }
}

#[test]
fn runs_of_memory_are_poison_before_they_are_waited_for_and_counted_then() {
    let Some(device) = emulator_for_tests() else { return };
    let ask = |bytes: u32, parity: bool, read: &str| {
        format!(
            "
            SHARED_MEMORY(shared);
            u32* words = (u32*)shared;
            Arrival* arrival = (Arrival*)(words + 4);
            if (threadIdx.x == 0) {{
                prepare_arrival(arrival);
                expect_bytes(arrival, {bytes});
                copy_run(words, (const void*)arguments.input, 16, arrival);
            }}
            __syncthreads();
            {read}
            wait_arrival(arrival, {parity});"
        )
    };
    let read = "((u32*)arguments.output)[4 * blockIdx.x + threadIdx.x] = words[threadIdx.x];";
    let early: Vec<u32> = run_body(&device, "early", &ask(16, false, read), (2, 4, 64), &[7u32; 4], 8).unwrap();
    // In one of the blocks bytes come as late as can be.
    assert!(early.chunks(4).any(|block| block == [u32::MAX; 4]), "{early:?}");
    for (name, body, part) in [
        ("too_few", ask(32, false, ""), "wait_arrival for 32 bytes, of which 16 were asked for"),
        ("other_phase", ask(16, true, ""), "wait_arrival for another phase than number 0"),
    ] {
        let message = failure(name, &body, 4).unwrap();
        assert!(message.contains(part), "{message}");
    }
}

/// Who waits for bytes, or has the first warp wait, has not waited for what other threads write.
#[test]
fn waiting_for_runs_of_memory_is_no_barrier() {
    let Some(device) = emulator_for_tests() else { return };
    for (name, wait) in
        [("arrival", "wait_arrival(arrival, 0);"), ("first_warp", "first_warp_waits(threadIdx.x / 32, 64);")]
    {
        let body = format!(
            "
            SHARED_MEMORY(shared);
            u32* values = (u32*)shared;
            Arrival* arrival = (Arrival*)(values + 68);
            if (threadIdx.x == 0) {{
                prepare_arrival(arrival);
                expect_bytes(arrival, 16);
                copy_run(values + 64, (const void*)arguments.input, 16, arrival);
            }}
            __syncthreads();
            values[threadIdx.x] = threadIdx.x;
            {wait}
            ((u32*)arguments.output)[64 * blockIdx.x + threadIdx.x] = values[(threadIdx.x + 32) % 64];"
        );
        let output: Vec<u32> = run_body(&device, name, &body, (2, 64, 512), &[7u32; 4], 128).unwrap();
        assert!(output.contains(&u32::MAX), "{name}: {output:?}");
    }
}

/// Threads of neighbouring blocks run in opposite orders, so that one of them reads too early.
#[test]
fn a_missing_barrier_is_seen() {
    let Some(device) = emulator_for_tests() else { return };
    for neighbour in [1, 63] {
        let body = format!(
            "
            SHARED_MEMORY(shared);
            u32* values = (u32*)shared;
            values[threadIdx.x] = threadIdx.x;
            ((u32*)arguments.output)[64 * blockIdx.x + threadIdx.x] = values[(threadIdx.x + {neighbour}) % 64];"
        );
        let output: Vec<u32> = run_body(&device, "barrierless", &body, (2, 64, 256), &[0u32], 128).unwrap();
        assert!(output.contains(&u32::MAX), "{output:?}");
    }
}

#[test]
fn a_block_that_its_cluster_waits_for_is_an_error() {
    let Some(device) = emulator_for_tests() else { return };
    let source = "#include \"cluster.cuh\"
        struct A { u64 output; };
        extern \"C\" __global__ void late(const A arguments) {
            if (block_of_cluster() == 1) __syncthreads(); else meet_cluster();
            if (block_of_cluster() == 1 && threadIdx.x < 32) meet_cluster();
            if (block_of_cluster() == 1) __syncthreads();
        }";
    let kernel = device.compile_text("late", &text_of("late.cu", source, &[])).unwrap();
    let launch = Launch::new(kernel, [2, 1, 1], 64, 0, &0u64).in_clusters_of(2);
    let message = device.launch(&launch).unwrap_err().to_string();
    for part in ["cannot go on", "threads 0 to 63 wait in meet_cluster", "threads 96 to 127 wait in __syncthreads"] {
        assert!(message.contains(part), "{message}");
    }
}
