//! A trajectory of Hamiltonian dynamics by leapfrog steps, and where it began.

use super::chain::ChainState;
use crate::diagnostics::weighted_square;
use crate::network::Layout;
use crate::potential::{Batch, Potential};
use crate::vector::scale_and_add;

/// Where a trajectory began, to go back to if it is rejected.
pub(super) struct TrajectoryStart {
    pub position: Vec<f32>,
    pub gradient: Vec<f32>,
    /// U of the chain's position after so many steps, whose gradient is in the scratch.
    pub energy_of: Option<(u64, f64)>,
}

impl TrajectoryStart {
    pub fn new(dim: usize) -> Self {
        Self { position: vec![0.0; dim], gradient: vec![0.0; dim], energy_of: None }
    }
}

/// So many leapfrog steps of size h; returns U where they end, and leaves the gradient there.
#[expect(clippy::too_many_arguments, reason = "it is a function of exactly these")]
pub(super) fn leapfrog<P: Potential>(
    potential: &P,
    batch: Batch<'_>,
    h: f64,
    num_steps: u64,
    layout: &Layout,
    state: &mut ChainState,
    gradient: &mut [f32],
    work: &mut P::Workspace,
) -> f64 {
    let ChainState { position, momentum, mass, .. } = state;
    scale_and_add(momentum, 1.0, -0.5 * h, gradient);
    let mut energy = f64::NAN;
    for remaining in (0..num_steps).rev() {
        for (tensor, mass) in layout.tensors().iter().zip(&*mass) {
            let range = tensor.range.clone();
            scale_and_add(&mut position[range.clone()], 1.0, h / mass, &momentum[range]);
        }
        if remaining > 0 {
            potential.gradient(position, batch, gradient, work);
            scale_and_add(momentum, 1.0, -h, gradient);
        } else {
            energy = potential.evaluate(position, batch, gradient, work);
            scale_and_add(momentum, 1.0, -0.5 * h, gradient);
        }
    }
    energy
}

/// ½ mᵀM⁻¹m.
pub(super) fn kinetic_energy(state: &ChainState, layout: &Layout) -> f64 {
    let tensors = layout.tensors().iter().zip(&state.mass);
    0.5 * tensors.map(|(tensor, &mass)| weighted_square(&state.momentum[tensor.range.clone()], mass)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Examples, Targets};
    use crate::likelihood::Likelihood;
    use crate::network::Network;
    use crate::potential::Posterior;
    use crate::prior::IsotropicGaussian;
    use crate::random::{NoiseKey, Purpose};

    fn normal(step: u64, len: usize) -> Vec<f32> {
        let mut numbers = vec![0.0; len];
        NoiseKey { seed: 3, purpose: Purpose::Synthetic, chain: 0, step }.fill_normal(&mut numbers);
        numbers
    }

    /// As large as the paper's tables: 8-64-1, 824 rows, σ² = 0.01; its energies are thousands.
    fn table() -> (Network, Examples) {
        let (rows, features) = (824, 8);
        let inputs = normal(0, rows * features);
        let targets = inputs.chunks_exact(features).map(|x| x[0] * x[1] + 0.5 * x[2] - 0.3 * x[3].abs()).collect();
        let examples = Examples { inputs: inputs.into(), num_features: features, targets: Targets::Real(targets) };
        (Network::dense(features, &[64], 1).unwrap(), examples)
    }

    /// U in f64 from the same f32 weights.
    fn exact_energy(position: &[f32], examples: &Examples) -> f64 {
        let (w, rest) = position.split_at(8 * 64);
        let (b, rest) = rest.split_at(64);
        let (v, c) = rest.split_at(64);
        let Targets::Real(targets) = &examples.targets else { unreachable!() };
        let prior: f64 = position.iter().map(|&x| f64::from(x).powi(2) / 0.2).sum();
        let inputs = examples.inputs.numbers();
        let fit = inputs.chunks_exact(8).zip(targets).map(|(x, &y)| {
            let unit = |j: usize| {
                let sum: f64 = (0..8).map(|i| f64::from(x[i]) * f64::from(w[i * 64 + j])).sum();
                (sum + f64::from(b[j])).max(0.0) * f64::from(v[j])
            };
            let output = (0..64).map(unit).sum::<f64>() + f64::from(c[0]);
            (output - f64::from(y)).powi(2) / 0.02
        });
        prior + fit.sum::<f64>()
    }

    /// What rounding does to the Metropolis test: changes of U along a trajectory are right to a few 10⁻⁴, and a trajectory that is turned
    /// round comes back to where it began, with its energy.
    #[test]
    fn rounding_is_far_below_the_temperature() {
        let (network, examples) = table();
        let likelihood = Likelihood::Gaussian { noise_variance: 0.01 };
        let prior = IsotropicGaussian::new(0.1).unwrap();
        let posterior = Posterior::new(&network, likelihood, prior, &examples).unwrap();
        let layout = posterior.layout();
        let mut state = ChainState::at_rest(posterior.initial_position(1, 0), &layout);
        let (mut gradient, mut work) = (vec![0.0; posterior.dim()], posterior.workspace());
        let mut first = posterior.evaluate(&state.position, Batch::ALL, &mut gradient, &mut work);
        assert!(first > 5000.0, "{first}");
        let mut go = |num_steps: u64, state: &mut ChainState, gradient: &mut [f32]| {
            leapfrog(&posterior, Batch::ALL, 5e-4, num_steps, &layout, state, gradient, &mut work)
        };
        // Trajectories from fresh momenta at T = 1 take it down to where a chain is.
        for step in 1..=200 {
            state.momentum = normal(step, posterior.dim());
            first = go(20, &mut state, &mut gradient);
        }
        let exact_first = exact_energy(&state.position, &examples);
        let start = state.position.clone();
        state.momentum = normal(0, posterior.dim());
        let kinetic = kinetic_energy(&state, &layout);
        let energy = go(200, &mut state, &mut gradient);
        let error = (energy - first) - (exact_energy(&state.position, &examples) - exact_first);
        assert!(error.abs() < 1e-3, "U went from {first} to {energy}: the change is off by {error}");

        state.momentum.iter_mut().for_each(|m| *m = -*m);
        let back = go(200, &mut state, &mut gradient);
        let error = back + kinetic_energy(&state, &layout) - first - kinetic;
        assert!(error.abs() < 0.01, "the energy came back off by {error}");
        let apart = state.position.iter().zip(&start).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-4, "came back {apart} apart");
    }
}
