//! Every kind of layer against finite differences, in both precisions, on any number of threads.

use super::*;
use crate::data::Augmentation;
use crate::network::{Activation, Evaluator, Layer, Network, Normalisation, Shape};
use crate::random::{NoiseKey, Purpose};

fn conv(filters: usize, kernel: usize, stride: usize) -> Layer {
    Layer::Conv { filters, kernel, stride, groups: 1 }
}

fn grouped(filters: usize, kernel: usize, stride: usize, groups: usize) -> Layer {
    Layer::Conv { filters, kernel, stride, groups }
}

fn residual(body: Vec<Layer>, shortcut: Vec<Layer>) -> Layer {
    Layer::Residual { body, shortcut }
}

/// Odd sizes, channels that fill no vector, every layer and every way of reading.
fn networks() -> Vec<(&'static str, Network)> {
    let dense = Layer::Dense { units: 3 };
    let build = |input, layers| Network::new(input, layers).unwrap();
    let image = Shape::image(5, 6, 2);
    let pre_activation = vec![Layer::BATCH_NORM, Layer::Relu, conv(4, 3, 1)];
    vec![
        ("kernel of one", build(image, vec![conv(3, 1, 1), Layer::Relu, dense.clone()])),
        (
            "two convolutions",
            build(image, vec![conv(17, 3, 1), Layer::Relu, conv(20, 3, 1), Layer::Relu, dense.clone()]),
        ),
        ("strides", build(image, vec![conv(5, 3, 2), Layer::Relu, conv(4, 1, 2), conv(3, 2, 1), dense.clone()])),
        ("a wide kernel", build(image, vec![conv(3, 3, 1), conv(18, 5, 1), Layer::Relu, conv(2, 4, 2), dense.clone()])),
        ("inputs of 8 channels", build(Shape::image(4, 3, 8), vec![conv(5, 3, 1), Layer::Relu, dense.clone()])),
        ("inputs of 12 channels", build(Shape::image(4, 3, 12), vec![conv(40, 3, 2), Layer::Relu, dense.clone()])),
        ("inputs of 15 channels", build(Shape::image(3, 3, 15), vec![conv(33, 2, 1), Layer::Relu, dense.clone()])),
        ("thick inputs", build(Shape::image(4, 4, 20), vec![conv(5, 3, 1), Layer::Relu, dense.clone()])),
        (
            "pools",
            build(
                Shape::image(8, 4, 1),
                vec![Layer::AvgPool { size: 2 }, conv(3, 3, 1), Layer::Relu, Layer::AvgPool { size: 2 }, dense.clone()],
            ),
        ),
        (
            "batch norm",
            build(
                image,
                vec![
                    conv(4, 3, 1),
                    Layer::BATCH_NORM,
                    Layer::Relu,
                    conv(5, 3, 2),
                    Layer::BATCH_NORM,
                    Layer::GlobalAvgPool,
                    dense.clone(),
                ],
            ),
        ),
        (
            "batch norm behind a ReLU and of rows",
            build(
                image,
                vec![
                    conv(4, 3, 1),
                    Layer::Relu,
                    Layer::BATCH_NORM,
                    Layer::Dense { units: 6 },
                    Layer::BATCH_NORM,
                    Layer::Relu,
                    dense.clone(),
                ],
            ),
        ),
        ("batch norm of the input", build(image, vec![Layer::BATCH_NORM, conv(3, 3, 1), Layer::Relu, dense.clone()])),
        (
            "residual layers",
            build(
                Shape::image(6, 6, 1),
                vec![
                    conv(4, 3, 1),
                    residual(vec![conv(4, 3, 1), Layer::BATCH_NORM, Layer::Relu, conv(4, 3, 1)], vec![]),
                    Layer::Relu,
                    residual(vec![conv(5, 3, 2), Layer::BATCH_NORM], vec![conv(5, 1, 2), Layer::BATCH_NORM]),
                    Layer::Relu,
                    dense.clone(),
                ],
            ),
        ),
        (
            "a residual layer that normalises first",
            build(
                Shape::image(4, 4, 1),
                vec![conv(4, 3, 1), residual(pre_activation, vec![]), Layer::Relu, Layer::GlobalAvgPool, dense.clone()],
            ),
        ),
        (
            "filter response norm",
            build(
                image,
                vec![
                    conv(4, 3, 1),
                    Layer::FILTER_RESPONSE_NORM,
                    Layer::Threshold,
                    conv(3, 3, 1),
                    Layer::Relu,
                    Layer::FILTER_RESPONSE_NORM,
                    dense.clone(),
                ],
            ),
        ),
        (
            "hyperbolic tangents, of what was normed as well",
            build(
                image,
                vec![conv(3, 3, 1), Layer::Tanh, conv(4, 3, 1), Layer::BATCH_NORM, Layer::Tanh, dense.clone()],
            ),
        ),
        (
            "GELUs and SiLUs, of what was normed and in a branch as well",
            build(
                image,
                vec![
                    conv(3, 3, 1),
                    Layer::Gelu,
                    residual(vec![conv(3, 3, 1), Layer::BATCH_NORM, Layer::Silu], vec![Layer::BATCH_NORM, Layer::Gelu]),
                    Layer::Dense { units: 5 },
                    Layer::Silu,
                    dense.clone(),
                ],
            ),
        ),
        (
            "max pools that touch, overlap, leave gaps and reach over the edge, of what was normed and in a branch as well",
            build(
                Shape::image(9, 7, 2),
                vec![
                    Layer::MaxPool { size: 2, stride: Some(1) },
                    conv(3, 3, 1),
                    Layer::BATCH_NORM,
                    residual(vec![Layer::MaxPool { size: 3, stride: Some(2) }], vec![conv(3, 1, 2)]),
                    Layer::Relu,
                    Layer::MaxPool { size: 2, stride: None },
                    Layer::BATCH_NORM,
                    Layer::MaxPool { size: 1, stride: Some(2) },
                    dense.clone(),
                ],
            ),
        ),
        (
            "group norms, of what was cut off and of rows as well",
            build(
                image,
                vec![
                    Layer::GroupNorm { groups: 1, epsilon: 1e-3 },
                    conv(6, 3, 1),
                    Layer::GroupNorm { groups: 3, epsilon: 1e-5 },
                    Layer::Relu,
                    Layer::GroupNorm { groups: 6, epsilon: 1e-2 },
                    Layer::Dense { units: 20 },
                    Layer::GroupNorm { groups: 4, epsilon: 1e-5 },
                    Layer::Tanh,
                    dense.clone(),
                ],
            ),
        ),
        (
            "layer norms, of what was cut off and of rows as well",
            build(
                image,
                vec![
                    Layer::LAYER_NORM,
                    conv(6, 3, 1),
                    Layer::LAYER_NORM,
                    Layer::Relu,
                    residual(vec![Layer::LayerNorm { epsilon: 1e-2 }, conv(6, 3, 1)], vec![]),
                    Layer::Dense { units: 20 },
                    Layer::LAYER_NORM,
                    Layer::Tanh,
                    dense.clone(),
                ],
            ),
        ),
        (
            "convolutions in groups",
            build(
                Shape::image(5, 6, 4),
                vec![
                    grouped(6, 3, 1, 2),
                    Layer::Relu,
                    grouped(36, 3, 1, 3),
                    Layer::BATCH_NORM,
                    Layer::Relu,
                    grouped(72, 2, 2, 36),
                    Layer::Relu,
                    grouped(18, 1, 1, 18),
                    dense.clone(),
                ],
            ),
        ),
        (
            "depthwise convolutions",
            build(
                Shape::image(7, 6, 3),
                vec![
                    grouped(3, 3, 1, 3),
                    Layer::Relu,
                    conv(20, 1, 1),
                    grouped(20, 5, 2, 20),
                    Layer::BATCH_NORM,
                    Layer::Relu,
                    residual(vec![grouped(20, 3, 1, 20), Layer::BATCH_NORM], vec![grouped(20, 2, 1, 20)]),
                    grouped(20, 1, 2, 20),
                    dense.clone(),
                ],
            ),
        ),
        ("a wide ResNet", Network::wide_resnet_for(Shape::image(8, 8, 1), 10, 2, 2, Normalisation::BATCH).unwrap()),
        ("a skip", Network::table(7, &[5, 3], 2, Activation::Tanh, true).unwrap()),
        ("a skip beside GELUs", Network::table(7, &[5, 3], 2, Activation::Gelu, true).unwrap()),
        ("a ResNet", Network::resnet_for(Shape::image(8, 8, 3), 8, 2, Normalisation::FILTER_RESPONSE).unwrap()),
    ]
}

