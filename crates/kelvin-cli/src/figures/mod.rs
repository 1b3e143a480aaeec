//! The figures of a run and of a sweep, from what was found: each a chart, its views, its caption and the numbers behind it.

mod across;
mod calibration;
mod chains;
mod grid;
mod predicted;
mod search;
mod theory;

pub use across::{NamedRun, across, overlaid_lpd};

use kelvin::predictive::PredictiveModel;

use crate::chart::{Chart, Colour, Dash, Panels};
use crate::findings::{ChainFindings, Findings};
use crate::predictions::Predictions;
use crate::row::{Method, Row};
use crate::run_files::RunFiles;

const BETA_AXIS: &str = "inverse temperature β";

/// A figure ready to be written and shown.
#[derive(Clone, Debug)]
pub struct Figure {
    /// File name without ending.
    pub name: &'static str,
    pub caption: String,
    /// Its views, the first being the one that is seen first.
    pub drawings: Vec<Drawing>,
    /// What a switch to the other scale of an axis is called; there is one where drawings have another scale.
    pub scale_switch: Option<&'static str>,
}

/// One view of a figure.
#[derive(Clone, Debug)]
pub struct Drawing {
    pub models: Models,
    /// File name without ending; views that are only for the page have none.
    pub file: Option<String>,
    pub plot: Plot,
    /// The same with an axis of the other scale.
    pub rescaled: Option<Plot>,
}

impl Drawing {
    /// Whether the axis that can be switched is logarithmic at first.
    pub fn begins_logarithmic(&self) -> bool {
        let logarithmic = |plot: &Plot| {
            let charts = match plot {
                Plot::Chart(chart) => std::slice::from_ref(chart),
                Plot::Panels(panels) => &panels.charts[..],
            };
            charts.iter().map(Chart::num_log_axes).sum::<usize>()
        };
        self.rescaled.as_ref().is_none_or(|rescaled| logarithmic(&self.plot) > logarithmic(rescaled))
    }
}

/// Which predictive models are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Models {
    Both,
    Only(PredictiveModel),
}

impl Models {
    const ALL: [Self; 3] = [Self::Both, Self::Only(PredictiveModel::Standard), Self::Only(PredictiveModel::Tempered)];

    pub fn include(self, model: PredictiveModel) -> bool {
        self == Self::Both || self == Self::Only(model)
    }

    /// For a button.
    pub fn name(self) -> &'static str {
        match self {
            Self::Both => "SM and TM",
            Self::Only(model) => short_name(model),
        }
    }
}

/// "SM" or "TM".
fn short_name(model: PredictiveModel) -> &'static str {
    match model {
        PredictiveModel::Standard => "SM",
        PredictiveModel::Tempered => "TM",
    }
}

/// "SM-PD" or "TM-PD", with its colour.
fn look_of(model: PredictiveModel) -> (&'static str, Colour) {
    match model {
        PredictiveModel::Standard => ("SM-PD", Colour::SM),
        PredictiveModel::Tempered => ("TM-PD", Colour::TM),
    }
}

/// How a model is drawn where the other may lie on top of it.
fn dash_of(model: PredictiveModel) -> Dash {
    match model {
        PredictiveModel::Standard => Dash::Dashed,
        PredictiveModel::Tempered => Dash::Solid,
    }
}

/// One chart, or several side by side.
#[derive(Clone, Debug)]
pub enum Plot {
    Chart(Chart),
    Panels(Panels),
}

impl From<Chart> for Plot {
    fn from(chart: Chart) -> Self {
        Self::Chart(chart)
    }
}

impl From<Panels> for Plot {
    fn from(panels: Panels) -> Self {
        Self::Panels(panels)
    }
}

impl Plot {
    pub fn to_svg(&self) -> String {
        match self {
            Self::Chart(chart) => chart.to_svg(),
            Self::Panels(panels) => panels.to_svg(),
        }
    }

    /// For a phone.
    pub fn narrow(&self) -> Self {
        match self {
            Self::Chart(chart) => Self::Chart(chart.narrow()),
            Self::Panels(panels) => Self::Panels(panels.narrow()),
        }
    }

    pub fn to_csv(&self) -> String {
        match self {
            Self::Chart(chart) => chart.to_csv(),
            Self::Panels(panels) => panels.to_csv(),
        }
    }

    /// Every chart changed in the same way.
    fn map(mut self, change: &dyn Fn(Chart) -> Chart) -> Self {
        match &mut self {
            Self::Chart(chart) => *chart = change(chart.clone()),
            Self::Panels(panels) => panels.charts = panels.charts.drain(..).map(change).collect(),
        }
        self
    }
}

