//! How a value is read, and how a gradient finds its way back through the reading.
//!
//! ```text
//! read       y = max(s·z + t, 0)            scale s and shift t of each channel (batch norm), cut off at 0 (ReLU)
//! pull back  g' = g where y > 0, else 0     ∂z = a·g' + b·z + c     (b and c: batch norm's own statistics depend on z)
//! ```

use pulp::Simd;

use crate::network::kernels::{Number, PIECE};

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

    /// Vector `at` of a pixel as readers see it.
    #[inline(always)]
    fn vector<S: Simd>(&self, simd: S, at: usize, z: T::Vector<S>) -> T::Vector<S> {
        let y = match self.norm {
            Some(norm) => T::mul_add(simd, T::vectors::<S>(norm.scale)[at], z, T::vectors::<S>(norm.shift)[at]),
            None => z,
        };
        // In this order a number that is none stays none.
        if self.relu { T::max(simd, T::splat(simd, T::default()), y) } else { y }
    }

    /// Reads whole pixels; `stride` of them are whole vectors, or the reading is plain.
    #[inline(always)]
    pub fn read<S: Simd>(&self, simd: S, stride: usize, from: &[T], to: &mut [T]) {
        if self.is_plain() {
            to.copy_from_slice(from);
            return;
        }
        let (from, to) = (T::vectors::<S>(from), T::vectors_mut::<S>(to));
        let count = T::num_vectors::<S>(stride);
        for (from, to) in from.chunks_exact(count).zip(to.chunks_exact_mut(count)) {
            for at in 0..count {
                to[at] = self.vector(simd, at, from[at]);
            }
        }
    }
}

/// Writes the sum of what readers of two values see.
#[inline(always)]
pub(super) fn add_readings<S: Simd, T: Number>(
    simd: S,
    stride: usize,
    readings: [Reading<'_, T>; 2],
    values: [&[T]; 2],
    output: &mut [T],
) {
    let [left, right] = values.map(|values| T::vectors::<S>(values));
    let (output, count) = (T::vectors_mut::<S>(output), T::num_vectors::<S>(stride));
    let pixels = left.chunks_exact(count).zip(right.chunks_exact(count));
    for ((left, right), output) in pixels.zip(output.chunks_exact_mut(count)) {
        for at in 0..count {
            let term = readings[1].vector(simd, at, right[at]);
            output[at] = T::plus(simd, readings[0].vector(simd, at, left[at]), term);
        }
    }
}

impl<T: Number> PullBack<'_, T> {
    pub fn is_plain(&self) -> bool {
        self.reading.is_plain()
    }

    /// g': the gradient where the reading was not cut off.
    #[inline(always)]
    fn kept<S: Simd>(&self, simd: S, at: usize, z: T::Vector<S>, g: T::Vector<S>) -> T::Vector<S> {
        if !self.reading.relu {
            return g;
        }
        let uncut = Reading { relu: false, ..self.reading };
        T::where_positive(simd, uncut.vector(simd, at, z), g)
    }

    /// ∂z of vector `at` of a pixel.
    #[inline(always)]
    fn vector<S: Simd>(&self, simd: S, at: usize, z: T::Vector<S>, g: T::Vector<S>) -> T::Vector<S> {
        let kept = self.kept(simd, at, z, g);
        match self.slopes {
            None => kept,
            Some([a, b, c]) => {
                let own = T::mul_add(simd, T::vectors::<S>(b)[at], z, T::vectors::<S>(c)[at]);
                T::mul_add(simd, T::vectors::<S>(a)[at], kept, own)
            }
        }
    }

    /// Writes ∂z of whole pixels.
    #[inline(always)]
    pub fn pull<S: Simd>(&self, simd: S, stride: usize, values: &[T], gradients: &[T], to: &mut [T]) {
        if self.is_plain() {
            to.copy_from_slice(gradients);
            return;
        }
        let (values, gradients, to) = (T::vectors::<S>(values), T::vectors::<S>(gradients), T::vectors_mut::<S>(to));
        let count = T::num_vectors::<S>(stride);
        let pixels = values.chunks_exact(count).zip(gradients.chunks_exact(count));
        for ((z, g), to) in pixels.zip(to.chunks_exact_mut(count)) {
            for at in 0..count {
                to[at] = self.vector(simd, at, z[at], g[at]);
            }
        }
    }

    /// The same in place.
    #[inline(always)]
    pub fn pull_in_place<S: Simd>(&self, simd: S, stride: usize, values: &[T], gradients: &mut [T]) {
        let (values, gradients) = (T::vectors::<S>(values), T::vectors_mut::<S>(gradients));
        let count = T::num_vectors::<S>(stride);
        for (z, g) in values.chunks_exact(count).zip(gradients.chunks_exact_mut(count)) {
            for at in 0..count {
                g[at] = self.vector(simd, at, z[at], g[at]);
            }
        }
    }

    /// Adds Σ g' and Σ g'·z of each channel: first all of the one, then all of the other.
    #[inline(always)]
    pub fn add_sums<S: Simd>(
        &self,
        simd: S,
        stride: usize,
        line: usize,
        values: &[T],
        gradients: &[T],
        sums: &mut [f64],
    ) {
        let (sums, products) = sums.split_at_mut(stride);
        let count = T::num_vectors::<S>(stride);
        for (values, gradients) in values.chunks(line).zip(gradients.chunks(line)) {
            let (values, gradients) = (T::vectors::<S>(values), T::vectors::<S>(gradients));
            for at in 0..count {
                let mut sum = T::splat(simd, T::default());
                let mut product = sum;
                for (z, g) in values.chunks_exact(count).zip(gradients.chunks_exact(count)) {
                    let kept = self.kept(simd, at, z[at], g[at]);
                    sum = T::plus(simd, sum, kept);
                    product = T::mul_add(simd, kept, z[at], product);
                }
                add_lanes::<S, T>(at, sum, sums);
                add_lanes::<S, T>(at, product, products);
            }
        }
    }
}

