//! Normal prior whose scales are learned: each tensor has a variance of its own under an inverse-gamma prior, integrated out.
//!
//! ```text
//! θ_i | s ~ N(0, s² v_i),  v_i = 1/fan-in for kernels and 1 for biases,      s² ~ InverseGamma(a, a A²)
//! −log p(θ) = (a + d/2) log(1 + Σ θ_i²/v_i / (2 a A²)) + const              for the d parameters that share s
//! ∂/∂θ_i    = (θ_i/v_i) / ŝ²,      ŝ² = (a A² + ½ Σ θ_i²/v_i) / (a + d/2)
//! ```
//! This is the prior of a chain that also samples log s, with the integral over s done in closed form (a multivariate Student-t with 2a degrees of
//! freedom): the same posterior of θ, without the funnel in which centred scales and weights hold each other up, without a step size that
//! must suit the narrowest scale, and with a maximum. A large tensor forgets A: its scale is that of its weights. Neal 1996, "Bayesian
//! learning for neural networks", has the same prior with scales that are sampled.
//!
//! Where a network cannot tell a scale from the next one, it is not learned: max(0, x) lets a hidden layer's kernel and biases grow by any factor while all kernels that
//! read it shrink by as much, and the outputs stay what they are. Learned scales would leave that direction all but flat, and chains to wander along it. So such a
//! kernel is N(0, A²/fan-in), and the scale of what it feeds is learned: the same family of functions, with one scale fewer a layer.
//!
//! Outputs that say how far targets spread (log σ²(x)) have scales of their own, which are held closer to a smaller A: a few rows must not make the noise
//! of others wild. With automatic relevance determination each input has its own scale wherever inputs are read.

use std::ops::Range;

use statrs::function::gamma::ln_gamma;

use super::{Prior, PriorError, positive};
use crate::network::{Network, Operation};

/// a where scales are free: their prior has far tails.
const SHAPE: f64 = 1.0;
/// a and the share of A² for kernels that feed an output which says how far targets spread.
const SHAPE_OF_SPREAD: f64 = 4.0;
const SHARE_OF_SPREAD: f64 = 0.1;

/// Parameters that share a scale: every `step`-th of a range.
#[derive(Clone, Debug, PartialEq)]
struct Group {
    range: Range<usize>,
    step: usize,
    /// 1/v.
    fan_in: f64,
    scale: Scale,
}

/// What is known of s².
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scale {
    /// A².
    Fixed(f64),
    /// a, and a A².
    Learned { shape: f64, rate: f64 },
}

impl Group {
    fn len(&self) -> usize {
        self.range.len().div_ceil(self.step)
    }

    /// ½ Σ θ²/v.
    fn half_squares(&self, parameters: &[f32]) -> f64 {
        let squares: f64 =
            parameters[self.range.clone()].iter().step_by(self.step).map(|&theta| f64::from(theta).powi(2)).sum();
        0.5 * self.fan_in * squares
    }

    fn log_normaliser(&self) -> f64 {
        let half = 0.5 * self.len() as f64;
        let of_scale = match self.scale {
            Scale::Fixed(variance) => -half * variance.ln(),
            Scale::Learned { shape, rate } => ln_gamma(shape + half) - ln_gamma(shape) + shape * rate.ln(),
        };
        of_scale + half * (self.fan_in / std::f64::consts::TAU).ln()
    }

    /// −log p(θ) without what does not depend on θ.
    fn energy(&self, parameters: &[f32]) -> f64 {
        let half_squares = self.half_squares(parameters);
        match self.scale {
            Scale::Fixed(variance) => half_squares / variance,
            Scale::Learned { shape, rate } => (shape + 0.5 * self.len() as f64) * (rate + half_squares).ln(),
        }
    }

    /// 1/(ŝ² v).
    fn precision(&self, parameters: &[f32]) -> f64 {
        let of_scale = match self.scale {
            Scale::Fixed(variance) => 1.0 / variance,
            Scale::Learned { shape, rate } => {
                (shape + 0.5 * self.len() as f64) / (rate + self.half_squares(parameters))
            }
        };
        self.fan_in * of_scale
    }
}

/// Independent groups of normal parameters, each with a variance that is learned.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedScales {
    groups: Vec<Group>,
    log_normaliser: f64,
}

/// What scales are learned of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScaleGroups<'a> {
    /// Whether each input has a scale of its own where inputs are read, instead of one for all of them.
    pub each_input: bool,
    /// Which outputs say how far targets spread.
    pub spread_outputs: &'a [usize],
}