const NUM_IMAGES: usize = 11;

struct Setting {
    stack: ImageStack,
    parameters: Vec<f64>,
    inputs: Vec<f64>,
    statistics: Vec<f64>,
}

fn normals(len: usize, step: u64) -> Vec<f64> {
    let mut values = vec![0.0; len];
    NoiseKey { seed: 3, purpose: Purpose::Synthetic, chain: 0, step }.fill_normal(&mut values);
    values.into_iter().map(f64::from).collect()
}

fn setting(network: &Network) -> Setting {
    let Evaluator::Images(stack) = network.general_evaluator() else { unreachable!() };
    let start = network.initial_parameters(5, 0).into_iter().map(f64::from);
    // Away from zeros, so that thresholds, biases and offsets count.
    let parameters = start.zip(normals(network.layout().len(), 0)).map(|(start, noise)| start + 0.2 * noise);
    let parameters = parameters.map(|value| f64::from(value as f32)).collect();
    let statistics = network.initial_statistics().into_iter().zip(normals(network.statistics_layout().len(), 1));
    let statistics = statistics.map(|(start, noise)| f64::from((f64::from(start) + 0.1 * noise) as f32)).collect();
    Setting { stack, parameters, inputs: normals(NUM_IMAGES * network.num_inputs(), 2), statistics }
}

