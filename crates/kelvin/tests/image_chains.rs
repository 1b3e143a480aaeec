//! Chains of image networks keep the contract: augmentation, batch norm and layerwise masses included, numbers depend
//! neither on the threads nor on a stop; and what is kept of a draw is what it should be.

use std::sync::Mutex;

use kelvin::data::{Augmentation, Examples, Inputs, Targets, known_dataset};
use kelvin::experiment::{ChainSpec, DrawStatistics, Experiment, Problem, SampledChain, Settings, Slot, preset};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Mode, Network, Normalisation, Rows, Shape};
use kelvin::potential::{Batch, Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{
    Batches, Chain, ChainState, Integrator, Keep, Langevin, LayerwiseMass, MassRule, Plan, Silent, run_population,
};
use kelvin::temperature::Temperature;

const NUM_IMAGES: usize = 40;

fn images() -> Examples {
    let set = known_dataset("stripes").unwrap().load_images(None).unwrap().train.first(NUM_IMAGES);
    Examples {
        num_features: set.shape.num_values(),
        inputs: Inputs::Bytes(set.pixels.into()),
        targets: Targets::Classes(set.labels),
    }
}

fn network() -> Network {
    Network::resnet_for(Shape::image(12, 12, 1), 8, 4, Normalisation::BATCH).unwrap()
}

fn posterior<'a>(network: &Network, examples: &'a Examples) -> Posterior<'a> {
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

fn kept(posterior: &Posterior<'_>, plan: &Plan, chains: &mut [Chain]) -> Vec<Vec<ChainState>> {
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
    settings.sampler.batch_size = kelvin::experiment::BatchSize::Rows(96);
    settings.selection.batch_size = kelvin::experiment::BatchSize::Rows(32);
    (settings.sampler.ramp_start, settings.sampler.ramp_end) = (0, 1);
    (settings.sampler.burn_in, settings.sampler.cycle, settings.sampler.epochs) = (2, 2, 6);
    change(&mut settings);
    settings
}

fn sampled(settings: Settings) -> (Problem, SampledChain) {
    let problem = Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap();
    let spec =
        ChainSpec { label: "β = 1".into(), repetition: 0, slot: Slot::Bayes, inverse_temperature: 1.0, start: None };
    let experiment = Experiment::new(&problem, settings).unwrap();
    let chain = experiment.sample(&[spec], &Silent).unwrap().remove(0);
    drop(experiment);
    (problem, chain)
}

#[test]
fn draws_carry_running_or_fresh_statistics() {
    let (problem, running) = sampled(tiny(|_| {}));
    let (_, fresh) = sampled(tiny(|settings| settings.sampler.draw_statistics = DrawStatistics::Reestimated));
    assert_eq!(running.draws.len(), 2);
    assert_eq!(running.draws.positions, fresh.draws.positions, "the chain goes on with its running statistics");
    let last = running.draws.iter().last().unwrap();
    assert_eq!(last.statistics, running.chain.state.statistics);

    // One batch of all images: what it leaves of statistics of zero is 1 − momentum of its own.
    let weights = fresh.draws.iter().last().unwrap();
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

#[test]
fn energies_of_all_rows_by_parts_are_those_of_all_at_once() {
    let (_, all) = sampled(tiny(|_| {}));
    let (_, listed) = sampled(tiny(|settings| settings.sampler.energy_rows = Some(96)));
    let (_, some) = sampled(tiny(|settings| settings.sampler.energy_rows = Some(48)));
    for draw in 0..2 {
        let energy = |chain: &SampledChain| chain.draws.potential_energy[draw];
        let temperature = |chain: &SampledChain| chain.draws.configurational_temperature[draw];
        assert!((energy(&listed) / energy(&all) - 1.0).abs() < 1e-6, "{} {}", energy(&listed), energy(&all));
        assert!((temperature(&listed) - temperature(&all)).abs() < 1e-4);
        let ratio = energy(&some) / energy(&all);
        assert!(ratio != 1.0 && (0.5..2.0).contains(&ratio), "half of the rows count twice: {ratio}");
    }
}

#[test]
fn batches_that_batch_norm_cannot_use_are_refused() {
    let refused = |change: fn(&mut Settings), phrases: &[&str]| {
        let settings = tiny(change);
        let problem = Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap();
        let error = Experiment::new(&problem, settings).err().expect("a refusal").to_string();
        assert!(phrases.iter().all(|phrase| error.contains(phrase)), "{error}");
    };
    refused(
        |settings| settings.sampler.batch_size = kelvin::experiment::BatchSize::FULL,
        &["sampler.batch_size must be a number of images", "batch norm takes its statistics over the batch"],
    );
    refused(|settings| settings.sampler.energy_rows = Some(97), &["sampler.energy_rows must be from 1 to 96", "97"]);
    refused(
        |settings| {
            settings.model.layers = None;
            settings.model.hidden = Some(vec![4]);
            settings.sampler.draw_statistics = DrawStatistics::Reestimated;
        },
        &["sampler.draw_statistics does not apply", "no batch norm"],
    );
}
