//! Every kind of layer against finite differences, in both precisions, on any number of threads.

use super::*;
use crate::data::Augmentation;
use crate::network::{Activation, Evaluator, Layer, Network, Normalisation, Shape};
use crate::random::{NoiseKey, Purpose};

fn conv(filters: usize, kernel: usize, stride: usize) -> Layer {
    Layer::Conv { filters, kernel, stride }
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
            build(image, vec![conv(3, 3, 1), Layer::Tanh, conv(4, 3, 1), Layer::BATCH_NORM, Layer::Tanh, dense]),
        ),
        ("a skip", Network::table(7, &[5, 3], 2, Activation::Tanh, true).unwrap()),
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
