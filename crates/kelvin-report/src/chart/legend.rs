//! The legend: one entry per named series, in rows above the plot where it can never cover data.

use super::colour::Colour;
use super::series::{Dash, Layer, Marker};
use super::svg::{Anchor, Font, Svg, text_width};

const FONT: Font = Font { size: 12.0, bold: false, colour: Colour::Ink };
const ROW: f64 = 19.0;
const LINE_KEY: f64 = 24.0;
const SIGN_KEY: f64 = 14.0;
const GAP: f64 = 20.0;
/// The most entries.
const MOST: usize = 60;

/// One entry: a name and how its key looks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    name: String,
    key: Key,
}

#[derive(Clone, Debug, PartialEq)]
enum Key {
    Line { colour: Colour, marker: Marker, dash: Dash, band: bool },
    Points { colour: Colour, marker: Marker },
    Spans { colour: Colour, width: f64, opacity: f64 },
}

impl Entry {
    /// A series is the same with a band in one chart and without in another.
    fn without_band(&self) -> Self {
        let mut entry = self.clone();
        if let Key::Line { band, .. } = &mut entry.key {
            *band = false;
        }
        entry
    }
}

/// The entries of these layers, each once.
pub(super) fn entries<'a>(layers: impl Iterator<Item = &'a Layer>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for layer in layers {
        let (name, key) = match layer {
            Layer::Line(line) => {
                let (colour, marker, dash) = (line.colour, line.marker, line.dash);
                (&line.name, Key::Line { colour, marker, dash, band: !line.band.is_empty() })
            }
            Layer::Points(points) => (&points.name, Key::Points { colour: points.colour, marker: points.marker }),
            Layer::Spans(spans) => {
                (&spans.name, Key::Spans { colour: spans.colour, width: spans.width, opacity: spans.opacity })
            }
            Layer::Reference(line) => {
                let (colour, marker, dash) = (line.colour, Marker::None, line.dash);
                (&line.name, Key::Line { colour, marker, dash, band: false })
            }
        };
        let entry = Entry { name: name.clone(), key };
        match entries.iter_mut().find(|known| known.without_band() == entry.without_band()) {
            Some(known) if entry != entry.without_band() => *known = entry,
            Some(_) => {}
            None if name.is_empty() => {}
            None => entries.push(entry),
        }
    }
    shortened(entries)
}

/// The first of very many entries: a legend leaves room for the plot.
fn shortened(mut entries: Vec<Entry>) -> Vec<Entry> {
    let more = entries.len().saturating_sub(MOST);
    entries.truncate(MOST);
    if let (1.., Some(last)) = (more, entries.last_mut()) {
        last.name = format!("and {} more", more + 1);
    }
    entries
}

/// Draws the entries from a top left corner in rows of this width; returns the height they take.
pub(super) fn draw(svg: &mut Svg, entries: &[Entry], left: f64, top: f64, width: f64) -> f64 {
    if entries.is_empty() {
        return 0.0;
    }
    let (mut x, mut row) = (left, 0.0);
    for entry in entries {
        let key = if matches!(entry.key, Key::Points { .. }) { SIGN_KEY } else { LINE_KEY };
        let own = key + 6.0 + text_width(&entry.name, FONT.size);
        if x > left && x + own > left + width {
            (x, row) = (left, row + 1.0);
        }
        let middle = top + ROW * (row + 0.5);
        draw_key(svg, &entry.key, x, middle);
        svg.text(x + key + 6.0, middle + 4.2, Anchor::Start, FONT, &entry.name);
        x += own + GAP;
    }
    ROW * (row + 1.0)
}

fn draw_key(svg: &mut Svg, key: &Key, x: f64, y: f64) {
    match *key {
        Key::Line { colour, marker, dash, band } => {
            if band {
                svg.fill(&format!("M{x:.1} {:.1}h{LINE_KEY}v11h-{LINE_KEY}z", y - 5.5), colour, 0.16, "");
            }
            svg.stroke(&format!("M{x:.1} {y:.1}h{LINE_KEY}"), colour, 1.8, dash, 1.0);
            svg.marker(x + LINE_KEY / 2.0, y, marker, 3.4, colour, "");
        }
        Key::Spans { colour, width, opacity } => {
            // The ends of a stroke are round.
            let (start, length) = (x + width / 2.0, LINE_KEY - width);
            svg.stroke(&format!("M{start:.1} {y:.1}h{length:.1}"), colour, width, Dash::Solid, opacity);
        }
        Key::Points { colour, marker } => svg.marker(x + SIGN_KEY / 2.0, y, marker, 4.4, colour, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::super::series::{Line, Reference};
    use super::*;

    #[test]
    fn names_each_series_once_and_leaves_out_the_nameless() {
        let line = |name: &str| Layer::from(Line::new(name, Colour::SM, vec![]));
        let layers = [line("SM"), line("SM"), line(""), Reference::vertical(1.0, "β = 1").into()];
        assert_eq!(entries(layers.iter()).len(), 1);
        let named = [1.0, 2.0].map(|x| Reference::vertical(x, "").with_name("others").into());
        assert_eq!(entries(named.iter()).len(), 1);
        let with_band = Line { band: vec![(0.0, 1.0)], ..Line::new("SM", Colour::SM, vec![]) };
        let layers = [line("SM"), with_band.into(), line("SM")];
        assert!(matches!(&entries(layers.iter())[..], [Entry { key: Key::Line { band: true, .. }, .. }]));
    }

    #[test]
    fn a_narrow_legend_takes_more_rows() {
        let layers: Vec<Layer> = (0..4).map(|i| Line::new(format!("series {i}"), Colour::TM, vec![]).into()).collect();
        let entries = entries(layers.iter());
        let height = |width| draw(&mut Svg::default(), &entries, 0.0, 0.0, width);
        assert_eq!(height(1000.0), ROW);
        assert_eq!(height(100.0), 4.0 * ROW);
    }
    #[test]
    fn very_many_series_leave_room_for_the_plot() {
        let of = |count: usize| -> Vec<Layer> {
            (0..count).map(|i| Line::new(format!("series {i}"), Colour::TM, vec![]).into()).collect()
        };
        assert_eq!(entries(of(MOST).iter()).last().unwrap().name, "series 59");
        let shortened = entries(of(1000).iter());
        assert_eq!((shortened.len(), shortened[MOST - 1].name.as_str()), (MOST, "and 941 more"));
    }
}
