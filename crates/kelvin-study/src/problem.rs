//! From settings to training, validation and test rows, network and likelihood; of tables and of images.

use std::path::Path;

use crate::error::ExperimentError;
use crate::settings::{DataSettings, Settings, TaskSetting};
use kelvin::data::{
    Corruption, Dataset, Examples, FeatureKind, Halves, ImageDataset, ImageSet, Inputs, KnownDataset, Roles, Split,
    Standardiser, Table, Targets, known_dataset, known_datasets,
};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Evaluator, Network, Shape};
use kelvin::random::{Permutation, Purpose};
use serde::{Deserialize, Serialize};

/// The data as they were read, before they are split and standardised.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceData {
    /// Rows and columns of a CSV file or of a known data set.
    Table(Dataset),
    /// Images of a known data set.
    Images {
        /// Training, validation and test images.
        images: ImageDataset,
        /// Images of another data set, for measuring uncertainty out of distribution; none if none is asked for.
        out_of_distribution: Option<Box<ImageDataset>>,
    },
}

impl From<Dataset> for SourceData {
    fn from(table: Dataset) -> Self {
        Self::Table(table)
    }
}

impl SourceData {
    /// The network that the settings ask for, built for these data.
    ///
    /// # Errors
    /// If it does not fit them.
    pub fn network(&self, settings: &Settings) -> Result<Network, ExperimentError> {
        match self {
            Self::Table(table) => {
                // How many outputs it has does not depend on the rows.
                let rows: Vec<usize> = (0..table.num_rows()).collect();
                let likelihood = settings.build_likelihood(table, &rows)?;
                // How many inputs levels and dates become depends on the training rows.
                let is_number = |kind: &FeatureKind| *kind == FeatureKind::Number;
                let num_inputs = if table.kinds.iter().all(is_number) && !table.features.iter().any(|x| x.is_nan()) {
                    table.num_features()
                } else {
                    let split = Split::random(table.num_rows(), settings.run.seed)?;
                    Standardiser::fit(table, &split.train)?.num_inputs()
                };
                settings.model.build(Shape::flat(num_inputs), likelihood.num_outputs())
            }
            Self::Images { images, .. } => settings.model.build(images.shape(), images.num_classes()),
        }
    }
}

/// Everything an experiment learns from and is judged on.
#[derive(Clone, Debug)]
pub struct Problem {
    /// Where the rows come from.
    pub source: ProblemSource,
    /// The rows that chains learn from, standardised.
    pub train: Examples,
    /// What each of these rows counts for; none where each counts once. Rows that are held out do, in any case.
    pub row_weights: Option<Vec<f32>>,
    /// Training rows that learning theory looks at: all, or 2000 of them named by the seed.
    pub training_sample: Examples,
    /// The rows that β is chosen on.
    pub validation: Examples,
    /// The rows that scores are reported on.
    pub test: Examples,
    /// Test rows of another set; its classes are others, so its targets mean nothing.
    pub out_of_distribution: Option<Examples>,
    /// The test images, corrupted; none if no corruptions are named.
    pub corrupted: Vec<(Corruption, Examples)>,
    /// The network, built for these rows.
    pub network: Network,
    /// What an output says of a target.
    pub likelihood: Likelihood,
}

/// Where rows come from, and how to read more of their kind.
#[derive(Clone, Debug, PartialEq)]
pub enum ProblemSource {
    /// A table, with how it was split and standardised.
    Table(Box<TableSource>),
    /// Images, which have their own division and are only divided by 255.
    Images(ImageSource),
}

/// A table, split and standardised.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSource {
    /// The rows as they were read.
    pub dataset: Dataset,
    /// Which rows are for what.
    pub split: Split,
    /// How columns become inputs, and means and standard deviations, all of the training rows.
    pub standardiser: Standardiser,
}

/// Images of a known set.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageSource {
    /// The name of the set.
    pub name: String,
    /// What the labels stand for.
    pub class_names: Vec<String>,
    /// The shape of an image.
    pub shape: Shape,
    /// The name of the other set.
    pub out_of_distribution: Option<String>,
}

