//! The tensor cores' kernels give the CPU's gradients, for every way they are compiled.

use std::sync::Arc;

use crate::networks::{examples, parameters, posterior, relative_error, statistics};
use crate::support::{EmulatedDevice, Need, device_for_tests, skipped};
use kelvin::network::{Layer, Mode, Network, Rows, Shape, Weights};
use kelvin::potential::{Batch, Potential};
use kelvin::sampler::{Batches, Chain, Integrator, Keep, Langevin, Plan, Silent, run_population};
use kelvin::temperature::Temperature;
use kelvin_cuda::{Device, GeneralEngine, Precision};

fn conv(filters: usize, kernel: usize, stride: usize) -> Layer {
    Layer::Conv { filters, kernel, stride, groups: 1 }
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
    networks.push(("residual before a convolution".into(), residual_before_convolution(16, 8)));
    // Strides beyond the kernel, whose tiles do not hold all pixels, and whose outputs are few.
    for (size, body, shortcut) in [(8, 5, 1), (16, 3, 5)] {
        let part = |kernel| vec![conv(16, kernel, 4), Layer::BATCH_NORM];
        let residual = Layer::Residual { body: part(body), shortcut: part(shortcut) };
        // Of so few outputs a single ReLU that rounding switches would be seen.
        let layers = vec![conv(16, 3, 1), Layer::Relu, residual, Layer::GlobalAvgPool, dense.clone()];
        let name = format!("stride 4, kernels {body} and {shortcut}");
        networks.push((name, Network::new(Shape::image(size, size, 3), layers).unwrap()));
    }
    let pool = Layer::AvgPool { size: 2 };
    let mut layers = vec![conv(32, 3, 1), Layer::Relu, pool.clone(), conv(64, 3, 1), Layer::Relu, pool];
    layers.extend([Layer::Dense { units: 72 }, Layer::Relu, dense]);
    for size in [12, 28] {
        let network = Network::new(Shape::image(size, size, 1), layers.clone()).unwrap();
        networks.push((format!("biases, pools and dense layers, {size} pixels"), network));
    }
    networks
}

/// The convolution behind a sum works it out, and takes the sums of the norm of its term that the sum's gradient goes through.
fn residual_before_convolution(channels: usize, size: usize) -> Network {
    let residual = Layer::Residual { body: vec![conv(channels, 3, 1), Layer::BATCH_NORM], shortcut: vec![] };
    let mut layers = vec![conv(channels, 3, 1), Layer::Relu, residual, Layer::Relu, conv(channels, 3, 1)];
    layers.extend([Layer::BATCH_NORM, Layer::Relu, Layer::GlobalAvgPool, Layer::Dense { units: 3 }]);
    Network::new(Shape::image(size, size, 2), layers).unwrap()
}

/// Norms whose sums are taken by who completes the gradient: a pool, strided convolutions (a sum's term and a value's own),
/// and convolutions behind a sum of two terms with norms.
fn normed_networks() -> Vec<(String, Network)> {
    let residual = |filters, stride| Layer::Residual {
        body: vec![conv(filters, 3, stride), Layer::BATCH_NORM],
        shortcut: if stride > 1 { vec![conv(filters, 1, stride), Layer::BATCH_NORM] } else { vec![] },
    };
    let head = [Layer::Relu, Layer::GlobalAvgPool, Layer::Dense { units: 3 }];
    let network =
        |size, layers: Vec<Layer>| Network::new(Shape::image(size, size, 2), [layers, head.to_vec()].concat()).unwrap();
    let mut networks = Vec::new();
    let layers = vec![conv(16, 3, 1), Layer::Relu, residual(32, 2)];
    networks.push(("residual with projection".into(), network(8, layers)));
    let layers = vec![conv(16, 3, 1), Layer::Relu, residual(16, 1), Layer::Relu, residual(32, 2)];
    networks.push(("residual before a projection".into(), network(8, layers)));
    for (channels, filters) in [(16, 32), (32, 64)] {
        let mut layers = vec![conv(channels, 3, 1), Layer::Relu, residual(filters, 2), Layer::Relu];
        layers.extend([conv(filters, 3, 1), Layer::BATCH_NORM]);
        networks.push((format!("projection to {filters} before a convolution"), network(16, layers)));
    }
    // So large that blocks of the pool have several shares.
    let layers = vec![conv(64, 3, 1), Layer::BATCH_NORM, Layer::Relu, Layer::AvgPool { size: 2 }];
    networks.push(("pool of a large image".into(), network(64, layers)));
    networks
}

