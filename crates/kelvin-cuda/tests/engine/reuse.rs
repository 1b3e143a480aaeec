//! One engine for many posteriors: it answers for the one it is asked about, and holds the memory of one.

use crate::networks::{examples, normals, parameters};
use crate::support::{WatchedDevice, device_for_tests};
use kelvin::data::{Examples, Targets};
use kelvin::held_out::HeldOut;
use kelvin::likelihood::Likelihood;
use kelvin::network::{Layer, Network, Rows, Shape, Weights};
use kelvin::potential::Posterior;
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{Batches, Chain, Engine, Integrator, Keep, Langevin, Motion, Plan, Silent};
use kelvin::temperature::Temperature;
use kelvin_cuda::{CudaEngine, Precision};

const NUM_IMAGES: usize = 8;

/// The same parameters with one nonlinearity or another.
fn network(nonlinearity: Layer) -> Network {
    let conv = Layer::Conv { filters: 2, kernel: 3, stride: 2, groups: 1 };
    let layers = vec![conv, Layer::BATCH_NORM, nonlinearity, Layer::Dense { units: 1 }];
    Network::new(Shape::image(4, 4, 1), layers).unwrap()
}

/// All that a posterior is made of.
#[derive(Clone)]
struct Problem {
    network: Network,
    noise_variance: f64,
    prior_variance: f64,
    examples: Examples,
}

impl Problem {
    fn new(num_images: usize) -> Self {
        let network = network(Layer::Relu);
        let targets = Targets::Real(normals(num_images, 7));
        let examples = Examples { targets, ..examples(&network, num_images, true) };
        Self { network, noise_variance: 0.2, prior_variance: 0.5, examples }
    }

    fn posterior(&self) -> Posterior {
        let likelihood = Likelihood::Gaussian { noise_variance: self.noise_variance };
        let prior = IsotropicGaussian::new(self.prior_variance).unwrap();
        Posterior::new(&self.network, likelihood, prior, &self.examples).unwrap()
    }

    /// Problems that differ from this one in one thing each.
    fn others(&self) -> Vec<(&'static str, Self)> {
        let mut inputs = self.examples.clone();
        inputs.inputs = self.examples.these(&[7, 6, 5, 4, 3, 2, 1, 0]).inputs;
        let mut targets = self.examples.clone();
        targets.targets = Targets::Real(normals(NUM_IMAGES, 8));
        vec![
            ("network", Self { network: network(Layer::AvgPool { size: 1 }), ..self.clone() }),
            ("noise", Self { noise_variance: 0.4, ..self.clone() }),
            ("prior", Self { prior_variance: 1.0, ..self.clone() }),
            ("inputs", Self { examples: inputs, ..self.clone() }),
            ("targets", Self { examples: targets, ..self.clone() }),
        ]
    }
}

/// What an engine finds: outputs, gradients, statistics of batch norms, or where a chain goes.
type Asked = fn(&CudaEngine, &Problem) -> Vec<f32>;

fn outputs(engine: &CudaEngine, problem: &Problem) -> Vec<f32> {
    let (parameters, statistics) = (parameters(&problem.network, 0), problem.network.initial_statistics());
    let weights = Weights { parameters: &parameters, statistics: &statistics };
    engine.outputs(&HeldOut::new(&problem.network, &problem.examples), &[weights]).unwrap().remove(0)
}

fn gradients(engine: &CudaEngine, problem: &Problem) -> Vec<f32> {
    let position = parameters(&problem.network, 0);
    engine.gradients(&problem.posterior(), &[&position], &[1.0], &[Rows::All]).unwrap().remove(0).1
}

fn statistics(engine: &CudaEngine, problem: &Problem) -> Vec<f32> {
    let position = parameters(&problem.network, 0);
    // Not all rows, whose order would not matter.
    let batches = vec![Rows::These(&[0, 1, 2])];
    engine.batch_statistics(&problem.posterior(), &[&position], &[batches]).unwrap().remove(0)
}

fn steps(engine: &CudaEngine, problem: &Problem) -> Vec<f32> {
    let rule = Langevin::new(Integrator::Sghmc, 1e-3, 0.9);
    let batches = Batches::new(NUM_IMAGES, Some(4)).unwrap();
    let plan = Plan { seed: 3, batches, num_steps: 2, keep: Keep { burn_in: 0, every: 1 } };
    let position = parameters(&problem.network, 0);
    let mut chains = [Chain::new(0, Temperature::BAYES, position, &problem.network.layout())];
    engine.run(&problem.posterior(), Motion::Sample(&rule), &plan, &mut chains, &Silent).unwrap();
    let [chain] = chains;
    chain.state.position
}

#[test]
fn an_engine_answers_for_the_posterior_it_is_asked_about() {
    let Some(device) = device_for_tests() else { return };
    let engine = || CudaEngine::new(vec![device.clone()], Precision::Single);
    let problem = Problem::new(NUM_IMAGES);
    let asked: [(&str, Asked, &[&str]); 4] = [
        ("outputs", outputs, &["network", "inputs"]),
        ("gradients", gradients, &["network", "noise", "prior", "inputs", "targets"]),
        ("statistics", statistics, &["inputs"]),
        ("steps", steps, &["network", "noise", "prior", "inputs", "targets"]),
    ];
    for (what, ask, depends_on) in asked {
        for (difference, other) in problem.others() {
            let reused = engine();
            let before = ask(&reused, &problem);
            let found = ask(&reused, &other);
            assert_eq!(found, ask(&engine(), &other), "{what} where only the {difference} changed");
            assert_eq!(
                found != before,
                depends_on.contains(&difference),
                "whether the {difference} changed the {what}"
            );
        }
    }
}

/// There is no room for the examples of two posteriors.
#[test]
fn a_posterior_makes_room_for_the_next() {
    let Some(device) = device_for_tests() else { return };
    let device = WatchedDevice::new(device);
    let engine = CudaEngine::new(vec![device.clone()], Precision::Single);
    let (problem, rule) = (Problem::new(1000), Langevin::new(Integrator::Sghmc, 1e-3, 0.9));
    engine.accepts(&problem.posterior(), Motion::Sample(&rule)).unwrap();
    device.leave_free(device.bytes_held() / 2);
    let other = Problem { prior_variance: 1.0, ..problem };
    engine.accepts(&other.posterior(), Motion::Sample(&rule)).unwrap();
}
