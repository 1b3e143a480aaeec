//! The kernels of an engine, compiled for its precision.

use kelvin::sampler::Integrator;

use super::by_width::ByWidth;
use super::conv_kernels::{self, ConvProducts};
use super::depthwise_kernels::{self, DepthwiseKernels};
use super::fast::Fast;
use super::layer_kernels::{self, LayerKernels};
use super::plan::Plan;
use super::precision::Precision;
use super::small_dense::{self, SmallDenseKernels};
use crate::gpu::device::{Device, DeviceError, Kernel};
use crate::gpu::kernels::KernelSource;
use crate::samplers::{OF_ANY_NETWORK, number_in};

/// Kernels by what they do.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub norm_statistics: ByWidth,
    pub norm_finalise: Kernel,
    pub norm_sums: ByWidth,
    pub response_norm: ByWidth,
    pub response_norm_backward: ByWidth,
    pub threshold: ByWidth,
    pub threshold_backward: ByWidth,
    pub pool: ByWidth,
    pub pool_backward: ByWidth,
    /// The same, taking the sums of a norm in passing.
    pub pool_backward_sums: ByWidth,
    pub add_values: ByWidth,
    pub give_gradient: ByWidth,
    pub loss: Kernel,
    pub batch_rows: Kernel,
    pub gather_bytes: Gather,
    pub gather_numbers: Gather,
    /// Where most tensors have several partial sums, and where most have one.
    pub gradient_total: [Kernel; 2],
    pub mass_squares: Kernel,
    pub scale_momenta: Kernel,
    pub round_weights: Kernel,
    /// Those of convolutions and dense layers that no faster kernel serves, by operation.
    conv_products: Vec<Option<ConvProducts>>,
    /// Those of depthwise convolutions, by operation.
    depthwises: Vec<Option<DepthwiseKernels>>,
    /// Those of layers that few networks have, by operation.
    layers: Vec<Option<LayerKernels>>,
    /// Those of dense layers of few units, by operation.
    small_denses: Vec<Option<SmallDenseKernels>>,
    precision: Precision,
}

/// What gathers a batch.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    /// Images pixel by pixel, flipped and cropped.
    pub images: Kernel,
    /// Rows as they are, number by number.
    pub rows: Kernel,
    /// The same, four numbers at a time.
    pub fours: Kernel,
}

