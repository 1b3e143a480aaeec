//! draws.csv: one line for each kept draw, with what was measured at it and the weights asked for.

use kelvin_study::error::Result;
use std::io::Write;

use kelvin::draws::Draws;
use kelvin::network::Tensor;
use kelvin_study::csv_text::csv_writer;

use super::selection::Selection;
use kelvin_study::findings::Findings;

/// Bytes of weights that are in memory at a time.
const LOT_BYTES: usize = 4 << 20;

const HEADER: [&str; 9] = [
    "chain",
    "name",
    "draw",
    "step",
    "log_beta",
    "potential_energy",
    "kinetic_temperature",
    "configurational_temperature",
    "diverging",
];
/// Ends a line whose fields were written one by one.
const END: Option<&[u8]> = None;

/// Writes one CSV line for each draw of the selected chains; without draws there are no columns of weights.
///
/// # Errors
/// If draws cannot be read, or `out` cannot be written.
pub fn write_draws(
    out: impl Write,
    findings: &Findings,
    selection: &Selection<'_>,
    draws: &[Draws],
    tensors: &[Tensor],
) -> Result<()> {
    let tensors = if draws.is_empty() { &[] } else { tensors };
    let mut out = csv_writer(out);
    HEADER.iter().try_for_each(|name| out.write_field(name))?;
    for tensor in tensors {
        for index in 0..tensor.range.len() {
            out.write_field(format!("{}[{}]", tensor.name, place(&tensor.shape, index)))?;
        }
    }
    out.write_record(END)?;
    for (number, chain) in selection.chains.iter().enumerate() {
        let measured = |draw: usize| {
            let step = findings.step_of_draw(chain, draw);
            let cell = |series: &Vec<f64>| {
                series.get(draw).filter(|value| value.is_finite()).map_or(String::new(), f64::to_string)
            };
            [
                number.to_string(),
                chain.name.clone(),
                draw.to_string(),
                step.to_string(),
                chain.beta.ln().to_string(),
                cell(&chain.potential_energy),
                cell(&chain.kinetic_temperature),
                cell(&chain.configurational_temperature),
                chain.diverged_at.is_some().to_string(),
            ]
        };
        if tensors.is_empty() {
            for draw in 0..selection.num_draws {
                out.write_record(measured(draw))?;
            }
            continue;
        }
        let mut draw = 0;
        for lot in draws[number].lots(LOT_BYTES / 4 / draws[number].dim().max(1)) {
            for weights in lot?.iter() {
                measured(draw).iter().try_for_each(|field| out.write_field(field))?;
                for number in tensors.iter().flat_map(|tensor| &weights.parameters[tensor.range.clone()]) {
                    out.write_field(number.to_string())?;
                }
                out.write_record(END)?;
                draw += 1;
            }
        }
    }
    Ok(out.flush()?)
}

/// The place of a number in a row-major array.
fn place(shape: &[usize], mut index: usize) -> String {
    let mut places = Vec::new();
    for len in shape.iter().rev() {
        places.push((index % len).to_string());
        index /= len;
    }
    places.reverse();
    places.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_named_by_their_place() {
        assert_eq!(place(&[2, 3], 4), "1,1");
        assert_eq!(place(&[5], 4), "4");
    }
}
