//! The three matrix products of a dense layer, on row-major blocks, written so that compilers vectorise them.

use std::ops::{Add, AddAssign, Mul};

/// f32 for use, f64 for tests.
pub trait Real:
    Copy + Default + PartialOrd + Add<Output = Self> + AddAssign + Mul<Output = Self> + Send + Sync
{
    /// self · a + b with one rounding.
    fn mul_add(self, a: Self, b: Self) -> Self;
}

impl Real for f32 {
    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        f32::mul_add(self, a, b)
    }
}

impl Real for f64 {
    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        f64::mul_add(self, a, b)
    }
}

/// sum += Σ factors[i] · terms[i], where `terms` yields vectors of the length of `sum`.
#[inline(always)]
fn accumulate<'a, T: Real + 'a>(
    sum: &mut [T],
    mut factors: impl Iterator<Item = T>,
    mut terms: impl Iterator<Item = &'a [T]>,
) {
    loop {
        let Some((a, u)) = factors.next().zip(terms.next()) else { return };
        let Some((b, v)) = factors.next().zip(terms.next()) else {
            for (sum, &u) in sum.iter_mut().zip(u) {
                *sum = a.mul_add(u, *sum);
            }
            return;
        };
        for ((sum, &u), &v) in sum.iter_mut().zip(u).zip(v) {
            *sum = b.mul_add(v, a.mul_add(u, *sum));
        }
    }
}

/// outputs = bias + inputs · kernel, for every row.
#[inline(always)]
pub fn affine<T: Real>(inputs: &[T], num_inputs: usize, kernel: &[T], bias: &[T], outputs: &mut [T]) {
    let units = bias.len();
    for (row, sum) in inputs.chunks_exact(num_inputs).zip(outputs.chunks_exact_mut(units)) {
        sum.copy_from_slice(bias);
        accumulate(sum, row.iter().copied(), kernel.chunks_exact(units));
    }
}

/// kernel += inputsᵀ · outputs and bias += Σ outputs.
#[inline(always)]
pub fn accumulate_outer<T: Real>(inputs: &[T], num_inputs: usize, outputs: &[T], kernel: &mut [T], bias: &mut [T]) {
    let units = bias.len();
    for (input, sum) in kernel.chunks_exact_mut(units).enumerate() {
        accumulate(sum, inputs.iter().skip(input).step_by(num_inputs).copied(), outputs.chunks_exact(units));
    }
    for row in outputs.chunks_exact(units) {
        for (sum, &value) in bias.iter_mut().zip(row) {
            *sum += value;
        }
    }
}

/// inputs = outputs · kernelᵀ, with the kernel given transposed.
#[inline(always)]
pub fn pull_back<T: Real>(outputs: &[T], units: usize, transposed: &[T], num_inputs: usize, inputs: &mut [T]) {
    for (row, sum) in outputs.chunks_exact(units).zip(inputs.chunks_exact_mut(num_inputs)) {
        sum.fill(T::default());
        accumulate(sum, row.iter().copied(), transposed.chunks_exact(num_inputs));
    }
}

/// to = fromᵀ, where `from` has rows of `columns` numbers.
#[inline(always)]
pub fn transpose<T: Real>(from: &[T], columns: usize, to: &mut [T]) {
    let rows = from.len() / columns;
    for (r, row) in from.chunks_exact(columns).enumerate() {
        for (c, &value) in row.iter().enumerate() {
            to[c * rows + r] = value;
        }
    }
}
