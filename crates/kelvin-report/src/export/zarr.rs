//! A zarr store (format 2, a folder): what `arviz.from_zarr` opens, written by hand.
//!
//! Why zarr and no NetCDF4: NetCDF4 is HDF5, whose writers are a C library; a zarr store is folders of raw little-endian chunks
//! beside a few lines of JSON, so chunks are appended to as draws are read. Why format 2: both zarr-python 2, which ArviZ 0.x
//! wants, and zarr-python 3 of ArviZ 1.x read it. There is no compressor, for the same reason of lightness.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::array::{Array, Contents, Element, Sink};

/// The most bytes of a chunk, where one draw is no larger.
const MOST_CHUNK_BYTES: usize = 4 << 20;

/// A store that is being written.
pub struct ZarrFolder {
    places: Vec<Place>,
}

/// How far an array has come.
struct Place {
    folder: PathBuf,
    num_axes: usize,
    /// Bytes of one chain, or of all where there are no draws; of a full chunk; and so far.
    chain_bytes: usize,
    chunk_bytes: usize,
    written: usize,
}

impl ZarrFolder {
    /// Writes everything but the numbers of arrays into an empty folder.
    pub fn create(folder: &Path, contents: &Contents) -> io::Result<Self> {
        // In order: readers of the file of all metadata expect the members of a group side by side.
        let mut metadata = BTreeMap::new();
        metadata.insert(".zgroup".into(), json!({"zarr_format": 2}));
        metadata.insert(".zattrs".into(), Value::Object(contents.attributes.clone()));
        let mut places = Vec::new();
        for array in &contents.arrays {
            places.push(Place::of(folder, array));
            describe(&mut metadata, array, &contents.attributes);
        }
        let groups: BTreeSet<&'static str> = contents.arrays.iter().map(|array| array.group).collect();
        for group in groups {
            let of_group = || contents.arrays.iter().filter(|array| array.group == group);
            let is_used = |dim: &str| of_group().any(|array| array.dims.iter().any(|(name, _)| name == dim));
            for coordinate in contents.coordinates.iter().filter(|coordinate| is_used(&coordinate.dim)) {
                let array = coordinate.array(group);
                describe(&mut metadata, &array, &contents.attributes);
                Place::of(folder, &array).append(&coordinate.bytes)?;
            }
        }
        for (name, value) in &metadata {
            write_json(&folder.join(name), value)?;
        }
        let all = json!({"zarr_consolidated_format": 1, "metadata": metadata});
        write_json(&folder.join(".zmetadata"), &all)?;
        Ok(Self { places })
    }
}

impl Sink for ZarrFolder {
    fn append(&mut self, array: usize, bytes: &[u8]) -> io::Result<()> {
        self.places[array].append(bytes)
    }
}

impl Place {
    fn of(store: &Path, array: &Array) -> Self {
        let chunk = chunk_shape(array);
        let per_chain = if has_draws(array) { array.num_bytes() / array.dims[0].1 } else { array.num_bytes() };
        Self {
            folder: store.join(array.group).join(&array.name),
            num_axes: array.dims.len(),
            chain_bytes: per_chain,
            chunk_bytes: chunk.iter().product::<usize>() * array.element.num_bytes(),
            written: 0,
        }
    }

    fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        while !bytes.is_empty() {
            let (chain, at) = (self.written / self.chain_bytes, self.written % self.chain_bytes);
            let (chunk, inside) = (at / self.chunk_bytes, at % self.chunk_bytes);
            let room = (self.chunk_bytes - inside).min(self.chain_bytes - at);
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            let mut file = OpenOptions::new().create(true).append(true).open(self.chunk_path(chain, chunk))?;
            file.write_all(now)?;
            self.written += now.len();
            // A chain's last chunk is as long as the others.
            if self.written.is_multiple_of(self.chain_bytes) {
                file.set_len(self.chunk_bytes as u64)?;
            }
            bytes = rest;
        }
        Ok(())
    }

    fn chunk_path(&self, chain: usize, chunk: usize) -> PathBuf {
        let mut name = vec!["0".to_owned(); self.num_axes];
        if let Some(first) = name.first_mut() {
            *first = chain.to_string();
        }
        if let Some(second) = name.get_mut(1).filter(|_| chunk > 0) {
            *second = chunk.to_string();
        }
        self.folder.join(name.join("."))
    }
}

fn has_draws(array: &Array) -> bool {
    array.dims.len() >= 2 && array.dims[0].0 == "chain" && array.dims[1].0 == "draw"
}

/// Some draws of one chain; the whole array where there are no draws.
fn chunk_shape(array: &Array) -> Vec<usize> {
    let mut shape = array.shape();
    if has_draws(array) {
        let draw_bytes = shape[2..].iter().product::<usize>() * array.element.num_bytes();
        shape[0] = 1;
        shape[1] = shape[1].min((MOST_CHUNK_BYTES / draw_bytes.max(1)).max(1));
    }
    shape
}

fn describe(metadata: &mut BTreeMap<String, Value>, array: &Array, attributes: &Map<String, Value>) {
    let group = array.group;
    metadata.entry(format!("{group}/.zgroup")).or_insert_with(|| json!({"zarr_format": 2}));
    metadata.entry(format!("{group}/.zattrs")).or_insert_with(|| Value::Object(attributes.clone()));
    let dims: Vec<&String> = array.dims.iter().map(|(name, _)| name).collect();
    let place = format!("{group}/{}", array.name);
    // A fill value would be taken for missing numbers; of words there is none that all readers know.
    let fill = if let Element::Text(_) = array.element { json!("") } else { Value::Null };
    metadata.insert(
        format!("{place}/.zarray"),
        json!({
            "zarr_format": 2,
            "shape": array.shape(),
            "chunks": chunk_shape(array),
            "dtype": array.element.name(),
            "compressor": null,
            "fill_value": fill,
            "order": "C",
            "filters": null,
        }),
    );
    metadata.insert(format!("{place}/.zattrs"), json!({"_ARRAY_DIMENSIONS": dims, "description": array.about}));
}

fn write_json(path: &Path, value: &Value) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = File::create(path)?;
    serde_json::to_writer_pretty(&mut file, value)?;
    file.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws so large that chunks are cut: chains end in a chunk that is filled up, whatever the pieces were.
    #[test]
    fn chunks_hold_whole_draws_whatever_the_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let width = MOST_CHUNK_BYTES / 16;
        let dims = vec![("chain".to_owned(), 2), ("draw".to_owned(), 3), ("w".to_owned(), width)];
        let array =
            Array { group: "posterior", name: "w".into(), dims, element: Element::Float64, about: String::new() };
        assert_eq!(chunk_shape(&array), [1, 2, width]);
        let contents = Contents { arrays: vec![array], coordinates: Vec::new(), attributes: Map::new() };
        let mut store = ZarrFolder::create(folder.path(), &contents).unwrap();
        let bytes: Vec<u8> = (0..6 * 8 * width).map(|at| (at / (8 * width)) as u8 + 1).collect();
        for piece in bytes.chunks(8 * width * 3 / 2) {
            store.append(0, piece).unwrap();
        }
        let chunk = |name: &str| std::fs::read(folder.path().join("posterior/w").join(name)).unwrap();
        assert_eq!(chunk("0.0.0"), bytes[..16 * width]);
        assert_eq!(chunk("1.0.0"), bytes[24 * width..40 * width]);
        let last = chunk("0.1.0");
        assert_eq!((&last[..8 * width], last.len()), (&bytes[16 * width..24 * width], 16 * width));
        assert!(last[8 * width..].iter().all(|&byte| byte == 0));
    }
}
