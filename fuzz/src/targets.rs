//! The parsers: how each is called, what its format's words are, how its checksums are put right, what it may ask for.

use std::path::{Path, PathBuf};

use kelvin::data::{Dataset, ImageSet, Images, NewRows, Split, Standardiser, Table, labels_from_idx};
use kelvin::draws::Draws;
use kelvin_study::checkpoint::num_chains_of_checkpoint;
use kelvin_study::settings::{Settings, preset, with_override};
use sha2::{Digest, Sha256};

use crate::seeds;

/// What stands for a file in errors.
const NAME: &str = "some-file";
const KIB: u64 = 1 << 10;

/// One parser.
pub struct Target {
    /// What it is asked for by.
    pub name: &'static str,
    /// Valid files, made by kelvin where it writes such files.
    pub valid: fn() -> Vec<Vec<u8>>,
    /// Words of the format, to be put anywhere.
    pub words: &'static [&'static str],
    /// Puts right checksums and lengths of a changed file, as a forger would.
    pub repair: Option<fn(&mut Vec<u8>)>,
    /// Reads bytes and does with them what kelvin would.
    pub read: fn(&[u8]) -> Result<(), String>,
    /// Memory that may be asked for: so many times the file's size, and so much whatever its size.
    memory: (u64, u64),
    /// Parts of errors that are about a whole file or about a name in it, so that there is no line or byte to tell.
    about_the_whole: &'static [&'static str],
}

impl Target {
    /// The most memory that a file of this size may ask for.
    pub fn memory(&self, size: usize) -> u64 {
        self.memory.0 * size as u64 + self.memory.1
    }

    /// Whether an error names the file and a place in it.
    pub fn says_where(&self, said: &str) -> bool {
        let has_place = ["line ", "byte ", "bytes 0 to", "row "].iter().any(|word| said.contains(word));
        said.contains(NAME) && (has_place || self.about_the_whole.iter().any(|part| said.contains(part)))
    }
}

/// All parsers.
pub fn targets() -> &'static [Target] {
    &TARGETS
}

/// The parser of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

