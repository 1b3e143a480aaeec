//! A figure in the page: its views, the buttons that switch between them, its caption, and the numbers behind it.

use crate::escape::escape;
use crate::figures::{Drawing, Figure, Plot};
use crate::page::markup::{data_url, inline};

/// Without its script the page shows every view but those of the other scale; buttons appear with the script.
pub fn figure_html(figure: &Figure) -> String {
    let views: String = figure.drawings.iter().enumerate().map(|(index, drawing)| view_html(index, drawing)).collect();
    let csv = figure.drawings.first().map_or(String::new(), |drawing| drawing.plot.to_csv());
    format!(
        "<figure>\n{}<div class=\"views\">\n{views}</div>\n<figcaption>{}\n<span class=\"numbers\">\
         <a class=\"csv\" download=\"{name}.csv\" href=\"{}\">Numbers (CSV)</a> \
         <button type=\"button\" class=\"save\" data-name=\"{name}\">Picture (SVG)</button></span></figcaption>\n\
         <details class=\"data\"><summary>Numbers as a table</summary></details>\n</figure>\n",
        tools_html(figure),
        inline(&figure.caption),
        data_url("text/csv;charset=utf-8", csv.as_bytes()),
        name = escape(&figure.name),
    )
}

fn tools_html(figure: &Figure) -> String {
    let mut tools = String::new();
    if figure.drawings.len() > 1 {
        let button = |(index, drawing): (usize, &Drawing)| {
            let name = drawing.models.name();
            format!("<button type=\"button\" data-show=\"{name}\" aria-pressed=\"{}\">{name}</button>", index == 0)
        };
        let buttons: String = figure.drawings.iter().enumerate().map(button).collect();
        tools += &format!("<span role=\"group\" aria-label=\"Predictive model\">{buttons}</span>");
    }
    if let Some(label) = figure.scale_switch {
        // Both scales are called by the logarithmic one.
        let is_log = figure.drawings.first().is_some_and(|drawing| drawing.begins_logarithmic());
        tools +=
            &format!("<button type=\"button\" class=\"scale\" aria-pressed=\"{is_log}\">{}</button>", escape(label));
    }
    if tools.is_empty() { tools } else { format!("<div class=\"tools\">{tools}</div>\n") }
}

fn view_html(index: usize, drawing: &Drawing) -> String {
    let name = drawing.models.name();
    let hidden = if index > 0 { " hidden" } else { "" };
    let mut html = format!("<div class=\"view\" data-models=\"{name}\"{hidden}>\n{}</div>\n", plot_html(&drawing.plot));
    if let Some(plot) = &drawing.rescaled {
        html +=
            &format!("<div class=\"view\" data-models=\"{name}\" data-rescaled hidden>\n{}</div>\n", plot_html(plot));
    }
    html
}

/// Twice: for a desk and for a phone, so that letters are of a readable size on both.
fn plot_html(plot: &Plot) -> String {
    let drawing = |class: &str, svg: String| {
        let width = natural_width(&svg).map_or(String::new(), |width| format!(" style=\"--width:{width:.0}px\""));
        format!("<div class=\"drawing {class}\"{width}>\n{svg}</div>\n")
    };
    drawing("wide", plot.to_svg()) + &drawing("narrow", plot.narrow().to_svg())
}

fn natural_width(svg: &str) -> Option<f64> {
    let (_, after) = svg.split_once("viewBox=\"")?;
    let (numbers, _) = after.split_once('"')?;
    numbers.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo;

    #[test]
    fn a_figure_brings_its_numbers_and_two_sizes() {
        let html = figure_html(&Figure::new("lpd", demo::lpd(), "Test LPD."));
        assert_eq!(html.matches("<svg xmlns").count(), 2);
        assert!(html.contains("--width:640px") && html.contains("--width:360px"));
        assert!(html.contains("download=\"lpd.csv\" href=\"data:text/csv"));
        assert!(!html.contains("class=\"tools\""), "nothing to switch");
    }

    #[test]
    fn the_width_of_a_drawing_is_its_view_box() {
        assert_eq!(natural_width("<svg viewBox=\"0 0 640 400\">"), Some(640.0));
        assert_eq!(natural_width("<svg>"), None);
    }
}
