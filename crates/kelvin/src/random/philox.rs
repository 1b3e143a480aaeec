//! Philox4x32-10: the counter-based generator behind every random number (Salmon et al., SC 2011).

/// What a random number is for; two purposes never share a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Purpose {
    /// The noise of a sampler's step.
    StepNoise = 1,
    /// The order in which an epoch visits the rows.
    BatchOrder = 2,
    /// The starting parameters of a chain.
    InitialPosition = 3,
    /// Which rows are for training, validation and testing.
    Split = 4,
    /// The rows a preconditioner is estimated from.
    Preconditioner = 5,
    /// How the images of a batch are flipped and cropped.
    Augmentation = 6,
    /// The same for the batches a preconditioner is estimated from.
    PreconditionerAugmentation = 7,
    /// The images of a generated data set.
    Synthetic = 8,
    /// The rows from which a draw's statistics of batch norms are taken anew.
    StatisticsOrder = 9,
    /// The rows of a bootstrap sample.
    Bootstrap = 10,
    /// Answers that a kept draw predicts: its outputs with their noise.
    Replication = 11,
    /// Training rows that stand for all where these are too many to be looked at.
    TrainingSample = 12,
    /// Parameters from a prior, or from the Gaussian that stands for a posterior.
    GaussianDraw = 13,
    /// Probes of the energy's curvature.
    Curvature = 14,
    /// The momenta that a trajectory of HMC begins with.
    Momentum = 15,
    /// The length of a trajectory of HMC, and whether it is accepted.
    Trajectory = 16,
    /// The noise of corrupted images.
    Corruption = 17,
}

/// Names a random number: the same on any device, with any thread count, after any restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoiseKey {
    /// The user's seed.
    pub seed: u64,
    /// What the number is for.
    pub purpose: Purpose,
    /// Which chain of the population; it must be below 2³².
    pub chain: u32,
    /// Which step (or epoch); it must be below 2⁵⁶.
    pub step: u64,
}

pub(crate) const MULTIPLIER: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
pub(crate) const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
pub(crate) const ROUNDS: usize = 10;

impl NoiseKey {
    /// The key words of the generator.
    #[inline]
    pub(crate) fn key(&self) -> [u32; 2] {
        [self.seed as u32, (self.seed >> 32) as u32]
    }

    /// The counter words of block `block`.
    #[inline]
    pub(crate) fn counter(&self, block: u32) -> [u32; 4] {
        let high = (self.purpose as u32) << 24 | (self.step >> 32) as u32 & 0x00FF_FFFF;
        [block, self.step as u32, self.chain, high]
    }

    /// Block `block` of four random words.
    pub fn words(&self, block: u32) -> [u32; 4] {
        philox4x32(self.counter(block), self.key())
    }

    /// Random number `index`, uniform on the open interval (0, 1).
    pub fn uniform(&self, index: u32) -> f64 {
        let words = self.words(index / 2);
        let at = 2 * (index % 2) as usize;
        let bits = (u64::from(words[at]) << 32 | u64::from(words[at + 1])) >> 12;
        (bits as f64 + 0.5) / (1u64 << 52) as f64
    }

    /// Random sign `index`: 1 or −1.
    pub fn sign(&self, index: u32) -> f64 {
        let word = self.words(index / 128)[(index % 128 / 32) as usize];
        if word >> (index % 32) & 1 == 0 { 1.0 } else { -1.0 }
    }
}

/// Ten rounds of Philox on one counter.
pub(crate) fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let low = u64::from(counter[0]) * u64::from(MULTIPLIER[0]);
        let high = u64::from(counter[2]) * u64::from(MULTIPLIER[1]);
        counter = [
            (high >> 32) as u32 ^ counter[1] ^ key[0],
            high as u32,
            (low >> 32) as u32 ^ counter[3] ^ key[1],
            low as u32,
        ];
        key[0] = key[0].wrapping_add(WEYL[0]);
        key[1] = key[1].wrapping_add(WEYL[1]);
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_published_test_vectors() {
        let all = u32::MAX;
        assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox4x32([all; 4], [all; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox4x32([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    /// A name whose counter and key are those of the third published vector: π in hexadecimal digits.
    const PUBLISHED: NoiseKey = NoiseKey {
        seed: 0x299f_31d0_a409_3822,
        purpose: Purpose::InitialPosition,
        chain: 0x1319_8a2e,
        step: 0x0070_7344_85a3_08d3,
    };
    const PUBLISHED_BLOCK: u32 = 0x243f_6a88;

    #[test]
    fn the_parts_of_a_name_stand_in_their_words() {
        assert_eq!(PUBLISHED.key(), [0xa409_3822, 0x299f_31d0]);
        assert_eq!(PUBLISHED.counter(PUBLISHED_BLOCK), [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344]);
        assert_eq!(PUBLISHED.words(PUBLISHED_BLOCK), [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }

    /// The first word of a pair has the high bits: 0xd16cfe0994fdc · 2⁻⁵² and 0x5001e42024126 · 2⁻⁵², each with half a unit more.
    #[test]
    fn two_words_make_a_uniform_number_high_bits_first() {
        let unit = (1u64 << 52) as f64;
        assert_eq!(PUBLISHED.uniform(2 * PUBLISHED_BLOCK), (0xd_16cf_e099_4fdc_u64 as f64 + 0.5) / unit);
        assert_eq!(PUBLISHED.uniform(2 * PUBLISHED_BLOCK + 1), (0x5_001e_4202_4126_u64 as f64 + 0.5) / unit);
    }

    #[test]
    fn each_part_of_the_name_changes_the_number() {
        let key = NoiseKey { seed: 7, purpose: Purpose::StepNoise, chain: 1, step: 2 };
        let others = [
            NoiseKey { seed: 8, ..key },
            NoiseKey { seed: 7 + (1 << 32), ..key },
            NoiseKey { purpose: Purpose::BatchOrder, ..key },
            NoiseKey { chain: 2, ..key },
            NoiseKey { step: 3, ..key },
            NoiseKey { step: 2 + (1 << 32), ..key },
        ];
        for other in others {
            assert_ne!(key.words(0), other.words(0), "{other:?}");
        }
        assert_ne!(key.words(0), key.words(1));
    }

    /// Sign i is bit i of the words: the lowest of the first word first, 0 for +1.
    #[test]
    fn signs_are_the_bits_of_the_words() {
        let key = NoiseKey { seed: 3, purpose: Purpose::Curvature, chain: 1, step: 2 };
        for index in 0..400u32 {
            let word = key.words(index / 128)[index as usize / 32 % 4];
            let bit = (u64::from(word) / 2u64.pow(index % 32)) % 2;
            assert_eq!(key.sign(index), if bit == 0 { 1.0 } else { -1.0 }, "{index}");
        }
        // Independent fair signs: the sum of 10,000 has the standard deviation 100.
        let sum: f64 = (0..10_000).map(|index| key.sign(index)).sum();
        assert!(sum.abs() < 500.0, "{sum}");
    }
}
