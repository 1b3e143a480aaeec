//! The engine over one or several GPUs: chooses what runs a posterior, deals chains out to devices, says what failed.
//!
//! Populations of small dense networks go to the engine of tables, all others to the general engine. Draws of
//! networks that read images, and of large dense ones, are evaluated on the device; a small dense network's are the CPU engine's,
//! which needs microseconds.

mod deal;
mod faults;
mod floor;
mod population;

use std::error::Error;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use kelvin::data::{Examples, Inputs, Targets};
use kelvin::held_out::HeldOut;
use kelvin::likelihood::Likelihood;
use kelvin::network::{Evaluator, Network, Rows, Weights};
use kelvin::potential::{Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{AscentObjective, Chain, CpuEngine, Engine, EngineError, Floor, Motion, Observer, Plan};

use crate::general::{GeneralEngine, Precision};
use crate::gpu::device::{Device, DeviceError};
use crate::samplers;
use deal::{deal_out, joined, lots};
use faults::at_fault;
use population::{Population, unknown_model};

/// Runs populations on all GPUs of this machine, or on those it is given.
pub struct CudaEngine {
    places: Vec<Place>,
    precision: Precision,
}

/// A device with its last general engine: what is run or evaluated next is mostly of the same network, and shares memory.
struct Place {
    device: Arc<dyn Device>,
    last: Mutex<Option<(Subject, Arc<GeneralEngine>)>>,
}

/// What an evaluation depends on.
#[derive(Clone, PartialEq)]
struct Subject {
    network: Network,
    likelihood: Likelihood,
    /// The variance, and where there is none.
    prior: Option<(f64, Vec<Range<usize>>)>,
    examples: ExamplesIdentity,
}

/// Examples, compared by where they lie where that is enough; a copy keeps the place from being used again.
#[derive(Clone)]
struct ExamplesIdentity(Examples);

impl PartialEq for ExamplesIdentity {
    fn eq(&self, other: &Self) -> bool {
        let inputs_are_equal = match (&self.0.inputs, &other.0.inputs) {
            (Inputs::Bytes(own), Inputs::Bytes(others)) => Arc::ptr_eq(own, others),
            (own, others) => own == others,
        };
        inputs_are_equal && self.0.targets == other.0.targets
    }
}

impl Subject {
    fn of(posterior: &Posterior) -> Self {
        Self {
            network: posterior.network().clone(),
            likelihood: posterior.likelihood(),
            prior: posterior.prior().gaussian_except().map(|(variance, without)| (variance, without.to_vec())),
            examples: ExamplesIdentity(posterior.examples().clone()),
        }
    }
}

impl Place {
    /// The general engine for a posterior: the last one if it serves, else a new one in its stead.
    fn general(
        &self,
        subject: &Subject,
        reuses: impl Fn(&Subject) -> bool,
        posterior: &Posterior,
        precision: Precision,
    ) -> Result<Arc<GeneralEngine>, EngineError> {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((_, images)) = last.as_ref().filter(|(subject, _)| reuses(subject)) {
            return Ok(Arc::clone(images));
        }
        // First the old one gives its memory back.
        *last = None;
        let images = Arc::new(population::general(&self.device, posterior, precision)?);
        *last = Some((subject.clone(), Arc::clone(&images)));
        Ok(images)
    }

    /// What moves populations of a posterior so here.
    fn population_for(
        &self,
        posterior: &Posterior,
        motion: Motion<'_>,
        precision: Precision,
    ) -> Result<Population, EngineError> {
        let refused = |reason| EngineError::Unsupported { engine: self.device.name(), reason };
        samplers::check_tables(motion).map_err(refused)?;
        if serves_tables(motion)
            && let Some(tables) = population::tables(&self.device, posterior)?
        {
            return Ok(Population::Tables(tables));
        }
        samplers::check_any_network(motion).map_err(refused)?;
        self.any_network(posterior, precision)
    }

    /// The same by whatever motion.
    fn population(&self, posterior: &Posterior, precision: Precision) -> Result<Population, EngineError> {
        if let Some(tables) = population::tables(&self.device, posterior)? {
            return Ok(Population::Tables(tables));
        }
        self.any_network(posterior, precision)
    }

    /// The same, of no kind of network in particular.
    fn any_network(&self, posterior: &Posterior, precision: Precision) -> Result<Population, EngineError> {
        let precision = precision_for(posterior, precision);
        let subject = Subject::of(posterior);
        Ok(Population::General(self.general(&subject, |last| *last == subject, posterior, precision)?))
    }
}

impl CudaEngine {
    /// All GPUs of this machine.
    ///
    /// # Errors
    /// [`EngineError::Absent`] where there is none, [`EngineError::Unavailable`] where its driver or NVRTC is missing or too old.
    pub fn open(precision: Precision) -> Result<Self, EngineError> {
        let devices = population::devices().map_err(|error| at_fault("CUDA", error))?;
        Ok(Self::new(devices, precision))
    }

    /// An engine that deals chains out to these devices.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(devices: Vec<Arc<dyn Device>>, precision: Precision) -> Self {
        assert!(!devices.is_empty(), "an engine needs at least one device");
        let place = |device| Place { device, last: Mutex::default() };
        Self { places: devices.into_iter().map(place).collect(), precision }
    }

    /// Evaluates lots of draws on all devices, each lot on one.
    fn evaluate<D: Sync, R: Send>(
        &self,
        subject: &Subject,
        reuses: impl Fn(&Subject) -> bool + Sync,
        posterior: &Posterior,
        draws: &[D],
        on: impl Fn(&GeneralEngine, &[D], usize) -> Result<Vec<R>, DeviceError> + Sync,
    ) -> Result<Vec<R>, EngineError> {
        let lots = lots(draws.len(), self.places.len());
        let evaluate = |place: &Place, (first, count): (usize, usize)| -> Result<Vec<R>, EngineError> {
            let general = place.general(subject, &reuses, posterior, precision_for(posterior, self.precision))?;
            on(&general, &draws[first..first + count], first).map_err(|error| at_fault(&place.device.name(), error))
        };
        let results = std::thread::scope(|scope| {
            let evaluate = &evaluate;
            let work: Vec<_> =
                self.places.iter().zip(lots).map(|(place, lot)| scope.spawn(move || evaluate(place, lot))).collect();
            work.into_iter().map(joined).collect::<Result<Vec<_>, EngineError>>()
        })?;
        Ok(results.into_iter().flatten().collect())
    }
}

