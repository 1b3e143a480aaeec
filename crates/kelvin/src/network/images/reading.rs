//! How a value is read, and how a gradient finds its way back through the reading.
//!
//! ```text
//! read       y = max(s·z + t, 0)            scale s and shift t of each channel (batch norm), cut off at 0 (ReLU)
//! pull back  g' = g where y > 0, else 0     ∂z = a·g' + b·z + c     (b and c: batch norm's own statistics depend on z)
//! ```

use super::kernels::{Number, PIECE};

/// How a value is read. Scale and shift have one number for each channel, padding included (zeros there).
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading<'a, T> {
    pub norm: Option<Affine<'a, T>>,
    pub relu: bool,
}

/// s and t of each channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Affine<'a, T> {
    pub scale: &'a [T],
    pub shift: &'a [T],
}

/// From the gradient of what readers saw to that of the value.
#[derive(Clone, Copy, Debug)]
pub(super) struct PullBack<'a, T> {
    pub reading: Reading<'a, T>,
    /// a, b and c of each channel, where there is a batch norm.
    pub slopes: Option<[&'a [T]; 3]>,
}

impl<T: Number> Reading<'_, T> {
    pub fn is_plain(&self) -> bool {
        self.norm.is_none() && !self.relu
    }

    /// Reads one number of a channel.
    #[inline(always)]
    pub fn one(&self, channel: usize, z: T) -> T {
        let y = self.norm.map_or(z, |norm| norm.scale[channel] * z + norm.shift[channel]);
        if self.relu { y.larger(T::default()) } else { y }
    }

    /// Reads whole pixels of `stride` numbers.
    #[inline(always)]
    pub fn read(&self, stride: usize, from: &[T], to: &mut [T]) {
        match (self.norm, self.relu) {
            (None, false) => to.copy_from_slice(from),
            (None, true) => {
                for (to, &z) in to.iter_mut().zip(from) {
                    *to = z.larger(T::default());
                }
            }
            (Some(norm), relu) => {
                let (scale, shift) = (norm.scale.as_chunks::<PIECE>().0, norm.shift.as_chunks::<PIECE>().0);
                let pixels = from.chunks_exact(stride).zip(to.chunks_exact_mut(stride));
                for (from, to) in pixels {
                    let pieces = from.as_chunks::<PIECE>().0.iter().zip(to.as_chunks_mut::<PIECE>().0);
                    for ((from, to), (s, t)) in pieces.zip(scale.iter().zip(shift)) {
                        for i in 0..PIECE {
                            let y = s[i] * from[i] + t[i];
                            to[i] = if relu { y.larger(T::default()) } else { y };
                        }
                    }
                }
            }
        }
    }
}

