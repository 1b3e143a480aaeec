//! The joint search over (θ, log β) of a model that Python evaluates.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kelvin::likelihood::LogLikelihood;
use kelvin::network::{Layout, Mode, Role, Rows};
use kelvin::potential::{Batch, Potential, TemperedModel};
use kelvin::sampler::{AscentObjective, Batches, Chain, ClipScope, JointAscent, Keep, Observer, Plan, run_population};
use kelvin::temperature::{Schedule, Temperature};
use kelvin_study::folder::{Moment, Stage};
use kelvin_study::study::{Cancel, StudyObserver};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::conduct::{Conduct, Told, carry_out};
use crate::error::Failure;

const TELL_EVERY: Duration = Duration::from_millis(200);

/// How to search.
#[derive(Clone, Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub struct SearchPlan {
    num_rows: usize,
    batch_size: Option<usize>,
    epochs: u64,
    checkpoints: u64,
    learning_rate: f64,
    momentum: f64,
    weight_decay: f64,
    clip_norm: f64,
    seed: u64,
    /// Starts that are searched from, this one among them.
    starts: u32,
}

/// A model of which Python knows Σ log p(y|x,θ,β) and its gradients: `tempered(theta, rows, beta)`, with `rows` None for all.
struct PythonModel {
    tempered: Py<PyAny>,
    dim: usize,
    num_rows: usize,
    failure: Mutex<Option<PyErr>>,
}

impl PythonModel {
    fn note(&self, error: PyErr) {
        self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
    }

    fn has_failed(&self) -> bool {
        self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_some()
    }

    fn ask(&self, position: &[f32], rows: Rows<'_>, beta: f64, gradient: &mut [f32]) -> PyResult<LogLikelihood> {
        Python::attach(|py| {
            let theta = PyArray1::from_slice(py, position);
            let rows = match rows {
                Rows::These(rows) => Some(PyArray1::from_iter(py, rows.iter().map(|&row| i64::from(row)))),
                _ => None,
            };
            let answer = self.tempered.call1(py, (theta, rows, beta))?;
            let (value, log_beta_gradient, of_theta): (f64, f64, PyReadonlyArray1<'_, f32>) = answer.extract(py)?;
            if of_theta.as_array().len() != gradient.len() {
                let (found, needed) = (of_theta.as_array().len(), gradient.len());
                return Err(Failure::question(format!("the gradient has {found} numbers and θ has {needed}")).into());
            }
            gradient.iter_mut().zip(of_theta.as_array()).for_each(|(to, value)| *to = *value);
            Ok(LogLikelihood { value, log_beta_gradient })
        })
    }
}

impl Potential for PythonModel {
    type Workspace = ();

    fn dim(&self) -> usize {
        self.dim
    }

    /// −Σ log p(y|x,θ) of the batch; a search without a prior asks for nothing else.
    fn evaluate(&self, position: &[f32], batch: Batch<'_>, gradient: &mut [f32], (): &mut ()) -> f64 {
        let sum = self.tempered_gradient(position, batch.rows, batch.mode, 1.0, gradient, &mut ());
        let weight = batch.likelihood_weight as f32;
        gradient.iter_mut().for_each(|value| *value *= -weight);
        -batch.likelihood_weight * sum.value
    }

    fn workspace(&self) {}

    fn num_examples(&self) -> usize {
        self.num_rows
    }

    fn layout(&self) -> Layout {
        let mut layout = Layout::default();
        layout.push("theta", Role::Position, &[self.dim]);
        layout
    }
}

impl TemperedModel for PythonModel {
    fn tempered_gradient(
        &self,
        position: &[f32],
        rows: Rows<'_>,
        _: Mode<'_>,
        inverse_temperature: f64,
        gradient: &mut [f32],
        (): &mut (),
    ) -> LogLikelihood {
        match self.ask(position, rows, inverse_temperature, gradient) {
            Ok(sum) => sum,
            Err(error) => {
                // What is no number ends the search.
                self.note(error);
                gradient.fill(f32::NAN);
                LogLikelihood { value: f64::NAN, log_beta_gradient: f64::NAN }
            }
        }
    }

    fn add_prior_energy_gradient(&self, _: &[f32], scale: f64, gradient: &mut [f32]) {
        gradient.iter_mut().for_each(|value| *value *= scale as f32);
    }
}

/// A place where the validation rows were looked at.
struct Seen {
    step: u64,
    beta: f64,
    validation_lpd: f64,
    position: Vec<f32>,
}

/// Looks at validation rows, and keeps the best place.
struct Watch<'a> {
    model: &'a PythonModel,
    validate: &'a Py<PyAny>,
    cancel: &'a Cancel,
    seen: Mutex<Vec<Seen>>,
    progress: SearchProgress<'a>,
}

/// Tells how far the searches from all starts are.
struct SearchProgress<'a> {
    told: &'a Told,
    /// Steps of the searches before this one, and of all.
    steps_before: u64,
    steps: u64,
    began: Instant,
    /// Steps of this search, and when they were told last.
    reached: Mutex<(u64, Option<Instant>)>,
}

