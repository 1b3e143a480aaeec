//! One .npz file, as `numpy.load` opens it: a zip of .npy arrays, stored without compression so that all can grow side by side.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

use super::array::{Array, Contents, Element, Sink, text_bytes};

const COORDINATES: &str = "coordinates";
/// 1 January 1980, the beginning of the format's time: the same run gives the same bytes.
const DATE: u16 = 0x21;
/// Sizes beyond 4 GiB have a field of their own in version 4.5; names are UTF-8.
const VERSION: u16 = 45;
const UTF8: u16 = 1 << 11;
const LOCAL_EXTRA: u16 = 20;
const CENTRAL_EXTRA: u16 = 28;

/// A file that is being written: all lengths are known before, so each array has its place.
pub struct NpzFile<'f> {
    file: &'f mut File,
    entries: Vec<Entry>,
}

struct Entry {
    name: String,
    header: u64,
    start: u64,
    len: u64,
    written: u64,
    crc: crc32fast::Hasher,
}

impl Entry {
    fn next(&self) -> u64 {
        self.start + self.len
    }
}

impl<'f> NpzFile<'f> {
    /// Gives everything its place, and writes coordinates and attributes.
    pub fn create(file: &'f mut File, contents: &Contents) -> io::Result<Self> {
        let mut npz = Self { file, entries: Vec::new() };
        for array in &contents.arrays {
            npz.place(format!("{}/{}", array.group, array.name), array)?;
        }
        for coordinate in &contents.coordinates {
            let array = coordinate.array(COORDINATES);
            let entry = npz.place(format!("{COORDINATES}/{}", array.name), &array)?;
            npz.append(entry, &coordinate.bytes)?;
        }
        let text = serde_json::to_string(&contents.attributes)?;
        let width = text.chars().count().max(1);
        let word = |element| Array { group: "", name: String::new(), dims: Vec::new(), element, about: String::new() };
        let entry = npz.place("attributes".into(), &word(Element::Text(width)))?;
        npz.append(entry, &text_bytes(&text, width))?;
        Ok(npz)
    }

    fn place(&mut self, name: String, array: &Array) -> io::Result<usize> {
        let head = npy_header(array);
        let name = name + ".npy";
        let header = self.entries.last().map_or(0, Entry::next);
        let start = header + 30 + name.len() as u64 + u64::from(LOCAL_EXTRA);
        let len = (head.len() + array.num_bytes()) as u64;
        self.entries.push(Entry { name, header, start, len, written: 0, crc: crc32fast::Hasher::new() });
        let entry = self.entries.len() - 1;
        self.append(entry, &head)?;
        Ok(entry)
    }

    /// Writes the headers, whose checksums are known now.
    pub fn finish(self) -> io::Result<()> {
        let mut directory = Vec::new();
        for entry in &self.entries {
            if entry.written != entry.len {
                return Err(io::Error::other(format!("{} of {} bytes of {}", entry.written, entry.len, entry.name)));
            }
            let crc = entry.crc.clone().finalize();
            // What the two kinds of header share, from the version that is needed to the length of the name.
            let mut shared = Vec::new();
            for number in [VERSION, UTF8, 0, 0, DATE] {
                shared.extend(number.to_le_bytes());
            }
            for number in [crc, u32::MAX, u32::MAX] {
                shared.extend(number.to_le_bytes());
            }
            shared.extend((entry.name.len() as u16).to_le_bytes());

            let mut local = 0x0403_4b50_u32.to_le_bytes().to_vec();
            local.extend(&shared);
            local.extend(LOCAL_EXTRA.to_le_bytes());
            local.extend(entry.name.as_bytes());
            local.extend([1, 0, 16, 0]);
            local.extend(entry.len.to_le_bytes());
            local.extend(entry.len.to_le_bytes());
            self.file.seek(SeekFrom::Start(entry.header))?;
            self.file.write_all(&local)?;

            directory.extend(0x0201_4b50_u32.to_le_bytes());
            directory.extend(VERSION.to_le_bytes());
            directory.extend(&shared);
            directory.extend(CENTRAL_EXTRA.to_le_bytes());
            // No comment, first disk, no attributes; the offset is in the field for large ones.
            directory.extend([0; 10]);
            directory.extend(u32::MAX.to_le_bytes());
            directory.extend(entry.name.as_bytes());
            directory.extend([1, 0, 24, 0]);
            for number in [entry.len, entry.len, entry.header] {
                directory.extend(number.to_le_bytes());
            }
        }
        let (start, size, count) =
            (self.entries.last().map_or(0, Entry::next), directory.len() as u64, self.entries.len());
        let mut end = 0x0606_4b50_u32.to_le_bytes().to_vec();
        end.extend(44_u64.to_le_bytes());
        end.extend([VERSION, VERSION].iter().flat_map(|number| number.to_le_bytes()));
        end.extend([0; 8]);
        for number in [count as u64, count as u64, size, start] {
            end.extend(number.to_le_bytes());
        }
        // Where the record above is, and the old end, which points to it by being full.
        end.extend(0x0706_4b50_u32.to_le_bytes());
        end.extend([0; 4]);
        end.extend((start + size).to_le_bytes());
        end.extend(1_u32.to_le_bytes());
        end.extend(0x0605_4b50_u32.to_le_bytes());
        end.extend([0; 4]);
        end.extend([u16::MAX; 2].iter().flat_map(|number| number.to_le_bytes()));
        end.extend([u32::MAX; 2].iter().flat_map(|number| number.to_le_bytes()));
        end.extend([0; 2]);
        self.file.seek(SeekFrom::Start(start))?;
        self.file.write_all(&directory)?;
        self.file.write_all(&end)
    }
}

impl Sink for NpzFile<'_> {
    fn append(&mut self, array: usize, bytes: &[u8]) -> io::Result<()> {
        let entry = &mut self.entries[array];
        self.file.seek(SeekFrom::Start(entry.start + entry.written))?;
        self.file.write_all(bytes)?;
        entry.written += bytes.len() as u64;
        entry.crc.update(bytes);
        Ok(())
    }
}

/// The head of a .npy file, version 1: a Python dictionary, filled up to 64 bytes.
fn npy_header(array: &Array) -> Vec<u8> {
    let shape: String = array.shape().iter().map(|len| format!("{len}, ")).collect();
    let mut text = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({shape}), }}", array.element.name());
    let full = (10 + text.len() + 1).next_multiple_of(64);
    text.push_str(&" ".repeat(full - 10 - text.len() - 1));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}
