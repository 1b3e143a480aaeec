//! The arrays of an export in ArviZ's groups, filled chain by chain, a few draws at a time.

use kelvin::draws::Draws;
use kelvin::network::Tensor;
use kelvin::predictive::for_each_output;
use kelvin::temperature::Tempering;
use kelvin_study::error::{Context, Result};
use kelvin_study::experiment::Experiment;
use serde_json::{Map, Value, json};

use super::array::{Array, Contents, Coordinate, Element, Sink, f64_bytes};
use super::predicted::Predicted;
use super::selection::Selection;
use kelvin_study::findings::ChainFindings;
use kelvin_study::folder::FinishedRun;

/// Bytes of weights that are in memory at a time.
const LOT_BYTES: usize = 4 << 20;

/// The arrays of a run that are to be written.
pub struct Export<'r> {
    run: &'r FinishedRun,
    selection: &'r Selection<'r>,
    /// The draws of each chain; empty if they were not stored.
    draws: &'r [Draws],
    tensors: &'r [Tensor],
    predicted: Option<Predicted<'r>>,
    /// Numbers of the arrays without draws that predictions are laid beside.
    constants: Vec<Vec<u8>>,
    contents: Contents,
}

/// A number for each draw of a chain.
struct Trace {
    group: &'static str,
    name: &'static str,
    about: &'static str,
    values: Vec<f64>,
}

/// What was measured along a chain.
fn traces(run: &FinishedRun, chain: &ChainFindings) -> Vec<Trace> {
    let (settings, facts) = (&run.settings.sampler, &run.findings.problem);
    let num_draws = chain.potential_energy.len();
    let dim = facts.tensors.iter().map(|(_, len)| *len).sum::<usize>() as f64;
    // Where T divides the likelihood only, momenta answer to another energy than U.
    let is_hamiltonian = settings.tempering == Tempering::Posterior || chain.beta == 1.0;
    let kinetic = |draw: usize| chain.kinetic_temperature.get(draw).filter(|_| is_hamiltonian);
    let energy = |(draw, energy): (usize, &f64)| energy + kinetic(draw).map_or(0.0, |measured| 0.5 * dim * measured);
    let at = settings.integrator.conditions(settings.learning_rate, settings.momentum, facts.training_rows, 1.0, 1.0);
    let mut traces = Vec::new();
    let mut push = |group, name, about, values| traces.push(Trace { group, name, about, values });
    let about = "U(θ) = −log p(θ) − Σ log p(y|x,θ)";
    push("posterior", "potential_energy", about, chain.potential_energy.clone());
    push("posterior", "log_beta", "log of the inverse temperature β of the chain", vec![chain.beta.ln(); num_draws]);
    let about = "U(θ) plus kinetic energy Σ m²/M / 2; U alone without momenta, or where T divides the likelihood only";
    push("sample_stats", "energy", about, chain.potential_energy.iter().enumerate().map(energy).collect());
    if !chain.kinetic_temperature.is_empty() {
        let about = "Σ m²/M / d, the temperature that momenta show";
        push("sample_stats", "kinetic_temperature", about, chain.kinetic_temperature.clone());
    }
    let about = "⟨θ, ∇E⟩/d, the temperature that positions show";
    push("sample_stats", "configurational_temperature", about, chain.configurational_temperature.clone());
    let (about, step_size) = match chain.step_size {
        Some(found) => ("step size h, constant after the warm-up that found it", found),
        None => ("step size h at the beginning of a cycle, from which it falls to 0 at its end", at.step_size),
    };
    push("sample_stats", "step_size", about, vec![step_size; num_draws]);
    traces
}

impl<'r> Export<'r> {
    /// Plans the arrays. Without draws only traces are written; without an experiment nothing is predicted.
    ///
    /// # Errors
    /// If the test rows do not fit the likelihood.
    pub fn new(
        run: &'r FinishedRun,
        selection: &'r Selection<'r>,
        draws: &'r [Draws],
        tensors: &'r [Tensor],
        experiment: Option<&'r Experiment>,
    ) -> Result<Self> {
        let has_draws = !draws.is_empty();
        let tensors = if has_draws { tensors } else { &[] };
        let predicted = experiment.filter(|_| has_draws).map(Predicted::new).transpose()?;
        let (num_chains, num_draws) = (selection.chains.len(), selection.num_draws);
        let per_draw = || vec![("chain".to_owned(), num_chains), ("draw".to_owned(), num_draws)];
        let mut arrays = Vec::new();
        for Trace { group, name, about, .. } in traces(run, selection.chains[0]) {
            let (dims, element) = (per_draw(), Element::Float64);
            arrays.push(Array { group, name: name.into(), dims, element, about: about.into() });
        }
        arrays.push(Array {
            group: "sample_stats",
            name: "diverging".into(),
            dims: per_draw(),
            element: Element::Bool,
            about: "whether the chain left the finite numbers later on".into(),
        });
        arrays.push(Array {
            group: "constant_data",
            name: "beta".into(),
            dims: vec![("chain".into(), num_chains)],
            element: Element::Float64,
            about: "inverse temperature of the chain".into(),
        });
        for tensor in tensors {
            let mut dims = per_draw();
            dims.extend(
                tensor.shape.iter().enumerate().map(|(axis, len)| (format!("{}_dim_{axis}", tensor.name), *len)),
            );
            let (name, about) = (tensor.name.clone(), format!("weights {}", tensor.name));
            arrays.push(Array { group: "posterior", name, dims, element: Element::Float32, about });
        }
        let mut coordinates =
            vec![Coordinate::of_numbers("chain", 0..num_chains), Coordinate::of_numbers("draw", 0..num_draws)];
        for tensor in tensors {
            let axes = tensor.shape.iter().enumerate();
            coordinates.extend(
                axes.map(|(axis, len)| Coordinate::of_numbers(&format!("{}_dim_{axis}", tensor.name), 0..*len)),
            );
        }
        let mut constants = Vec::new();
        if let Some(predicted) = &predicted {
            for (array, bytes) in predicted.constants() {
                arrays.push(array);
                constants.push(bytes);
            }
            arrays.extend(predicted.arrays(&per_draw()));
            coordinates.extend(predicted.coordinates());
        }
        let attributes = attributes(run, selection, predicted.is_some());
        Ok(Self {
            run,
            selection,
            draws,
            tensors,
            predicted,
            constants,
            contents: Contents { arrays, coordinates, attributes },
        })
    }

