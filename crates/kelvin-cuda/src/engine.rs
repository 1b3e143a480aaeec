//! The engine over one or several GPUs: chooses what runs a posterior, deals chains out to devices, says what failed.
//!
//! Populations of networks with one hidden layer go to the engine of tables, all others to the engine of images. Draws of
//! networks that read images are evaluated on the device; a dense network's are the CPU engine's, which needs microseconds.

mod population;

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use kelvin::data::{Examples, Inputs, Targets};
use kelvin::held_out::HeldOut;
use kelvin::likelihood::Likelihood;
use kelvin::network::{Evaluator, Network, Rows, Weights};
use kelvin::potential::Posterior;
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{Chain, CpuEngine, Engine, EngineError, Motion, Observer, Plan};

use crate::device::{Device, DeviceError};
use crate::images::{ImageEngine, Precision};
use population::Population;

/// Runs populations on all GPUs of this machine, or on those it is given.
pub struct CudaEngine {
    places: Vec<Place>,
    precision: Precision,
}

/// A device with its last engine of images: what is run or evaluated next is mostly of the same network, and shares memory.
struct Place {
    device: Arc<dyn Device>,
    last: Mutex<Option<(Subject, Arc<ImageEngine>)>>,
}

/// What an evaluation depends on.
#[derive(Clone, PartialEq)]
struct Subject {
    network: Network,
    likelihood: Likelihood,
    prior_variance: Option<f64>,
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
    fn of(posterior: &Posterior<'_>) -> Self {
        Self {
            network: posterior.network().clone(),
            likelihood: posterior.likelihood(),
            prior_variance: posterior.prior().isotropic_variance(),
            examples: ExamplesIdentity(posterior.examples().clone()),
        }
    }
}

impl Place {
    /// The engine of images for a posterior: the last one if it serves, else a new one in its stead.
    fn images(
        &self,
        subject: &Subject,
        reuses: impl Fn(&Subject) -> bool,
        posterior: &Posterior<'_>,
        precision: Precision,
    ) -> Result<Arc<ImageEngine>, EngineError> {
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((_, images)) = last.as_ref().filter(|(subject, _)| reuses(subject)) {
            return Ok(Arc::clone(images));
        }
        // First the old one gives its memory back.
        *last = None;
        let images = Arc::new(population::images(&self.device, posterior, precision)?);
        *last = Some((subject.clone(), Arc::clone(&images)));
        Ok(images)
    }

    /// What moves populations of a posterior here.
    fn population(&self, posterior: &Posterior<'_>, precision: Precision) -> Result<Population, EngineError> {
        if let Some(tables) = population::tables(&self.device, posterior)? {
            return Ok(Population::Tables(tables));
        }
        let precision = precision_for(posterior, precision);
        let subject = Subject::of(posterior);
        Ok(Population::Images(self.images(&subject, |last| *last == subject, posterior, precision)?))
    }
}

impl CudaEngine {
    /// All GPUs of this machine.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] where there is none, or its driver or NVRTC is missing or too old.
    pub fn open(precision: Precision) -> Result<Self, EngineError> {
        let devices = population::devices().map_err(|error| at_fault("CUDA", error))?;
        Ok(Self::new(devices, precision))
    }

