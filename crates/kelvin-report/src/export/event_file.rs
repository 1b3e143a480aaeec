//! TensorBoard event files: a folder for each chain and search, in it one file of framed, checksummed messages.
//!
//! Written by hand: the crate that does it (tensorboard-rs 0.5) brings fifty others of years ago, and the format is small. A frame is a length, its
//! checksum, a message and its checksum; a message is a protobuf `Event` with a time, a step and scalars.

use std::path::Path;

use kelvin::write_file::{replace_folder_with, write_atomically};

use kelvin_study::findings::Findings;

const FILE_NAME: &str = "events.out.tfevents.0.kelvin";

/// What a file is called until all are whole: TensorBoard opens whatever has `tfevents` in its name.
const UNFINISHED: &str = "events.unfinished";

/// Writes the cycles of all chains and the paths of all searches, all or none of them, in the place of what `folder` holds; the names
/// of their folders.
///
/// # Errors
/// What the file system says; `folder` is then as it was.
pub fn write_events(folder: &Path, findings: &Findings) -> std::io::Result<Vec<String>> {
    let runs = runs(findings);
    replace_folder_with(folder, |inside| -> std::io::Result<()> {
        for (name, events) in &runs {
            std::fs::create_dir_all(inside.join(name))?;
            write_atomically(&inside.join(name).join(UNFINISHED), &file(events))?;
        }
        let rename = |name: &String| {
            let place = inside.join(name);
            std::fs::rename(place.join(UNFINISHED), place.join(FILE_NAME))
        };
        runs.iter().try_for_each(|(name, _)| rename(name))
    })?;
    Ok(runs.into_iter().map(|(name, _)| name).collect())
}

/// Whether a folder holds nothing but event files of kelvin, so that it may be replaced.
pub fn is_own_events(folder: &Path) -> bool {
    let names = |folder: &Path| {
        let entries = folder.read_dir().into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let is_run = |name: &String| {
        (name.starts_with("chain-") || name.starts_with("search-"))
            && names(&folder.join(name)).iter().all(|file| file.starts_with(FILE_NAME))
    };
    folder.is_dir() && names(folder).iter().all(is_run)
}

/// The events of each chain and search, with the name of its folder.
fn runs(findings: &Findings) -> Vec<(String, Vec<Event>)> {
    let mut runs = Vec::new();
    for chain in &findings.chains {
        let num_draws = chain.potential_energy.len();
        let mut events = Vec::new();
        for (draw, &energy) in chain.potential_energy.iter().enumerate() {
            let mut scalars = vec![("potential_energy", energy)];
            if let Some(kinetic) = chain.kinetic_temperature.get(draw) {
                scalars.push(("kinetic_temperature_ratio", kinetic / chain.sampler_temperature));
            }
            if let Some(configurational) = chain.configurational_temperature.get(draw) {
                scalars.push(("configurational_temperature_ratio", configurational / chain.sampler_temperature));
            }
            if let Some(lpd) = chain.validation_lpd.get(draw) {
                scalars.extend(lpd.standard.map(|lpd| ("validation_lpd/standard", lpd)));
                scalars.extend(lpd.tempered.map(|lpd| ("validation_lpd/tempered", lpd)));
            }
            // Cycles are alike, so each takes its share of the chain's time.
            let seconds = chain.seconds * (draw + 1) as f64 / num_draws as f64;
            events.push(Event { seconds, step: findings.step_of_draw(chain, draw), scalars });
        }
        runs.push((format!("chain-{}", chain.name), events));
    }
    for search in &findings.searches {
        let last = search.path.last().map_or(1, |visit| visit.step.max(1)) as f64;
        let event = |visit: &kelvin_study::findings::Visit| Event {
            seconds: search.seconds * visit.step as f64 / last,
            step: visit.step,
            scalars: vec![("search/beta", visit.beta), ("search/validation_lpd", visit.validation_lpd)],
        };
        runs.push((format!("search-{}", search.repetition + 1), search.path.iter().map(event).collect()));
    }
    runs
}

/// Scalars of one moment.
struct Event {
    /// Since the beginning; no time of day, so that the same run gives the same bytes.
    seconds: f64,
    step: u64,
    scalars: Vec<(&'static str, f64)>,
}

fn file(events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The first message names the version: field 3.
    let mut version = time(0.0);
    version.extend(delimited(3, b"brain.Event:2"));
    frame(&mut bytes, &version);
    for event in events {
        frame(&mut bytes, &event.message());
    }
    bytes
}

impl Event {
    /// Field 1 is the time, 2 the step, 5 the summary: a list (field 1) of a tag (field 1) with a number (field 2).
    fn message(&self) -> Vec<u8> {
        let mut summary = Vec::new();
        for (tag, number) in &self.scalars {
            let mut value = delimited(1, tag.as_bytes());
            value.push(2 << 3 | 5);
            value.extend((*number as f32).to_le_bytes());
            summary.extend(delimited(1, &value));
        }
        let mut message = time(self.seconds);
        message.push(2 << 3);
        message.extend(varint(self.step));
        message.extend(delimited(5, &summary));
        message
    }
}

fn time(seconds: f64) -> Vec<u8> {
    let mut bytes = vec![1 << 3 | 1];
    bytes.extend(seconds.to_le_bytes());
    bytes
}

fn delimited(field: u8, bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![field << 3 | 2];
    message.extend(varint(bytes.len() as u64));
    message.extend(bytes);
    message
}

/// Seven bits a byte, the lowest first; all but the last have the highest bit set.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn frame(out: &mut Vec<u8>, message: &[u8]) {
    let length = (message.len() as u64).to_le_bytes();
    out.extend(length);
    out.extend(masked_checksum(&length).to_le_bytes());
    out.extend(message);
    out.extend(masked_checksum(message).to_le_bytes());
}

/// CRC-32C, rotated and shifted as the format wants it, since checksums of checksums are weak.
fn masked_checksum(bytes: &[u8]) -> u32 {
    checksum(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), bit by bit: files are small.
fn checksum(bytes: &[u8]) -> u32 {
    let mut state = u32::MAX;
    for &byte in bytes {
        state ^= u32::from(byte);
        for _ in 0..8 {
            state = state >> 1 ^ if state & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !state
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of CRC-32C, and the vector of 32 zeros of RFC 3720.
    #[test]
    fn checksums_are_the_published_ones() {
        assert_eq!(checksum(b"123456789"), 0xe306_9283);
        assert_eq!(checksum(&[0; 32]), 0x8a91_36aa);
    }

    #[test]
    fn messages_are_protobuf() {
        assert_eq!(varint(1), [1]);
        assert_eq!(varint(300), [0xac, 2]);
        let event = Event { seconds: 0.0, step: 300, scalars: vec![("a", 1.0)] };
        let scalar = [0x0a, 1, b'a', 0x15, 0, 0, 0x80, 0x3f];
        let mut expected = vec![9, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0xac, 2, 0x2a, 10, 0x0a, 8];
        expected.extend(scalar);
        assert_eq!(event.message(), expected);
    }
}
