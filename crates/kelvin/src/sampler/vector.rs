//! The few vector operations that every update rule shares, sixteen lanes at a time.

const LANES: usize = 16;

/// Σ x², accumulated in sixteen f32 lanes and summed in f64.
#[inline(always)]
fn squares_here(values: &[f32]) -> f64 {
    let mut lanes = [0.0f32; LANES];
    let mut chunks = values.chunks_exact(LANES);
    for chunk in &mut chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = value.mul_add(value, *lane);
        }
    }
    let rest: f64 = chunks.remainder().iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    lanes.iter().map(|&lane| f64::from(lane)).sum::<f64>() + rest
}

/// Σ x².
pub fn sum_of_squares(values: &[f32]) -> f64 {
    pulp::Arch::new().dispatch(|| squares_here(values))
}

/// What a norm must be multiplied by so as not to exceed `limit`; 1 where it is below.
pub fn clip_factor(norm: f64, limit: f64) -> f64 {
    if norm < limit { 1.0 } else { limit / norm }
}

/// target = scale · target + a · x + b · y, elementwise.
#[inline(always)]
fn combine_here(target: &mut [f32], scale: f32, a: f32, x: &[f32], b: f32, y: &[f32]) {
    for ((target, &x), &y) in target.iter_mut().zip(x).zip(y) {
        *target = b.mul_add(y, a.mul_add(x, scale * *target));
    }
}

/// target = scale · target + a · x + b · y.
pub fn combine(target: &mut [f32], scale: f64, a: f64, x: &[f32], b: f64, y: &[f32]) {
    let (scale, a, b) = (scale as f32, a as f32, b as f32);
    pulp::Arch::new().dispatch(|| combine_here(target, scale, a, x, b, y));
}

/// target += a · x; returns Σ x².
pub fn add_scaled(target: &mut [f32], a: f64, x: &[f32]) -> f64 {
    let a = a as f32;
    pulp::Arch::new().dispatch(|| {
        for (target, &x) in target.iter_mut().zip(x) {
            *target = a.mul_add(x, *target);
        }
        squares_here(x)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_do_their_sums() {
        let x: Vec<f32> = (0..35).map(|i| i as f32).collect();
        assert_eq!(sum_of_squares(&x), (0..35).map(|i| f64::from(i * i)).sum::<f64>());
        let mut target = vec![1.0f32; 35];
        combine(&mut target, 2.0, 3.0, &x, -1.0, &x);
        assert!(target.iter().zip(&x).all(|(t, x)| *t == 2.0 + 2.0 * x));
        assert_eq!(add_scaled(&mut target, -2.0, &x), sum_of_squares(&x));
        assert!(target.iter().all(|t| *t == 2.0));
    }

    #[test]
    fn clips_to_the_limit_and_leaves_the_rest() {
        assert_eq!(clip_factor(3.0, 4.0), 1.0);
        assert_eq!(clip_factor(8.0, 4.0), 0.5);
    }
}
