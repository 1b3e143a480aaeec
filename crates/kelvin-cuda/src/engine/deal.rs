//! Deals chains and draws out to devices, each on a host thread of its own.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use kelvin::sampler::{Chain, EngineError, Observer};

/// First and number of each lot when `count` things are dealt out to at most `most` receivers, as equally as can be.
pub fn lots(count: usize, most: usize) -> Vec<(usize, usize)> {
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

pub fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
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
pub fn deal_out(
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use kelvin::data::{Examples, Targets};
    use kelvin::likelihood::Likelihood;
    use kelvin::network::Network;
    use kelvin::potential::Posterior;
    use kelvin::prior::IsotropicGaussian;
    use kelvin::sampler::{Batches, CpuEngine, Engine, Integrator, Keep, Langevin, Motion, Plan};
    use kelvin::temperature::Temperature;

    use super::*;
    use crate::engine::faults::at_fault;
    use crate::gpu::device::DeviceError;

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
}
