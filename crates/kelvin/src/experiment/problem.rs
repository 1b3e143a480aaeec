//! From settings to rows, split, standardised examples, network and likelihood.

use std::path::Path;

use super::error::ExperimentError;
use super::settings::Settings;
use crate::data::{Dataset, Examples, Split, Standardiser, Table, Target, Task, known_dataset, known_datasets};
use crate::likelihood::Likelihood;
use crate::network::Network;

/// Everything an experiment learns from and is judged on.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The rows as they were read.
    pub dataset: Dataset,
    /// Which rows are for what.
    pub split: Split,
    /// Training statistics.
    pub standardiser: Standardiser,
    /// Training rows.
    pub train: Examples,
    /// Validation rows.
    pub validation: Examples,
    /// Test rows.
    pub test: Examples,
    /// The network.
    pub network: Network,
    /// The likelihood.
    pub likelihood: Likelihood,
}

impl Problem {
    /// Reads the data set that `source` names, or the CSV file it points to.
    pub fn read_dataset(settings: &Settings, data_folder: Option<&Path>) -> Result<Dataset, ExperimentError> {
        let data = &settings.data;
        let is_known = known_datasets().iter().any(|known| known.name == data.source);
        if is_known && data.target.is_empty() {
            return Ok(known_dataset(&data.source)?.load(data_folder)?);
        }
        let table = Table::read(Path::new(&data.source))?;
        Ok(Dataset::from_table(&table, &data.target, &data.drop, data.task.task())?)
    }

    /// Splits and standardises a data set, and builds the network for it.
    pub fn new(dataset: Dataset, settings: &Settings) -> Result<Self, ExperimentError> {
        let split = Split::random(dataset.num_rows(), settings.run.seed)?;
        let standardiser = Standardiser::fit(&dataset, &split.train)?;
        let likelihood = match &dataset.target {
            Target::Real(_) => Likelihood::Gaussian { noise_variance: settings.model.noise_variance },
            Target::Classes { names, .. } => Likelihood::Categorical { num_classes: names.len() },
        };
        let network = Network::dense(dataset.num_features(), &settings.model.hidden, likelihood.num_outputs())?;
        Ok(Self {
            train: standardiser.examples(&dataset, &split.train)?,
            validation: standardiser.examples(&dataset, &split.val)?,
            test: standardiser.examples(&dataset, &split.test)?,
            split,
            standardiser,
            network,
            likelihood,
            dataset,
        })
    }

    /// What kind of answer the target is.
    pub fn task(&self) -> Task {
        self.dataset.task()
    }
}
