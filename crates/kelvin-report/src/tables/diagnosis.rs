//! Diagnostics of a run: what was measured at each temperature, in each tensor, and by each search.

use kelvin::diagnostics::{autocorrelation_time, bulk_ess, mean_temperature_band, rhat, tail_ess};
use kelvin_study::experiment::Measured;
use serde::Serialize;

use kelvin_study::findings::{BETA_STAR, ChainFindings, Findings, Method, Row};
use kelvin_study::number::significant;

/// The share of means that lie in a tensor's band if its temperature is right.
pub const BAND: f64 = 0.99;

/// What the chains of one temperature measured.
#[derive(Debug, Serialize)]
pub struct Temperature {
    /// "β = 3" or "β̂* = 0.114".
    pub label: String,
    /// The inverse temperature asked for.
    pub beta: f64,
    /// 1/T of the sampler's noise: what momenta should show.
    pub momentum_beta: f64,
    /// 1/mean kinetic temperature at the ends of cycles; none without momenta.
    pub beta_at_cycle_ends: Option<f64>,
    /// 1/mean kinetic temperature over all steps after burn-in; none without momenta.
    pub beta_over_all_steps: Option<f64>,
    /// What the discretisation should show over all steps, without gradient noise.
    pub expected_beta_over_all_steps: Option<f64>,
    /// 1/mean configurational temperature ⟨θ, ∇U⟩/d of the draws.
    pub configurational_beta: Option<f64>,
    /// Rank-normalised split-R̂ of the potential energy of the chains that did not diverge; none if there are too few draws.
    pub rhat: Option<f64>,
    /// Bulk effective sample size of the same; none if there are too few draws.
    pub bulk_ess: Option<f64>,
    /// Tail effective sample size of the same; none if there are too few draws.
    pub tail_ess: Option<f64>,
    /// Integrated autocorrelation time of the same, in draws.
    pub autocorrelation_time: Option<f64>,
    /// The number of chains, those that diverged included.
    pub num_chains: usize,
    /// The number of draws of all chains together.
    pub num_draws: usize,
    /// The number of chains that diverged.
    pub num_diverged: usize,
}

/// The kinetic temperature of one tensor at β̂*.
#[derive(Debug, PartialEq, Serialize)]
pub struct Tensor {
    /// The name of the tensor, such as `dense1.kernel`.
    pub name: String,
    /// How many numbers it has.
    pub size: usize,
    /// Mean kinetic temperature at the cycle ends, divided by the one asked for.
    pub temperature_ratio: f64,
    /// The interval in which 99 % of such means lie if the temperature is right.
    pub band: (f64, f64),
    /// Whether the mean lies outside the band.
    pub is_outside: bool,
}

/// The kinetic temperatures of all tensors at β̂*.
#[derive(Debug, Serialize)]
pub struct Tensors {
    /// Readings that each mean was taken over: draws of all chains together.
    pub num_readings: usize,
    /// The number of independent readings whose mean has the same standard error.
    pub independent_readings: f64,
    /// One entry for each tensor of θ, in order.
    pub tensors: Vec<Tensor>,
}

/// A search for β from one start.
#[derive(Debug, Serialize)]
pub struct Search {
    /// The number of the start, counted from 1.
    pub start: u32,
    /// The β that it chose; none if it visited no checkpoint.
    pub beta: Option<f64>,
    /// Validation LPD there, in nats; none if it visited no checkpoint.
    pub validation_lpd: Option<f64>,
    /// The number of its best checkpoint, from 1.
    pub best_checkpoint: usize,
    /// Checkpoints that it visited, the start included.
    pub num_checkpoints: usize,
    /// The step at which it diverged; none if it did not.
    pub diverged_at: Option<u64>,
}

/// The chains by temperature: β = 1 and the grid in rising order, then β̂*.
pub fn temperatures(findings: &Findings) -> Vec<Temperature> {
    let mut keys: Vec<(Method, f64)> = Vec::new();
    for chain in &findings.chains {
        if !keys.contains(&(chain.method, chain.beta)) {
            keys.push((chain.method, chain.beta));
        }
    }
    keys.sort_by(|a, b| (a.0 == Method::Chosen).cmp(&(b.0 == Method::Chosen)).then(a.1.total_cmp(&b.1)));
    keys.iter().map(|&(method, beta)| temperature(findings, method, beta)).collect()
}

