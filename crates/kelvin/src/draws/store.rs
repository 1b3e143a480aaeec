//! Draws as a safetensors file: one array for each named tensor, its first axis the draws.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use thiserror::Error;

use super::Draws;
use crate::network::{Layout, Network};
use crate::write_file::write_atomically;

/// Why draws could not be written or read.
#[derive(Debug, Error)]
pub enum DrawsError {
    /// The file system said no.
    #[error("cannot {action} the draws {path}: {source}")]
    File {
        /// "write" or "read".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// Not a whole safetensors file.
    #[error("{path} is not a readable draws file ({reason}); it may be cut off or damaged: run the experiment again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Draws of another network.
    #[error("{path} holds no draws of this network: {reason}; was experiment.toml changed after the run?")]
    OtherNetwork {
        /// The file.
        path: PathBuf,
        /// What differs.
        reason: String,
    },
}

const SERIES: [&str; 3] = ["potential_energy", "configurational_temperature", "kinetic_temperature"];

impl Draws {
    fn series(&self) -> [&Vec<f64>; 3] {
        [&self.potential_energy, &self.configurational_temperature, &self.kinetic_temperature]
    }

    /// Writes the draws, beside and renamed; `about` becomes the file's only piece of metadata, as JSON under `kelvin`:
    /// several pieces would be written in an order that changes from run to run.
    pub fn save(&self, path: &Path, network: &Network, about: &BTreeMap<&str, String>) -> Result<(), DrawsError> {
        let count = self.len();
        let mut arrays: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
        let mut push = |layout: &Layout, numbers: &[f32]| {
            for tensor in layout.tensors() {
                let mut shape = vec![count];
                shape.extend(&tensor.shape);
                let values = (0..count).flat_map(|draw| &numbers[draw * layout.len()..][tensor.range.clone()]);
                arrays.push((tensor.name.clone(), Dtype::F32, shape, values.flat_map(|x| x.to_le_bytes()).collect()));
            }
        };
        push(&network.layout(), &self.positions);
        push(&network.statistics_layout(), &self.statistics);
        for (name, values) in SERIES.iter().zip(self.series()) {
            let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            arrays.push(((*name).into(), Dtype::F64, vec![values.len()], bytes));
        }
        let damaged =
            |error: safetensors::SafeTensorError| DrawsError::Damaged { path: path.into(), reason: error.to_string() };
        let mut views = Vec::new();
        for (name, dtype, shape, bytes) in &arrays {
            views.push((name, TensorView::new(*dtype, shape.clone(), bytes).map_err(damaged)?));
        }
        let about = serde_json::to_string(about)
            .map_err(|error| DrawsError::Damaged { path: path.into(), reason: error.to_string() })?;
        let metadata = HashMap::from([("kelvin".to_owned(), about)]);
        let bytes = safetensors::serialize(views, Some(metadata)).map_err(damaged)?;
        write_atomically(path, &bytes).map_err(|source| DrawsError::File { action: "write", path: path.into(), source })
    }

    /// Reads draws of this network.
    pub fn load(path: &Path, network: &Network) -> Result<Self, DrawsError> {
        let bytes =
            std::fs::read(path).map_err(|source| DrawsError::File { action: "read", path: path.into(), source })?;
        let file = SafeTensors::deserialize(&bytes)
            .map_err(|error| DrawsError::Damaged { path: path.into(), reason: error.to_string() })?;
        let other = |reason: String| DrawsError::OtherNetwork { path: path.into(), reason };
        let mut count = None;
        let mut vectors = |layout: &Layout| -> Result<Vec<f32>, DrawsError> {
            let dim = layout.len();
            let mut numbers = Vec::new();
            for tensor in layout.tensors() {
                let view =
                    file.tensor(&tensor.name).map_err(|_| other(format!("there is no array `{}`", tensor.name)))?;
                let (found, wanted) = (view.shape(), &tensor.shape);
                if view.dtype() != Dtype::F32
                    || found.first().is_none_or(|&n| *count.get_or_insert(n) != n)
                    || found[1..] != wanted[..]
                {
                    return Err(other(format!("`{}` has shape {found:?}, wanted [draws, {wanted:?}]", tensor.name)));
                }
                numbers.resize(count.unwrap_or(0) * dim, 0.0);
                let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                let places = (0..count.unwrap_or(0)).flat_map(|draw| tensor.range.clone().map(move |i| draw * dim + i));
                for (place, value) in places.zip(values) {
                    numbers[place] = value;
                }
            }
            Ok(numbers)
        };
        let layout = network.layout();
        let positions = vectors(&layout)?;
        let statistics = vectors(&network.statistics_layout())?;
        let series = |name: &str| -> Result<Vec<f64>, DrawsError> {
            let view = file.tensor(name).map_err(|_| other(format!("there is no array `{name}`")))?;
            if view.dtype() != Dtype::F64 {
                return Err(other(format!("`{name}` is not float64")));
            }
            let word = |b: &[u8]| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
            Ok(view.data().chunks_exact(8).map(word).collect())
        };
        Ok(Self {
            positions,
            statistics,
            potential_energy: series(SERIES[0])?,
            configurational_temperature: series(SERIES[1])?,
            kinetic_temperature: series(SERIES[2])?,
            dim: layout.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Layer, Shape};

    fn example() -> (Network, Draws) {
        let conv = Layer::Conv { filters: 2, kernel: 3, stride: 1 };
        let layers = vec![conv, Layer::BATCH_NORM, Layer::Relu, Layer::Dense { units: 1 }];
        let network = Network::new(Shape::image(2, 2, 1), layers).unwrap();
        let dim = network.layout().len();
        let draws = Draws {
            positions: (0..4 * dim).map(|i| i as f32 * 0.5).collect(),
            statistics: (0..4 * network.statistics_layout().len()).map(|i| i as f32).collect(),
            potential_energy: vec![1.0, 2.0, 3.0, f64::MAX],
            configurational_temperature: vec![0.1; 4],
            kinetic_temperature: vec![],
            dim,
        };
        (network, draws)
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("draws.safetensors");
        let (network, draws) = example();
        draws.save(&path, &network, &BTreeMap::from([("beta", "1".into()), ("seed", "0".into())])).unwrap();
        let first = std::fs::read(&path).unwrap();
        draws.save(&path, &network, &BTreeMap::from([("seed", "0".into()), ("beta", "1".into())])).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), first, "the same draws are the same bytes");
        assert_eq!(Draws::load(&path, &network).unwrap(), draws);
    }

    #[test]
    fn damaged_cut_or_foreign_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("draws.safetensors");
        let (network, draws) = example();
        draws.save(&path, &network, &BTreeMap::new()).unwrap();
        let other = Network::dense(2, &[4], 1).unwrap();
        assert!(matches!(Draws::load(&path, &other), Err(DrawsError::OtherNetwork { .. })));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
        assert!(matches!(Draws::load(&path, &network), Err(DrawsError::Damaged { .. })));
        assert!(matches!(Draws::load(&folder.path().join("none"), &network), Err(DrawsError::File { .. })));
    }
}