impl Setting {
    /// Σ outputs² / 2 and its gradient.
    fn half_squares(&self, parameters: &[f64], running: bool) -> (f64, Reference) {
        let statistics = running.then_some(&self.statistics[..]);
        let found = self.stack.reference(parameters, &self.inputs, statistics, |_| {});
        (found.outputs.iter().map(|output| 0.5 * output * output).sum(), found)
    }
}

/// Central differences along random directions and along each of the first parameters of every tensor.
#[test]
fn gradients_agree_with_finite_differences() {
    for (name, network) in networks() {
        let setting = setting(&network);
        for running in [false, true] {
            let (_, found) = setting.half_squares(&setting.parameters, running);
            let layout = network.layout();
            let mut directions: Vec<Vec<f64>> = (0..4).map(|step| normals(layout.len(), 10 + step)).collect();
            for tensor in layout.tensors() {
                let mut direction = vec![0.0; layout.len()];
                direction[tensor.range.clone()].copy_from_slice(&normals(tensor.range.len(), 20));
                directions.push(direction);
            }
            for (number, direction) in directions.iter().enumerate() {
                let at = |shift: f64| {
                    let moved: Vec<f64> =
                        setting.parameters.iter().zip(direction).map(|(value, step)| value + shift * step).collect();
                    setting.half_squares(&moved, running).0
                };
                let size = direction.iter().map(|d| d * d).sum::<f64>().sqrt();
                let step = 1e-6 / size;
                let slope = (at(step) - at(-step)) / (2.0 * step);
                let wanted: f64 = found.gradient.iter().zip(direction).map(|(g, d)| g * d).sum();
                let scale = found.gradient.iter().map(|g| g * g).sum::<f64>().sqrt() * size;
                let error = (slope - wanted).abs() / scale;
                assert!(error < 1e-6, "{name}, running {running}, direction {number}: {slope} {wanted}");
            }
        }
    }
}

struct HalfSquares;