    /// These devices.
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
        posterior: &Posterior<'_>,
        draws: &[D],
        on: impl Fn(&ImageEngine, &[D], usize) -> Result<Vec<R>, DeviceError> + Sync,
    ) -> Result<Vec<R>, EngineError> {
        let lots = lots(draws.len(), self.places.len());
        let evaluate = |place: &Place, (first, count): (usize, usize)| -> Result<Vec<R>, EngineError> {
            let images = place.images(subject, &reuses, posterior, self.precision)?;
            on(&images, &draws[first..first + count], first).map_err(|error| at_fault(&place.device.name(), error))
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

/// What a posterior is run in: rows of numbers want more than eight bits of mantissa.
fn precision_for(posterior: &Posterior<'_>, asked: Precision) -> Precision {
    if matches!(posterior.evaluator(), Evaluator::Images(_)) { asked } else { Precision::Single }
}

/// The engine's words for a fault of a device, with what to do.
pub(crate) fn at_fault(name: &str, error: DeviceError) -> EngineError {
    let failed = |source: Box<dyn Error + Send + Sync>| EngineError::Failed { engine: name.to_owned(), source };
    match error {
        DeviceError::Unavailable { .. } => EngineError::Unavailable { reason: error.to_string() },
        DeviceError::OutOfMemory { .. } => {
            failed(format!("{error}; run fewer chains, take smaller batches, or free what other programs hold").into())
        }
        DeviceError::Failed { .. } => {
            failed(format!("{error}; run again, and if it fails again without the GPU (--device cpu)").into())
        }
        DeviceError::Compile { .. } => failed(error.into()),
    }
}

/// First and number of each lot when `count` things are dealt out to at most `most` receivers, as equally as can be.
fn lots(count: usize, most: usize) -> Vec<(usize, usize)> {
    let receivers = most.min(count);
    let mut first = 0;
    let mut lots = Vec::new();
    for receiver in 0..receivers {
        let size = count / receivers + usize::from(receiver < count % receivers);
        lots.push((first, size));
        first += size;
    }
    lots
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Some chains of a population, shown to its observer under their own indices; all stop once another lot has failed.
struct Lot<'a> {
    first: usize,
    observer: &'a dyn Observer,
    has_failed: &'a AtomicBool,
}

impl Observer for Lot<'_> {
    fn started(&self, index: usize) {
        self.observer.started(self.first + index);
    }

    fn kept(&self, kept: &[(usize, &Chain)]) {
        let kept: Vec<(usize, &Chain)> = kept.iter().map(|&(index, chain)| (self.first + index, chain)).collect();
        self.observer.kept(&kept);
    }

    fn advanced(&self, index: usize, steps: u64) -> ControlFlow<()> {
        if self.has_failed.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        self.observer.advanced(self.first + index, steps)
    }
}

/// Deals chains out to at most `receivers`, each moved on a thread of its own by `run(receiver, chains, observer)`.
fn deal_out(
    receivers: usize,
    chains: &mut [Chain],
    observer: &dyn Observer,
    run: impl Fn(usize, &mut [Chain], &dyn Observer) -> Result<(), EngineError> + Sync,
) -> Result<(), EngineError> {
    let has_failed = AtomicBool::new(false);
    let (run, has_failed) = (&run, &has_failed);
    std::thread::scope(|scope| {
        let mut rest = chains;
        let mut threads = Vec::new();
        for (receiver, (first, count)) in lots(rest.len(), receivers).into_iter().enumerate() {
            let (own, others) = rest.split_at_mut(count);
            rest = others;
            let lot = Lot { first, observer, has_failed };
            threads.push(scope.spawn(move || {
                let done = run(receiver, own, &lot);
                has_failed.fetch_or(done.is_err(), Ordering::Relaxed);
                done
            }));
        }
        // All are waited for, the first failure counts.
        let done: Vec<Result<(), EngineError>> = threads.into_iter().map(joined).collect();
        done.into_iter().collect()
    })
}

/// A posterior of held-out rows, for an engine that evaluates posteriors only; its answers do not matter.
fn posterior_of<'a>(held_out: &HeldOut<'a>) -> Result<Posterior<'a>, EngineError> {
    let failed = |source: Box<dyn Error + Send + Sync>| EngineError::Failed { engine: "CUDA".into(), source };
    let likelihood = match held_out.targets() {
        Targets::Real(_) => Likelihood::Gaussian { noise_variance: 1.0 },
        Targets::Classes(_) => Likelihood::Categorical { num_classes: held_out.network().num_outputs() },
    };
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

    fn describe_for(&self, posterior: &Posterior<'_>) -> String {
        format!("{} ({})", self.describe(), precision_for(posterior, self.precision).name())
    }

    fn moves_chains_together(&self) -> bool {
        true
    }

    fn accepts(&self, posterior: &Posterior<'_>) -> Result<(), EngineError> {
        self.places[0].population(posterior, self.precision).map(drop)
    }

    fn arrangement(
        &self,
        posterior: &Posterior<'_>,
        plan: &Plan,
        num_chains: usize,
    ) -> Result<Option<String>, EngineError> {
        // The first device has as many chains as any.
        let (place, own) = (&self.places[0], num_chains.div_ceil(self.places.len()));
        let Population::Images(images) = place.population(posterior, self.precision)? else { return Ok(None) };
        let residence = images.residence_of(plan, own).map_err(|error| at_fault(&place.device.name(), error))?;
        Ok(Some(residence.describe(own)))
    }

    fn run(
        &self,
        posterior: &Posterior<'_>,
        motion: Motion<'_>,
        plan: &Plan,
        chains: &mut [Chain],
        observer: &dyn Observer,
    ) -> Result<(), EngineError> {
        deal_out(self.places.len(), chains, observer, |receiver, chains, observer| {
            let place = &self.places[receiver];
            let population = place.population(posterior, self.precision)?;
            population.run(motion, plan, chains, observer).map_err(|error| at_fault(&place.device.name(), error))
        })
    }

    fn outputs(&self, held_out: &HeldOut<'_>, weights: &[Weights<'_>]) -> Result<Vec<Vec<f32>>, EngineError> {
        if !matches!(held_out.evaluator(), Evaluator::Images(_)) {
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
        posterior: &Posterior<'_>,
        positions: &[&[f32]],
        likelihood_weights: &[f64],
        batches: &[Rows<'_>],
    ) -> Result<Vec<(f64, Vec<f32>)>, EngineError> {
        if !matches!(posterior.evaluator(), Evaluator::Images(_)) {
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
        posterior: &Posterior<'_>,
        positions: &[&[f32]],
        batches: &[Vec<Rows<'_>>],
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        if !matches!(posterior.evaluator(), Evaluator::Images(_)) {
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
    use kelvin::sampler::{Batches, Integrator, Keep, Langevin};
    use kelvin::temperature::Temperature;

    #[test]
    fn lots_differ_by_one_at_most() {
        assert_eq!(lots(7, 3), [(0, 3), (3, 2), (5, 2)]);
        assert_eq!(lots(2, 8), [(0, 1), (1, 1)]);
        assert_eq!(lots(5, 1), [(0, 5)]);
        assert!(lots(0, 4).is_empty());
    }

    fn rows() -> Examples {
        let targets = Targets::Real((0..10).map(|row| (row as f32).sin()).collect());
        let numbers: Vec<f32> = (0..30).map(|i| (i as f32 * 0.7).cos()).collect();
        Examples { inputs: numbers.into(), num_features: 3, targets }
    }

    #[test]
    fn chains_that_are_dealt_out_are_watched_under_their_own_indices() {
        let (network, examples) = (Network::dense(3, &[4], 1).unwrap(), rows());
        let likelihood = Likelihood::Gaussian { noise_variance: 0.5 };
        let prior = IsotropicGaussian::new(1.0).unwrap();
        let posterior = Posterior::new(&network, likelihood, prior, &examples).unwrap();
        let rule = Langevin::new(Integrator::Sghmc, 1e-3, 0.9);
        let keep = Keep { burn_in: 0, every: 10 };
        let plan = Plan { seed: 0, batches: Batches::full(10), num_steps: 20, keep };
        let chains = || -> Vec<Chain> {
            let start = |id| Chain::new(id, Temperature::BAYES, network.initial_parameters(0, id), &network.layout());
            (0..5).map(start).collect()
        };
        let run = |receivers: usize| {
            let seen = Mutex::new(vec![Vec::new(); 5]);
            let mut chains = chains();
            let watch = |index: usize, chain: &Chain| seen.lock().unwrap()[index].push((chain.id, chain.state.clone()));
            deal_out(receivers, &mut chains, &watch, |_, chains, observer| {
                CpuEngine.run(&posterior, Motion::Sample(&rule), &plan, chains, observer)
            })
            .unwrap();
            seen.into_inner().unwrap()
        };
        let one = run(1);
        assert!(one.iter().enumerate().all(|(index, seen)| seen.len() == 2 && seen[0].0 == index as u32));
        assert_eq!(one, run(3));
        assert_eq!(one, run(9));
    }

    #[test]
    fn a_device_that_fails_stops_the_others() {
        let network = Network::dense(3, &[4], 1).unwrap();
        let mut chains: Vec<Chain> = (0..2)
            .map(|id| Chain::new(id, Temperature::BAYES, network.initial_parameters(0, id), &network.layout()))
            .collect();
        let done = deal_out(2, &mut chains, &|_: usize, _: &Chain| {}, |receiver, _, observer| {
            if receiver == 0 {
                return Err(at_fault("device 0", DeviceError::OutOfMemory { asked: 9, free: 3 }));
            }
            while observer.advanced(0, 1).is_continue() {
                std::thread::yield_now();
            }
            Ok(())
        });
        let text = done.unwrap_err().to_string();
        assert!(text.starts_with("device 0 failed: the device has no room for 9 more bytes"), "{text}");
        assert!(text.contains("run fewer chains"), "{text}");
    }

    #[test]
    fn images_are_the_same_where_they_lie_at_the_same_place() {
        let images = |bytes: &Arc<[u8]>| {
            let inputs = Inputs::Bytes(Arc::clone(bytes));
            ExamplesIdentity(Examples { inputs, num_features: 2, targets: Targets::Classes(vec![0]) })
        };
        let (first, second): (Arc<[u8]>, Arc<[u8]>) = (vec![1, 2].into(), vec![1, 2].into());
        assert!(images(&first) == images(&first) && images(&first) != images(&second));
        assert!(ExamplesIdentity(rows()) == ExamplesIdentity(rows()));
    }
}
