//! The kernels' sources, one `.cu` file an idea, compiled when they are first needed.
//!
//! A source is a file with its includes put in place and a line `#define NAME VALUE` for each of its sizes. Kernels use
//! no header of CUDA's, so that the compiler needs nothing but this text.

/// A kernel to be compiled: the file, its entry, and the sizes it is compiled for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelSource {
    /// The file's name among [`FILES`], which is also the entry's name plus `.cu`.
    pub file: &'static str,
    /// The `__global__` function.
    pub entry: &'static str,
    /// Names and values that the file expects to be defined.
    pub defines: Vec<(&'static str, i64)>,
}

/// The files and their texts; `.cuh` are included by others.
pub const FILES: &[(&str, &str)] = &[
    ("activation.cu", include_str!("../../kernels/activation.cu")),
    ("activation.cuh", include_str!("../../kernels/activation.cuh")),
    ("activation_backward.cu", include_str!("../../kernels/activation_backward.cu")),
    ("add_values.cu", include_str!("../../kernels/add_values.cu")),
    ("ascent.cu", include_str!("../../kernels/ascent.cu")),
    ("augment.cuh", include_str!("../../kernels/augment.cuh")),
    ("batch_rows.cu", include_str!("../../kernels/batch_rows.cu")),
    ("bulk_copy.cuh", include_str!("../../kernels/bulk_copy.cuh")),
    ("cell.cuh", include_str!("../../kernels/cell.cuh")),
    ("chain.cuh", include_str!("../../kernels/chain.cuh")),
    ("cluster.cuh", include_str!("../../kernels/cluster.cuh")),
    ("conv_backward.cu", include_str!("../../kernels/conv_backward.cu")),
    ("conv_backward_arguments.cuh", include_str!("../../kernels/conv_backward_arguments.cuh")),
    ("conv_backward_strided.cu", include_str!("../../kernels/conv_backward_strided.cu")),
    ("conv_backward_wide.cu", include_str!("../../kernels/conv_backward_wide.cu")),
    ("conv_dy.cuh", include_str!("../../kernels/conv_dy.cuh")),
    ("conv_forward.cu", include_str!("../../kernels/conv_forward.cu")),
    ("conv_forward_arguments.cuh", include_str!("../../kernels/conv_forward_arguments.cuh")),
    ("conv_forward_wide.cu", include_str!("../../kernels/conv_forward_wide.cu")),
    ("conv_input_gradient.cuh", include_str!("../../kernels/conv_input_gradient.cuh")),
    ("conv_norm_sums.cuh", include_str!("../../kernels/conv_norm_sums.cuh")),
    ("conv_planes.cuh", include_str!("../../kernels/conv_planes.cuh")),
    ("conv_product.cu", include_str!("../../kernels/conv_product.cu")),
    ("conv_product_arguments.cuh", include_str!("../../kernels/conv_product_arguments.cuh")),
    ("conv_product_factors.cuh", include_str!("../../kernels/conv_product_factors.cuh")),
    ("conv_product_source.cuh", include_str!("../../kernels/conv_product_source.cuh")),
    ("conv_product_store.cuh", include_str!("../../kernels/conv_product_store.cuh")),
    ("conv_product_tiles.cuh", include_str!("../../kernels/conv_product_tiles.cuh")),
    ("conv_product_view.cuh", include_str!("../../kernels/conv_product_view.cuh")),
    ("conv_squares.cuh", include_str!("../../kernels/conv_squares.cuh")),
    ("conv_strided_input_gradient.cuh", include_str!("../../kernels/conv_strided_input_gradient.cuh")),
    ("conv_strided_planes.cuh", include_str!("../../kernels/conv_strided_planes.cuh")),
    ("conv_strided_weight_gradient.cuh", include_str!("../../kernels/conv_strided_weight_gradient.cuh")),
    ("conv_strip.cuh", include_str!("../../kernels/conv_strip.cuh")),
    ("conv_sum.cuh", include_str!("../../kernels/conv_sum.cuh")),
    ("conv_tile.cuh", include_str!("../../kernels/conv_tile.cuh")),
    ("conv_weight_gradient.cuh", include_str!("../../kernels/conv_weight_gradient.cuh")),
    ("conv_wide_input_gradient.cuh", include_str!("../../kernels/conv_wide_input_gradient.cuh")),
    ("conv_wide_weight_gradient.cuh", include_str!("../../kernels/conv_wide_weight_gradient.cuh")),
    ("depthwise.cu", include_str!("../../kernels/depthwise.cu")),
    ("depthwise.cuh", include_str!("../../kernels/depthwise.cuh")),
    ("depthwise_input.cu", include_str!("../../kernels/depthwise_input.cu")),
    ("depthwise_weights.cu", include_str!("../../kernels/depthwise_weights.cu")),
    ("element.cuh", include_str!("../../kernels/element.cuh")),
    ("finish_step.cu", include_str!("../../kernels/finish_step.cu")),
    ("gather_images.cu", include_str!("../../kernels/gather_images.cu")),
    ("give_gradient.cu", include_str!("../../kernels/give_gradient.cu")),
    ("gpu.cuh", include_str!("../../kernels/gpu.cuh")),
    ("gradient_total.cu", include_str!("../../kernels/gradient_total.cu")),
    ("group_norm.cu", include_str!("../../kernels/group_norm.cu")),
    ("group_norm.cuh", include_str!("../../kernels/group_norm.cuh")),
    ("group_norm_backward.cu", include_str!("../../kernels/group_norm_backward.cu")),
    ("group_norm_cells.cu", include_str!("../../kernels/group_norm_cells.cu")),
    ("group_norm_cells.cuh", include_str!("../../kernels/group_norm_cells.cuh")),
    ("group_norm_cells_backward.cu", include_str!("../../kernels/group_norm_cells_backward.cu")),
    ("image_cells.cuh", include_str!("../../kernels/image_cells.cuh")),
    ("langevin.cu", include_str!("../../kernels/langevin.cu")),
    ("layer_norm.cu", include_str!("../../kernels/layer_norm.cu")),
    ("layer_norm.cuh", include_str!("../../kernels/layer_norm.cuh")),
    ("layer_norm_backward.cu", include_str!("../../kernels/layer_norm_backward.cu")),
    ("loss.cu", include_str!("../../kernels/loss.cu")),
    ("mass_squares.cu", include_str!("../../kernels/mass_squares.cu")),
    ("max_pool.cu", include_str!("../../kernels/max_pool.cu")),
    ("max_pool.cuh", include_str!("../../kernels/max_pool.cuh")),
    ("max_pool_backward.cu", include_str!("../../kernels/max_pool_backward.cu")),
    ("norm_finalise.cu", include_str!("../../kernels/norm_finalise.cu")),
    ("norm_finish.cuh", include_str!("../../kernels/norm_finish.cuh")),
    ("norm_statistics.cu", include_str!("../../kernels/norm_statistics.cu")),
    ("norm_sums.cu", include_str!("../../kernels/norm_sums.cu")),
    ("pack.cuh", include_str!("../../kernels/pack.cuh")),
    ("philox.cuh", include_str!("../../kernels/philox.cuh")),
    ("pixel_sums.cuh", include_str!("../../kernels/pixel_sums.cuh")),
    ("pool.cu", include_str!("../../kernels/pool.cu")),
    ("pool_backward.cu", include_str!("../../kernels/pool_backward.cu")),
    ("product.cu", include_str!("../../kernels/product.cu")),
    ("product_arguments.cuh", include_str!("../../kernels/product_arguments.cuh")),
    ("product_tf32.cu", include_str!("../../kernels/product_tf32.cu")),
    ("reading.cuh", include_str!("../../kernels/reading.cuh")),
    ("response_norm.cu", include_str!("../../kernels/response_norm.cu")),
    ("response_norm.cuh", include_str!("../../kernels/response_norm.cuh")),
    ("response_norm_backward.cu", include_str!("../../kernels/response_norm_backward.cu")),
    ("round_weights.cu", include_str!("../../kernels/round_weights.cu")),
    ("scale_momenta.cu", include_str!("../../kernels/scale_momenta.cu")),
    ("small_dense.cu", include_str!("../../kernels/small_dense.cu")),
    ("small_dense_backward.cu", include_str!("../../kernels/small_dense_backward.cu")),
    ("table_chain.cu", include_str!("../../kernels/table_chain.cu")),
    ("table_gradient.cuh", include_str!("../../kernels/table_gradient.cuh")),
    ("table_gradient_layers.cuh", include_str!("../../kernels/table_gradient_layers.cuh")),
    ("table_gradient_tensor.cuh", include_str!("../../kernels/table_gradient_tensor.cuh")),
    ("table_gradient_wide.cuh", include_str!("../../kernels/table_gradient_wide.cuh")),
    ("table_layers.cuh", include_str!("../../kernels/table_layers.cuh")),
    ("table_likelihood.cuh", include_str!("../../kernels/table_likelihood.cuh")),
    ("table_network.cuh", include_str!("../../kernels/table_network.cuh")),
    ("table_rows.cuh", include_str!("../../kernels/table_rows.cuh")),
    ("table_shares.cuh", include_str!("../../kernels/table_shares.cuh")),
    ("table_update.cuh", include_str!("../../kernels/table_update.cuh")),
    ("table_vectors.cuh", include_str!("../../kernels/table_vectors.cuh")),
    ("tensor_sums.cuh", include_str!("../../kernels/tensor_sums.cuh")),
    ("threads.cuh", include_str!("../../kernels/threads.cuh")),
    ("threshold.cu", include_str!("../../kernels/threshold.cu")),
    ("threshold_backward.cu", include_str!("../../kernels/threshold_backward.cu")),
    ("tile.cuh", include_str!("../../kernels/tile.cuh")),
    ("wgmma.cuh", include_str!("../../kernels/wgmma.cuh")),
];

