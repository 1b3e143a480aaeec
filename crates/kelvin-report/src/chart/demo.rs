//! Example charts and an example report: tests draw them all; `KELVIN_DEMO=folder` keeps the files for a look.

use super::png::rasterise;
use super::*;
use crate::figures::Figure;
use crate::page::{Block, Page, Section, Warning};
use crate::tables::Table;

const BETAS: [f64; 9] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0];
const SM: [f64; 9] = [-0.19, -0.24, -0.51, -0.97, -1.62, -2.31, -2.83, -3.40, -3.72];
const SM_STD: [f64; 9] = [0.05, 0.08, 0.255, 0.31, 0.42, 0.55, 0.61, 0.78, 0.92];
const TM: [f64; 9] = [-0.16, -0.04, 0.019, -0.03, -0.09, -0.15, -0.21, -0.26, -0.30];
const TM_STD: [f64; 9] = [0.04, 0.03, 0.035, 0.04, 0.05, 0.06, 0.06, 0.07, 0.08];
const CHOSEN: [f64; 5] = [0.16, 0.17, 0.11, 0.08, 0.10];

fn curve(values: &[f64]) -> Vec<(f64, f64)> {
    BETAS.into_iter().zip(values.iter().copied()).collect()
}

fn noise(i: usize) -> f64 {
    // The golden-ratio sequence through a smooth quantile: even, repeatable, good enough for a picture.
    let u = (i as f64 * 0.618_033_988_75 + 0.1).fract();
    (u / (1.0 - u)).ln() * 0.55
}

pub(crate) fn lpd() -> Chart {
    let chosen = |values: [f64; 5]| CHOSEN.into_iter().zip(values).collect::<Vec<_>>();
    let hover = |model: &str| {
        CHOSEN.iter().enumerate().map(|(i, b)| format!("{model}, run {}: β\u{302}* = {b}", i + 1)).collect()
    };
    let (sm_points, tm_points) =
        (chosen([-0.18, -0.21, -0.16, -0.24, -0.15]), chosen([-0.10, -0.09, -0.14, -0.19, -0.15]));
    Chart::new(
        "Concrete: test log predictive density",
        Axis::log("inverse temperature β"),
        Axis::linear("test LPD (nats)"),
    )
    .with(Reference::vertical(1.0, "β = 1"))
    .with(Line::new("SM", Colour::SM, curve(&SM)).with_std(&SM_STD))
    .with(Line::new("TM", Colour::TM, curve(&TM)).with_std(&TM_STD))
    .with(Points::new("β\u{302}* (SM)", Colour::CHOSEN, Marker::Ring, sm_points).with_hover(hover("SM")))
    .with(Points::new("β\u{302}* (TM)", Colour::CHOSEN, Marker::Cross, tm_points).with_hover(hover("TM")))
}

pub(crate) fn mean_squared_error() -> Chart {
    let mse = [0.112, 0.086, 0.075, 0.079, 0.084, 0.091, 0.097, 4.2, 61.0];
    let std = [0.009, 0.006, 0.007, 0.008, 0.009, 0.01, 0.012, 1.0, 30.0];
    let y = Axis::linear("test mean squared error").focused();
    Chart::new("Concrete: mean squared error", Axis::log("inverse temperature β"), y)
        .with(Reference::vertical(1.0, "β = 1"))
        .with(Reference::horizontal(0.106, "SGD 0.106"))
        .with(Reference::horizontal(0.0755, "best of grid"))
        .with(Line::new("posterior mean", Colour::Blue, curve(&mse)).with_std(&std))
}

pub(crate) fn energy_trace() -> Chart {
    let energy =
        |chain: usize, i: usize| 1450.0 + 9000.0 * (-(i as f64) / 1500.0).exp() + 60.0 * noise(i * (chain + 3) + chain);
    let trace = |chain: usize| (0..20_000).step_by(20).map(|i| (i as f64, energy(chain, i))).collect::<Vec<_>>();
    Chart::new("Potential energy", Axis::linear("step"), Axis::log("energy U(θ)"))
        .with(Reference::vertical(10_000.0, "end of burn-in"))
        .with(Line::trace("chain 1", Colour::Green, trace(0)))
        .with(Line::trace("chain 2", Colour::Blue, trace(1)))
}