impl OutputGradient for HalfSquares {
    fn differentiate(&mut self, _: usize, _: &mut [f32]) {}
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

fn error(found: &[f32], wanted: &[f64]) -> f64 {
    let difference = found.iter().zip(wanted).map(|(&f, w)| (f64::from(f) - w).powi(2)).sum::<f64>();
    (difference / wanted.iter().map(|w| w * w).sum::<f64>().max(1e-30)).sqrt()
}

#[test]
fn single_precision_agrees_with_the_reference_on_any_number_of_threads() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    for (name, network) in networks() {
        let setting = setting(&network);
        let (parameters, statistics) = (narrow(&setting.parameters), narrow(&setting.statistics));
        let inputs = setting.stack.prepare(&narrow(&setting.inputs).into());
        let rows: Vec<u32> = (0..NUM_IMAGES as u32).collect();
        for mode in [Mode::Training, Mode::Inference(&statistics)] {
            let (_, wanted) = setting.half_squares(&setting.parameters, mode != Mode::Training);
            let gradient = |parallel: bool| {
                let mut work = setting.stack.workspace(parallel);
                let mut gradient = vec![f32::NAN; parameters.len()];
                // A larger batch before it must leave no trace.
                let twice: Vec<u32> = rows.iter().chain(&rows).copied().collect();
                for rows in [&twice, &rows] {
                    let (rows, gradient) = (Rows::These(rows), &mut gradient[..]);
                    setting.stack.gradient(&parameters, &inputs, rows, mode, &mut HalfSquares, gradient, &mut work);
                }
                gradient
            };
            let found = gradient(false);
            assert!(error(&found, &wanted.gradient) < 2e-5, "{name}, {mode:?}: {}", error(&found, &wanted.gradient));
            assert_eq!(pool.install(|| gradient(true)), found, "{name}: threads must not matter");
        }
        let (_, wanted) = setting.half_squares(&setting.parameters, true);
        let mut outputs = vec![f32::NAN; wanted.outputs.len()];
        let weights = Weights { parameters: &parameters, statistics: &statistics };
        let mut work = setting.stack.workspace(false);
        setting.stack.outputs(weights, &inputs, Rows::All, &mut outputs, &mut work);
        assert!(error(&outputs, &wanted.outputs) < 1e-5, "{name}: outputs");
    }
}

/// A convolution in groups is one of all channels whose kernel is zero between groups: also where it goes depthwise.
#[test]
fn groups_are_kernels_with_zeros() {
    for (channels, filters, groups) in [(6, 6, 6), (6, 9, 3), (4, 8, 4)] {
        let [of_groups, of_all] = [groups, 1].map(|groups| {
            let layers = vec![grouped(filters, 3, 2, groups), Layer::Dense { units: 2 }];
            setting(&Network::new(Shape::image(5, 4, channels), layers).unwrap())
        });
        let (own, num_filters) = (channels / groups, filters / groups);
        let kernel_len = 9 * channels * filters;
        let mut parameters = of_all.parameters.clone();
        parameters[kernel_len..].copy_from_slice(&of_groups.parameters[9 * own * filters..]);
        for (place, weight) in parameters[..kernel_len].iter_mut().enumerate() {
            let (tap, channel, filter) = (place / filters / channels, place / filters % channels, place % filters);
            let grouped = of_groups.parameters[(tap * own + channel % own) * filters + filter];
            *weight = if channel / own == filter / num_filters { grouped } else { 0.0 };
        }
        let (_, found) = of_groups.half_squares(&of_groups.parameters, false);
        let (_, wanted) = of_all.half_squares(&parameters, false);
        assert!(error(&narrow(&found.outputs), &wanted.outputs) < 1e-6, "{groups} groups of {channels}");
    }
}

/// Of equal pixels the first gets the gradient, and what is not a number is not hidden by numbers.
#[test]
fn maxima_are_the_first_of_their_windows() {
    let layers = vec![Layer::BATCH_NORM, Layer::MaxPool { size: 2, stride: None }, Layer::Dense { units: 1 }];
    let network = Network::new(Shape::image(2, 2, 1), layers).unwrap();
    let Evaluator::Images(stack) = network.general_evaluator() else { unreachable!() };
    let outputs = |pixels: [f64; 4]| {
        // Scale 1 and offset 0 of the norm, then weight 3 and bias 1.
        let statistics = [0.0, 1.0];
        let found = stack.reference(&[1.0, 0.0, 3.0, 1.0], &pixels, Some(&statistics), |outputs| outputs.fill(1.0));
        (found.outputs[0], found.gradient)
    };
    let size = (1.0f64 + 1e-5).sqrt();
    let (output, gradient) = outputs([0.5, 2.0, 2.0, -1.0]);
    assert!((output - (1.0 + 6.0 / size)).abs() < 1e-12);
    assert!((gradient[1] - 3.0).abs() < 1e-12, "one pixel, not both, has got the weight of 3");
    for place in 0..4 {
        let mut pixels = [0.5, 2.0, 2.0, -1.0];
        pixels[place] = f64::NAN;
        assert!(outputs(pixels).0.is_nan(), "{place}");
    }
}