/// Adds Σ z and Σ z² of each channel: first all of the one, then all of the other. A line's sums are taken in single
/// precision, those of lines in double.
#[inline(always)]
pub(super) fn add_moments<S: Simd, T: Number>(simd: S, stride: usize, line: usize, values: &[T], sums: &mut [f64]) {
    let (sums, squares) = sums.split_at_mut(stride);
    let count = T::num_vectors::<S>(stride);
    for values in values.chunks(line) {
        let values = T::vectors::<S>(values);
        for at in 0..count {
            let mut sum = T::splat(simd, T::default());
            let mut square = sum;
            for z in values.chunks_exact(count) {
                sum = T::plus(simd, sum, z[at]);
                square = T::mul_add(simd, z[at], z[at], square);
            }
            add_lanes::<S, T>(at, sum, sums);
            add_lanes::<S, T>(at, square, squares);
        }
    }
}

/// Adds Σ z of each channel.
#[inline(always)]
pub(super) fn add_columns<S: Simd, T: Number>(simd: S, stride: usize, line: usize, values: &[T], sums: &mut [f64]) {
    let count = T::num_vectors::<S>(stride);
    for values in values.chunks(line) {
        let values = T::vectors::<S>(values);
        for at in 0..count {
            let mut sum = T::splat(simd, T::default());
            for z in values.chunks_exact(count) {
                sum = T::plus(simd, sum, z[at]);
            }
            add_lanes::<S, T>(at, sum, sums);
        }
    }
}

/// Adds the numbers of vector `at` to theirs among the sums.
#[inline(always)]
fn add_lanes<S: Simd, T: Number>(at: usize, vector: T::Vector<S>, sums: &mut [f64]) {
    let mut lanes = [T::default(); PIECE];
    T::vectors_mut::<S>(&mut lanes)[0] = vector;
    let num_lanes = PIECE / T::num_vectors::<S>(PIECE);
    for (sum, lane) in sums[at * num_lanes..][..num_lanes].iter_mut().zip(lanes) {
        *sum += lane.to_f64();
    }
}