impl Problem {
    /// Reads the data set that `data.source` names, or the CSV file it points to.
    ///
    /// # Errors
    /// If the data set or a column is not known, a file cannot be read, or a setting does not apply to this kind of data.
    pub fn read_dataset(settings: &Settings, data_folder: Option<&Path>) -> Result<SourceData, ExperimentError> {
        let data = &settings.data;
        let known = known_datasets().iter().find(|known| known.name == data.source);
        match known.filter(|known| known.has_images() || data.target.is_empty()) {
            Some(known) if known.has_images() => {
                refuse_table_settings(data)?;
                // Looked up before anything large is read.
                let other = data.out_of_distribution.as_deref().map(known_dataset).transpose()?;
                if known.is_generated() && data.halves != Halves::FileOrder {
                    let reason =
                        format!("`{}` is generated, with validation and test images apart; leave it out", data.source);
                    return Err(ExperimentError::DoesNotApply { key: "data.halves", reason: reason.into() });
                }
                let read = |known: &KnownDataset| known.load_images_halved(data_folder, data.halves, settings.run.seed);
                let images = read(known)?;
                let other = other.map(|other| read(other).map(Box::new)).transpose()?;
                Ok(SourceData::Images { images, out_of_distribution: other })
            }
            known => {
                refuse_image_settings(data)?;
                let roles = Roles { task: settings.task(), ..data.roles() };
                match known {
                    Some(known) => Ok(SourceData::Table(known.load_with(data_folder, &roles)?)),
                    None => {
                        let table = Table::read(Path::new(&data.source))?;
                        Ok(SourceData::Table(Dataset::with_roles(&table, &roles)?))
                    }
                }
            }
        }
    }

    /// Makes rows ready to learn from, and builds the network for them.
    ///
    /// # Errors
    /// If the settings ask for more rows than there are, or the network does not fit the rows.
    pub fn new(data: impl Into<SourceData>, settings: &Settings) -> Result<Self, ExperimentError> {
        match data.into() {
            SourceData::Table(dataset) => Self::of_table(dataset, settings),
            SourceData::Images { images, out_of_distribution } => {
                Self::of_images(images, out_of_distribution.map(|other| *other), settings)
            }
        }
    }

    fn of_table(dataset: Dataset, settings: &Settings) -> Result<Self, ExperimentError> {
        refuse_image_settings(&settings.data)?;
        let split = Split::random(dataset.num_rows(), settings.run.seed)?;
        Self::of_division(dataset, split, settings)
    }

    /// The same table with its rows divided in this way; `None` for images.
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn divided(&self, split: Split, settings: &Settings) -> Result<Option<Self>, ExperimentError> {
        self.table().map(|table| Self::of_division(table.dataset.clone(), split, settings)).transpose()
    }

    /// A table with its rows divided in this way.
    ///
    /// # Errors
    /// As [`Problem::new`].
    pub fn of_division(dataset: Dataset, split: Split, settings: &Settings) -> Result<Self, ExperimentError> {
        let mut standardiser = Standardiser::fit(&dataset, &split.train)?;
        let likelihood = settings.build_likelihood(&dataset, &split.train)?;
        if likelihood.has_own_units() {
            standardiser = standardiser.with_the_target_as_it_is();
        }
        let network = settings.model.build(Shape::flat(standardiser.num_inputs()), likelihood.num_outputs())?;
        let train = standardiser.examples(&dataset, &split.train)?;
        let weights_of = |weights: &Vec<f64>| split.train.iter().map(|&row| weights[row] as f32).collect();
        Ok(Self {
            training_sample: sample(&train, settings.run.seed),
            train,
            row_weights: dataset.row_weights.as_ref().map(weights_of),
            validation: standardiser.examples(&dataset, &split.val)?,
            test: standardiser.examples(&dataset, &split.test)?,
            out_of_distribution: None,
            corrupted: Vec::new(),
            network,
            likelihood,
            source: ProblemSource::Table(Box::new(TableSource { dataset, split, standardiser })),
        })
    }

    fn of_images(
        images: ImageDataset,
        other: Option<ImageDataset>,
        settings: &Settings,
    ) -> Result<Self, ExperimentError> {
        let data = &settings.data;
        let shape = images.shape();
        let num_classes = images.num_classes();
        settings.model.check_kind(false)?;
        let network = settings.model.build(shape, num_classes)?;
        if data.augmentation > 0.0 && !matches!(network.evaluator(), Evaluator::Images(_)) {
            return Err(ExperimentError::DoesNotApply {
                key: "data.augmentation",
                reason: "a dense network does not see images as images; use one with convolutions".into(),
            });
        }
        if let Some(other) = other.as_ref().filter(|other| other.shape() != shape) {
            return Err(ExperimentError::OtherShape {
                asked: other.name.clone(),
                found: other.shape(),
                source_name: images.name,
                needed: shape,
            });
        }
        let other_name = other.as_ref().map(|other| other.name.clone());
        let out_of_distribution = other.map(|other| {
            let count = data.test_images.map_or(other.test.len(), |most| most.min(other.test.len()));
            let mut examples = examples(other.test.first(count));
            examples.targets = Targets::Classes(vec![0; count]);
            examples
        });
        let train = examples(first(images.train, "data.train_images", data.train_images)?);
        let test = first(images.test, "data.test_images", data.test_images)?;
        let corrupted = Corruption::all_of(&data.corruptions)
            .map(|corruption| (corruption, examples(corruption.of(&test, settings.run.seed))))
            .collect();
        Ok(Self {
            training_sample: sample(&train, settings.run.seed),
            train,
            row_weights: None,
            validation: examples(first(images.validation, "data.validation_images", data.validation_images)?),
            test: examples(test),
            out_of_distribution,
            corrupted,
            network,
            likelihood: Likelihood::Categorical { num_classes },
            source: ProblemSource::Images(ImageSource {
                name: images.name,
                class_names: images.class_names,
                shape,
                out_of_distribution: other_name,
            }),
        })
    }

