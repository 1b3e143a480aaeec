//! Network, likelihood and prior as settings, and the network they describe.

use serde::{Deserialize, Serialize};

use crate::error::ExperimentError;
use crate::settings::layer_list;
use crate::settings::likelihood::LikelihoodName;
use kelvin::data::nearest_name;
use kelvin::likelihood::Likelihood;
use kelvin::network::{Activation, KernelStart, Layer, Network, NetworkError, Normalisation, Shape};
use kelvin::prior::{
    GaussianFreeNorms, IsotropicGaussian, Laplace, LayerwiseGaussian, LearnedScales, Prior, PriorError, ScaleGroups,
    StudentT,
};

/// Network, likelihood and prior.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelSettings {
    /// A network by name; dense if neither this nor `layers` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkName>,
    /// Widths of the hidden layers of a dense network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Vec<usize>>,
    /// What stands between the layers of a dense network.
    #[serde(skip_serializing_if = "is_default")]
    pub activation: Activation,
    /// Whether the inputs of a dense network also reach its outputs directly, by a linear layer beside the hidden ones.
    #[serde(skip_serializing_if = "is_default")]
    pub skip: bool,
    /// The normalisation after each convolution of a ResNet; batch norm if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalisation: Option<NormalisationSetting>,
    /// Momentum of the running means and variances of a ResNet's batch norms: the share that a step keeps of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_norm_momentum: Option<f64>,
    /// The number ε that a ResNet's batch norms add to a variance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_norm_epsilon: Option<f64>,
    /// The variance of the initial kernels; if not given, `"he"` for ResNets and `"lecun"` for all other networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<KernelStart>,
    /// The distribution of a target given the network's outputs; if not given, Gaussian with the variance `noise_variance` for numbers and
    /// categorical for classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub likelihood: Option<LikelihoodName>,
    /// Variance σ² of a regression's Gaussian noise, on the scale of the standardised target; where noise is learned it has no say.
    pub noise_variance: f64,
    /// The prior distribution of the weights.
    pub prior: PriorName,
    /// Prior variance σ_p² of every parameter; a layerwise prior divides that of kernels by their fan-in. Where scales are learned it is where a scale lies
    /// that few weights share; 1 is a good value then.
    pub prior_variance: f64,
    /// Degrees of freedom of a Student-t prior; 5 if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior_degrees: Option<f64>,
    /// Whether learned scales are one for each input where inputs are read: automatic relevance determination.
    #[serde(skip_serializing_if = "is_default")]
    pub prior_ard: bool,
    /// Your own network, layer by layer.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "layer_list::deserialize")]
    pub layers: Option<Vec<Layer>>,
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            network: None,
            hidden: None,
            activation: Activation::Relu,
            skip: false,
            normalisation: None,
            batch_norm_momentum: None,
            batch_norm_epsilon: None,
            start: None,
            likelihood: None,
            noise_variance: 0.01,
            prior: PriorName::Gaussian,
            prior_variance: 0.1,
            prior_degrees: None,
            prior_ard: false,
            layers: None,
        }
    }
}

/// A network with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum NetworkName {
    /// Dense layers with ReLUs between them, as wide as `hidden` says.
    Dense,
    /// The paper's network for MNIST.
    MnistCnn,
    /// A ResNet of N layers (8, 14, 20, 32, 44, 56, 110).
    Resnet(usize),
    /// A wide ResNet of D layers (10, 16, 22, 28, 40), K times as wide as a ResNet.
    WideResnet(usize, usize),
}

/// The shape of the prior.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PriorName {
    /// N(0, σ_p²) for every parameter.
    #[default]
    Gaussian,
    /// N(0, σ_p²) for every parameter but scales and offsets of norms, which have none: a flat density.
    GaussianFreeNorms,
    /// N(0, σ_p²/fan-in) for kernels, N(0, σ_p²) for all else.
    Layerwise,
    /// Laplace distribution of variance σ_p².
    Laplace,
    /// Student-t distribution of variance σ_p².
    StudentT,
    /// N(0, s²/fan-in) for kernels and N(0, s²) for biases, with a scale s for each tensor that is learned: 1/s² has a gamma prior of mean 1/σ_p².
    LearnedScales,
}

