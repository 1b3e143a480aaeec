//! Diagnostics of chains: temperatures of each tensor and draw, energies, and the running LPD.

use kelvin::diagnostics::temperature_band;
use kelvin::predictive::PredictiveModel;
use kelvin_study::error::Result;

use super::figure::{Figure, Models, dash_of, look_of, with_other_y};
use crate::chart::{Axis, Chart, Colour, Line, Marker, Points, Reference, Spans};
use crate::run_files::RunFiles;
use kelvin_study::findings::{BETA_STAR, ChainFindings, Findings};
use kelvin_study::number::significant;

/// The share of readings that lie in the band if the temperature is right.
const LEVEL: f64 = 0.99;

/// One line for each chain: a number at each draw.
fn with_traces(mut chart: Chart, chains: &[&ChainFindings], series: impl Fn(&ChainFindings) -> Vec<f64>) -> Chart {
    for chain in chains {
        let points = series(chain).into_iter().enumerate().map(|(draw, value)| ((draw + 1) as f64, value)).collect();
        let (name, colour) = look_of_chain(chain);
        chart = chart.with(Line::trace(name, colour, points));
    }
    chart
}

/// Name and colour of a chain by its repetition, the same in every figure.
fn look_of_chain(chain: &ChainFindings) -> (String, Colour) {
    let repetition = chain.repetition as usize;
    (format!("chain {}", repetition + 1), Colour::CYCLE[repetition % Colour::CYCLE.len()])
}

/// Potential energy at each draw, one line for each chain.
pub(super) fn energy_traces(chains: &[&ChainFindings]) -> Figure {
    let chart = Chart::new(
        format!("Potential energy of the draws at {BETA_STAR}"),
        Axis::linear("draw"),
        Axis::linear("potential energy U").focused(),
    );
    let chart = with_traces(chart, chains, |chain| chain.potential_energy.clone());
    let caption = "Chains that agree wander over the same range; a trend means that the burn-in was too short.";
    let figure = Figure::new("energy_traces", chart, caption);
    let are_positive = chains.iter().flat_map(|chain| &chain.potential_energy).all(|&energy| energy > 0.0);
    if are_positive { figure.with_scale_switch("log energy axis", with_other_y) } else { figure }
}

/// Validation LPD of all draws up to each, where it was measured.
pub(super) fn running_lpd(chains: &[&ChainFindings]) -> Result<Option<Figure>> {
    if chains.iter().all(|chain| chain.validation_lpd.is_empty()) {
        return Ok(None);
    }
    let chart = |models: Models| {
        let mut chart = Chart::new(
            format!("Validation LPD of the draws so far at {BETA_STAR}"),
            Axis::linear("draws so far"),
            Axis::linear("validation LPD (nats)").focused(),
        );
        for model in PredictiveModel::BOTH.into_iter().filter(|&model| models.include(model)) {
            let (name, colour) = look_of(model);
            for chain in chains {
                let values = chain.validation_lpd.iter().enumerate();
                let points = values.filter_map(|(draw, lpd)| Some(((draw + 1) as f64, (*lpd.get(model))?))).collect();
                chart = chart.with(Line::trace(name, colour, points).with_dash(dash_of(model)));
            }
        }
        Ok(chart)
    };
    let caption =
        "Validation LPD of all draws of a chain up to each, a line a chain. Still rising at the end: more draws help.";
    Ok(Some(Figure::by_model("running_lpd", caption, chart)?))
}

/// Kinetic temperature at each draw, relative to the one asked for, with the band of exact momenta.
pub(super) fn temperature_traces(findings: &Findings, chains: &[&ChainFindings]) -> Result<Option<Figure>> {
    if chains.iter().all(|chain| chain.kinetic_temperature.is_empty()) {
        return Ok(None);
    }
    let dim = findings.problem.tensors.iter().map(|(_, size)| size).sum();
    let (low, high) = temperature_band(dim, 1.0, LEVEL)?;
    let chart = Chart::new(
        format!("Kinetic temperature of the draws at {BETA_STAR}"),
        Axis::linear("draw"),
        Axis::linear("measured T / asked T").focused(),
    )
    .with(Reference::horizontal(low, "99 %"))
    .with(Reference::horizontal(high, "99 %"));
    let ratios = |chain: &ChainFindings| {
        chain.kinetic_temperature.iter().map(|measured| measured / chain.sampler_temperature).collect()
    };
    Ok(Some(Figure::new(
        "temperature_traces",
        with_traces(chart, chains, ratios),
        "What the momenta say the temperature is, at each draw. Of momenta at the right temperature 99 % of the readings \
         lie between the dashed lines.",
    )))
}