/// A kernel whose file has the name of its entry.
fn source(entry: &'static str, file: &'static str, defines: &[(&'static str, i64)]) -> KernelSource {
    KernelSource { file, entry, defines: defines.to_vec() }
}

/// All kernels but the steps, in the order of [`Compiled`]'s fields.
pub(super) fn sources(precision: Precision) -> Vec<KernelSource> {
    let half = ("HALF", i64::from(precision == Precision::Half));
    let with_half = |entry, file| source(entry, file, &[half]);
    let by_width = |entry, file, width: usize| source(entry, file, &[half, ("WIDTH", width as i64)]);
    let pool_backward = |width: usize, norm_sums| {
        source("pool_backward", "pool_backward.cu", &[half, ("WIDTH", width as i64), ("NORM_SUMS", norm_sums)])
    };
    let gather = |bytes, rows, width| {
        let defines = [half, ("BYTES", bytes), ("ROWS", rows), ("WIDTH", width)];
        source("gather_images", "gather_images.cu", &defines)
    };
    vec![
        by_width("norm_statistics", "norm_statistics.cu", 1),
        by_width("norm_statistics", "norm_statistics.cu", precision.wide()),
        source("norm_finalise", "norm_finalise.cu", &[]),
        by_width("norm_sums", "norm_sums.cu", 1),
        by_width("norm_sums", "norm_sums.cu", precision.wide()),
        by_width("response_norm", "response_norm.cu", 1),
        by_width("response_norm", "response_norm.cu", precision.wide()),
        by_width("response_norm_backward", "response_norm_backward.cu", 1),
        by_width("response_norm_backward", "response_norm_backward.cu", precision.wide()),
        by_width("threshold", "threshold.cu", 1),
        by_width("threshold", "threshold.cu", precision.wide()),
        by_width("threshold_backward", "threshold_backward.cu", 1),
        by_width("threshold_backward", "threshold_backward.cu", precision.wide()),
        by_width("pool", "pool.cu", 1),
        by_width("pool", "pool.cu", precision.wide()),
        pool_backward(1, 0),
        pool_backward(precision.wide(), 0),
        pool_backward(1, 1),
        pool_backward(precision.wide(), 1),
        by_width("add_values", "add_values.cu", 1),
        by_width("add_values", "add_values.cu", precision.wide()),
        by_width("give_gradient", "give_gradient.cu", 1),
        by_width("give_gradient", "give_gradient.cu", precision.wide()),
        with_half("loss", "loss.cu"),
        source("batch_rows", "batch_rows.cu", &[]),
        gather(1, 0, 1),
        gather(1, 1, 1),
        gather(1, 1, 4),
        gather(0, 0, 1),
        gather(0, 1, 1),
        gather(0, 1, 4),
        source("gradient_total", "gradient_total.cu", &[("TOGETHER", 8)]),
        source("gradient_total", "gradient_total.cu", &[("TOGETHER", 2)]),
        source("mass_squares", "mass_squares.cu", &[]),
        source("scale_momenta", "scale_momenta.cu", &[]),
        source("round_weights", "round_weights.cu", &[]),
    ]
}

pub(super) fn sampler_source(precision: Precision, integrator: Integrator) -> KernelSource {
    let half = ("HALF", i64::from(precision == Precision::Half));
    source("langevin", "langevin.cu", &[half, ("INTEGRATOR", number_in(OF_ANY_NETWORK, integrator) as i64)])
}

pub(super) fn ascent_source(precision: Precision) -> KernelSource {
    source("ascent", "ascent.cu", &[("HALF", i64::from(precision == Precision::Half))])
}

pub(super) fn finish_source(ascends: bool) -> KernelSource {
    source("finish_step", "finish_step.cu", &[("ASCENT", i64::from(ascends))])
}

impl Compiled {
    /// Compiles all but the steps.
    pub fn new(device: &dyn Device, precision: Precision, plan: &Plan, fast: &Fast) -> Result<Self, DeviceError> {
        let compiled = device.compile_all(&sources(precision))?;
        let mut next = compiled.into_iter();
        // In the order of the sources.
        let mut take = || next.next().expect("a kernel for each source");
        Ok(Self {
            norm_statistics: ByWidth::new(take(), take()),
            norm_finalise: take(),
            norm_sums: ByWidth::new(take(), take()),
            response_norm: ByWidth::new(take(), take()),
            response_norm_backward: ByWidth::new(take(), take()),
            threshold: ByWidth::new(take(), take()),
            threshold_backward: ByWidth::new(take(), take()),
            pool: ByWidth::new(take(), take()),
            pool_backward: ByWidth::new(take(), take()),
            pool_backward_sums: ByWidth::new(take(), take()),
            add_values: ByWidth::new(take(), take()),
            give_gradient: ByWidth::new(take(), take()),
            loss: take(),
            batch_rows: take(),
            gather_bytes: Gather { images: take(), rows: take(), fours: take() },
            gather_numbers: Gather { images: take(), rows: take(), fours: take() },
            gradient_total: [take(), take()],
            mass_squares: take(),
            scale_momenta: take(),
            round_weights: take(),
            conv_products: conv_kernels::compile(device, precision, plan, fast)?,
            depthwises: depthwise_kernels::compile(device, precision, &plan.program)?,
            layers: layer_kernels::compile(device, precision, &plan.program)?,
            small_denses: small_dense::compile(device, precision, &plan.program)?,
            precision,
        })
    }

    /// The products of a convolution or dense layer that no faster kernel serves.
    pub fn conv_products(&self, operation: usize) -> ConvProducts {
        self.conv_products[operation].expect("products for each operation that has no faster kernel")
    }

    /// The kernels of a depthwise convolution.
    pub fn depthwise(&self, operation: usize) -> Option<DepthwiseKernels> {
        self.depthwises[operation]
    }

    /// The kernels of a layer that few networks have.
    pub fn layer(&self, operation: usize) -> LayerKernels {
        self.layers[operation].expect("kernels for each such layer")
    }

    /// The kernels of a dense layer of few units, by operation.
    pub fn small_dense(&self, operation: usize) -> Option<SmallDenseKernels> {
        self.small_denses[operation]
    }

    /// The step of a sampler, and its end.
    pub fn sampler(&self, device: &dyn Device, integrator: Integrator) -> Result<[Kernel; 2], DeviceError> {
        Ok([device.compile(&sampler_source(self.precision, integrator))?, device.compile(&finish_source(false))?])
    }

    /// The step of the joint ascent, and its end.
    pub fn ascent(&self, device: &dyn Device) -> Result<[Kernel; 2], DeviceError> {
        Ok([device.compile(&ascent_source(self.precision))?, device.compile(&finish_source(true))?])
    }
}
