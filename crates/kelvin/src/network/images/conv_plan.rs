//! The sizes of a convolution, and its kernel as products read it.

use super::winograd::{PLACES, Tiling, gather_kernel, transform_kernel};
use crate::network::kernels::{Number, PIECE, pack, panel_width};
use crate::network::program::Convolution;

/// A convolution with its padded sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConvPlan {
    pub sizes: Convolution,
    /// Numbers of a pixel of input and output, padding included.
    pub input_stride: usize,
    pub output_stride: usize,
    /// Whether anything stands before it that wants a gradient.
    pub has_input_gradient: bool,
}

/// A rectangle of pixels in scratch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Canvas {
    pub height: usize,
    pub width: usize,
}

impl ConvPlan {
    /// Whether inputs are laid out as patches: a kernel's whole window for each pixel.
    pub fn is_thin(&self) -> bool {
        // Padded values are never thin, unpadded inputs with fewer channels than a vector are.
        self.input_stride < PIECE
    }

    /// The tiles of the output, where Winograd's way applies.
    pub fn tiling(&self) -> Option<Tiling> {
        let Convolution { output, kernel, stride, .. } = self.sizes;
        // The first layer has too few channels to gain by it.
        let applies = kernel == 3 && stride == 1 && self.has_input_gradient;
        applies.then(|| Tiling::new(output.height, output.width))
    }

    /// The padded input.
    pub fn canvas(&self) -> Canvas {
        if let Some(tiling) = self.tiling() {
            return Canvas { height: tiling.canvas_height(), width: tiling.canvas_width() };
        }
        let Convolution { output, kernel, stride, .. } = self.sizes;
        Canvas { height: (output.height - 1) * stride + kernel, width: (output.width - 1) * stride + kernel }
    }

    /// The padded, spread-out gradient of the output.
    pub fn back_canvas(&self) -> Canvas {
        if self.tiling().is_some() {
            return self.canvas();
        }
        let Convolution { input, kernel, .. } = self.sizes;
        Canvas { height: input.height + kernel - 1, width: input.width + kernel - 1 }
    }

    /// Numbers of a kernel's window.
    pub fn window(&self) -> usize {
        self.sizes.kernel * self.sizes.kernel * self.input_stride
    }

    /// Numbers of the kernel as products read it, and of its gradient as they sum it.
    pub fn kernel_len(&self) -> usize {
        match self.tiling() {
            Some(_) => PLACES * self.input_stride * self.output_stride,
            None => self.window() * self.output_stride,
        }
    }

    /// Numbers of the transposed kernel.
    pub fn back_kernel_len(&self) -> usize {
        if self.has_input_gradient { self.kernel_len() } else { 0 }
    }

    /// Numbers of scratch for the input of an image.
    pub fn input_scratch(&self) -> usize {
        let canvas = self.canvas();
        if self.is_thin() {
            self.sizes.output.num_pixels() * self.window()
        } else {
            canvas.height * canvas.width * self.input_stride
        }
    }

    /// Numbers of scratch for the gradient of an image.
    pub fn gradient_scratch(&self) -> usize {
        let canvas = self.back_canvas();
        canvas.height * canvas.width * self.output_stride
    }

    /// Numbers of scratch for transformed tiles, and for their products.
    pub fn tile_scratch(&self) -> usize {
        self.tiling().map_or(0, |tiling| tiling.scratch(self.input_stride.max(self.output_stride)))
    }

    /// Numbers of a tap of the kernel.
    fn tap_len(&self) -> usize {
        self.sizes.input.channels / self.sizes.groups * self.sizes.output.channels
    }

    /// Where the first tap between a channel and a filter lies in the kernel; nowhere between those of two groups and in the padding.
    ///
    /// Groups are products with zeros: they cost what one group of all channels costs.
    fn first_tap(&self, channel: usize, filter: usize) -> Option<usize> {
        let (channels, filters, groups) = (self.sizes.input.channels, self.sizes.output.channels, self.sizes.groups);
        if channel >= channels || filter >= filters {
            None
        } else if groups == 1 {
            Some(channel * filters + filter)
        } else {
            let (own, num_filters) = (channels / groups, filters / groups);
            (channel / own == filter / num_filters).then_some(channel % own * filters + filter)
        }
    }

