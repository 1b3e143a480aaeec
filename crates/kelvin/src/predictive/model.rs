//! Which of the two predictive densities is meant: of the standard model (SM) or of the tempered model (TM).

use serde::{Deserialize, Serialize};

/// The model whose density is averaged over the draws of the tempered posterior.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PredictiveModel {
    /// SM: p(y|x,θ) as it stands.
    Standard,
    /// TM: p(y|x,θ,β) ∝ p(y|x,θ)^β, normalised over y.
    Tempered,
}

impl PredictiveModel {
    /// Both, standard first.
    pub const BOTH: [Self; 2] = [Self::Standard, Self::Tempered];

    /// The power b to which the likelihood is raised: 1 or β.
    pub fn power(self, inverse_temperature: f64) -> f64 {
        match self {
            Self::Standard => 1.0,
            Self::Tempered => inverse_temperature,
        }
    }
}

/// One value for the standard model beside one for the tempered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByModel<T> {
    /// The value for the standard model (SM).
    pub standard: T,
    /// The value for the tempered model (TM).
    pub tempered: T,
}

impl<T> ByModel<T> {
    /// Asks `value_of` once for each model.
    pub fn from_fn(mut value_of: impl FnMut(PredictiveModel) -> T) -> Self {
        Self { standard: value_of(PredictiveModel::Standard), tempered: value_of(PredictiveModel::Tempered) }
    }

    /// The value for `model`.
    pub fn get(&self, model: PredictiveModel) -> &T {
        match model {
            PredictiveModel::Standard => &self.standard,
            PredictiveModel::Tempered => &self.tempered,
        }
    }

    /// The value for `model`, to be changed.
    pub fn get_mut(&mut self, model: PredictiveModel) -> &mut T {
        match model {
            PredictiveModel::Standard => &mut self.standard,
            PredictiveModel::Tempered => &mut self.tempered,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_its_own_place() {
        let mut powers = ByModel::from_fn(|model| model.power(4.0));
        assert_eq!(powers, ByModel { standard: 1.0, tempered: 4.0 });
        *powers.get_mut(PredictiveModel::Tempered) += 1.0;
        assert_eq!(PredictiveModel::BOTH.map(|model| *powers.get(model)), [1.0, 5.0]);
        assert_eq!(serde_json::to_string(&powers).unwrap(), r#"{"standard":1.0,"tempered":5.0}"#);
    }
}
