//! A score measured on a grid of β, between its points: a parabola where it is largest, straight lines elsewhere.
//!
//! In s = log β. The parabola goes through the best point and its two neighbours. Since the middle of the three is the largest,
//! its vertex lies no further than half-way to a neighbour: it cannot run off, and noise elsewhere on the grid does not move
//! it. It is no better than the grid is fine: where the true curve is skewed, points a factor of three apart put the vertex up to
//! about 0.01 nats of LPD below the top. Monotone cubics, which are made not to overshoot, always put the maximum on a grid point and so never interpolate it.

/// Scores over log β, the best of them inside or at an end.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// (log β, score), in increasing order.
    points: Vec<(f64, f64)>,
    best: usize,
}

impl Curve {
    /// The curve through these (β, score), larger scores better; points that are not finite are left out, and nothing is
    /// left of none.
    pub fn new(scores: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        let mut points: Vec<(f64, f64)> = scores
            .into_iter()
            .map(|(beta, score)| (beta.ln(), score))
            .filter(|(log_beta, score)| log_beta.is_finite() && score.is_finite())
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.dedup_by_key(|point| point.0);
        // Of equals the first.
        let best = (0..points.len()).rev().max_by(|&a, &b| points[a].1.total_cmp(&points[b].1))?;
        Some(Self { points, best })
    }

    /// The grid's β, in increasing order.
    pub fn inverse_temperatures(&self) -> Vec<f64> {
        self.points.iter().map(|(log_beta, _)| log_beta.exp()).collect()
    }

    /// The point of the grid with the best score: its place, and its β.
    pub fn best_point(&self) -> (usize, f64) {
        (self.best, self.points[self.best].0.exp())
    }

    /// The β where the interpolated score is largest.
    pub fn best_inverse_temperature(&self) -> f64 {
        let middle = self.points[self.best].0;
        match self.parabola() {
            Some((slope, curvature)) if curvature < 0.0 => (middle - slope / curvature).exp(),
            _ => middle.exp(),
        }
    }

    /// First and second derivative, at the best point, of the parabola through it and its neighbours.
    fn parabola(&self) -> Option<(f64, f64)> {
        let before = *self.points.get(self.best.checked_sub(1)?)?;
        let (at, after) = (self.points[self.best], *self.points.get(self.best + 1)?);
        let (left, right) = (at.0 - before.0, after.0 - at.0);
        let (rise, fall) = ((at.1 - before.1) / left, (after.1 - at.1) / right);
        Some(((rise * right + fall * left) / (left + right), 2.0 * (fall - rise) / (left + right)))
    }

    /// The interpolated score; beyond the ends that of the end.
    pub fn score(&self, log_beta: f64) -> f64 {
        let next = self.points.partition_point(|point| point.0 < log_beta);
        if next == 0 || next == self.points.len() {
            return self.points[next.min(self.points.len() - 1)].1;
        }
        if let (true, Some((slope, curvature))) = (next == self.best || next == self.best + 1, self.parabola()) {
            let (at, top) = self.points[self.best];
            let away = log_beta - at;
            return top + away * (slope + 0.5 * curvature * away);
        }
        let ((left, low), (right, high)) = (self.points[next - 1], self.points[next]);
        low + (high - low) * (log_beta - left) / (right - left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parabola_in_log_beta_is_found_exactly() {
        let top = 1.7f64;
        let score = |beta: f64| 0.3 - 2.0 * (beta.ln() - top.ln()).powi(2);
        let curve = Curve::new([0.1, 0.3, 1.0, 3.0, 10.0].map(|beta| (beta, score(beta)))).unwrap();
        assert_eq!(curve.best_point(), (2, 1.0));
        assert!((curve.best_inverse_temperature() - top).abs() < 1e-12);
        assert!((curve.score(2.0f64.ln()) - score(2.0)).abs() < 1e-12);
        assert!((curve.score(0.5f64.ln()) - score(0.5)).abs() < 1e-12);
        let line = 0.5 * (score(0.1) + score(0.3));
        assert!((curve.score(0.5 * (0.1f64.ln() + 0.3f64.ln())) - line).abs() < 1e-12);
    }

    #[test]
    fn the_vertex_stays_near_the_best_point() {
        // However steep one side is, the vertex is at most half-way to the better neighbour.
        for cliff in [1.0, 10.0, 1e6] {
            let curve = Curve::new([(1.0, -cliff), (2.0, 1.0), (4.0, 0.9999)]).unwrap();
            let best = curve.best_inverse_temperature();
            assert!((2.0..=2.0 * 2f64.sqrt()).contains(&best), "{best}");
        }
    }

    #[test]
    fn ends_flats_and_holes() {
        assert_eq!(Curve::new([(1.0, f64::NAN)]), None);
        let rising = Curve::new([(1.0, 0.0), (10.0, 1.0)]).unwrap();
        assert!((rising.best_inverse_temperature() - 10.0).abs() < 1e-12);
        assert_eq!((rising.score(-3.0), rising.score(9.0)), (0.0, 1.0));
        let flat = Curve::new([(1.0, 2.0), (2.0, 2.0), (4.0, 2.0)]).unwrap();
        assert_eq!(flat.best_inverse_temperature(), 1.0);
        let holed = Curve::new([(4.0, 0.0), (2.0, f64::NEG_INFINITY), (1.0, -1.0)]).unwrap();
        assert_eq!(holed.inverse_temperatures().len(), 2);
    }
}