static TARGETS: [Target; 11] = [
    Target {
        name: "csv",
        valid: seeds::tables,
        words: &[
            ",",
            ";",
            "\t",
            "\"",
            "\r\n",
            "\n",
            "\r",
            "\"\"",
            "\u{FEFF}",
            "NaN",
            "inf",
            "?",
            "é",
            "y",
            " ",
            "1,5",
            "true",
            "no",
            "2024-02-29",
            "T12:30Z",
            "31.12.1999",
        ],
        repair: None,
        read: csv,
        // A cell of text becomes up to 22 numbers.
        memory: (256, 256 * KIB),
        about_the_whole: &[
            "is empty",
            "and no rows",
            "is not in",
            "so there is nothing",
            "fewer than two",
            "no feature is",
            "is missing in every",
        ],
    },
    Target {
        name: "settings",
        valid: seeds::settings,
        words: &[
            "[data]",
            "[model]",
            "[[sampler]]",
            "=",
            "\"",
            "'''",
            "#",
            "{",
            "}",
            "layers = [",
            "resnet-",
            "\n",
            "true",
        ],
        repair: None,
        read: settings,
        memory: (256, 256 * KIB),
        about_the_whole: &[" must be ", "does not apply", "does not go with"],
    },
    Target {
        name: "override",
        valid: seeds::overrides,
        words: &["=", ".", "model.", "[", "]", "{", "}", "\"", "run.grid", "resnet-", "\n", "data.source", "layers"],
        repair: None,
        read: overrides,
        memory: (512, 512 * KIB),
        about_the_whole: &[""],
    },
    Target {
        name: "idx",
        valid: seeds::idx,
        words: &["\0\0\u{8}\u{1}", "\0\0\u{8}\u{3}", "\0\0\u{8}\u{4}", "\u{1f}"],
        repair: Some(gzip_again),
        read: idx,
        memory: (2200, 512 * KIB),
        about_the_whole: &[],
    },
    Target {
        name: "cifar",
        valid: seeds::cifar,
        words: &[],
        repair: Some(whole_records),
        read: |bytes| said(ImageSet::from_cifar(NAME, bytes)),
        memory: (8, 64 * KIB),
        about_the_whole: &[],
    },
    Target {
        name: "cifar-zstd",
        valid: seeds::cifar_zstd,
        words: &[],
        repair: Some(zstd_again),
        read: |bytes| said(ImageSet::from_cifar(concat!("some-file", ".delta.zst"), bytes)),
        // Unpacked, a batch has 30 MB at most, whatever its frame says.
        memory: (8, 192 << 20),
        about_the_whole: &[],
    },
    Target {
        name: "draws",
        valid: seeds::draws,
        words: &["{", "}", "\"shape\":[", "\"F32\"", "\"F64\"", "\"data_offsets\":[0,", "__metadata__", ",", "]"],
        repair: Some(fit_header),
        read: draws,
        memory: (64, 128 * KIB),
        about_the_whole: &["holds no draws of this network", "does not hold draws_sha256"],
    },
    Target {
        name: "draw-log",
        valid: seeds::logs,
        words: &["KLVDRAWS"],
        repair: Some(|bytes| fit_records(bytes)),
        read: draw_log,
        memory: (64, 64 * KIB),
        about_the_whole: &["holds no draws of this network", "has format"],
    },
    Target {
        name: "checkpoint",
        valid: seeds::checkpoints,
        words: &["KLVCHKPT"],
        repair: Some(|bytes| fit_checkpoint(bytes)),
        read: |bytes| said(num_chains_of_checkpoint(Path::new(NAME), bytes)),
        memory: (64, 64 * KIB),
        about_the_whole: &["has format", "has chosen a place that is not on its path"],
    },
    Target {
        name: "run-record",
        valid: seeds::run_records,
        words: &["{", "}", "[", "\"format\":", "null", "\"asked\":\"", "\\n", "\\u0000", ":", ","],
        repair: None,
        read: |bytes| kelvin_cli::stored::read_run_record(Path::new(NAME), bytes).map_err(|error| format!("{error:#}")),
        memory: (256, 512 * KIB),
        about_the_whole: &["has format", " must be ", "does not apply", "do not have the SHA-256"],
    },
    Target {
        name: "model",
        valid: seeds::models,
        words: &[
            "{",
            "}",
            "[",
            "]",
            "null",
            "\"dense\":",
            "\"units\":",
            "\"residual\":",
            "\"relu\",",
            "\"body\":",
            ",",
            ":",
        ],
        repair: None,
        read: |bytes| kelvin_cli::stored::read_model(Path::new(NAME), bytes).map_err(|error| format!("{error:#}")),
        memory: (512, 512 * KIB),
        // Parts that do not fit each other are told by their names.
        about_the_whole: &["is damaged"],
    },
];

fn said<T, E: ToString>(read: Result<T, E>) -> Result<(), String> {
    read.map(|_| ()).map_err(|error| error.to_string())
}

/// A table, its rows made ready to learn from, and the same rows to predict from.
fn csv(bytes: &[u8]) -> Result<(), String> {
    let text = |error: kelvin::data::DataError| error.to_string();
    let table = Table::from_bytes(NAME, bytes).map_err(text)?;
    let target = table.columns()[table.columns().len() - 1].clone();
    let dataset = Dataset::from_table(&table, &target, &[], None).map_err(text)?;
    if let Ok(split) = Split::random(dataset.num_rows(), 0) {
        let standardiser = Standardiser::fit(&dataset, &split.train).map_err(text)?;
        standardiser.examples(&dataset, &split.test).map_err(text)?;
        let again = NewRows::read(&table, &dataset.feature_names, &standardiser).map_err(text)?;
        said(again.inputs(&standardiser))?;
    }
    Ok(())
}

/// Settings; what is taken must survive being written.
fn settings(bytes: &[u8]) -> Result<(), String> {
    let settings = Settings::from_toml(&String::from_utf8_lossy(bytes), NAME).map_err(|error| error.to_string())?;
    let written = settings.to_toml().map_err(|error| format!("{NAME}: {error}"))?;
    let again = Settings::from_toml(&written, "what was written").map_err(|error| error.to_string())?;
    // As text, in which NaN is NaN: a layer may have one until the network is built and refuses it.
    assert!(again.to_toml().is_ok_and(|again| again == written), "settings change by being written:\n{written}");
    Ok(())
}

fn overrides(bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    let mut settings = preset("stripes").map_err(|error| error.to_string())?.settings();
    for line in text.split('\n') {
        // An override has no file: its own words are the place.
        settings = with_override(&settings, line).map_err(|error| format!("{NAME}: {error}"))?;
    }
    settings.check().map_err(|error| format!("{NAME}: {error}"))
}

