//! Where an axis is marked: steps of 1, 2 or 5 on a linear axis; 1–3–10 or whole powers of ten on a logarithmic one.

use super::axis::Scale;
use kelvin_study::number;

/// A place on an axis with its label.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub at: f64,
    pub label: String,
}

/// The marks of one axis.
#[derive(Clone, Debug, Default)]
pub(super) struct Ticks {
    pub labelled: Vec<Tick>,
    pub minor: Vec<f64>,
}

/// The most ticks a linear axis is given.
const MOST: usize = 8;

/// The densest set of marks that fits: `fits` says whether the labels can stand side by side.
pub(super) fn choose(scale: Scale, low: f64, high: f64, fits: &dyn Fn(&[Tick]) -> bool) -> Ticks {
    match scale {
        Scale::Linear => Ticks { labelled: linear(low, high, fits), minor: Vec::new() },
        Scale::Log => log(low, high, fits),
    }
}

fn linear(low: f64, high: f64, fits: &dyn Fn(&[Tick]) -> bool) -> Vec<Tick> {
    let mut last = Vec::new();
    for target in (1..=MOST).rev() {
        let ticks = linear_with_step(low, high, round_step((high - low) / target as f64));
        if ticks.len() >= 2 || last.is_empty() {
            last = ticks;
        }
        if last.len() <= MOST && fits(&last) {
            break;
        }
    }
    last
}

fn linear_with_step(low: f64, high: f64, step: f64) -> Vec<Tick> {
    if !(step.is_finite() && step > 0.0) {
        return Vec::new();
    }
    let slack = 1e-9;
    let first = (low / step - slack).ceil();
    let num_steps = ((high / step + slack).floor() - first).clamp(-1.0, 50.0) as i64;
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    let largest = low.abs().max(high.abs());
    let awkward = decimals > 4 || largest >= 1e6;
    (0..=num_steps)
        .map(|i| {
            let at = (first + i as f64) * step;
            let digits = ((largest / step).log10().ceil().max(0.0) as usize + 1).min(6);
            let at = if at.abs() < slack * step { 0.0 } else { at };
            let label = if awkward { number::significant(at, digits) } else { number::fixed(at, decimals) };
            Tick { at, label }
        })
        .collect()
}

/// The least of 1, 2, 5 times a power of ten that is not below the rough step.
fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * power >= rough * (1.0 - 1e-9)).unwrap_or(10.0);
    factor * power
}

fn log(low: f64, high: f64, fits: &dyn Fn(&[Tick]) -> bool) -> Ticks {
    let decades = (high / low).log10();
    if decades < 0.8 {
        return Ticks { labelled: linear(low, high, fits), minor: Vec::new() };
    }
    let minor = if decades <= 6.0 { multiples(low, high, &[2, 3, 4, 5, 6, 7, 8, 9], 1) } else { Vec::new() };
    let mut candidates: Vec<(&[u32], i32)> = Vec::new();
    if decades < 1.7 {
        candidates.push((&[1, 2, 5], 1));
    }
    candidates.push((&[1, 3], 1));
    candidates.extend([1, 2, 3, 5, 10, 20, 50, 100].map(|every| (&[1u32][..], every)));
    let mut labelled = Vec::new();
    for (mantissas, every) in candidates {
        let ticks = multiples(low, high, mantissas, every)
            .into_iter()
            .map(|at| Tick { at, label: number::significant(at, 2) })
            .collect::<Vec<_>>();
        if ticks.len() >= 2 || labelled.is_empty() {
            labelled = ticks;
        }
        if fits(&labelled) {
            break;
        }
    }
    Ticks { labelled, minor }
}

/// Mantissa × 10^k within the range, for every so many powers k.
fn multiples(low: f64, high: f64, mantissas: &[u32], every: i32) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    (first..=last)
        .filter(|power| power.rem_euclid(every) == 0)
        .flat_map(|power| mantissas.iter().map(move |m| f64::from(*m) * 10f64.powi(power)))
        .filter(|at| *at >= low * (1.0 - 1e-9) && *at <= high * (1.0 + 1e-9))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, low: f64, high: f64, at_most: usize) -> Vec<String> {
        let ticks = choose(scale, low, high, &|ticks| ticks.len() <= at_most);
        ticks.labelled.into_iter().map(|t| t.label).collect()
    }

    #[test]
    fn linear_ticks_step_by_one_two_or_five() {
        assert_eq!(labels(Scale::Linear, 0.0, 1.0, 6), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(Scale::Linear, -0.93, 0.11, 4), ["−0.5", "0.0"]);
        assert_eq!(labels(Scale::Linear, 0.0, 21000.0, 5).last().unwrap(), "20\u{2009}000");
        assert_eq!(labels(Scale::Linear, 0.0, 2e-6, 3), ["0", "10⁻⁶", "2×10⁻⁶"]);
    }

    #[test]
    fn a_log_axis_is_labelled_one_three_ten() {
        let nine = ["0.1", "0.3", "1", "3", "10", "30", "100", "300", "1000"];
        assert_eq!(labels(Scale::Log, 0.09, 1100.0, 9), nine);
        assert_eq!(labels(Scale::Log, 0.09, 1100.0, 5), ["0.1", "1", "10", "100", "1000"]);
        assert_eq!(labels(Scale::Log, 0.5, 11.0, 9), ["0.5", "1", "2", "5", "10"]);
        assert_eq!(labels(Scale::Log, 1e-7, 1e-1, 3), ["10⁻⁶", "0.0001", "0.01"]);
        assert_eq!(labels(Scale::Log, 2.0, 5.0, 4), ["2", "3", "4", "5"]);
    }

    #[test]
    fn an_impossible_demand_still_ends() {
        assert!(!choose(Scale::Linear, 0.0, 1.0, &|_| false).labelled.is_empty());
        assert!(!choose(Scale::Log, 0.1, 1000.0, &|_| false).labelled.is_empty());
    }
}
