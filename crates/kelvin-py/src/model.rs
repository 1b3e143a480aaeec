//! A fitted model as a Python object: arrays in, predictions out; saved, loaded and pickled as the files of its run folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelvin::network::Layout;
use kelvin::sampler::CpuEngine;
use kelvin_report::present;
use kelvin_study::findings::ModelKind;
use kelvin_study::folder::{FittedModel, write_files};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::conduct::pool;
use crate::error::Failure;
use crate::table::{GivenColumn, inputs, owned};
use crate::wording::in_python;

/// A fitted model.
#[pyclass(frozen, module = "kelvin._kelvin")]
pub struct Model {
    fitted: Arc<FittedModel>,
    /// Which of its run's models was asked to predict, by name.
    asked: Option<String>,
}

impl Model {
    /// The model of a finished run in a folder: the one that was asked for by name, or the one that the run chose.
    pub fn read(folder: &Path, asked: Option<String>) -> Result<Self, Failure> {
        let kind = asked.as_deref().map(kind_named).transpose()?;
        Ok(Self { fitted: Arc::new(FittedModel::read(folder, kind)?), asked })
    }

    fn in_folder<T>(&self, work: impl FnOnce(&Path) -> Result<T, Failure>) -> Result<T, Failure> {
        let folder = tempfile::tempdir()?;
        write_files(self.fitted.files(), folder.path())?;
        work(folder.path())
    }
}

#[pymethods]
impl Model {
    /// The model of a run folder, or of what `save` wrote.
    #[staticmethod]
    #[pyo3(signature = (folder, model=None))]
    fn load(py: Python<'_>, folder: PathBuf, model: Option<String>) -> PyResult<Self> {
        Ok(py.detach(|| Self::read(&folder, model))?)
    }

