//! The primitives of `gpu.cuh` and CUDA's words on the device of the tests, against plain computations.

use crate::support::{Need, device_for_tests, run_body, skipped};
use bytemuck::{Pod, Zeroable};
use kelvin_cuda::Buffer;
use kelvin_cuda::gpu::device::{Address, Launch};
use kelvin_cuda::gpu::kernels::text_of;

fn bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    if number.is_nan() { 0x7FFF } else { ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16) as u16 }
}

fn number_of(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Small whole numbers, so that every sum is exact.
fn small(i: usize) -> f32 {
    ((i * 37 + 11) % 17) as f32 - 8.0
}

#[test]
fn bf16_is_rounded_to_the_nearest_and_ties_to_even() {
    let Some(device) = device_for_tests() else { return };
    let tie_down = f32::from_bits(0x3F80_8000); // between …80 and …81: …80 is even
    let tie_up = f32::from_bits(0x3F81_8000);
    let mut input = vec![0.0, -0.0, 1.0, tie_down, tie_up, f32::from_bits(0x3F80_8001), f32::from_bits(0x3F80_7FFF)];
    input.extend([f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, f32::MIN_POSITIVE, f32::from_bits(1)]);
    input.extend((0..1000u32).map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761))));
    input.extend([f32::NAN, -f32::NAN, f32::from_bits(0x7F80_0001)]);
    input.resize(1024, 3.3);
    let body = "
        const float* input = (const float*)arguments.input;
        bf16* output = (bf16*)arguments.output;
        output[threadIdx.x] = to_bf16(input[threadIdx.x]);";
    let output: Vec<u16> = run_body(&device, "rounding", body, (1, 1024, 0), &input, 1024).unwrap();
    assert_eq!(output[3..7], [0x3F80, 0x3F82, 0x3F81, 0x3F80]);
    for (number, found) in input.iter().zip(output) {
        assert_eq!(found, bf16(*number), "{number:e} {:08x}", number.to_bits());
    }
}

#[test]
fn packed_numbers_lie_in_order() {
    let Some(device) = device_for_tests() else { return };
    let body = "
        const float* input = (const float*)arguments.input;
        ((u32*)arguments.output)[0] = pack_bf16(input[0], input[1]);
        ((float*)arguments.output)[1] = low_bf16(pack_bf16(input[0], input[1]));
        ((float*)arguments.output)[2] = high_bf16(pack_bf16(input[0], input[1]));";
    let output: Vec<u32> = run_body(&device, "packed", body, (1, 1, 0), &[1.5f32, -2.0], 3).unwrap();
    assert_eq!(output, [0xC000_3FC0, 1.5f32.to_bits(), (-2.0f32).to_bits()]);
}

/// Both forms of ldmatrix: matrix q, row r, column c holds 64 q + 8 r + c.
#[test]
fn matrices_are_loaded_as_described() {
    let Some(device) = device_for_tests() else { return };
    let input: Vec<u16> = (0..256).collect();
    for transposed in [false, true] {
        let word = if transposed { "load_matrices_transposed" } else { "load_matrices" };
        let body = format!(
            "
            SHARED_MEMORY(shared);
            u16* rows = (u16*)shared;
            for (u32 i = threadIdx.x; i < 256; i += 32) rows[i] = ((const u16*)arguments.input)[i];
            __syncthreads();
            u32 loaded[4];
            {word}(loaded, rows + 8 * threadIdx.x);
            for (u32 q = 0; q < 4; q++) ((u32*)arguments.output)[4 * threadIdx.x + q] = loaded[q];"
        );
        let output: Vec<u32> = run_body(&device, &format!("test_{word}"), &body, (1, 32, 512), &input, 128).unwrap();
        for lane in 0..32 {
            for q in 0..4 {
                let (r, c) = (lane / 4, 2 * (lane % 4));
                let at = |r: u32, c: u32| if transposed { 64 * q + 8 * c + r } else { 64 * q + 8 * r + c };
                let expected = at(r, c) | at(r, c + 1) << 16;
                assert_eq!(output[(4 * lane + q) as usize], expected, "{word}, lane {lane}, matrix {q}");
            }
        }
    }
}

