//! The data files of the experiments, read from the shared folder: sizes, splits, statistics, hashes.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::support;
use kelvin::data::{
    DataError, FilePresence, Halves, ImageDataset, ImageSet, Kind, Presence, Shape, Split, Standardiser, Table, Task,
    known_dataset, known_datasets, read_cifar_batch, read_idx_images,
};

/// The folder of data files, or `None` (said aloud) where it is missing.
fn data_folder() -> Option<PathBuf> {
    let folder = support::shared().join("data");
    if folder.is_dir() {
        return Some(folder);
    }
    let why = format!("{} is missing; set KELVIN_SHARED to the folder that holds data/", folder.display());
    support::skipped(support::Need::Data, &why);
    None
}

/// An empty folder of this test's own, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("kelvin-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_three_sets_have_the_sizes_of_the_paper() {
    let Some(folder) = data_folder() else { return };
    let expected = [("concrete", 8, [824, 103, 103]), ("energy", 8, [614, 77, 77]), ("naval", 14, [9547, 1194, 1193])];
    assert_eq!(known_datasets().iter().filter(|known| !known.has_images()).count(), expected.len());
    for (name, num_features, sizes) in expected {
        let known = known_dataset(name).unwrap();
        let data = known.load(Some(&folder)).unwrap();
        let Kind::Table { num_rows, num_features: said, .. } = known.kind else { panic!("{name} is a table") };
        assert_eq!((data.num_rows(), data.num_features()), (num_rows, said), "{name}");
        assert_eq!((data.num_features(), data.task()), (num_features, Task::Regression), "{name}");
        let split = Split::random(data.num_rows(), 1).unwrap();
        assert_eq!([split.train.len(), split.val.len(), split.test.len()], sizes, "{name}");
        let standardiser = Standardiser::fit(&data, &split.train).unwrap();
        let train = standardiser.examples(&data, &split.train).unwrap();
        let inputs = train.inputs.numbers();
        for feature in 0..num_features {
            let column = || inputs.chunks_exact(train.num_features).map(|row| f64::from(row[feature]));
            let mean = column().sum::<f64>() / train.len() as f64;
            let variance = column().map(|value| value * value).sum::<f64>() / train.len() as f64;
            assert!(mean.abs() < 1e-5 && (variance - 1.0).abs() < 1e-5, "{name} {feature}: {mean} {variance}");
        }
    }
}

#[test]
fn naval_loses_its_two_constant_columns() {
    let Some(folder) = data_folder() else { return };
    let naval = known_dataset("naval").unwrap().load(Some(&folder)).unwrap();
    let constant = ["gt_compressor_inlet_air_temperature", "gt_compressor_inlet_air_pressure"];
    assert_eq!(naval.dropped_constant, constant);
    assert!(!naval.feature_names.iter().any(|name| name == "gt_turbine_decay"));
}

#[test]
fn the_embedded_concrete_is_the_shared_one_number_for_number() {
    let Some(folder) = data_folder() else { return };
    let embedded = known_dataset("concrete").unwrap().load(None).unwrap();
    let table = Table::read(&folder.join("uci/concrete.csv")).unwrap();
    let shared = kelvin::data::Dataset::from_table(&table, "compressive_strength", &[], None).unwrap();
    assert_eq!(embedded.feature_names, shared.feature_names);
    assert_eq!(embedded.features, shared.features);
    assert_eq!(embedded.target, shared.target);
}