    /// Writes it as a folder, which the program `kelvin` reads, too.
    fn save(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| self.fitted.write(&folder).map_err(Failure::from))?)
    }

    /// The files it consists of, as `from_files` takes them.
    fn files<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let files = PyDict::new(py);
        for (name, bytes) in self.fitted.files() {
            files.set_item(name, PyBytes::new(py, bytes))?;
        }
        Ok(files)
    }

    /// The model of such files.
    #[staticmethod]
    #[pyo3(signature = (files, model=None))]
    fn from_files(py: Python<'_>, files: BTreeMap<String, Vec<u8>>, model: Option<String>) -> PyResult<Self> {
        let read = || -> Result<Self, Failure> {
            let folder = tempfile::tempdir()?;
            write_files(&files, folder.path())?;
            Self::read(folder.path(), model)
        };
        Ok(py.detach(read)?)
    }

    /// Which of its run's models was asked to predict; none where the run chose.
    #[getter]
    fn asked(&self) -> Option<String> {
        self.asked.clone()
    }

    /// Mean, standard deviation and its two parts for each row, and a row of quantiles for each probability; of several targets with an axis of these
    /// behind.
    fn numbers<'py>(
        &self,
        py: Python<'py>,
        columns: Vec<GivenColumn<'py>>,
        probabilities: Vec<f64>,
        threads: Option<usize>,
    ) -> PyResult<(Bound<'py, PyDict>, Vec<String>)> {
        let (fitted, columns) = (&self.fitted, owned(columns));
        let (found, notes) = py.detach(|| -> Result<_, Failure> {
            let (inputs, notes) = inputs(fitted, &columns)?;
            Ok((pool(threads)?.install(|| fitted.numbers(&CpuEngine, &inputs, &probabilities))?, notes))
        })?;
        let answer = PyDict::new(py);
        let num_targets = fitted.model().target_names.len();
        let array = |values: Vec<f64>| -> PyResult<Bound<'py, PyAny>> {
            let shape = [values.len() / num_targets.max(1), num_targets];
            let values = PyArray1::from_vec(py, values);
            Ok(if num_targets > 1 { values.reshape(shape)?.into_any() } else { values.into_any() })
        };
        answer.set_item("mean", array(found.mean)?)?;
        answer.set_item("std", array(found.std)?)?;
        answer.set_item("aleatoric", array(found.aleatoric)?)?;
        answer.set_item("epistemic", array(found.epistemic)?)?;
        let quantiles = found.quantiles.into_iter().map(array).collect::<PyResult<Vec<_>>>()?;
        answer.set_item("quantiles", quantiles)?;
        Ok((answer, notes))
    }

    /// The probability of each class for each row, and the two parts of its uncertainty in nats.
    fn classes<'py>(
        &self,
        py: Python<'py>,
        columns: Vec<GivenColumn<'py>>,
        threads: Option<usize>,
    ) -> PyResult<(Bound<'py, PyDict>, Vec<String>)> {
        let (fitted, columns) = (&self.fitted, owned(columns));
        let (found, notes) = py.detach(|| -> Result<_, Failure> {
            let (inputs, notes) = inputs(fitted, &columns)?;
            Ok((pool(threads)?.install(|| fitted.classes(&CpuEngine, &inputs))?, notes))
        })?;
        let answer = PyDict::new(py);
        let shape = [found.aleatoric.len(), self.fitted.model().class_names.len()];
        answer.set_item("probabilities", PyArray1::from_vec(py, found.probabilities).reshape(shape)?)?;
        answer.set_item("aleatoric", PyArray1::from_vec(py, found.aleatoric))?;
        answer.set_item("epistemic", PyArray1::from_vec(py, found.epistemic))?;
        Ok((answer, notes))
    }

    /// What predicts, as the tables of its run call it.
    #[getter]
    fn label(&self) -> String {
        self.fitted.label().to_owned()
    }

    /// The inverse temperature β that its draws were sampled at.
    #[getter]
    fn beta(&self) -> f64 {
        self.fitted.model().inverse_temperature
    }

    /// The columns it reads, in order.
    #[getter]
    fn feature_names(&self) -> Vec<String> {
        self.fitted.model().feature_names.clone()
    }

    /// What the classes are called, in order; none of a model of numbers.
    #[getter]
    fn class_names(&self) -> Vec<String> {
        self.fitted.model().class_names.clone()
    }

    /// What its run warns of, in sentences.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.fitted.findings().warnings.iter().map(|warning| in_python(&warning.to_string()).into_owned()).collect()
    }

    /// Everything its run found, as JSON.
    #[getter]
    fn results(&self) -> PyResult<String> {
        let bytes = self.fitted.files().get("results.json").cloned().unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The page of its run, as HTML.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        let page = || {
            self.in_folder(|folder| {
                present::write_all(folder, self.fitted.findings().clone())?;
                Ok(std::fs::read_to_string(folder.join(present::REPORT))?)
            })
        };
        Ok(py.detach(page)?)
    }

    /// The arrays of its draws by name, each of shape [chains, draws, …], and what was measured at each draw.
    fn draws<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        let model = self.fitted.model();
        let layout: Layout = kelvin::draws::DrawLayout::from((&model.network, model.likelihood)).position;
        let draws = self.fitted.draws();
        let num_draws = draws.iter().map(|chain| chain.len()).min().unwrap_or(0);
        let weights = PyDict::new(py);
        for tensor in layout.tensors() {
            let mut values = Vec::with_capacity(draws.len() * num_draws * tensor.range.len());
            for chain in draws {
                let all = chain.all().map_err(kelvin_study::error::StudyError::from).map_err(Failure::from)?;
                let of_chain = all.iter().take(num_draws);
                of_chain.for_each(|draw| values.extend_from_slice(&draw.parameters[tensor.range.clone()]));
            }
            let shape: Vec<usize> = [draws.len(), num_draws].into_iter().chain(tensor.shape.iter().copied()).collect();
            weights.set_item(&tensor.name, PyArray1::from_vec(py, values).reshape(shape)?)?;
        }
        let measured = PyDict::new(py);
        let put = |name: &str, of: fn(&kelvin::draws::Draws) -> &Vec<f64>| -> PyResult<()> {
            if draws.iter().all(|chain| of(chain).len() >= num_draws) {
                let values: Vec<f64> = draws.iter().flat_map(|chain| of(chain)[..num_draws].to_vec()).collect();
                measured.set_item(name, PyArray1::from_vec(py, values).reshape([draws.len(), num_draws])?)?;
            }
            Ok(())
        };
        put("potential_energy", |chain| &chain.potential_energy)?;
        put("configurational_temperature", |chain| &chain.configurational_temperature)?;
        put("kinetic_temperature", |chain| &chain.kinetic_temperature)?;
        Ok((weights, measured))
    }
}

/// The kind of model that `kelvin predict --model` calls so.
pub fn kind_named(name: &str) -> Result<ModelKind, Failure> {
    const NAMES: [(&str, ModelKind); 7] = [
        ("bayes", ModelKind::Bayes),
        ("beta-star", ModelKind::Chosen),
        ("network", ModelKind::Sgd),
        ("ensemble", ModelKind::Ensemble),
        ("laplace", ModelKind::Laplace),
        ("swag", ModelKind::Swag),
        ("linear", ModelKind::Linear),
    ];
    let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
    let names = NAMES.map(|(name, _)| name).join(", ");
    found.ok_or_else(|| Failure::question(format!("there is no model {name:?}; name one of {names}")))
}
