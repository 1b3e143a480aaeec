//! An axis: its label, its scale, how much of the data it shows, and the mapping from values to the drawing.

/// How values are laid out along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal differences are equal lengths.
    Linear,
    /// Equal ratios are equal lengths; values ≤ 0 are not drawn.
    Log,
}

impl Scale {
    /// The value on the scale along which lengths are equal, or nothing where the scale cannot show it.
    pub(super) fn forward(self, value: f64) -> Option<f64> {
        match self {
            Self::Linear => Some(value),
            Self::Log => (value > 0.0).then(|| value.log10()),
        }
        .filter(|v| v.is_finite())
    }

    pub(super) fn backward(self, position: f64) -> f64 {
        match self {
            Self::Linear => position,
            Self::Log => 10f64.powf(position),
        }
    }
}

/// How much of the data an axis shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// Everything, with a little room.
    All,
    /// The bulk: where a few far values would flatten the rest, they become arrows at the edge.
    Focus,
    /// Exactly the range between these two values.
    Between(f64, f64),
}

/// One axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What is measured, with its unit.
    pub label: String,
    /// Whether equal lengths are equal differences or equal ratios.
    pub scale: Scale,
    /// How much of the data is shown.
    pub extent: Extent,
    /// What stands at 1, 2, 3… of a vertical axis, from below; numbers where empty.
    pub names: Vec<String>,
}

impl Axis {
    /// A linear axis that shows everything.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, extent: Extent::All, names: Vec::new() }
    }

    /// A logarithmic axis that shows everything.
    pub fn log(label: impl Into<String>) -> Self {
        Self { scale: Scale::Log, ..Self::linear(label) }
    }

    /// A vertical axis of named places: the first name stands lowest, at 1.
    pub fn named(label: impl Into<String>, names: Vec<String>) -> Self {
        let high = names.len() as f64 + 0.5;
        Self { names, ..Self::linear(label).between(0.5, high) }
    }

    /// The same axis with the other scale, to switch to.
    pub fn rescaled(mut self) -> Self {
        self.scale = match self.scale {
            Scale::Linear => Scale::Log,
            Scale::Log => Scale::Linear,
        };
        self
    }

    /// Shows the bulk of the data; far values become arrows at the edge.
    pub fn focused(mut self) -> Self {
        self.extent = Extent::Focus;
        self
    }

    /// Shows exactly this range; values outside become arrows at the edge.
    pub fn between(mut self, low: f64, high: f64) -> Self {
        self.extent = Extent::Between(low, high);
        self
    }
}

/// Values `low` to `high` of one axis, drawn from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping {
    pub scale: Scale,
    pub low: f64,
    pub high: f64,
    pub start: f64,
    pub end: f64,
}

impl Mapping {
    /// Where a value lies in the drawing, inside the frame or not; nothing where the scale cannot show it.
    pub fn place(&self, value: f64) -> Option<f64> {
        let low = self.scale.forward(self.low)?;
        let high = self.scale.forward(self.high)?;
        let fraction = (self.scale.forward(value)? - low) / (high - low);
        Some(self.start + fraction * (self.end - self.start))
    }

    /// Like `place`, but what the scale cannot show or lies outside is moved to the nearest edge.
    pub fn clamp(&self, value: f64) -> f64 {
        if value.is_nan() || value <= self.low {
            self.start
        } else if value >= self.high {
            self.end
        } else {
            self.place(value).unwrap_or(self.start)
        }
    }

    /// Whether the value is within the range shown.
    pub fn shows(&self, value: f64) -> bool {
        // A value computed to equal the bound of a fixed range may miss it by rounding.
        let slack = 1e-9 * (self.high - self.low);
        value >= self.low - slack && value <= self.high + slack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_mapping_puts_one_in_the_middle_of_a_tenth_and_ten() {
        let mapping = Mapping { scale: Scale::Log, low: 0.1, high: 10.0, start: 0.0, end: 200.0 };
        assert!((mapping.place(1.0).unwrap() - 100.0).abs() < 1e-9);
        assert_eq!(mapping.place(0.0), None);
        assert_eq!(mapping.place(f64::NAN), None);
        assert_eq!(mapping.clamp(-3.0), 0.0);
        assert_eq!(mapping.clamp(1e9), 200.0);
        assert!(mapping.shows(0.1) && !mapping.shows(11.0) && !mapping.shows(f64::NAN));
    }
}
