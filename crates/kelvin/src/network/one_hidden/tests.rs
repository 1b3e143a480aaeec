//! The fused evaluator against the general one and its f64 reference, for every shape of tile, block and padding.

use super::super::{Evaluator, Mode, Network, Weights};
use super::*;

/// Leaves the outputs, which are the gradient of Σ outputs²/2.
struct HalfSquares;

impl OutputGradient for HalfSquares {
    fn differentiate(&mut self, _: usize, _: &mut [f32]) {}
}

const SHAPES: [(usize, usize, usize); 9] = [
    (1, 1, 1),
    (2, 3, 5),
    (4, 16, 31),
    (6, 17, 64),
    (7, 64, 65),
    (8, 64, 824),
    (14, 64, 128),
    (30, 50, 300),
    (90, 33, 70),
];

fn run(evaluator: &Evaluator, parameters: &[f32], data: &[f32], rows: Rows<'_>, units: usize) -> [Vec<f32>; 2] {
    let (prepared, mut work) = (evaluator.prepare(&data.to_vec().into()), evaluator.workspace());
    let mut outputs = vec![0.0; rows.count(prepared.num_rows()) * units];
    evaluator.outputs(Weights::plain(parameters), &prepared, rows, &mut outputs, &mut work);
    let mut gradient = vec![f32::NAN; parameters.len()];
    evaluator.gradient(parameters, &prepared, rows, Mode::Training, &mut HalfSquares, &mut gradient, &mut work);
    [outputs, gradient]
}

/// ‖found − wanted‖ / ‖wanted‖.
fn distance(found: &[f32], wanted: &[f64]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let size = wanted.iter().map(|b| b * b).sum::<f64>().sqrt().max(1e-3);
    found.iter().zip(wanted).map(|(&a, b)| (f64::from(a) - b).powi(2)).sum::<f64>().sqrt() / size
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

#[test]
fn agrees_with_the_dense_evaluator() {
    for ((inputs, hidden, rows), units) in SHAPES.iter().flat_map(|&shape| [1, 2, 3, 10].map(|units| (shape, units))) {
        let network = Network::dense(inputs, &[hidden], units).unwrap();
        let (fused, general) = (network.evaluator(), network.dense_evaluator().unwrap());
        assert_eq!(
            matches!(fused, Evaluator::OneHidden(_)),
            crate::vector::Instructions::in_use() != crate::vector::Instructions::Scalar
        );
        let Evaluator::Dense(reference) = &general else { unreachable!() };
        let mut parameters = network.initial_parameters(9, 0);
        for (index, value) in parameters.iter_mut().enumerate() {
            *value += 0.2 * (index as f32 * 1.3).sin();
        }
        let data: Vec<f32> = (0..inputs * rows).map(|i| (i as f32 * 0.37).sin()).collect();
        let picked: Vec<u32> = (0..rows as u32).rev().step_by(2).collect();
        for which in [Rows::All, Rows::These(&picked)] {
            let visited = match which {
                Rows::All => wide(&data),
                Rows::These(list) | Rows::Augmented { rows: list, .. } => {
                    list.iter().flat_map(|&row| wide(&data[row as usize * inputs..][..inputs])).collect()
                }
            };
            let (outputs, gradient) = reference.reference(&wide(&parameters), &visited, |_, _| {});
            for (name, evaluator) in [("fused", &fused), ("general", &general)] {
                let found = run(evaluator, &parameters, &data, which, units);
                let errors = [distance(&found[0], &outputs), distance(&found[1], &gradient)];
                assert!(
                    errors[0] < 2e-6 && errors[1] < 6e-6,
                    "{name} on {}, {rows} rows: {errors:?}",
                    network.describe()
                );
            }
        }
    }
}

/// A chain that ran away must be reported, not crash.
#[test]
fn parameters_that_are_not_numbers_do_not_panic() {
    for units in [1, 3, 10] {
        let network = Network::dense(5, &[7], units).unwrap();
        let data: Vec<f32> = (0..5 * 40).map(|i| (i as f32 * 0.37).sin()).collect();
        for evaluator in [network.evaluator(), network.dense_evaluator().unwrap()] {
            let parameters = vec![f32::NAN; network.layout().len()];
            let [outputs, _] = run(&evaluator, &parameters, &data, Rows::All, units);
            assert!(outputs.iter().all(|output| output.is_nan()));
        }
    }
}

/// A workspace holds nothing that the next pass sees.
#[test]
fn a_used_workspace_gives_the_same_numbers() {
    for units in [1, 3, 10] {
        let network = Network::dense(5, &[20], units).unwrap();
        let data: Vec<f32> = (0..5 * 100).map(|i| (i as f32 * 0.37).sin()).collect();
        for evaluator in [network.evaluator(), network.dense_evaluator().unwrap()] {
            let (prepared, mut work) = (evaluator.prepare(&data.clone().into()), evaluator.workspace());
            let mut gradient = |parameters: &[f32], rows: Rows<'_>| {
                let mut gradient = vec![0.0; parameters.len()];
                evaluator.gradient(
                    parameters,
                    &prepared,
                    rows,
                    Mode::Training,
                    &mut HalfSquares,
                    &mut gradient,
                    &mut work,
                );
                gradient
            };
            let parameters = network.initial_parameters(1, 0);
            let before = gradient(&parameters, Rows::All);
            gradient(&vec![f32::NAN; parameters.len()], Rows::All);
            gradient(&network.initial_parameters(2, 0), Rows::These(&[3, 1, 4]));
            assert_eq!(gradient(&parameters, Rows::All), before);
        }
    }
}
