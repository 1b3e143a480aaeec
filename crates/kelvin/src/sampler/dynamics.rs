//! What a sampler must say of its dynamics: its step size and friction, what a step multiplies by, how one tensor moves.
//!
//! What a step multiplies by is computed here alone; the kernels of other devices read the same [`Coefficients`].

use super::chain::ChainState;
use crate::network::Layout;
use crate::vector::sum_of_squares;

/// Schedules already read: a step sees numbers only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// h, or ε for SGLD.
    pub step_size: f64,
    /// μ': the share of the momentum that a step keeps.
    pub retained_momentum: f64,
    /// T of the noise.
    pub temperature: f64,
}

/// What a step multiplies by, for a tensor of mass 1. A mass M divides `drift`, and multiplies the noise's variance:
///
/// ```text
/// with momentum:     m ← keep m + kick g + √(heat M) R,   θ ← θ + (drift/M) m
/// without momentum:  θ ← θ + (drift/M) kick g + √(heat drift/M) R
/// ```
/// in the order, and as often, as the sampler's own file says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coefficients {
    /// The share of the momentum that is kept.
    pub keep: f64,
    /// Multiplies the clipped gradient.
    pub kick: f64,
    /// Multiplies the velocity M⁻¹m.
    pub drift: f64,
    /// The variance of the noise, before mass and drift.
    pub heat: f64,
}

impl Coefficients {
    /// The noise's standard deviation on a momentum of mass M.
    pub fn momentum_noise_std(&self, mass: f64) -> f64 {
        (self.heat * mass).sqrt()
    }

    /// The noise's standard deviation on a position of mass M, for samplers without momentum.
    pub fn position_noise_std(&self, mass: f64) -> f64 {
        (self.heat * (self.drift / mass)).sqrt()
    }
}

/// One tensor of a chain, as a sampler sees it.
pub(super) struct TensorSlices<'a> {
    pub position: &'a mut [f32],
    pub momentum: &'a mut [f32],
    pub gradient: &'a [f32],
    pub noise: &'a [f32],
    pub mass: f64,
}

/// Sums over a whole chain, for dynamics that turn all tensors together; gradients are clipped, R is the step's noise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    /// d.
    pub dim: usize,
    /// Σ m²/M.
    pub momentum_squares: f64,
    /// Σ g²/M.
    pub gradient_squares: f64,
    /// Σ g m/M.
    pub gradient_momentum: f64,
    /// Σ m R/√M.
    pub momentum_noise: f64,
    /// Σ g R/√M.
    pub gradient_noise: f64,
    /// Σ R².
    pub noise_squares: f64,
}

impl Sums {
    fn new(layout: &Layout, clip: f64, gradient: &[f32], noise: &[f32], state: &ChainState) -> Self {
        let mut all = Self { dim: layout.len(), ..Self::default() };
        for (tensor, mass) in layout.tensors().iter().zip(&state.mass) {
            let range = tensor.range.clone();
            let numbers = gradient[range.clone()].iter().zip(&noise[range.clone()]).zip(&state.momentum[range]);
            let mut of = Self::default();
            for ((&g, &r), &m) in numbers {
                let (g, r, m) = (f64::from(g), f64::from(r), f64::from(m));
                of.momentum_squares += m * m;
                of.gradient_squares += g * g;
                of.gradient_momentum += g * m;
                of.momentum_noise += m * r;
                of.gradient_noise += g * r;
                of.noise_squares += r * r;
            }
            all.momentum_squares += of.momentum_squares / mass;
            all.gradient_squares += clip * clip * of.gradient_squares / mass;
            all.gradient_momentum += clip * of.gradient_momentum / mass;
            all.momentum_noise += of.momentum_noise / mass.sqrt();
            all.gradient_noise += clip * of.gradient_noise / mass.sqrt();
            all.noise_squares += of.noise_squares;
        }
        all
    }
}

/// A sampler: settings, state and step, in the order in which its file has them.
pub(super) trait Dynamics: Sync {
    /// h and μ' from the learning rate ℓ, momentum μ, n rows and the scale C of the step size; C leaves the friction as it is.
    fn step_size_and_retained_momentum(
        &self,
        learning_rate: f64,
        momentum: f64,
        num_examples: f64,
        scale: f64,
    ) -> (f64, f64);

    /// The kinetic temperature that momenta at these conditions show as h → 0.
    fn kinetic_target(&self, at: &Conditions) -> f64 {
        at.temperature
    }

    /// Whether noise and gradient act on a momentum.
    fn has_momentum(&self) -> bool {
        true
    }

    /// Whether Σ m²/M measures a temperature.
    fn has_momentum_temperature(&self) -> bool {
        self.has_momentum()
    }

