//! draws.csv: one line for each kept draw, with what was measured at it and the weights asked for.

use kelvin_study::error::Result;
use std::io::{self, BufWriter, Write};

use kelvin::draws::Draws;
use kelvin::network::Tensor;

use super::selection::Selection;
use kelvin_study::findings::Findings;

/// Bytes of weights that are in memory at a time.
const LOT_BYTES: usize = 4 << 20;

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
    let mut out = BufWriter::new(out);
    write!(
        out,
        "chain,name,draw,step,log_beta,potential_energy,kinetic_temperature,configurational_temperature,diverging"
    )?;
    for tensor in tensors {
        for index in 0..tensor.range.len() {
            write!(out, ",{}", quoted(&format!("{}[{}]", tensor.name, place(&tensor.shape, index))))?;
        }
    }
    writeln!(out)?;
    for (number, chain) in selection.chains.iter().enumerate() {
        let measured = |out: &mut BufWriter<_>, draw: usize| -> io::Result<()> {
            let step = findings.step_of_draw(draw);
            write!(out, "{number},{},{draw},{step},{}", chain.name, chain.beta.ln())?;
            let series = [&chain.potential_energy, &chain.kinetic_temperature, &chain.configurational_temperature];
            for series in series {
                let cell = series.get(draw).filter(|value| value.is_finite()).map(f64::to_string);
                write!(out, ",{}", cell.unwrap_or_default())?;
            }
            write!(out, ",{}", chain.diverged_at.is_some())
        };
        if tensors.is_empty() {
            for draw in 0..selection.num_draws {
                measured(&mut out, draw)?;
                writeln!(out)?;
            }
            continue;
        }
        let mut draw = 0;
        for lot in draws[number].lots(LOT_BYTES / 4 / draws[number].dim().max(1)) {
            for weights in lot?.iter() {
                measured(&mut out, draw)?;
                for number in tensors.iter().flat_map(|tensor| &weights.parameters[tensor.range.clone()]) {
                    write!(out, ",{number}")?;
                }
                writeln!(out)?;
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

fn quoted(name: &str) -> String {
    if name.contains(',') { format!("\"{name}\"") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_named_by_their_place() {
        assert_eq!(place(&[2, 3], 4), "1,1");
        assert_eq!(place(&[5], 4), "4");
        assert_eq!((quoted("k[1,1]"), quoted("b[4]")), ("\"k[1,1]\"".into(), "b[4]".into()));
    }
}
