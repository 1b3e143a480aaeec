//! Networks with every operation, small enough for the emulator, and what their tests share.
#![allow(dead_code)] // each test file uses its own part

use kelvin::data::{Examples, Inputs, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Layer, Network, Normalisation, Shape};
use kelvin::potential::Posterior;
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};

fn conv(filters: usize, kernel: usize, stride: usize) -> Layer {
    Layer::Conv { filters, kernel, stride, groups: 1 }
}

fn in_groups(filters: usize, kernel: usize, stride: usize, groups: usize) -> Layer {
    Layer::Conv { filters, kernel, stride, groups }
}

fn residual(body: Vec<Layer>, shortcut: Vec<Layer>) -> Layer {
    Layer::Residual { body, shortcut }
}

/// Odd sizes, every layer, every way of reading.
pub fn networks() -> Vec<(&'static str, Network)> {
    let dense = Layer::Dense { units: 3 };
    let build = |input, layers| Network::new(input, layers).unwrap();
    let image = Shape::image(5, 7, 3);
    vec![
        (
            "convolutions of several kernels and strides",
            build(image, vec![conv(5, 3, 2), Layer::Relu, conv(4, 1, 2), conv(3, 2, 1), Layer::Relu, dense.clone()]),
        ),
        (
            "pools and dense layers",
            build(
                Shape::image(6, 6, 1),
                vec![
                    conv(3, 3, 1),
                    Layer::Relu,
                    Layer::AvgPool { size: 2 },
                    Layer::Dense { units: 6 },
                    Layer::Relu,
                    residual(vec![Layer::Dense { units: 6 }], vec![]),
                    Layer::Dense { units: 40 },
                    Layer::Relu,
                    dense.clone(),
                ],
            ),
        ),
        (
            "batch norms of convolutions, of rows and behind a ReLU",
            build(
                image,
                vec![
                    conv(4, 3, 1),
                    Layer::BATCH_NORM,
                    Layer::Relu,
                    conv(5, 3, 2),
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
                Shape::image(6, 6, 2),
                vec![
                    conv(4, 3, 1),
                    residual(vec![conv(4, 3, 1), Layer::BATCH_NORM, Layer::Relu, conv(4, 3, 1)], vec![]),
                    Layer::Relu,
                    residual(vec![conv(5, 3, 2), Layer::BATCH_NORM], vec![conv(5, 1, 2), Layer::BATCH_NORM]),
                    Layer::Relu,
                    residual(vec![Layer::BATCH_NORM, Layer::Relu, conv(5, 3, 1)], vec![]),
                    Layer::BATCH_NORM,
                    Layer::Relu,
                    Layer::GlobalAvgPool,
                    dense.clone(),
                ],
            ),
        ),
        (
            "channels in sixteens of bytes, and very many",
            build(
                Shape::image(6, 5, 1),
                vec![
                    conv(8, 3, 1),
                    Layer::Relu,
                    residual(
                        vec![conv(8, 3, 1), Layer::BATCH_NORM, Layer::Relu, conv(8, 3, 1), Layer::BATCH_NORM],
                        vec![conv(8, 1, 1), Layer::Relu],
                    ),
                    Layer::Relu,
                    Layer::GlobalAvgPool,
                    Layer::Dense { units: 16 },
                    Layer::BATCH_NORM,
                    Layer::Dense { units: 301 },
                    Layer::BATCH_NORM,
                    Layer::Relu,
                    dense.clone(),
                ],
            ),
        ),
        (
            "pools of channels in sixteens of bytes, of every size and reading",
            build(
                Shape::image(12, 12, 1),
                vec![
                    conv(8, 3, 2),
                    Layer::Relu,
                    residual(
                        vec![Layer::AvgPool { size: 2 }, conv(16, 1, 1)],
                        vec![conv(16, 3, 2), Layer::BATCH_NORM, Layer::Relu],
                    ),
                    Layer::AvgPool { size: 1 },
                    Layer::BATCH_NORM,
                    Layer::Relu,
                    Layer::AvgPool { size: 3 },
                    Layer::Dense { units: 300 },
                    Layer::Relu,
                    dense.clone(),
                ],
            ),
        ),
        (
            "activations and maxima",
            build(
                image,
                vec![
                    conv(4, 3, 1),
                    Layer::BATCH_NORM,
                    Layer::Tanh,
                    Layer::MaxPool { size: 2, stride: None },
                    conv(8, 3, 1),
                    Layer::Relu,
                    Layer::MaxPool { size: 3, stride: Some(2) },
                    residual(vec![conv(8, 1, 1), Layer::Gelu], vec![]),
                    Layer::Dense { units: 6 },
                    Layer::Silu,
                    dense.clone(),
                ],
            ),
        ),
        (
            "convolutions in groups",
            build(
                image,
                vec![
                    conv(8, 3, 1),
                    Layer::BATCH_NORM,
                    Layer::Relu,
                    in_groups(8, 9, 1, 8),
                    in_groups(8, 3, 2, 8),
                    Layer::Relu,
                    in_groups(8, 5, 1, 8),
                    Layer::BATCH_NORM,
                    in_groups(16, 3, 2, 2),
                    Layer::Relu,
                    in_groups(6, 1, 1, 2),
                    in_groups(6, 2, 1, 6),
                    dense.clone(),
                ],
            ),
        ),
        (
            "group and layer norms",
            build(
                image,
                vec![
                    conv(6, 3, 1),
                    Layer::GroupNorm { groups: 3, epsilon: 1e-5 },
                    Layer::Relu,
                    conv(8, 3, 2),
                    Layer::Relu,
                    Layer::LAYER_NORM,
                    Layer::Gelu,
                    Layer::GroupNorm { groups: 1, epsilon: 1e-5 },
                    Layer::Dense { units: 300 },
                    Layer::LAYER_NORM,
                    Layer::Tanh,
                    Layer::Dense { units: 290 },
                    Layer::GroupNorm { groups: 1, epsilon: 1e-5 },
                    dense.clone(),
                ],
            ),
        ),
        (
            "group norms with activations and pools",
            build(
                Shape::image(12, 12, 1),
                vec![
                    conv(16, 3, 1),
                    Layer::BATCH_NORM,
                    Layer::Relu,
                    Layer::GroupNorm { groups: 4, epsilon: 1e-5 },
                    Layer::Silu,
                    Layer::AvgPool { size: 2 },
                    residual(vec![conv(16, 3, 1), Layer::GroupNorm { groups: 1, epsilon: 1e-5 }, Layer::Gelu], vec![]),
                    Layer::GroupNorm { groups: 2, epsilon: 1e-5 },
                    Layer::Relu,
                    Layer::AvgPool { size: 3 },
                    conv(6, 1, 1),
                    Layer::GroupNorm { groups: 2, epsilon: 1e-5 },
                    Layer::AvgPool { size: 2 },
                    dense.clone(),
                ],
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
                    residual(vec![], vec![]),
                    dense.clone(),
                ],
            ),
        ),
        (
            "filter response norms with what cuts them off and pools",
            build(
                Shape::image(12, 12, 1),
                vec![
                    conv(8, 3, 1),
                    Layer::BATCH_NORM,
                    Layer::Relu,
                    Layer::FILTER_RESPONSE_NORM,
                    Layer::Threshold,
                    Layer::AvgPool { size: 2 },
                    residual(vec![conv(8, 3, 1), Layer::FILTER_RESPONSE_NORM, Layer::Threshold], vec![]),
                    Layer::FILTER_RESPONSE_NORM,
                    Layer::Relu,
                    Layer::AvgPool { size: 3 },
                    Layer::BATCH_NORM,
                    conv(5, 3, 1),
                    Layer::FILTER_RESPONSE_NORM,
                    Layer::AvgPool { size: 2 },
                    dense,
                ],
            ),
        ),
    ]
}

