//! The numbers that a network is computed in.

/// The numbers that values, their gradients and the factors of products consist of; all else is f32 or f64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// "f32".
    Single,
    /// "bf16": stored in bf16, summed in f32.
    #[default]
    Half,
}

impl Precision {
    /// Bytes of a number.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Single => 4,
            Self::Half => 2,
        }
    }

    /// How many numbers sixteen bytes are.
    pub(crate) const fn wide(self) -> usize {
        16 / self.bytes()
    }

    /// "f32" or "bf16".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "f32",
            Self::Half => "bf16",
        }
    }
}
