//! The range of an axis from the values it must show: room at the ends, sense for constants, a fence for outliers.

use super::axis::{Axis, Extent, Scale};

/// Clipping must make the rest at least this much taller, or everything is shown.
const WORTH_CLIPPING: f64 = 4.0;
/// Values further than so many interquartile ranges from the middle half are far.
const FENCE: f64 = 3.0;
/// Fewer values do not say what is far.
const ENOUGH: usize = 6;

/// The values that decide the range of one axis.
#[derive(Default)]
pub(super) struct Seen {
    /// Values of points, which must be shown unless they are far from the others.
    pub values: Vec<f64>,
    /// Ends of bands and reference lines: shown too, but they do not say what is far.
    pub extras: Vec<f64>,
}

/// The lowest and highest value to show.
pub(super) fn of(axis: &Axis, seen: &Seen, room: f64) -> (f64, f64) {
    if let Extent::Between(low, high) = axis.extent {
        let valid = axis.scale.forward(low).zip(axis.scale.forward(high)).is_some_and(|(l, h)| l < h);
        if valid {
            return (low, high);
        }
    }
    let scale = axis.scale;
    let mut values: Vec<f64> = seen.values.iter().filter_map(|v| scale.forward(*v)).collect();
    values.sort_by(f64::total_cmp);
    let extras = seen.extras.iter().filter_map(|v| scale.forward(*v));
    let fence = if axis.extent == Extent::Focus { fence(&values) } else { None };
    let (least, most) = fence.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    let near = values.iter().copied().chain(extras).filter(|v| *v >= least && *v <= most);
    let (mut low, mut high) = near.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        (low, high) = (0.0, 1.0); // nothing to show: 0 to 1, or 1 to 10 on a log axis
    } else if high - low <= 1e-12 * low.abs().max(high.abs()) {
        let half = match scale {
            Scale::Linear if low == 0.0 => 1.0,
            Scale::Linear => 0.1 * low.abs(),
            Scale::Log => 0.3,
        };
        (low, high) = (low - half, high + half);
    } else {
        let room = room * (high - low);
        (low, high) = (low - room, high + room);
    }
    // Beyond these the room at the ends would overflow.
    let limit = if scale == Scale::Log { 300.0 } else { 1e300 };
    (scale.backward(low.max(-limit)), scale.backward(high.min(limit)))
}

/// The bounds beyond which values are far from the others, where leaving out the far ones is worth it.
fn fence(sorted: &[f64]) -> Option<(f64, f64)> {
    if sorted.len() < ENOUGH {
        return None;
    }
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let quantile = |q: f64| sorted[(q * (sorted.len() - 1) as f64).round() as usize];
    let (lower, upper) = (quantile(0.25), quantile(0.75));
    let reach = FENCE * (upper - lower);
    let (least, most) = (lower - reach, upper + reach);
    let mut near = sorted.iter().copied().filter(|v| *v >= least && *v <= most);
    let low = near.next()?;
    let high = near.next_back().unwrap_or(low);
    (high > low && last - first > WORTH_CLIPPING * (high - low)).then_some((least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(axis: Axis, values: &[f64]) -> (f64, f64) {
        of(&axis, &Seen { values: values.to_vec(), ..Seen::default() }, 0.1)
    }

    #[test]
    fn leaves_room_and_skips_what_is_not_finite() {
        let (low, high) = range(Axis::linear(""), &[0.0, f64::NAN, 10.0, f64::INFINITY]);
        assert_eq!((low, high), (-1.0, 11.0));
    }

    #[test]
    fn nothing_and_constants_get_a_sensible_range() {
        assert_eq!(range(Axis::linear(""), &[]), (0.0, 1.0));
        assert_eq!(range(Axis::log(""), &[-1.0]), (1.0, 10.0));
        assert_eq!(range(Axis::linear(""), &[5.0, 5.0]), (4.5, 5.5));
        assert_eq!(range(Axis::linear(""), &[0.0]), (-1.0, 1.0));
        let (low, high) = range(Axis::log(""), &[1.0]);
        assert!(low > 0.4 && low < 0.6 && high > 1.9 && high < 2.1);
    }

    #[test]
    fn a_focused_axis_leaves_one_huge_value_out() {
        let values = [-0.2, -0.21, -0.19, -0.3, -0.4, -0.5, -300.0];
        let (low, high) = range(Axis::linear("").focused(), &values);
        assert!(low > -0.6 && high < 0.0, "{low} {high}");
        let (low, _) = range(Axis::linear("").focused(), &[1.0, 2.0, 3.0, 4.0, 5.0, 9.0]);
        assert!(low < 1.0);
        let (low, high) = range(Axis::linear("").focused(), &[0.9, 1.0, 1.000_01, 1.1]);
        assert!(low < 0.9 && high > 1.1, "of four values none is far");
    }

    #[test]
    fn a_fixed_range_is_kept_where_it_is_one() {
        assert_eq!(range(Axis::linear("").between(1.0, 2.0), &[0.0, 10.0]), (1.0, 2.0));
        assert_eq!(range(Axis::linear("").between(2.0, f64::NAN), &[0.0, 10.0]), (-1.0, 11.0));
    }
}