impl<T: Number> PullBack<'_, T> {
    pub fn is_plain(&self) -> bool {
        self.reading.is_plain()
    }

    /// g': the gradient where the reading was not cut off.
    #[inline(always)]
    fn kept(&self, z: T, s: T, t: T, g: T) -> T {
        if !self.reading.relu || s * z + t > T::default() { g } else { T::default() }
    }

    /// Writes ∂z of whole pixels.
    #[inline(always)]
    pub fn pull(&self, stride: usize, values: &[T], gradients: &[T], to: &mut [T]) {
        match (self.reading.norm, self.slopes) {
            (Some(norm), Some(slopes)) => {
                let (scale, shift) = (norm.scale.as_chunks::<PIECE>().0, norm.shift.as_chunks::<PIECE>().0);
                let [a, b, c] = slopes.map(|slope| slope.as_chunks::<PIECE>().0);
                let pixels = values.chunks_exact(stride).zip(gradients.chunks_exact(stride));
                for ((z, g), to) in pixels.zip(to.chunks_exact_mut(stride)) {
                    let (z, g) = (z.as_chunks::<PIECE>().0, g.as_chunks::<PIECE>().0);
                    for (piece, to) in to.as_chunks_mut::<PIECE>().0.iter_mut().enumerate() {
                        let (z, g, s, t) = (&z[piece], &g[piece], &scale[piece], &shift[piece]);
                        let (a, b, c) = (&a[piece], &b[piece], &c[piece]);
                        for i in 0..PIECE {
                            let kept = self.kept(z[i], s[i], t[i], g[i]);
                            to[i] = a[i] * kept + (b[i] * z[i] + c[i]);
                        }
                    }
                }
            }
            _ if self.reading.relu => {
                for ((to, &z), &g) in to.iter_mut().zip(values).zip(gradients) {
                    *to = if z > T::default() { g } else { T::default() };
                }
            }
            _ => to.copy_from_slice(gradients),
        }
    }

    /// The same in place.
    #[inline(always)]
    pub fn pull_in_place(&self, stride: usize, values: &[T], gradients: &mut [T]) {
        match (self.reading.norm, self.slopes) {
            (Some(norm), Some(slopes)) => {
                let (scale, shift) = (norm.scale.as_chunks::<PIECE>().0, norm.shift.as_chunks::<PIECE>().0);
                let [a, b, c] = slopes.map(|slope| slope.as_chunks::<PIECE>().0);
                for (z, g) in values.chunks_exact(stride).zip(gradients.chunks_exact_mut(stride)) {
                    let z = z.as_chunks::<PIECE>().0;
                    for (piece, g) in g.as_chunks_mut::<PIECE>().0.iter_mut().enumerate() {
                        let (z, s, t) = (&z[piece], &scale[piece], &shift[piece]);
                        let (a, b, c) = (&a[piece], &b[piece], &c[piece]);
                        for i in 0..PIECE {
                            let kept = self.kept(z[i], s[i], t[i], g[i]);
                            g[i] = a[i] * kept + (b[i] * z[i] + c[i]);
                        }
                    }
                }
            }
            _ if self.reading.relu => {
                for (g, &z) in gradients.iter_mut().zip(values) {
                    *g = if z > T::default() { *g } else { T::default() };
                }
            }
            _ => {}
        }
    }

    /// Adds Σ g' and Σ g'·z of each channel: first all of the one, then all of the other.
    #[inline(always)]
    pub fn add_sums(&self, stride: usize, line: usize, values: &[T], gradients: &[T], sums: &mut [f64]) {
        let Some(norm) = self.reading.norm else { return };
        let (sums, products) = sums.split_at_mut(stride);
        let (scale, shift) = (norm.scale.as_chunks::<PIECE>().0, norm.shift.as_chunks::<PIECE>().0);
        for (values, gradients) in values.chunks(line).zip(gradients.chunks(line)) {
            for (piece, (s, t)) in scale.iter().zip(shift).enumerate() {
                let (mut sum, mut product) = ([T::default(); PIECE], [T::default(); PIECE]);
                for (z, g) in values.chunks_exact(stride).zip(gradients.chunks_exact(stride)) {
                    let (z, g) = (&z.as_chunks::<PIECE>().0[piece], &g.as_chunks::<PIECE>().0[piece]);
                    for i in 0..PIECE {
                        let kept = self.kept(z[i], s[i], t[i], g[i]);
                        sum[i] += kept;
                        product[i] += kept * z[i];
                    }
                }
                add_to(&mut sums[piece * PIECE..], &sum);
                add_to(&mut products[piece * PIECE..], &product);
            }
        }
    }
}

/// Adds Σ z and Σ z² of each channel: first all of the one, then all of the other. A line's sums are taken in single
/// precision, those of lines in double.
#[inline(always)]
pub(super) fn add_moments<T: Number>(stride: usize, line: usize, values: &[T], sums: &mut [f64]) {
    let (sums, squares) = sums.split_at_mut(stride);
    for values in values.chunks(line) {
        for piece in 0..stride / PIECE {
            let (mut sum, mut square) = ([T::default(); PIECE], [T::default(); PIECE]);
            for z in values.chunks_exact(stride) {
                let z = &z.as_chunks::<PIECE>().0[piece];
                for i in 0..PIECE {
                    sum[i] += z[i];
                    square[i] += z[i] * z[i];
                }
            }
            add_to(&mut sums[piece * PIECE..], &sum);
            add_to(&mut squares[piece * PIECE..], &square);
        }
    }
}

/// Adds Σ z of each channel.
#[inline(always)]
pub(super) fn add_columns<T: Number>(stride: usize, line: usize, values: &[T], sums: &mut [f64]) {
    for values in values.chunks(line) {
        for piece in 0..stride / PIECE {
            let mut sum = [T::default(); PIECE];
            for z in values.chunks_exact(stride) {
                let z = &z.as_chunks::<PIECE>().0[piece];
                for i in 0..PIECE {
                    sum[i] += z[i];
                }
            }
            add_to(&mut sums[piece * PIECE..], &sum);
        }
    }
}

#[inline(always)]
fn add_to<T: Number>(sums: &mut [f64], terms: &[T; PIECE]) {
    for (sum, term) in sums.iter_mut().zip(terms) {
        *sum += term.to_f64();
    }
}
