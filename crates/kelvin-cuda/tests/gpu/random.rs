//! Random numbers, orders and augmentations on the device are those of `kelvin::random` and `kelvin::data`.

use std::sync::Arc;

use crate::support::device_for_tests;
use bytemuck::{Pod, Zeroable};
use kelvin::data::{Augmentation, Placement, Shape, scaled, write_augmented};
use kelvin::random::{NoiseKey, Permutation, Purpose};
use kelvin_cuda::gpu::device::{Address, Launch};
use kelvin_cuda::gpu::kernels::text_of;
use kelvin_cuda::{Buffer, Device};

const BLOCK: u32 = 128;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Arguments {
    seed: u64,
    step: u64,
    parameter: u64,
    output: Address,
    purpose: u32,
    chain: u32,
    len: u32,
    unused: u32,
}

/// Runs `body` in `num_threads` threads numbered `i`, which know `name`, `parameter`, `len` and `output`.
fn run<T: Pod>(
    device: &Arc<dyn Device>,
    entry: &str,
    body: &str,
    name: &NoiseKey,
    (parameter, len, num_threads): (u64, u32, u32),
    num_outputs: usize,
) -> Vec<T> {
    let source = format!(
        "#include \"augment.cuh\"\n\
         struct Arguments {{ u64 seed, step, parameter, output; u32 purpose, chain, len, unused; }};\n\
         extern \"C\" __global__ void {entry}(const Arguments arguments) {{\n\
         const NoiseKey name{{arguments.seed, arguments.purpose, arguments.chain, arguments.step}};\n\
         const u32 i = blockIdx.x * blockDim.x + threadIdx.x, len = arguments.len;\n{body}\n}}\n"
    );
    let kernel = device.compile_text(entry, &text_of(entry, &source, &[])).unwrap();
    let output = Buffer::<T>::zeros(device, num_outputs).unwrap();
    let arguments = Arguments {
        seed: name.seed,
        step: name.step,
        parameter,
        output: output.at(0),
        purpose: name.purpose as u32,
        chain: name.chain,
        len,
        unused: 0,
    };
    device.launch(&Launch::new(kernel, [num_threads.div_ceil(BLOCK), 1, 1], BLOCK, 0, &arguments)).unwrap();
    device.synchronize().unwrap();
    output.to_vec().unwrap()
}

fn names() -> [NoiseKey; 3] {
    let step_noise = NoiseKey { seed: 11, purpose: Purpose::StepNoise, chain: 3, step: 5 };
    [
        step_noise,
        NoiseKey { seed: 0xDEAD_BEEF_0123_4567, chain: u32::MAX, step: (1 << 56) - 1, ..step_noise },
        NoiseKey { seed: 7 << 32, purpose: Purpose::StatisticsOrder, chain: 0, step: 1 << 33 },
    ]
}

#[test]
fn words_are_those_of_philox() {
    let Some(device) = device_for_tests() else { return };
    for name in names() {
        let body = "if (i < len) ((uint4*)arguments.output)[i] = random_words(name, i * 0x01000193u);";
        let found: Vec<[u32; 4]> = run(&device, "words", body, &name, (0, 1000, 1000), 1000);
        for (i, found) in found.iter().enumerate() {
            assert_eq!(*found, name.words((i as u32).wrapping_mul(0x0100_0193)), "{name:?}, block {i}");
        }
    }
}

#[test]
fn purposes_have_the_same_numbers() {
    let Some(device) = device_for_tests() else { return };
    let body = "const u32 purposes[] = {STEP_NOISE, BATCH_ORDER, INITIAL_POSITION, SPLIT, PRECONDITIONER, AUGMENTATION,
                                        PRECONDITIONER_AUGMENTATION, SYNTHETIC, STATISTICS_ORDER};
        if (i < 9) ((u32*)arguments.output)[i] = purposes[i];";
    let found: Vec<u32> = run(&device, "purposes", body, &names()[0], (0, 0, 9), 9);
    let purposes = [
        Purpose::StepNoise,
        Purpose::BatchOrder,
        Purpose::InitialPosition,
        Purpose::Split,
        Purpose::Preconditioner,
        Purpose::Augmentation,
        Purpose::PreconditionerAugmentation,
        Purpose::Synthetic,
        Purpose::StatisticsOrder,
    ];
    assert_eq!(found, purposes.map(|purpose| purpose as u32));
}

