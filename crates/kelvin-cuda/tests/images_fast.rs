//! The tensor cores' kernels give the CPU's gradients, for every way they are compiled.

mod image_support;
mod support;

use image_support::{examples, parameters, posterior, statistics};
use kelvin::network::{Layer, Mode, Network, Rows, Shape, Weights};
use kelvin::potential::{Batch, Potential};
use kelvin_cuda::{ImageEngine, Precision};
use support::device_for_tests;

fn conv(filters: usize, kernel: usize, stride: usize) -> Layer {
    Layer::Conv { filters, kernel, stride }
}

/// A ResNet's layers two at a time: deeper networks of random weights make chaos of bf16's roundings.
fn networks() -> Vec<(String, Network)> {
    let dense = Layer::Dense { units: 3 };
    let mut networks = Vec::new();
    for (size, channels, filters, kernel, stride) in [
        (8, 16, 16, 3, 1),
        (8, 16, 32, 3, 2),
        (8, 16, 32, 1, 2),
        (8, 32, 32, 3, 1),
        (8, 32, 64, 3, 2),
        (8, 64, 64, 3, 1),
        (8, 32, 16, 5, 1),
        (16, 32, 32, 3, 1),
        (32, 16, 16, 3, 1),
    ] {
        let mut layers = vec![conv(channels, 3, 1), Layer::BATCH_NORM, Layer::Relu];
        layers.extend([conv(filters, kernel, stride), Layer::BATCH_NORM, Layer::Relu]);
        layers.extend([Layer::GlobalAvgPool, dense.clone()]);
        let name = format!("{size} pixels, {channels} to {filters} channels, kernel {kernel}, stride {stride}");
        networks.push((name, Network::new(Shape::image(size, size, 3), layers).unwrap()));
    }
    let unit = |kernel| vec![conv(32, kernel, 2), Layer::BATCH_NORM];
    let residual = Layer::Residual { body: unit(3), shortcut: unit(1) };
    let layers = vec![conv(16, 3, 1), Layer::Relu, residual, Layer::Relu, Layer::GlobalAvgPool, dense.clone()];
    networks.push(("residual with projection".into(), Network::new(Shape::image(8, 8, 2), layers).unwrap()));
    // The gradient of a sum goes through the norm of its term, whose sums the convolution behind takes.
    let residual = Layer::Residual { body: vec![conv(16, 3, 1), Layer::BATCH_NORM], shortcut: vec![] };
    let mut layers = vec![conv(16, 3, 1), Layer::Relu, residual, Layer::Relu, conv(16, 3, 1), Layer::BATCH_NORM];
    layers.extend([Layer::Relu, Layer::GlobalAvgPool, dense.clone()]);
    networks.push(("residual before a convolution".into(), Network::new(Shape::image(8, 8, 2), layers).unwrap()));
    let pool = Layer::AvgPool { size: 2 };
    let mut layers = vec![conv(32, 3, 1), Layer::Relu, pool.clone(), conv(64, 3, 1), Layer::Relu, pool];
    layers.extend([Layer::Dense { units: 72 }, Layer::Relu, dense]);
    for size in [12, 28] {
        let network = Network::new(Shape::image(size, size, 1), layers.clone()).unwrap();
        networks.push((format!("biases, pools and dense layers, {size} pixels"), network));
    }
    networks
}

#[test]
fn gradients_are_those_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    for (name, network) in networks() {
        let examples = examples(&network, 8, true);
        let posterior = posterior(&network, &examples);
        let statistics = statistics(&network);
        let positions: Vec<Vec<f32>> = (0..2).map(|chain| parameters(&network, chain)).collect();
        let weights: Vec<Weights<'_>> =
            positions.iter().map(|parameters| Weights { parameters, statistics: &statistics }).collect();
        let slices: Vec<&[f32]> = positions.iter().map(|position| &position[..]).collect();
        // Fewer of the large ones, for the emulator's sake; an odd number either way.
        let rows = if network.input().width > 12 { &[4, 1, 0][..] } else { &[4, 1, 0, 2, 7] };
        let rows = Rows::These(rows);
        let engine = ImageEngine::new(device.clone(), &posterior, Precision::Half).unwrap();
        for inference in [false, true] {
            let (mode, found) = if inference {
                let found = engine.gradients_with_statistics(&weights, &[1.0, 2.0], &[rows]);
                (Mode::Inference(&statistics), found.unwrap())
            } else {
                (Mode::Training, engine.gradients(&slices, &[1.0, 2.0], &[rows]).unwrap())
            };
            for ((position, weight), (_, found)) in positions.iter().zip([1.0, 2.0]).zip(&found) {
                let mut wanted = vec![0.0; posterior.dim()];
                let batch = Batch { rows, likelihood_weight: weight, mode };
                posterior.evaluate(position, batch, &mut wanted, &mut posterior.workspace());
                let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|g| g * g).sum::<f64>().sqrt();
                let all = norm(&mut wanted.iter().map(|&g| f64::from(g)));
                for tensor in network.layout().tensors() {
                    let pairs = found[tensor.range.clone()].iter().zip(&wanted[tensor.range.clone()]);
                    let error = norm(&mut pairs.map(|(a, b)| f64::from(a - b)));
                    let own = norm(&mut wanted[tensor.range.clone()].iter().map(|&g| f64::from(g)));
                    // Rounding to bf16 switches a ReLU here and there: small tensors are judged by the whole as well.
                    let bound = 3e-2 * own + 1e-2 * all;
                    assert!(
                        error < bound,
                        "{name}, inference {inference}: {} off by {error:e} of {own:e}",
                        tensor.name
                    );
                }
            }
        }
    }
}