#[test]
fn a_flipped_byte_is_noticed_in_either_place() {
    let Some(folder) = data_folder() else { return };
    let energy = known_dataset("energy").unwrap();
    let right = std::fs::read(folder.join("uci/energy.csv")).unwrap();
    let mut wrong = right.clone();
    let last = wrong.len() - 3;
    wrong[last] ^= 1;

    let scratch = Scratch::new("flipped-byte");
    let (inner, outer) = (scratch.0.join("uci/energy.csv"), scratch.0.join("energy.csv"));
    let presence = || match energy.presence(Some(&scratch.0)).unwrap() {
        Presence::Files(files) => files.into_iter().next().unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(presence(), FilePresence::Missing);
    std::fs::create_dir(scratch.0.join("uci")).unwrap();
    std::fs::write(&inner, &wrong).unwrap();
    assert!(matches!(presence(), FilePresence::Wrong { path, found } if path == inner && found.len() == 7 + 64));
    assert!(matches!(energy.load(Some(&scratch.0)), Err(DataError::DatasetWrong { .. })));
    std::fs::write(&outer, &right).unwrap();
    assert_eq!(presence(), FilePresence::Found(outer));
    assert_eq!(energy.load(Some(&scratch.0)).unwrap().num_rows(), 768);
    std::fs::write(&inner, &right).unwrap();
    assert_eq!(presence(), FilePresence::Found(inner));
}

/// A folder of the file's name can be opened and not be read.
#[test]
fn what_cannot_be_read_does_not_hide_the_right_file() {
    let Some(folder) = data_folder() else { return };
    let energy = known_dataset("energy").unwrap();
    let scratch = Scratch::new("unreadable");
    std::fs::create_dir_all(scratch.0.join("uci/energy.csv")).unwrap();
    assert!(energy.presence(Some(&scratch.0)).is_err() && energy.load(Some(&scratch.0)).is_err());
    std::fs::copy(folder.join("uci/energy.csv"), scratch.0.join("energy.csv")).unwrap();
    assert!(energy.presence(Some(&scratch.0)).unwrap().is_complete());
    assert_eq!(energy.load(Some(&scratch.0)).unwrap().num_rows(), 768);
}

/// Mean and standard deviation of a channel, of pixels / 255.
fn mean_and_std(images: &ImageSet, channel: usize) -> [f64; 2] {
    let values =
        || images.pixels.iter().skip(channel).step_by(images.shape.channels).map(|&byte| f64::from(byte) / 255.0);
    let count = (images.pixels.len() / images.shape.channels) as f64;
    let mean = values().sum::<f64>() / count;
    let variance = values().map(|value| value * value).sum::<f64>() / count - mean * mean;
    [mean, variance.sqrt()]
}

/// How many images of each class.
fn class_counts(set: &[&ImageSet]) -> [usize; 10] {
    let mut counts = [0; 10];
    set.iter().flat_map(|images| &images.labels).for_each(|&label| counts[label as usize] += 1);
    counts
}

/// What the catalogue says of a set is so.
fn agrees_with_its_entry(set: &ImageDataset) {
    let Kind::Images { shape, class_names, num_train, num_held_out } = known_dataset(&set.name).unwrap().kind else {
        panic!("{} has images", set.name)
    };
    assert_eq!((set.shape(), set.num_classes()), (shape, class_names.len()), "{}", set.name);
    for (part, count) in [(&set.train, num_train), (&set.validation, num_held_out), (&set.test, num_held_out)] {
        assert_eq!((part.len(), part.pixels.len()), (count, count * shape.len()), "{}", set.name);
    }
}

#[test]
fn mnist_has_its_published_statistics() {
    let Some(folder) = data_folder() else { return };
    let known = known_dataset("mnist").unwrap();
    assert!(known.presence(Some(&folder)).unwrap().is_complete());
    let mnist = known.load_images(Some(&folder)).unwrap();
    agrees_with_its_entry(&mnist);
    assert_eq!(class_counts(&[&mnist.train]), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]);
    let held_out = class_counts(&[&mnist.validation, &mnist.test]);
    assert_eq!(held_out, [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]);
    let [mean, std] = mean_and_std(&mnist.train, 0);
    assert!((mean - 0.13066).abs() < 5e-6 && (std - 0.30811).abs() < 5e-6, "{mean} {std}");
    assert_eq!((mnist.train.labels[0], mnist.validation.labels[0]), (5, 7));
    // The folder of the files itself may be named, too.
    assert_eq!(known.load_images(Some(&folder.join("mnist"))).unwrap().test, mnist.test);
    // Its files have the names of Fashion-MNIST's, and are not taken for them.
    let fashion = known_dataset("fashion-mnist").unwrap();
    assert_eq!(fashion.presence(Some(&folder.join("mnist"))).unwrap(), Presence::Files(vec![FilePresence::Missing; 4]));
    let error = fashion.load_images(Some(&folder.join("mnist"))).unwrap_err();
    assert!(matches!(&error, DataError::DatasetMissing { missing, .. } if missing.len() == 4), "{error}");
}

