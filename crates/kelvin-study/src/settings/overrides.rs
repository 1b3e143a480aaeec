//! One setting changed by name: `sampler.learning_rate=1e-3`.

use crate::error::ExperimentError;
use crate::settings::experiment::{OPTIONAL, Settings};
use kelvin::data::nearest_name;

/// The settings with `text` ("key=value") applied; an unknown key is refused with the nearest right one. A network
/// (`model.network`, `model.layers`) takes the place of the one there was, with all that was said of that.
/// The result is not checked, since several changes may only make sense together: `Settings::check` comes last.
///
/// # Errors
/// If the text is not `key=value`, the key is unknown, or the value has another type.
pub fn with_override(settings: &Settings, text: &str) -> Result<Settings, ExperimentError> {
    let not_one = || ExperimentError::NotAnOverride { asked: text.into() };
    let (key, value) = text.split_once('=').ok_or_else(not_one)?;
    let (key, value) = (key.trim(), value.trim());
    if key.is_empty() {
        return Err(not_one());
    }
    if value.is_empty() {
        return Err(ExperimentError::NoValue { asked: text.into(), key: key.into() });
    }
    let place = format!(" from `{text}`");
    let unreadable = |reason: String| ExperimentError::Unreadable { place: place.clone(), reason };
    let mut table = toml::Table::try_from(settings).map_err(|error| unreadable(error.to_string()))?;
    let mut known = keys(&table, "");
    let absent = |name: &&&str| !known.iter().any(|key| key == **name);
    let optional: Vec<String> = OPTIONAL.iter().filter(absent).map(|&name| name.to_owned()).collect();
    known.extend(optional);
    if !known.iter().any(|name| name == key) {
        let suggestion = nearest_name(key, known.iter().map(String::as_str))
            .or_else(|| known.iter().map(String::as_str).find(|name| name.ends_with(&format!(".{key}"))))
            .map_or(String::new(), |name| format!("\n  did you mean `{name}`?"));
        return Err(ExperimentError::UnknownSetting { asked: key.into(), known: known.join(", "), suggestion });
    }
    let parsed = toml::from_str::<toml::Table>(&format!("value = {value}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| toml::Value::String(value.into()));
    let mut place_in = &mut table;
    let mut parts = key.split('.').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            // A whole number is as good as a real one where a real one is wanted, also one that is too large for TOML.
            let parsed = match (place_in.get(part), value.parse::<f64>()) {
                (Some(toml::Value::Float(_)), Ok(number)) => toml::Value::Float(number),
                _ => parsed,
            };
            place_in.insert(part.into(), parsed);
            break;
        }
        // A part that is optional as a whole may not be there yet.
        let inner = place_in.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        match inner {
            toml::Value::Table(inner) => place_in = inner,
            _ => return Err(not_one()),
        }
    }
    let mut settings: Settings =
        table.try_into().map_err(|error: toml::de::Error| unreadable(error.message().to_owned()))?;
    settings.model = settings.model.after_setting(key).spelled_out();
    Ok(settings)
}

fn keys(table: &toml::Table, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in table {
        match value {
            toml::Value::Table(inner) => found.extend(keys(inner, &format!("{prefix}{name}."))),
            _ => found.push(format!("{prefix}{name}")),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::DrawsSetting;
    use crate::settings::preset;

    fn changed(text: &str) -> Result<Settings, ExperimentError> {
        with_override(&preset("concrete").unwrap().settings(), text)
    }

    #[test]
    fn changes_one_setting() {
        assert_eq!(changed("sampler.learning_rate=2e-3").unwrap().sampler.learning_rate, 2e-3);
        assert_eq!(changed("model.noise_variance = 1").unwrap().model.noise_variance, 1.0);
        assert_eq!(changed("selection.clip_norm=100000000000000000000").unwrap().selection.clip_norm, 1e20);
        assert_eq!(changed("sampler.integrator=baoa").unwrap().sampler.integrator, kelvin::sampler::Integrator::Baoa);
        assert_eq!(changed("model.hidden=[32, 16]").unwrap().model.hidden, Some(vec![32, 16]));
        let other = changed("data.out_of_distribution=fashion-mnist").unwrap().data.out_of_distribution;
        assert_eq!(other.as_deref(), Some("fashion-mnist"));
        assert_eq!(changed("sampler.energy_rows=500").unwrap().sampler.energy_rows, Some(500));
        assert_eq!(changed("model.layers=['relu', { dense = { units = 2 } }]").unwrap().model.layers.unwrap().len(), 2);
        assert_eq!(changed("sampler.draws=scored").unwrap().sampler.draws, DrawsSetting::Scored);
        assert_eq!(changed("run.sampled_repetitions=1").unwrap().run.sampled_repetitions, Some(1));
        assert_eq!(changed("sampler.batch_size=64").unwrap().sampler.batch_size.rows(), Some(64));
    }

    #[test]
    fn a_network_takes_the_place_of_another() {
        let stripes = preset("stripes").unwrap().settings();
        let named = with_override(&stripes, "model.network=resnet-8").unwrap();
        assert_eq!((named.model.layers.as_ref(), named.model.batch_norm_momentum), (None, Some(0.99)));
        assert_eq!(named.model.start, Some(kelvin::network::KernelStart::He));
        named.check().unwrap();
        let other = with_override(&named, "model.normalisation=filter_response").unwrap();
        assert_eq!(other.model.batch_norm_momentum, None);
        other.check().unwrap();
        for text in ["model.layers=[{ dense = { units = 4 } }]", "model.network=mnist-cnn", "model.network=dense"] {
            let last = with_override(&other, text).unwrap();
            last.check().unwrap();
            assert_eq!(last.model.layers.is_some(), text.contains("layers"));
            assert_eq!(last.model.hidden.is_some(), text.contains("dense") && !text.contains("layers"));
            assert_eq!(last.model.start, Some(kelvin::network::KernelStart::Lecun));
        }
    }

    #[test]
    fn refuses_with_the_nearest_name() {
        let error = changed("sampler.learning_rat=1").unwrap_err().to_string();
        assert!(error.contains("did you mean `sampler.learning_rate`?"), "{error}");
        assert!(changed("burn_in=1").unwrap_err().to_string().contains("did you mean `sampler.burn_in`?"));
        assert!(changed("sampler.cycle").is_err());
        let error = changed("data.target=").unwrap_err().to_string();
        assert!(error.starts_with("`data.target=` gives no value") && error.contains("remove its line"), "{error}");
        assert_eq!(changed("data.target=\"\"").unwrap().data.target, "");
        assert!(changed("sampler.cycle=many").is_err());
        assert!(changed("sampler.cycle=0").unwrap().check().unwrap_err().to_string().contains("from 1 to"));
    }
}
