//! The kernels of this room as networks of the presets use them: what tests compile.

use kelvin::sampler::Integrator;

use super::compiled::{ascent_source, finish_source, sampler_source, sources};
use super::precision::Precision;
use super::{conv_kernels, depthwise_kernels, fast_plan, layer_kernels, small_dense};
use crate::gpu::kernels::KernelSource;

/// Every kernel of an engine, in both precisions, and the fast ones of the paper's networks.
pub fn kernel_sources() -> Vec<KernelSource> {
    let mut all = vec![finish_source(false), finish_source(true)];
    for precision in [Precision::Single, Precision::Half] {
        all.extend(sources(precision));
        all.push(ascent_source(precision));
        all.extend(conv_kernels::example_kernels(precision));
        all.extend(depthwise_kernels::example_kernels(precision));
        all.extend(layer_kernels::example_kernels(precision));
        all.extend(small_dense::example_kernels(precision));
        let integrators = [Integrator::Sghmc, Integrator::Baoa, Integrator::Sgld];
        all.extend(integrators.map(|integrator| sampler_source(precision, integrator)));
    }
    all.extend(fast_plan::example_kernels());
    all
}
