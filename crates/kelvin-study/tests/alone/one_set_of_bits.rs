//! One set of bits: whatever the width of vectors, searches, chains, draws and scores are the same to the last bit, and the same
//! as they were on the machine where a small run was stored.
//!
//! Instructions are chosen for a whole process, so this file is a binary of its own with one test.

use std::fmt::Write;

use kelvin::network::{Activation, Evaluator, Layer, Mode, Network, OutputGradient, Rows, Shape, Weights};
use kelvin::random::{NoiseKey, Permutation, Purpose};
use kelvin::sampler::Silent;
use kelvin::vector::Instructions;
use kelvin_study::experiment::{ChainSpec, Experiment, Slot};
use kelvin_study::problem::Problem;
use kelvin_study::settings::{BatchSize, LikelihoodName, PriorName, Settings, preset};
use sha2::{Digest, Sha256};

/// SHA-256 of what [`small_run`] gives, as an AVX-512 processor made it.
const STORED: &str = "edf058fc25f5ec9a0221a9937e78b07f2bd5f88c5f79aae3b7078d859229de2d";

#[test]
fn all_widths_give_the_same_bits() {
    let widths: Vec<Instructions> = Instructions::available().filter(|at| at.has_fused_multiply_add()).collect();
    let Some((&first, others)) = widths.split_first() else {
        eprintln!("this processor has no fused multiply-adds: its bits are its own");
        return;
    };
    let wanted = everything(first);
    for &other in others {
        for ((what, wanted), (_, found)) in wanted.iter().zip(everything(other)) {
            assert!(*wanted == found, "{what}: {other} and {first} differ");
        }
    }
    assert_eq!(widths.len() > 1, Instructions::widest() == Instructions::Avx512, "an AVX-512 processor has AVX2 too");

    // Sines and exponentials of the C library are part of a run, and other systems have others.
    if cfg!(all(target_os = "linux", target_env = "gnu")) {
        first.use_from_now_on().unwrap();
        let found: String = Sha256::digest(small_run()).iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        });
        assert_eq!(found, STORED, "the small run is not the one that was stored");
    }
}

/// All that is compared, by name.
fn everything(instructions: Instructions) -> Vec<(String, Vec<u8>)> {
    instructions.use_from_now_on().unwrap();
    assert_eq!(Instructions::in_use(), instructions);
    let mut found = vec![("random numbers".into(), random_numbers()), ("batch order".into(), batch_order())];
    found.extend(evaluators());
    found.push(("an image network of many layers".into(), image_network()));
    for (name, settings) in experiments() {
        found.push((name.into(), experiment(settings)));
    }
    found
}

fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_bits().to_le_bytes()).collect()
}

fn random_numbers() -> Vec<u8> {
    let mut numbers = vec![0.0; 1000];
    NoiseKey { seed: 3, purpose: Purpose::StepNoise, chain: 1, step: 9 }.fill_normal(&mut numbers);
    bytes(&numbers)
}

fn batch_order() -> Vec<u8> {
    let mut order = vec![0; 9547];
    Permutation::new(3, Purpose::BatchOrder, 5, 2, order.len()).fill(0, &mut order);
    order.iter().flat_map(|row: &u32| row.to_le_bytes()).collect()
}

/// Asks for the gradient of Σ outputs²/2.
struct HalfSquares;

impl OutputGradient for HalfSquares {
    fn differentiate(&mut self, _: usize, _: &mut [f32]) {}
}

/// Outputs and gradients of dense networks, every shape of tile, block and padding.
fn evaluators() -> Vec<(String, Vec<u8>)> {
    let shapes: [(usize, &[usize], usize); 14] = [
        (1, &[1], 1),
        (2, &[3], 5),
        (4, &[16], 31),
        (6, &[17], 64),
        (7, &[64], 65),
        (8, &[64], 824),
        (9, &[64], 300),
        (14, &[64], 128),
        (30, &[50], 300),
        (90, &[33], 70),
        (8, &[64, 64], 200),
        (30, &[128, 128], 128),
        (5, &[20, 3, 17], 70),
        (6, &[], 40),
    ];
    let mut found = Vec::new();
    for ((inputs, hidden, num_rows), units) in
        shapes.iter().flat_map(|&shape| [1, 2, 3, 10].map(|units| (shape, units)))
    {
        let network = Network::dense(inputs, hidden, units).unwrap();
        let mut parameters = network.initial_parameters(9, 0);
        parameters.iter_mut().enumerate().for_each(|(index, value)| *value += 0.2 * (index as f32 * 1.3).sin());
        let data: Vec<f32> = (0..inputs * num_rows).map(|i| (i as f32 * 0.37).sin()).collect();
        let picked: Vec<u32> = (0..num_rows as u32).rev().step_by(2).collect();
        let beside = Network::table(inputs, hidden, units, Activation::Relu, true).unwrap();
        let [tanh, gelu, silu] = [Activation::Tanh, Activation::Gelu, Activation::Silu]
            .map(|by| Network::table(inputs, hidden, units, by, false).unwrap());
        let skip: Vec<f32> =
            parameters.iter().copied().chain((0..(inputs + 1) * units).map(|i| (i as f32).cos())).collect();
        for (kind, network, evaluator, parameters) in [
            ("its", &network, network.evaluator(), &parameters),
            ("the dense", &network, network.dense_evaluator().unwrap(), &parameters),
            ("its", &beside, beside.evaluator(), &skip),
            ("its", &tanh, tanh.evaluator(), &parameters),
            ("its", &gelu, gelu.evaluator(), &parameters),
            ("its", &silu, silu.evaluator(), &parameters),
        ] {
            for rows in [Rows::All, Rows::These(&picked)] {
                let name = format!("{} of {num_rows} rows by {kind} evaluator", network.describe());
                found.push((name, pass(&evaluator, parameters, &data, rows, units)));
            }
        }
    }
    found
}

