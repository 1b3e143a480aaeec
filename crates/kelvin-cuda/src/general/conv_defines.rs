//! What the kernels of convolutions are compiled with.

use kelvin::network::Convolution;

use super::conv_tile::{ConvShape, Gradients, Tile};

impl ConvShape {
    /// What both kernels are compiled with.
    fn defines(&self, tile: &Tile) -> Vec<(&'static str, i64)> {
        let Convolution { input, output, kernel, stride, before, .. } = self.sizes;
        let number = |value: usize| value as i64;
        vec![
            ("IMAGE_H", number(input.height)),
            ("IMAGE_W", number(input.width)),
            ("CHANNELS", number(input.channels)),
            ("FILTERS", number(output.channels)),
            ("KERNEL", number(kernel)),
            ("STRIDE", number(stride)),
            ("PAD_TOP", number(before[0])),
            ("PAD_LEFT", number(before[1])),
            ("OUT_H", number(output.height)),
            ("OUT_W", number(output.width)),
            ("TILE_IMAGES", number(tile.images)),
            ("TILE_ROWS", number(tile.rows)),
            ("WARPS", number(tile.warps)),
            ("BLOCKS", number(tile.blocks)),
            ("M_TOGETHER", number(tile.together)),
            ("STRIP", number(tile.strip)),
            ("PACKED", i64::from(self.packed)),
            ("INPUT_NORM", i64::from(self.input_norm)),
            ("INPUT_RELU", i64::from(self.input_relu)),
        ]
    }

    /// What the forward pass is compiled with.
    pub fn forward_defines(&self, tile: &Tile, gradients: &Gradients) -> Vec<(&'static str, i64)> {
        let mut defines = self.defines(tile);
        let steps = self.taps() * self.depth() / 16;
        defines.push(("HOLD_WEIGHTS", i64::from(steps * (self.filters() / 8).min(4) <= 18)));
        defines.push(("ADD_BIAS", i64::from(gradients.bias)));
        defines.push(("STATISTICS", i64::from(gradients.output_norm)));
        defines.push(("POOL", if gradients.pooled { gradients.pool as i64 } else { 1 }));
        defines.push(("POOL_RELU", i64::from(gradients.pooled && gradients.pool_relu)));
        let terms = self.terms.unwrap_or_default();
        let names = [("LEFT_NORM", "LEFT_RELU"), ("RIGHT_NORM", "RIGHT_RELU")];
        defines.push(("SUM_INPUT", i64::from(self.terms.is_some())));
        for ((norm, relu), (norm_name, relu_name)) in terms.into_iter().zip(names) {
            defines.extend([(norm_name, i64::from(norm)), (relu_name, i64::from(relu))]);
        }
        defines
    }

    /// What the backward pass is compiled with.
    pub fn backward_defines(&self, tile: &Tile, gradients: &Gradients) -> Vec<(&'static str, i64)> {
        let mut defines = self.defines(tile);
        defines.push(("OUTPUT_NORM", i64::from(gradients.output_norm)));
        defines.push(("POOL", gradients.pool as i64));
        defines.push(("OUTPUT_RELU", i64::from(gradients.pool_relu)));
        defines.push(("OUTPUT_BITS", i64::from(gradients.pooled && gradients.pool_relu)));
        defines.push(("SQUARE_FILTERS", self.square_filters() as i64));
        defines.push(("WEIGHT_STRIP", tile.weight_strip as i64));
        defines.push(("DATA_GRADIENT", i64::from(gradients.input)));
        defines.push(("BIAS_GRADIENT", i64::from(gradients.bias)));
        defines.push(("ADD_PREVIOUS", i64::from(gradients.adds)));
        defines.push(("MASK", i64::from(gradients.masks)));
        defines.push(("NORM_SUMS", gradients.norm_sums as i64));
        defines
    }
}