#[test]
fn unpacked_files_are_as_good_as_gzipped_ones() {
    let Some(folder) = data_folder() else { return };
    let mnist = known_dataset("mnist").unwrap();
    let scratch = Scratch::new("unpacked");
    for file in mnist.files {
        let packed = std::fs::File::open(folder.join("mnist").join(file.names[0])).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        std::fs::write(scratch.0.join(file.names[1]), bytes).unwrap();
    }
    assert_eq!(mnist.load_images(Some(&scratch.0)).unwrap(), mnist.load_images(Some(&folder)).unwrap());

    let (images, labels) = (scratch.0.join("t10k-images-idx3-ubyte"), scratch.0.join("t10k-labels-idx1-ubyte"));
    let read = read_idx_images(&images).unwrap();
    assert_eq!((read.len(), read.shape), (10_000, Shape::image(28, 28, 1)));
    assert!(matches!(read_idx_images(&labels), Err(DataError::WrongBytes { offset: 0, .. })));

    std::fs::write(&labels, b"changed").unwrap();
    let error = mnist.load_images(Some(&scratch.0)).unwrap_err().to_string();
    assert!(error.contains("t10k-labels-idx1-ubyte is not a file of the data set `mnist`"), "{error}");
    std::fs::remove_file(&images).unwrap();
    let error = mnist.load_images(Some(&scratch.0)).unwrap_err();
    assert!(matches!(&error, DataError::DatasetMissing { missing, .. } if missing.len() == 1), "{error}");
}

#[test]
fn cifar_has_its_published_statistics() {
    let Some(folder) = data_folder() else { return };
    let cifar = known_dataset("cifar10").unwrap().load_images(Some(&folder)).unwrap();
    agrees_with_its_entry(&cifar);
    assert_eq!(class_counts(&[&cifar.train]), [5000; 10]);
    assert_eq!(class_counts(&[&cifar.validation, &cifar.test]), [1000; 10]);
    let expected = [[0.49140, 0.24703], [0.48216, 0.24349], [0.44653, 0.26159]];
    for (channel, [mean, std]) in expected.into_iter().enumerate() {
        let found = mean_and_std(&cifar.train, channel);
        assert!((found[0] - mean).abs() < 5e-6 && (found[1] - std).abs() < 5e-6, "{channel}: {found:?}");
    }
    // The first images are a frog and a cat, as the original files have it.
    assert_eq!((cifar.train.labels[0], cifar.validation.labels[0]), (6, 3));
    assert_eq!(cifar.train.image(0)[..3], [59, 62, 63]);
}

