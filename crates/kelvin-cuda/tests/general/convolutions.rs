//! Convolutions of any shape are products on the tensor cores: gradients and outputs are those of the CPU, in both precisions.

use kelvin::network::{Layer, Mode, Network, Rows, Shape, Weights};
use kelvin::potential::{Batch, Potential};
use kelvin_cuda::{GeneralEngine, Precision};

use crate::networks::{examples, parameters, posterior, relative_error};
use crate::support::device_for_tests;

fn conv(filters: usize, kernel: usize, stride: usize) -> Layer {
    Layer::Conv { filters, kernel, stride, groups: 1 }
}

/// Channels that are multiples of nothing and of eight, kernels from 1 to 7, strides up to 3, images that are not square; with ReLUs or
/// without, and with norms to be read and to be gone back through.
fn networks(relu: bool) -> Vec<Network> {
    let between = |layers: Vec<Layer>| {
        let with_relu = |layer: Layer| {
            let follows = relu && matches!(layer, Layer::Conv { .. } | Layer::BatchNorm { .. });
            [Some(layer), follows.then_some(Layer::Relu)]
        };
        layers.into_iter().flat_map(with_relu).flatten().chain([Layer::Dense { units: 3 }]).collect::<Vec<_>>()
    };
    let build = |shape, layers| Network::new(shape, between(layers)).unwrap();
    vec![
        build(Shape::image(11, 9, 3), vec![conv(5, 7, 2), conv(24, 3, 1), Layer::BATCH_NORM, conv(48, 5, 2)]),
        build(Shape::image(10, 13, 5), vec![conv(24, 2, 3), conv(72, 3, 1), Layer::BATCH_NORM, conv(8, 1, 2)]),
        build(
            Shape::image(6, 5, 24),
            vec![conv(136, 3, 1), conv(40, 4, 2), Layer::Dense { units: 48 }, Layer::BATCH_NORM],
        ),
        build(Shape::image(9, 6, 1), vec![conv(16, 6, 3), conv(7, 1, 1), conv(20, 3, 2)]),
    ]
}

#[test]
fn gradients_and_outputs_of_convolutions_of_any_shape_are_those_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    // Rounding to bf16 switches ReLUs: without them gradients are near.
    let cases = [(Precision::Single, true, 5e-6, 0.05), (Precision::Half, false, 2e-2, 0.2)];
    for (precision, relu, tolerance, share) in cases {
        for network in networks(relu) {
            let examples = examples(&network, 20, true);
            let posterior = posterior(&network, &examples);
            let positions: Vec<Vec<f32>> = (0..2).map(|chain| parameters(&network, chain)).collect();
            let slices: Vec<&[f32]> = positions.iter().map(|position| &position[..]).collect();
            let listed: Vec<u32> = (0..17).map(|row| row * 7 % 20).collect();
            let rows = Rows::These(&listed);
            let engine = GeneralEngine::new(device.clone(), &posterior, precision).unwrap();
            let found = engine.gradients(&slices, &[1.0, 2.5], &[rows]).unwrap();
            for ((position, weight), (_, found)) in slices.iter().zip([1.0, 2.5]).zip(&found) {
                let mut wanted = vec![0.0; posterior.dim()];
                let batch = Batch { rows, likelihood_weight: weight, mode: Mode::Training };
                posterior.evaluate(position, batch, &mut wanted, &mut posterior.workspace());
                let norm = |values: &[f32]| values.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
                for tensor in network.layout().tensors() {
                    let (own, of_tensor) = (&found[tensor.range.clone()], &wanted[tensor.range.clone()]);
                    let difference: Vec<f32> = own.iter().zip(of_tensor).map(|(a, b)| a - b).collect();
                    // Biases in front of a norm have no gradient.
                    let error = norm(&difference) / norm(of_tensor).max(share * norm(&wanted));
                    let what = format!("{}, {precision:?}: {}", network.describe(), tensor.name);
                    assert!(error < tolerance, "{what} off by {error:e}");
                }
            }
            // A chain alone has the same bits as among others.
            let alone = engine.gradients(&slices[1..], &[2.5], &[rows]).unwrap();
            assert!(alone[0] == found[1], "{}, {precision:?}: other bits alone", network.describe());
        }
    }
}

/// Depthwise convolutions, norms of single images with what is made along with them, and batch norms behind products.
#[test]
fn a_chain_alone_has_the_bits_that_it_has_among_others() {
    let Some(device) = device_for_tests() else { return };
    let depthwise = |channels, stride| Layer::Conv { filters: channels, kernel: 3, stride, groups: channels };
    let layers = vec![
        conv(24, 3, 1),
        Layer::BATCH_NORM,
        Layer::Relu,
        depthwise(24, 2),
        Layer::GroupNorm { groups: 3, epsilon: 1e-5 },
        Layer::Silu,
        Layer::AvgPool { size: 2 },
        conv(7, 1, 1),
        depthwise(7, 1),
        Layer::FILTER_RESPONSE_NORM,
        Layer::Threshold,
        Layer::Dense { units: 3 },
    ];
    let network = Network::new(Shape::image(12, 8, 2), layers).unwrap();
    let examples = examples(&network, 9, true);
    let posterior = posterior(&network, &examples);
    let positions: Vec<Vec<f32>> = (0..3).map(|chain| parameters(&network, chain)).collect();
    let slices: Vec<&[f32]> = positions.iter().map(|position| &position[..]).collect();
    for precision in [Precision::Single, Precision::Half] {
        let engine = GeneralEngine::new(device.clone(), &posterior, precision).unwrap();
        let together = engine.gradients(&slices, &[1.0, 2.5, 0.5], &[Rows::All]).unwrap();
        assert!(together.iter().all(|(_, gradient)| gradient.iter().all(|number| number.is_finite())));
        assert!(together[0] != together[1], "chains differ");
        let alone = engine.gradients(&slices[1..2], &[2.5], &[Rows::All]).unwrap();
        assert!(alone[0] == together[1], "{precision:?}: other bits alone");
    }
}

/// Batches whose weight gradients are summed in parts, the last of them short.
#[test]
fn weight_gradients_in_parts_are_those_of_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let network = Network::new(
        Shape::image(13, 11, 2),
        vec![conv(9, 3, 1), Layer::Relu, conv(16, 5, 2), Layer::Dense { units: 3 }],
    )
    .unwrap();
    let examples = examples(&network, 12, false);
    let posterior = posterior(&network, &examples);
    let position = parameters(&network, 0);
    let engine = GeneralEngine::new(device, &posterior, Precision::Single).unwrap();
    let found = engine.gradients(&[&position], &[1.0], &[Rows::All]).unwrap().remove(0).1;
    let mut wanted = vec![0.0; posterior.dim()];
    posterior.evaluate(&position, Batch::ALL, &mut wanted, &mut posterior.workspace());
    let error = relative_error(&found, &wanted);
    assert!(error < 2e-6, "off by {error:e}");
    let weights = [Weights { parameters: &position, statistics: &[] }];
    let outputs = engine.outputs(&examples, &weights).unwrap().remove(0);
    let evaluator = network.general_evaluator();
    let inputs = evaluator.prepare(&examples.inputs);
    let mut expected = vec![0.0; 12 * 3];
    evaluator.outputs(weights[0], &inputs, Rows::All, &mut expected, &mut evaluator.workspace());
    assert!(relative_error(&outputs, &expected) < 2e-6);
}