impl Figure {
    pub fn new(name: &'static str, plot: impl Into<Plot>, caption: impl Into<String>) -> Self {
        let drawing = Drawing { models: Models::Both, file: Some(name.into()), plot: plot.into(), rescaled: None };
        Self { name, caption: caption.into(), drawings: vec![drawing], scale_switch: None }
    }

    /// A figure with a view for both models and one for each; only the first becomes a file.
    fn by_model<P: Into<Plot>>(
        name: &'static str,
        caption: impl Into<String>,
        plot: impl Fn(Models) -> anyhow::Result<P>,
    ) -> anyhow::Result<Self> {
        let drawing = |models: Models| -> anyhow::Result<Drawing> {
            let file = (models == Models::Both).then(|| name.to_owned());
            Ok(Drawing { models, file, plot: plot(models)?.into(), rescaled: None })
        };
        let drawings = Models::ALL.into_iter().map(drawing).collect::<anyhow::Result<_>>()?;
        Ok(Self { name, caption: caption.into(), drawings, scale_switch: None })
    }

    /// Views of single models become files too: NAME_sm and NAME_tm.
    fn with_files_of_models(mut self) -> Self {
        for drawing in &mut self.drawings {
            if let Models::Only(model) = drawing.models {
                drawing.file = Some(format!("{}_{}", self.name, short_name(model).to_lowercase()));
            }
        }
        self
    }

    /// A switch between two scales of an axis.
    fn with_scale_switch(mut self, label: &'static str, rescale: impl Fn(Chart) -> Chart) -> Self {
        self.scale_switch = Some(label);
        for drawing in &mut self.drawings {
            drawing.rescaled = Some(drawing.plot.clone().map(&rescale));
        }
        self
    }
}

fn with_other_x(mut chart: Chart) -> Chart {
    chart.x = chart.x.rescaled();
    chart
}

fn with_other_y(mut chart: Chart) -> Chart {
    chart.y = chart.y.rescaled();
    chart
}

/// The figures of a run, by what they are about.
pub struct RunFigures {
    /// Scores against β.
    pub fit: Vec<Figure>,
    pub search: Vec<Figure>,
    pub calibration: Vec<Figure>,
    pub predictions: Vec<Figure>,
    pub temperatures: Vec<Figure>,
    pub chains: Vec<Figure>,
    /// What learning theory expects.
    pub theory: Vec<Figure>,
}

impl RunFigures {
    /// The figures of what was found.
    pub fn of(run: &RunFiles) -> anyhow::Result<Self> {
        let findings = &run.findings;
        let fit = if findings.rows.iter().any(|row| row.method == Method::Grid) {
            grid::of_grid(findings)?
        } else {
            Vec::new()
        };
        let (mut calibration, mut predictions) = (Vec::new(), Vec::new());
        match &run.chosen {
            Some(Predictions::Numbers(points)) => {
                calibration = vec![calibration::pit_histogram(points)?, calibration::interval_coverage(points)?];
                predictions = vec![predicted::predictions(&findings.problem.target, points)];
            }
            Some(Predictions::Classes(points)) => {
                calibration = vec![calibration::reliability(points)?];
            }
            None => {}
        }
        let (mut temperatures, mut chains) = (Vec::new(), Vec::new());
        let at_chosen = findings.rows.iter().filter(|row| row.method == Method::Chosen);
        let at_chosen: Vec<&ChainFindings> = at_chosen.flat_map(|row| findings.chains_of(row)).collect();
        if !at_chosen.is_empty() {
            temperatures.extend(chains::tensor_temperatures(run, &at_chosen)?);
            temperatures.extend(chains::temperature_traces(findings, &at_chosen)?);
            chains.push(chains::energy_traces(&at_chosen));
            chains.extend(chains::running_lpd(&at_chosen)?);
        }
        let search = vec![search::selection_path(findings)];
        let theory = theory::expected_and_measured(findings).into_iter().collect();
        Ok(Self { fit, search, calibration, predictions, temperatures, chains, theory })
    }

    /// All of them, in the order of the report.
    pub fn all(&self) -> impl Iterator<Item = &Figure> {
        let Self { fit, search, calibration, predictions, temperatures, chains, theory } = self;
        [fit, search, calibration, predictions, temperatures, chains, theory].into_iter().flatten()
    }
}

/// The row whose single predictions are shown: β̂*, of a sweep its first repetition.
pub fn shown_row(findings: &Findings) -> Option<&Row> {
    findings.rows.iter().find(|row| row.method == Method::Chosen)
}
