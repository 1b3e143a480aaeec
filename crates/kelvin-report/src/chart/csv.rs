//! The numbers behind a chart as CSV: one line a point, with its series, its band and what is said of it.

use kelvin_study::csv_text::csv_text;

use super::series::{Direction, Layer};
use super::value::{Chart, short_label};

impl Chart {
    /// Series, x, y, the ends of its interval, and a note where points have one.
    pub fn to_csv(&self) -> String {
        let mut lines =
            vec![["series", short_label(&self.x), short_label(&self.y), "low", "high", "note"].map(String::from)];
        let mut push = |name: &str, x: Option<f64>, y: Option<f64>, interval: Option<(f64, f64)>, note: &str| {
            let number = |value: Option<f64>| value.filter(|v| v.is_finite()).map_or(String::new(), |v| v.to_string());
            let ends = [interval.map(|ends| ends.0), interval.map(|ends| ends.1)].map(number);
            let [low, high] = ends;
            lines.push([name.into(), number(x), self.named(y).unwrap_or_else(|| number(y)), low, high, note.into()]);
        };
        for layer in &self.layers {
            match layer {
                Layer::Line(line) => {
                    for (i, &(x, y)) in line.points.iter().enumerate() {
                        push(&line.name, Some(x), Some(y), line.band.get(i).copied(), "");
                    }
                }
                Layer::Points(points) => {
                    for (i, &(x, y)) in points.points.iter().enumerate() {
                        push(&points.name, Some(x), Some(y), None, points.hover.get(i).map_or("", String::as_str));
                    }
                }
                Layer::Spans(spans) => {
                    for &(at, low, high) in &spans.spans {
                        let (x, y) = match spans.direction {
                            Direction::Across => (None, Some(at)),
                            Direction::Upright => (Some(at), None),
                        };
                        push(&spans.name, x, y, Some((low, high)), "");
                    }
                }
                Layer::Reference(_) => {}
            }
        }
        // Columns that say nothing are left out.
        let said = |column: usize| column < 3 || lines[1..].iter().any(|line| !line[column].is_empty());
        let columns: Vec<usize> = (0..6).filter(|&column| said(column)).collect();
        csv_text(lines.iter().map(|cells| columns.iter().map(|&column| &cells[column])))
    }

    /// The name that stands at a place of the y axis.
    fn named(&self, y: Option<f64>) -> Option<String> {
        let index = (y?.round() as usize).checked_sub(1)?;
        self.y.names.get(index).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Colour, Line, Marker, Points, Spans};
    use super::*;

    #[test]
    fn every_number_of_a_chart_is_in_its_file() {
        let chart = Chart::new("", Axis::log("β"), Axis::linear("LPD (nats)"))
            .with(Line::new("SM, all", Colour::SM, vec![(0.1, -1.5), (1.0, f64::NAN)]).with_std(&[0.5, 0.5]))
            .with(
                Points::new("chosen", Colour::CHOSEN, Marker::Ring, vec![(3.0, 2.0)]).with_hover(vec!["run 1".into()]),
            );
        let expected =
            "series,β,LPD,low,high,note\n\"SM, all\",0.1,-1.5,-2,-1,\n\"SM, all\",1,,,,\nchosen,3,2,,,run 1\n";
        assert_eq!(chart.to_csv(), expected);
    }

    #[test]
    fn places_with_names_are_named_and_empty_columns_left_out() {
        let chart = Chart::new("", Axis::linear("T"), Axis::named("tensor", vec!["last".into(), "first".into()]))
            .with(Points::new("chain 1", Colour::SM, Marker::Circle, vec![(1.5, 2.0)]));
        assert_eq!(chart.to_csv(), "series,T,tensor\nchain 1,1.5,first\n");
        let chart = chart.with(Spans::across("99 %", Colour::Muted, vec![(1.0, 0.9, 1.1)]));
        assert!(chart.to_csv().ends_with("99 %,,last,0.9,1.1\n"), "{}", chart.to_csv());
    }
}