/// sum += A B with every operand held as the comments of gpu.cuh say.
#[test]
fn products_of_matrices_are_those_of_the_lanes_that_hold_them() {
    let Some(device) = device_for_tests() else { return };
    let a: Vec<f32> = (0..256).map(small).collect();
    let b: Vec<f32> = (0..128).map(|i| small(3 * i + 5)).collect();
    let sum: Vec<f32> = (0..128).map(|i| small(7 * i + 1)).collect();
    let input = [a.clone(), b.clone(), sum.clone()].concat();
    let body = "
        const float* a = (const float*)arguments.input;
        const float* b = a + 256;
        const float* start = b + 128;
        const u32 r = threadIdx.x / 4, c = 2 * (threadIdx.x % 4);
        u32 left[4];
        for (u32 q = 0; q < 4; q++) {
            const float* at = a + (r + 8 * (q % 2)) * 16 + c + 8 * (q / 2);
            left[q] = pack_bf16(at[0], at[1]);
        }
        const u32 b0 = pack_bf16(b[c * 8 + r], b[(c + 1) * 8 + r]);
        const u32 b1 = pack_bf16(b[(c + 8) * 8 + r], b[(c + 9) * 8 + r]);
        float sum[4];
        for (u32 q = 0; q < 4; q++) sum[q] = start[(r + 8 * (q / 2)) * 8 + c + q % 2];
        multiply_add(sum, left, b0, b1);
        for (u32 q = 0; q < 4; q++) ((float*)arguments.output)[(r + 8 * (q / 2)) * 8 + c + q % 2] = sum[q];";
    let output: Vec<f32> = run_body(&device, "product", body, (1, 32, 0), &input, 128).unwrap();
    for row in 0..16 {
        for column in 0..8 {
            let product: f32 = (0..16).map(|k| a[row * 16 + k] * b[k * 8 + column]).sum();
            assert_eq!(output[row * 8 + column], sum[row * 8 + column] + product, "({row}, {column})");
        }
    }
}

/// Numbers that come by copies of four bytes, some of which are none and so 0.
#[test]
fn products_of_tf32_are_those_of_matrices() {
    let Some(device) = device_for_tests() else { return };
    let (a, b, sum): (Vec<f32>, Vec<f32>, Vec<f32>) = (
        (0..128).map(small).collect(),
        (0..64).map(|i| small(i + 5)).collect(),
        (0..128).map(|i| small(i + 9)).collect(),
    );
    let input = [&a[..], &b, &sum].concat();
    let body = "
        SHARED_MEMORY(shared);
        float* a = (float*)shared;
        const float* from = (const float*)arguments.input;
        for (u32 i = threadIdx.x; i < 320; i += 32) copy_word_async(a + i, from + i, i != 3);
        copy_async_commit();
        copy_async_wait<0>();
        __syncthreads();
        const float *b = a + 128, *start = b + 64;
        const u32 r = threadIdx.x / 4, c = threadIdx.x % 4;
        u32 left[4];
        for (u32 q = 0; q < 4; q++) left[q] = __float_as_uint(a[(r + 8 * (q % 2)) * 8 + c + 4 * (q / 2)]);
        float sum[4];
        for (u32 q = 0; q < 4; q++) sum[q] = start[(r + 8 * (q / 2)) * 8 + 2 * c + q % 2];
        multiply_add_tf32(sum, left, __float_as_uint(b[c * 8 + r]), __float_as_uint(b[(c + 4) * 8 + r]));
        for (u32 q = 0; q < 4; q++) ((float*)arguments.output)[(r + 8 * (q / 2)) * 8 + 2 * c + q % 2] = sum[q];";
    let output: Vec<f32> = run_body(&device, "product_tf32", body, (1, 32, 320 * 4), &input, 128).unwrap();
    let a = |at: usize| if at == 3 { 0.0 } else { a[at] };
    for row in 0..16 {
        for column in 0..8 {
            let product: f32 = (0..8).map(|k| a(row * 8 + k) * b[k * 8 + column]).sum();
            assert_eq!(output[row * 8 + column], sum[row * 8 + column] + product, "({row}, {column})");
        }
    }
}

