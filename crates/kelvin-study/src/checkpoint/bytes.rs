//! Numbers and lists as little-endian bytes; reading gives `None` where something is missing or cannot be meant.

/// Writes one thing after the other.
#[derive(Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn u64(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub fn f64(&mut self, number: f64) {
        self.0.extend(number.to_le_bytes());
    }

    pub fn count(&mut self, count: usize) {
        self.u64(count as u64);
    }

    pub fn flag(&mut self, flag: bool) {
        self.0.push(u8::from(flag));
    }

    pub fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend(text.as_bytes());
    }

    pub fn f32s(&mut self, numbers: &[f32]) {
        self.count(numbers.len());
        self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }

    pub fn f64s(&mut self, numbers: &[f64]) {
        self.count(numbers.len());
        self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// Reads one thing after the other.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// How many bytes are left: where reading stopped, seen from the end.
    pub fn num_left(&self) -> usize {
        self.0.len()
    }

    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub fn f64(&mut self) -> Option<f64> {
        Some(f64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// How many things follow; each takes at least a byte, so more than there are bytes cannot be meant.
    pub fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.u64()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    pub fn flag(&mut self) -> Option<bool> {
        match self.take(1)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    pub fn text(&mut self) -> Option<String> {
        let size = self.count()?;
        String::from_utf8(self.take(size)?.to_vec()).ok()
    }

    pub fn f32s(&mut self) -> Option<Vec<f32>> {
        let count = self.count()?;
        let bytes = self.take(count.checked_mul(4)?)?;
        Some(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    pub fn f64s(&mut self) -> Option<Vec<f64>> {
        let count = self.count()?;
        let bytes = self.take(count.checked_mul(8)?)?;
        let word = |b: &[u8]| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
        Some(bytes.chunks_exact(8).map(word).collect())
    }
}
