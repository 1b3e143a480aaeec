//! Which named tensors a draw has: what files of draws are written and read by.

use crate::likelihood::Likelihood;
use crate::network::{Layout, Network};
use crate::potential::{Posterior, Potential};

/// The tensors of a position and of the statistics beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawLayout {
    /// Tensors of θ.
    pub position: Layout,
    /// Running statistics of batch norms.
    pub statistics: Layout,
}

/// Of a posterior: all that its θ holds.
impl From<&Posterior> for DrawLayout {
    fn from(posterior: &Posterior) -> Self {
        Self { position: posterior.layout(), statistics: posterior.network().statistics_layout() }
    }
}

/// Of a network and nothing else.
impl From<&Network> for DrawLayout {
    fn from(network: &Network) -> Self {
        Self { position: network.layout(), statistics: network.statistics_layout() }
    }
}

/// What predictions need: a network, and the likelihood with its own parameters.
impl From<(&Network, Likelihood)> for DrawLayout {
    fn from((network, likelihood): (&Network, Likelihood)) -> Self {
        let mut layout = Self::from(network);
        likelihood.add_tensors(&mut layout.position);
        layout
    }
}
