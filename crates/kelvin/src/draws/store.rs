//! Draws as a safetensors file: one array for each named tensor, its first axis the draws; written and read a few draws at a
//! time.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};
use sha2::{Digest, Sha256};

use super::error::DrawsError;
use super::kept::{Draws, Place};
use super::layout::DrawLayout;
use super::log::DrawShape;
use super::lot::Lot;
use super::stored_weights::{Span, StoredWeights, read_at, unreadable};
use crate::network::Layout;
use crate::write_file::replace_with;

const SERIES: [&str; 3] = ["potential_energy", "configurational_temperature", "kinetic_temperature"];
/// What `about` calls the SHA-256 of all numbers: weights and statistics draw by draw, then the three series.
const HASH: &str = "draws_sha256";
/// Bytes of weights that are gathered at a time, and the most that a header may have.
const LOT_BYTES: usize = 16 << 20;
const MOST_HEADER: u64 = 100 << 20;

impl Draws {
    /// Writes the draws, beside and renamed; `about` and a hash of the draws become the file's only piece of metadata, as JSON
    /// under `kelvin`: several pieces would be written in an order that changes from run to run.
    ///
    /// # Errors
    /// Where the file cannot be written, or the draws cannot be read from where they are.
    pub fn save(
        &self,
        path: &Path,
        layout: impl Into<DrawLayout>,
        about: &BTreeMap<&str, String>,
    ) -> Result<(), DrawsError> {
        let count = self.len();
        let DrawLayout { position, statistics } = layout.into();
        let layouts = [position, statistics];
        let mut about = about.clone();
        about.insert(HASH, self.hash()?);
        let damaged = |reason: String| DrawsError::Damaged { path: path.into(), reason };
        let about = serde_json::to_string(&about).map_err(|error| damaged(error.to_string()))?;

        // Arrays in the order that safetensors writes them in: wider numbers first, then by name.
        let mut arrays: Vec<(&str, Dtype, Vec<usize>)> = Vec::new();
        for tensor in layouts.iter().flat_map(Layout::tensors) {
            arrays.push((
                &tensor.name,
                Dtype::F32,
                std::iter::once(count).chain(tensor.shape.iter().copied()).collect(),
            ));
        }
        arrays.extend(SERIES.iter().zip(self.series()).map(|(name, values)| (*name, Dtype::F64, vec![values.len()])));
        arrays.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let mut end = 0;
        let infos = arrays.into_iter().map(|(name, dtype, shape)| {
            let start = end;
            end += shape.iter().product::<usize>() * dtype.bitsize() / 8;
            (name.to_owned(), TensorInfo { dtype, shape, data_offsets: (start, end) })
        });
        let header = Metadata::new(Some(HashMap::from([("kelvin".to_owned(), about)])), infos.collect())
            .map_err(|error| damaged(error.to_string()))?;
        let mut text = serde_json::to_vec(&header).map_err(|error| damaged(error.to_string()))?;
        text.resize(text.len().next_multiple_of(8), b' ');
        let data = 8 + text.len() as u64;

        let file_error = |source| DrawsError::File { action: "write", path: path.into(), source };
        replace_with(path, |file| {
            let mut write = |offset: u64, bytes: &[u8]| -> Result<(), Failure> {
                file.seek(SeekFrom::Start(offset))?;
                Ok(file.write_all(bytes)?)
            };
            write(0, &(text.len() as u64).to_le_bytes())?;
            write(8, &text)?;
            let at = |name: &str| header.info(name).map_or(data, |info| data + info.data_offsets.0 as u64);
            for (name, values) in SERIES.iter().zip(self.series()) {
                write(at(name), &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())?;
            }
            let mut first = 0;
            for lot in self.lots(self.draws_in_a_lot()) {
                let lot = lot?;
                for (layout, numbers) in layouts.iter().zip([&lot.positions, &lot.statistics]) {
                    for tensor in layout.tensors() {
                        let of_draws =
                            (0..lot.len()).flat_map(|draw| &numbers[draw * layout.len()..][tensor.range.clone()]);
                        let bytes: Vec<u8> = of_draws.flat_map(|number| number.to_le_bytes()).collect();
                        write(at(&tensor.name) + (first * tensor.range.len() * 4) as u64, &bytes)?;
                    }
                }
                first += lot.len();
            }
            Ok(())
        })
        .map_err(|failure| match failure {
            Failure::Draws(error) => error,
            Failure::File(source) => file_error(source),
        })
    }

    /// Reads draws of these tensors into memory.
    ///
    /// # Errors
    /// Where the file cannot be read, is damaged, or is another network's.
    pub fn load(path: &Path, layout: impl Into<DrawLayout>) -> Result<Self, DrawsError> {
        let mut draws = Self::open(path, layout)?;
        let all = draws.all()?;
        let positions = Cow::Owned(all.positions.into_owned());
        draws.place =
            Place::Memory(Lot { positions, statistics: Cow::Owned(all.statistics.into_owned()), dim: all.dim });
        Ok(draws)
    }