/// Degrees of freedom of a Student-t prior where none are given.
const PRIOR_DEGREES: f64 = 5.0;

/// What stands behind the convolutions of a ResNet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormalisationSetting {
    /// Batch norm, then ReLU.
    Batch,
    /// Filter response norm, then a learned threshold: needs no batch and no running statistics.
    FilterResponse,
}

/// Hidden layers where none are given.
const HIDDEN: [usize; 1] = [64];
/// The deepest ResNet of the paper that named them; a typo must not build a million layers.
const MOST_DEPTH: usize = 1202;

impl TryFrom<String> for NetworkName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        const NAMES: [&str; 7] =
            ["dense", "mnist-cnn", "resnet-8", "resnet-20", "resnet-32", "resnet-56", "wide-resnet-28-10"];
        let depth = name.strip_prefix("resnet-").and_then(|depth| depth.parse().ok());
        let wide = name.strip_prefix("wide-resnet-").and_then(|sizes| sizes.split_once('-'));
        let wide = wide.and_then(|(depth, width)| Some((depth.parse().ok()?, width.parse().ok()?)));
        match (name.as_str(), depth, wide) {
            ("dense", ..) => Ok(Self::Dense),
            ("mnist-cnn", ..) => Ok(Self::MnistCnn),
            (_, Some(depth), _) => Ok(Self::Resnet(depth)),
            (_, _, Some((depth, width))) => Ok(Self::WideResnet(depth, width)),
            _ => {
                let nearest = nearest_name(&name, NAMES).map_or(String::new(), |n| format!("; did you mean `{n}`?"));
                let known = "dense, mnist-cnn, resnet-N for N = 8, 14, 20, 32, 44, 56, 110, wide-resnet-D-K for D = 10, 16, 22, 28, 40 and a width K";
                Err(format!("there is no network `{name}` among {known}{nearest}"))
            }
        }
    }
}

impl From<NetworkName> for String {
    fn from(name: NetworkName) -> Self {
        match name {
            NetworkName::Dense => "dense".into(),
            NetworkName::MnistCnn => "mnist-cnn".into(),
            NetworkName::Resnet(depth) => format!("resnet-{depth}"),
            NetworkName::WideResnet(depth, width) => format!("wide-resnet-{depth}-{width}"),
        }
    }
}

impl ModelSettings {
    /// The name of the network; none where its layers are listed.
    fn name(&self) -> Option<NetworkName> {
        self.layers.is_none().then(|| self.network.unwrap_or(NetworkName::Dense))
    }

    fn is_resnet(&self) -> bool {
        matches!(self.name(), Some(NetworkName::Resnet(_) | NetworkName::WideResnet(..)))
    }

    /// Every value that the network needs spelled out.
    pub(crate) fn spelled_out(mut self) -> Self {
        if self.name() == Some(NetworkName::Dense) {
            self.hidden.get_or_insert(HIDDEN.to_vec());
        }
        if self.is_resnet() {
            self.normalisation.get_or_insert(NormalisationSetting::Batch);
            if let Normalisation::Batch { momentum, epsilon } = self.resnet_normalisation() {
                self.batch_norm_momentum = Some(momentum);
                self.batch_norm_epsilon = Some(epsilon);
            }
        }
        self.start = Some(self.kernel_start());
        if self.prior == PriorName::StudentT {
            self.prior_degrees.get_or_insert(PRIOR_DEGREES);
        }
        self
    }

    /// The same after `key` was set: a network takes the place of another, and the settings of that go with it.
    pub(crate) fn after_setting(mut self, key: &str) -> Self {
        match key {
            "model.prior" => {
                if self.prior != PriorName::StudentT {
                    self.prior_degrees = None;
                }
                self.prior_ard &= self.prior == PriorName::LearnedScales;
                return self;
            }
            "model.layers" => self.network = None,
            "model.network" => self.layers = None,
            "model.normalisation" if self.normalisation == Some(NormalisationSetting::FilterResponse) => {
                (self.batch_norm_momentum, self.batch_norm_epsilon) = (None, None);
                return self;
            }
            _ => return self,
        }
        self.start = None;
        if self.name() != Some(NetworkName::Dense) {
            self.hidden = None;
            (self.activation, self.skip) = (Activation::Relu, false);
        }
        if !self.is_resnet() {
            self.normalisation = None;
            (self.batch_norm_momentum, self.batch_norm_epsilon) = (None, None);
        }
        self
    }

