//! The structures that kernels take, laid out as in their files.

use bytemuck::{Pod, Zeroable};

use crate::gpu::device::Address;

/// Declares structures of plain numbers that are laid out as C does.
macro_rules! plain {
    ($($(#[$meta:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
            pub struct $name {
                $(
                    #[allow(missing_docs, reason = "the kernel's file says what it is")]
                    pub $field: $kind,
                )*
            }
        )*
    };
}

plain! {
    /// `reading.cuh`.
    Reading { values: Address, norm: Address, len: u32, channels: u32, relu: u32, num_images: u32 }
    /// `reading.cuh`.
    Upstream {
        gradient: Address, values: Address, slopes: Address, len: u32, channels: u32, num_images: u32, reserved: u32,
    }
    /// `reading.cuh`.
    Downstream { gradient: Address, adds: u32, masks: u32 }
    /// `conv_product_view.cuh`.
    ConvSizes {
        input_height: u32, input_width: u32, channels: u32, output_height: u32, output_width: u32, filters: u32,
        kernel_height: u32, kernel_width: u32, stride: u32, above: u32, left: u32, num_images: u32,
        groups: u32, reserved: u32,
    }
    /// `conv_forward.cu`.
    ConvForward {
        input: Address, weights: Address, bias: Address, norm: Address, output: Address, bits: Address, parts: Address,
        tickets: Address, finish: NormFinish, parameter_stride: u64, num_images: u32, tiles_per_block: u32,
        other: Address, other_norm: Address, sum: Address, pending: NormFinish, other_pending: NormFinish,
    }
    /// `conv_backward.cu`.
    ConvBackward {
        input: Address, weights: Address, norm: Address, output: Address, output_gradient: Address,
        input_gradient: Address, weight_gradient: Address, bias_gradient: Address, normed: Address, parts: Address,
        tickets: Address, finish: NormBackwardFinish, parameter_stride: u64, num_images: u32, tiles_per_block: u32,
        other_normed: Address, other_parts: Address, other_finish: NormBackwardFinish,
        pending: NormBackwardFinish,
    }
    /// `conv_backward_strided.cu`.
    ConvStrided {
        conv: ConvBackward, weights: Address, output: Address, output_gradient: Address, weight_gradient: Address,
        pending: NormBackwardFinish,
    }
    /// `product_arguments.cuh`.
    Product {
        a: Address, b: Address, c: Address, bias: Address, mask: Address, a_stride: u64, b_stride: u64, c_stride: u64,
        bias_stride: u64, rows: u32, columns: u32, depth: u32, num_splits: u32, column_sums: Address,
    }
    /// `conv_product.cu`.
    ConvProduct {
        input: Reading, output: Upstream, to: Downstream, kernel: Address, bias: Address, result: Address,
        bias_sums: Address, parameter_stride: u64, sizes: ConvSizes, num_splits: u32, pixels_per_split: u32, is_output: u32, reserved: u32,
    }
    /// `depthwise.cuh`.
    DepthwiseSizes {
        input_height: u32, input_width: u32, output_height: u32, output_width: u32, channels: u32, num_images: u32,
    }
    /// `depthwise.cu`.
    Depthwise {
        input: Reading, kernel: Address, bias: Address, output: Address, parameter_stride: u64, sizes: DepthwiseSizes,
    }
    /// `depthwise_weights.cu`.
    DepthwiseWeights {
        output: Upstream, input: Reading, sums: Address, bias_sums: Address, num_splits: u32, reserved: u32,
        sizes: DepthwiseSizes,
    }
    /// `depthwise_input.cu`.
    DepthwiseInput {
        output: Upstream, input: Reading, to: Downstream, kernel: Address, parameter_stride: u64,
        sizes: DepthwiseSizes,
    }
    /// `small_dense.cu`.
    SmallDense { input: Reading, kernel: Address, bias: Address, output: Address, parameter_stride: u64 }
    /// `small_dense_backward.cu`.
    SmallDenseBackward {
        output: Upstream, input: Reading, to: Downstream, kernel: Address, kernel_sums: Address, bias_sums: Address,
        parameter_stride: u64, num_splits: u32, images_per_split: u32,
    }
    /// `norm_statistics.cu`.
    NormStatistics {
        values: Address, parts: Address, tickets: Address, finish: NormFinish, num_pixels: u32, channels: u32,
        num_parts: u32, rows_per_part: u32,
    }
    /// `norm_finish.cuh`.
    NormFinish {
        parts: Address, norm: Address, bias: Address, gamma: Address, beta: Address, running_mean: Address,
        running_variance: Address, cells: Address, momentum: f64, epsilon: f64, share: f64, parameter_stride: u64,
        statistics_stride: u64, channels: u32, num_parts: u32, rows_per_part: u32, num_pixels: u32, moves: u32,
        reserved: u32,
    }
    /// `norm_finish.cuh`.
    NormBackwardFinish {
        parts: Address, norm: Address, slopes: Address, gamma_gradient: Address, beta_gradient: Address,
        bias_gradient: Address, share: f64, channels: u32, num_parts: u32, training: u32, reserved: u32,
    }
    /// `norm_sums.cu`.
    NormSums {
        values: Address, gradient: Address, norm: Address, parts: Address, tickets: Address,
        finish: NormBackwardFinish, num_pixels: u32, channels: u32, num_parts: u32, rows_per_part: u32,
    }
    /// `image_cells.cuh`.
    Cells {
        input_width: u32, num_cells: u32, cells_across: u32, height: u32, width: u32, share: f32, units: u32, keeps: u32,
    }
    /// `response_norm.cuh`.
    CutOff { threshold: Address, floor: f32, reserved: u32 }
    /// `response_norm.cu`.
    ResponseNorm {
        input: Reading, gamma: Address, beta: Address, roots: Address, output: Address, epsilon: f64,
        parameter_stride: u64, cut_off: CutOff, cells: Cells,
    }
    /// `response_norm_backward.cu`.
    ResponseNormBackward {
        output: Upstream, input: Reading, to: Downstream, gamma: Address, beta: Address, roots: Address,
        gamma_gradient: Address, beta_gradient: Address, threshold_gradient: Address, parameter_stride: u64,
        cut_off: CutOff, cells: Cells, has_input_gradient: u32, reserved: u32,
    }
    /// `activation.cu`.
    ActivationForward { input: Reading, output: Address, by: u32, reserved: u32 }
    /// `activation_backward.cu`.
    ActivationBackward { output: Upstream, input: Reading, to: Downstream, by: u32, reserved: u32 }
    /// `max_pool.cuh`.
    Window {
        input_height: u32, input_width: u32, output_height: u32, output_width: u32, size: u32, stride: u32, above: u32,
        left: u32,
    }
    /// `max_pool.cu`.
    MaxPool { input: Reading, output: Address, window: Window }
    /// `max_pool_backward.cu`.
    MaxPoolBackward { output: Upstream, input: Reading, to: Downstream, window: Window }
    /// `group_norm.cu`.
    GroupNorm {
        input: Reading, gamma: Address, beta: Address, output: Address, epsilon: f64, parameter_stride: u64,
        groups: u32, reserved: u32,
    }
    /// `group_norm_backward.cu`.
    GroupNormBackward {
        output: Upstream, input: Reading, to: Downstream, gamma: Address, gamma_gradient: Address,
        beta_gradient: Address, epsilon: f64, parameter_stride: u64, groups: u32, has_input_gradient: u32,
    }
    /// `group_norm_cells.cu`.
    GroupNormCells {
        input: Reading, gamma: Address, beta: Address, moments: Address, output: Address, epsilon: f64,
        parameter_stride: u64, cells: Cells, groups: u32, reserved: u32,
    }
    /// `group_norm_cells_backward.cu`.
    GroupNormCellsBackward {
        output: Upstream, input: Reading, to: Downstream, gamma: Address, beta: Address, moments: Address,
        gamma_gradient: Address, beta_gradient: Address, parameter_stride: u64, cells: Cells, groups: u32,
        has_input_gradient: u32,
    }
    /// `layer_norm.cu`.
    LayerNorm {
        input: Reading, gamma: Address, beta: Address, output: Address, epsilon: f64, parameter_stride: u64,
    }
    /// `layer_norm_backward.cu`.
    LayerNormBackward {
        output: Upstream, input: Reading, to: Downstream, gamma: Address, gamma_gradient: Address,
        beta_gradient: Address, epsilon: f64, parameter_stride: u64, has_input_gradient: u32, pixels_per_block: u32,
        blocks_per_image: u32, reserved: u32,
    }
    /// `threshold.cu`.
    Threshold { input: Reading, threshold: Address, output: Address, parameter_stride: u64 }
    /// `threshold_backward.cu`.
    ThresholdBackward {
        output: Upstream, input: Reading, to: Downstream, threshold: Address, threshold_gradient: Address,
        parameter_stride: u64, has_input_gradient: u32, reserved: u32,
    }
    /// `pool.cu`.
    Pool {
        input: Reading, output: Address, input_width: u32, output_height: u32, output_width: u32, height: u32,
        width: u32, share: f32,
    }
    /// `pool_backward.cu`.
    PoolBackward {
        output: Upstream, input: Reading, to: Downstream, normed: Address, parts: Address, tickets: Address,
        finish: NormBackwardFinish, input_width: u32, output_height: u32, output_width: u32, height: u32, width: u32,
        lines: u32, share: f32, num_shares: u32,
    }
    /// `add_values.cu`.
    AddValues { left: Reading, right: Reading, output: Address }
    /// `give_gradient.cu`.
    GiveGradient { output: Upstream, input: Reading, to: Downstream }
    /// `loss.cu`.
    Loss {
        outputs: Address, gradient: Address, targets: Address, rows: Address, cells: Address, sums: Address,
        noise_variance: f64, num_images: u32, num_outputs: u32, adds: u32, reserved: u32,
    }
    /// `batch_rows.cu`.
    BatchRows {
        cells: Address, rows: Address, placements: Address, seed: u64, steps_per_epoch: u64,
        augmentation_threshold: u64, mass_epochs: u64, num_examples: u32, batch_size: u32, first: u32, num_images: u32,
    }
    /// `gather_images.cu`.
    GatherImages {
        pixels: Address, rows: Address, placements: Address, output: Address, height: u32, width: u32, channels: u32,
        num_images: u32, pixel_stride: u32, reserved: u32,
    }
    /// `cell.cuh`: what the device knows of a chain beside its numbers.
    ChainCell {
        gradient_scale: f64, likelihood_weight: f64, log_power: f64, log_beta: f64, log_beta_velocity: f64,
        norm: f64, step: u64, num_readings: u64, id: u32, stopped: u32, row: u32, mass_batch: u32,
    }
    /// `chain.cuh`.
    StepNumbers { keep: f64, kick: f64, drift: f64, heat: f64 }
    /// `chain.cuh`.
    ParameterBlock { tensor: u32, first: u32, len: u32, tensor_first: u32, has_prior: u32 }
    /// `chain.cuh`.
    TensorBlocks { first: u32, count: u32 }
    /// `gradient_total.cu`: the partial sums of a tensor.
    GradientSource { sums: Address, num_splits: u32, len: u32 }
    /// `gradient_total.cu`.
    GradientTotal {
        blocks: Address, sources: Address, positions: Address, gradients: Address, cells: Address, squares: Address,
        square_sums: Address, tickets: Address, parameter_stride: u64, inverse_variance: f32, num_blocks: u32,
        adds: u32, finishes: u32, has_sources: u32, keeps: u32,
    }
    /// `langevin.cu`.
    LangevinStep {
        blocks: Address, positions: Address, momenta: Address, gradients: Address, sources: Address, weights: Address, cells: Address,
        steps: Address, masses: Address, square_sums: Address, kinetic: Address, clip_norm: f64, parameter_stride: u64,
        seed: u64, num_blocks: u32, num_tensors: u32, num_rows: u32, inverse_variance: f32,
    }
    /// `chain.cuh`.
    LogBetaRule { likelihood: f64, precision: f64, mean: f64 }
    /// `ascent.cu`.
    AscentStep {
        blocks: Address, positions: Address, momenta: Address, gradients: Address, weights: Address, cells: Address,
        steps: Address, square_sums: Address, sums: Address, clip_norm: f64, momentum: f64, weight_decay: f64,
        log_beta: LogBetaRule, parameter_stride: u64, num_blocks: u32, num_rows: u32, clips_all: u32, reserved: u32,
    }
    /// `finish_step.cu`.
    FinishStep {
        tensors: Address, cells: Address, steps: Address, kinetic: Address, last_kinetic: Address,
        kinetic_sums: Address, sums: Address, clip_norm: f64, momentum: f64, log_beta: LogBetaRule, burn_in: u64, num_tensors: u32,
        num_blocks: u32, num_rows: u32, clips_all: u32,
    }
    /// `mass_squares.cu`.
    MassSquares {
        tensors: Address, cells: Address, squares: Address, totals: Address, num_tensors: u32, num_blocks: u32, num_batches: u32,
        reserved: u32,
    }
    /// `scale_momenta.cu`.
    ScaleMomenta {
        blocks: Address, momenta: Address, factors: Address, parameter_stride: u64, num_tensors: u32, reserved: u32,
    }
    /// `round_weights.cu`.
    RoundWeights { positions: Address, weights: Address, parameter_stride: u64 }
}
