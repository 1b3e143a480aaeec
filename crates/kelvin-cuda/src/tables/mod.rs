//! Small dense networks of tables: each chain runs on one multiprocessor or a few, thousands of steps a launch.
//!
//! Semantics are those of `kelvin::sampler::run_population`: the same random numbers and rows, states that agree to f32
//! rounding. All chains that start at the same step move together; those that adapt stop together, too, and the host finds their masses and
//! step sizes between launches (`warm_up.rs`).

mod arguments;
mod run;
mod schedule;
mod shape;
mod warm_up;

use std::sync::Arc;

use kelvin::data::{Examples, Inputs, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Layout, Network};
use kelvin::potential::Posterior;
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{AscentObjective, Batches, Chain, JointAscent, Langevin, Motion, Observer, Plan};
use thiserror::Error;

use crate::gpu::device::{Buffer, Device, DeviceError, Limits};
use crate::gpu::kernels::KernelSource;
use shape::{KernelRule, Shape, Sizes};

/// Kernels count the numbers of all rows in 32 bits.
const MOST_NUMBERS: usize = i32::MAX as usize;

/// Why the engine of tables cannot be had for a posterior.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TableError {
    /// Another engine must serve it.
    #[error("the GPU engine of tables does not serve {what}: it needs {needs}")]
    Unsupported {
        /// What the posterior has.
        what: String,
        /// What would be served.
        needs: &'static str,
    },
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// Runs populations of chains of a small network on a device.
pub struct TableEngine {
    device: Arc<dyn Device>,
    network: Network,
    likelihood: Likelihood,
    examples: Examples,
    sizes: Sizes,
    layout: Layout,
    rows: Buffer<f32>,
    num_rows: usize,
    prior_variance: f64,
    noise_variance: f64,
}

impl TableEngine {
    /// An engine for this posterior, its rows on the device.
    ///
    /// # Errors
    /// [`TableError::Unsupported`] where the network, its size, the inputs or the prior are of another kind.
    pub fn new(device: Arc<dyn Device>, posterior: &Posterior) -> Result<Self, TableError> {
        let unsupported = |what: String, needs: &'static str| TableError::Unsupported { what, needs };
        let (network, examples) = (posterior.network(), posterior.examples());
        let sizes = Sizes::of(network, posterior.likelihood())
            .ok_or_else(|| unsupported(network.describe(), "one to three hidden layers with ReLU"))?;
        let prior_variance = posterior
            .prior()
            .isotropic_variance()
            .ok_or_else(|| unsupported("this prior".into(), "independent normal parameters of one variance"))?;
        let Inputs::Numbers(numbers) = &examples.inputs else {
            return Err(unsupported("inputs of bytes".into(), "rows of numbers"));
        };
        if examples.len() * sizes.stride() > MOST_NUMBERS {
            return Err(unsupported(format!("{} rows", examples.len()), "rows of fewer than 2³¹ numbers in all"));
        }
        // The most that batches of any size need: more rows than shared memory holds.
        if Shape::new(&sizes, MOST_NUMBERS, true, 1, &device.limits()).is_none() {
            let needs =
                "a network that fits a multiprocessor, of at most 10000 parameters where it has several hidden layers";
            return Err(unsupported(network.describe(), needs));
        }
        // Classes have none, and their kernels do not ask.
        let noise_variance = posterior.likelihood().known_noise_variance().unwrap_or(1.0);

        let num_rows = examples.len();
        let mut rows = vec![0.0; num_rows * sizes.stride()];
        for (r, row) in rows.chunks_exact_mut(sizes.stride()).enumerate() {
            row[..sizes.inputs].copy_from_slice(&numbers[r * sizes.inputs..][..sizes.inputs]);
            row[sizes.inputs] = match &examples.targets {
                Targets::Real(values) => values[r],
                Targets::Classes(labels) => labels[r] as f32,
            };
        }
        let rows = Buffer::of(&device, &rows)?;
        Ok(Self {
            device,
            network: network.clone(),
            likelihood: posterior.likelihood(),
            examples: examples.clone(),
            sizes,
            layout: network.layout(),
            rows,
            num_rows,
            prior_variance,
            noise_variance,
        })
    }

