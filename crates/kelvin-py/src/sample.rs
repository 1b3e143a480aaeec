//! `kelvin.sample`: chains of an energy that Python evaluates, all of them at once.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use kelvin::diagnostics::{bulk_ess, rhat, tail_ess};
use kelvin::network::{Layout, Role};
use kelvin::sampler::{
    BatchedPotential, Chain, Integrator, Keep, Langevin, LockstepObserver, LockstepPlan, WarmUp, run_lockstep,
};
use kelvin::temperature::Temperature;
use numpy::{
    PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySlice};
use rayon::prelude::*;

use crate::conduct::pool;
use crate::error::Failure;

const SHOW_EVERY: Duration = Duration::from_millis(200);

/// How an energy is to be sampled.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub struct Sampling {
    /// β of each chain.
    betas: Vec<f64>,
    /// The name of the integrator.
    sampler: String,
    /// h; found by the warm-up if not given.
    step_size: Option<f64>,
    /// γ; by temperature if not given.
    friction: Option<f64>,
    clip_norm: f64,
    warm_up: u64,
    draws: u64,
    thin: u64,
    seed: u64,
    /// Names and sizes of the tensors that a position consists of.
    tensors: Vec<(String, usize)>,
    /// Whether an interrupt returns what was drawn so far.
    keep_on_interrupt: bool,
    threads: Option<usize>,
}

impl Sampling {
    fn rule(&self) -> Result<Langevin, Failure> {
        let integrator = Integrator::ALL.iter().copied().find(|integrator| integrator.to_string() == self.sampler);
        let Some(integrator) = integrator else {
            let names: Vec<String> = Integrator::ALL.iter().map(ToString::to_string).collect();
            return Err(Failure::question(format!(
                "there is no sampler {:?}; name one of {}",
                self.sampler,
                names.join(", ")
            )));
        };
        let rule = match self.step_size {
            None if matches!(integrator, Integrator::Baoab | Integrator::Mclmc) => Langevin {
                warm_up: Some(WarmUp { num_steps: self.warm_up, friction: self.friction }),
                ..Langevin::new(integrator, 1.0, 0.0)
            },
            None => {
                let reason = format!("{integrator} finds no step size of its own: give step_size, or take \"baoab\"");
                return Err(Failure::question(reason));
            }
            Some(h) => {
                let friction = self.friction.unwrap_or(4.0);
                let keep = if integrator == Integrator::Sghmc { 1.0 - h * friction } else { (-h * friction).exp() };
                if !(0.0..1.0).contains(&keep) {
                    return Err(Failure::question(format!(
                        "step_size × friction must be above 0 and at most 1, got {h} × {friction}"
                    )));
                }
                Langevin::new(integrator, learning_rate(integrator, h, keep), keep)
            }
        };
        Ok(Langevin { clip_norm: self.clip_norm, ..rule })
    }

    fn layout(&self) -> Layout {
        let mut layout = Layout::default();
        for (name, size) in &self.tensors {
            layout.push(name, Role::Position, &[*size]);
        }
        layout
    }
}

/// ℓ that gives a step size h at n = 1: a power of ℓ, which two of its values tell.
fn learning_rate(integrator: Integrator, step_size: f64, momentum: f64) -> f64 {
    let of = |rate: f64| integrator.conditions(rate, momentum, 1, 1.0, 1.0).step_size;
    let exponent = (of(4.0) / of(1.0)).log2() / 2.0;
    (step_size / of(1.0)).powf(1.0 / exponent)
}

/// An energy that Python evaluates: `function(positions, step) -> (energies, gradients)`.
struct PythonEnergy {
    function: Py<PyAny>,
    layout: Layout,
}

