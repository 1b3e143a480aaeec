//! Chains of image networks keep the contract: augmentation, batch norm and layerwise masses included, numbers depend
//! neither on the threads nor on a stop; and what is kept of a draw is what it should be.

use std::sync::Mutex;

use std::sync::Arc;

use kelvin::data::{Augmentation, Examples, Inputs, Targets, known_dataset};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Layer, Mode, Network, Normalisation, Rows, Shape};
use kelvin::potential::{Batch, Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{
    Batches, Chain, ChainState, Integrator, Keep, Langevin, LayerwiseMass, MassRule, Plan, Silent, run_population,
};
use kelvin::temperature::{Temperature, Tempering};
use kelvin_study::experiment::{ChainSpec, Experiment, SampledChain, Slot};
use kelvin_study::problem::Problem;
use kelvin_study::settings::{DrawStatistics, Settings, preset};

const NUM_IMAGES: usize = 40;

fn images() -> Examples {
    let set = known_dataset("stripes").unwrap().load_images(None).unwrap().train.first(NUM_IMAGES);
    Examples {
        num_features: set.shape.len(),
        inputs: Inputs::Bytes(set.pixels.into()),
        targets: Targets::Classes(set.labels),
    }
}

fn network() -> Network {
    Network::resnet_for(Shape::image(12, 12, 1), 8, 4, Normalisation::BATCH).unwrap()
}

fn posterior(network: &Network, examples: &Examples) -> Posterior {
    let likelihood = Likelihood::Categorical { num_classes: 4 };
    Posterior::new(network, likelihood, IsotropicGaussian::new(1.0).unwrap(), examples).unwrap()
}

fn rule() -> Langevin {
    let mass = MassRule::Layerwise(LayerwiseMass { num_batches: 2, ..LayerwiseMass::default() });
    Langevin { mass, ..Langevin::new(Integrator::Sghmc, 0.01, 0.9) }
}

fn plan(strength: f64, num_steps: u64) -> Plan {
    let batches = Batches::new(NUM_IMAGES, Some(9)).unwrap().augmented(Augmentation::new(strength).unwrap());
    Plan { seed: 3, batches, num_steps, keep: Keep { burn_in: 0, every: 3 } }
}

fn chains(network: &Network) -> Vec<Chain> {
    let chain = |id: u32| Chain::new(id, Temperature::BAYES, network.initial_parameters(1, id), &network.layout());
    (0..3).map(chain).collect()
}

fn kept(posterior: &Posterior, plan: &Plan, chains: &mut [Chain]) -> Vec<Vec<ChainState>> {
    let states = Mutex::new(vec![Vec::new(); chains.len()]);
    run_population(posterior, &rule(), plan, chains, &|index: usize, chain: &Chain| {
        states.lock().unwrap()[index].push(chain.state.clone());
    });
    states.into_inner().unwrap()
}

#[test]
fn augmented_chains_do_not_depend_on_the_number_of_threads() {
    let (network, examples) = (network(), images());
    let posterior = posterior(&network, &examples);
    let run = |num_threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(num_threads).build().unwrap();
        let mut chains = chains(&network);
        pool.install(|| kept(&posterior, &plan(0.5, 9), &mut chains))
    };
    let one = run(1);
    assert!(one.iter().flatten().all(|state| state.is_finite() && !state.statistics.is_empty()));
    assert_eq!(one, run(2));
    assert_eq!(one, run(3));
}

/// Five steps end in the middle of an epoch.
#[test]
fn augmented_chains_resume_bit_exactly() {
    let (network, examples) = (network(), images());
    let posterior = posterior(&network, &examples);
    let mut whole = chains(&network);
    kept(&posterior, &plan(1.0, 9), &mut whole);
    let mut stopped = chains(&network);
    kept(&posterior, &plan(1.0, 5), &mut stopped);
    let mut resumed = stopped.clone();
    kept(&posterior, &plan(1.0, 9), &mut resumed);
    for (whole, resumed) in whole.iter().zip(&resumed) {
        assert_eq!(whole.state, resumed.state);
    }
    let mut plain = chains(&network);
    kept(&posterior, &plan(0.0, 9), &mut plain);
    assert_ne!(plain[0].state.position, whole[0].state.position, "augmentation changes the images");
}