    /// The table, where the rows come from one.
    pub fn table(&self) -> Option<&TableSource> {
        match &self.source {
            ProblemSource::Table(table) => Some(table),
            ProblemSource::Images(_) => None,
        }
    }

    /// The name of the other set of images, where there is one.
    pub fn out_of_distribution_name(&self) -> Option<&str> {
        match &self.source {
            ProblemSource::Table(_) => None,
            ProblemSource::Images(images) => images.out_of_distribution.as_deref(),
        }
    }

    /// What the classes are called; none in a regression.
    pub fn class_names(&self) -> &[String] {
        match &self.source {
            ProblemSource::Table(table) => table.dataset.class_names(),
            ProblemSource::Images(images) => &images.class_names,
        }
    }

    /// The units of each target that is a number; none of classes.
    pub fn target_units(&self) -> Vec<Units> {
        let scales = self.table().map_or(&[][..], |table| &table.standardiser.targets);
        scales.iter().map(|scale| Units { mean: scale.mean, std: scale.std }).collect()
    }
}

fn examples(images: ImageSet) -> Examples {
    Examples {
        num_features: images.shape.len(),
        inputs: Inputs::Bytes(images.pixels.into()),
        targets: Targets::Classes(images.labels),
    }
}

/// The most training rows that each draw is evaluated at.
const MOST_SAMPLED: usize = 2000;

/// All rows, or so many of them as a draw can be evaluated at in passing.
fn sample(train: &Examples, seed: u64) -> Examples {
    if train.len() <= MOST_SAMPLED {
        return train.clone();
    }
    let mut rows = vec![0; MOST_SAMPLED];
    Permutation::new(seed, Purpose::TrainingSample, 0, 0, train.len()).fill(0, &mut rows);
    rows.sort_unstable();
    train.these(&rows)
}

/// The first so many images, or all.
fn first(images: ImageSet, key: &'static str, asked: Option<usize>) -> Result<ImageSet, ExperimentError> {
    match asked {
        None => Ok(images),
        Some(asked) if (1..=images.len()).contains(&asked) => Ok(images.first(asked)),
        Some(asked) => Err(ExperimentError::OutOfRange {
            key,
            needs: format!("from 1 to {} (the images there are)", images.len()).into(),
            found: asked.to_string(),
        }),
    }
}

/// Settings of a table make no sense for images, nor does the set itself as another one.
fn refuse_table_settings(data: &DataSettings) -> Result<(), ExperimentError> {
    let given = [
        ("data.target", !data.target.is_empty()),
        ("data.drop", !data.drop.is_empty()),
        ("data.task", data.task != TaskSetting::Auto),
        ("data.columns", !data.columns.is_empty()),
    ];
    if let Some((key, _)) = given.into_iter().find(|(_, given)| *given) {
        let reason = format!("`{}` is a set of images, which have no columns; leave it out", data.source);
        return Err(ExperimentError::DoesNotApply { key, reason: reason.into() });
    }
    if data.out_of_distribution.as_ref() == Some(&data.source) {
        let reason = format!("`{}` is the set to learn from; name another of the same shape", data.source);
        return Err(ExperimentError::DoesNotApply { key: "data.out_of_distribution", reason: reason.into() });
    }
    Ok(())
}

/// Settings of images make no sense for a table.
fn refuse_image_settings(data: &DataSettings) -> Result<(), ExperimentError> {
    let given = [
        ("data.augmentation", data.augmentation != 0.0),
        ("data.halves", data.halves != Halves::FileOrder),
        ("data.train_images", data.train_images.is_some()),
        ("data.validation_images", data.validation_images.is_some()),
        ("data.test_images", data.test_images.is_some()),
        ("data.out_of_distribution", data.out_of_distribution.is_some()),
        ("data.corruptions", !data.corruptions.is_empty()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((key, _)) => Err(ExperimentError::DoesNotApply {
            key,
            reason: format!("`{}` is a table, and this setting is for images; leave it out", data.source).into(),
        }),
    }
}

/// Mean and standard deviation of a target before it was standardised: y = mean + std · y'.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Units {
    /// Mean of the training targets.
    pub mean: f64,
    /// Standard deviation of the training targets.
    pub std: f64,
}

impl Units {
    /// Those of what was not standardised.
    pub const ORIGINAL: Self = Self { mean: 0.0, std: 1.0 };

