//! A keyed permutation of 0..len, computed position by position: the order of an epoch with no table to store.
//!
//! A Feistel network over a rectangle `left × right ≥ len`, nearly square and just large enough; positions
//! that fall outside are sent round again, which keeps it a permutation.

use super::philox::{NoiseKey, Purpose};

const ROUNDS: usize = 8;
/// Narrower rectangles mix badly: a short order is walked out of a larger one.
const SMALLEST_SIDE: u32 = 16;

/// A random order of `len` things, named by a key.
#[derive(Clone, Debug)]
pub struct Permutation {
    len: u32,
    left: u32,
    right: u32,
    keys: [u32; ROUNDS],
}

impl Permutation {
    /// The order named by seed, purpose, chain and epoch.
    ///
    /// # Panics
    /// If `len` is not below 2³¹.
    pub fn new(seed: u64, purpose: Purpose, chain: u32, epoch: u64, len: usize) -> Self {
        assert!(len < 1 << 31, "a permutation holds fewer than 2^31 things, got {len}");
        let name = NoiseKey { seed, purpose, chain, step: epoch };
        let (a, b) = (name.words(0), name.words(1));
        let len = len as u32;
        let right = (f64::from(len).sqrt().ceil() as u32).max(SMALLEST_SIDE);
        let left = len.div_ceil(right).max(SMALLEST_SIDE);
        Self { len, left, right, keys: [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]] }
    }

    /// How many things are ordered.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is nothing to order.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The thing at `position`.
    #[inline]
    pub fn at(&self, position: usize) -> usize {
        debug_assert!(position < self.len());
        self.walk(position as u32) as usize
    }

    /// Goes round until it lands inside.
    #[inline]
    fn walk(&self, mut index: u32) -> u32 {
        loop {
            index = self.once(index);
            if index < self.len {
                return index;
            }
        }
    }

    /// Writes the things at positions `first..first + out.len()`.
    pub fn fill(&self, first: usize, out: &mut [u32]) {
        debug_assert!(first + out.len() <= self.len());
        crate::vector::dispatch(Fill { order: self, first: first as u32, out });
    }

    #[inline]
    fn once(&self, index: u32) -> u32 {
        let mut left = index / self.right;
        let mut right = index % self.right;
        for pair in self.keys.chunks_exact(2) {
            left = shifted(left, mixed(right, pair[0]), self.left);
            right = shifted(right, mixed(left, pair[1]), self.right);
        }
        left * self.right + right
    }
}

/// A well-mixed hash of one word under a key.
#[inline(always)]
fn mixed(value: u32, key: u32) -> u32 {
    let mut word = value ^ key;
    word = (word ^ word >> 16).wrapping_mul(0x7FEB_352D);
    word = (word ^ word >> 15).wrapping_mul(0x846C_A68B);
    word ^ word >> 16
}

/// `(value + a random number below modulus) mod modulus`, for a modulus below 2¹⁶.
#[inline(always)]
fn shifted(value: u32, random: u32, modulus: u32) -> u32 {
    let sum = value + (((random >> 16) * modulus) >> 16);
    // Below the modulus the difference wraps round and is the larger one.
    sum.min(sum.wrapping_sub(modulus))
}

/// Many positions at a time, so that their rounds overlap; the few that fall outside are walked on one by one.
struct Fill<'a> {
    order: &'a Permutation,
    first: u32,
    out: &'a mut [u32],
}

