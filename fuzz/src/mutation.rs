//! How files go wrong: flipped bits, cut ends, pieces lost, doubled or moved, numbers forged in binary and in text.

use crate::random::Random;

/// The most bytes that an input may grow to.
const MOST_BYTES: usize = 1 << 16;

/// Numbers at which sizes overflow, wrap, change sign or ask for all memory.
const EDGES: [u64; 22] = [
    0,
    1,
    2,
    7,
    8,
    31,
    127,
    128,
    255,
    256,
    0x7FFF,
    0xFFFF,
    0x1_0000,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0x1_0000_0000,
    1 << 40,
    1 << 61,
    i64::MAX as u64,
    1 << 63,
    u64::MAX,
];

/// The same in the words of text formats.
const NUMBERS: [&str; 26] = [
    "0",
    "-0",
    "1",
    "-1",
    "00",
    "1e999",
    "-1e999",
    "1e-999",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "1.5",
    ".5",
    "5.",
    "1_0",
    "0x10",
    "255",
    "65536",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "99999999999999999999999999999999999999",
];

/// Changes an input once; `others` are pieces to take from, `words` those of its format.
pub fn change(bytes: &mut Vec<u8>, others: &[Vec<u8>], words: &[&str], random: &mut Random) {
    let at = random.below(bytes.len());
    match random.below(14) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(piece(bytes.len(), random))),
        4 => {
            let doubled = bytes[piece(bytes.len(), random)].to_vec();
            insert(bytes, random, &doubled);
        }
        5 => {
            let other = random.choose(others);
            let taken = &other[piece(other.len(), random)];
            insert(bytes, random, taken);
        }
        6 => {
            let other = random.choose(others);
            let from = random.below(other.len());
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        7 | 8 => forge(bytes, random),
        9 | 10 => rewrite_number(bytes, random),
        11 if !words.is_empty() => {
            let word = *random.choose(words);
            insert(bytes, random, word.as_bytes());
        }
        12 => nest(bytes, random),
        _ => {
            let values: Vec<u8> = (0..random.few()).map(|_| random.next() as u8).collect();
            insert(bytes, random, &values);
        }
    }
    bytes.truncate(MOST_BYTES);
}

/// A piece of so many bytes, mostly short.
fn piece(size: usize, random: &mut Random) -> std::ops::Range<usize> {
    let begin = random.below(size + 1);
    let most = if random.below(4) == 0 { size - begin } else { (size - begin).min(32) };
    begin..begin + random.below(most + 1)
}

/// Puts something somewhere, between or in place of what is there.
fn insert(bytes: &mut Vec<u8>, random: &mut Random, what: &[u8]) {
    let at = random.below(bytes.len() + 1);
    let replaced = if random.below(2) == 0 { what.len().min(bytes.len() - at) } else { 0 };
    bytes.splice(at..at + replaced, what.iter().copied());
}

/// Writes a number of one to eight bytes over what is there: an edge, or what was there and a little more or less. Mostly near
/// the front, where headers are.
fn forge(bytes: &mut [u8], random: &mut Random) {
    let width = *random.choose(&[1, 2, 4, 8]);
    let reach = if random.below(2) == 0 { bytes.len().min(64) } else { bytes.len() };
    if reach < width {
        return;
    }
    let at = random.below(reach - width + 1);
    let mut value = [0; 8];
    value[..width].copy_from_slice(&bytes[at..at + width]);
    let value = match random.below(3) {
        0 => u64::from_le_bytes(value).wrapping_add(random.below(9) as u64).wrapping_sub(4),
        _ => random.choose(&EDGES).wrapping_add(random.below(3) as u64).wrapping_sub(1),
    };
    let target = &mut bytes[at..at + width];
    if random.below(2) == 0 {
        target.copy_from_slice(&value.to_le_bytes()[..width]);
    } else {
        target.copy_from_slice(&value.to_be_bytes()[8 - width..]);
    }
}

/// Writes another number in place of one that is there in digits.
fn rewrite_number(bytes: &mut Vec<u8>, random: &mut Random) {
    let from = random.below(bytes.len());
    let Some(begin) = bytes[from..].iter().position(u8::is_ascii_digit).map(|at| at + from) else { return };
    let is_part = |byte: &u8| byte.is_ascii_digit() || b".eE+-_".contains(byte);
    let end = bytes[begin..].iter().position(|byte| !is_part(byte)).map_or(bytes.len(), |at| at + begin);
    let number = *random.choose(&NUMBERS);
    bytes.splice(begin..end, number.bytes());
}

/// Opens brackets in one another, many times.
fn nest(bytes: &mut Vec<u8>, random: &mut Random) {
    let opened = *random.choose(&["[", "{\"a\":", "{a=", "[[", "\"", "(", "{residual={body=["]);
    let depth = 1 << random.below(13);
    let text = opened.repeat(depth);
    insert(bytes, random, text.as_bytes());
}