    /// A standardised number in original units.
    pub fn original(self, value: f64) -> f64 {
        self.mean + self.std * value
    }
}

/// Standardised numbers in original units; the targets of a row stand side by side.
pub fn in_units(units: &[Units], numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    numbers.zip(units.iter().cycle()).map(|(number, units)| units.original(number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::preset;

    fn problem(change: impl Fn(&mut Settings)) -> Result<Problem, ExperimentError> {
        let mut settings = preset("stripes").unwrap().settings();
        change(&mut settings);
        Problem::new(Problem::read_dataset(&settings, None)?, &settings)
    }

    #[test]
    fn images_become_examples_with_their_own_division() {
        let problem = problem(|settings| {
            settings.data.train_images = Some(300);
            settings.data.validation_images = Some(20);
            settings.data.test_images = Some(30);
        })
        .unwrap();
        assert_eq!([problem.train.len(), problem.validation.len(), problem.test.len()], [300, 20, 30]);
        assert_eq!(problem.out_of_distribution.as_ref().unwrap().len(), 30);
        assert_eq!((problem.train.num_features, problem.likelihood.num_outputs()), (144, 4));
        let ProblemSource::Images(source) = &problem.source else { panic!("images") };
        assert_eq!((source.shape, source.name.as_str()), (Shape::image(12, 12, 1), "stripes"));
        assert_eq!(source.out_of_distribution.as_deref(), Some("rings"));
        assert!(problem.table().is_none() && problem.target_units().is_empty());
        assert_eq!(problem.class_names().len(), 4);
    }

    #[test]
    fn settings_that_do_not_fit_the_images_are_named() {
        let refused = |change: fn(&mut Settings), phrases: &[&str]| {
            let error = problem(change).unwrap_err().to_string();
            assert!(phrases.iter().all(|phrase| error.contains(phrase)), "{error}");
        };
        refused(|s| s.data.train_images = Some(9999), &["data.train_images must be from 1 to 512", "got 9999"]);
        refused(|s| s.data.out_of_distribution = Some("ringz".into()), &["ringz", "did you mean `rings`?"]);
        refused(|s| s.data.out_of_distribution = Some("naval".into()), &["naval", "holds no images"]);
        refused(
            |s| s.data.out_of_distribution = Some("stripes".into()),
            &["data.out_of_distribution does not apply", "`stripes` is the set to learn from"],
        );
        refused(|s| s.data.halves = Halves::Permuted, &["data.halves does not apply", "`stripes` is generated"]);
        refused(
            |s| {
                s.data =
                    DataSettings { source: "concrete".into(), halves: Halves::Permuted, ..DataSettings::default() };
            },
            &["data.halves does not apply", "`concrete` is a table"],
        );
        refused(|s| s.data.target = "y".into(), &["data.target does not apply", "`stripes` is a set of images"]);
        refused(|s| s.data.drop = vec!["x".into()], &["data.drop does not apply", "have no columns"]);
        refused(|s| s.data.task = TaskSetting::Regression, &["data.task does not apply", "have no columns"]);
        // The name is wrong whether or not the files of the first set are there.
        refused(
            |s| {
                s.data.source = "mnist".into();
                s.data.out_of_distribution = Some("fashion".into());
            },
            &["no data set is named `fashion`"],
        );
        refused(
            |s| {
                s.model.layers = None;
                s.data.augmentation = 0.5;
            },
            &["data.augmentation does not apply", "dense network"],
        );
        refused(
            |s| s.data.source = "concrete".into(),
            &["data.out_of_distribution does not apply", "`concrete` is a table"],
        );
    }

    #[test]
    fn many_training_rows_are_sampled_by_name() {
        let targets: Vec<f32> = (0..5000_u16).map(f32::from).collect();
        let many = Examples { inputs: targets.clone().into(), num_features: 1, targets: Targets::Real(targets) };
        let some = sample(&many, 3);
        assert_eq!((some.len(), some == sample(&many, 3), some == sample(&many, 4)), (2000, true, false));
        let few = many.these(&[4, 2]);
        assert_eq!(sample(&few, 3), few);
    }

    #[test]
    fn another_set_must_have_images_of_the_same_shape() {
        let settings = preset("stripes").unwrap().settings();
        let images = known_dataset("stripes").unwrap().load_images(None).unwrap();
        let mut other = images.clone();
        for part in [&mut other.train, &mut other.validation, &mut other.test] {
            part.shape.height = 24;
            part.shape.width = 6;
        }
        other.name = "long stripes".into();
        let data = SourceData::Images { images, out_of_distribution: Some(Box::new(other)) };
        let error = Problem::new(data, &settings).unwrap_err().to_string();
        assert!(error.contains("`long stripes` has images of 24×6×1") && error.contains("12×12×1"), "{error}");
    }
}