    /// Moves every chain to `plan.num_steps` by `rule`, as `run_population` does.
    ///
    /// # Errors
    /// When the device fails; chains then are as they were last reported.
    ///
    /// # Panics
    /// If a chain is not of this network, or no kernel has the sampler.
    pub fn sample(
        &self,
        rule: &Langevin,
        plan: &Plan,
        chains: &mut [Chain],
        observer: &dyn Observer,
    ) -> Result<(), DeviceError> {
        self.run(Motion::Sample(rule), plan, chains, observer)
    }

    /// Moves every chain to `plan.num_steps` by joint ascent in (θ, log β), as `run_population` does.
    ///
    /// # Errors
    /// When the device fails; chains then are as they were last reported.
    ///
    /// # Panics
    /// If a chain is not of this network, or the objective has a prior or holds log β still.
    pub fn search(
        &self,
        rule: &JointAscent,
        plan: &Plan,
        chains: &mut [Chain],
        observer: &dyn Observer,
    ) -> Result<(), DeviceError> {
        assert_eq!(rule.objective, AscentObjective::default(), "the kernels of tables ascend the likelihood alone");
        self.run(Motion::Search(rule), plan, chains, observer)
    }

    /// The posterior of the engine, for what the host does with it.
    fn posterior(&self) -> Posterior {
        let prior = IsotropicGaussian::new(self.prior_variance).expect("the variance of a prior that there is");
        Posterior::new(&self.network, self.likelihood, prior, &self.examples).expect("the engine was made for it")
    }

    /// Rows of a step.
    fn batch_rows(&self, batches: &Batches) -> usize {
        batches.batch_size().unwrap_or(self.num_rows)
    }
}

/// The kernel for each way to compute a gradient and each rule at least once.
pub(crate) fn example_kernels() -> Vec<KernelSource> {
    let limits =
        Limits { num_multiprocessors: 132, shared_bytes: 227 << 10, warpgroup_products: true, memory_bytes: 1 << 30 };
    let sizes = |inputs, hidden: &[usize], outputs| {
        let hidden = hidden.to_vec();
        Sizes { inputs, hidden, outputs, is_categorical: outputs > 1 }
    };
    [
        (sizes(8, &[64], 1), 824, true, 50, KernelRule::Sghmc),
        (sizes(14, &[64], 1), 128, false, 50, KernelRule::Sghmc),
        (sizes(14, &[64], 1), 128, false, 1, KernelRule::JointAscent),
        (sizes(8, &[100], 1), 20_000, true, 1, KernelRule::Baoa),
        (sizes(8, &[64], 1), 824, true, 132, KernelRule::Baoab),
        (sizes(100, &[64], 1), 128, false, 1, KernelRule::Baoab),
        (sizes(10, &[64], 8), 128, false, 1, KernelRule::Sgld),
        (sizes(100, &[64], 1), 128, false, 1, KernelRule::MassEstimate),
        (sizes(20, &[100, 64], 3), 128, false, 1, KernelRule::Sghmc),
        (sizes(20, &[100, 64], 3), 128, false, 50, KernelRule::Baoab),
        (sizes(8, &[64, 64], 1), 824, true, 50, KernelRule::JointAscent),
        (sizes(8, &[64, 64], 1), 824, true, 200, KernelRule::Sghmc),
        (sizes(13, &[50, 40, 30], 2), 20_000, true, 10, KernelRule::MassEstimate),
    ]
    .into_iter()
    .filter_map(|(sizes, batch_rows, is_full, num_chains, rule)| {
        Shape::new(&sizes, batch_rows, is_full, num_chains, &limits).map(|shape| shape.source(rule))
    })
    .collect()
}
