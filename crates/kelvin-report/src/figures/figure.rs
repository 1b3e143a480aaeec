//! A figure as a value: its views, its caption, its file names.

use kelvin::predictive::PredictiveModel;
use kelvin_study::error::Result;

use crate::chart::{Chart, Colour, Dash, Panels};

pub(super) const BETA_AXIS: &str = "inverse temperature β";

/// A figure ready to be written and shown.
#[derive(Clone, Debug)]
pub struct Figure {
    /// File name without ending, also its name on the page.
    pub name: String,
    /// What the figure shows and how to read it.
    pub caption: String,
    /// Its views, the first being the one that is seen first.
    pub drawings: Vec<Drawing>,
    /// What a switch to the other scale of an axis is called; there is one where drawings have another scale.
    pub scale_switch: Option<&'static str>,
}

/// One view of a figure.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// Whose predictive densities are drawn.
    pub models: Models,
    /// File name without ending; views that are only for the page have none.
    pub file: Option<String>,
    /// The chart or the panels of this view.
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
    /// The standard and the tempered model together.
    Both,
    /// This model without the other.
    Only(PredictiveModel),
}

impl Models {
    const ALL: [Self; 3] = [Self::Both, Self::Only(PredictiveModel::Standard), Self::Only(PredictiveModel::Tempered)];

    /// Whether this model is drawn.
    pub fn include(self, model: PredictiveModel) -> bool {
        self == Self::Both || self == Self::Only(model)
    }

    /// The label of the button that shows this view.
    pub fn name(self) -> &'static str {
        match self {
            Self::Both => "SM and TM",
            Self::Only(model) => short_name(model),
        }
    }
}

/// The abbreviation of a model: "SM" or "TM".
pub(super) fn short_name(model: PredictiveModel) -> &'static str {
    match model {
        PredictiveModel::Standard => "SM",
        PredictiveModel::Tempered => "TM",
    }
}

/// "SM-PD" or "TM-PD", with its colour.
pub(super) fn look_of(model: PredictiveModel) -> (&'static str, Colour) {
    match model {
        PredictiveModel::Standard => ("SM-PD", Colour::SM),
        PredictiveModel::Tempered => ("TM-PD", Colour::TM),
    }
}

/// How a model is drawn where the other may lie on top of it.
pub(super) fn dash_of(model: PredictiveModel) -> Dash {
    match model {
        PredictiveModel::Standard => Dash::Dashed,
        PredictiveModel::Tempered => Dash::Solid,
    }
}

/// One chart, or several side by side.
#[derive(Clone, Debug)]
pub enum Plot {
    /// A chart on its own.
    Chart(Chart),
    /// Several charts under one headline.
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
    /// The drawing as a whole SVG file.
    pub fn to_svg(&self) -> String {
        match self {
            Self::Chart(chart) => chart.to_svg(),
            Self::Panels(panels) => panels.to_svg(),
        }
    }

    /// The same drawing for a narrow screen, such as a phone's.
    pub fn narrow(&self) -> Self {
        match self {
            Self::Chart(chart) => Self::Chart(chart.narrow()),
            Self::Panels(panels) => Self::Panels(panels.narrow()),
        }
    }

    /// The numbers behind the drawing.
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
    /// A figure with a single view.
    pub fn new(name: impl Into<String>, plot: impl Into<Plot>, caption: impl Into<String>) -> Self {
        let name = name.into();
        let drawing = Drawing { models: Models::Both, file: Some(name.clone()), plot: plot.into(), rescaled: None };
        Self { name, caption: caption.into(), drawings: vec![drawing], scale_switch: None }
    }

    /// A figure with a view for both models and one for each; only the first becomes a file.
    pub(super) fn by_model<P: Into<Plot>>(
        name: impl Into<String>,
        caption: impl Into<String>,
        plot: impl Fn(Models) -> Result<P>,
    ) -> Result<Self> {
        let name = name.into();
        let drawing = |models: Models| -> Result<Drawing> {
            let file = (models == Models::Both).then(|| name.clone());
            Ok(Drawing { models, file, plot: plot(models)?.into(), rescaled: None })
        };
        let drawings = Models::ALL.into_iter().map(drawing).collect::<Result<_>>()?;
        Ok(Self { name, caption: caption.into(), drawings, scale_switch: None })
    }

    /// Views of single models become files too: NAME_sm and NAME_tm.
    pub(super) fn with_files_of_models(mut self) -> Self {
        for drawing in &mut self.drawings {
            if let Models::Only(model) = drawing.models {
                drawing.file = Some(format!("{}_{}", self.name, short_name(model).to_lowercase()));
            }
        }
        self
    }

    /// A switch between two scales of an axis.
    pub(super) fn with_scale_switch(mut self, label: &'static str, rescale: impl Fn(Chart) -> Chart) -> Self {
        self.scale_switch = Some(label);
        for drawing in &mut self.drawings {
            drawing.rescaled = Some(drawing.plot.clone().map(&rescale));
        }
        self
    }
}

/// The target that a figure is of: of several each has its own, with a number in its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfTarget<'t> {
    pub target: &'t str,
    pub number: Option<usize>,
}

impl OfTarget<'_> {
    /// A figure's name.
    pub fn named(self, name: &str) -> String {
        self.number.map_or_else(|| name.to_owned(), |number| format!("{name}_{number}"))
    }

    /// A chart's title.
    pub fn titled(self, title: &str) -> String {
        self.number.map_or_else(|| title.to_owned(), |_| format!("{}: {title}", self.target))
    }
}

pub(super) fn with_other_x(mut chart: Chart) -> Chart {
    chart.x = chart.x.rescaled();
    chart
}

pub(super) fn with_other_y(mut chart: Chart) -> Chart {
    chart.y = chart.y.rescaled();
    chart
}