/// A new array that begins where JAX shares memory, which it copies from anywhere else.
fn aligned<'py>(py: Python<'py>, values: &[f32]) -> PyResult<Bound<'py, PyArray1<f32>>> {
    const ALIGNMENT: usize = 64;
    let room = PyArray1::<f32>::zeros(py, values.len() + ALIGNMENT / size_of::<f32>(), false);
    let first = room.data().align_offset(ALIGNMENT);
    let place = PySlice::new(py, first as isize, (first + values.len()) as isize, 1);
    let array = room.as_any().get_item(place)?.cast_into::<PyArray1<f32>>()?;
    array.readwrite().as_slice_mut().map_err(|error| Failure::other(error.to_string()))?.copy_from_slice(values);
    Ok(array)
}

impl BatchedPotential for PythonEnergy {
    type Error = PyErr;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn evaluate(&mut self, step: u64, positions: &[f32], gradients: &mut [f32], energies: &mut [f64]) -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            let (chains, dim) = (energies.len(), self.layout.len());
            // A new array each time: whoever keeps one keeps its numbers.
            let rows = aligned(py, positions)?.reshape([chains, dim])?;
            let answer = self.function.call1(py, (rows, step))?;
            let (found, gradient): (PyReadonlyArray1<'_, f64>, PyReadonlyArray2<'_, f32>) = answer.extract(py)?;
            if found.shape() != [chains] || gradient.shape() != [chains, dim] {
                return Err(Failure::question(format!(
                    "the energy of positions of shape [{chains}, {dim}] must be of shape [{chains}] and its gradient of \
                     [{chains}, {dim}], got {:?} and {:?}",
                    found.shape(),
                    gradient.shape()
                ))
                .into());
            }
            energies.iter_mut().zip(found.as_array()).for_each(|(to, energy)| *to = *energy);
            match gradient.as_slice() {
                Ok(slice) => gradients.copy_from_slice(slice),
                Err(_) => gradients.iter_mut().zip(gradient.as_array()).for_each(|(to, value)| *to = *value),
            }
            Ok(())
        })
    }
}

/// Keeps draws, and shows progress.
struct Keeper<'a> {
    positions: Vec<f32>,
    energies: Vec<f64>,
    num_draws: u64,
    progress: &'a Option<Py<PyAny>>,
    num_steps: u64,
    burn_in: u64,
    began: Instant,
    shown: Instant,
}