impl KernelSource {
    /// The whole text for a compiler.
    ///
    /// # Panics
    /// If a file or an included one is not among [`FILES`].
    pub fn text(&self) -> String {
        let (_, source) = find(self.file);
        text_of(self.file, source, &self.defines)
    }
}

/// The whole text for a compiler of a source that is not among [`FILES`], but may include them.
///
/// # Panics
/// If an included file is not among [`FILES`].
pub fn text_of(file: &str, source: &str, defines: &[(&str, i64)]) -> String {
    let mut text = String::new();
    for (name, value) in defines {
        text.push_str(&format!("#define {name} {value}\n"));
    }
    expand(file, source, &mut vec![file.to_owned()], &mut text);
    text
}

fn find(file: &str) -> (&'static str, &'static str) {
    *FILES.iter().find(|(name, _)| *name == file).unwrap_or_else(|| panic!("no kernel file {file}"))
}

/// Appends a source with each `#include "…"` replaced by that file, the first time it is named.
fn expand(file: &str, source: &str, included: &mut Vec<String>, text: &mut String) {
    text.push_str(&format!("#line 1 \"{file}\"\n"));
    for (number, line) in source.lines().enumerate() {
        match line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            None => {
                text.push_str(line);
                text.push('\n');
            }
            Some(other) if included.iter().any(|name| name == other) => text.push('\n'),
            Some(other) => {
                included.push(other.to_owned());
                expand(other, find(other).1, included, text);
                text.push_str(&format!("#line {} \"{file}\"\n", number + 2));
            }
        }
    }
}
