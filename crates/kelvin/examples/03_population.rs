//! Samples a small network on the Concrete table at a grid of temperatures, all chains as one population.
//!
//! `cargo run --release -p kelvin --example 03_population`

use std::sync::Mutex;

use kelvin::data::{Split, Standardiser, Targets, known_dataset};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Network, Rows, Weights};
use kelvin::potential::{Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{Batches, Chain, Integrator, Keep, Langevin, Plan, run_population};
use kelvin::temperature::{Schedule, Temperature};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let concrete = known_dataset("concrete")?.load(None)?;
    let split = Split::random(concrete.num_rows(), 0)?;
    let standardiser = Standardiser::fit(&concrete, &split.train)?;
    let train = standardiser.examples(&concrete, &split.train)?;
    let test = standardiser.examples(&concrete, &split.test)?;

    let network = Network::dense(train.num_features, &[16], 1)?;
    let likelihood = Likelihood::Gaussian { noise_variance: 0.01 };
    let posterior = Posterior::new(&network, likelihood, IsotropicGaussian::new(0.1)?, &train)?;

    // Start cold, warm up from step 1000 to 1500, then keep a state at the end of every cycle of 100 steps.
    let sampler = Langevin {
        temperature_scale: Schedule::Ramp { start: 1_000, end: 1_500, value: 1.0 },
        step_scale: Schedule::CosineCycle { start: 3_000, period: 100, value: 1.0 },
        clip_norm: 1e6,
        ..Langevin::new(Integrator::Sghmc, 1e-3, 0.98)
    };
    let keep = Keep { burn_in: 3_000, every: 100 };
    let plan = Plan { seed: 1, batches: Batches::full(train.len()), num_steps: 9_000, keep };

    let temperatures = [0.3, 1.0, 3.0, 10.0];
    let mut chains = Vec::new();
    for (id, temperature) in (0..).zip(temperatures) {
        let start = network.initial_parameters(1, id);
        chains.push(Chain::new(id, Temperature::new(temperature)?, start, &posterior.layout()));
    }
    let draws = Mutex::new(vec![Vec::new(); chains.len()]);
    run_population(&posterior, &sampler, &plan, &mut chains, &|index: usize, chain: &Chain| {
        draws.lock().expect("no panic elsewhere")[index].push(chain.state.position.clone());
    });

    // Point predictions on the test rows: the mean over the draws.
    let inputs = posterior.evaluator().prepare(&test.inputs);
    let Targets::Real(answers) = &test.targets else { unreachable!("a regression") };
    let mut work = posterior.workspace();
    println!("{} on concrete, {} training rows\n", network.describe(), train.len());
    println!("{:>12} {:>8} {:>22} {:>10}", "temperature", "draws", "measured (kinetic)", "test MSE");
    for (chain, draws) in chains.iter().zip(draws.into_inner()?) {
        let (mut outputs, mut means) = (vec![0.0; test.len()], vec![0.0; test.len()]);
        for draw in &draws {
            posterior.evaluator().outputs(Weights::plain(draw), &inputs, Rows::All, &mut outputs, &mut work);
            means.iter_mut().zip(&outputs).for_each(|(mean, output)| *mean += output / draws.len() as f32);
        }
        let squares: f32 = means.iter().zip(answers).map(|(mean, y)| (y - mean).powi(2)).sum();
        let measured = chain.kinetic_kept.mean().ok_or("no state was kept")?;
        let temperature = chain.temperature.value();
        println!("{temperature:>12} {:>8} {measured:>22.4} {:>10.4}", draws.len(), squares / test.len() as f32);
        assert_eq!(chain.divergence, None);
        assert!((measured / temperature - 1.0).abs() < 0.1, "the momenta should be at the chain's temperature");
    }
    Ok(())
}