/// A small ResNet with batch norm, as experiments use it.
pub fn resnet() -> Network {
    Network::resnet_for(Shape::image(8, 8, 1), 8, 3, Normalisation::BATCH).unwrap()
}

pub fn normals(len: usize, step: u64) -> Vec<f32> {
    let mut values = vec![0.0; len];
    NoiseKey { seed: 3, purpose: Purpose::Synthetic, chain: 0, step }.fill_normal(&mut values);
    values
}

/// Images of numbers (or bytes) with three classes.
pub fn examples(network: &Network, count: usize, bytes: bool) -> Examples {
    let numbers = normals(count * network.num_inputs(), 2);
    let inputs = if bytes {
        Inputs::Bytes(numbers.iter().map(|&x| (128.0 + 60.0 * x).clamp(0.0, 255.0) as u8).collect())
    } else {
        numbers.into()
    };
    let labels = (0..count as u32).map(|row| row * 7 % 3).collect();
    Examples { inputs, num_features: network.num_inputs(), targets: Targets::Classes(labels) }
}

pub fn posterior(network: &Network, examples: &Examples) -> Posterior {
    let likelihood = Likelihood::Categorical { num_classes: network.num_outputs() };
    let prior = IsotropicGaussian::new(0.5).unwrap();
    Posterior::with_evaluator(network, network.general_evaluator(), likelihood, prior, examples).unwrap()
}

/// A start away from zeros, so that thresholds, biases and offsets count.
pub fn parameters(network: &Network, chain: u32) -> Vec<f32> {
    let noise = normals(network.layout().len(), 10 + u64::from(chain));
    network.initial_parameters(5, chain).iter().zip(noise).map(|(start, noise)| start + 0.2 * noise).collect()
}

/// Running statistics away from zero and one.
pub fn statistics(network: &Network) -> Vec<f32> {
    let noise = normals(network.statistics_layout().len(), 1);
    network.initial_statistics().iter().zip(noise).map(|(start, noise)| start + 0.1 * noise).collect()
}

/// ‖a − b‖ / ‖b‖.
pub fn relative_error(found: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let square = |x: f64| x * x;
    let difference: f64 = found.iter().zip(expected).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum();
    let size: f64 = expected.iter().map(|&b| square(f64::from(b))).sum();
    (difference / size.max(1e-30)).sqrt()
}