/// Outputs and gradients of every layer of images that is not in the experiments below.
fn image_network() -> Vec<u8> {
    let conv = |filters, kernel, groups| Layer::Conv { filters, kernel, stride: 1, groups };
    let layers = vec![
        conv(20, 3, 1),
        Layer::GroupNorm { groups: 4, epsilon: 1e-5 },
        Layer::Gelu,
        conv(20, 5, 20),
        Layer::LAYER_NORM,
        Layer::Silu,
        Layer::MaxPool { size: 3, stride: Some(2) },
        conv(40, 3, 5),
        Layer::FILTER_RESPONSE_NORM,
        Layer::Threshold,
        conv(7, 1, 1),
        Layer::Tanh,
        Layer::Dense { units: 3 },
    ];
    let network = Network::new(Shape::image(9, 8, 3), layers).unwrap();
    let mut parameters = network.initial_parameters(9, 0);
    parameters.iter_mut().enumerate().for_each(|(index, value)| *value += 0.2 * (index as f32 * 1.3).sin());
    let data: Vec<f32> = (0..37 * network.num_inputs()).map(|i| (i as f32 * 0.37).sin()).collect();
    pass(&network.evaluator(), &parameters, &data, Rows::All, 3)
}

fn pass(evaluator: &Evaluator, parameters: &[f32], data: &[f32], rows: Rows<'_>, units: usize) -> Vec<u8> {
    let (prepared, mut work) = (evaluator.prepare(&data.to_vec().into()), evaluator.workspace());
    let num_rows = rows.listed().map_or(prepared.num_rows(), <[u32]>::len);
    let (mut outputs, mut gradient) = (vec![0.0; num_rows * units], vec![f32::NAN; parameters.len()]);
    evaluator.outputs(Weights::plain(parameters), &prepared, rows, &mut outputs, &mut work);
    let mut differentiate =
        || evaluator.gradient(parameters, &prepared, rows, Mode::Training, &mut HalfSquares, &mut gradient, &mut work);
    differentiate();
    // The first pass may make what the others need.
    assert_eq!(allocation_counter::measure(differentiate).count_total, 0, "a pass allocates");
    [bytes(&outputs), bytes(&gradient)].concat()
}

/// A table with one hidden layer and with two, in whole and in batches, and images with batch norm.
fn experiments() -> Vec<(&'static str, Settings)> {
    let mut table = preset("concrete").unwrap().settings();
    (table.selection.epochs, table.selection.checkpoints) = (400, 4);
    let sampler = &mut table.sampler;
    (sampler.ramp_start, sampler.ramp_end, sampler.burn_in) = (20, 40, 100);
    (sampler.cycle, sampler.epochs) = (50, 400);
    let mut deep = table.clone();
    deep.model.hidden = Some(vec![20, 33]);
    (deep.sampler.learning_rate, deep.selection.learning_rate) = (1e-4, 1e-7);
    (deep.sampler.batch_size, deep.selection.epochs) = (BatchSize::Rows(100), 100);
    (deep.sampler.burn_in, deep.sampler.epochs) = (50, 150);
    let mut varying = table.clone();
    varying.model.likelihood = Some(LikelihoodName::VaryingGaussian);
    (varying.model.skip, varying.model.activation) = (true, Activation::Tanh);
    let mut far_tails = table.clone();
    far_tails.model.likelihood = Some(LikelihoodName::StudentT);
    far_tails.model.prior = PriorName::LearnedScales;
    let mut images = preset("stripes").unwrap().settings();
    (images.selection.epochs, images.selection.checkpoints) = (4, 2);
    let sampler = &mut images.sampler;
    (sampler.ramp_start, sampler.ramp_end, sampler.burn_in, sampler.epochs, sampler.cycle) = (1, 2, 2, 6, 2);
    vec![
        ("a table with one hidden layer", table),
        ("a table with two hidden layers", deep),
        ("noise that varies, tanh and a skip", varying),
        ("far tails and learned scales", far_tails),
        ("images", images),
    ]
}

/// Every number of a search and two chains: positions, draws, energies, temperatures, scores.
fn experiment(settings: Settings) -> Vec<u8> {
    let problem = Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap();
    let experiment = Experiment::new(problem, settings).unwrap();
    let choices = experiment.select(&[0], &Silent).unwrap();
    let spec = |slot, inverse_temperature| ChainSpec {
        label: String::new(),
        repetition: 0,
        slot,
        inverse_temperature,
        start: experiment.start(choices.first()),
    };
    let chains = experiment.sample(&[spec(Slot::Bayes, 1.0), spec(Slot::Chosen, 0.3)], &Silent).unwrap();
    for chain in &chains {
        assert!(chain.chain.divergence.is_none() && chain.draws.len() > 1);
    }
    // What is printed for debugging has as many digits as tell a number from all others.
    format!("{choices:?} {chains:?}").into_bytes()
}

/// θ of the table's search and of every draw of its chains.
fn small_run() -> Vec<u8> {
    let (_, settings) = experiments().swap_remove(0);
    let problem = Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap();
    let experiment = Experiment::new(problem, settings).unwrap();
    let choices = experiment.select(&[0], &Silent).unwrap();
    let spec =
        ChainSpec { label: String::new(), repetition: 0, slot: Slot::Bayes, inverse_temperature: 1.0, start: None };
    let chains = experiment.sample(&[spec], &Silent).unwrap();
    let searched = &choices[0].position;
    [bytes(searched), bytes(&chains[0].draws.all().unwrap().positions)].concat()
}
