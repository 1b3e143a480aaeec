//! What belongs to targets, as files have it: nothing as null, that of one target by itself, those of several as a list.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum OneOrSeveral<T> {
    One(T),
    Several(Vec<T>),
}

/// Writes a list of this form.
///
/// # Errors
/// Those of the writer.
pub fn serialize<T: Serialize, S: Serializer>(list: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    match list {
        [] => serializer.serialize_none(),
        [one] => one.serialize(serializer),
        several => several.serialize(serializer),
    }
}

/// Reads one.
///
/// # Errors
/// Where it is of another form.
pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Ok(match Option::deserialize(deserializer)? {
        None => Vec::new(),
        Some(OneOrSeveral::One(one)) => vec![one],
        Some(OneOrSeveral::Several(several)) => several,
    })
}