/// Images, and labels.
fn idx(bytes: &[u8]) -> Result<(), String> {
    let images = said(Images::from_idx(NAME, bytes));
    said(labels_from_idx(NAME, bytes)).or(images)
}

/// A file in memory where the system has such files; of this thread alone, so that targets may run side by side.
fn file(bytes: &[u8]) -> Result<PathBuf, String> {
    thread_local! {
        static FOLDER: Result<tempfile::TempDir, std::io::Error> = {
            let memory = Path::new("/dev/shm");
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }
        };
    }
    let folder =
        FOLDER.with(|folder| folder.as_ref().map(|folder| folder.path().to_owned()).map_err(ToString::to_string))?;
    let path = folder.join(NAME);
    std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
    Ok(path)
}

/// Draws of either network, and all their weights.
fn draws(bytes: &[u8]) -> Result<(), String> {
    let path = file(bytes)?;
    let mut outcome = Ok(());
    for network in seeds::networks() {
        outcome = match Draws::open(&path, &network) {
            Ok(draws) => {
                for lot in draws.lots(3) {
                    assert!(lot.map_err(|error| error.to_string())?.iter().count() <= 3);
                }
                assert!(draws.potential_energy.len() == draws.len());
                return Ok(());
            }
            Err(error) => Err(error.to_string()),
        };
    }
    outcome
}

/// As many draws of a log as a checkpoint may say there are, rightly or not.
fn draw_log(bytes: &[u8]) -> Result<(), String> {
    let path = file(bytes)?;
    let count = [0, 1, 3, 4, usize::MAX][bytes.last().map_or(0, |last| usize::from(*last) % 5)];
    let draws = Draws::reopen_log(&path, seeds::LOG_SHAPE, count).map_err(|error| error.to_string())?;
    said(draws.all())
}

/// Packs what is not packed, and has another look at what is.
fn gzip_again(bytes: &mut Vec<u8>) {
    if !bytes.starts_with(&[0x1F, 0x8B]) && bytes.last().is_some_and(|last| last % 4 == 0) {
        *bytes = seeds::gzip(bytes);
    }
}

/// Cuts to whole records, since any other length is refused before all else.
fn whole_records(bytes: &mut Vec<u8>) {
    bytes.truncate(bytes.len() / seeds::CIFAR_RECORD * seeds::CIFAR_RECORD);
}

/// Packs records that are not packed.
fn zstd_again(bytes: &mut Vec<u8>) {
    if !bytes.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]) {
        whole_records(bytes);
        *bytes = seeds::zstd(bytes);
    }
}

/// Makes size of the header and size of the file what the header's text says.
fn fit_header(bytes: &mut Vec<u8>) {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"}}").map(|at| at + 2).filter(|&end| end > 8) else {
        return;
    };
    let text = serde_json::from_slice::<serde_json::Value>(&bytes[8..end]);
    bytes[..8].copy_from_slice(&(end as u64 - 8).to_le_bytes());
    let Ok(serde_json::Value::Object(arrays)) = text else { return };
    let ends = arrays.values().filter_map(|array| array["data_offsets"][1].as_u64());
    if let Some(most) = ends.max().filter(|&most| most < 1 << 16) {
        bytes.resize(end + most as usize, 1);
    }
}

/// Gives every record of a log its checksum.
fn fit_records(bytes: &mut [u8]) {
    const HEADER: usize = 29;
    const CHECKSUM: usize = 8;
    let records = bytes.get_mut(HEADER..).unwrap_or_default().chunks_exact_mut(seeds::LOG_RECORD);
    for (number, record) in records.enumerate() {
        let (contents, checksum) = record.split_at_mut(seeds::LOG_RECORD - CHECKSUM);
        let hash = Sha256::new().chain_update((number as u64).to_le_bytes()).chain_update(contents).finalize();
        checksum.copy_from_slice(&hash[..CHECKSUM]);
    }
}

/// Gives a checkpoint the length and the hash of what it holds.
fn fit_checkpoint(bytes: &mut [u8]) {
    const HEADER: usize = 20;
    const HASH: usize = 32;
    let Some(end) = bytes.len().checked_sub(HASH).filter(|&end| end >= HEADER) else { return };
    if bytes[8] != 99 {
        bytes[12..HEADER].copy_from_slice(&((end - HEADER) as u64).to_le_bytes());
    }
    let hash = Sha256::digest(&bytes[..end]);
    bytes[end..].copy_from_slice(&hash);
}