/// The chains of a method at one β.
pub fn temperature(findings: &Findings, method: Method, beta: f64) -> Temperature {
    let chains: Vec<&ChainFindings> =
        findings.chains.iter().filter(|chain| chain.method == method && chain.beta == beta).collect();
    let rows: Vec<&Row> = findings.rows.iter().filter(|row| row.method == method && row.beta == beta).collect();
    // The inverse of a mean temperature, as of one row.
    let pooled = |beta_of: fn(&Measured) -> Option<f64>| {
        let betas = rows.iter().filter_map(|row| row.measured.as_ref().and_then(beta_of));
        mean(betas.filter(|beta| beta.is_finite()).map(f64::recip)).map(f64::recip)
    };
    let energies: Vec<&[f64]> = chains
        .iter()
        .filter(|chain| chain.diverged_at.is_none() && !chain.potential_energy.is_empty())
        .map(|chain| &chain.potential_energy[..])
        .collect();
    let shown = significant(beta, 3);
    Temperature {
        label: if method == Method::Chosen { format!("{BETA_STAR} = {shown}") } else { format!("β = {shown}") },
        beta,
        momentum_beta: chains.first().map_or(f64::NAN, |chain| 1.0 / chain.sampler_temperature),
        beta_at_cycle_ends: pooled(|measured| measured.beta_at_cycle_ends),
        beta_over_all_steps: pooled(|measured| measured.beta_over_all_steps),
        expected_beta_over_all_steps: pooled(|measured| Some(measured.expected_beta_over_all_steps)),
        configurational_beta: pooled(|measured| Some(measured.configurational_beta)),
        rhat: rhat(&energies).ok(),
        bulk_ess: bulk_ess(&energies).ok(),
        tail_ess: tail_ess(&energies).ok(),
        autocorrelation_time: autocorrelation_time(&energies).ok(),
        num_chains: chains.len(),
        num_draws: chains.iter().map(|chain| chain.potential_energy.len()).sum(),
        num_diverged: chains.iter().filter(|chain| chain.diverged_at.is_some()).count(),
    }
}

/// The momenta of each tensor at β̂*, over all its chains; `None` without momenta.
///
/// Readings that follow each other are worth fewer ([`Findings::independent_readings`]). At the cycle ends the step size is near 0,
/// so that the discretisation's own shift is none.
pub fn tensors(findings: &Findings) -> Option<Tensors> {
    let measured = |chain: &&ChainFindings| {
        chain.method == Method::Chosen && chain.tensor_temperatures.len() == findings.problem.tensors.len()
    };
    let chains: Vec<&ChainFindings> = findings.chains.iter().filter(measured).collect();
    let num_readings: usize = chains.iter().map(|chain| chain.kinetic_temperature.len()).sum();
    if num_readings == 0 {
        return None;
    }
    let worth = |chain: &&ChainFindings| findings.independent_readings(chain.kinetic_temperature.len());
    let independent_readings: f64 = chains.iter().map(worth).sum();
    let mut tensors = Vec::new();
    for (index, (name, size)) in findings.problem.tensors.iter().enumerate() {
        let sum: f64 = chains
            .iter()
            .map(|chain| {
                let ratio = chain.tensor_temperatures[index] / chain.sampler_temperature;
                ratio * chain.kinetic_temperature.len() as f64
            })
            .sum();
        let temperature_ratio = sum / num_readings as f64;
        let band = mean_temperature_band(*size, independent_readings, BAND).ok()?;
        let is_outside = !(band.0..=band.1).contains(&temperature_ratio);
        tensors.push(Tensor { name: name.clone(), size: *size, temperature_ratio, band, is_outside });
    }
    Some(Tensors { num_readings, independent_readings, tensors })
}

/// The searches for β of a run or a sweep, one for each start.
pub fn searches(findings: &Findings) -> Vec<Search> {
    let searches = findings.searches.iter().map(|search| {
        let best = search.path.get(search.best);
        Search {
            start: search.repetition + 1,
            beta: best.map(|visit| visit.beta),
            validation_lpd: best.map(|visit| visit.validation_lpd),
            best_checkpoint: search.best + 1,
            num_checkpoints: search.path.len(),
            diverged_at: search.diverged_at,
        }
    });
    searches.collect()
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