/// Sums of wgmma: operands at odd places, both ways round, two groups of products of the same sum.
#[test]
fn products_of_warpgroups_read_shared_memory() {
    let Some(device) = device_for_tests() else { return };
    if !device.limits().warpgroup_products {
        return skipped(Need::Gpu, "this GPU has no wgmma");
    }
    // Planes of eight numbers of A's and of B's rows: along k for Major::k, across for Major::across.
    const PLANE: usize = 91;
    let numbers: Vec<f32> = (0..2 * 8 * PLANE * 8).map(small).collect();
    let input: Vec<u16> = numbers.iter().map(|&number| bf16(number)).collect();
    for (a_across, b_across) in [(false, false), (false, true), (true, false), (true, true)] {
        let word = |across: bool| if across { "across" } else { "k" };
        // Eight rows are sixteen bytes apart each, then 9 places further; or k, in the same way.
        let operand = |name: &str, first: usize, across: bool| {
            let (planes, places) = ("91 * 16", "9 * 16");
            let (along_k, aside) = if across { (places, planes) } else { (planes, places) };
            let of = word(across);
            format!("const u64 {name} = operand<Major::{of}>((uint4*)shared + {first}, {along_k}, {aside});")
        };
        let body = format!(
            "
            SHARED_MEMORY(shared);
            for (u32 i = threadIdx.x; i < 2 * 8 * 91; i += 128) ((uint4*)shared)[i] = ((const uint4*)arguments.input)[i];
            show_to_products();
            __syncthreads();
            {} {}
            float wide[32], narrow[16] = {{}};
            for (u32 i = 0; i < 32; i++) wide[i] = 3.0f;
            begin_products();
            multiply_add_async<Major::{a}, Major::{b}>(wide, a, b, false);
            multiply_add_async<Major::{a}, Major::{b}>(narrow, a, b, true);
            commit_products();
            multiply_add_async<Major::{a}, Major::{b}>(wide, a + 1, b + 2, true);
            commit_products();
            wait_products<1>();
            settle(narrow);
            float* output = (float*)arguments.output + 64 * 64;
            const u32 r = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, c = 2 * (threadIdx.x % 4);
            for (u32 i = 0; i < 16; i++) output[(r + i / 2 % 2 * 8) * 32 + i / 4 * 8 + c + i % 2] = narrow[i];
            wait_products<0>();
            settle(wide);
            output = (float*)arguments.output;
            for (u32 i = 0; i < 32; i++) output[(r + i / 2 % 2 * 8) * 64 + i / 4 * 8 + c + i % 2] = wide[i];",
            operand("a", 1, a_across),
            operand("b", 8 * PLANE + 3, b_across),
            a = word(a_across),
            b = word(b_across),
        );
        let name = format!("warpgroup_{}_{}", word(a_across), word(b_across));
        let shared = (2 * 8 * PLANE * 16) as u32;
        let output: Vec<f32> = run_body(&device, &name, &body, (1, 128, shared), &input, 64 * 96).unwrap();
        let number = |first: usize, across: bool, row: usize, k: usize| {
            let (planes, places) = if across { (row, k) } else { (k, row) };
            numbers[(first + planes / 8 * PLANE + places / 8 * 9 + places % 8) * 8 + planes % 8]
        };
        let product = |shifts: [usize; 2], row: usize, column: usize| -> f32 {
            let a = |k| number(1 + shifts[0], a_across, row, k);
            let b = |k| number(8 * PLANE + 3 + shifts[1], b_across, column, k);
            (0..16).map(|k| a(k) * b(k)).sum()
        };
        for (row, column) in (0..64).flat_map(|row| (0..64).map(move |column| (row, column))) {
            let wanted = product([0, 0], row, column) + product([1, 2], row, column);
            assert_eq!(output[row * 64 + column], wanted, "{name}, ({row}, {column})");
            if column < 32 {
                assert_eq!(output[64 * 64 + row * 32 + column], product([0, 0], row, column), "{name}, narrow");
            }
        }
    }
}