impl pulp::NullaryFnOnce for Fill<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        const LANES: usize = 64;
        let Self { order, first, out } = self;
        let (mut next_left, mut next_right) = (first / order.right, first % order.right);
        for out in out.chunks_mut(LANES) {
            let (mut left, mut right) = ([0; LANES], [0; LANES]);
            for lane in 0..LANES {
                (left[lane], right[lane]) = (next_left, next_right);
                next_right += 1;
                if next_right == order.right {
                    (next_left, next_right) = (next_left + 1, 0);
                }
            }
            for pair in order.keys.chunks_exact(2) {
                for lane in 0..LANES {
                    left[lane] = shifted(left[lane], mixed(right[lane], pair[0]), order.left);
                }
                for lane in 0..LANES {
                    right[lane] = shifted(right[lane], mixed(left[lane], pair[1]), order.right);
                }
            }
            for ((out, &left), &right) in out.iter_mut().zip(&left).zip(&right) {
                let index = left * order.right + right;
                *out = if index < order.len { index } else { order.walk(index) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(epoch: u64, len: usize) -> Vec<usize> {
        let permutation = Permutation::new(3, Purpose::BatchOrder, 5, epoch, len);
        (0..len).map(|position| permutation.at(position)).collect()
    }

    /// Worked out from the published generator in Python: which words are the keys of which rounds, and how a position is cut.
    #[test]
    fn orders_are_those_of_the_description() {
        assert_eq!(order(7, 12), [4, 2, 3, 6, 11, 1, 8, 10, 0, 9, 5, 7]);
        assert_eq!(order(7, 400)[..6], [398, 259, 342, 266, 96, 178]);
        let split = Permutation::new(1, Purpose::Split, 0, 0, 1030);
        assert_eq!([0, 1, 2, 3, 4, 5].map(|position| split.at(position)), [943, 1009, 276, 871, 579, 47]);
    }

    #[test]
    fn visits_everything_once() {
        for len in [1, 2, 3, 7, 64, 97, 614, 9547] {
            let mut seen = order(0, len);
            seen.sort_unstable();
            assert_eq!(seen, (0..len).collect::<Vec<_>>(), "len {len}");
        }
    }

    #[test]
    fn many_at_once_are_the_same_as_one_by_one() {
        for len in [5, 97, 9547] {
            let permutation = Permutation::new(1, Purpose::BatchOrder, 0, 9, len);
            let first = len / 3;
            let mut many = vec![0; len - first];
            permutation.fill(first, &mut many);
            assert!(many.iter().enumerate().all(|(i, &thing)| thing as usize == permutation.at(first + i)));
        }
    }

    /// χ² of (position, value) and of neighbouring values over many epochs: mean = degrees of freedom, z < 5.
    #[test]
    fn is_uniform_over_positions_and_neighbours() {
        const LEN: usize = 12;
        const EPOCHS: u64 = 40_000;
        let (mut place, mut next) = ([[0u32; LEN]; LEN], [[0u32; LEN]; LEN]);
        for epoch in 0..EPOCHS {
            let order = order(epoch, LEN);
            for (position, &value) in order.iter().enumerate() {
                place[position][value] += 1;
            }
            for pair in order.windows(2) {
                next[pair[0]][pair[1]] += 1;
            }
        }
        let chi_square = |counts: &[[u32; LEN]; LEN], expected: f64, skip_diagonal: bool| -> f64 {
            let mut sum = 0.0;
            for (row, counts) in counts.iter().enumerate() {
                for (column, &count) in counts.iter().enumerate() {
                    if !(skip_diagonal && row == column) {
                        sum += (f64::from(count) - expected).powi(2) / expected;
                    }
                }
            }
            sum
        };
        let expected = EPOCHS as f64 / LEN as f64;
        let freedom = ((LEN - 1) * (LEN - 1)) as f64;
        let z = (chi_square(&place, expected, false) - freedom) / (2.0 * freedom).sqrt();
        assert!(z.abs() < 5.0, "positions: z = {z}");
        let expected = EPOCHS as f64 * (LEN - 1) as f64 / (LEN * (LEN - 1)) as f64;
        let freedom = (LEN * (LEN - 1) - 1) as f64;
        let z = (chi_square(&next, expected, true) - freedom) / (2.0 * freedom).sqrt();
        assert!(z.abs() < 5.0, "neighbours: z = {z}");
    }

    #[test]
    fn it_has_as_many_positions_as_things() {
        for len in [0, 1, 97] {
            let permutation = Permutation::new(1, Purpose::Split, 0, 0, len);
            assert_eq!((permutation.len(), permutation.is_empty()), (len, len == 0));
        }
    }
}
