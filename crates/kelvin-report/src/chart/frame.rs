//! Rectangles of a drawing: the area of a plot, and the frame its data are drawn in.

use super::axis::Mapping;

/// A rectangle of the drawing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

/// The frame in which data are drawn.
pub(super) struct Frame {
    pub x: Mapping,
    pub y: Mapping,
}
