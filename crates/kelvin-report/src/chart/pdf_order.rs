//! Numbers the objects of a PDF file in the order in which they are used: its writer goes by hashes of the moment, and the same figure
//! should be the same bytes.

use std::collections::BTreeMap;

/// Dictionaries whose entries the writer orders at random, each in a line.
const RESOURCES: [&str; 6] =
    ["/XObject <<", "/Pattern <<", "/ExtGState <<", "/Shading <<", "/Font <<", "/ColorSpace <<"];

/// The same file with its objects numbered and written in the order of use, from the root on; `None` for what is no PDF of our writer.
pub fn in_order_of_use(pdf: &[u8]) -> Option<Vec<u8>> {
    let end = pdf.windows(11).rposition(|part| part == b"\nstartxref\n")?;
    let table: usize = std::str::from_utf8(&pdf[end..]).ok()?.lines().nth(2)?.parse().ok()?;
    let (entries, trailer) = std::str::from_utf8(pdf.get(table..end)?).ok()?.split_once("trailer\n")?;
    // Each object begins where the table says, and ends where the next one or the table begins.
    let offset =
        |(number, line): (usize, &str)| Some((line.contains(" n").then_some(number)?, line.get(..10)?.parse().ok()?));
    let offsets: Vec<(usize, usize)> = entries.lines().skip(2).enumerate().filter_map(offset).collect();
    let ends: Vec<usize> = offsets.iter().map(|&(_, start)| start).chain([table]).collect();
    let mut objects = BTreeMap::new();
    for &(number, start) in &offsets {
        let end = *ends.iter().filter(|&&end| end > start).min()?;
        objects.insert(number, Object::of(pdf.get(start..end)?)?);
    }

    let mut used = Numbers::default();
    let trailer = used.renumber(trailer)?;
    let mut file = pdf[..*ends.iter().min()?].to_vec();
    let mut table = String::from("0000000000 65535 f\r\n");
    let mut next = 0;
    while let Some(number) = used.order.get(next).copied() {
        next += 1;
        table.push_str(&format!("{:010} 00000 n\r\n", file.len()));
        let Object { dictionary, rest } = objects.get(&number)?;
        file.extend(format!("{next} 0 obj\n{}", used.renumber(&with_sorted_resources(dictionary))?).into_bytes());
        file.extend(*rest);
    }
    let size = |text: &str| {
        text.replacen(&format!("/Size {}", entries.lines().count() - 2), &format!("/Size {}", next + 1), 1)
    };
    let start = file.len();
    file.extend(
        format!("xref\n0 {}\n{table}trailer\n{}\nstartxref\n{start}\n%%EOF", next + 1, size(&trailer)).into_bytes(),
    );
    Some(file)
}

/// An object: its dictionary, and its stream, if any, up to its end.
struct Object<'f> {
    dictionary: &'f str,
    rest: &'f [u8],
}

impl<'f> Object<'f> {
    /// Without its number, which is the first line.
    fn of(bytes: &'f [u8]) -> Option<Self> {
        let bytes = &bytes[position(bytes, b" 0 obj\n")? + b" 0 obj\n".len()..];
        let (dictionary, rest) = bytes.split_at(position(bytes, b"\nstream\n").unwrap_or(bytes.len()));
        Some(Self { dictionary: std::str::from_utf8(dictionary).ok()?, rest })
    }
}

/// The new numbers of objects, given as they are first referred to.
#[derive(Default)]
struct Numbers {
    order: Vec<usize>,
    numbers: BTreeMap<usize, usize>,
}

impl Numbers {
    /// A text with new numbers in its references, `NUMBER 0 R`.
    fn renumber(&mut self, text: &str) -> Option<String> {
        let mut renumbered = String::new();
        let mut pieces: Vec<&str> = text.split(" 0 R").collect();
        let last = pieces.pop()?;
        for piece in pieces {
            let before = piece.trim_end_matches(|letter: char| letter.is_ascii_digit());
            let old = piece[before.len()..].parse().ok()?;
            let number = *self.numbers.entry(old).or_insert_with(|| {
                self.order.push(old);
                self.order.len()
            });
            renumbered.push_str(&format!("{before}{number} 0 R"));
        }
        renumbered.push_str(last);
        Some(renumbered)
    }
}

fn with_sorted_resources(dictionary: &str) -> String {
    let mut lines: Vec<&str> = dictionary.split('\n').collect();
    for start in 0..lines.len() {
        if RESOURCES.contains(&lines[start].trim()) {
            let end = lines[start + 1..].iter().position(|line| line.trim() == ">>");
            lines[start + 1..][..end.unwrap_or(0)].sort_unstable();
        }
    }
    lines.join("\n")
}

fn position(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|part| part == word)
}
