//! A user's own layers in TOML: `["relu", { conv = { filters = 8, kernel = 3 } }, …]`.
//!
//! A layer that needs no settings, or whose settings all have defaults, may be its name alone.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::{Table, Value};

use kelvin::data::nearest_name;
use kelvin::network::Layer;

/// Layers whose settings all have defaults: the name alone stands for them.
const DEFAULTED: [&str; 3] = ["batch_norm", "filter_response_norm", "layer_norm"];
const NAMES: [&str; 15] = [
    "dense",
    "conv",
    "batch_norm",
    "filter_response_norm",
    "group_norm",
    "layer_norm",
    "threshold",
    "relu",
    "tanh",
    "gelu",
    "silu",
    "avg_pool",
    "max_pool",
    "global_avg_pool",
    "residual",
];

/// Reads a list of layers, or nothing where there is none.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Layer>>, D::Error> {
    let values = Vec::<Value>::deserialize(deserializer)?;
    values.into_iter().map(|value| layer(value).map_err(D::Error::custom)).collect::<Result<_, _>>().map(Some)
}

fn layer(value: Value) -> Result<Layer, String> {
    let text = value.to_string();
    Layer::deserialize(spelled_out(value)?).map_err(|error| format!("the layer {text}: {}", error.message()))
}

/// Names of layers with defaults become tables, also inside residual layers; unknown names are refused with the nearest.
fn spelled_out(value: Value) -> Result<Value, String> {
    let name = match &value {
        Value::String(name) => name.clone(),
        Value::Table(table) if table.len() == 1 => table.keys().next().cloned().unwrap_or_default(),
        _ => return Err(format!("{value} is not a layer; write \"relu\" or {{ dense = {{ units = 10 }} }}")),
    };
    if !NAMES.contains(&name.as_str()) {
        let nearest = nearest_name(&name, NAMES).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        return Err(format!("there is no layer `{name}` among {}{nearest}", NAMES.join(", ")));
    }
    match value {
        Value::String(name) if DEFAULTED.contains(&name.as_str()) => {
            Ok(Value::Table(Table::from_iter([(name, Value::Table(Table::new()))])))
        }
        Value::Table(mut table) => {
            if let Some(Value::Table(residual)) = table.get_mut("residual") {
                for branch in ["body", "shortcut"] {
                    if let Some(Value::Array(layers)) = residual.get_mut(branch) {
                        *layers = std::mem::take(layers).into_iter().map(spelled_out).collect::<Result<_, _>>()?;
                    }
                }
            }
            Ok(Value::Table(table))
        }
        other => Ok(other),
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Model {
        #[serde(default, deserialize_with = "super::deserialize", skip_serializing_if = "Option::is_none")]
        layers: Option<Vec<Layer>>,
    }

    fn read(layers: &str) -> Result<Model, String> {
        toml::from_str(&format!("layers = [{layers}]")).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn layers_are_names_or_tables_and_survive_toml() {
        let text = r#"{ conv = { filters = 8, kernel = 3 } }, "batch_norm", "relu",
            { residual = { body = [{ conv = { filters = 8, kernel = 3 } }, "batch_norm"] } },
            { avg_pool = { size = 2 } }, { filter_response_norm = { epsilon = 1e-3 } }, "threshold",
            { conv = { filters = 8, kernel = 5, stride = 2, groups = 4 } }, "layer_norm", "gelu",
            { max_pool = { size = 3, stride = 2 } }, { max_pool = { size = 2 } }, { group_norm = { groups = 4 } }, "silu",
            "global_avg_pool", { dense = { units = 4 } }"#;
        let model = read(text).unwrap();
        let conv = Layer::Conv { filters: 8, kernel: 3, stride: 1, groups: 1 };
        let body = vec![conv.clone(), Layer::BATCH_NORM];
        let expected = vec![
            conv,
            Layer::BATCH_NORM,
            Layer::Relu,
            Layer::Residual { body, shortcut: vec![] },
            Layer::AvgPool { size: 2 },
            Layer::FilterResponseNorm { epsilon: 1e-3 },
            Layer::Threshold,
            Layer::Conv { filters: 8, kernel: 5, stride: 2, groups: 4 },
            Layer::LAYER_NORM,
            Layer::Gelu,
            Layer::MaxPool { size: 3, stride: Some(2) },
            Layer::MaxPool { size: 2, stride: None },
            Layer::GroupNorm { groups: 4, epsilon: 1e-5 },
            Layer::Silu,
            Layer::GlobalAvgPool,
            Layer::Dense { units: 4 },
        ];
        assert_eq!(model.layers.as_deref(), Some(&expected[..]));
        assert_eq!(toml::from_str::<Model>(&toml::to_string(&model).unwrap()).unwrap(), model);
        assert!(!toml::to_string(&read("{ conv = { filters = 8, kernel = 3 } }").unwrap()).unwrap().contains("groups"));
        let all_tables = read("{ dense = { units = 4 } }").unwrap();
        assert_eq!(toml::from_str::<Model>(&toml::to_string(&all_tables).unwrap()).unwrap(), all_tables);
        assert_eq!(toml::from_str::<Model>("").unwrap().layers, None);
    }

    /// Serde lists the names of all layers when it meets one that is none of them.
    #[test]
    fn every_layer_is_known_by_its_name() {
        let error = Layer::deserialize(Value::String("?".into())).unwrap_err().message().to_owned();
        let listed = error.split_once("expected one of ").unwrap().1;
        let mut names: Vec<&str> = listed.split(", ").map(|name| name.trim_matches('`')).collect();
        let mut known = NAMES.to_vec();
        names.sort_unstable();
        known.sort_unstable();
        assert_eq!(known, names);
        let needs_nothing = |name: &&str| {
            Layer::deserialize(Value::Table(Table::from_iter([((*name).to_owned(), Value::Table(Table::new()))])))
                .is_ok()
        };
        let mut defaulted: Vec<&str> = NAMES.into_iter().filter(needs_nothing).collect();
        defaulted.retain(|name| Layer::deserialize(Value::String((*name).to_owned())).is_err());
        assert_eq!(defaulted, DEFAULTED);
    }

    #[test]
    fn what_is_no_layer_is_named() {
        let refused = |text: &str, phrases: &[&str]| {
            let error = read(text).unwrap_err();
            assert!(phrases.iter().all(|phrase| error.contains(phrase)), "{error}");
        };
        refused("\"reluu\"", &["no layer `reluu`", "did you mean `relu`?"]);
        refused("{ convolution = { filters = 2 } }", &["no layer `convolution`", "global_avg_pool"]);
        refused("{ conv = { filters = 2 } }", &["conv", "missing field `kernel`"]);
        refused("{ conv = { filters = 2, kernel = 3, strides = 2 } }", &["unknown field `strides`", "`stride`"]);
        refused("\"conv\"", &["conv"]);
        refused("7", &["7 is not a layer", "dense"]);
        refused("{ residual = { body = [\"norm\"] } }", &["no layer `norm`"]);
    }
}