    /// How many numbers a chain carries for it in [`ChainState::auxiliary`]; they start at 0.
    fn num_auxiliary(&self) -> usize {
        0
    }

    /// What a step multiplies by.
    fn coefficients(&self, at: &Conditions, auxiliary: &[f64]) -> Coefficients;

    /// The dynamics of a whole chain, where a tensor's step depends on sums over all of them; it then moves by these alone.
    fn whole(&self) -> Option<&dyn WholeDynamics> {
        None
    }

    /// Moves one tensor; returns Σ m²/M.
    fn step(&self, by: &Coefficients, clip: f64, tensor: TensorSlices<'_>) -> f64;

    /// Whether a step also ends with a kick, by the gradient at its new position, which the next step begins with.
    fn kicks_at_both_ends(&self) -> bool {
        false
    }

    /// The last kick of one tensor, by the gradient at the new position; returns Σ m²/M. Asked of those that kick at both ends.
    fn close(&self, by: &Coefficients, clip: f64, tensor: TensorSlices<'_>) -> f64 {
        let _ = (by, clip);
        sum_of_squares(tensor.momentum) / tensor.mass
    }

    /// Moves the chain's auxiliary numbers once all tensors have moved; `kinetic` has Σ m²/M of each.
    fn end_step(&self, at: &Conditions, kinetic: &[f64], num_parameters: usize, auxiliary: &mut [f64]) {
        let _ = (at, kinetic, num_parameters, auxiliary);
    }
}

/// Dynamics that turn all tensors of a chain together.
pub(super) trait WholeDynamics {
    /// Moves one tensor, given the sums at the start of the step; returns Σ m²/M.
    fn step(&self, at: &Conditions, sums: &Sums, clip: f64, tensor: TensorSlices<'_>) -> f64;

    /// The last kick of one tensor, given the sums at the new position; returns Σ m²/M.
    fn close(&self, at: &Conditions, sums: &Sums, clip: f64, tensor: TensorSlices<'_>) -> f64;
}

/// Moves a state by one step with the given gradient and noise; `kinetic` receives Σ m²/M of each tensor.
#[expect(clippy::too_many_arguments, reason = "a step is a function of exactly these")]
pub(super) fn advance(
    dynamics: &dyn Dynamics,
    at: &Conditions,
    clip: f64,
    layout: &Layout,
    gradient: &[f32],
    noise: &[f32],
    state: &mut ChainState,
    kinetic: &mut [f64],
) {
    state.auxiliary.resize(dynamics.num_auxiliary(), 0.0);
    if let Some(whole) = dynamics.whole() {
        let sums = Sums::new(layout, clip, gradient, noise, state);
        return for_each_tensor(layout, gradient, noise, state, kinetic, |tensor| whole.step(at, &sums, clip, tensor));
    }
    let by = dynamics.coefficients(at, &state.auxiliary);
    for_each_tensor(layout, gradient, noise, state, kinetic, |tensor| dynamics.step(&by, clip, tensor));
    dynamics.end_step(at, kinetic, layout.len(), &mut state.auxiliary);
}

/// Ends a step of dynamics that kick at both ends, with the gradient at the new position.
pub(super) fn close(
    dynamics: &dyn Dynamics,
    at: &Conditions,
    clip: f64,
    layout: &Layout,
    gradient: &[f32],
    state: &mut ChainState,
    kinetic: &mut [f64],
) {
    // Nothing reads the noise: the gradient stands in its place.
    if let Some(whole) = dynamics.whole() {
        let sums = Sums::new(layout, clip, gradient, gradient, state);
        return for_each_tensor(layout, gradient, gradient, state, kinetic, |tensor| {
            whole.close(at, &sums, clip, tensor)
        });
    }
    let by = dynamics.coefficients(at, &state.auxiliary);
    for_each_tensor(layout, gradient, gradient, state, kinetic, |tensor| dynamics.close(&by, clip, tensor));
}

/// Shows each tensor and notes Σ m²/M after it has moved.
fn for_each_tensor(
    layout: &Layout,
    gradient: &[f32],
    noise: &[f32],
    state: &mut ChainState,
    kinetic: &mut [f64],
    mut step: impl FnMut(TensorSlices<'_>) -> f64,
) {
    for ((tensor, &mass), kinetic) in layout.tensors().iter().zip(&state.mass).zip(kinetic) {
        let range = tensor.range.clone();
        *kinetic = step(TensorSlices {
            position: &mut state.position[range.clone()],
            momentum: &mut state.momentum[range.clone()],
            gradient: &gradient[range.clone()],
            noise: &noise[range],
            mass,
        });
    }
}