/// The way kernels use them: A by rows, B (k × n, row-major) transposed on its way in.
#[test]
fn loads_and_products_fit_together() {
    let Some(device) = device_for_tests() else { return };
    let numbers: Vec<f32> = (0..512).map(small).collect();
    let input: Vec<u16> = numbers.iter().map(|&number| bf16(number)).collect();
    let body = "
        SHARED_MEMORY(shared);
        bf16* a = (bf16*)shared;
        bf16* b = a + 256;
        for (u32 i = threadIdx.x; i < 64; i += 32) copy_async(shared + 16 * i, (const u8*)arguments.input + 16 * i, true);
        copy_async_commit();
        copy_async_wait<0>();
        __syncthreads();
        const u32 lane = threadIdx.x, row = lane % 8 + lane / 8 % 2 * 8, column = lane / 16 * 8;
        u32 left[4], right[4];
        load_matrices(left, a + row * 16 + column);
        load_matrices_transposed(right, b + row * 16 + column);
        for (u32 half = 0; half < 2; half++) {
            float sum[4] = {};
            multiply_add(sum, left, right[2 * half], right[2 * half + 1]);
            for (u32 q = 0; q < 4; q++)
                ((float*)arguments.output)[(lane / 4 + q / 2 * 8) * 16 + half * 8 + 2 * (lane % 4) + q % 2] = sum[q];
        }";
    let output: Vec<f32> = run_body(&device, "fitting", body, (1, 32, 1024), &input, 256).unwrap();
    for row in 0..16 {
        for column in 0..16 {
            let expected: f32 = (0..16).map(|k| numbers[row * 16 + k] * numbers[256 + k * 16 + column]).sum();
            assert_eq!(output[row * 16 + column], expected, "({row}, {column})");
        }
    }
    assert_eq!(number_of(input[0]), numbers[0]);
}

#[test]
fn copies_arrive_when_waited_for_and_are_zero_where_not_valid() {
    let Some(device) = device_for_tests() else { return };
    let input: Vec<u32> = (0..256).collect();
    // Three groups; the last is not waited for until the end.
    let body = "
        SHARED_MEMORY(shared);
        u32* words = (u32*)shared + 12 * threadIdx.x;
        const u32* input = (const u32*)arguments.input;
        u32* output = (u32*)arguments.output + 12 * threadIdx.x;
        for (u32 group = 0; group < 3; group++) {
            copy_async(words + 4 * group, input + 4 * ((threadIdx.x + group) % 64), group != 1 || threadIdx.x % 2 == 0);
            copy_async_commit();
        }
        copy_async_wait<1>();
        for (u32 i = 0; i < 8; i++) output[i] = words[i];
        copy_async_wait<0>();
        for (u32 i = 8; i < 12; i++) output[i] = words[i];";
    let output: Vec<u32> = run_body(&device, "copies", body, (1, 64, 64 * 48), &input, 64 * 12).unwrap();
    for thread in 0..64 {
        for i in 0..12 {
            let group = i / 4;
            let valid = group != 1 || thread % 2 == 0;
            let expected = if valid { 4 * ((thread + group) % 64) + i % 4 } else { 0 };
            assert_eq!(output[12 * thread + i], expected as u32, "thread {thread}, word {i}");
        }
    }
}