/// An image that is not changed counts as it is, and every change is named by its place in the batch.
#[test]
fn an_augmented_batch_of_strength_zero_is_the_plain_batch() {
    let (network, examples) = (network(), images());
    let posterior = posterior(&network, &examples);
    let position = network.initial_parameters(1, 0);
    let rows: Vec<u32> = (3..20).collect();
    let key = kelvin::random::NoiseKey { seed: 1, purpose: kelvin::random::Purpose::Augmentation, chain: 0, step: 0 };
    let energy = |rows: Rows<'_>| {
        let (mut gradient, mut work) = (vec![0.0; position.len()], posterior.workspace());
        let batch = Batch { rows, likelihood_weight: 1.0, mode: Mode::Training };
        (posterior.evaluate(&position, batch, &mut gradient, &mut work), gradient)
    };
    let augmented = |strength: f64| {
        energy(Rows::Augmented { rows: &rows, augmentation: Augmentation::new(strength).unwrap(), key })
    };
    assert_eq!(augmented(0.0), energy(Rows::These(&rows)));
    assert_ne!(augmented(1.0).0, energy(Rows::These(&rows)).0);
    assert_eq!(augmented(1.0), augmented(1.0));
}

/// Settings of a few steps on 96 images.
fn tiny(change: impl Fn(&mut Settings)) -> Settings {
    let mut settings = preset("stripes").unwrap().settings();
    settings.data.train_images = Some(96);
    settings.data.validation_images = Some(16);
    settings.data.test_images = Some(16);
    settings.sampler.batch_size = kelvin_study::settings::BatchSize::Rows(96);
    settings.selection.batch_size = kelvin_study::settings::BatchSize::Rows(32);
    (settings.sampler.ramp_start, settings.sampler.ramp_end) = (0, 1);
    (settings.sampler.burn_in, settings.sampler.cycle, settings.sampler.epochs) = (2, 2, 6);
    change(&mut settings);
    settings
}

fn sampled(settings: Settings) -> (Arc<Problem>, SampledChain) {
    sampled_at(1.0, settings)
}

fn sampled_at(inverse_temperature: f64, settings: Settings) -> (Arc<Problem>, SampledChain) {
    let problem = Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap();
    let spec =
        ChainSpec { label: "a chain".into(), repetition: 0, slot: Slot::Bayes, inverse_temperature, start: None };
    let experiment = Experiment::new(problem, settings).unwrap();
    let chain = experiment.sample(&[spec], &Silent).unwrap().remove(0);
    (experiment.problem, chain)
}

#[test]
fn draws_carry_running_or_fresh_statistics() {
    let (problem, running) = sampled(tiny(|_| {}));
    let (_, fresh) = sampled(tiny(|settings| settings.sampler.draw_statistics = DrawStatistics::Reestimated));
    assert_eq!(running.draws.len(), 2);
    let (running_lot, fresh_lot) = (running.draws.all().unwrap(), fresh.draws.all().unwrap());
    assert_eq!(running_lot.positions, fresh_lot.positions, "the chain goes on with its running statistics");
    let last = running_lot.iter().last().unwrap();
    assert_eq!(last.statistics, running.chain.state.statistics);

    // One batch of all images: what it leaves of statistics of zero is 1 − momentum of its own.
    let weights = fresh_lot.iter().last().unwrap();
    let prior = IsotropicGaussian::new(1.0).unwrap();
    let posterior = Posterior::new(&problem.network, problem.likelihood, prior, &problem.train).unwrap();
    let (mut gradient, mut work) = (vec![0.0; posterior.dim()], posterior.workspace());
    posterior.evaluate(weights.parameters, Batch::ALL, &mut gradient, &mut work);
    let mut statistics = vec![0.0; weights.statistics.len()];
    posterior.update_statistics(&work, &mut statistics);
    for (found, expected) in weights.statistics.iter().zip(statistics.iter().map(|value| value / 0.1)) {
        assert!((found - expected).abs() < 1e-4 * expected.abs().max(0.1), "{found} instead of {expected}");
    }
}

/// U and the configurational temperature over batches in row order, scaled up; `power` is what the likelihood
/// counts for in the sampler.
fn energy_over_batches(
    problem: &Problem,
    position: &[f32],
    batch_size: usize,
    num_batches: usize,
    power: f64,
) -> (f64, f64) {
    let prior = IsotropicGaussian::new(1.0).unwrap();
    let posterior = Posterior::new(&problem.network, problem.likelihood, prior, &problem.train).unwrap();
    let mut work = posterior.workspace();
    let scale = problem.train.len() as f64 / (batch_size * num_batches) as f64;
    let log_prior = posterior.log_prior(position);
    let (mut energy, mut sum) = (-log_prior, 0.0);
    for batch in 0..num_batches {
        let rows: Vec<u32> = (0..batch_size).map(|row| (batch * batch_size + row) as u32).collect();
        let mut evaluate = |likelihood_weight: f64| {
            let mut gradient = vec![0.0; position.len()];
            let batch = Batch { rows: Rows::These(&rows), likelihood_weight, mode: Mode::Training };
            let energy = posterior.evaluate(position, batch, &mut gradient, &mut work);
            (energy, position.iter().zip(&gradient).map(|(&x, &g)| f64::from(x) * f64::from(g)).sum::<f64>())
        };
        let (value, slope) = evaluate(scale);
        let (_, prior_slope) = evaluate(0.0);
        energy += value + log_prior;
        sum += power * (slope - prior_slope);
        if batch == 0 {
            sum += prior_slope;
        }
    }
    (energy, sum / position.len() as f64)
}

