//! What `kelvin bench` times: the networks of the benchmark on rows made up for it, or those of an experiment.

use std::path::Path;

use kelvin::data::{DataError, Examples, ImageDataset, ImageSet, Inputs, Kind, Shape, Targets, known_dataset};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Evaluator, Network};
use kelvin::potential::Posterior;
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};
use kelvin_study::error::ExperimentError;
use kelvin_study::problem::{Problem, SourceData};
use kelvin_study::settings::Settings;

/// What is timed: a network with rows to learn from, its batches and its step size.
pub struct Work {
    pub name: String,
    pub network: Network,
    pub examples: Examples,
    likelihood: Likelihood,
    prior: Prior,
    /// All rows where there is none.
    pub batch_size: Option<usize>,
    pub learning_rate: f64,
}

enum Prior {
    Benchmark,
    Experiment(Box<Settings>),
}

/// The benchmark's own networks.
pub const CASES: [&str; 7] =
    ["8-64-1/824", "14-64-1/128", "8-64-64-1/824", "30-128-128-3/128", "784-256-256-10/128", "mnist-cnn", "resnet20"];

/// Pixels of the images that a dense network of the benchmark reads.
const IMAGE_OF_A_DENSE_NETWORK: usize = 784;

impl Work {
    /// A network of the benchmark, by its name in [`CASES`], with made-up rows.
    pub fn of_case(name: &str) -> anyhow::Result<Self> {
        let table = |num_inputs, hidden: &[usize], num_outputs| Network::dense(num_inputs, hidden, num_outputs);
        let (network, num_examples, batch_size, learning_rate) = match name {
            "8-64-1/824" => (table(8, &[64], 1)?, 824, None, 1e-3),
            "14-64-1/128" => (table(14, &[64], 1)?, 9547, Some(128), 1e-4),
            "8-64-64-1/824" => (table(8, &[64, 64], 1)?, 824, None, 1e-3),
            "30-128-128-3/128" => (table(30, &[128, 128], 3)?, 4096, Some(128), 1e-3),
            "784-256-256-10/128" => (table(IMAGE_OF_A_DENSE_NETWORK, &[256, 256], 10)?, 1024, Some(128), 1e-3),
            "mnist-cnn" => (Network::mnist_cnn(), 1024, Some(128), 0.01),
            "resnet20" => (Network::resnet(20)?, 1024, Some(128), 0.1),
            _ => anyhow::bail!("`{name}` is no case of the benchmark"),
        };
        let (num_inputs, num_outputs) = (network.num_inputs(), network.num_outputs());
        let is_table = !matches!(network.evaluator(), Evaluator::Images(_)) && num_inputs != IMAGE_OF_A_DENSE_NETWORK;
        let examples = match (is_table, num_outputs) {
            (true, 1) => synthetic_rows(num_examples, num_inputs),
            (true, _) => with_classes(synthetic_rows(num_examples, num_inputs), num_outputs),
            (false, _) => synthetic_images(num_examples, num_inputs),
        };
        let likelihood = match num_outputs {
            1 => Likelihood::Gaussian { noise_variance: 0.1 },
            num_classes => Likelihood::Categorical { num_classes },
        };
        let prior = Prior::Benchmark;
        Ok(Self { name: name.into(), network, examples, likelihood, prior, batch_size, learning_rate })
    }

    /// The network and training rows of an experiment, with its batches, step size and prior.
    pub fn of_experiment(problem: Problem, settings: Settings) -> Self {
        let Problem { network, train, likelihood, .. } = problem;
        let rows = settings.sampler.batch_size.rows().filter(|&rows| rows < train.len() || network.has_batch_norm());
        let size = rows.map_or_else(|| train.len().to_string(), |rows| rows.to_string());
        Self {
            name: format!("{}/{size}", settings.name),
            network,
            examples: train,
            likelihood,
            batch_size: rows,
            learning_rate: settings.sampler.learning_rate,
            prior: Prior::Experiment(Box::new(settings)),
        }
    }

    pub fn posterior(&self) -> anyhow::Result<Posterior> {
        Ok(match &self.prior {
            Prior::Benchmark => {
                Posterior::new(&self.network, self.likelihood, IsotropicGaussian::new(0.1)?, &self.examples)?
            }
            Prior::Experiment(settings) => {
                let prior = settings.model.build_prior(&self.network, self.likelihood)?;
                Posterior::new(&self.network, self.likelihood, prior, &self.examples)?
            }
        })
    }