/// Mean kinetic temperature of each tensor at the draws, with the band that a mean of so many readings should keep to.
pub(super) fn tensor_temperatures(run: &RunFiles, chains: &[&ChainFindings]) -> Result<Option<Figure>> {
    let chains: Vec<&&ChainFindings> = chains.iter().filter(|chain| !chain.tensor_temperatures.is_empty()).collect();
    let tensors = &run.findings.problem.tensors;
    let Some(draws) = chains.iter().map(|chain| chain.kinetic_temperature.len()).min() else {
        return Ok(None);
    };
    let readings = run.findings.independent_readings(draws);
    // The first tensor stands highest.
    let place = |index: usize| (tensors.len() - index) as f64;
    let names = tensors.iter().rev().map(|(name, _)| name.clone()).collect();
    let mut bands = Vec::new();
    for (index, &(_, size)) in tensors.iter().enumerate() {
        let (low, high) = temperature_band((readings * size as f64).round().max(1.0) as usize, 1.0, LEVEL)?;
        bands.push((place(index), low, high));
    }
    let mut chart = Chart::new(
        format!("Kinetic temperature of each tensor at {BETA_STAR}"),
        Axis::linear("mean measured T / asked T").focused(),
        Axis::named("", names),
    )
    .with(Reference::vertical(1.0, "as asked"))
    .with(Spans::across("99 % band", Colour::Muted, bands.clone()));
    let mut outside = 0;
    for chain in &chains {
        let (chain_name, colour) = look_of_chain(chain);
        let ratio = |(tensor, measured): (usize, &f64)| (measured / chain.sampler_temperature, place(tensor));
        let points: Vec<(f64, f64)> = chain.tensor_temperatures.iter().enumerate().map(ratio).collect();
        outside +=
            points.iter().zip(&bands).filter(|((ratio, _), (_, low, high))| !(low..=high).contains(&ratio)).count();
        let hover = points.iter().zip(tensors).zip(&bands).map(|((point, (name, size)), (_, low, high))| {
            format!(
                "{chain_name}, {name} ({size} numbers): {} (band {} to {})",
                significant(point.0, 4),
                significant(*low, 3),
                significant(*high, 3)
            )
        });
        let hover = hover.collect();
        chart = chart.with(Points::new(chain_name, colour, Marker::Circle, points).with_hover(hover));
    }
    let caption = format!(
        "Mean over a chain's draws of mᵀM⁻¹m/d in each tensor, over the temperature asked for. Band: 99 % of such means at the \
         right temperature; {draws} draws, {} friction times apart, are worth {} independent readings. Outside: {outside} of {}.",
        significant(run.findings.sampling.friction_times, 2),
        significant(readings, 3),
        chains.len() * tensors.len(),
    );
    Ok(Some(Figure::new("tensor_temperatures", chart, caption)))
}

#[cfg(test)]
mod tests {
    use kelvin::predictive::ByModel;

    use super::*;
    use kelvin_study::findings::Method;

    fn chain(validation_lpd: Vec<ByModel<Option<f64>>>) -> ChainFindings {
        ChainFindings {
            name: "chosen-1".into(),
            label: "chain 1".into(),
            method: Method::Chosen,
            repetition: 0,
            beta: 2.0,
            sampler_temperature: 0.5,
            diverged_at: None,
            steps: None,
            step_size: None,
            seconds: 1.0,
            potential_energy: vec![10.0, 12.0],
            configurational_temperature: vec![0.5, 0.5],
            kinetic_temperature: Vec::new(),
            validation_lpd,
            tensor_temperatures: Vec::new(),
            tensor_temperatures_all_steps: Vec::new(),
            learning_theory: None,
        }
    }

    #[test]
    fn the_running_score_is_drawn_where_it_was_measured() {
        assert!(running_lpd(&[&chain(Vec::new())]).unwrap().is_none());
        let lpd = |standard, tempered| ByModel { standard: Some(standard), tempered: Some(tempered) };
        let figure = running_lpd(&[&chain(vec![lpd(-2.0, -3.0), lpd(-1.0, -1.5)])]).unwrap().unwrap();
        let csv = figure.drawings[0].plot.to_csv();
        assert!(csv.contains("\nSM-PD,2,-1\n") && csv.contains("\nTM-PD,1,-3\n"), "{csv}");
        assert_eq!(figure.drawings.len(), 3);
    }

    #[test]
    fn energies_below_zero_have_no_logarithm() {
        let mut below = chain(Vec::new());
        assert!(energy_traces(&[&below]).scale_switch.is_some());
        below.potential_energy[0] = -1.0;
        assert!(energy_traces(&[&below]).scale_switch.is_none());
    }
}
