//! Valid files to begin from, made by kelvin itself where it writes such files.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kelvin::draws::{DrawShape, Draws, Measurements};
use kelvin::network::{Layer, Network, Shape, Weights};
use kelvin::sampler::Silent;
use kelvin_study::durable::{DrawFiles, Durable};
use kelvin_study::experiment::{ChainSpec, Experiment, Slot};
use kelvin_study::problem::Problem;
use kelvin_study::settings::{Settings, preset, presets};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::json;

/// Bytes of a record of CIFAR-10.
pub const CIFAR_RECORD: usize = 3073;
/// The draws of a log.
pub const LOG_SHAPE: DrawShape = DrawShape { dim: 5, num_statistics: 2, measures_momentum: true };
/// Bytes of a record of such a log.
pub const LOG_RECORD: usize = 4 * 7 + 3 * 8 + 8;

/// Tables with numbers and with classes, with every separator, line end and way of quoting.
pub fn tables() -> Vec<Vec<u8>> {
    let mut numbers = String::from("a,b,y\n");
    let mut classes = String::from("\u{FEFF}\"width; of it\";größe;kind\r\n");
    let mut tabs = String::from("0\t1\t2\r");
    let mut mixed = String::from(",colour,day,on,a,y\n");
    for row in 0..30_u32 {
        let (a, b) = (row * 7 % 13, row * row % 17);
        numbers.push_str(&format!("{a}.5,{b}e-1,{}\n", 3 * a + b));
        classes.push_str(&format!("{a};{b};\"{}\"\r\n", ["cat", "wide \"\"bird\"\"", "a\nb"][row as usize % 3]));
        tabs.push_str(&format!("{a}\t-{b}\t{}\r", row % 2));
        let (colour, on) = (["red", "blue", "NA"][row as usize % 3], ["yes", "no", ""][a as usize % 3]);
        mixed.push_str(&format!("{row},{colour},2024-{:02}-01 12:30,{on},?,{b}.5\n", row % 12 + 1));
    }
    [numbers, classes, tabs, mixed].map(String::into_bytes).to_vec()
}

/// Every preset, and every preset spelled out.
pub fn settings() -> Vec<Vec<u8>> {
    let texts = presets().iter().flat_map(|preset| {
        let spelled_out = preset.settings().to_toml().expect("presets can be written");
        [preset.text.to_owned(), spelled_out]
    });
    let mut found: Vec<Vec<u8>> = texts.map(String::into_bytes).collect();
    let own = preset("stripes")
        .expect("a preset")
        .text
        .replace("[selection]", "[selection]\nschedule = { piecewise = [[2, 0.1], [4, 0.01]] }");
    found.push(own.into_bytes());
    found
}

