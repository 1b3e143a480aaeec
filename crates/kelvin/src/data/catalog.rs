//! The data sets known by name: how each is found and read.

use std::path::Path;

use super::cifar;
use super::dataset::{Dataset, Roles};
use super::error::DataError;
use super::idx::labels_from_idx;
use super::images::{Halves, ImageDataset, ImageSet, Images};
use super::known_dataset::{Kind, KnownDataset, Provision};
use super::known_sets::KNOWN;
use super::nearest::nearest_name;
use super::table::Table;
use super::target::Task;

/// All data sets known by name.
pub fn known_datasets() -> &'static [KnownDataset] {
    &KNOWN
}

/// The data set of this name; an error lists the names and the nearest.
pub fn known_dataset(name: &str) -> Result<&'static KnownDataset, DataError> {
    known_datasets().iter().find(|known| known.name == name).ok_or_else(|| DataError::UnknownDataset {
        asked: name.to_owned(),
        known: KNOWN.iter().map(|known| known.name.to_owned()).collect(),
        nearest: nearest_name(name, KNOWN.iter().map(|known| known.name)).map(str::to_owned),
    })
}

impl KnownDataset {
    /// Whether it holds images.
    pub fn has_images(&self) -> bool {
        matches!(self.kind, Kind::Images { .. })
    }

    /// Reads a table; where it is not at hand the error says which file is expected and where it comes from.
    pub fn load(&self, folder: Option<&Path>) -> Result<Dataset, DataError> {
        self.load_with(folder, &Roles::default())
    }

    /// Reads a table with columns taken as asked, without those that are never features; its own target is a number
    /// unless another task is asked for. Columns that say the same as others are features, as in the experiments that the set is known from.
    pub fn load_with(&self, folder: Option<&Path>, asked: &Roles) -> Result<Dataset, DataError> {
        let Kind::Table { target, drop, .. } = self.kind else { return Err(DataError::NotATable { name: self.name }) };
        let table = match self.provision {
            Provision::Embedded(text) => Table::from_bytes(self.files[0].name(), text.as_bytes())?,
            _ => {
                let files = self.read_files(folder)?;
                Table::from_bytes(&files[0].path.display().to_string(), &files[0].contents)?
            }
        };
        let roles = Roles {
            target: target.into(),
            drop: drop.iter().map(|&column| column.to_owned()).chain(asked.drop.iter().cloned()).collect(),
            task: asked.task.or(Some(Task::Regression)),
            kinds: asked.kinds.clone(),
            keeps_duplicates: true,
        };
        Dataset::with_roles(&table, &roles)
    }

    /// Whether it is computed: its validation and test images are then made apart, and not halves of one set.
    pub fn is_generated(&self) -> bool {
        matches!(self.provision, Provision::Generated(_))
    }

    /// Reads (or computes) a set of images, whose held-out images are halved in the order of their files; where files are not at
    /// hand the error names each and where it comes from.
    pub fn load_images(&self, folder: Option<&Path>) -> Result<ImageDataset, DataError> {
        self.load_images_halved(folder, Halves::FileOrder, 0)
    }

    /// The same with halves of one's choice.
    pub fn load_images_halved(
        &self,
        folder: Option<&Path>,
        halves: Halves,
        seed: u64,
    ) -> Result<ImageDataset, DataError> {
        let Kind::Images { class_names, .. } = self.kind else { return Err(DataError::NotImages { name: self.name }) };
        let (train, held_out) = match self.provision {
            Provision::Generated(pattern) => return Ok(pattern.dataset(self.name, class_names)),
            Provision::Cifar => self.cifar(folder)?,
            _ => self.idx(folder, class_names.len())?,
        };
        let (validation, test) = halves.of(held_out, seed);
        let class_names = class_names.iter().map(|&class| class.to_owned()).collect();
        Ok(ImageDataset { name: self.name.to_owned(), class_names, train, validation, test })
    }

    fn idx(&self, folder: Option<&Path>, num_classes: usize) -> Result<(ImageSet, ImageSet), DataError> {
        let files = self.read_files(folder)?;
        let name = |at: usize| files[at].path.display().to_string();
        let labelled = |images: usize, labels: usize| {
            let labels = labels_from_idx(&name(labels), &files[labels].contents)?;
            Images::from_idx(&name(images), &files[images].contents)?.with_labels(labels, num_classes)
        };
        Ok((labelled(0, 1)?, labelled(2, 3)?))
    }