    /// The nine taps of a kernel between a channel and a filter.
    fn taps<T: Number>(&self, kernel: &[T], channel: usize, filter: usize) -> [T; 9] {
        let mut taps = [T::default(); 9];
        if let Some(first) = self.first_tap(channel, filter) {
            for (number, tap) in taps.iter_mut().enumerate() {
                *tap = kernel[number * self.tap_len() + first];
            }
        }
        taps
    }

    /// Lays out the kernel for [`ConvForward`].
    pub fn pack_kernel<T: Number>(&self, kernel: &[T], packed: &mut [T]) {
        if self.tiling().is_some() {
            let (rows, columns) = (self.input_stride, self.output_stride);
            return pack_places(rows, columns, packed, |channel, filter| self.taps(kernel, channel, filter));
        }
        pack(self.window(), self.output_stride, packed, |k, filter| {
            let (tap, channel) = (k / self.input_stride, k % self.input_stride);
            self.first_tap(channel, filter).map_or(T::default(), |first| kernel[tap * self.tap_len() + first])
        });
    }

    /// Lays out the kernel, turned and transposed, for [`ConvBackward`].
    pub fn pack_back_kernel<T: Number>(&self, kernel: &[T], packed: &mut [T]) {
        if !self.has_input_gradient {
            return;
        }
        if self.tiling().is_some() {
            let (rows, columns) = (self.output_stride, self.input_stride);
            return pack_places(rows, columns, packed, |filter, channel| {
                let mut taps = self.taps(kernel, channel, filter);
                taps.reverse();
                taps
            });
        }
        let num_taps = self.sizes.kernel * self.sizes.kernel;
        pack(num_taps * self.output_stride, self.input_stride, packed, |k, channel| {
            let (tap, filter) = (num_taps - 1 - k / self.output_stride, k % self.output_stride);
            self.first_tap(channel, filter).map_or(T::default(), |first| kernel[tap * self.tap_len() + first])
        });
    }

    /// Adds sums of the shape that products give to the gradient of the kernel.
    pub fn add_kernel_gradient<T: Number>(&self, sums: &[T], gradient: &mut [T]) {
        let (channels, filters) = (self.sizes.input.channels, self.sizes.output.channels);
        if self.tiling().is_some() {
            let matrix = self.input_stride * self.output_stride;
            for channel in 0..channels {
                for filter in 0..filters {
                    let Some(first) = self.first_tap(channel, filter) else { continue };
                    let mut places = [T::default(); PLACES];
                    for (number, place) in places.iter_mut().enumerate() {
                        *place = sums[number * matrix + channel * self.output_stride + filter];
                    }
                    for (number, tap) in gather_kernel(places).into_iter().enumerate() {
                        gradient[number * self.tap_len() + first] += tap;
                    }
                }
            }
            return;
        }
        let own = filters / self.sizes.groups;
        for (k, sums) in sums.chunks_exact(self.output_stride).enumerate() {
            let (tap, channel) = (k / self.input_stride, k % self.input_stride);
            if channel >= channels {
                continue;
            }
            let of_group = channel / (channels / self.sizes.groups) * own;
            let Some(first) = self.first_tap(channel, of_group) else { continue };
            let gradient = &mut gradient[tap * self.tap_len() + first..][..own];
            for (gradient, &sum) in gradient.iter_mut().zip(&sums[of_group..]) {
                *gradient += sum;
            }
        }
    }
}

/// Lays out the 16 transformed kernels, one after the other, each as products read it.
fn pack_places<T: Number>(rows: usize, columns: usize, packed: &mut [T], taps: impl Fn(usize, usize) -> [T; 9]) {
    let mut column = 0;
    while column < columns {
        let width = panel_width(column, columns);
        for row in 0..rows {
            for n in 0..width {
                let at = column * rows + row * width + n;
                for (place, value) in transform_kernel(taps(row, column + n)).into_iter().enumerate() {
                    packed[place * rows * columns + at] = value;
                }
            }
        }
        column += width;
    }
}
