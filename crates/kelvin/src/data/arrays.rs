//! A data set from arrays in memory, checked like a table.

use super::column_kind::FeatureKind;
use super::dataset::Dataset;
use super::error::DataError;
use super::target::Target;
use super::target_names::TargetNames;

impl Dataset {
    /// Rows that are in memory: `features` is row-major, one number for each of `feature_names` in every row of the target; so are
    /// the numbers of several targets.
    ///
    /// Columns that are the same in every row are left out and named in [`Dataset::dropped_constant`], as from a table.
    ///
    /// # Errors
    /// Where the sizes do not go together, a number is not finite, a label has no class, or no column differs between rows.
    pub fn from_arrays(
        name: &str,
        feature_names: &[&str],
        features: &[f64],
        target_names: impl Into<TargetNames>,
        target: Target,
    ) -> Result<Self, DataError> {
        let (name, target_names) = (name.to_owned(), target_names.into());
        let num_targets = target_names.len().max(1);
        let num_rows = match &target {
            Target::Real(values) if values.len().is_multiple_of(num_targets) => values.len() / num_targets,
            Target::Real(_) => 0,
            Target::Classes { labels, .. } => labels.len(),
        };
        let num_features = feature_names.len();
        if num_rows == 0 || num_features == 0 || features.len() != num_rows * num_features {
            return Err(DataError::ArraySizes { name, num_numbers: features.len(), num_rows, num_features });
        }
        let not_finite = |row: usize, column: &str, found: f64| DataError::ArrayNotFinite {
            name: name.clone(),
            row,
            column: column.to_owned(),
            found: found.to_string(),
        };
        if let Some(at) = features.iter().position(|value| !value.is_finite()) {
            return Err(not_finite(at / num_features, feature_names[at % num_features], features[at]));
        }
        match &target {
            Target::Real(values) => {
                if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                    return Err(not_finite(at / num_targets, &target_names[at % num_targets], values[at]));
                }
            }
            Target::Classes { labels, names } => {
                if let Some(row) = labels.iter().position(|&label| label as usize >= names.len()) {
                    return Err(DataError::ArrayLabel { name, row, found: labels[row], num_classes: names.len() });
                }
            }
        }
        let differs = |column: &usize| features.chunks(num_features).any(|row| row[*column] != features[*column]);
        let kept: Vec<usize> = (0..num_features).filter(differs).collect();
        let named = |columns: &mut dyn Iterator<Item = usize>| columns.map(|at| feature_names[at].to_owned()).collect();
        let dropped_constant: Vec<String> = named(&mut (0..num_features).filter(|at| !kept.contains(at)));
        if kept.is_empty() {
            let columns = feature_names.iter().map(|&name| name.to_owned()).collect();
            let (file, target) = (name, target_names.to_string());
            return Err(DataError::NoFeatures { file, target, columns, left_out: dropped_constant });
        }
        Ok(Self {
            feature_names: named(&mut kept.iter().copied()),
            features: features.chunks(num_features).flat_map(|row| kept.iter().map(|&at| row[at])).collect(),
            target_names,
            kinds: vec![FeatureKind::Number; kept.len()],
            target,
            row_weights: None,
            dropped_constant,
            left_out: Vec::new(),
            rows_without_target: Vec::new(),
            notes: Vec::new(),
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Table;

    #[test]
    fn arrays_give_what_the_same_table_gives() {
        let text = "size,flat,age,price\n1,5,7,10.5\n2,5,8,20.5\n4,5,9,40.5\n";
        let table = Table::from_bytes("houses", text.as_bytes()).unwrap();
        let from_table = Dataset::from_table(&table, "price", &[], None).unwrap();
        let features = [1.0, 5.0, 7.0, 2.0, 5.0, 8.0, 4.0, 5.0, 9.0];
        let target = Target::Real(vec![10.5, 20.5, 40.5]);
        let names = ["size", "flat", "age"];
        assert_eq!(Dataset::from_arrays("houses", &names, &features, "price", target).unwrap(), from_table);
    }

    #[test]
    fn what_does_not_go_together_is_told() {
        let error = |features: &[f64], target| {
            Dataset::from_arrays("mine", &["a", "b"], features, "y", target).unwrap_err().to_string()
        };
        let short = error(&[1.0, 2.0, 3.0], Target::Real(vec![1.0, 2.0]));
        assert!(short.contains("3 numbers") && short.contains("2 rows of 2 features"), "{short}");
        let nan = error(&[1.0, 2.0, 3.0, f64::NAN], Target::Real(vec![1.0, 2.0]));
        assert!(nan.contains("row 1") && nan.contains("`b`") && nan.contains("NaN"), "{nan}");
        let first = error(&[1.0, 2.0, 3.0, 4.0, f64::INFINITY, 6.0], Target::Real(vec![1.0, 2.0, 3.0]));
        assert!(first.contains("row 2") && first.contains("`a`"), "{first}");
        let infinite = error(&[1.0, 2.0, 3.0, 4.0], Target::Real(vec![f64::INFINITY, 2.0]));
        assert!(infinite.contains("row 0") && infinite.contains("`y`"), "{infinite}");
        let names = vec!["no".into(), "yes".into()];
        let label = error(&[1.0, 2.0, 3.0, 4.0], Target::Classes { labels: vec![1, 2], names });
        assert!(label.contains("class 2") && label.contains("row 1"), "{label}");
        let constant = error(&[1.0, 2.0, 1.0, 2.0], Target::Real(vec![1.0, 2.0]));
        assert!(constant.contains("a, b"), "{constant}");
    }
}