    fn cifar(&self, folder: Option<&Path>) -> Result<(ImageSet, ImageSet), DataError> {
        let mut batches = Vec::with_capacity(self.files.len());
        for file in self.read_files(folder)? {
            batches.push(cifar::images(&file.path.display().to_string(), &file.contents)?);
        }
        let held_out = batches.pop().expect("the catalogue's list of batches is not empty");
        let mut train = batches.remove(0);
        for batch in batches {
            train.pixels.extend_from_slice(&batch.pixels);
            train.labels.extend_from_slice(&batch.labels);
        }
        Ok((train, held_out))
    }
}

#[cfg(test)]
mod tests {
    use super::super::presence::{FilePresence, Presence};
    use super::*;

    #[test]
    fn concrete_needs_no_file() {
        let concrete = known_dataset("concrete").unwrap();
        assert_eq!(concrete.presence(None).unwrap(), Presence::Embedded);
        let dataset = concrete.load(None).unwrap();
        let Kind::Table { num_rows, num_features, .. } = concrete.kind else { panic!("a table") };
        assert_eq!((dataset.num_rows(), dataset.num_features()), (num_rows, num_features));
        assert_eq!(dataset.row(0), [540.0, 0.0, 0.0, 162.0, 2.5, 1040.0, 676.0, 28.0]);
    }

    #[test]
    fn further_columns_can_be_left_out() {
        let concrete = known_dataset("concrete").unwrap();
        let names = concrete.load(None).unwrap().feature_names;
        let fewer = concrete.load_with(None, &Roles { drop: vec![names[7].clone()], ..Roles::default() }).unwrap();
        assert_eq!(fewer.feature_names, names[..7]);
        assert!(matches!(
            concrete.load_with(None, &Roles { drop: vec!["agee".into()], ..Roles::default() }),
            Err(DataError::UnknownColumn { nearest: Some(_), .. })
        ));
        assert!(matches!(
            concrete.load_with(None, &Roles { task: Some(Task::Classification), ..Roles::default() }),
            Err(DataError::TooManyClasses { .. })
        ));
    }

    #[test]
    fn generated_sets_need_no_file() {
        for name in ["stripes", "rings"] {
            let known = known_dataset(name).unwrap();
            assert_eq!(known.presence(None).unwrap(), Presence::Generated);
            let set = known.load_images(None).unwrap();
            let Kind::Images { shape, class_names, num_train, num_held_out } = known.kind else { panic!("images") };
            assert_eq!((set.shape(), set.num_classes()), (shape, class_names.len()));
            assert_eq!(
                [set.train.len(), set.validation.len(), set.test.len()],
                [num_train, num_held_out, num_held_out]
            );
        }
    }

    #[test]
    fn a_missing_file_is_asked_for_with_its_source() {
        let energy = known_dataset("energy").unwrap();
        assert_eq!(energy.presence(None).unwrap(), Presence::Files(vec![FilePresence::Missing]));
        let message = energy.load(None).unwrap_err().to_string();
        for part in ["energy.csv", "no data folder was given", "10.24432/C51307", "--data-dir DIR", "KELVIN_DATA"] {
            assert!(message.contains(part), "{part} not in {message}");
        }
        let message = energy.load(Some(Path::new("no/such/folder"))).unwrap_err().to_string();
        assert!(message.contains("is not in no/such/folder"), "{message}");
    }

    #[test]
    fn every_missing_file_is_named() {
        let cifar = known_dataset("cifar10").unwrap();
        let message = cifar.load_images(Some(Path::new("no/such/folder"))).unwrap_err().to_string();
        for part in ["data_batch_1.bin", "test_batch.bin", "are not in no/such/folder", "cs.toronto.edu"] {
            assert!(message.contains(part), "{part} not in {message}");
        }
        assert!(cifar.files.iter().all(|file| message.contains(file.sha256)), "{message}");
    }

    #[test]
    fn a_table_is_not_a_set_of_images() {
        let message = known_dataset("mnist").unwrap().load(None).unwrap_err().to_string();
        assert!(message.starts_with("the data set `mnist` holds images, not a table"), "{message}");
        assert!(matches!(known_dataset("naval").unwrap().load_images(None), Err(DataError::NotImages { .. })));
    }

    #[test]
    fn an_unknown_name_brings_the_nearest() {
        let message = known_dataset("nawal").unwrap_err().to_string();
        let known = "known: concrete, energy, naval, mnist, fashion-mnist, cifar10, stripes, rings";
        assert!(message.ends_with(&format!("{known}\n  did you mean `naval`?")), "{message}");
    }
}
