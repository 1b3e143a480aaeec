//! What an export consists of: named arrays of numbers or words in groups, their coordinates, and where they are written.

use std::io;

use serde_json::{Map, Value};

/// Kinds of entries, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    Float64,
    Float32,
    Int64,
    Bool,
    /// Words of at most so many characters.
    Text(usize),
}

impl Element {
    /// As NumPy and zarr call it.
    pub fn name(self) -> String {
        match self {
            Self::Float64 => "<f8".into(),
            Self::Float32 => "<f4".into(),
            Self::Int64 => "<i8".into(),
            Self::Bool => "|b1".into(),
            Self::Text(width) => format!("<U{width}"),
        }
    }

    pub fn num_bytes(self) -> usize {
        match self {
            Self::Float64 | Self::Int64 => 8,
            Self::Float32 => 4,
            Self::Bool => 1,
            Self::Text(width) => 4 * width,
        }
    }
}

/// An array; one with draws has chains first and draws second.
#[derive(Clone, Debug)]
pub struct Array {
    pub group: &'static str,
    pub name: String,
    /// The names and lengths of its axes.
    pub dims: Vec<(String, usize)>,
    pub element: Element,
    /// What it holds, for people.
    pub about: String,
}

impl Array {
    pub fn shape(&self) -> Vec<usize> {
        self.dims.iter().map(|(_, len)| *len).collect()
    }

    pub fn num_bytes(&self) -> usize {
        self.shape().iter().product::<usize>() * self.element.num_bytes()
    }
}

/// The labels along an axis.
#[derive(Clone, Debug)]
pub struct Coordinate {
    pub dim: String,
    pub element: Element,
    pub bytes: Vec<u8>,
}

impl Coordinate {
    pub fn of_numbers(dim: &str, values: impl IntoIterator<Item = usize>) -> Self {
        let bytes = values.into_iter().flat_map(|value| (value as i64).to_le_bytes()).collect();
        Self { dim: dim.into(), element: Element::Int64, bytes }
    }

    pub fn of_words(dim: &str, words: &[String]) -> Self {
        let width = words.iter().map(|word| word.chars().count()).max().unwrap_or(0).max(1);
        let bytes = words.iter().flat_map(|word| text_bytes(word, width)).collect();
        Self { dim: dim.into(), element: Element::Text(width), bytes }
    }

    /// It as an array of a group.
    pub fn array(&self, group: &'static str) -> Array {
        let len = self.bytes.len() / self.element.num_bytes();
        let about = format!("labels of the axis {}", self.dim);
        Array { group, name: self.dim.clone(), dims: vec![(self.dim.clone(), len)], element: self.element, about }
    }
}

/// A word in UTF-32, filled up with zeros.
pub fn text_bytes(word: &str, width: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = word.chars().take(width).flat_map(|letter| u32::from(letter).to_le_bytes()).collect();
    bytes.resize(4 * width, 0);
    bytes
}

/// The numbers as little-endian bytes.
pub fn f64_bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// All there is to write, without the numbers.
pub struct Contents {
    pub arrays: Vec<Array>,
    pub coordinates: Vec<Coordinate>,
    pub attributes: Map<String, Value>,
}

/// Takes the numbers of arrays in order: of an array with draws, whole draws of one chain after the other.
pub trait Sink {
    /// Adds to the end of an array, named by its place in [`Contents::arrays`].
    fn append(&mut self, array: usize, bytes: &[u8]) -> io::Result<()>;
}