/// Whether the kernels of tables know how to move so: their ascent sees the likelihood alone, and always moves log β.
fn serves_tables(motion: Motion<'_>) -> bool {
    !matches!(motion, Motion::Search(rule) if rule.objective != AscentObjective::default())
}

/// What a posterior is run in: images in what was asked for, whatever reads them; rows of numbers want more than eight bits of
/// mantissa.
fn precision_for(posterior: &Posterior, asked: Precision) -> Precision {
    let reads_images = matches!(posterior.examples().inputs, Inputs::Bytes(_));
    if reads_images || matches!(posterior.evaluator(), Evaluator::Images(_)) { asked } else { Precision::Single }
}

/// Multiply-adds from which on a draw of a dense network is evaluated on the device: some milliseconds of a core.
const FEWEST_ON_DEVICE: usize = 1 << 27;

/// Whether draws of a network are evaluated on the device, over so many rows.
fn evaluates(network: &Network, evaluator: &Evaluator, num_rows: usize) -> bool {
    let is_known = population::unknown_network(network).is_none();
    is_known && (matches!(evaluator, Evaluator::Images(_)) || network.layout().len() * num_rows >= FEWEST_ON_DEVICE)
}

/// How many rows all batches have.
fn num_rows(batches: &[Rows<'_>], num_examples: usize) -> usize {
    batches.iter().map(|batch| batch.listed().map_or(num_examples, <[u32]>::len)).sum()
}

/// A posterior of held-out rows, for an engine that evaluates posteriors only; its answers do not matter.
fn posterior_of(held_out: &HeldOut) -> Result<Posterior, EngineError> {
    let failed = |source: Box<dyn Error + Send + Sync>| EngineError::Failed { engine: "CUDA".into(), source };
    let likelihood = Likelihood::fitting(held_out.targets(), held_out.network().num_outputs());
    let prior = IsotropicGaussian::new(1.0).map_err(|error| failed(error.into()))?;
    Posterior::new(held_out.network(), likelihood, prior, held_out.examples()).map_err(|error| failed(error.into()))
}

impl Engine for CudaEngine {
    fn describe(&self) -> String {
        let mut counts: Vec<(String, usize)> = Vec::new();
        for place in &self.places {
            let name = place.device.name();
            match counts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => counts.push((name, 1)),
            }
        }
        let texts = counts.into_iter().map(|(name, count)| if count == 1 { name } else { format!("{count} × {name}") });
        texts.collect::<Vec<_>>().join(", ")
    }

    fn describe_for(&self, posterior: &Posterior) -> String {
        format!("{} ({})", self.describe(), precision_for(posterior, self.precision).name())
    }

    fn moves_chains_together(&self) -> bool {
        true
    }

    fn accepts(&self, posterior: &Posterior, motion: Motion<'_>) -> Result<(), EngineError> {
        self.places[0].population_for(posterior, motion, self.precision).map(drop)
    }

    fn arrangement(
        &self,
        posterior: &Posterior,
        plan: &Plan,
        num_chains: usize,
    ) -> Result<Option<String>, EngineError> {
        // The first device has as many chains as any.
        let (place, own) = (&self.places[0], num_chains.div_ceil(self.places.len()));
        let Population::General(engine) = place.population(posterior, self.precision)? else { return Ok(None) };
        let residence = engine.residence_of(plan, own).map_err(|error| at_fault(&place.device.name(), error))?;
        Ok(Some(residence.describe(own)))
    }

    fn floor(&self, posterior: &Posterior, num_rows: usize) -> Result<Option<Floor>, EngineError> {
        let place = &self.places[0];
        let Some(speeds) = place.device.speeds() else { return Ok(None) };
        let precision = precision_for(posterior, self.precision);
        let cost = floor::cost(posterior.network().program(), num_rows, precision);
        let cost = match place.population(posterior, self.precision)? {
            Population::Tables(_) => cost.on_chip(),
            Population::General(_) => cost,
        };
        Ok(Some(cost.floor(speeds, precision)))
    }

    fn slow_layers(&self, posterior: &Posterior) -> Result<Vec<String>, EngineError> {
        Ok(match self.places[0].population(posterior, self.precision)? {
            Population::Tables(_) => Vec::new(),
            Population::General(engine) => engine.slow_layers(),
        })
    }

    fn run(
        &self,
        posterior: &Posterior,
        motion: Motion<'_>,
        plan: &Plan,
        chains: &mut [Chain],
        observer: &dyn Observer,
    ) -> Result<(), EngineError> {
        deal_out(self.places.len(), chains, observer, |receiver, chains, observer| {
            let place = &self.places[receiver];
            let population = place.population_for(posterior, motion, self.precision)?;
            population.run(motion, plan, chains, observer).map_err(|error| at_fault(&place.device.name(), error))
        })
    }

    fn outputs(&self, held_out: &HeldOut, weights: &[Weights<'_>]) -> Result<Vec<Vec<f32>>, EngineError> {
        let several_numbers = matches!(held_out.targets(), Targets::Real(_)) && held_out.network().num_outputs() > 1;
        let are_known =
            !several_numbers && weights.iter().all(|weights| held_out.is_of_network_alone(weights.parameters.len()));
        if !evaluates(held_out.network(), held_out.evaluator(), held_out.examples().len()) || !are_known {
            return CpuEngine.outputs(held_out, weights);
        }
        let posterior = posterior_of(held_out)?;
        // Any posterior of the same network gives the outputs of all rows.
        let reuses = |last: &Subject| last.network == *held_out.network();
        self.evaluate(&Subject::of(&posterior), reuses, &posterior, weights, |device, weights, _| {
            device.outputs(held_out.examples(), weights)
        })
    }

    fn gradients(
        &self,
        posterior: &Posterior,
        positions: &[&[f32]],
        likelihood_weights: &[f64],
        batches: &[Rows<'_>],
    ) -> Result<Vec<(f64, Vec<f32>)>, EngineError> {
        let num_rows = num_rows(batches, posterior.num_examples());
        if !evaluates(posterior.network(), posterior.evaluator(), num_rows) || unknown_model(posterior).is_some() {
            return CpuEngine.gradients(posterior, positions, likelihood_weights, batches);
        }
        let subject = Subject::of(posterior);
        self.evaluate(
            &subject,
            |last| *last == subject,
            posterior,
            positions,
            |device, positions, first| {
                device.gradients(positions, &likelihood_weights[first..first + positions.len()], batches)
            },
        )
    }

    fn batch_statistics(
        &self,
        posterior: &Posterior,
        positions: &[&[f32]],
        batches: &[Vec<Rows<'_>>],
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        if !matches!(posterior.evaluator(), Evaluator::Images(_)) || unknown_model(posterior).is_some() {
            return CpuEngine.batch_statistics(posterior, positions, batches);
        }
        let subject = Subject::of(posterior);
        self.evaluate(
            &subject,
            |last| *last == subject,
            posterior,
            positions,
            |device, positions, first| device.batch_statistics(positions, &batches[first..first + positions.len()]),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::device::{Address, Kernel, Launch, Limits, Recording};
    use kelvin::network::Activation;
    use kelvin::prior::{Laplace, LayerwiseGaussian, Prior, StudentT};
    use kelvin::sampler::{Batches, Integrator, Keep, Langevin, Silent, WarmUp};
    use kelvin::temperature::Temperature;

    /// A machine that nothing may be asked of but its name and size.
    struct Untouched;

    impl Device for Untouched {
        fn name(&self) -> String {
            "CUDA".into()
        }
        fn limits(&self) -> Limits {
            Limits { num_multiprocessors: 1, shared_bytes: 48 << 10, warpgroup_products: false, memory_bytes: 1 << 30 }
        }
        fn free_memory(&self) -> Result<usize, DeviceError> {
            unreachable!("refused before")
        }
        fn allocate(&self, _: usize) -> Result<Address, DeviceError> {
            unreachable!("refused before")
        }
        fn release(&self, _: Address) {}
        fn write(&self, _: Address, _: &[u8]) -> Result<(), DeviceError> {
            unreachable!("refused before")
        }
        fn read(&self, _: Address, _: &mut [u8]) -> Result<(), DeviceError> {
            unreachable!("refused before")
        }
        fn compile_text(&self, _: &str, _: &str) -> Result<Kernel, DeviceError> {
            unreachable!("refused before")
        }
        fn launch(&self, _: &Launch) -> Result<(), DeviceError> {
            unreachable!("refused before")
        }
        fn record(&self, _: &[&[Launch]]) -> Result<Recording, DeviceError> {
            unreachable!("refused before")
        }
        fn replay(&self, _: Recording, _: u64) -> Result<(), DeviceError> {
            unreachable!("refused before")
        }
        fn forget(&self, _: Recording) {}
        fn synchronize(&self) -> Result<(), DeviceError> {
            unreachable!("refused before")
        }
    }

    #[test]
    fn parameters_that_are_not_the_networks_are_refused_by_name() {
        let engine = CudaEngine::new(vec![Arc::new(Untouched)], Precision::Single);
        let inputs = Inputs::Numbers(vec![0.5; 4].into());
        let examples = Examples { inputs, num_features: 2, targets: Targets::Real(vec![0.0, 1.0]) };
        for hidden in [&[4][..], &[4, 3]] {
            let network = Network::dense(2, hidden, 1).unwrap();
            let prior = IsotropicGaussian::new(1.0).unwrap();
            let posterior = Posterior::new(&network, Likelihood::LearnedGaussian, prior, &examples).unwrap();
            let rule = Langevin::new(Integrator::Sghmc, 0.1, 0.9);
            let said = engine.accepts(&posterior, Motion::Sample(&rule)).unwrap_err().to_string();
            assert!(said.contains("`noise.log_variance`") && said.contains("--device cpu"), "{said}");
        }
    }

    #[test]
    fn networks_that_the_kernels_do_not_have_are_refused_by_name() {
        let engine = CudaEngine::new(vec![Arc::new(Untouched)], Precision::Single);
        let inputs = Inputs::Numbers(vec![0.5; 4].into());
        let examples = Examples { inputs, num_features: 2, targets: Targets::Real(vec![0.0, 1.0]) };
        let rule = Langevin::new(Integrator::Sghmc, 0.1, 0.9);
        let network = Network::table(2, &[4], 1, Activation::Relu, true).unwrap();
        let prior = IsotropicGaussian::new(1.0).unwrap();
        let likelihood = Likelihood::Gaussian { noise_variance: 0.1 };
        let posterior = Posterior::new(&network, likelihood, prior, &examples).unwrap();
        let said = engine.accepts(&posterior, Motion::Sample(&rule)).unwrap_err().to_string();
        assert!(said.contains("no skip") && said.contains("--device cpu"), "{said}");
        let positions = [&posterior.initial_position(1, 0)[..]];
        assert_eq!(engine.gradients(&posterior, &positions, &[1.0], &[Rows::All]).unwrap().len(), 1, "on the CPU");
    }

    #[test]
    fn priors_that_the_kernels_do_not_have_are_refused_before_anything_is_done() {
        let engine = CudaEngine::new(vec![Arc::new(Untouched)], Precision::Single);
        let inputs = Inputs::Numbers(vec![0.5; 4].into());
        let examples = Examples { inputs, num_features: 2, targets: Targets::Real(vec![0.0, 1.0]) };
        let likelihood = Likelihood::Gaussian { noise_variance: 0.1 };
        let rule = Langevin::new(Integrator::Sghmc, 0.1, 0.9);
        // Tables have an engine of their own; both know one prior.
        for hidden in [&[4][..], &[4, 3]] {
            let network = Network::dense(2, hidden, 1).unwrap();
            let layerwise = LayerwiseGaussian::new(1.0, &network.layout()).unwrap();
            let priors: [Box<dyn Prior>; 3] =
                [Box::new(Laplace::new(1.0).unwrap()), Box::new(StudentT::new(1.0, 5.0).unwrap()), Box::new(layerwise)];
            for prior in priors {
                let posterior = Posterior::new(&network, likelihood, prior, &examples).unwrap();
                let error = engine.accepts(&posterior, Motion::Sample(&rule)).unwrap_err();
                assert!(matches!(error, EngineError::Unsupported { .. }), "{error}");
                let said = error.to_string();
                for phrase in ["CUDA cannot do that", "model.prior", "Gaussians of one variance", "--device cpu"] {
                    assert!(said.contains(phrase), "no `{phrase}` in {said}");
                }
            }
        }
    }

    #[test]
    fn samplers_without_kernels_are_refused_before_anything_is_done() {
        let engine = CudaEngine::new(vec![Arc::new(Untouched)], Precision::Single);
        let inputs = Inputs::Numbers(vec![0.5; 4].into());
        let examples = Examples { inputs, num_features: 2, targets: Targets::Real(vec![0.0, 1.0]) };
        let network = Network::dense(2, &[4], 1).unwrap();
        let likelihood = Likelihood::Gaussian { noise_variance: 0.1 };
        let prior = IsotropicGaussian::new(1.0).unwrap();
        let posterior = Posterior::new(&network, likelihood, prior, &examples).unwrap();
        for &integrator in Integrator::ALL.iter().filter(|integrator| !samplers::OF_TABLES.contains(integrator)) {
            let rule = Langevin::new(integrator, 0.1, 0.9);
            let error = engine.accepts(&posterior, Motion::Sample(&rule)).unwrap_err();
            assert!(matches!(error, EngineError::Unsupported { .. }), "{error}");
            let start = network.initial_parameters(0, 0);
            let mut chains = [Chain::new(0, Temperature::new(1.0).unwrap(), start, &network.layout())];
            let keep = Keep { burn_in: 0, every: 1 };
            let plan = Plan { seed: 0, batches: Batches::full(2), num_steps: 1, keep };
            let run = engine.run(&posterior, Motion::Sample(&rule), &plan, &mut chains, &Silent);
            assert_eq!(run.unwrap_err().to_string(), error.to_string());
        }
    }

    #[test]
    fn chains_of_other_networks_than_tables_do_not_adapt() {
        let engine = CudaEngine::new(vec![Arc::new(Untouched)], Precision::Single);
        let inputs = Inputs::Numbers(vec![0.5; 4].into());
        let examples = Examples { inputs, num_features: 2, targets: Targets::Real(vec![0.0, 1.0]) };
        let network = Network::table(2, &[4, 3], 1, Activation::Tanh, false).unwrap();
        let likelihood = Likelihood::Gaussian { noise_variance: 0.1 };
        let prior = IsotropicGaussian::new(1.0).unwrap();
        let posterior = Posterior::new(&network, likelihood, prior, &examples).unwrap();
        let plain = Langevin::new(Integrator::Baoab, 0.1, 0.9);
        let adaptive = Langevin { warm_up: Some(WarmUp { num_steps: 4, friction: None }), ..plain.clone() };
        for (rule, phrase) in [(plain, "the sampler baoab"), (adaptive, "sampler.adapt")] {
            let said = engine.accepts(&posterior, Motion::Sample(&rule)).unwrap_err().to_string();
            for phrase in ["CUDA cannot do that", phrase, "--device cpu"] {
                assert!(said.contains(phrase), "no `{phrase}` in {said}");
            }
        }
    }

    #[test]
    fn images_follow_the_asked_precision_whatever_reads_them_and_tables_are_f32() {
        let prior = || IsotropicGaussian::new(1.0).unwrap();
        let likelihood = Likelihood::Categorical { num_classes: 3 };
        let targets = Targets::Classes(vec![0, 2]);
        for (inputs, wanted) in [
            (Inputs::Bytes(vec![7; 8].into()), Precision::Half),
            (Inputs::Numbers(vec![0.5; 8].into()), Precision::Single),
        ] {
            let examples = Examples { inputs, num_features: 4, targets: targets.clone() };
            for hidden in [&[5][..], &[5, 6]] {
                let network = Network::dense(4, hidden, 3).unwrap();
                let posterior = Posterior::new(&network, likelihood, prior(), &examples).unwrap();
                assert_eq!(precision_for(&posterior, Precision::Half), wanted);
                assert_eq!(precision_for(&posterior, Precision::Single), Precision::Single);
            }
        }
    }

    #[test]
    fn draws_of_dense_networks_are_evaluated_where_that_is_fast() {
        let evaluated = |hidden: &[usize], num_rows| {
            let network = Network::dense(784, hidden, 10).unwrap();
            evaluates(&network, &network.evaluator(), num_rows)
        };
        assert!(evaluated(&[256, 256], 10_000) && !evaluated(&[256, 256], 100) && !evaluated(&[4], 10_000));
        let network = Network::mnist_cnn();
        assert!(evaluates(&network, &network.evaluator(), 1));
    }

    #[test]
    fn images_are_the_same_where_they_lie_at_the_same_place() {
        let images = |bytes: &Arc<[u8]>| {
            let inputs = Inputs::Bytes(Arc::clone(bytes));
            ExamplesIdentity(Examples { inputs, num_features: 2, targets: Targets::Classes(vec![0]) })
        };
        let (first, second): (Arc<[u8]>, Arc<[u8]>) = (vec![1, 2].into(), vec![1, 2].into());
        assert!(images(&first) == images(&first) && images(&first) != images(&second));
        let numbers = || {
            let inputs = Inputs::Numbers(vec![0.5, 1.5].into());
            ExamplesIdentity(Examples { inputs, num_features: 2, targets: Targets::Classes(vec![0]) })
        };
        assert!(numbers() == numbers());
    }
}
