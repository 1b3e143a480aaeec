//! The samplers that kernels exist for; the CPU may know more.

use kelvin::sampler::Integrator;

/// Each at the number that `langevin.cu` and `table_chain.cu` have for it.
pub(crate) const SAMPLERS: [Integrator; 3] = [Integrator::Sghmc, Integrator::Baoa, Integrator::Sgld];

/// The kernels' number for a sampler.
///
/// # Panics
/// If it has none.
pub(crate) fn kernel_number(integrator: Integrator) -> i64 {
    let number = SAMPLERS.iter().position(|&known| known == integrator);
    number.unwrap_or_else(|| panic!("no kernel moves chains by {integrator}")) as i64
}
