//! The figures of a run, by what they are about.

use kelvin_study::error::Result;
use kelvin_study::findings::{ChainFindings, Method, Predictions};

use super::figure::{Figure, OfTarget};
use super::{calibration, chains, grid, predicted, search, theory};
use crate::run_files::RunFiles;

/// The figures of a run, by what they are about.
pub struct RunFigures {
    /// Scores against β; empty unless a grid was sampled.
    pub fit: Vec<Figure>,
    /// The path of β from each start of the search.
    pub search: Vec<Figure>,
    /// Whether predictive probabilities come true on test rows.
    pub calibration: Vec<Figure>,
    /// Predictions against truth; empty for classes.
    pub predictions: Vec<Figure>,
    /// Kinetic temperatures of draws and tensors at β̂*.
    pub temperatures: Vec<Figure>,
    /// Energy traces and running LPD of the chains at β̂*.
    pub chains: Vec<Figure>,
    /// WAIC and the paper's relation beside the measured LPD.
    pub theory: Vec<Figure>,
}

impl RunFigures {
    /// Makes all figures of a run.
    pub fn of(run: &RunFiles) -> Result<Self> {
        let findings = &run.findings;
        let fit = if findings.rows.iter().any(|row| row.method == Method::Grid) {
            grid::of_grid(findings)?
        } else {
            Vec::new()
        };
        let (mut calibration, mut predictions) = (Vec::new(), Vec::new());
        match &run.chosen {
            Some(Predictions::Numbers(targets)) => {
                for (number, (own, target)) in (1..).zip(targets.iter().zip(&*findings.problem.target)) {
                    let of = OfTarget { target, number: (targets.len() > 1).then_some(number) };
                    calibration.push(calibration::pit_histogram(of, &own.points)?);
                    calibration.push(calibration::interval_coverage(of, &own.points)?);
                    predictions.push(predicted::predictions(of, &own.points));
                }
            }
            Some(Predictions::Classes(points)) => {
                calibration = vec![calibration::reliability(points)?];
            }
            None => {}
        }
        let (mut temperatures, mut chains) = (Vec::new(), Vec::new());
        let at_chosen = findings.rows.iter().filter(|row| row.method == findings.shown_method());
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