/// In the order of the files the first 5000 are validation; permuted, both halves have all classes alike.
#[test]
fn halves_of_test_images_are_permuted_by_seed() {
    let Some(folder) = data_folder() else { return };
    let cifar = known_dataset("cifar10").unwrap();
    let in_order = cifar.load_images(Some(&folder)).unwrap();
    let permuted = cifar.load_images_halved(Some(&folder), Halves::Permuted, 0).unwrap();
    assert_eq!(cifar.load_images_halved(Some(&folder), Halves::FileOrder, 7).unwrap(), in_order);
    assert_eq!(permuted.train, in_order.train);
    assert_ne!(permuted.validation.labels, in_order.validation.labels);
    assert_eq!(class_counts(&[&permuted.validation, &permuted.test]), [1000; 10]);
    for half in [&permuted.validation, &permuted.test] {
        // Drawn without replacement a class has 500 ± 15 in each half: five standard deviations.
        assert!(class_counts(&[half]).iter().all(|count| (425..=575).contains(count)), "{:?}", class_counts(&[half]));
    }
    let sorted = |set: &ImageDataset| {
        let parts = [&set.validation, &set.test];
        let mut images: Vec<&[u8]> = parts.iter().flat_map(|part| (0..part.len()).map(|at| part.image(at))).collect();
        images.sort_unstable();
        images.concat()
    };
    assert!(sorted(&permuted) == sorted(&in_order), "the same images");
}

/// The original records of images.
fn original_records(images: &ImageSet) -> Vec<u8> {
    let record = |index: usize| {
        let channel = move |channel: usize| images.image(index).iter().skip(channel).step_by(3).copied();
        std::iter::once(images.labels[index] as u8).chain((0..3).flat_map(channel))
    };
    (0..images.len()).flat_map(record).collect()
}

#[test]
fn original_batches_are_as_good_as_the_smaller_form() {
    let Some(folder) = data_folder() else { return };
    let cifar = known_dataset("cifar10").unwrap();
    let scratch = Scratch::new("batches");
    let below = scratch.0.join("cifar-10-batches-bin");
    std::fs::create_dir(&below).unwrap();
    let small = |name: &str| folder.join("cifar10").join(name);
    let batch = read_cifar_batch(&small("test_batch.delta.zst")).unwrap();
    std::fs::write(below.join("test_batch.bin"), original_records(&batch)).unwrap();
    assert_eq!(read_cifar_batch(&below.join("test_batch.bin")).unwrap(), batch);

    let damaged = |path: &Path| {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        bytes
    };
    std::fs::write(below.join("data_batch_1.delta.zst"), damaged(&small("data_batch_1.delta.zst"))).unwrap();
    std::fs::write(below.join("data_batch_2.bin"), damaged(&below.join("test_batch.bin"))).unwrap();
    let Presence::Files(files) = cifar.presence(Some(&scratch.0)).unwrap() else { panic!("it needs files") };
    assert!(matches!(&files[0], FilePresence::Wrong { found, .. } if found.contains("unpack")), "{files:?}");
    assert!(matches!(&files[1], FilePresence::Wrong { found, .. } if found.starts_with("sha256")), "{files:?}");
    assert_eq!(files[2..5], vec![FilePresence::Missing; 3]);
    assert_eq!(files[5], FilePresence::Found(below.join("test_batch.bin")));
    let error = cifar.load_images(Some(&scratch.0)).unwrap_err().to_string();
    assert!(error.contains("the files data_batch_3.bin, data_batch_4.bin, data_batch_5.bin, which are not"), "{error}");
}

/// Debian's package, or a folder the user names.
#[test]
fn fashion_mnist_is_the_one_debian_has() {
    let folder = std::env::var_os("KELVIN_FASHION").map_or_else(|| PathBuf::from("/usr/share/datasets"), PathBuf::from);
    if !folder.is_dir() {
        let why = "is missing; install Debian's dataset-fashion-mnist or set KELVIN_FASHION";
        return support::skipped(support::Need::Data, &format!("{} {why}", folder.display()));
    }
    let fashion = known_dataset("fashion-mnist").unwrap().load_images(Some(&folder)).unwrap();
    agrees_with_its_entry(&fashion);
    assert_eq!(class_counts(&[&fashion.train]), [6000; 10]);
    assert_eq!(class_counts(&[&fashion.validation, &fashion.test]), [1000; 10]);
    let [mean, std] = mean_and_std(&fashion.train, 0);
    assert!((mean - 0.28604).abs() < 5e-6 && (std - 0.35302).abs() < 5e-6, "{mean} {std}");
}