/// Overrides of every kind, one a line.
pub fn overrides() -> Vec<Vec<u8>> {
    [
        "sampler.learning_rate=1e-3\nrun.seed=7",
        "model.network=resnet-8\nmodel.normalisation=filter_response",
        "model.layers=['relu', { dense = { units = 4 } }]",
        "model.layers=[{ residual = { body = [{ conv = { filters = 1, kernel = 3 } }, 'batch_norm'] } }]",
        "run.grid=[0.1, 1.0, 10.0]",
        "data.out_of_distribution=rings\ndata.train_images=100",
        "data.corruptions=['noise', 'blur', 'contrast']",
        "selection.schedule={ piecewise = [[2, 0.1]] }",
        "sampler.batch_size=full",
        "model.network=dense\nmodel.hidden=[32, 16]",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Images, images with channels and labels, plain and packed.
pub fn idx() -> Vec<Vec<u8>> {
    let file = |magic: u32, sizes: &[u32]| -> Vec<u8> {
        let header = std::iter::once(magic).chain(sizes.iter().copied()).flat_map(u32::to_be_bytes);
        header.chain((0..sizes.iter().product::<u32>()).map(|at| (at * at / 7) as u8)).collect()
    };
    let plain = [file(0x0803, &[3, 5, 4]), file(0x0804, &[2, 3, 3, 3]), file(0x0801, &[20])];
    let packed = plain.iter().map(|file| gzip(file)).collect::<Vec<_>>();
    plain.into_iter().chain(packed).collect()
}

/// Records of CIFAR-10.
pub fn cifar() -> Vec<Vec<u8>> {
    let byte =
        |at: usize| if at.is_multiple_of(CIFAR_RECORD) { (at / CIFAR_RECORD % 10) as u8 } else { (at * at / 37) as u8 };
    vec![(0..2 * CIFAR_RECORD).map(byte).collect(), (0..CIFAR_RECORD).map(byte).collect()]
}

/// The same as differences, packed and, for the harness to pack, not; with little in them, so that frames are small.
pub fn cifar_zstd() -> Vec<Vec<u8>> {
    let quiet: Vec<u8> = (0..CIFAR_RECORD).map(|at| if at % 97 == 1 { (at / 97) as u8 } else { 0 }).collect();
    vec![zstd(&quiet), zstd(&quiet.repeat(2)), zstd(&cifar()[1]), quiet]
}

/// A dense network and one with batch norm.
pub fn networks() -> [Network; 2] {
    static NETWORKS: OnceLock<[Network; 2]> = OnceLock::new();
    let build = || {
        let conv = Layer::Conv { filters: 2, kernel: 3, stride: 1, groups: 1 };
        let layers = vec![conv, Layer::BATCH_NORM, Layer::Relu, Layer::Dense { units: 1 }];
        let images = Network::new(Shape::image(2, 2, 1), layers).expect("a network");
        [Network::dense(2, &[3], 1).expect("a network"), images]
    };
    NETWORKS.get_or_init(build).clone()
}

/// Draws of both networks as safetensors. Their hash is checked last, so that what comes before sees changed files too.
pub fn draws() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for (network, kinetic_temperature) in networks().iter().zip([Some(0.5), None]) {
        let (dim, each) = (network.layout().len(), network.statistics_layout().len());
        let mut draws = Draws::in_memory(dim);
        for draw in 0..4 {
            let numbers: Vec<f32> = (0..dim + each).map(|i| (draw * dim + i) as f32).collect();
            push(&mut draws, &numbers, dim, kinetic_temperature);
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("draws");
        draws.save(&path, network, &BTreeMap::from([("beta", "1".into())])).expect("draws can be written");
        found.push(std::fs::read(&path).expect("it was written"));
    }
    found
}

fn push(draws: &mut Draws, numbers: &[f32], dim: usize, kinetic_temperature: Option<f64>) {
    let weights = Weights { parameters: &numbers[..dim], statistics: &numbers[dim..] };
    let measured = Measurements { potential_energy: -1.5, configurational_temperature: 1.0, kinetic_temperature };
    draws.push(weights, measured).expect("a draw can be kept");
}

/// Logs with several draws, with one and with none.
pub fn logs() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let log = |count: usize| {
        let mut draws = Draws::create_log(&path, LOG_SHAPE).expect("a log can be made");
        for draw in 0..count {
            let numbers: Vec<f32> = (0..7).map(|i| (draw * 7 + i) as f32).collect();
            push(&mut draws, &numbers, 5, Some(0.5));
        }
        std::fs::read(&path).expect("it was written")
    };
    vec![log(4), log(1), log(0)]
}

/// A search and a sampling that were stopped on their way.
pub fn checkpoints() -> Vec<Vec<u8>> {
    let mut settings = preset("concrete").expect("a preset").settings();
    settings.model.hidden = Some(vec![2]);
    (settings.selection.epochs, settings.selection.checkpoints) = (40, 10);
    let sampler = &mut settings.sampler;
    (sampler.ramp_start, sampler.ramp_end, sampler.burn_in, sampler.cycle, sampler.epochs) = (1, 2, 4, 2, 5000);
    let problem = Problem::new(Problem::read_dataset(&settings, None).expect("embedded rows"), &settings);
    let problem = problem.expect("a problem");
    let experiment = Experiment::new(problem, settings).expect("an experiment");
    let folder = tempfile::tempdir().expect("a folder");
    let asked = AtomicUsize::new(0);
    let should_stop = || asked.fetch_add(1, Ordering::Relaxed) > 20;
    let every = Duration::from_millis(1);
    let durable = Durable {
        folder: folder.path(),
        identity: "this run",
        every,
        should_stop: &should_stop,
        is_owner: &|| true,
        tell: &|_| {},
        suffix: "",
    };
    let spec = |repetition| ChainSpec {
        label: "β = 1".into(),
        repetition,
        slot: Slot::Bayes,
        inverse_temperature: 1.0,
        start: None,
    };
    let path = |_: &ChainSpec| -> PathBuf { folder.path().join("draws") };
    let files = DrawFiles { path: &path, about: &|_| BTreeMap::new() };
    // Both end before their time, which is what they are for.
    let _ = experiment.select_durably(&[0, 1], &durable, &Silent);
    asked.store(0, Ordering::Relaxed);
    let _ = experiment.sample_durably(&[spec(0), spec(1)], &files, &durable, &Silent);
    let names = ["search.checkpoint", "sampling.checkpoint"];
    names.map(|name| std::fs::read(folder.path().join(name)).expect("a checkpoint was written")).to_vec()
}

/// What a run folder says it is a run of, in the format without a checksum, so that what follows it sees changed files too.
pub fn run_records() -> Vec<Vec<u8>> {
    let record = |settings: &Settings, command: &str| {
        let record = json!({
            "format": 1,
            "command": command,
            "automatic": true,
            "asked": settings.to_toml().expect("presets can be written"),
            "tuned_learning_rate": 0.25,
            "data_sha256": "ab".repeat(32),
            "out_of_distribution_sha256": null,
            "working_folder": Path::new("/somewhere"),
            "data_folder": null,
        });
        serde_json::to_vec_pretty(&record).expect("it is JSON")
    };
    let settings = |name: &str| preset(name).expect("a preset").settings();
    vec![record(&settings("concrete"), "run_grid"), record(&settings("stripes"), "sweep")]
}

/// Models of a regression, of classes and of images.
pub fn models() -> Vec<Vec<u8>> {
    let [dense, images] = networks();
    let classes = Network::dense(2, &[3, 4], 2).expect("a network");
    let deep = Network::resnet(8).expect("a network");
    let scale = json!({"mean": 1.5, "std": 0.25});
    let model = |network: &Network, likelihood, names: &[&str], classes: &[&str], standardiser| {
        let model = json!({
            "inverse_temperature": 0.7,
            "likelihood": likelihood,
            "network": network,
            "feature_names": names,
            "target_name": "y",
            "class_names": classes,
            "standardiser": standardiser,
            "draws": ["chosen-1", "chosen-2"],
        });
        serde_json::to_vec_pretty(&model).expect("it is JSON")
    };
    let gaussian = json!({"gaussian": {"noise_variance": 0.01}});
    let categorical = |num_classes: usize| json!({"categorical": {"num_classes": num_classes}});
    let digits: Vec<String> = (0..10).map(|digit| digit.to_string()).collect();
    let digits: Vec<&str> = digits.iter().map(String::as_str).collect();
    vec![
        model(&dense, gaussian, &["a", "b"], &[], json!({"features": [scale, scale], "target": scale})),
        model(
            &classes,
            categorical(2),
            &["a", "b"],
            &["cat", "dog"],
            json!({"features": [scale, scale], "target": null}),
        ),
        model(&images, categorical(1), &[], &["x"], json!(null)),
        model(&deep, categorical(10), &[], &digits, json!(null)),
    ]
}

/// Packs as gzip does.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory can be written")
}

/// Packs as zstd does.
pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}