    /// Whether one thread has a chain to itself: batches of images are spread over threads that are idle.
    pub fn is_table(&self) -> bool {
        !matches!(self.network.evaluator(), Evaluator::Images(_))
    }
}

/// An experiment's problem, and whether its images are made up for want of their files: the time of a step does not depend on them.
pub fn problem_of(settings: &Settings, data_folder: Option<&Path>) -> anyhow::Result<(Problem, bool)> {
    let error = match Problem::read_dataset(settings, data_folder) {
        Ok(data) => return Ok((Problem::new(data, settings)?, false)),
        Err(error) => error,
    };
    let ExperimentError::Data(DataError::DatasetMissing { name, .. }) = error else { return Err(error.into()) };
    let Kind::Images { shape, class_names, .. } = known_dataset(name)?.kind else { return Err(error.into()) };
    let mut settings = settings.clone();
    let data = &mut settings.data;
    (data.train_images, data.validation_images, data.test_images) = (None, None, None);
    let images = made_up(name, shape, class_names);
    Ok((Problem::new(SourceData::Images { images, out_of_distribution: None }, &settings)?, true))
}

/// Made-up images, as if they were a known set's.
fn made_up(name: &str, shape: Shape, class_names: &[&str]) -> ImageDataset {
    let set = |count| {
        let (pixels, labels) = synthetic_pixels(count, shape.len());
        ImageSet { shape, pixels, labels }
    };
    ImageDataset {
        name: name.into(),
        class_names: class_names.iter().map(|&name| name.to_owned()).collect(),
        train: set(1024),
        validation: set(2),
        test: set(2),
    }
}

/// Random pixels with random labels: the time of a step does not depend on them.
fn synthetic_pixels(n: usize, len: usize) -> (Vec<u8>, Vec<u32>) {
    let key = |step| NoiseKey { seed: 0, purpose: Purpose::Synthetic, chain: u32::MAX, step };
    let (pixels, labels) = (key(0), key(1));
    let bytes = (0..(n * len) as u32 / 4).flat_map(|block| pixels.words(block).map(|word| word as u8)).collect();
    (bytes, (0..n as u32).map(|row| labels.words(row)[0] % 10).collect())
}

fn synthetic_images(n: usize, len: usize) -> Examples {
    let (pixels, labels) = synthetic_pixels(n, len);
    Examples { inputs: Inputs::Bytes(pixels.into()), num_features: len, targets: Targets::Classes(labels) }
}

/// Rows that a ReLU network can fit: one linear and one bent direction, and a little noise.
fn synthetic_rows(n: usize, d: usize) -> Examples {
    let key = |step| NoiseKey { seed: 0, purpose: Purpose::InitialPosition, chain: u32::MAX, step };
    let mut inputs = vec![0.0; n * d];
    key(0).fill_normal(&mut inputs);
    let mut directions = vec![0.0; 2 * d];
    key(1).fill_normal(&mut directions);
    let mut targets = vec![0.0; n];
    key(2).fill_normal(&mut targets);
    for (row, target) in inputs.chunks_exact(d).zip(&mut targets) {
        let along = |direction: &[f32]| -> f32 {
            row.iter().zip(direction).map(|(x, w)| x * w).sum::<f32>() / (d as f32).sqrt()
        };
        *target = 0.05 * *target + along(&directions[..d]) + 0.5 * along(&directions[d..]).abs();
    }
    let mean = targets.iter().sum::<f32>() / n as f32;
    let std = (targets.iter().map(|y| (y - mean).powi(2)).sum::<f32>() / n as f32).sqrt();
    targets.iter_mut().for_each(|y| *y = (*y - mean) / std);
    Examples { inputs: inputs.into(), num_features: d, targets: Targets::Real(targets) }
}

/// The same rows with classes of equal size, by the order of their numbers.
fn with_classes(rows: Examples, num_classes: usize) -> Examples {
    let Targets::Real(numbers) = &rows.targets else { return rows };
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&a, &b| numbers[a].total_cmp(&numbers[b]));
    let mut classes = vec![0; numbers.len()];
    for (place, &row) in order.iter().enumerate() {
        classes[row] = (place * num_classes / numbers.len()) as u32;
    }
    Examples { targets: Targets::Classes(classes), ..rows }
}
