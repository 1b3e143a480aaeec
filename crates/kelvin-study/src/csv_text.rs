//! CSV as kelvin writes it: commas, `\n` at line ends, and quotes only around fields that need them.

use std::io::Write;

/// Writes records to `out` as they come.
pub fn csv_writer<W: Write>(out: W) -> csv::Writer<W> {
    csv::WriterBuilder::new().flexible(true).from_writer(out)
}

/// Lines of fields as one text.
///
/// ```
/// let text = kelvin_study::csv_text::csv_text([vec!["name", "lpd"], vec!["Naval, full", "-1.5"]]);
/// assert_eq!(text, "name,lpd\n\"Naval, full\",-1.5\n");
/// ```
pub fn csv_text<F: AsRef<[u8]>>(lines: impl IntoIterator<Item = impl IntoIterator<Item = F>>) -> String {
    let mut writer = csv_writer(Vec::new());
    for line in lines {
        writer.write_record(line).expect("memory can be written");
    }
    let bytes = writer.into_inner().expect("memory can be written");
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_where_they_need_it() {
        let fields = ["plain", "", "β̂*", "a,b", "say \"x\"", "two\nlines", " space", "#", "−1.5", "p(cat)"];
        let expected = "plain,,β̂*,\"a,b\",\"say \"\"x\"\"\",\"two\nlines\", space,#,−1.5,p(cat)\n";
        assert_eq!(csv_text([fields]), expected);
        assert_eq!(csv_text([&["", ""][..], &["1"]]), ",\n1\n");
    }
}
