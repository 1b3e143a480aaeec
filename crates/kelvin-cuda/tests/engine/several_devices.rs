//! Chains and draws that are dealt out to several devices are those of one.

use std::ops::ControlFlow;
use std::sync::Mutex;

use crate::networks::{examples, parameters};
use crate::support::device_for_tests;
use kelvin::likelihood::Likelihood;
use kelvin::network::{Layer, Network, Rows, Shape};
use kelvin::potential::Posterior;
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{Batches, Chain, ChainState, Engine, Integrator, Keep, Langevin, Motion, Observer, Plan};
use kelvin::temperature::Temperature;
use kelvin_cuda::{CudaEngine, Precision};

const NUM_CHAINS: usize = 5;
const NUM_IMAGES: usize = 24;

/// Evaluates each draw on the engine that shows it, and notes who moved how far.
struct Notes<'a> {
    engine: &'a CudaEngine,
    posterior: &'a Posterior,
    /// Of each chain: kept states with their Σ log p, and steps.
    kept: Mutex<Vec<Vec<(ChainState, f64)>>>,
    steps: Mutex<Vec<u64>>,
}

impl Observer for Notes<'_> {
    fn kept(&self, kept: &[(usize, &Chain)]) {
        for &(index, chain) in kept {
            let position = &chain.state.position[..];
            let found = self.engine.gradients(self.posterior, &[position], &[1.0], &[Rows::All]).unwrap().remove(0);
            self.kept.lock().unwrap()[index].push((chain.state.clone(), found.0));
        }
    }

    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        self.steps.lock().unwrap()[index] += steps;
        ControlFlow::Continue(())
    }
}

#[test]
fn several_devices_are_as_one() {
    let Some(device) = device_for_tests() else { return };
    let layers = vec![
        Layer::Conv { filters: 2, kernel: 3, stride: 2, groups: 1 },
        Layer::BATCH_NORM,
        Layer::Relu,
        Layer::Dense { units: 3 },
    ];
    let network = Network::new(Shape::image(4, 4, 1), layers).unwrap();
    let examples = examples(&network, NUM_IMAGES, true);
    let (likelihood, prior) = (Likelihood::Categorical { num_classes: 3 }, IsotropicGaussian::new(0.5).unwrap());
    let posterior = Posterior::new(&network, likelihood, prior, &examples).unwrap();
    let rule = Langevin::new(Integrator::Sghmc, 1e-3, 0.9);
    let batches = Batches::new(NUM_IMAGES, Some(6)).unwrap();
    let plan = Plan { seed: 3, batches, num_steps: 9, keep: Keep { burn_in: 0, every: 3 } };
    let positions: Vec<Vec<f32>> = (0..NUM_CHAINS as u32).map(|id| parameters(&network, id)).collect();
    let rows: Vec<u32> = (0..NUM_IMAGES as u32).collect();

    let found = |num_devices: usize| {
        let engine = CudaEngine::new(vec![device.clone(); num_devices], Precision::Single);
        let notes = Notes {
            engine: &engine,
            posterior: &posterior,
            kept: Mutex::new(vec![Vec::new(); NUM_CHAINS]),
            steps: Mutex::new(vec![0; NUM_CHAINS]),
        };
        let start = |(id, position): (usize, &Vec<f32>)| {
            Chain::new(id as u32, Temperature::BAYES, position.clone(), &network.layout())
        };
        let mut chains: Vec<Chain> = positions.iter().enumerate().map(start).collect();
        engine.run(&posterior, Motion::Sample(&rule), &plan, &mut chains, &notes).unwrap();
        assert_eq!(notes.steps.into_inner().unwrap(), [9; NUM_CHAINS]);

        // Each draw has a weight and batches of its own.
        let slices: Vec<&[f32]> = positions.iter().map(|position| &position[..]).collect();
        let weights: Vec<f64> = (1..=NUM_CHAINS).map(|number| number as f64).collect();
        let gradients = engine.gradients(&posterior, &slices, &weights, &[Rows::These(&rows[..8])]).unwrap();
        let batches: Vec<Vec<Rows<'_>>> =
            rows.windows(8).take(NUM_CHAINS).map(|rows| vec![Rows::These(rows)]).collect();
        let statistics = engine.batch_statistics(&posterior, &slices, &batches).unwrap();
        let states: Vec<ChainState> = chains.into_iter().map(|chain| chain.state).collect();
        (states, notes.kept.into_inner().unwrap(), gradients, statistics)
    };
    let one = found(1);
    assert!(one.1.iter().all(|kept| kept.len() == 3));
    assert_eq!(one, found(2));
    assert_eq!(one, found(7));
}
