//! The columns to predict: mostly one, which files write as a text; several are a list.

use std::fmt;
use std::ops::Deref;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::DataError;
use super::table::Table;

/// Names of columns to predict, in the order in which they were asked for; none where the data have a target of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetNames(Vec<String>);

impl TargetNames {
    /// The columns of a table, one after the other.
    ///
    /// # Errors
    /// Where one is not there, or was named twice.
    pub fn columns(&self, table: &Table) -> Result<Vec<usize>, DataError> {
        // Nobody has a column without a name: what is told is which there are.
        let names = if self.is_empty() { &[String::new()] } else { &self.0[..] };
        let columns = names.iter().map(|name| table.column(name)).collect::<Result<Vec<_>, _>>()?;
        match (0..columns.len()).find(|&at| columns[..at].contains(&columns[at])) {
            Some(twice) => Err(DataError::TargetTwice { target: names[twice].clone() }),
            None => Ok(columns),
        }
    }

    /// As "`a`", "`a` and `b`" or "`a`, `b` and `c`".
    pub fn quoted(&self) -> String {
        let quoted: Vec<String> = self.iter().map(|name| format!("`{name}`")).collect();
        match quoted.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
            _ => quoted.concat(),
        }
    }

    /// Adds another name.
    pub fn push(&mut self, name: impl Into<String>) {
        self.0.push(name.into());
    }
}

impl Deref for TargetNames {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

/// An empty name is none.
impl From<String> for TargetNames {
    fn from(name: String) -> Self {
        Self(if name.is_empty() { Vec::new() } else { vec![name] })
    }
}

impl From<&str> for TargetNames {
    fn from(name: &str) -> Self {
        name.to_owned().into()
    }
}

impl From<&String> for TargetNames {
    fn from(name: &String) -> Self {
        name.clone().into()
    }
}

impl From<Vec<String>> for TargetNames {
    fn from(names: Vec<String>) -> Self {
        Self(names)
    }
}

impl PartialEq<str> for TargetNames {
    fn eq(&self, other: &str) -> bool {
        match &self.0[..] {
            [] => other.is_empty(),
            [name] => name == other,
            _ => false,
        }
    }
}

impl PartialEq<&str> for TargetNames {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

/// As `a, b`.
impl fmt::Display for TargetNames {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join(", "))
    }
}

impl Serialize for TargetNames {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [] => serializer.serialize_str(""),
            [name] => serializer.serialize_str(name),
            names => names.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for TargetNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = TargetNames;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the name of a column, or a list of names")
            }

            fn visit_str<E>(self, name: &str) -> Result<TargetNames, E> {
                Ok(name.into())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<TargetNames, A::Error> {
                let mut found = Vec::new();
                while let Some(name) = names.next_element()? {
                    found.push(name);
                }
                Ok(TargetNames(found))
            }
        }
        deserializer.deserialize_any(Names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> TargetNames {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn one_is_written_as_a_text_and_several_as_a_list() {
        for (text, names) in [("\"\"", vec![]), ("\"a\"", vec!["a"]), ("[\"a\",\"b, c\"]", vec!["a", "b, c"])] {
            let found = read(text);
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), names);
            assert_eq!(serde_json::to_string(&found).unwrap(), text);
        }
        assert_eq!((read("[\"a\"]"), read("\"\"").is_empty()), ("a".into(), true));
        let error = serde_json::from_str::<TargetNames>("3").unwrap_err().to_string();
        assert!(error.contains("expected the name of a column, or a list of names"), "{error}");
        let three = read("[\"a\", \"b\", \"c\"]");
        assert_eq!((three.to_string().as_str(), three.quoted().as_str()), ("a, b, c", "`a`, `b` and `c`"));
        assert_eq!((read("\"a\"").quoted().as_str(), read("\"\"").quoted().as_str()), ("`a`", ""));
    }

    #[test]
    fn columns_are_found_once_each() {
        let table = Table::from_bytes("t.csv", b"a,b,c\n1,2,3\n").unwrap();
        assert_eq!(read("[\"c\", \"a\"]").columns(&table), Ok(vec![2, 0]));
        assert_eq!(read("[\"a\", \"a\"]").columns(&table), Err(DataError::TargetTwice { target: "a".into() }));
        let error = read("[\"a\", \"bb\"]").columns(&table).unwrap_err().to_string();
        assert!(error.contains("column `bb` is not in t.csv"), "{error}");
        assert!(read("\"\"").columns(&table).is_err());
    }
}
