//! Finds and reads the reference vectors of the golden tests.
#![allow(dead_code)] // each test file uses its own part

pub mod conjugate;
pub mod given;
mod skipped;

use std::path::PathBuf;

use kelvin::network::Network;
use safetensors::{Dtype, SafeTensors};

pub use skipped::{Need, skipped};

/// The shared folder: `KELVIN_SHARED`, or `../shared` beside the repository.
pub fn shared() -> PathBuf {
    std::env::var_os("KELVIN_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from)
}

/// The path of a reference file, or `None` (said aloud) where the folder is missing.
pub fn golden(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("KELVIN_GOLDEN").map_or_else(|| shared().join("golden"), PathBuf::from);
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    let why = format!("{} is missing; set KELVIN_GOLDEN to the folder of reference vectors", path.display());
    skipped(Need::Golden, &why);
    None
}

/// A safetensors file whose arrays are read as f64.
pub struct Golden(Vec<u8>);

impl Golden {
    /// Opens a reference file, or says that the test is skipped.
    pub fn open(name: &str) -> Option<Self> {
        golden(name).map(|path| Self(std::fs::read(path).expect("a readable reference file")))
    }

    fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.0).expect("a safetensors file")
    }

    /// Whether an array is there.
    pub fn has(&self, name: &str) -> bool {
        self.tensors().tensor(name).is_ok()
    }

    /// The shape of an array.
    pub fn shape(&self, name: &str) -> Vec<usize> {
        self.tensors().tensor(name).unwrap_or_else(|_| panic!("no array {name}")).shape().to_vec()
    }

    /// An array as f64, row-major.
    pub fn f64s(&self, name: &str) -> Vec<f64> {
        let tensors = self.tensors();
        let view = tensors.tensor(name).unwrap_or_else(|_| panic!("no array {name}"));
        let bytes = view.data();
        match view.dtype() {
            Dtype::F32 => bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect(),
            Dtype::F64 => bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
            Dtype::I64 => bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as f64).collect(),
            other => panic!("{name} has type {other:?}"),
        }
    }

    /// An array as f32, row-major.
    pub fn f32s(&self, name: &str) -> Vec<f32> {
        self.f64s(name).into_iter().map(|value| value as f32).collect()
    }

    /// An array of indices.
    pub fn indices(&self, name: &str) -> Vec<usize> {
        self.f64s(name).into_iter().map(|value| value as usize).collect()
    }

    /// The names of all arrays, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.tensors().names().into_iter().map(String::from).collect();
        names.sort_unstable();
        names
    }

    /// The numbers s for which arrays `{prefix}{s}.…` exist, in order.
    pub fn numbers_after(&self, prefix: &str) -> Vec<u64> {
        let number = |name: &String| name.strip_prefix(prefix)?.split('.').next()?.parse().ok();
        let mut numbers: Vec<u64> = self.names().iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// The tensors of a dense network in the library's order: `{prefix}W1`, `{prefix}b1`, `{prefix}W2`, …
    fn dense_tensors(&self, prefix: &str) -> Vec<String> {
        (1..)
            .map(|layer| [format!("{prefix}W{layer}"), format!("{prefix}b{layer}")])
            .take_while(|[kernel, _]| self.has(kernel))
            .flatten()
            .collect()
    }

    /// The ReLU network whose kernels are `{prefix}W1`, `{prefix}W2`, …
    pub fn network(&self, prefix: &str) -> Network {
        let kernels: Vec<Vec<usize>> =
            self.dense_tensors(prefix).iter().step_by(2).map(|kernel| self.shape(kernel)).collect();
        let widths: Vec<usize> = kernels.iter().map(|shape| shape[1]).collect();
        let (outputs, hidden) = widths.split_last().expect("at least one kernel");
        Network::dense(kernels[0][0], hidden, *outputs).expect("a network")
    }

    /// All parameters of a dense network as one vector.
    pub fn parameters(&self, prefix: &str) -> Vec<f64> {
        self.dense_tensors(prefix).iter().flat_map(|name| self.f64s(name)).collect()
    }

    /// Parameter vectors whose tensors have one more axis in front: one vector for each index of it.
    pub fn stacked_parameters(&self, prefix: &str) -> Vec<Vec<f64>> {
        let tensors = self.dense_tensors(prefix);
        let count = self.shape(&tensors[0])[0];
        let tensors: Vec<Vec<f64>> = tensors.iter().map(|name| self.f64s(name)).collect();
        let part = |tensor: &Vec<f64>, at: usize| {
            let len = tensor.len() / count;
            tensor[at * len..(at + 1) * len].to_vec()
        };
        (0..count).map(|at| tensors.iter().flat_map(|tensor| part(tensor, at)).collect()).collect()
    }

    /// An array of one number.
    pub fn scalar(&self, name: &str) -> f64 {
        let values = self.f64s(name);
        assert_eq!(values.len(), 1, "{name} is not a scalar");
        values[0]
    }
}

/// ‖a − b‖ / ‖b‖.
pub fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let difference: f64 = found.iter().zip(expected).map(|(a, b)| (a - b).powi(2)).sum();
    let size: f64 = expected.iter().map(|b| b * b).sum();
    (difference / size).sqrt()
}

/// Asserts that two arrays agree within a relative tolerance.
pub fn assert_close(what: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    let error = relative_error(found, expected);
    assert!(error <= tolerance, "{what}: relative error {error:.3e} > {tolerance:.0e}");
}

/// The same numbers as f32, which the inputs of the reference files are.
pub fn to_f32(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

/// The same numbers as f64.
pub fn to_f64(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}