    /// Opens draws of these tensors: measurements are read, weights stay in the file until they are asked for. All are checked
    /// against the file's own hash; a file without one is refused as damaged.
    ///
    /// # Errors
    /// Where the file cannot be read, is damaged, or is another network's.
    pub fn open(path: &Path, layout: impl Into<DrawLayout>) -> Result<Self, DrawsError> {
        let layout = layout.into();
        let file_error = |source| DrawsError::File { action: "read", path: path.into(), source };
        let damaged = |reason: String| DrawsError::Damaged { path: path.into(), reason };
        let other = |reason: String| DrawsError::OtherNetwork { path: path.into(), reason };
        let mut file = File::open(path).map_err(file_error)?;
        let length = file.metadata().map_err(file_error)?.len();
        let Some(after) = length.checked_sub(8) else {
            return Err(damaged(format!("it ends at byte {length}, and the size of its header takes 8")));
        };
        let size = read_at(&mut file, 0, 8).map_err(|error| unreadable(path, error))?;
        let size = size.try_into().map_or(u64::MAX, u64::from_le_bytes);
        if size > MOST_HEADER.min(after) {
            return Err(damaged(format!("byte 0 announces a header of {size} bytes, and {after} follow")));
        }
        let header = read_at(&mut file, 8, size as usize).map_err(|error| unreadable(path, error))?;
        let header: Metadata = serde_json::from_slice(&header)
            .map_err(|error| damaged(format!("its header, which begins at byte 8: {error}")))?;
        let data = 8 + size;
        // Compared as what is left, since sizes of a forged header may add up beyond 64 bits.
        if header.data_len() as u64 != length - data {
            let (found, announced) = (length - data, header.data_len());
            return Err(damaged(format!("from byte {data} on it has {found} bytes, and {announced} are announced")));
        }

        let mut count = None;
        let mut spans = |layout: &Layout| -> Result<Vec<Span>, DrawsError> {
            let tensors = layout.tensors().iter().map(|tensor| {
                let name = &tensor.name;
                let info = header.info(name).ok_or_else(|| other(format!("there is no array `{name}`")))?;
                let (found, wanted) = (&info.shape, &tensor.shape);
                if info.dtype != Dtype::F32
                    || found.first().is_none_or(|&n| *count.get_or_insert(n) != n)
                    || found[1..] != wanted[..]
                {
                    return Err(other(format!("`{name}` has shape {found:?}, wanted [draws, {wanted:?}]")));
                }
                Ok(Span { offset: data + info.data_offsets.0 as u64, range: tensor.range.clone() })
            });
            tensors.collect()
        };
        let positions = spans(&layout.position)?;
        let statistics = spans(&layout.statistics)?;
        let mut series = SERIES.map(|_| Vec::new());
        for (name, values) in SERIES.iter().zip(&mut series) {
            let info = header.info(name).ok_or_else(|| other(format!("there is no array `{name}`")))?;
            if info.dtype != Dtype::F64 {
                return Err(other(format!("`{name}` is not float64")));
            }
            let bytes =
                read_at(&mut file, data + info.data_offsets.0 as u64, info.data_offsets.1 - info.data_offsets.0)
                    .map_err(|error| unreadable(path, error))?;
            let word = |b: &[u8]| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
            *values = bytes.chunks_exact(8).map(word).collect();
        }
        let [potential_energy, configurational_temperature, kinetic_temperature] = series;
        let shape = DrawShape::of(layout, !kinetic_temperature.is_empty());
        let count = count.unwrap_or(0);
        for (name, values) in [(SERIES[0], &potential_energy), (SERIES[1], &configurational_temperature)] {
            if values.len() != count {
                return Err(other(format!(
                    "`{name}` has {} numbers, wanted one for each of {count} draws",
                    values.len()
                )));
            }
        }
        if ![0, count].contains(&kinetic_temperature.len()) {
            let found = kinetic_temperature.len();
            return Err(other(format!("`{}` has {found} numbers, wanted none or {count}", SERIES[2])));
        }
        let place = Place::File(StoredWeights { path: path.into(), shape, count, positions, statistics });
        let draws = Self { potential_energy, configurational_temperature, kinetic_temperature, place };
        let about = header.metadata().as_ref().and_then(|metadata| metadata.get("kelvin"));
        let about: Option<HashMap<String, String>> = about.and_then(|text| serde_json::from_str(text).ok());
        let Some(hash) = about.as_ref().and_then(|about| about.get(HASH)) else {
            return Err(damaged(format!(
                "its header does not hold {HASH}, the hash that kelvin writes with draws: nothing shows that the numbers are those \
                 that were kept"
            )));
        };
        if draws.hash()? != *hash {
            return Err(damaged(format!(
                "its numbers, from byte {data} on, do not have the hash that was written with them"
            )));
        }
        Ok(draws)
    }

