//! From columns as they are to numbers a network reads: what is done with each, as the training rows say.

use serde::{Deserialize, Serialize};

use super::column_kind::FeatureKind;
use super::date_parts::{DateInput, DateParts};
use super::levels::{LevelInput, Levels};

/// How each feature becomes inputs. Missing numbers become NaN, which standardisation takes for the mean.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Encoder {
    /// One for each feature, in their order.
    pub columns: Vec<ColumnEncoder>,
}

/// How one feature becomes inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColumnEncoder {
    /// The number.
    Number {
        /// Whether training rows miss it: then there is an input that says so.
        has_missing: bool,
    },
    /// 0 or 1.
    Boolean {
        /// Whether training rows miss it: then there is an input that says so.
        has_missing: bool,
    },
    /// Inputs of levels.
    Text(Levels),
    /// Inputs of dates.
    Date(DateParts),
}

/// How an input is scaled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scaling {
    /// By mean and standard deviation of the training rows.
    Measured,
    /// One that is 0 or 1: centred at the training share of ones, and divided by ½, the standard deviation where the two are equally many. So a
    /// level of few rows is no outlier.
    Flag,
    /// A sine or cosine: divided by the standard deviation of one whose angles are spread evenly.
    Circle,
}

/// Columns of some rows: what they are, and their numbers row after row.
#[derive(Clone, Copy)]
pub(super) struct RawRows<'a> {
    pub kinds: &'a [FeatureKind],
    pub values: &'a [f64],
}

impl<'a> RawRows<'a> {
    pub fn row(self, row: usize) -> &'a [f64] {
        &self.values[row * self.kinds.len()..][..self.kinds.len()]
    }
}

impl Encoder {
    /// Looks at the training rows and no others; none where every feature is a number in all of them, so that nothing is to be done.
    pub(super) fn fit(raw: RawRows<'_>, train: &[usize]) -> Option<Self> {
        let columns = raw.kinds.iter().enumerate().map(|(feature, kind)| {
            let values = train.iter().map(|&row| raw.row(row)[feature]);
            let has_missing = values.clone().any(f64::is_nan);
            match kind {
                FeatureKind::Number => ColumnEncoder::Number { has_missing },
                FeatureKind::Boolean => ColumnEncoder::Boolean { has_missing },
                FeatureKind::Text { levels } => {
                    ColumnEncoder::Text(Levels::fit(values.map(|code| level_of(levels, code))))
                }
                FeatureKind::Date(form) => ColumnEncoder::Date(DateParts::fit(*form, values)),
            }
        });
        let columns: Vec<ColumnEncoder> = columns.collect();
        let is_plain = columns.iter().all(|column| *column == ColumnEncoder::Number { has_missing: false });
        (!is_plain).then_some(Self { columns })
    }

    /// The numbers of rows, row after row.
    pub(super) fn encode(&self, raw: RawRows<'_>, rows: impl Iterator<Item = usize>) -> Vec<f64> {
        let of_levels: Vec<Vec<Vec<f64>>> =
            self.columns.iter().zip(raw.kinds).map(|(column, kind)| column.of_levels(kind)).collect();
        let mut numbers = Vec::new();
        for row in rows {
            for ((column, of_levels), &value) in self.columns.iter().zip(&of_levels).zip(raw.row(row)) {
                match column {
                    ColumnEncoder::Number { has_missing } | ColumnEncoder::Boolean { has_missing } => {
                        numbers.push(value);
                        numbers.extend(has_missing.then_some(f64::from(u8::from(value.is_nan()))));
                    }
                    ColumnEncoder::Text(_) => {
                        // Those of a row without a level come last.
                        let at = if value.is_nan() { of_levels.len() - 1 } else { value as usize };
                        numbers.extend(&of_levels[at]);
                    }
                    ColumnEncoder::Date(parts) => numbers.extend(parts.encode(value)),
                }
            }
        }
        numbers
    }

