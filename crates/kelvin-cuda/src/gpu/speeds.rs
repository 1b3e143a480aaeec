//! What a GPU could do at most, worked out from its clocks: bytes to and from memory, multiply-adds of its tensor cores and others.

/// The most that a device does in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speeds {
    /// Bytes read from memory or written to it.
    pub bytes: f64,
    /// Multiply-adds of bf16 numbers on tensor cores.
    pub half: f64,
    /// Multiply-adds of f32 numbers: plain ones, or three TF32 products on tensor cores for each.
    pub single: f64,
}

/// What a GPU says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Major and minor compute capability.
    pub capability: (i32, i32),
    /// Multiprocessors.
    pub multiprocessors: i32,
    /// Their clock.
    pub kilohertz: i32,
    /// The memory's clock; it transfers twice in each turn.
    pub memory_kilohertz: i32,
    /// Bits that memory transfers at a time.
    pub memory_bits: i32,
}

impl Speeds {
    /// By NVIDIA's tables of what a multiprocessor of each compute capability does in a turn; nothing where a clock is not told.
    pub fn of(clocks: Clocks) -> Option<Self> {
        let Clocks { capability, multiprocessors, kilohertz, memory_kilohertz, memory_bits } = clocks;
        if multiprocessors <= 0 || kilohertz <= 0 || memory_kilohertz <= 0 || memory_bits <= 0 {
            return None;
        }
        // Multiply-adds a turn: bf16 with sums in f32, and plain f32.
        let (half, plain) = match capability {
            (8, 0) => (1024.0, 64.0),
            (9, _) => (2048.0, 128.0),
            (10, _) => (4096.0, 128.0),
            _ => (256.0, 128.0),
        };
        let turns = f64::from(multiprocessors) * f64::from(kilohertz) * 1e3;
        // TF32 goes half as fast as bf16.
        let thrice = half / 6.0;
        let bytes = 2.0 * f64::from(memory_kilohertz) * 1e3 * f64::from(memory_bits) / 8.0;
        Some(Self { bytes, half: half * turns, single: f64::max(plain, thrice) * turns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Clocks = Clocks {
        capability: (9, 0),
        multiprocessors: 132,
        kilohertz: 1_830_000,
        memory_kilohertz: 3_201_000,
        memory_bits: 6144,
    };

    #[test]
    fn speeds_are_those_of_data_sheets() {
        let speeds = Speeds::of(H200).unwrap();
        assert!((speeds.bytes / 4.8e12 - 1.0).abs() < 0.03, "{speeds:?}");
        // 989 TFLOP/s of bf16, two to a multiply-add.
        assert!((speeds.half / 494.5e12 - 1.0).abs() < 0.01, "{speeds:?}");
        let a100 = Clocks {
            capability: (8, 0),
            multiprocessors: 108,
            kilohertz: 1_410_000,
            memory_kilohertz: 1_215_000,
            memory_bits: 5120,
        };
        let speeds = Speeds::of(a100).unwrap();
        assert!((speeds.half / 156e12 - 1.0).abs() < 0.01, "{speeds:?}");
        assert!((speeds.bytes / 1.555e12 - 1.0).abs() < 0.01, "{speeds:?}");
    }

    #[test]
    fn a_clock_that_is_not_told_gives_nothing() {
        assert_eq!(Speeds::of(Clocks { memory_kilohertz: 0, ..H200 }), None);
    }
}