/// Layers that warpgroups multiply: two images a tile, half an image a tile, and those that add to a gradient.
fn wide_networks() -> Vec<(String, Network)> {
    let residual = |channels, size| {
        (format!("residual of {channels} channels, {size} pixels"), residual_before_convolution(channels, size))
    };
    let mut networks = vec![residual(32, 8), residual(64, 8), residual(64, 16)];
    for (channels, size) in [(64, 8), (64, 16), (32, 16), (32, 32)] {
        let two = [conv(channels, 3, 1), Layer::BATCH_NORM, Layer::Relu];
        let mut layers = [two.clone(), two].concat();
        layers.extend([Layer::GlobalAvgPool, Layer::Dense { units: 3 }]);
        let network = Network::new(Shape::image(size, size, 3), layers).unwrap();
        networks.push((format!("{channels} channels, {size} pixels"), network));
    }
    networks
}

/// Norms that the convolution behind them finishes: of its input, of one term or both of the sum that it works out, of
/// a term that another convolution has finished before. And norms that it must not: of a term that is there twice, of
/// what a pool reads, first or second.
fn networks_of_finished_norms() -> Vec<(String, Network)> {
    let unit = |filters, kernel, stride| vec![conv(filters, kernel, stride), Layer::BATCH_NORM];
    let sum = |body, shortcut| Layer::Residual { body, shortcut };
    let pool = || vec![Layer::AvgPool { size: 2 }];
    [
        ("one", 32, 32, sum(unit(32, 3, 1), vec![])),
        ("both", 16, 32, sum(unit(32, 3, 2), unit(32, 1, 2))),
        ("both of 3×3", 16, 32, sum(unit(32, 3, 2), unit(32, 3, 2))),
        ("twice the same", 16, 16, sum(vec![], vec![])),
        ("behind a pool", 16, 16, sum([pool(), unit(16, 3, 1)].concat(), unit(16, 3, 2))),
        ("and a pool", 16, 16, sum(unit(16, 3, 2), pool())),
    ]
    .into_iter()
    .map(|(name, channels, filters, sum)| {
        let relu = vec![Layer::Relu];
        let end = vec![Layer::GlobalAvgPool, Layer::Dense { units: 3 }];
        let first = [unit(channels, 3, 1), relu.clone(), vec![sum], relu.clone()].concat();
        let layers = [first, unit(filters, 3, 1), relu, end].concat();
        let network = Network::new(Shape::image(16, 16, 2), layers).unwrap();
        (format!("finished norms of a sum's terms: {name}"), network)
    })
    .collect()
}

/// Each of several blocks of a chain finishes norms for itself.
#[test]
fn gradients_by_several_blocks_are_those_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    compare_gradients(&device, networks_of_finished_norms(), MANY_OUTPUTS);
}

/// But one of them moves the running statistics.
#[test]
fn running_statistics_move_once() {
    let Some(device) = device_for_tests() else { return };
    for (name, network) in networks_of_finished_norms() {
        let examples = examples(&network, 8, true);
        let posterior = posterior(&network, &examples);
        let engine = GeneralEngine::new(device.clone(), &posterior, Precision::Half).unwrap();
        let batches = Batches::new(8, Some(6)).unwrap();
        let plan = Plan { seed: 3, batches, num_steps: 1, keep: Keep { burn_in: 1, every: 1 } };
        let rule = Langevin::new(Integrator::Sghmc, 1e-3, 0.9);
        let temperature = Temperature::new(1.0).unwrap();
        let mut found: Vec<Chain> =
            (0..2).map(|id| Chain::new(id, temperature, parameters(&network, id), &network.layout())).collect();
        let (mut wanted, begun) = (found.clone(), network.initial_statistics());
        engine.sample(&rule, &plan, &mut found, &Silent).unwrap();
        run_population(&posterior, &rule, &plan, &mut wanted, &Silent);
        for (found, wanted) in found.iter().zip(&wanted) {
            let moved = |chain: &Chain| -> Vec<f32> {
                chain.state.statistics.iter().zip(&begun).map(|(after, before)| after - before).collect()
            };
            assert!(!moved(wanted).is_empty());
            let error = relative_error(&moved(found), &moved(wanted));
            assert!(error < 2e-2, "{name}: statistics moved otherwise, off by {error:e}");
        }
    }
}