    /// Names, shapes and attributes of all arrays.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Writes the numbers of all arrays, chain by chain.
    ///
    /// # Errors
    /// If draws cannot be read or evaluated, or `sink` cannot write.
    pub fn write(&self, sink: &mut dyn Sink) -> Result<()> {
        for (index, chain) in self.selection.chains.iter().enumerate() {
            let traces = traces(self.run, chain);
            for (array, trace) in traces.iter().enumerate() {
                sink.append(array, &f64_bytes(&trace.values))?;
            }
            let mut array = traces.len();
            sink.append(array, &vec![u8::from(chain.diverged_at.is_some()); self.selection.num_draws])?;
            array += 1;
            sink.append(array, &chain.beta.to_le_bytes())?;
            array += 1;
            let Some(draws) = self.draws.get(index) else { continue };
            self.write_weights(sink, draws, array)?;
            array += self.tensors.len();
            if let Some(predicted) = &self.predicted {
                for (place, bytes) in self.constants.iter().enumerate().filter(|_| index == 0) {
                    sink.append(array + place, bytes)?;
                }
                self.write_predicted(sink, predicted, chain, draws, array + self.constants.len())?;
            }
        }
        Ok(())
    }

    fn write_weights(&self, sink: &mut dyn Sink, draws: &Draws, first: usize) -> Result<()> {
        for lot in draws.lots(LOT_BYTES / 4 / draws.dim().max(1)) {
            let lot = lot?;
            for (place, tensor) in self.tensors.iter().enumerate() {
                let numbers = lot.iter().flat_map(|weights| &weights.parameters[tensor.range.clone()]);
                let bytes: Vec<u8> = numbers.flat_map(|number| number.to_le_bytes()).collect();
                sink.append(first + place, &bytes)?;
            }
        }
        Ok(())
    }

    fn write_predicted(
        &self,
        sink: &mut dyn Sink,
        predicted: &Predicted<'_>,
        chain: &ChainFindings,
        draws: &Draws,
        first: usize,
    ) -> Result<()> {
        let experiment = predicted.experiment;
        let mut draw = 0;
        for_each_output(&*experiment.engine, &experiment.test, draws, |outputs| -> Result<()> {
            let pieces = predicted.of_draw(&outputs, chain, self.run.findings.step_of_draw(chain, draw))?;
            for (place, bytes) in pieces.iter().enumerate() {
                sink.append(first + place, bytes)?;
            }
            draw += 1;
            Ok(())
        })
        .with_context(|| format!("cannot predict with the draws of {}", chain.label))
    }
}

/// Where the numbers come from; no times, so that the same run gives the same bytes.
fn attributes(run: &FinishedRun, selection: &Selection<'_>, is_predicted: bool) -> Map<String, Value> {
    let findings = &run.findings;
    let mut attributes = Map::new();
    let mut put = |name: &str, value: Value| {
        attributes.insert(name.into(), value);
    };
    put("inference_library", json!("kelvin"));
    put("inference_library_version", json!(env!("CARGO_PKG_VERSION")));
    put("creation_library", json!("kelvin export"));
    put("made_by", json!(findings.kelvin));
    put("device", json!(findings.device));
    put("experiment", json!(findings.name));
    put("data", json!(findings.problem.data));
    put("data_sha256", json!(run.data_hashes().map(|hashes| hashes.data)));
    put("target", json!(findings.problem.target));
    put("network", json!(findings.problem.network));
    put("seed", json!(findings.sampling.seed));
    put("method", json!(selection.chains[0].method.name()));
    put("beta", json!(selection.chains.iter().map(|chain| chain.beta).collect::<Vec<_>>()));
    put("chain_names", json!(selection.chains.iter().map(|chain| &chain.name).collect::<Vec<_>>()));
    put("burn_in_steps", json!(findings.sampling.burn_in_steps));
    put("cycle_steps", json!(findings.sampling.cycle_steps));
    if is_predicted {
        put("units", json!(Predicted::UNITS));
    }
    attributes
}
