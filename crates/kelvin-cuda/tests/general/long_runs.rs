//! What only long runs and large batches of the image engine meet: searches that pause, more steps than are read ahead, and
//! batches in several passes.

use crate::networks::{examples, normals, parameters, posterior, relative_error, resnet};
use crate::support::device_for_tests;
use kelvin::data::{Examples, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Layer, Network, Shape};
use kelvin::potential::Posterior;
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{
    AscentObjective, Batches, Chain, ClipScope, Engine, Integrator, JointAscent, Keep, Langevin, LogBeta, Motion, Plan,
    PriorShare, Silent, run_population,
};
use kelvin::temperature::{Schedule, Temperature};
use kelvin_cuda::{CudaEngine, GeneralEngine, Precision};

const NUM_IMAGES: usize = 20;

fn small() -> Network {
    let layers =
        vec![Layer::Conv { filters: 2, kernel: 3, stride: 2, groups: 1 }, Layer::Relu, Layer::Dense { units: 3 }];
    Network::new(Shape::image(4, 4, 1), layers).unwrap()
}

fn chains(network: &Network, count: u32) -> Vec<Chain> {
    let temperature = |id: u32| Temperature::new([1.0, 0.3, 0.0][id as usize % 3]).unwrap();
    (0..count).map(|id| Chain::new(id, temperature(id), parameters(network, id), &network.layout())).collect()
}

fn plan(num_steps: u64, keep: Keep) -> Plan {
    Plan { seed: 3, batches: Batches::new(NUM_IMAGES, Some(6)).unwrap(), num_steps, keep }
}

fn search() -> JointAscent {
    JointAscent {
        objective: AscentObjective::default(),
        learning_rate: Schedule::CosineDecay { value: 1e-3, total: 40 },
        momentum: 0.9,
        weight_decay: 0.1,
        clip_norm: 20.0,
        clip_scope: ClipScope::All,
    }
}

/// β and its velocity are part of a state: a search goes on from any of its steps.
#[test]
fn searches_go_on_bit_for_bit() {
    let Some(device) = device_for_tests() else { return };
    for network in [small(), resnet()] {
        let examples = examples(&network, NUM_IMAGES, true);
        let engine = GeneralEngine::new(device.clone(), &posterior(&network, &examples), Precision::Single).unwrap();
        let run = |ends: &[u64]| {
            let mut chains = chains(&network, 3);
            for &end in ends {
                engine.search(&search(), &plan(end, Keep { burn_in: 0, every: 4 }), &mut chains, &Silent).unwrap();
            }
            chains
        };
        for (whole, paused) in run(&[12]).iter().zip(&run(&[1, 5, 6, 12])) {
            assert!(whole.state.log_beta != 0.0 && whole.state.log_beta_velocity != 0.0);
            assert_eq!(whole.state, paused.state);
        }
    }
}

/// A burn-in longer than the table of step numbers, with a ramp within and a pause.
#[test]
fn long_burn_ins_follow_the_cpu() {
    let Some(device) = device_for_tests() else { return };
    let network = small();
    let examples = examples(&network, NUM_IMAGES, true);
    let posterior = posterior(&network, &examples);
    let engine = GeneralEngine::new(device, &posterior, Precision::Single).unwrap();
    let rule = Langevin {
        step_scale: Schedule::CosineCycle { start: 540, period: 20, value: 1.0 },
        temperature_scale: Schedule::Ramp { start: 100, end: 530, value: 1.0 },
        ..Langevin::new(Integrator::Sghmc, 1e-5, 0.9)
    };
    let plan = |num_steps| plan(num_steps, Keep { burn_in: 540, every: 20 });
    let run = |ends: &[u64]| {
        let mut chains = chains(&network, 2);
        ends.iter().for_each(|&end| engine.sample(&rule, &plan(end), &mut chains, &Silent).unwrap());
        chains
    };
    let mut wanted = chains(&network, 2);
    run_population(&posterior, &rule, &plan(580), &mut wanted, &Silent);
    for ((whole, paused), wanted) in run(&[580]).iter().zip(&run(&[300, 547, 580])).zip(&wanted) {
        assert_eq!(whole.state, paused.state);
        let error = relative_error(&whole.state.position, &wanted.state.position);
        assert!(error < 1e-4, "off by {error:e}");
        for (found, wanted) in [(&whole.kinetic_all, &wanted.kinetic_all), (&whole.kinetic_kept, &wanted.kinetic_kept)]
        {
            assert_eq!(found.num_readings(), wanted.num_readings());
            let (found, wanted) = (found.mean().unwrap(), wanted.mean().unwrap());
            assert!((found / wanted - 1.0).abs() < 1e-3, "{found} instead of {wanted}");
        }
    }
}

/// Gradients in θ and in log β are summed over the passes of a batch, of all rows or of named ones.
#[test]
fn searches_over_several_passes_follow_the_cpu() {
    const NUM_ROWS: usize = 1200;
    let Some(device) = device_for_tests() else { return };
    let network = Network::dense(3, &[8], 1).unwrap();
    let targets = Targets::Real(normals(NUM_ROWS, 8));
    let examples = Examples { inputs: normals(3 * NUM_ROWS, 7).into(), num_features: 3, targets };
    let (likelihood, prior) = (Likelihood::Gaussian { noise_variance: 0.3 }, IsotropicGaussian::new(0.5).unwrap());
    let posterior = Posterior::new(&network, likelihood, prior, &examples).unwrap();
    let engine = CudaEngine::new(vec![device], Precision::Single);
    // One that the kernels of tables do not serve.
    let objective = AscentObjective { prior: PriorShare::Once, log_beta: LogBeta::Free };
    let rule = JointAscent { objective, learning_rate: Schedule::Constant { value: 1e-4 }, clip_norm: 1e6, ..search() };
    for batch_size in [None, Some(1100)] {
        let batches = Batches::new(NUM_ROWS, batch_size).unwrap();
        let plan = Plan { seed: 3, batches, num_steps: 10, keep: Keep { burn_in: 0, every: 4 } };
        let (mut found, mut wanted) = (chains(&network, 1), chains(&network, 1));
        engine.run(&posterior, Motion::Search(&rule), &plan, &mut found, &Silent).unwrap();
        run_population(&posterior, &rule, &plan, &mut wanted, &Silent);
        let (found, wanted) = (&found[0].state, &wanted[0].state);
        assert!(wanted.log_beta.abs() > 0.1, "log β moves");
        assert!((found.log_beta - wanted.log_beta).abs() < 1e-5, "{} {}", found.log_beta, wanted.log_beta);
        assert!(relative_error(&found.position, &wanted.position) < 1e-5, "{batch_size:?}");
    }
}