/// 300 rows in batches of 64 leave 44: energies are over 256 of them, with the statistics of each batch.
#[test]
fn energies_with_batch_norm_are_over_whole_batches_of_the_sampler() {
    let large = |energy_rows: Option<usize>, tempering: Tempering| {
        let settings = tiny(|settings| {
            settings.data.train_images = Some(300);
            settings.sampler.batch_size = kelvin_study::settings::BatchSize::Rows(64);
            settings.sampler.energy_rows = energy_rows;
            settings.sampler.tempering = tempering;
        });
        sampled_at(2.0, settings)
    };
    for (energy_rows, num_batches, tempering) in [
        (None, 4, Tempering::Posterior),
        (Some(300), 4, Tempering::Posterior),
        (Some(150), 2, Tempering::Posterior),
        (None, 4, Tempering::Likelihood),
    ] {
        let (problem, chain) = large(energy_rows, tempering);
        let power = if tempering == Tempering::Likelihood { 2.0 } else { 1.0 };
        for (draw, weights) in chain.draws.all().unwrap().iter().enumerate() {
            let (energy, temperature) = energy_over_batches(&problem, weights.parameters, 64, num_batches, power);
            let found = chain.draws.potential_energy[draw];
            assert!((found / energy - 1.0).abs() < 1e-6, "{energy_rows:?}: {found} instead of {energy}");
            let found = chain.draws.configurational_temperature[draw];
            assert!(
                (found - temperature).abs() < 1e-4 * temperature.abs().max(1.0),
                "{found} instead of {temperature}"
            );
        }
    }
    let (_, all) = large(None, Tempering::Posterior);
    let (_, some) = large(Some(150), Tempering::Posterior);
    for (some, all) in some.draws.potential_energy.iter().zip(&all.draws.potential_energy) {
        let ratio = some / all;
        assert!(ratio != 1.0 && (0.9..1.1).contains(&ratio), "half of the rows count twice: {ratio}");
    }
}

/// Without batch norm every row counts, whatever the batches.
#[test]
fn energies_without_batch_norm_are_over_all_rows() {
    let settings = |energy_rows: Option<usize>| {
        tiny(|settings| {
            settings.data.train_images = Some(300);
            settings.model.layers.as_mut().unwrap().retain(|layer| !matches!(layer, Layer::BatchNorm { .. }));
            settings.sampler.batch_size = kelvin_study::settings::BatchSize::Rows(64);
            settings.sampler.energy_rows = energy_rows;
        })
    };
    for (energy_rows, num_rows) in [(None, 300), (Some(300), 300), (Some(150), 150)] {
        let (problem, chain) = sampled(settings(energy_rows));
        for (draw, weights) in chain.draws.all().unwrap().iter().enumerate() {
            let (energy, _) = energy_over_batches(&problem, weights.parameters, num_rows, 1, 1.0);
            assert!((chain.draws.potential_energy[draw] / energy - 1.0).abs() < 1e-6, "{energy_rows:?}");
        }
    }
}

#[test]
fn batches_that_batch_norm_cannot_use_are_refused() {
    let refused = |change: fn(&mut Settings), phrases: &[&str]| {
        let settings = tiny(change);
        let problem = Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap();
        let error = Experiment::new(problem, settings).err().expect("a refusal").to_string();
        assert!(phrases.iter().all(|phrase| error.contains(phrase)), "{error}");
    };
    refused(
        |settings| settings.sampler.batch_size = kelvin_study::settings::BatchSize::FULL,
        &["sampler.batch_size must be a number of images", "batch norm takes its statistics over the batch"],
    );
    refused(|settings| settings.sampler.energy_rows = Some(97), &["sampler.energy_rows must be from 96 to 96", "97"]);
    refused(|settings| settings.sampler.energy_rows = Some(95), &["sampler.energy_rows must be", "a batch", "95"]);
    refused(
        |settings| {
            settings.model.layers = None;
            settings.model.hidden = Some(vec![4]);
            settings.sampler.draw_statistics = DrawStatistics::Reestimated;
        },
        &["sampler.draw_statistics does not apply", "no batch norm"],
    );
}
