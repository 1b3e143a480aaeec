//! Where each named tensor lies in the flat parameter vector.

use std::ops::Range;

/// A named piece of the parameter vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// For example `dense1.kernel`.
    pub name: String,
    /// Row-major.
    pub shape: Vec<usize>,
    /// Its place in the parameter vector.
    pub range: Range<usize>,
}

/// All tensors of a network, in order and without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    tensors: Vec<Tensor>,
}

impl Layout {
    /// One tensor of `len` numbers, for potentials that have no finer structure.
    pub fn flat(len: usize) -> Self {
        let mut layout = Self::default();
        layout.push("position", &[len]);
        layout
    }

    /// Adds a tensor after the others.
    pub fn push(&mut self, name: impl Into<String>, shape: &[usize]) {
        let start = self.len();
        let len: usize = shape.iter().product();
        self.tensors.push(Tensor { name: name.into(), shape: shape.to_vec(), range: start..start + len });
    }

    /// The tensors in order.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Numbers in the parameter vector.
    pub fn len(&self) -> usize {
        self.tensors.last().map_or(0, |tensor| tensor.range.end)
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