/// Three phases into the same place: the second has two runs of other lengths.
#[test]
fn runs_of_memory_arrive_phase_by_phase() {
    let Some(device) = device_for_tests() else { return };
    if !device.limits().warpgroup_products {
        return skipped(Need::Gpu, "this GPU has no bulk copies");
    }
    let input: Vec<u32> = (0..3 * 128).collect();
    let body = "
        SHARED_MEMORY(shared);
        u32* words = (u32*)shared;
        Arrival* arrival = (Arrival*)(words + 128);
        const u32* input = (const u32*)arguments.input;
        const int thread = threadIdx.x, warp = thread / 32;
        auto ask = [&](int phase) {
            if (thread != 0 || phase == 3) return;
            const u32 first = phase == 1 ? 16 : 512;
            expect_bytes(arrival, 512);
            copy_run(words, input + 128 * phase, first, arrival);
            if (first < 512) copy_run((char*)words + first, input + 128 * phase + first / 4, 512 - first, arrival);
        };
        if (thread == 0) prepare_arrival(arrival);
        ask(0);
        __syncthreads();
        for (int phase = 0; phase < 3; phase++) {
            wait_arrival(arrival, phase % 2);
            ((u32*)arguments.output)[128 * phase + thread] = words[thread] + words[(thread + 77) % 128];
            first_warp_waits(warp, 128);
            ask(phase + 1);
        }";
    let output: Vec<u32> = run_body(&device, "runs", body, (1, 128, 520), &input, 3 * 128).unwrap();
    for (place, &found) in output.iter().enumerate() {
        let (phase, thread) = (place / 128, place % 128);
        assert_eq!(found as usize, 256 * phase + thread + (thread + 77) % 128, "phase {phase}, thread {thread}");
    }
}

/// A sum over a block in both kinds of shared memory, several blocks one after the other.
#[test]
fn barriers_order_writes_and_reads() {
    let Some(device) = device_for_tests() else { return };
    let body = "
        SHARED_MEMORY(shared);
        __shared__ u32 total;
        u32* values = (u32*)shared;
        const u32 i = threadIdx.x, count = blockDim.x;
        if (i == 0) total = 0;
        values[i] = ((const u32*)arguments.input)[blockIdx.x * count + i];
        __syncthreads();
        for (u32 half = count / 2; half > 0; half /= 2) {
            if (i < half) values[i] += values[i + half];
            __syncthreads();
        }
        atomicAdd(&total, i);
        __syncthreads();
        if (i == 7) ((u32*)arguments.output)[blockIdx.x] = values[0] + total;";
    let input: Vec<u32> = (0..3 * 1024).map(|i| i * i % 1009).collect();
    let output: Vec<u32> = run_body(&device, "barriers", body, (3, 1024, 4096), &input, 3).unwrap();
    for (block, found) in output.iter().enumerate() {
        let expected: u32 = input[block * 1024..][..1024].iter().sum();
        assert_eq!(*found, expected + 1023 * 512);
    }
}