    /// Lets batch norms follow within tens of steps where they would take hundreds: for runs that have no more. What is
    /// not the usual setting stays.
    pub(crate) fn with_fast_statistics(mut self) -> Self {
        const FAST: f64 = 0.9;
        let Normalisation::Batch { momentum: usual, .. } = Normalisation::BATCH else { return self };
        if self.is_resnet() && self.normalisation != Some(NormalisationSetting::FilterResponse) {
            let momentum = self.batch_norm_momentum.get_or_insert(usual);
            if *momentum == usual {
                *momentum = FAST;
            }
        }
        if let Some(layers) = &mut self.layers {
            for_each_batch_norm(layers, &mut |momentum| {
                if *momentum == usual {
                    *momentum = FAST;
                }
            });
        }
        self
    }

    /// Refuses keys that contradict each other or that the network has no use for.
    pub(crate) fn check_keys(&self) -> Result<(), ExperimentError> {
        let not_for = |key: &'static str, reason: &'static str, given: bool| {
            if given { Err(ExperimentError::DoesNotApply { key, reason: reason.into() }) } else { Ok(()) }
        };
        let (name, is_resnet) = (self.name(), self.is_resnet());
        let both = name.is_none() && self.network.is_some();
        not_for("model.network", "model.layers already lists the network; give one of the two", both)?;
        if let Some(found @ (NetworkName::Resnet(depth) | NetworkName::WideResnet(depth, _))) = name
            && depth > MOST_DEPTH
        {
            return Err(ExperimentError::OutOfRange {
                key: "model.network",
                needs: format!("a ResNet of at most {MOST_DEPTH} layers").into(),
                found: found.into(),
            });
        }
        let hidden = "it is the widths of a dense network; leave it out, or set model.network = \"dense\"";
        let is_dense = name == Some(NetworkName::Dense);
        not_for("model.hidden", hidden, self.hidden.is_some() && !is_dense)?;
        let of_dense = "it is for dense networks; leave it out, or set model.network = \"dense\"";
        not_for("model.activation", of_dense, self.activation != Activation::Relu && !is_dense)?;
        not_for("model.skip", of_dense, self.skip && !is_dense)?;
        let of_resnets =
            "it is for model.network = \"resnet-20\" and its like; in model.layers each norm has its own settings";
        not_for("model.normalisation", of_resnets, self.normalisation.is_some() && !is_resnet)?;
        not_for("model.batch_norm_momentum", of_resnets, self.batch_norm_momentum.is_some() && !is_resnet)?;
        not_for("model.batch_norm_epsilon", of_resnets, self.batch_norm_epsilon.is_some() && !is_resnet)?;
        let without = self.normalisation == Some(NormalisationSetting::FilterResponse);
        let no_batch_norm = "model.normalisation = \"filter_response\" leaves no batch norm";
        not_for("model.batch_norm_momentum", no_batch_norm, self.batch_norm_momentum.is_some() && without)?;
        not_for("model.batch_norm_epsilon", no_batch_norm, self.batch_norm_epsilon.is_some() && without)?;
        let of_tails = "it is for model.prior = \"student_t\"; leave it out";
        let of_scales = "it is for model.prior = \"learned_scales\"; leave it out";
        not_for("model.prior_ard", of_scales, self.prior_ard && self.prior != PriorName::LearnedScales)?;
        not_for("model.prior_degrees", of_tails, self.prior_degrees.is_some() && self.prior != PriorName::StudentT)
    }

    /// The prior of a network's parameters.
    ///
    /// # Errors
    /// If a variance or the degrees of freedom make no sense.
    pub fn build_prior(&self, network: &Network, likelihood: Likelihood) -> Result<Box<dyn Prior>, PriorError> {
        let variance = self.prior_variance;
        Ok(match self.prior {
            PriorName::Gaussian => Box::new(IsotropicGaussian::new(variance)?),
            PriorName::GaussianFreeNorms => Box::new(GaussianFreeNorms::new(variance, &network.layout())?),
            PriorName::Layerwise => Box::new(LayerwiseGaussian::new(variance, &network.layout())?),
            PriorName::LearnedScales => {
                let of = ScaleGroups { each_input: self.prior_ard, spread_outputs: &likelihood.spread_outputs() };
                Box::new(LearnedScales::new(network, variance, of)?)
            }
            PriorName::Laplace => Box::new(Laplace::new(variance)?),
            PriorName::StudentT => Box::new(StudentT::new(variance, self.prior_degrees.unwrap_or(PRIOR_DEGREES))?),
        })
    }

