//! Random numbers that are named: the same seed and number give the same ones.

/// A stream of numbers (SplitMix64).
pub struct Random(u64);

impl Random {
    /// The stream of an execution.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut first = Self(seed.wrapping_mul(0xD129_0D3B_3F5C_9A47) ^ number);
        Self(first.next())
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `most`; 0 where that is 0.
    pub fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    /// One of several.
    pub fn choose<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// From 1 up, mostly small.
    pub fn few(&mut self) -> usize {
        1 + (self.next() | 1 << 6).trailing_zeros() as usize
    }
}
