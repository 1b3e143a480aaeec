//! Engines keep their contract: the CPU engine is `run_population`, an experiment gives the same draws whether chains come
//! to their observer one by one or together, and a failure of an engine ends the run with its own words.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use kelvin::data::{Examples, Inputs, Targets, known_dataset};
use kelvin::held_out::HeldOut;
use kelvin::likelihood::Likelihood;
use kelvin::network::{Network, Normalisation, Rows, Shape, Weights};
use kelvin::potential::{Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{
    AscentObjective, Batches, Chain, ChainState, ClipScope, CpuEngine, Engine, EngineError, Integrator, JointAscent,
    Keep, Langevin, Motion, Observer, Plan, Silent, run_population,
};
use kelvin::temperature::{Schedule, Temperature};
use kelvin_study::error::ExperimentError;
use kelvin_study::experiment::{ChainSpec, Experiment, SampledChain, Slot};
use kelvin_study::problem::Problem;
use kelvin_study::settings::{DrawStatistics, Settings, preset};

const NUM_IMAGES: usize = 24;

fn images() -> Examples {
    let set = known_dataset("stripes").unwrap().load_images(None).unwrap().train.first(NUM_IMAGES);
    Examples {
        num_features: set.shape.len(),
        inputs: Inputs::Bytes(set.pixels.into()),
        targets: Targets::Classes(set.labels),
    }
}

/// A dense network, and one with batch norm.
fn networks() -> [Network; 2] {
    let shape = Shape::image(12, 12, 1);
    [Network::dense(144, &[5], 4).unwrap(), Network::resnet_for(shape, 8, 4, Normalisation::BATCH).unwrap()]
}

fn posterior(network: &Network, examples: &Examples) -> Posterior {
    let likelihood = Likelihood::Categorical { num_classes: 4 };
    Posterior::new(network, likelihood, IsotropicGaussian::new(1.0).unwrap(), examples).unwrap()
}

fn sampler() -> Langevin {
    Langevin::new(Integrator::Sghmc, 0.01, 0.9)
}

fn search() -> JointAscent {
    JointAscent {
        objective: AscentObjective::default(),
        learning_rate: Schedule::Constant { value: 1e-4 },
        momentum: 0.9,
        weight_decay: 1.0,
        clip_norm: 1e3,
        clip_scope: ClipScope::All,
    }
}

fn plan(num_steps: u64) -> Plan {
    let batches = Batches::new(NUM_IMAGES, Some(7)).unwrap();
    Plan { seed: 3, batches, num_steps, keep: Keep { burn_in: 2, every: 3 } }
}

fn chains(network: &Network) -> Vec<Chain> {
    let chain = |id: u32| Chain::new(id, Temperature::BAYES, network.initial_parameters(1, id), &network.layout());
    (0..3).map(chain).collect()
}

fn states(chains: &[Chain]) -> Vec<(ChainState, Option<f64>, Option<f64>)> {
    chains.iter().map(|chain| (chain.state.clone(), chain.kinetic_all.mean(), chain.kinetic_kept.mean())).collect()
}

#[test]
fn the_cpu_engine_is_run_population() {
    let examples = images();
    for network in networks() {
        let posterior = posterior(&network, &examples);
        let (sampler, search) = (sampler(), search());
        let (mut engine, mut loops) = (chains(&network), chains(&network));
        CpuEngine.run(&posterior, Motion::Sample(&sampler), &plan(8), &mut engine, &Silent).unwrap();
        run_population(&posterior, &sampler, &plan(8), &mut loops, &Silent);
        assert_eq!(states(&engine), states(&loops));
        assert!(engine.iter().all(|chain| chain.state.step == 8 && chain.kinetic_kept.num_readings() == 2));

        let (mut engine, mut loops) = (chains(&network), chains(&network));
        CpuEngine.run(&posterior, Motion::Search(&search), &plan(8), &mut engine, &Silent).unwrap();
        run_population(&posterior, &search, &plan(8), &mut loops, &Silent);
        assert_eq!(states(&engine), states(&loops));
        assert!(engine.iter().all(|chain| chain.state.log_beta != 0.0));
    }
}

/// Notes all that it is told; stops one chain at its first report.
#[derive(Default)]
struct Notes {
    stopped: Option<usize>,
    events: Mutex<Vec<Event>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Started(usize),
    Kept(usize, u64),
    Advanced(usize, u64),
}

impl Notes {
    fn note(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }
}

impl Observer for Notes {
    fn started(&self, index: usize) {
        self.note(Event::Started(index));
    }

    fn kept(&self, kept: &[(usize, &Chain)]) {
        kept.iter().for_each(|(index, chain)| self.note(Event::Kept(*index, chain.state.step)));
    }

    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        self.note(Event::Advanced(index, steps));
        if self.stopped == Some(index) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[test]
fn observers_hear_of_starts_kept_states_and_progress_and_may_stop_a_chain() {
    let examples = images();
    let [network, _] = networks();
    let posterior = posterior(&network, &examples);
    let watch = Notes { stopped: Some(1), ..Notes::default() };
    let mut chains = chains(&network);
    CpuEngine.run(&posterior, Motion::Sample(&sampler()), &plan(600), &mut chains, &watch).unwrap();
    let events = watch.events.into_inner().unwrap();
    for index in [0, 2] {
        let own = |event: &Event| match *event {
            Event::Started(of) | Event::Kept(of, _) | Event::Advanced(of, _) => of == index,
        };
        let own: Vec<Event> = events.iter().copied().filter(own).collect();
        assert_eq!(own[0], Event::Started(index));
        let kept: Vec<u64> =
            own.iter().filter_map(|e| if let Event::Kept(_, at) = e { Some(*at) } else { None }).collect();
        assert_eq!(kept, (5..=600).step_by(3).collect::<Vec<u64>>());
        let steps: u64 = own.iter().map(|e| if let Event::Advanced(_, steps) = e { *steps } else { 0 }).sum();
        assert_eq!((steps, chains[index].state.step), (600, 600));
    }
    assert!(chains[1].state.step < 600 && chains[1].divergence.is_none(), "stopped at {}", chains[1].state.step);
}

#[test]
fn a_chain_that_diverges_stops_and_the_others_go_on() {
    let examples = images();
    let [network, _] = networks();
    let posterior = posterior(&network, &examples);
    let mut chains = chains(&network);
    chains[1].state.position[3] = f32::MAX;
    CpuEngine.run(&posterior, Motion::Sample(&sampler()), &plan(8), &mut chains, &Silent).unwrap();
    assert!(chains[1].divergence.is_some() && chains[1].state.step < 8);
    assert!([0, 2].iter().all(|&index| chains[index].divergence.is_none() && chains[index].state.step == 8));
}

#[test]
fn evaluations_of_several_are_those_of_each() {
    let examples = images();
    for network in networks() {
        let posterior = posterior(&network, &examples);
        let held_out = HeldOut::new(&network, &examples);
        let mut chains = chains(&network);
        CpuEngine.run(&posterior, Motion::Sample(&sampler()), &plan(2), &mut chains, &Silent).unwrap();

        let weights: Vec<Weights<'_>> = chains.iter().map(|chain| chain.state.weights()).collect();
        let outputs = CpuEngine.outputs(&held_out, &weights).unwrap();
        assert_eq!(outputs, weights.iter().map(|&weights| held_out.outputs(weights)).collect::<Vec<_>>());

        let rows: Vec<u32> = (0..NUM_IMAGES as u32).collect();
        let batches: Vec<Rows<'_>> = rows.chunks_exact(8).map(Rows::These).collect();
        let positions: Vec<&[f32]> = chains.iter().map(|chain| &chain.state.position[..]).collect();
        let gradients = CpuEngine.gradients(&posterior, &positions, &[1.0, 0.5, 2.0], &batches).unwrap();
        let mut work = posterior.workspace();
        for ((position, weight), (sum, gradient)) in positions.iter().zip([1.0, 0.5, 2.0]).zip(&gradients) {
            let mut own = vec![0.0; position.len()];
            let value = posterior.gradient_over_batches(position, batches.iter().copied(), weight, &mut own, &mut work);
            assert_eq!((*sum, gradient), (value, &own));
        }

        let of_each = vec![batches.clone(), batches[1..].to_vec(), batches[..1].to_vec()];
        let statistics = CpuEngine.batch_statistics(&posterior, &positions, &of_each).unwrap();
        for ((position, batches), statistics) in positions.iter().zip(&of_each).zip(&statistics) {
            assert_eq!(statistics.len(), network.statistics_layout().len());
            assert_eq!(*statistics, posterior.average_statistics(position, batches.iter().copied(), &mut work));
        }
    }
}

/// What an engine of the tests does with its population.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Shows all chains together at each kept state.
    Together,
    /// The same, and fails when draws are evaluated.
    FailsLater,
    /// Fails at once.
    FailsAtOnce,
}

/// The CPU in disguise.
struct Disguised(Manner);

impl Disguised {
    fn evaluates(&self) -> Result<(), EngineError> {
        match self.0 {
            Manner::FailsLater => Err(failure("out of memory")),
            _ => Ok(()),
        }
    }
}

fn failure(reason: &str) -> EngineError {
    EngineError::Failed { engine: "the disguised engine".into(), source: reason.into() }
}

impl Engine for Disguised {
    fn describe(&self) -> String {
        "the disguised engine".into()
    }

    fn run(
        &self,
        posterior: &Posterior,
        motion: Motion<'_>,
        plan: &Plan,
        chains: &mut [Chain],
        observer: &dyn Observer,
    ) -> Result<(), EngineError> {
        if self.0 == Manner::FailsAtOnce {
            return Err(failure("the device is lost"));
        }
        let moments: Mutex<BTreeMap<u64, Vec<(usize, Chain)>>> = Mutex::default();
        CpuEngine.run(posterior, motion, plan, chains, &|index: usize, chain: &Chain| {
            moments.lock().unwrap().entry(chain.state.step).or_default().push((index, chain.clone()));
        })?;
        for kept in moments.into_inner().unwrap().values() {
            observer.kept(&kept.iter().map(|(index, chain)| (*index, chain)).collect::<Vec<_>>());
        }
        Ok(())
    }

    fn outputs(&self, held_out: &HeldOut, weights: &[Weights<'_>]) -> Result<Vec<Vec<f32>>, EngineError> {
        self.evaluates()?;
        CpuEngine.outputs(held_out, weights)
    }

    fn gradients(
        &self,
        posterior: &Posterior,
        positions: &[&[f32]],
        likelihood_weights: &[f64],
        batches: &[Rows<'_>],
    ) -> Result<Vec<(f64, Vec<f32>)>, EngineError> {
        self.evaluates()?;
        CpuEngine.gradients(posterior, positions, likelihood_weights, batches)
    }

    fn batch_statistics(
        &self,
        posterior: &Posterior,
        positions: &[&[f32]],
        batches: &[Vec<Rows<'_>>],
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        CpuEngine.batch_statistics(posterior, positions, batches)
    }
}

fn settings() -> Settings {
    let mut settings = preset("stripes").unwrap().settings().quick_images([96, 16, 16]);
    settings.sampler.draw_statistics = DrawStatistics::Reestimated;
    settings
}

fn specs() -> Vec<ChainSpec> {
    let spec = |slot, inverse_temperature| ChainSpec {
        label: "a chain".into(),
        repetition: 0,
        slot,
        inverse_temperature,
        start: None,
    };
    vec![spec(Slot::Bayes, 1.0), spec(Slot::Chosen, 3.0), spec(Slot::Grid(0), 0.5)]
}

fn sampled(engine: Arc<dyn Engine>, problem: &Arc<Problem>) -> Result<Vec<SampledChain>, ExperimentError> {
    Experiment::on(engine, Arc::clone(problem), settings())?.sample(&specs(), &Silent)
}

#[test]
fn draws_and_choices_do_not_depend_on_how_many_chains_are_shown_together() {
    let settings = settings();
    let problem = Arc::new(Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap());
    let alone = sampled(Arc::new(CpuEngine), &problem).unwrap();
    let together = sampled(Arc::new(Disguised(Manner::Together)), &problem).unwrap();
    for (alone, together) in alone.iter().zip(&together) {
        assert!(!alone.draws.is_empty() && !alone.draws.all().unwrap().statistics.is_empty());
        assert_eq!(alone.draws, together.draws);
    }
    let choices = |engine: Arc<dyn Engine>| {
        Experiment::on(engine, Arc::clone(&problem), settings.clone()).unwrap().select(&[0, 1, 2], &Silent).unwrap()
    };
    assert_eq!(choices(Arc::new(CpuEngine)), choices(Arc::new(Disguised(Manner::Together))));
}

#[test]
fn a_failing_engine_ends_the_run_with_its_own_words() {
    let settings = settings();
    let problem = Arc::new(Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap());
    for (manner, words) in [(Manner::FailsAtOnce, "the device is lost"), (Manner::FailsLater, "out of memory")] {
        let message = format!("the disguised engine failed: {words}");
        assert_eq!(sampled(Arc::new(Disguised(manner)), &problem).unwrap_err().to_string(), message);
        let experiment = Experiment::on(Arc::new(Disguised(manner)), Arc::clone(&problem), settings.clone()).unwrap();
        assert_eq!(experiment.select(&[0], &Silent).unwrap_err().to_string(), message);
    }
}