pub(crate) fn reliability() -> Chart {
    let confidence = [0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95];
    let curve = |shift: f64| confidence.iter().map(|c| (*c, c - shift * c * (1.0 - c) * 4.0)).collect::<Vec<_>>();
    let x = Axis::linear("confidence").between(0.0, 1.0);
    Chart::new("Reliability", x, Axis::linear("accuracy").between(0.0, 1.0))
        .with_size(440.0, 440.0)
        .with(Reference::diagonal("calibrated"))
        .with(Line::new("β = 1", Colour::Orange, curve(0.14)).with_std(&[0.05; 9]))
        .with(Line::new("β\u{302}*", Colour::CHOSEN, curve(0.02)).with_std(&[0.04; 9]))
}

pub(crate) fn probability_integral_transform() -> Chart {
    let values: Vec<f64> = (0..206).map(|i| 1.0 / (1.0 + (-1.25 * noise(i * 7) / 0.55).exp())).collect();
    Chart::new(
        "Probability integral transform",
        Axis::linear("predictive probability of y ≤ observed"),
        Axis::linear("density"),
    )
    .with(Line::histogram("", Colour::SkyBlue, &values, 20, 0.0, 1.0).with_dash(Dash::Dashed))
    .with(Reference::horizontal(1.0, "uniform"))
}

fn scores() -> Table {
    let header = ["", "MSE × 10³", "LPD SM", "LPD TM", "coverage 90 %", "CRPS"];
    let mut table = Table::new("Test scores, mean ± SD over five repetitions", header);
    table.push(["SGD", "106 ± 20", "−3.904 ± 1.000", "−0.319 ± 0.076", "61.2 %", "0.181"]);
    table.push(["β = 1", "75 ± 7", "−0.506 ± 0.255", "0.019 ± 0.035", "93.7 %", "0.144"]);
    table.push(["β\u{302}* = 0.12", "82 ± 4", "−0.186 ± 0.049", "−0.130 ± 0.069", "97.6 %", "0.150"]);
    table.push(["best of grid", "76 ± 8", "−0.216 ± 0.121", "0.019 ± 0.035", "94.2 %", "0.143"]);
    table
}

pub(crate) fn page() -> Page {
    let figure = |chart: Chart, caption: &str| Block::Figure(Figure::new("demo", chart, caption));
    let section = |heading: &str, blocks: Vec<Block>| Section { heading: heading.into(), blocks };
    let warning = Warning {
        title: "Few effective draws".into(),
        seen: vec!["effective sample size of the energy 31 of 200 draws; split-R\u{302} 1.18".into()],
        why: "Scores that depend on the tails of the predictive distribution are noisy.".into(),
        try_this: "`kelvin resume RUN --cycles 20` runs twice as long.".into(),
    };
    let settings =
        [("network", "8-64-1, ReLU"), ("prior", "normal, variance 1"), ("sampler", "SGHMC, 10 cycles"), ("seed", "7")];
    let settings = settings.map(|(key, value)| (key.to_string(), value.to_string())).to_vec();
    Page {
        title: "Concrete: which temperature?".into(),
        lead: "At β\u{302}* = 0.12 the network predicts the test rows with a log density of −0.186 ± 0.049 per row, \
               against −0.506 ± 0.255 at β = 1."
            .into(),
        sections: vec![
            section(
                "The answer",
                vec![
                    Block::Paragraph(
                        "Five repetitions chose a warm posterior: all β\u{302}* lie between 0.08 and 0.17.".into(),
                    ),
                    Block::Table(scores()),
                    figure(lpd(), "Test LPD of the standard model (SM) and the tempered model (TM) over the grid."),
                ],
            ),
            section("Doubts", vec![Block::Warnings(vec![warning])]),
            section(
                "Predictions",
                vec![
                    figure(mean_squared_error(), "Point predictions hardly depend on β below 100."),
                    figure(reliability(), "Reliability of the class probabilities."),
                    figure(probability_integral_transform(), "Calibration of the predictive distribution."),
                ],
            ),
            section("The chains", vec![figure(energy_trace(), "Energy of both chains.")]),
            section(
                "How it was made",
                vec![
                    Block::Definitions(settings.clone()),
                    Block::Details {
                        summary: "The whole experiment".into(),
                        blocks: vec![Block::Preformatted(
                            "[network]\nhidden = [64]\n\n[sampler]\nstep_size = 1e-4\n".into(),
                        )],
                    },
                ],
            ),
        ],
    }
}