impl LearnedScales {
    /// For a network's parameters; `variance` is A².
    ///
    /// # Errors
    /// Where the variance is none.
    pub fn new(network: &Network, variance: f64, of: ScaleGroups<'_>) -> Result<Self, PriorError> {
        let variance = positive(variance)?;
        let program = network.program();
        let outputs = program.output_layers();
        let mut groups = Vec::new();
        let mut push = |range: Range<usize>, step: usize, fan_in: usize, scale: Scale| {
            groups.push(Group { range, step, fan_in: fan_in as f64, scale });
        };
        let learned = |is_spread: bool| {
            let (shape, variance) =
                if is_spread { (SHAPE_OF_SPREAD, SHARE_OF_SPREAD * variance) } else { (SHAPE, variance) };
            Scale::Learned { shape, rate: shape * variance }
        };
        let free = learned(false);
        for (number, operation) in program.operations.iter().enumerate() {
            let has_spread = !of.spread_outputs.is_empty() && outputs.contains(&number);
            match operation {
                Operation::Dense { from, to, kernel, bias } => {
                    let (units, fan_in) = (bias.len(), kernel.len() / bias.len());
                    let each_input = of.each_input && *from == 0;
                    let rows = if each_input { fan_in } else { 1 };
                    let of_kernel = match !each_input && program.rescales_into_next(*to) {
                        true => Scale::Fixed(variance),
                        false => free,
                    };
                    for row in 0..rows {
                        let len = kernel.len() / rows;
                        let range = kernel.start + row * len..kernel.start + (row + 1) * len;
                        match has_spread {
                            false => push(range, 1, fan_in, of_kernel),
                            true => {
                                for unit in 0..units {
                                    let scale = learned(of.spread_outputs.contains(&unit));
                                    push(range.start + unit..range.end, units, fan_in, scale);
                                }
                            }
                        }
                    }
                    match has_spread {
                        false => push(bias.clone(), 1, 1, free),
                        // A level of its own for each: no more of a spread than of a mean.
                        true => bias.clone().for_each(|place| push(place..place + 1, 1, 1, free)),
                    }
                }
                Operation::Conv { kernel, bias, .. } => {
                    push(kernel.clone(), 1, kernel.len() / bias.len(), free);
                    push(bias.clone(), 1, 1, free);
                }
                Operation::FilterResponseNorm { scale, offset, .. }
                | Operation::GroupNorm { scale, offset, .. }
                | Operation::LayerNorm { scale, offset, .. } => {
                    push(scale.clone(), 1, 1, free);
                    push(offset.clone(), 1, 1, free);
                }
                Operation::Threshold { threshold, .. } => push(threshold.clone(), 1, 1, free),
                Operation::BatchNorm { number } => {
                    let norm = &program.norms[*number];
                    push(norm.scale.clone(), 1, 1, free);
                    push(norm.offset.clone(), 1, 1, free);
                }
                Operation::Activation { .. }
                | Operation::Pool { .. }
                | Operation::MaxPool { .. }
                | Operation::Add { .. }
                | Operation::Copy { .. } => {}
            }
        }
        let log_normaliser = groups.iter().map(Group::log_normaliser).sum();
        Ok(Self { groups, log_normaliser })
    }
}

impl Prior for LearnedScales {
    fn log_density(&self, parameters: &[f32]) -> f64 {
        self.log_normaliser - self.groups.iter().map(|group| group.energy(parameters)).sum::<f64>()
    }