    /// The network for rows of this shape.
    ///
    /// # Errors
    /// If the layers do not fit each other or the shape of the rows.
    pub fn build(&self, input: Shape, num_outputs: usize) -> Result<Network, ExperimentError> {
        self.check_keys()?;
        Ok(self.layers_for(input, num_outputs)?.starting_from(self.kernel_start()))
    }

    fn kernel_start(&self) -> KernelStart {
        self.start.unwrap_or(if self.is_resnet() { KernelStart::He } else { KernelStart::Lecun })
    }

    fn layers_for(&self, input: Shape, num_outputs: usize) -> Result<Network, ExperimentError> {
        let of = |key: &'static str| move |source: NetworkError| ExperimentError::Network { key, source };
        if let Some(layers) = &self.layers {
            let network = Network::new(input, layers.clone()).map_err(of("model.layers"))?;
            if network.num_outputs() != num_outputs {
                return Err(ExperimentError::OutOfRange {
                    key: "model.layers",
                    needs: format!(
                        "a list whose last dense layer has {num_outputs} units, one for each {}",
                        if num_outputs == 1 { "number to predict" } else { "class" }
                    )
                    .into(),
                    found: format!("{} units", network.num_outputs()),
                });
            }
            return Ok(network);
        }
        let name = self.network.unwrap_or(NetworkName::Dense);
        if name != NetworkName::Dense && input.num_pixels() == 1 {
            return Err(ExperimentError::OutOfRange {
                key: "model.network",
                needs: "\"dense\" for a table (networks of convolutions read images)".into(),
                found: String::from(name),
            });
        }
        match name {
            NetworkName::Dense => {
                let hidden = self.hidden.as_deref().unwrap_or(&HIDDEN);
                let dense = Network::table(input.len(), hidden, num_outputs, self.activation, self.skip);
                let dense = dense.map_err(of("model.hidden"))?;
                // The shape of images stays known, so that new ones can be checked.
                Network::new(input, dense.layers().to_vec()).map_err(of("model.hidden"))
            }
            NetworkName::MnistCnn => Network::small_cnn(input, num_outputs).map_err(of("model.network")),
            NetworkName::Resnet(depth) => {
                let normalisation = self.resnet_normalisation();
                Network::resnet_for(input, depth, num_outputs, normalisation).map_err(of("model.network"))
            }
            NetworkName::WideResnet(depth, width) => {
                let normalisation = self.resnet_normalisation();
                Network::wide_resnet_for(input, depth, width, num_outputs, normalisation).map_err(of("model.network"))
            }
        }
    }

    fn resnet_normalisation(&self) -> Normalisation {
        match (self.normalisation, Normalisation::BATCH) {
            (Some(NormalisationSetting::FilterResponse), _) => Normalisation::FILTER_RESPONSE,
            (_, Normalisation::Batch { momentum, epsilon }) => Normalisation::Batch {
                momentum: self.batch_norm_momentum.unwrap_or(momentum),
                epsilon: self.batch_norm_epsilon.unwrap_or(epsilon),
            },
            (_, other) => other,
        }
    }
}

/// Whether a setting is the one that files may leave out.
fn is_default<T: Default + PartialEq>(setting: &T) -> bool {
    *setting == T::default()
}