/// Bit for bit, one by one and by blocks, with a length that fills no group.
#[test]
fn normal_numbers_are_the_same_bits() {
    let Some(device) = device_for_tests() else { return };
    const LEN: usize = 100_003;
    let one_by_one = "if (i < len) ((float*)arguments.output)[i] = normal_at(name, i);";
    let by_blocks = "
        if (i < num_normal_blocks(len)) {
            const float4 four = normals_of_block(name, i);
            const float numbers[4] = {four.x, four.y, four.z, four.w};
            for (u32 q = 0; q < 4; q++) {
                const u32 at = first_parameter_of_block(i) + 16 * q;
                if (at < len) ((float*)arguments.output)[at] = numbers[q];
            }
        }";
    for name in names() {
        let mut expected = vec![0.0f32; LEN];
        name.fill_normal(&mut expected);
        for (entry, body, num_threads) in
            [("one_by_one", one_by_one, LEN), ("by_blocks", by_blocks, LEN.div_ceil(64) * 16)]
        {
            let found: Vec<f32> = run(&device, entry, body, &name, (0, LEN as u32, num_threads as u32), LEN);
            let differing = (0..LEN).find(|&i| found[i].to_bits() != expected[i].to_bits());
            if let Some(i) = differing {
                panic!("{entry}, {name:?}: number {i} is {}, expected {}", found[i], expected[i]);
            }
        }
    }
}

#[test]
fn permutations_are_the_same_orders() {
    let Some(device) = device_for_tests() else { return };
    let body = "
        const Permutation order = permutation_of(name, len);
        if (i < len) ((u32*)arguments.output)[i] = permutation_at(order, i);";
    for (epoch, len) in [(0, 1), (1, 2), (2, 15), (3, 97), (1 << 40, 256), (5, 257), (6, 9547), (7, 50_000)] {
        let name = NoiseKey { purpose: Purpose::BatchOrder, step: epoch, ..names()[0] };
        let found: Vec<u32> = run(&device, "order", body, &name, (0, len, len), len as usize);
        let order = Permutation::new(name.seed, name.purpose, name.chain, epoch, len as usize);
        let mut expected = vec![0; len as usize];
        order.fill(0, &mut expected);
        assert_eq!(found, expected, "{len} things");
    }
    // The largest sides: some positions only.
    let len = (1u32 << 31) - 1;
    let body = "
        const Permutation order = permutation_of(name, len);
        if (i < 1000) ((u32*)arguments.output)[i] = permutation_at(order, i * 2147483u);";
    let name = names()[1];
    let found: Vec<u32> = run(&device, "large_order", body, &name, (0, len, 1000), 1000);
    let order = Permutation::new(name.seed, name.purpose, name.chain, name.step, len as usize);
    let expected: Vec<u32> = (0..1000).map(|i| order.at(i * 2_147_483) as u32).collect();
    assert_eq!(found, expected);
}

#[test]
fn placements_are_the_same() {
    let Some(device) = device_for_tests() else { return };
    let body = "
        const Placement placement = placement_at(name, i, arguments.parameter);
        u32* output = (u32*)arguments.output + 3 * i;
        if (i < len) output[0] = placement.flip, output[1] = placement.top, output[2] = placement.left;";
    const LEN: usize = 2000;
    for strength in [0.0, 0.3, 1.0] {
        let augmentation = Augmentation::new(strength).unwrap();
        for name in names() {
            let parameters = (augmentation.threshold(), LEN as u32, LEN as u32);
            let found: Vec<[u32; 3]> = run(&device, "placements", body, &name, parameters, LEN);
            for (position, found) in found.iter().enumerate() {
                let Placement { flip, top, left } = augmentation.placement(&name, position);
                assert_eq!(*found, [u32::from(flip), top as u32, left as u32], "{strength}, {name:?}, {position}");
            }
        }
    }
}

/// Every placement of an image of two channels, pixel by pixel.
#[test]
fn pixels_are_found_where_they_lie() {
    let Some(device) = device_for_tests() else { return };
    let shape = Shape::image(7, 5, 1);
    let body = "
        const Placement placement{i / 81 % 2, i / 9 % 9, i % 9};
        if (i < 162)
            for (u32 pixel = 0; pixel < 35; pixel++) {
                const int from = source_pixel(placement, pixel / 5, pixel % 5, 7, 5);
                ((float*)arguments.output)[35 * i + pixel] = from < 0 ? 0.0f : scaled_byte((u8)(7 * from + 1));
            }";
    let found: Vec<f32> = run(&device, "pixels", body, &names()[0], (0, 0, 162), 162 * 35);
    let image: Vec<u8> = (0..35).map(|i| 7 * i + 1).collect();
    for (i, found) in found.chunks_exact(35).enumerate() {
        let placement = Placement { flip: i / 81 == 1, top: i / 9 % 9, left: i % 9 };
        let mut expected = vec![0.0; 35];
        write_augmented(&image, shape, placement, &mut expected, 1);
        assert_eq!(found, expected, "{placement:?}");
    }
    assert_eq!(scaled(255), 1.0);
}

#[test]
fn every_byte_is_scaled_as_on_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let body = "if (i < 256) ((float*)arguments.output)[i] = scaled_byte((u8)i);";
    let found: Vec<f32> = run(&device, "bytes", body, &names()[0], (0, 0, 256), 256);
    let expected: Vec<f32> = (0..=255).map(scaled).collect();
    assert_eq!(found, expected);
}
