//! A small convolutional network with batch norm on generated images of stripes: three chains, one predictive distribution.
//!
//! `cargo run --release -p kelvin --example 05_images`

use std::sync::Mutex;

use kelvin::data::{Examples, ImageSet, Inputs, Targets, known_dataset};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Layer, Network, Rows, Shape};
use kelvin::potential::{Posterior, Potential};
use kelvin::predictive::{ClassificationPredictive, PredictiveModel};
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{Batches, Chain, ChainState, Integrator, Keep, Langevin, Plan, run_population};
use kelvin::temperature::{Schedule, Temperature};

const TEMPERATURE: f64 = 1.0;

/// Pixels stay bytes; evaluators divide them by 255 as they read.
fn examples(set: ImageSet) -> Examples {
    let num_features = set.shape.len();
    Examples { inputs: Inputs::Bytes(set.pixels.into()), num_features, targets: Targets::Classes(set.labels) }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stripes = known_dataset("stripes")?.load_images(None)?;
    let (shape, num_classes) = (stripes.shape(), stripes.num_classes());
    let (train, test) = (examples(stripes.train), examples(stripes.test));

    let layers = vec![
        Layer::Conv { filters: 8, kernel: 3, stride: 1, groups: 1 },
        Layer::BatchNorm { momentum: 0.9, epsilon: 1e-5 },
        Layer::Relu,
        Layer::AvgPool { size: 2 },
        Layer::Conv { filters: 16, kernel: 3, stride: 1, groups: 1 },
        Layer::Relu,
        Layer::GlobalAvgPool,
        Layer::Dense { units: num_classes },
    ];
    let network = Network::new(Shape::image(shape.height, shape.width, shape.channels), layers)?;
    let posterior =
        Posterior::new(&network, Likelihood::Categorical { num_classes }, IsotropicGaussian::new(1.0)?, &train)?;

    // 8 steps are an epoch. Cold for 10 epochs, warm from the 20th on, and a draw every other epoch from the 40th.
    let sampler = Langevin {
        temperature_scale: Schedule::Ramp { start: 80, end: 160, value: 1.0 },
        clip_norm: 1e6,
        ..Langevin::new(Integrator::Sghmc, 0.01, 0.9)
    };
    let batches = Batches::new(train.len(), Some(64))?;
    let plan = Plan { seed: 1, batches, num_steps: 640, keep: Keep { burn_in: 320, every: 16 } };
    let mut chains = Vec::new();
    for id in 0..3 {
        let start = network.initial_parameters(1, id);
        chains.push(Chain::new(id, Temperature::new(TEMPERATURE)?, start, &posterior.layout()));
    }
    // A draw is a position with the running statistics of its batch norms.
    let draws: Mutex<Vec<(usize, ChainState)>> = Mutex::default();
    run_population(&posterior, &sampler, &plan, &mut chains, &|index: usize, chain: &Chain| {
        draws.lock().expect("no panic elsewhere").push((index, chain.state.clone()));
    });
    let mut draws = draws.into_inner()?;
    draws.sort_by_key(|(index, state)| (*index, state.step));

    let Targets::Classes(labels) = &test.targets else { unreachable!("classes") };
    let mut predictive = ClassificationPredictive::new(labels, num_classes, 1.0 / TEMPERATURE)?;
    let inputs = posterior.evaluator().prepare(&test.inputs);
    let (mut logits, mut work) = (vec![0.0; test.len() * num_classes], posterior.workspace());
    for (_, state) in &draws {
        posterior.evaluator().outputs(state.weights(), &inputs, Rows::All, &mut logits, &mut work);
        predictive.add_draw(&logits)?;
    }
    let scores = predictive.scores(PredictiveModel::Standard)?;
    println!("{}; {} parameters", network.describe(), network.layout().len());
    println!("{} draws of {} chains at T = {TEMPERATURE}", draws.len(), chains.len());
    println!("test accuracy {:.1} %, LPD {:.3}", 100.0 * scores.accuracy, scores.lpd);
    for chain in &chains {
        let measured = chain.kinetic_kept.mean().ok_or("no state was kept")?;
        println!("temperature of a chain by its momenta: {measured:.3}");
        assert_eq!(chain.divergence, None);
        assert!((measured / TEMPERATURE - 1.0).abs() < 0.15, "the momenta should be at the chains' temperature");
    }
    assert_eq!(draws.len(), 60);
    assert!(scores.accuracy > 0.7, "chance is a quarter");
    Ok(())
}