impl SearchProgress<'_> {
    fn advanced(&self, steps: u64) {
        let mut reached = self.reached.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (own_steps, told_at) = &mut *reached;
        *own_steps += steps;
        if told_at.is_some_and(|at| at.elapsed() < TELL_EVERY) {
            return;
        }
        *told_at = Some(Instant::now());
        let steps_done = self.steps_before + *own_steps;
        let rate = *own_steps as f64 / self.began.elapsed().as_secs_f64().max(1e-9);
        let left = self.steps.saturating_sub(steps_done) as f64 / rate;
        self.told.progress(&Moment {
            stage: Stage::Choosing,
            steps_done,
            steps: self.steps,
            steps_per_second: Some(rate),
            seconds_left: left.is_finite().then_some(left),
            chains: Vec::new(),
        });
    }
}

/// Places that were looked at, and the step at which the search diverged, if it did.
type Searched = (Vec<Seen>, Option<u64>);

impl Watch<'_> {
    fn look(&self, chain: &Chain) {
        let beta = chain.state.log_beta.exp();
        let scored = Python::attach(|py| {
            let theta = PyArray1::from_slice(py, &chain.state.position);
            self.validate.call1(py, (theta, beta))?.extract::<f64>(py)
        });
        match scored {
            Ok(validation_lpd) => {
                let mut seen = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                // Only the best place is asked for later.
                let best = seen.iter().map(|other| other.validation_lpd).fold(f64::NEG_INFINITY, f64::max);
                let is_best = validation_lpd > best;
                if is_best {
                    seen.iter_mut().for_each(|other| other.position.clear());
                }
                let position = if is_best { chain.state.position.clone() } else { Vec::new() };
                seen.push(Seen { step: chain.state.step, beta, validation_lpd, position });
            }
            Err(error) => self.model.note(error),
        }
    }
}

impl Observer for Watch<'_> {
    fn kept(&self, kept: &[(usize, &Chain)]) {
        kept.iter().for_each(|(_, chain)| self.look(chain));
    }

    fn advanced(&self, _: usize, steps: u64) -> ControlFlow<()> {
        self.progress.advanced(steps);
        match self.cancel.is_cancelled() || self.model.has_failed() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Searches from one start; β, θ and the path of the best validation score.
#[pyfunction]
#[pyo3(signature = (tempered, validate, start, repetition, plan, progress=None))]
pub fn search_beta<'py>(
    py: Python<'py>,
    tempered: Py<PyAny>,
    validate: Py<PyAny>,
    start: PyReadonlyArray1<'py, f32>,
    repetition: u32,
    plan: SearchPlan,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let start = start.as_array().to_vec();
    let work = move |cancel: &Cancel, told: &Arc<Told>| -> Result<PyResult<Searched>, Failure> {
        let question = |error: &dyn std::fmt::Display| Failure::question(error.to_string());
        let batches = Batches::new(plan.num_rows, plan.batch_size).map_err(|error| question(&error))?;
        let num_steps = plan.epochs * batches.steps_per_epoch();
        let every = (num_steps / plan.checkpoints.max(1)).max(1);
        let rule = JointAscent {
            objective: AscentObjective::default(),
            learning_rate: Schedule::CosineDecay { value: plan.learning_rate, total: num_steps },
            momentum: plan.momentum,
            weight_decay: plan.weight_decay,
            clip_norm: plan.clip_norm,
            clip_scope: ClipScope::All,
        };
        let dim = start.len();
        let model = PythonModel { tempered, dim, num_rows: plan.num_rows, failure: Mutex::new(None) };
        let progress = SearchProgress {
            told,
            steps_before: u64::from(repetition) * num_steps,
            steps: u64::from(plan.starts) * num_steps,
            began: Instant::now(),
            reached: Mutex::default(),
        };
        let watch = Watch { model: &model, validate: &validate, cancel, seen: Mutex::default(), progress };
        let mut chains = [Chain::new(repetition, Temperature::BAYES, start, &model.layout())];
        watch.look(&chains[0]);
        let keep = Keep { burn_in: 0, every };
        run_population(&model, &rule, &Plan { seed: plan.seed, batches, num_steps, keep }, &mut chains, &watch);
        let seen = watch.seen.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let failure = model.failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(failure.map_or(Ok((seen, chains[0].divergence.map(|at| at.step))), Err))
    };
    let conduct = Conduct { threads: Some(1), progress };
    let (seen, diverged_at) = carry_out(py, conduct, work)??;
    let best = seen.iter().find(|place| !place.position.is_empty());
    let Some(best) = best else {
        return Err(Failure::other("no validation score of the search is a number; lower the learning rate").into());
    };
    let answer = PyDict::new(py);
    answer.set_item("beta", best.beta)?;
    answer.set_item("validation_lpd", best.validation_lpd)?;
    answer.set_item("position", PyArray1::from_slice(py, &best.position))?;
    let path: Vec<(u64, f64, f64)> = seen.iter().map(|place| (place.step, place.beta, place.validation_lpd)).collect();
    answer.set_item("path", path)?;
    answer.set_item("diverged_at", diverged_at)?;
    Ok(answer)
}