#[test]
fn shuffles_and_votes_go_over_the_warp() {
    let Some(device) = device_for_tests() else { return };
    let input: Vec<u32> = (0..64).map(|i| i * i + 3).collect();
    let body = "
        const u32 all = 0xFFFFFFFFu, i = threadIdx.x, value = ((const u32*)arguments.input)[i];
        u32* output = (u32*)arguments.output + 12 * i;
        output[0] = __shfl_sync(all, value, 5);
        output[1] = __shfl_sync(all, value, i + 1, 8);
        output[2] = __shfl_xor_sync(all, value, 3);
        output[3] = __shfl_down_sync(all, value, 4);
        output[4] = __shfl_down_sync(all, value, 2, 16);
        output[5] = __shfl_up_sync(all, value, 1);
        output[6] = __ballot_sync(all, value % 3 == 0);
        output[7] = __any_sync(all, value == 3);
        output[8] = __all_sync(all, value >= 3);
        output[9] = (u32)warp_sum((float)i);
        output[10] = (u32)(__shfl_xor_sync(all, (u64)value << 32, 1) >> 32);
        // Half the warp on its own.
        output[11] = i % 2 == 0 ? __shfl_xor_sync(0x55555555u, value, 2) : 0;
        __syncwarp();";
    let output: Vec<u32> = run_body(&device, "shuffles", body, (1, 64, 0), &input, 64 * 12).unwrap();
    for i in 0..64 {
        let warp = &input[i / 32 * 32..][..32];
        let lane = i % 32;
        let ballot = (0..32).filter(|&lane| warp[lane].is_multiple_of(3)).fold(0, |ballot, lane| ballot | 1 << lane);
        let expected = [
            warp[5],
            warp[lane / 8 * 8 + (lane + 1) % 8],
            warp[lane ^ 3],
            warp[if lane < 28 { lane + 4 } else { lane }],
            warp[if lane % 16 < 14 { lane + 2 } else { lane }],
            warp[lane.saturating_sub(1)],
            ballot,
            u32::from(i < 32),
            1,
            (i / 32 * 32 * 32 + 496) as u32,
            warp[lane ^ 1],
            if lane % 2 == 0 { warp[lane ^ 2] } else { 0 },
        ];
        assert_eq!(output[12 * i..][..12], expected, "thread {i}");
    }
}

#[test]
fn atomics_count_every_thread() {
    let Some(device) = device_for_tests() else { return };
    let body = "
        u32* output = (u32*)arguments.output;
        atomicAdd(output, 1u);
        atomicMax(output + 1, blockIdx.x * blockDim.x + threadIdx.x);
        atomicAdd((int*)(output + 2), -1);
        atomicAdd((float*)(output + 3), 0.5f);
        atomicAdd((u64*)(output + 4), 1ull << 30);
        if (atomicExch(output + 6, 1u) == 0) atomicAdd(output + 7, 1u);
        __threadfence();";
    let output: Vec<u32> = run_body(&device, "atomics", body, (10, 96, 0), &[0u32], 8).unwrap();
    assert_eq!(output[..3], [960, 959, -960i32 as u32]);
    assert_eq!(f32::from_bits(output[3]), 480.0);
    assert_eq!(u64::from(output[5]) << 32 | u64::from(output[4]), 960 << 30);
    assert_eq!(output[6..], [1, 1]);
}

#[test]
fn arithmetic_is_what_it_says() {
    let Some(device) = device_for_tests() else { return };
    let input = [1.25f32, -3.5, 2.0, f32::NAN];
    let body = "
        const float* x = (const float*)arguments.input;
        double* y = (double*)arguments.output;
        y[0] = __fmaf_rn(x[0], x[1], x[2]);
        y[1] = rsqrtf(x[2]);
        y[2] = min(x[0], x[3]);
        y[3] = max(7, 5u);
        y[4] = __umulhi(0x80000000u, 6u);
        y[5] = exp((double)x[0]);
        y[6] = __expf(x[0]);
        float sine, cosine;
        __sincosf(x[0], &sine, &cosine);
        y[7] = sine;
        const float4 four = __ldg((const float4*)x);
        y[8] = four.y + make_float2(1.0f, 2.0f).y;
        y[9] = __uint_as_float(__float_as_uint(x[1]) ^ 0x80000000u);";
    let output: Vec<f64> = run_body(&device, "arithmetic", body, (1, 1, 0), &input, 10).unwrap();
    let expected = [-2.375, 0.5f64.sqrt(), 1.25, 7.0, 3.0, 1.25f64.exp(), 1.25f64.exp(), 1.25f64.sin(), -1.5, 3.5];
    for (i, (found, expected)) in output.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 2e-6 * expected.abs(), "{i}: {found}, expected {expected}");
    }
}

