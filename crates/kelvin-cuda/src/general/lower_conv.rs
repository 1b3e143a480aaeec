//! Convolutions and dense layers that no special kernel serves as launches, forward and backward: products gathered from the images.

use kelvin::network::Operation;

use super::arguments::{ConvProduct, ConvSizes, Downstream, Upstream};
use super::conv_kernels::{ConvProductKernel, ConvProductKind, LayerSizes};
use super::lower::Lowering;
use crate::gpu::device::Launch;

impl Lowering<'_> {
    fn layer(&self, operation: &Operation) -> LayerSizes {
        LayerSizes::new(&self.plan.program, operation).expect("a convolution or dense layer")
    }

    /// What all products of a layer are given.
    fn conv_product_arguments(&self, layer: &LayerSizes) -> ConvProduct {
        ConvProduct {
            input: self.reading(layer.from),
            kernel: self.weight(layer.kernel),
            parameter_stride: self.parameter_stride(),
            sizes: ConvSizes { num_images: self.num_images, ..layer.sizes },
            ..ConvProduct::default()
        }
    }

    fn product_launch(
        &self,
        layer: &LayerSizes,
        product: ConvProductKernel,
        kind: ConvProductKind,
        num_parts: u32,
        arguments: &ConvProduct,
    ) -> Launch {
        let (rows, columns) = layer.rows_and_columns(kind, self.num_images as usize);
        let cut = product.cut;
        let grid = [cut.num_tiles(rows, columns), self.group.num_chains, num_parts * layer.sizes.groups];
        Launch::new(product.kernel, grid, cut.num_threads(), product.shared_bytes, arguments)
    }

    /// The forward pass of a layer.
    pub(super) fn conv_product(&mut self, number: usize, operation: &Operation) {
        let layer = self.layer(operation);
        let arguments = ConvProduct {
            bias: layer.bias.map_or(0, |bias| self.parameter(bias)),
            result: self.memory.value(layer.to),
            is_output: u32::from(layer.is_output),
            ..self.conv_product_arguments(&layer)
        };
        let product = self.compiled.conv_products(number).forward;
        let launch = self.product_launch(&layer, product, ConvProductKind::Forward, 1, &arguments);
        self.launches.push(launch);
    }

    /// The backward pass of a layer: gradients of its weights, its bias and of what it read.
    pub(super) fn conv_product_backward(&mut self, number: usize, operation: &Operation) {
        let layer = self.layer(operation);
        let products = self.compiled.conv_products(number);
        let output: Upstream = self.upstream(layer.to);
        let num_splits = self.splits[self.blocks.tensor_at(layer.kernel)];
        let weights = ConvProduct {
            output,
            result: self.sums(layer.kernel),
            bias_sums: layer.bias.map_or(0, |bias| self.sums(bias)),
            num_splits: num_splits as u32,
            pixels_per_split: layer.pixels_per_split(self.num_images as usize, num_splits) as u32,
            ..self.conv_product_arguments(&layer)
        };
        let launch =
            self.product_launch(&layer, products.weights, ConvProductKind::Weights, num_splits as u32, &weights);
        self.launch_beside(launch, layer.to);
        if let Some(product) = products.input {
            let to: Downstream = self.downstream(layer.from);
            let arguments = ConvProduct { output, to, ..self.conv_product_arguments(&layer) };
            let classes = layer.sizes.stride * layer.sizes.stride;
            let launch = self.product_launch(&layer, product, ConvProductKind::Input, classes, &arguments);
            self.launches.push(launch);
        }
    }
}
