//! A look of the warm-up at all chains that step together: `WarmUp::look`, with every pair of gradients evaluated for all of them at once.

use super::batched_potential::BatchedPotential;
use super::chain::Chain;
use super::warm_up::{Sharpness, WarmUp};
use crate::curvature::{displacement, quotient};
use crate::network::Layout;

/// What looks at several chains write to on the way.
pub(super) struct LockstepLook {
    layout: Layout,
    moved: Vec<f32>,
    ahead: Vec<f32>,
    behind: Vec<f32>,
    energies: Vec<f64>,
    /// A direction for each chain, and the Hessian times it.
    directions: Vec<f64>,
    products: Vec<f64>,
}

impl LockstepLook {
    pub fn new(num_chains: usize, layout: &Layout) -> Self {
        let numbers = num_chains * layout.len();
        Self {
            layout: layout.clone(),
            moved: vec![0.0; numbers],
            ahead: vec![0.0; numbers],
            behind: vec![0.0; numbers],
            energies: vec![0.0; num_chains],
            directions: vec![0.0; numbers],
            products: vec![0.0; numbers],
        }
    }

    /// Overwrites `products` with ∇²U times each chain's direction.
    fn apply<P: BatchedPotential>(&mut self, potential: &mut P, step: u64, chains: &[Chain]) -> Result<(), P::Error> {
        let dim = self.layout.len();
        let epsilons: Vec<f64> = chains
            .iter()
            .zip(self.directions.chunks_exact(dim))
            .map(|(chain, direction)| displacement(&chain.state.position, direction))
            .collect();
        for (sign, gradients) in [(1.0, &mut self.ahead), (-1.0, &mut self.behind)] {
            for (index, chain) in chains.iter().enumerate() {
                let rows = index * dim..(index + 1) * dim;
                let along = chain.state.position.iter().zip(&self.directions[rows.clone()]);
                for (moved, (&theta, v)) in self.moved[rows].iter_mut().zip(along) {
                    *moved = (f64::from(theta) + sign * epsilons[index] * v) as f32;
                }
            }
            potential.evaluate(step, &self.moved, gradients, &mut self.energies)?;
        }
        for (index, &epsilon) in epsilons.iter().enumerate() {
            let rows = index * dim..(index + 1) * dim;
            quotient(&self.ahead[rows.clone()], &self.behind[rows.clone()], epsilon, &mut self.products[rows]);
        }
        Ok(())
    }

    pub fn look<P: BatchedPotential>(
        &mut self,
        warm_up: &WarmUp,
        potential: &mut P,
        seed: u64,
        step: u64,
        chains: &mut [Chain],
    ) -> Result<(), P::Error> {
        let (dim, num_tensors) = (self.layout.len(), self.layout.tensors().len());
        let mut means = vec![vec![0.0; num_tensors]; chains.len()];
        for probe in 0..WarmUp::PROBES {
            for (chain, direction) in chains.iter().zip(self.directions.chunks_exact_mut(dim)) {
                let key = WarmUp::name(seed, chain.id, step, probe);
                direction.iter_mut().enumerate().for_each(|(index, sign)| *sign = key.sign(index as u32));
            }
            self.apply(potential, step, chains)?;
            let share = 1.0 / WarmUp::PROBES as f64;
            let probed = self.products.chunks_exact(dim).zip(self.directions.chunks_exact(dim));
            for ((product, signs), means) in probed.zip(&mut means) {
                for (tensor, mean) in self.layout.tensors().iter().zip(means) {
                    // In f32 as an estimate of the diagonal is.
                    let estimates = tensor.range.clone().map(|at| f64::from((product[at] * signs[at]) as f32));
                    *mean += share * estimates.sum::<f64>().abs() / tensor.range.len() as f64;
                }
            }
        }
        let mut masses = Vec::with_capacity(chains.len());
        for (chain, means) in chains.iter_mut().zip(&means) {
            let mut of_chain = vec![1.0; num_tensors];
            warm_up.take_means(means, seed, step, &self.layout, chain, &mut of_chain);
            masses.push(of_chain);
        }
        let rounds = WarmUp::rounds(chains.first().is_none_or(|chain| chain.state.adapted.num_looks == 0));
        let latest = self.largest(potential, step, rounds, chains, &masses)?;
        for ((chain, latest), masses) in chains.iter_mut().zip(latest).zip(&masses) {
            let sharpness = Sharpness { largest: latest, share: 1.0, grows: true };
            warm_up.take_sharpness(step, &sharpness, &self.layout, chain, masses);
        }
        Ok(())
    }

    /// `WarmUp::watch` of all chains.
    pub fn watch<P: BatchedPotential>(
        &mut self,
        warm_up: &WarmUp,
        potential: &mut P,
        step: u64,
        chains: &mut [Chain],
    ) -> Result<(), P::Error> {
        let masses: Vec<Vec<f64>> = chains.iter().map(|chain| chain.state.mass.clone()).collect();
        let latest = self.largest(potential, step, WarmUp::ROUNDS_OF_WATCH, chains, &masses)?;
        for (chain, latest) in chains.iter_mut().zip(latest) {
            warm_up.keep_within(latest, 1.0, chain);
        }
        Ok(())
    }

    /// λmax of each chain by power iteration from where its last one ended.
    fn largest<P: BatchedPotential>(
        &mut self,
        potential: &mut P,
        step: u64,
        rounds: usize,
        chains: &mut [Chain],
        masses: &[Vec<f64>],
    ) -> Result<Vec<f64>, P::Error> {
        let dim = self.layout.len();
        let mut largest = vec![0.0; chains.len()];
        // A chain whose curvature is no number any more stops, and keeps what it had.
        let mut goes_on = vec![true; chains.len()];
        let layout = self.layout.clone();
        let divide = |vector: &mut [f64], masses: &[f64]| {
            for (tensor, mass) in layout.tensors().iter().zip(masses) {
                vector[tensor.range.clone()].iter_mut().for_each(|value| *value /= mass.sqrt());
            }
        };
        for _ in 0..rounds {
            for ((chain, to), masses) in chains.iter().zip(self.directions.chunks_exact_mut(dim)).zip(masses) {
                let direction = &chain.state.adapted.direction;
                let length = direction.iter().map(|&w| f64::from(w).powi(2)).sum::<f64>().sqrt();
                to.iter_mut().zip(direction).for_each(|(to, &w)| *to = f64::from(w) / length);
                divide(to, masses);
            }
            self.apply(potential, step, chains)?;
            for (index, product) in self.products.chunks_exact_mut(dim).enumerate() {
                if !goes_on[index] {
                    continue;
                }
                divide(product, &masses[index]);
                largest[index] = product.iter().map(|x| x * x).sum::<f64>().sqrt();
                goes_on[index] = largest[index] > 0.0 && largest[index].is_finite();
                if goes_on[index] {
                    let direction = &mut chains[index].state.adapted.direction;
                    direction.iter_mut().zip(&*product).for_each(|(w, x)| *w = (x / largest[index]) as f32);
                }
            }
        }
        Ok(largest)
    }
}
