//! Thins a long trace to what can be seen: per column of the drawing its first, lowest, highest and last point.

/// The points in drawing coordinates, sorted by x or not, with at most four kept per unit of width.
pub(super) fn per_column(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept = Vec::new();
    let mut start = 0;
    while start < points.len() {
        let column = points[start].0.floor();
        let end = points[start..].iter().position(|p| p.0.floor() != column).map_or(points.len(), |n| start + n);
        let run = &points[start..end];
        if run.len() <= 4 {
            kept.extend_from_slice(run);
        } else {
            let by_height = |pick: fn(f64, f64) -> bool| {
                (1..run.len() - 1).fold(1, |best, i| if pick(run[i].1, run[best].1) { i } else { best })
            };
            let (low, high) = (by_height(|a, b| a < b), by_height(|a, b| a > b));
            let mut chosen = vec![0, low.min(high), low.max(high), run.len() - 1];
            chosen.dedup();
            kept.extend(chosen.into_iter().map(|i| run[i]));
        }
        start = end;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_survives_and_a_short_trace_is_untouched() {
        let mut trace: Vec<_> = (0..10_000).map(|i| (f64::from(i) / 1000.0, 1.0)).collect();
        trace[5_500].1 = 9.0;
        let thinned = per_column(&trace);
        assert!(thinned.len() <= 40);
        assert!(thinned.iter().any(|p| p.1 == 9.0));
        assert_eq!(per_column(&trace[..3]), &trace[..3]);
        assert!(per_column(&[]).is_empty());
    }
}