/// Strided layers that warpgroups multiply: alone behind a norm, and with a shortcut behind a sum, as in a ResNet; two images a
/// tile, half an image, one, and images that are not square.
fn strided_networks() -> Vec<(String, Network)> {
    let end = [Layer::Relu, Layer::GlobalAvgPool, Layer::Dense { units: 3 }];
    let mut networks = Vec::new();
    for (channels, height, size) in [(16, 16, 16), (16, 32, 32), (32, 16, 16), (16, 32, 16)] {
        let network = |layers: &[&[Layer]]| Network::new(Shape::image(height, size, 2), layers.concat()).unwrap();
        let unit = |filters, kernel, stride| [conv(filters, kernel, stride), Layer::BATCH_NORM];
        let first = [unit(channels, 3, 1).to_vec(), vec![Layer::Relu]].concat();
        let alone = network(&[&first, &unit(2 * channels, 3, 2), &end]);
        networks.push((format!("strided from {channels} channels, {height}×{size} pixels"), alone));
        let same = Layer::Residual { body: unit(channels, 3, 1).to_vec(), shortcut: vec![] };
        let mut body = [&unit(2 * channels, 3, 2)[..], &[Layer::Relu], &unit(2 * channels, 3, 1)].concat();
        // A longer body would use the place of the shortcut's gradient again, were it free.
        if size == 16 {
            body.splice(2..2, [&[Layer::Relu][..], &unit(2 * channels, 1, 1)].concat());
        }
        let shrinks = Layer::Residual { body, shortcut: unit(2 * channels, 1, 2).to_vec() };
        let both = network(&[&[conv(channels, 3, 1), Layer::Relu, same, Layer::Relu, shrinks], &end]);
        networks.push((format!("shortcut from {channels} channels, {height}×{size} pixels"), both));
    }
    networks
}

#[test]
fn strided_gradients_by_warpgroups_are_those_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    compare_gradients(&device, strided_networks(), MANY_OUTPUTS);
}

#[test]
fn gradients_are_those_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    compare_gradients(&device, networks(), FEW_OUTPUTS);
}

#[test]
fn gradients_through_norms_are_those_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    compare_gradients(&device, normed_networks(), FEW_OUTPUTS);
}

#[test]
fn gradients_by_warpgroups_are_those_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    compare_gradients(&device, wide_networks(), MANY_OUTPUTS);
}

#[test]
fn gradients_without_warpgroups_are_those_of_the_cpu() {
    let Ok(device) = EmulatedDevice::new() else { return skipped(Need::Emulator, "no emulator") };
    let device: Arc<dyn Device> = Arc::new(device.without_warpgroups());
    compare_gradients(&device, [networks(), normed_networks()].concat(), FEW_OUTPUTS);
    compare_gradients(&device, [wide_networks(), strided_networks()].concat(), MANY_OUTPUTS);
}

/// No ReLU that rounding switches: what is left is so little that a single wrong number shows.
#[test]
fn gradients_of_linear_networks_are_those_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let networks = [networks(), normed_networks(), wide_networks(), networks_of_finished_norms(), strided_networks()];
    compare_gradients(&device, linear(networks.concat()), NO_RELU);
}

#[test]
fn gradients_of_linear_networks_without_warpgroups_are_those_of_the_cpu() {
    let Ok(device) = EmulatedDevice::new() else { return skipped(Need::Emulator, "no emulator") };
    let device: Arc<dyn Device> = Arc::new(device.without_warpgroups());
    compare_gradients(&device, linear([networks(), normed_networks()].concat()), NO_RELU);
}

/// The same networks without their ReLUs.
fn linear(networks: Vec<(String, Network)>) -> Vec<(String, Network)> {
    fn cut(layers: &[Layer]) -> Vec<Layer> {
        let kept = layers.iter().filter(|layer| **layer != Layer::Relu);
        kept.map(|layer| match layer {
            Layer::Residual { body, shortcut } => Layer::Residual { body: cut(body), shortcut: cut(shortcut) },
            layer => layer.clone(),
        })
        .collect()
    }
    let network = |network: Network| Network::new(network.input(), cut(network.layers())).unwrap();
    networks.into_iter().map(|(name, of)| (format!("{name}, linear"), network(of))).collect()
}