    fn draws_in_a_lot(&self) -> usize {
        LOT_BYTES / 4 / self.dim().max(1)
    }

    fn hash(&self) -> Result<String, DrawsError> {
        let mut hash = Sha256::new();
        for lot in self.lots(self.draws_in_a_lot()) {
            for draw in lot?.iter() {
                let numbers = draw.parameters.iter().chain(draw.statistics);
                hash.update(numbers.flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>());
            }
        }
        for value in self.series().into_iter().flatten() {
            hash.update(value.to_le_bytes());
        }
        Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// What can go wrong while draws are copied from one file to another.
enum Failure {
    Draws(DrawsError),
    File(std::io::Error),
}

impl From<DrawsError> for Failure {
    fn from(error: DrawsError) -> Self {
        Self::Draws(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::File(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::Measurements;
    use crate::network::{Layer, Network, Shape, Weights};

    fn network() -> Network {
        let conv = Layer::Conv { filters: 2, kernel: 3, stride: 1, groups: 1 };
        let layers = vec![conv, Layer::BATCH_NORM, Layer::Relu, Layer::Dense { units: 1 }];
        Network::new(Shape::image(2, 2, 1), layers).unwrap()
    }

    fn fill(draws: &mut Draws, network: &Network) {
        let (dim, each) = (network.layout().len(), network.statistics_layout().len());
        for draw in 0..4 {
            let parameters: Vec<f32> = (0..dim).map(|i| (draw * dim + i) as f32 * 0.5).collect();
            let statistics: Vec<f32> = (0..each).map(|i| (draw * each + i) as f32).collect();
            let potential_energy = [1.0, 2.0, -3.0, f64::MAX][draw];
            let measured =
                Measurements { potential_energy, configurational_temperature: 0.1, kinetic_temperature: None };
            draws.push(Weights { parameters: &parameters, statistics: &statistics }, measured).unwrap();
        }
    }

    fn example() -> (Network, Draws) {
        let network = network();
        let mut draws = Draws::in_memory(network.layout().len());
        fill(&mut draws, &network);
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
        safetensors::SafeTensors::deserialize(&first).unwrap();

        let opened = Draws::open(&path, &network).unwrap();
        assert_eq!((opened.len(), &opened.potential_energy), (4, &draws.potential_energy));
        for most in [1, 3, 4, 100] {
            let read: Vec<f32> = opened.lots(most).flat_map(|lot| lot.unwrap().positions.into_owned()).collect();
            assert_eq!(read, *draws.all().unwrap().positions, "{most} at a time");
        }
    }

    #[test]
    fn a_log_becomes_the_same_file_as_draws_in_memory() {
        let folder = tempfile::tempdir().unwrap();
        let (network, draws) = example();
        let mut logged = Draws::create_log(&folder.path().join("a.log"), DrawShape::of(&network, false)).unwrap();
        fill(&mut logged, &network);
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        draws.save(&paths[0], &network, &BTreeMap::new()).unwrap();
        logged.save(&paths[1], &network, &BTreeMap::new()).unwrap();
        let [from_memory, from_log] = paths.map(|path| std::fs::read(path).unwrap());
        assert_eq!(from_memory, from_log);
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
        for length in 0..bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(matches!(Draws::open(&path, &network), Err(DrawsError::Damaged { .. })), "{length} bytes");
        }
        for place in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << (place % 8);
            std::fs::write(&path, &flipped).unwrap();
            // A flip inside the header's text may change its words and nothing else; it must not panic.
            let data = bytes.len() - 4 * (draws.len() * (draws.dim() + 4)) - 8 * 8;
            assert!(place < data || Draws::open(&path, &network).is_err(), "byte {place}");
        }
        assert!(matches!(Draws::load(&folder.path().join("none"), &network), Err(DrawsError::File { .. })));
    }

    #[test]
    fn a_file_without_its_hash_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("draws.safetensors");
        let (network, draws) = example();
        draws.save(&path, &network, &BTreeMap::new()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let place = whole.windows(HASH.len()).position(|part| part == HASH.as_bytes()).unwrap();
        let mut renamed = whole.clone();
        renamed[place] = b'D';
        std::fs::write(&path, renamed).unwrap();
        let refused = Draws::open(&path, &network).unwrap_err();
        assert!(matches!(refused, DrawsError::Damaged { .. }), "{refused}");
        assert!(refused.to_string().contains("does not hold draws_sha256"), "{refused}");
    }
}