    /// That of one feature alone.
    pub(super) fn of_feature(&self, feature: usize) -> Self {
        Self { columns: vec![self.columns[feature].clone()] }
    }

    /// How each input is scaled.
    pub(super) fn scalings(&self) -> Vec<Scaling> {
        self.columns.iter().flat_map(ColumnEncoder::scalings).collect()
    }

    /// What each input is called.
    pub(super) fn input_names(&self, features: &[String]) -> Vec<String> {
        self.columns.iter().zip(features).flat_map(|(column, name)| column.input_names(name)).collect()
    }

    /// How many inputs there are.
    pub fn num_inputs(&self) -> usize {
        self.columns.iter().map(ColumnEncoder::num_inputs).sum()
    }
}

impl ColumnEncoder {
    /// How many inputs the feature becomes.
    pub fn num_inputs(&self) -> usize {
        self.scalings().len()
    }

    /// Whether a training row misses the value.
    pub fn has_missing(&self) -> bool {
        match self {
            Self::Number { has_missing } | Self::Boolean { has_missing } => *has_missing,
            Self::Text(levels) => levels.has_missing,
            Self::Date(parts) => parts.has_missing,
        }
    }

    /// The numbers of each level of a data set, and last of a missing one; nothing where the feature is no text.
    fn of_levels(&self, kind: &FeatureKind) -> Vec<Vec<f64>> {
        match (self, kind) {
            (Self::Text(own), FeatureKind::Text { levels }) => {
                levels.iter().map(|level| own.encode(Some(level))).chain([own.encode(None)]).collect()
            }
            _ => Vec::new(),
        }
    }

    fn scalings(&self) -> Vec<Scaling> {
        let with_flag = |first: Scaling, has_missing: bool| {
            if has_missing { vec![first, Scaling::Flag] } else { vec![first] }
        };
        match self {
            Self::Number { has_missing } => with_flag(Scaling::Measured, *has_missing),
            Self::Boolean { has_missing } => with_flag(Scaling::Flag, *has_missing),
            Self::Text(levels) => {
                let of = |input| if input == LevelInput::Frequency { Scaling::Measured } else { Scaling::Flag };
                levels.inputs().into_iter().map(of).collect()
            }
            Self::Date(parts) => {
                let of = |input| match input {
                    DateInput::Age => Scaling::Measured,
                    DateInput::Sine(_) | DateInput::Cosine(_) => Scaling::Circle,
                    DateInput::Missing => Scaling::Flag,
                };
                parts.inputs().into_iter().map(of).collect()
            }
        }
    }

    fn input_names(&self, name: &str) -> Vec<String> {
        let missing = || format!("{name} (missing)");
        match self {
            Self::Number { has_missing } | Self::Boolean { has_missing } => {
                std::iter::once(name.to_owned()).chain(has_missing.then(missing)).collect()
            }
            Self::Text(levels) => {
                let of = |input| match input {
                    LevelInput::Is(level) => format!("{name} = {level}"),
                    LevelInput::Bucket(bucket) => format!("{name} (hashed {})", bucket + 1),
                    LevelInput::Frequency => format!("{name} (frequency)"),
                    LevelInput::Other => format!("{name} (other)"),
                    LevelInput::Missing => missing(),
                };
                levels.inputs().into_iter().map(of).collect()
            }
            Self::Date(parts) => {
                let of = |input| match input {
                    DateInput::Age => name.to_owned(),
                    DateInput::Sine(circle) => format!("{name} ({}, sine)", circle.name()),
                    DateInput::Cosine(circle) => format!("{name} ({}, cosine)", circle.name()),
                    DateInput::Missing => missing(),
                };
                parts.inputs().into_iter().map(of).collect()
            }
        }
    }
}

/// The level that a code stands for.
pub(super) fn level_of(levels: &[String], code: f64) -> Option<&str> {
    if code.is_nan() { None } else { Some(&levels[code as usize]) }
}