/// Fewer images can have more blocks, and so more partial sums.
#[test]
fn batches_of_several_sizes_have_room_for_their_partial_sums() {
    let Some(device) = device_for_tests() else { return };
    let two = [conv(64, 3, 1), Layer::BATCH_NORM, Layer::Relu];
    let mut layers = [two.clone(), two].concat();
    layers.extend([Layer::GlobalAvgPool, Layer::Dense { units: 3 }]);
    let network = Network::new(Shape::image(8, 8, 3), layers).unwrap();
    let examples = examples(&network, 10, true);
    let posterior = posterior(&network, &examples);
    let position = parameters(&network, 0);
    let (all, most): (Vec<u32>, Vec<u32>) = ((0..10).collect(), (0..8).collect());
    let engine = GeneralEngine::new(device.clone(), &posterior, Precision::Half).unwrap();
    let gradient = |batches: &[Rows<'_>]| engine.gradients(&[&position], &[1.0], batches).unwrap().remove(0).1;
    let (one_way, other_way) =
        (gradient(&[Rows::These(&all), Rows::These(&most)]), gradient(&[Rows::These(&most), Rows::These(&all)]));
    let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|g| f64::from(g).powi(2)).sum::<f64>().sqrt();
    let error = norm(&mut one_way.iter().zip(&other_way).map(|(a, b)| a - b));
    assert!(error < 1e-5 * norm(&mut one_way.iter().copied()), "off by {error}");
}

/// Each tensor's gradient may be off by so much of itself and of the gradient of all, and each of its numbers by so much of
/// their root mean square: about twice what was found.
#[derive(Clone, Copy)]
struct Bounds {
    own: f64,
    all: f64,
    number: f64,
    /// With given statistics as well, which do not fit these weights: outputs are large, and so are their errors.
    inference: bool,
}

/// Rounding to bf16 switches a ReLU here and there: the fewer outputs there are, the more does each count.
const FEW_OUTPUTS: Bounds = Bounds { own: 6e-2, all: 2e-2, number: 0.9, inference: true };
const MANY_OUTPUTS: Bounds = Bounds { own: 3e-2, all: 6e-3, number: 0.6, inference: true };
const NO_RELU: Bounds = Bounds { own: 1e-2, all: 1e-3, number: 0.1, inference: false };

fn compare_gradients(device: &Arc<dyn Device>, networks: Vec<(String, Network)>, bounds: Bounds) {
    for (name, network) in networks {
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
        let engine = GeneralEngine::new(device.clone(), &posterior, Precision::Half).unwrap();
        let found = engine.gradients(&slices, &[1.0, 2.0], &[rows]).unwrap();
        let mut modes = vec![("training", Mode::Training, found)];
        if bounds.inference {
            let found = engine.gradients_with_statistics(&weights, &[1.0, 2.0], &[rows]).unwrap();
            modes.push(("inference", Mode::Inference(&statistics), found));
        }
        for (mode_name, mode, found) in modes {
            for ((position, weight), (_, found)) in positions.iter().zip([1.0, 2.0]).zip(&found) {
                let mut wanted = vec![0.0; posterior.dim()];
                let batch = Batch { rows, likelihood_weight: weight, mode };
                posterior.evaluate(position, batch, &mut wanted, &mut posterior.workspace());
                assert_near(&format!("{name}, {mode_name}"), &network, found, &wanted, bounds);
            }
        }
    }
}

fn assert_near(what: &str, network: &Network, found: &[f32], wanted: &[f32], bounds: Bounds) {
    let norm = |values: &[f32]| values.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
    let all = norm(wanted);
    for tensor in network.layout().tensors() {
        let wanted = &wanted[tensor.range.clone()];
        let errors: Vec<f32> = found[tensor.range.clone()].iter().zip(wanted).map(|(a, b)| a - b).collect();
        let (error, own) = (norm(&errors), norm(wanted));
        assert!(error < bounds.own * own + bounds.all * all, "{what}: {} off by {error:e} of {own:e}", tensor.name);
        let largest = errors.iter().fold(0.0, |largest: f64, &error| largest.max(f64::from(error.abs())));
        let usual = own / (wanted.len() as f64).sqrt();
        assert!(
            largest <= bounds.number * usual,
            "{what}: a number of {} off by {largest:e} of {usual:e}",
            tensor.name
        );
    }
}
