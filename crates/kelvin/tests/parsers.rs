//! What kelvin writes it reads again to the last bit, and forged files ask for no memory that they do not fill.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use kelvin::data::{DataError, ImageSet, Images, Shape, Table, labels_from_idx};
use kelvin::draws::{DrawShape, Draws, DrawsError, Measurements};
use kelvin::network::{Network, Weights};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn idx(magic: u32, sizes: &[u32], bytes: &[u8]) -> Vec<u8> {
    let header = std::iter::once(magic).chain(sizes.iter().copied()).flat_map(u32::to_be_bytes);
    header.chain(bytes.iter().copied()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_number_of_a_table_is_read_to_its_last_bit(numbers in prop::collection::vec(any::<f64>(), 1..20)) {
        let numbers: Vec<f64> = numbers.into_iter().filter(|number| number.is_finite()).collect();
        prop_assume!(!numbers.is_empty());
        let lines = |text: fn(f64) -> String| numbers.iter().map(|&number| text(number) + "\n").collect::<String>();
        for body in [lines(|number| format!("{number}")), lines(|number| format!("{number:e}"))] {
            let table = Table::from_bytes("t.csv", format!("x\n{body}").as_bytes()).unwrap();
            let found = table.numbers(0).unwrap();
            prop_assert!(found.iter().zip(&numbers).all(|(found, number)| found.to_bits() == number.to_bits()), "{}", body);
        }
    }

    #[test]
    fn what_is_not_finite_is_told_by_line_and_column(row in 0..9_usize, column in 0..3_usize,
                                                     cell in prop::sample::select(vec!["NaN", "inf", "-inf", "1e999", "-1e400"])) {
        let mut rows = vec![["1".to_owned(), "2".into(), "3".into()]; 9];
        rows[row][column] = cell.into();
        let body: String = rows.iter().map(|row| row.join(";") + "\r\n").collect();
        let table = Table::from_bytes("t.csv", format!("a;b;c\r\n{body}").as_bytes()).unwrap();
        let said = table.numbers(column).unwrap_err().to_string();
        let place = format!("t.csv, line {}, column `{}`: ", row + 2, ["a", "b", "c"][column]);
        prop_assert!(said.starts_with(&place) && said.contains(cell), "{}", said);
    }

    #[test]
    fn images_and_labels_survive_idx(sizes in prop::array::uniform4(1..5_u32), start in any::<u8>()) {
        let len = sizes.iter().product::<u32>();
        let bytes: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(start)).collect();
        let [count, height, width, channels] = sizes;
        let (grey, coloured) = (idx(0x0803, &[count, height, width * channels], &bytes), idx(0x0804, &sizes, &bytes));
        let labels = idx(0x0801, &[len], &bytes);
        for pack in [|bytes: &[u8]| bytes.to_vec(), gzip] {
            let shape = |channels: u32, width: u32| Shape::image(height as usize, width as usize, channels as usize);
            let expected = Images { shape: shape(1, width * channels), pixels: bytes.clone() };
            prop_assert_eq!(Images::from_idx("f", &pack(&grey)).unwrap(), expected);
            let expected = Images { shape: shape(channels, width), pixels: bytes.clone() };
            prop_assert_eq!(Images::from_idx("f", &pack(&coloured)).unwrap(), expected);
            let found = labels_from_idx("f", &pack(&labels)).unwrap();
            prop_assert!(found.iter().zip(&bytes).all(|(label, byte)| *label == u32::from(*byte)) && found.len() == bytes.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn records_of_cifar_are_read(labels in prop::collection::vec(0..10_u8, 1..4), factor in 1..255_usize) {
        let byte = |image: usize, at: usize| (at * factor / 7 + image) as u8;
        let records: Vec<u8> = labels.iter().enumerate()
            .flat_map(|(image, label)| std::iter::once(*label).chain((0..3072).map(move |at| byte(image, at)))).collect();
        for bytes in [gzip(&records), records] {
            let set = ImageSet::from_cifar("f.bin", &bytes).unwrap();
            prop_assert!(set.labels.iter().zip(&labels).all(|(found, label)| *found == u32::from(*label)));
            for (image, at) in (0..labels.len()).flat_map(|image| [0, 1023, 1024, 3071].map(|at| (image, at))) {
                prop_assert_eq!(set.image(image)[at % 1024 * 3 + at / 1024], byte(image, at));
            }
        }
    }

    #[test]
    fn draws_survive_both_kinds_of_file(numbers in prop::collection::vec(any::<f32>(), 13..80), energy in any::<f64>(),
                                        moves in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        let network = Network::dense(2, &[3], 1).unwrap();
        let shape = DrawShape::of(&network, moves);
        let mut memory = Draws::in_memory(shape.dim);
        let mut log = Draws::create_log(&folder.path().join("log"), shape).unwrap();
        for parameters in numbers.chunks_exact(shape.dim) {
            let measured = Measurements { potential_energy: energy, configurational_temperature: -energy,
                                          kinetic_temperature: moves.then_some(energy) };
            for draws in [&mut memory, &mut log] {
                draws.push(Weights { parameters, statistics: &[] }, measured).unwrap();
            }
        }
        let bits = |draws: &Draws| {
            let series = [&draws.potential_energy, &draws.configurational_temperature, &draws.kinetic_temperature];
            let series = series.map(|series| series.iter().map(|number| number.to_bits()).collect::<Vec<_>>());
            (draws.all().unwrap().positions.iter().map(|number| number.to_bits()).collect::<Vec<_>>(), series)
        };
        let reopened = Draws::reopen_log(&folder.path().join("log"), shape, memory.len()).unwrap();
        memory.save(&folder.path().join("file"), &network, &BTreeMap::new()).unwrap();
        let loaded = Draws::load(&folder.path().join("file"), &network).unwrap();
        for draws in [&log, &reopened, &loaded] {
            prop_assert_eq!(bits(draws), bits(&memory));
        }
    }
}

/// A file of draws of `Network::dense(1, &[], 1)` (a kernel and a bias) with this header and so many bytes behind it.
fn opened(path: &Path, header: &str, num_bytes: usize) -> Result<Draws, DrawsError> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + num_bytes, 0);
    std::fs::write(path, bytes).unwrap();
    Draws::open(path, &Network::dense(1, &[], 1).unwrap())
}

/// Eight arrays of nearly 2⁶¹ bytes, and a header before them.
#[test]
fn sizes_of_draws_that_add_up_beyond_64_bits_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (count, size) = ((1_u64 << 59) - 1, (1_u64 << 61) - 4);
    let array = |n: u64| {
        format!(r#""a{n}":{{"dtype":"F32","shape":[{count}],"data_offsets":[{},{}]}}"#, n * size, (n + 1) * size)
    };
    let header = format!("{{{}}}", (0..8).map(array).collect::<Vec<_>>().join(","));
    let error = opened(&folder.path().join("draws"), &header, 16).unwrap_err().to_string();
    let expected = format!("from byte {} on it has 16 bytes, and {} are announced", 8 + header.len(), 8 * size);
    assert!(error.contains(&expected), "{error}");
}

#[test]
fn draws_and_what_was_measured_at_them_are_as_many() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("draws");
    let header = |energies: usize, kinetic: usize| {
        let mut end = 0;
        let mut array = |name: &str, dtype: &str, shape: String, size: usize| {
            let start = end;
            end += size;
            format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}"#)
        };
        let arrays = [
            array("configurational_temperature", "F64", "[2]".into(), 16),
            array("kinetic_temperature", "F64", format!("[{kinetic}]"), 8 * kinetic),
            array("potential_energy", "F64", format!("[{energies}]"), 8 * energies),
            array("dense1.bias", "F32", "[2,1]".into(), 8),
            array("dense1.kernel", "F32", "[2,1,1]".into(), 8),
        ];
        // All numbers are zero, and each is hashed once.
        let hash: String = Sha256::digest(vec![0; end]).iter().map(|byte| format!("{byte:02x}")).collect();
        let about = format!(r#""__metadata__":{{"kelvin":"{{\"draws_sha256\":\"{hash}\"}}"}}"#);
        (format!("{{{about},{}}}", arrays.join(",")), end)
    };
    let open = |energies, kinetic| {
        let (header, size) = header(energies, kinetic);
        opened(&path, &header, size)
    };
    assert_eq!(open(2, 0).unwrap().len(), 2);
    assert_eq!(open(2, 2).unwrap().kinetic_temperature, [0.0; 2]);
    for (energies, kinetic, name) in
        [(3, 0, "potential_energy"), (0, 2, "potential_energy"), (2, 1, "kinetic_temperature")]
    {
        let error = open(energies, kinetic).unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}` has")) && error.contains("draws"), "{error}");
    }
}

/// The head of a zstd frame that asks for a window of 120 MiB, and of one that asks for what a batch needs.
#[test]
fn a_forged_window_of_zstd_is_not_set_aside() {
    let asked = |window: u8| {
        let frame = [0x28, 0xB5, 0x2F, 0xFD, 0x00, window, 0x01, 0x00, 0x00];
        let mut outcome = None;
        let counted = allocation_counter::measure(|| outcome = Some(ImageSet::from_cifar("b.delta.zst", &frame)));
        (outcome.unwrap().unwrap_err(), counted.bytes_max)
    };
    let (error, memory) = asked(0b1000_0111);
    assert!(matches!(&error, DataError::DamagedArchive { reason, .. } if reason.contains("indow")), "{error}");
    assert!(memory < 1 << 20, "{memory} bytes");
    let (error, memory) = asked(0b0111_1000);
    assert!(matches!(error, DataError::WrongBytes { .. }) && memory < 80 << 20, "{error}: {memory} bytes");
}

#[test]
fn a_shape_beyond_64_bits_is_too_large_and_not_small() {
    let text = serde_json::to_string(&Network::dense(3, &[4], 2).unwrap()).unwrap();
    let huge = text.replace("\"height\":1", "\"height\":9223372036854775808").replace("\"width\":1", "\"width\":4");
    assert_ne!(huge, text);
    let said = serde_json::from_str::<Network>(&huge).unwrap_err().to_string();
    assert!(said.contains("the input") && said.contains("activations"), "{said}");
    assert!(!Shape::image(1 << 63, 2, 3).is_empty());
}
