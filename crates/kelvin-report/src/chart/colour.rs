//! Colours of the charts: the Okabe–Ito palette, safe for colour-blind readers, as CSS variables with a fallback.

/// A named colour; a page may override it for its dark look, a standalone file falls back to its value on white.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// For text and axes.
    Ink,
    /// Secondary text, reference lines.
    Muted,
    /// For the grid lines behind the data.
    Grid,
    /// For the background of the drawing.
    Paper,
    /// The bluish green of the palette.
    Green,
    /// The blue of the palette.
    Blue,
    /// The vermillion of the palette.
    Vermillion,
    /// The orange of the palette.
    Orange,
    /// The sky blue of the palette.
    SkyBlue,
    /// The reddish purple of the palette.
    Purple,
}

impl Colour {
    /// The standard model (SM) in every figure.
    pub const SM: Self = Self::Green;
    /// The tempered model (TM) in every figure.
    pub const TM: Self = Self::Blue;
    /// The chosen inverse temperatures β̂* in every figure.
    pub const CHOSEN: Self = Self::Vermillion;
    /// Colours for a list of series that have no colour of their own; use it in a cycle.
    pub const CYCLE: [Self; 6] = [Self::Green, Self::Blue, Self::Vermillion, Self::Orange, Self::Purple, Self::SkyBlue];

    /// The colour as a CSS value.
    pub fn css(self) -> &'static str {
        match self {
            Self::Ink => "var(--ink,#1f2328)",
            Self::Muted => "var(--muted,#656d76)",
            Self::Grid => "var(--grid,#e6e8eb)",
            Self::Paper => "var(--paper,#fff)",
            Self::Green => "var(--green,#009e73)",
            Self::Blue => "var(--blue,#0072b2)",
            Self::Vermillion => "var(--vermillion,#d55e00)",
            Self::Orange => "var(--orange,#e69f00)",
            Self::SkyBlue => "var(--sky,#56b4e9)",
            Self::Purple => "var(--purple,#cc79a7)",
        }
    }
}