/// The momenta of all batch norms, those of residual layers included.
fn for_each_batch_norm(layers: &mut [Layer], change: &mut impl FnMut(&mut f64)) {
    for layer in layers {
        match layer {
            Layer::BatchNorm { momentum, .. } => change(momentum),
            Layer::Residual { body, shortcut } => {
                for_each_batch_norm(body, change);
                for_each_batch_norm(shortcut, change);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ModelSettings, String> {
        let settings: ModelSettings = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        settings.check_keys().map_err(|error| error.to_string())?;
        Ok(settings)
    }

    #[test]
    fn networks_by_name() {
        let image = Shape::image(32, 32, 3);
        let built = |text: &str| read(text).unwrap().build(image, 10).unwrap();
        assert_eq!(built("network = 'resnet-20'"), Network::resnet(20).unwrap());
        assert_eq!(built("network = 'mnist-cnn'"), Network::small_cnn(image, 10).unwrap());
        let dense = Network::dense(3072, &[64], 10).unwrap();
        assert_eq!((built("").layers(), built("").input()), (dense.layers(), image));
        let slow = built("network = 'resnet-8'\nbatch_norm_momentum = 0.9\nbatch_norm_epsilon = 1e-3");
        assert_eq!(slow.layers()[1], Layer::BatchNorm { momentum: 0.9, epsilon: 1e-3 });
        let beside = Network::table(3072, &[64], 10, Activation::Tanh, true).unwrap();
        assert_eq!(built("activation = 'tanh'\nskip = true").layers(), beside.layers());
        let wide = built("network = 'wide-resnet-16-2'");
        assert_eq!(wide, Network::wide_resnet_for(image, 16, 2, 10, Normalisation::BATCH).unwrap());
        assert!(!built("network = 'resnet-8'\nnormalisation = 'filter_response'").has_batch_norm());
        let own = built("layers = [{ conv = { filters = 2, kernel = 3 } }, 'relu', { dense = { units = 10 } }]");
        assert_eq!(own.layers().len(), 3);
        let from_he = built("layers = [{ dense = { units = 10 } }]\nstart = 'he'");
        assert_eq!(from_he, built("layers = [{ dense = { units = 10 } }]").starting_from(KernelStart::He));
        assert_eq!(built("network = 'resnet-8'\nstart = 'he'"), built("network = 'resnet-8'"));
    }

    #[test]
    fn all_that_a_network_needs_is_spelled_out_and_changes_nothing() {
        let image = Shape::image(32, 32, 3);
        for (text, expected) in [
            ("", "hidden = [64]\nstart = \"lecun\"\n"),
            ("network = 'mnist-cnn'", "network = \"mnist-cnn\"\nstart = \"lecun\"\n"),
            (
                "network = 'resnet-8'",
                "network = \"resnet-8\"\nnormalisation = \"batch\"\nbatch_norm_momentum = 0.99\n\
                 batch_norm_epsilon = 0.00001\nstart = \"he\"\n",
            ),
            (
                "network = 'resnet-8'\nnormalisation = 'filter_response'\nstart = 'lecun'",
                "network = \"resnet-8\"\nnormalisation = \"filter_response\"\nstart = \"lecun\"\n",
            ),
        ] {
            let settings = read(text).unwrap();
            let spelled_out = settings.clone().spelled_out();
            spelled_out.check_keys().unwrap();
            assert!(toml::to_string(&spelled_out).unwrap().starts_with(expected), "{spelled_out:?}");
            assert_eq!(spelled_out.build(image, 10).unwrap(), settings.build(image, 10).unwrap());
            assert_eq!(spelled_out.clone().spelled_out(), spelled_out);
        }
    }

    #[test]
    fn statistics_of_short_runs_follow_faster_unless_their_pace_was_chosen() {
        let momenta = |text: &str| {
            let mut found = Vec::new();
            let network = read(text).unwrap().with_fast_statistics().build(Shape::image(8, 8, 1), 2).unwrap();
            for_each_batch_norm(&mut network.layers().to_vec(), &mut |momentum| found.push(*momentum));
            found
        };
        assert_eq!(momenta("network = 'resnet-8'"), [0.9; 9]);
        assert_eq!(momenta("network = 'resnet-8'\nbatch_norm_momentum = 0.5"), [0.5; 9]);
        assert!(momenta("network = 'resnet-8'\nnormalisation = 'filter_response'").is_empty());
        let own = "layers = ['batch_norm', { residual = { body = ['batch_norm'] } }, \
                   { batch_norm = { momentum = 0.8 } }, { dense = { units = 2 } }]";
        assert_eq!(momenta(own), [0.9, 0.9, 0.8]);
    }

    #[test]
    fn wrong_names_and_keys_that_do_not_apply_are_refused() {
        let refused = |text: &str, phrases: &[&str]| {
            let error = read(text).unwrap_err();
            assert!(phrases.iter().all(|phrase| error.contains(phrase)), "{error}");
        };
        refused("network = 'resnet20'", &["no network `resnet20`", "did you mean `resnet-20`?"]);
        refused("network = 'mnist'", &["no network `mnist`", "mnist-cnn"]);
        refused("network = 'dense'\nlayers = [{ dense = { units = 1 } }]", &["model.network", "model.layers"]);
        refused("network = 'mnist-cnn'\nhidden = [8]", &["model.hidden", "dense network"]);
        refused("network = 'resnet-602000000'", &["model.network must be", "at most 1202", "got resnet-602000000"]);
        refused("network = 'wide-resnet-602000002-1'", &["at most 1202", "got wide-resnet-602000002-1"]);
        refused(
            "network = 'wide-resnet-28'",
            &["no network `wide-resnet-28`", "wide-resnet-D-K", "wide-resnet-28-10`?"],
        );
        refused("network = 'mnist-cnn'\nskip = true", &["model.skip", "dense networks"]);
        refused("network = 'mnist-cnn'\nactivation = 'tanh'", &["model.activation", "dense networks"]);
        refused("activation = 'selu'", &["unknown variant `selu`", "tanh"]);
        refused("start = 'her'", &["unknown variant `her`", "lecun"]);
        refused("normalisation = 'batch'", &["model.normalisation", "resnet-20"]);
        refused("network = 'mnist-cnn'\nbatch_norm_momentum = 0.9", &["model.batch_norm_momentum", "resnet-20"]);
        refused(
            "network = 'resnet-8'\nnormalisation = 'filter_response'\nbatch_norm_epsilon = 0.1",
            &["model.batch_norm_epsilon", "leaves no batch norm"],
        );
    }

    #[test]
    fn priors_by_name() {
        let network = Network::dense(2, &[3], 1).unwrap();
        let (position, likelihood) = (vec![0.4; network.layout().len()], Likelihood::LearnedGaussian);
        let density =
            |text: &str| read(text).unwrap().build_prior(&network, likelihood).unwrap().log_density(&position);
        let densities = [
            "",
            "prior = 'layerwise'",
            "prior = 'laplace'",
            "prior = 'student_t'",
            "prior = 'learned_scales'",
            "prior = 'learned_scales'\nprior_ard = true",
        ]
        .map(density);
        for (index, one) in densities.iter().enumerate() {
            assert!(densities[..index].iter().all(|other| (one - other).abs() > 0.1), "{densities:?}");
        }
        assert_eq!(density("prior = 'student_t'"), density("prior = 'student_t'\nprior_degrees = 5"));
        let refused = read("prior_ard = true").unwrap_err();
        assert!(refused.contains("model.prior_ard does not apply") && refused.contains("learned_scales"), "{refused}");
        let refused = read("prior_degrees = 4").unwrap_err();
        assert!(refused.contains("model.prior_degrees does not apply"), "{refused}");
        let spelled_out = read("prior = 'student_t'").unwrap().spelled_out();
        assert_eq!(spelled_out.prior_degrees, Some(5.0));
        assert_eq!(
            ModelSettings { prior: PriorName::Laplace, ..spelled_out }.after_setting("model.prior").prior_degrees,
            None
        );
    }

    #[test]
    fn a_network_that_does_not_fit_the_data_is_refused() {
        let build = |text: &str, input, outputs| read(text).unwrap().build(input, outputs).unwrap_err().to_string();
        let error = build("network = 'resnet-20'", Shape::flat(8), 1);
        assert!(
            error.contains("model.network must be \"dense\" for a table") && error.contains("resnet-20"),
            "{error}"
        );
        let error = build("layers = [{ dense = { units = 3 } }]", Shape::image(2, 2, 1), 4);
        assert!(error.contains("last dense layer has 4 units, one for each class, got 3 units"), "{error}");
        let error = build("network = 'resnet-21'", Shape::image(32, 32, 3), 10);
        assert!(error.contains("6n + 2"), "{error}");
        let error = build("network = 'wide-resnet-20-4'", Shape::image(32, 32, 3), 10);
        assert!(error.contains("6n + 4") && error.contains("got depth 20 and width 4"), "{error}");
    }
}
