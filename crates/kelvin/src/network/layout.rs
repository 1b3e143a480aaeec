//! Where each named tensor lies in the flat parameter vector.

use std::ops::Range;

/// What a tensor does in its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Multiplies inputs.
    Kernel,
    /// Is added.
    Bias,
    /// Multiplies a normalised channel.
    Scale,
    /// Is added to a normalised channel.
    Offset,
    /// Below which a channel is cut off.
    Threshold,
    /// Running mean of a channel.
    Mean,
    /// Running variance of a channel.
    Variance,
    /// The logarithm of a variance.
    LogVariance,
    /// The logarithm of the size r of negative binomial counts.
    LogSize,
    /// A position without finer structure.
    Position,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Bias => "bias",
            Self::Scale => "scale",
            Self::Offset => "offset",
            Self::Threshold => "threshold",
            Self::Mean => "mean",
            Self::Variance => "variance",
            Self::LogVariance => "log_variance",
            Self::LogSize => "log_size",
            Self::Position => "position",
        }
    }
}

/// A named piece of the parameter vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// For example `dense1.kernel`: the layer it belongs to, a dot, its role.
    pub name: String,
    /// Row-major.
    pub shape: Vec<usize>,
    /// Its place in the parameter vector.
    pub range: Range<usize>,
    /// What it does.
    pub role: Role,
}

impl Tensor {
    /// The layer it belongs to: its group.
    pub fn layer(&self) -> &str {
        self.name.rsplit_once('.').map_or("", |(layer, _)| layer)
    }

    /// Inputs of each output, for kernels.
    pub(super) fn fan_in(&self) -> usize {
        self.shape[..self.shape.len() - 1].iter().product()
    }
}

/// All tensors of a network, or of a posterior, in order and without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    tensors: Vec<Tensor>,
}

impl Layout {
    /// One tensor of `len` numbers, for potentials that have no finer structure.
    pub fn flat(len: usize) -> Self {
        let mut layout = Self::default();
        layout.push("", Role::Position, &[len]);
        layout
    }

    /// Adds a tensor of a layer after the others and says where it lies.
    pub fn push(&mut self, layer: &str, role: Role, shape: &[usize]) -> Range<usize> {
        let start = self.len();
        let range = start..start + shape.iter().product::<usize>();
        let name = if layer.is_empty() { role.name().to_owned() } else { format!("{layer}.{}", role.name()) };
        self.tensors.push(Tensor { name, shape: shape.to_vec(), range: range.clone(), role });
        range
    }

    /// Adds the tensors of another layout, each as a list of so many.
    pub(crate) fn push_lists(&mut self, of: &Layout, count: usize) {
        for Tensor { name, role, range, .. } in &of.tensors {
            let start = self.len();
            let len = count * range.len();
            self.tensors.push(Tensor { name: name.clone(), shape: vec![len], range: start..start + len, role: *role });
        }
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