    fn add_energy_gradient(&self, parameters: &[f32], scale: f64, gradient: &mut [f32]) {
        let scale = scale as f32;
        for group in &self.groups {
            let precision = group.precision(parameters) as f32;
            let own = gradient[group.range.clone()].iter_mut().zip(&parameters[group.range.clone()]);
            for (gradient, &theta) in own.step_by(group.step) {
                *gradient = scale * *gradient + precision * theta;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Activation;

    const VARIANCE: f64 = 0.4;

    fn network() -> Network {
        Network::table(3, &[4], 2, Activation::Relu, true).unwrap()
    }

    fn every() -> Vec<LearnedScales> {
        let both = [false, true];
        let groups = both.into_iter().flat_map(|each_input| {
            [[].as_slice(), &[1]].map(|spread_outputs| ScaleGroups { each_input, spread_outputs })
        });
        groups.map(|of| LearnedScales::new(&network(), VARIANCE, of).unwrap()).collect()
    }

    #[test]
    fn every_parameter_has_one_scale() {
        let counts: Vec<usize> = every().iter().map(|prior| prior.groups.len()).collect();
        // Three kernels and three biases; two outputs apart in two of each; three inputs apart in two kernels.
        assert_eq!(counts, [6, 6 + 4, 6 + 4, (3 + 2 + 6) + (1 + 2 + 2)]);
        for prior in every() {
            let mut seen = vec![0; network().layout().len()];
            for group in &prior.groups {
                group.range.clone().step_by(group.step).for_each(|place| seen[place] += 1);
            }
            assert!(seen.iter().all(|&count| count == 1), "{seen:?}");
        }
    }

    #[test]
    fn only_kernels_that_feed_a_spread_are_held_closer() {
        let prior = &every()[1];
        let layout = network().layout();
        let is_close = |group: &&Group| matches!(group.scale, Scale::Learned { shape, .. } if shape > SHAPE);
        let close: Vec<usize> = prior.groups.iter().filter(is_close).map(|group| group.range.start).collect();
        let start =
            |name: &str| layout.tensors().iter().find(|tensor| tensor.name.ends_with(name)).unwrap().range.start;
        assert_eq!(close, [start("dense2.kernel") + 1, start("shortcut.dense1.kernel") + 1]);
    }

    /// Two hidden layers: both grow by a factor while what reads them shrinks. With ReLU these factors change no output, so that only the output's kernel and the shortcut's learn theirs.
    #[test]
    fn scales_that_outputs_do_not_tell_apart_are_not_learned() {
        let fixed = |activation, each_input| {
            let network = Network::table(3, &[4, 4], 1, activation, true).unwrap();
            let prior =
                LearnedScales::new(&network, VARIANCE, ScaleGroups { each_input, spread_outputs: &[] }).unwrap();
            let layout = network.layout();
            let name_of = |group: &Group| {
                layout.tensors().iter().find(|tensor| tensor.range.contains(&group.range.start)).unwrap().name.clone()
            };
            let is_fixed = |group: &&Group| group.scale == Scale::Fixed(VARIANCE);
            prior.groups.iter().filter(is_fixed).map(name_of).collect::<Vec<String>>()
        };
        assert_eq!(fixed(Activation::Relu, false), ["residual1.dense1.kernel", "residual1.dense2.kernel"]);
        assert_eq!(fixed(Activation::Relu, true), ["residual1.dense2.kernel"]);
        assert_eq!(fixed(Activation::Tanh, false), [""; 0]);
    }

    #[test]
    fn every_gradient_is_that_of_its_density() {
        let position: Vec<f32> =
            (0..network().layout().len()).map(|i| ((i * 7 % 11) as f32 - 5.0) / 4.0 + 0.05).collect();
        for prior in every() {
            let mut gradient = vec![0.5; position.len()];
            prior.add_energy_gradient(&position, -2.0, &mut gradient);
            for index in 0..position.len() {
                let at = |step: f32| {
                    let mut moved = position.clone();
                    moved[index] += step;
                    (-prior.log_density(&moved), f64::from(moved[index]))
                };
                let ((high, right), (low, left)) = (at(1e-2), at(-1e-2));
                let expected = -1.0 + (high - low) / (right - left);
                assert!((f64::from(gradient[index]) - expected).abs() < 2e-3 * (1.0 + expected.abs()), "{index}");
            }
        }
    }

    /// ∫ N(θ | 0, s² v) InverseGamma(s² | a, a A²) d s², by a sum over log s².
    #[test]
    fn the_scale_is_integrated_out() {
        let network = Network::dense(2, &[], 1).unwrap();
        let prior = LearnedScales::new(&network, VARIANCE, ScaleGroups::default()).unwrap();
        for position in [[0.5f32, -1.25, 0.3], [0.0, 0.01, 4.0]] {
            let summed = |values: &[f32], fan_in: f64| {
                let of_scale = |step: i32| {
                    let log_square = (f64::from(step) + 0.5) * 1e-3;
                    let (square, rate) = (log_square.exp(), SHAPE * VARIANCE);
                    let hyper = SHAPE * rate.ln() - ln_gamma(SHAPE) - SHAPE * log_square - rate / square;
                    let normal = |&theta: &f32| {
                        let variance = square / fan_in;
                        -0.5 * ((std::f64::consts::TAU * variance).ln() + f64::from(theta).powi(2) / variance)
                    };
                    (hyper + values.iter().map(normal).sum::<f64>()).exp() * 1e-3
                };
                (-30_000..40_000).map(of_scale).sum::<f64>().ln()
            };
            let expected = summed(&position[..2], 2.0) + summed(&position[2..], 1.0);
            assert!((prior.log_density(&position) - expected).abs() < 1e-6, "{position:?}");
        }
    }

    #[test]
    fn a_variance_that_is_none_is_refused() {
        assert!(LearnedScales::new(&network(), 0.0, ScaleGroups::default()).is_err());
    }
}