fn all() -> Vec<(&'static str, String)> {
    vec![
        ("lpd", lpd().to_svg()),
        ("mean_squared_error", mean_squared_error().to_svg()),
        ("energy_trace", energy_trace().to_svg()),
        ("reliability", reliability().to_svg()),
        ("probability_integral_transform", probability_integral_transform().to_svg()),
    ]
}

#[test]
fn every_figure_is_valid_and_can_be_rasterised() {
    let folder = std::env::var_os("KELVIN_DEMO").map(std::path::PathBuf::from);
    for (name, svg) in all() {
        let document = resvg::usvg::roxmltree::Document::parse(&svg).unwrap();
        let root = document.root_element();
        assert_eq!(root.attribute("role"), Some("img"));
        assert!(root.children().any(|n| n.has_tag_name("title") && n.text().is_some_and(|t| !t.is_empty())));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
        assert!(svg.len() < 200_000, "{name} has {} bytes", svg.len());
        let small = rasterise(&svg, 480).unwrap();
        if let Some(folder) = &folder {
            std::fs::write(folder.join(format!("{name}.svg")), &svg).unwrap();
            std::fs::write(folder.join(format!("{name}-small.png")), small).unwrap();
            std::fs::write(folder.join(format!("{name}.png")), rasterise(&svg, 1280).unwrap()).unwrap();
        }
    }
    if let Some(folder) = &folder {
        std::fs::write(folder.join("report.html"), page().to_html()).unwrap();
        std::fs::write(folder.join("table.txt"), scores().to_text()).unwrap();
    }
}

#[test]
fn awkward_data_are_drawn_without_panic() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let data: [Vec<(f64, f64)>; 6] = [
        vec![],
        vec![(nan, 1.0), (1.0, nan), (inf, -inf)],
        vec![(0.0, 0.0)],
        vec![(-1.0, -1.0), (2.0, 2.0)],
        vec![(1.0, 5.0), (2.0, 5.0)],
        vec![(1e-300, 1e300), (1e300, 1e-300), (1.0, 1.0)],
    ];
    let axes =
        [Axis::linear("<x>"), Axis::log("x & y"), Axis::linear("").focused(), Axis::linear("").between(5.0, 5.0)];
    for points in &data {
        for x in &axes {
            for y in &axes {
                let svg = Chart::new("a < b", x.clone(), y.clone())
                    .with(Line::new("l", Colour::SM, points.clone()).with_std(&[nan, 1.0]))
                    .with(Points::new("p", Colour::TM, Marker::Cross, points.clone()))
                    .with(Reference::vertical(nan, "v"))
                    .with(Reference::horizontal(inf, "h"))
                    .with(Reference::diagonal("d"))
                    .to_svg();
                rasterise(&svg, 64).unwrap();
                assert!(!svg.contains("NaN"), "{points:?} {x:?} {y:?}");
            }
        }
    }
}

#[test]
fn a_far_value_becomes_an_arrow_and_keeps_its_number() {
    let svg = mean_squared_error().to_svg();
    assert!(svg.contains("test mean squared error 61"));
}

#[test]
fn a_gap_in_the_data_is_a_gap_in_the_curve() {
    let line =
        |middle: f64| Line::new("", Colour::SM, vec![(1.0, 1.0), (2.0, 2.0), (3.0, middle), (4.0, 1.0), (5.0, 2.0)]);
    let curves = |middle: f64| {
        let svg = Chart::new("", Axis::linear(""), Axis::linear("")).with(line(middle)).to_svg();
        svg.matches("stroke-width=\"1.8\"").count()
    };
    assert_eq!((curves(1.5), curves(f64::NAN)), (1, 2));
}