impl LockstepObserver<PyErr> for Keeper<'_> {
    fn kept(&mut self, chains: &[Chain], energies: &[f64]) {
        chains.iter().for_each(|chain| self.positions.extend_from_slice(&chain.state.position));
        self.energies.extend_from_slice(energies);
        self.num_draws += 1;
    }

    fn stepped(&mut self, steps: u64) -> PyResult<ControlFlow<()>> {
        // The end is always told of, however short the way was.
        if let Some(progress) = self.progress
            && (self.shown.elapsed() >= SHOW_EVERY || steps == self.num_steps)
        {
            self.shown = Instant::now();
            let rate = steps as f64 / self.began.elapsed().as_secs_f64();
            let left = (self.num_steps - steps) as f64 / rate;
            let stage = if steps < self.burn_in { "warming up" } else { "sampling" };
            let notes: Vec<String> = Vec::new();
            Python::attach(|py| progress.call1(py, (stage, steps, self.num_steps, Some(rate), Some(left), notes)))?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Refuses what cannot be sampled so, before anything long is begun.
#[pyfunction]
pub fn check_sampling(sampling: Sampling) -> PyResult<()> {
    sampling.rule()?;
    for &beta in &sampling.betas {
        Temperature::from_inverse(beta).map_err(|error| Failure::question(error.to_string()))?;
    }
    Ok(())
}

/// Samples chains that start at the rows of `init`; draws are `[draws, chains, dim]`.
#[pyfunction]
pub fn sample_energy<'py>(
    py: Python<'py>,
    function: Py<PyAny>,
    init: PyReadonlyArray2<'py, f32>,
    sampling: Sampling,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let rule = sampling.rule()?;
    let layout = sampling.layout();
    let keep = Keep { burn_in: sampling.warm_up, every: sampling.thin };
    let plan = LockstepPlan { seed: sampling.seed, num_steps: sampling.warm_up + sampling.draws * sampling.thin, keep };
    let mut chains = Vec::new();
    for ((id, row), &beta) in (0..).zip(init.as_array().outer_iter()).zip(&sampling.betas) {
        let temperature = Temperature::from_inverse(beta).map_err(|error| Failure::question(error.to_string()))?;
        chains.push(Chain::new(id, temperature, row.to_vec(), &layout));
    }
    let pool = pool(sampling.threads)?;
    let mut keeper = Keeper {
        positions: Vec::new(),
        energies: Vec::new(),
        num_draws: 0,
        progress: &progress,
        num_steps: plan.num_steps,
        burn_in: keep.burn_in,
        began: Instant::now(),
        shown: Instant::now(),
    };
    let mut energy = PythonEnergy { function, layout };
    let done = py.detach(|| run_lockstep(&mut energy, &rule, &plan, &mut chains, Some(&pool), &mut keeper));
    let finished = done.is_ok();
    match done {
        Err(error) if !(sampling.keep_on_interrupt && error.is_instance_of::<PyKeyboardInterrupt>(py)) => {
            return Err(error);
        }
        _ => {}
    }
    let (num_draws, num_chains, dim) = (keeper.num_draws as usize, chains.len(), energy.layout.len());
    let answer = PyDict::new(py);
    answer.set_item("positions", PyArray1::from_vec(py, keeper.positions).reshape([num_draws, num_chains, dim])?)?;
    answer.set_item("energies", PyArray1::from_vec(py, keeper.energies).reshape([num_draws, num_chains])?)?;
    answer.set_item("finished", finished)?;
    let steps: Vec<u64> = chains.iter().map(|chain| chain.state.step).collect();
    answer.set_item("steps", steps)?;
    let temperatures = chains.iter().map(|chain| chain.kinetic_all.mean().unwrap_or(f64::NAN)).collect();
    answer.set_item("kinetic_temperature", PyArray1::from_vec(py, temperatures))?;
    let expected = |chain: &Chain| {
        let temperature = rule.tempering.sampler_temperature(chain.temperature);
        if rule.warm_up.is_some() { temperature } else { rule.kinetic_target(1.0, temperature) }
    };
    answer.set_item("kinetic_target", PyArray1::from_vec(py, chains.iter().map(expected).collect()))?;
    let step_size = |chain: &Chain| match rule.warm_up {
        Some(_) => chain.state.adapted.step_size,
        None => sampling.step_size.unwrap_or(f64::NAN),
    };
    answer.set_item("step_size", PyArray1::from_vec(py, chains.iter().map(step_size).collect()))?;
    let masses: Vec<Vec<f64>> = chains.iter().map(|chain| chain.state.mass.clone()).collect();
    answer.set_item("masses", PyArray2::from_vec2(py, &masses).map_err(|error| Failure::other(error.to_string()))?)?;
    let diverged: Vec<Option<u64>> = chains.iter().map(|chain| chain.divergence.map(|at| at.step)).collect();
    answer.set_item("diverged_at", diverged)?;
    Ok(answer)
}

/// R̂, bulk and tail effective sample size of each number of draws `[chains, draws, numbers]`; NaN where there are too few.
#[pyfunction]
pub fn diagnose_draws<'py>(
    py: Python<'py>,
    draws: PyReadonlyArray3<'py, f64>,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let draws = draws.as_array().to_owned();
    let (_, _, numbers) = draws.dim();
    let found = py.detach(|| -> Result<Vec<Vec<f64>>, Failure> {
        let of_number = |number: usize| -> Vec<f64> {
            let chains: Vec<Vec<f64>> =
                draws.outer_iter().map(|chain| chain.column(number).iter().copied().collect()).collect();
            [rhat(&chains), bulk_ess(&chains), tail_ess(&chains)].map(|found| found.unwrap_or(f64::NAN)).to_vec()
        };
        Ok(pool(threads)?.install(|| (0..numbers).into_par_iter().map(of_number).collect()))
    })?;
    Ok(PyArray2::from_vec2(py, &found).map_err(|error| Failure::other(error.to_string()))?)
}