#[test]
fn all_rows_are_the_sum_of_their_batches() {
    let network = Network::small_cnn(Shape::image(4, 4, 1), 3).unwrap();
    let Evaluator::Images(stack) = network.general_evaluator() else { unreachable!() };
    let parameters = network.initial_parameters(0, 0);
    let count = 2 * ImageStack::BATCH as u32 + 7;
    let inputs = stack.prepare(&narrow(&normals(count as usize * 16, 0)).into());
    let mut work = stack.workspace(false);
    let mut sum = |rows: Rows<'_>| {
        let mut gradient = vec![f32::NAN; parameters.len()];
        stack.gradient(&parameters, &inputs, rows, Mode::Training, &mut HalfSquares, &mut gradient, &mut work);
        gradient.into_iter().map(f64::from).collect::<Vec<f64>>()
    };
    let all = sum(Rows::All);
    let halves = [(0..100).collect::<Vec<u32>>(), (100..count).collect()].map(|rows| sum(Rows::These(&rows)));
    let halves: Vec<f64> = halves[0].iter().zip(&halves[1]).map(|(a, b)| a + b).collect();
    assert!(error(&narrow(&all), &halves) < 1e-5);
}

#[test]
fn bytes_are_pixels_over_255() {
    let network = Network::small_cnn(Shape::image(4, 4, 3), 2).unwrap();
    let Evaluator::Images(stack) = network.general_evaluator() else { unreachable!() };
    let parameters = network.initial_parameters(0, 0);
    let bytes: Vec<u8> = (0..96).map(|i| (i * 37 % 256) as u8).collect();
    let numbers: Vec<f32> = bytes.iter().map(|&byte| f32::from(byte) / 255.0).collect();
    let outputs = |inputs: Inputs| {
        let mut outputs = vec![f32::NAN; 4];
        let (prepared, mut work) = (stack.prepare(&inputs), stack.workspace(false));
        stack.outputs(Weights::plain(&parameters), &prepared, Rows::All, &mut outputs, &mut work);
        outputs
    };
    assert_eq!(outputs(Inputs::Bytes(bytes.into())), outputs(numbers.into()));
}

/// Bytes and the same pixels as numbers are augmented alike, and not left alone.
#[test]
fn numbers_are_augmented_as_bytes_are() {
    let network = Network::small_cnn(Shape::image(8, 8, 1), 2).unwrap();
    let Evaluator::Images(stack) = network.general_evaluator() else { unreachable!() };
    let parameters = network.initial_parameters(0, 0);
    let bytes: Vec<u8> = (0..8 * 64).map(|i| (i * i * 37 % 256) as u8).collect();
    let numbers: Vec<f32> = bytes.iter().map(|&byte| f32::from(byte) / 255.0).collect();
    let list: Vec<u32> = (0..8).collect();
    let key = NoiseKey { seed: 1, purpose: Purpose::Augmentation, chain: 0, step: 3 };
    let augmented = Rows::Augmented { rows: &list, augmentation: Augmentation::new(1.0).unwrap(), key };
    let gradient = |inputs: Inputs, rows: Rows<'_>| {
        let mut gradient = vec![f32::NAN; parameters.len()];
        let (prepared, mut work) = (stack.prepare(&inputs), stack.workspace(false));
        stack.gradient(&parameters, &prepared, rows, Mode::Training, &mut HalfSquares, &mut gradient, &mut work);
        gradient
    };
    let of_bytes = gradient(Inputs::Bytes(bytes.into()), augmented);
    assert_eq!(of_bytes, gradient(numbers.clone().into(), augmented));
    assert_ne!(of_bytes, gradient(numbers.into(), Rows::These(&list)));
}