/// Threads that have returned are not waited for, as on a GPU.
#[test]
fn returned_threads_hold_nobody_up() {
    let Some(device) = device_for_tests() else { return };
    let body = "if (threadIdx.x >= 50) return; __syncthreads(); ((u32*)arguments.output)[threadIdx.x] = 1;";
    let output: Vec<u32> = run_body(&device, "returned", body, (1, 64, 0), &[0u32], 64).unwrap();
    assert_eq!(output.iter().sum::<u32>(), 50);
}

#[test]
fn recordings_run_as_often_as_asked_and_memory_is_zero_at_first() {
    let Some(device) = device_for_tests() else { return };
    let text = text_of(
        "count",
        "struct A { unsigned long long to; unsigned add; unsigned times; };\n\
         extern \"C\" __global__ void count(const A arguments) {\n\
         unsigned* to = (unsigned*)arguments.to + threadIdx.x;\n*to = *to * arguments.times + arguments.add;\n}",
        &[],
    );
    let kernel = device.compile_text("count", &text).unwrap();
    assert_eq!(device.compile_text("count", &text), Ok(kernel));
    let counts = Buffer::<u32>::zeros(&device, 32).unwrap();
    assert!(counts.at(0).is_multiple_of(256));
    assert_eq!(counts.to_vec().unwrap(), [0; 32]);
    #[repr(C)]
    #[derive(Clone, Copy, Pod, Zeroable)]
    struct Arguments {
        to: Address,
        add: u32,
        times: u32,
    }
    let launch = |add, times| Launch::new(kernel, [1, 1, 1], 32, 0, &Arguments { to: counts.at(0), add, times });
    let recording = device.record(&[&[launch(1, 1), launch(0, 2)]]).unwrap();
    device.replay(recording, 3).unwrap();
    device.synchronize().unwrap();
    assert_eq!(counts.to_vec().unwrap(), [14; 32]);
    device.forget(recording);
    // What is launched beside others is there for those who join.
    let recording = device.record(&[&[launch(1, 0), launch(6, 1).beside(), launch(0, 3).joining()]]).unwrap();
    device.replay(recording, 2).unwrap();
    assert_eq!(counts.to_vec().unwrap(), [21; 32]);
    device.forget(recording);
}

/// Two clusters of four: every thread reads its neighbour block's number and writes to its memory, between two meetings.
#[test]
fn blocks_of_a_cluster_reach_each_others_shared_memory() {
    let Some(device) = device_for_tests() else { return };
    if !device.limits().warpgroup_products {
        return skipped(Need::Gpu, "this GPU has no clusters");
    }
    let source = "#include \"cluster.cuh\"
        struct A { u64 output; };
        extern \"C\" __global__ void ring(const A arguments) {
            SHARED_MEMORY(shared);
            u32* own = (u32*)shared;
            own[threadIdx.x] = 1000 * blockIdx.x + threadIdx.x;
            meet_cluster();
            const u32 next = (block_of_cluster() + 1) % 4;
            const u32 seen = in_block(own, next)[threadIdx.x];
            in_block(own + 64, next)[threadIdx.x] = 2 * seen + block_of_cluster();
            meet_cluster();
            ((u32*)arguments.output)[blockIdx.x * 64 + threadIdx.x] = own[64 + threadIdx.x];
        }";
    let kernel = device.compile_text("ring", &text_of("ring.cu", source, &[])).unwrap();
    let output = Buffer::<u32>::zeros(&device, 8 * 64).unwrap();
    let launch = |blocks| Launch::new(kernel, [blocks, 1, 1], 64, 512, &output.at(0)).in_clusters_of(4);
    device.launch(&launch(8)).unwrap();
    let found = output.to_vec().unwrap();
    for (i, found) in (0u32..).zip(found) {
        let (block, thread) = (i / 64, i % 64);
        assert_eq!(found, 2 * (1000 * block + thread) + (block + 3) % 4, "thread {thread} of block {block}");
    }
    assert!(device.launch(&launch(6)).is_err(), "six blocks are no whole number of clusters");
}
