//! The launches of the tensor cores' kernels.

use kelvin::network::Operation;

use super::arguments::{ConvBackward, ConvForward, ConvStrided, NormBackwardFinish, NormFinish, Product};
use super::fast::{Company, FastConv, FastDense};
use super::lower::{Lowering, Norms, Parts};
use crate::gpu::device::{Kernel, Launch};

/// Rows and columns that a block of `product.cu` makes, a group's threads, and how far a group goes along a sum in a stage.
const PRODUCT_TILE: usize = 64;
const PRODUCT_THREADS: usize = 128;
const PRODUCT_DEPTH: usize = 32;

/// Which of a dense layer's three products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DenseProduct {
    Forward,
    Weights,
    Input,
}

/// How `product.cu` is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProductCut {
    pub stages: usize,
    /// Groups of four warps that share a sum.
    pub groups: usize,
    /// Blocks that are to run on a multiprocessor at the same time.
    pub blocks: usize,
}

impl DenseProduct {
    /// Whether the first factor, and the second, are read transposed.
    pub(super) fn transposed(self) -> (bool, bool) {
        (self == Self::Weights, self == Self::Input)
    }

    /// The forward product's sums are long and its blocks few; the others' are short, and many blocks hide their beginnings.
    pub(super) fn cut(self) -> ProductCut {
        match self {
            Self::Forward => ProductCut { stages: 3, groups: 2, blocks: 4 },
            Self::Weights | Self::Input => ProductCut { stages: 4, groups: 1, blocks: 6 },
        }
    }

    /// Shared memory of a block, in bytes: rows of tiles as they lie in memory, each with one chunk of padding.
    fn shared_bytes(self) -> usize {
        let ProductCut { stages, groups, .. } = self.cut();
        let (a_transposed, b_transposed) = self.transposed();
        let room = |down: bool| {
            let depth = PRODUCT_DEPTH * groups;
            let (rows, numbers) = if down { (depth, PRODUCT_TILE) } else { (PRODUCT_TILE, depth) };
            rows * (numbers / 8 + 1) * 16
        };
        stages * (room(a_transposed) + room(!b_transposed))
    }
}

impl Lowering<'_> {
    fn norm_of(&self, value: usize) -> u64 {
        self.plan.program.values[value].norm.map_or(0, |norm| self.memory.norm(norm))
    }

    /// What finishes the norm of a value that was left to its reader, or to the convolution that made it.
    fn pending_of(&self, value: usize) -> (NormFinish, NormBackwardFinish) {
        self.plan.program.values[value].norm.map_or_else(Default::default, |norm| self.pending[norm])
    }

    /// A convolution's way forward; it also finishes the norm that follows unless its reader does, finishes those that
    /// were left to it, and may work out the sum that it reads.
    pub(super) fn fast_conv(&mut self, fast: &FastConv, from: usize, to: usize, kernel: usize, bias: Option<usize>) {
        let num_images = self.num_images as usize;
        let tiles_per_block = fast.forward.tiles_per_block(num_images) as u32;
        let mut finish = NormFinish::default();
        let norm = self.plan.program.values[to].norm.filter(|_| fast.statistics);
        if let Some(number) = norm.filter(|_| self.norms != Norms::Inference) {
            let tile = &fast.forward.tile;
            let pixels = tile.images * tile.rows * self.plan.program.values[to].shape.width;
            let num_parts = fast.forward.num_blocks(num_images) as u32;
            finish = self.norm_finish(number, Parts { num_parts, rows_per_part: tiles_per_block * pixels as u32 });
            self.summed_norms[number] = true;
        }
        let first = fast.terms.map_or(from, |terms| terms[0]);
        let other = fast.terms.map(|terms| terms[1]);
        let arguments = ConvForward {
            input: self.memory.value(first),
            weights: self.weight(kernel),
            bias: bias.map_or(0, |bias| self.parameter(bias)),
            norm: self.norm_of(first),
            output: self.memory.value(fast.pooled.unwrap_or(to)),
            // In the place of the output that nobody else reads.
            bits: fast.pooled.map_or(0, |_| self.memory.value(to)),
            parts: norm.map_or(0, |norm| self.memory.parts(norm)),
            tickets: self.memory.tickets.at(0),
            finish,
            parameter_stride: self.parameter_stride(),
            num_images: self.num_images,
            tiles_per_block,
            other: other.map_or(0, |other| self.memory.value(other)),
            other_norm: other.map_or(0, |other| self.norm_of(other)),
            sum: other.map_or(0, |_| self.memory.value(from)),
            pending: self.pending_of(first).0,
            other_pending: other.map_or_else(NormFinish::default, |other| self.pending_of(other).0),
        };
        self.launches.push(fast.forward.launch(self.group.num_chains, num_images, &arguments));
    }

    /// All of a convolution's way back; it may also go through the norm of what it reads, and take a shortcut along.
    pub(super) fn fast_conv_backward(
        &mut self,
        fast: &FastConv,
        from: usize,
        to: usize,
        kernel: usize,
        bias: Option<usize>,
    ) {
        if let Company::Follows(_) = fast.company {
            self.downstream(from);
            return;
        }
        let num_images = self.num_images as usize;
        let upstream = self.upstream(to);
        let input_gradient = if from == 0 { 0 } else { self.downstream(from).gradient };
        let mut finishes = [NormBackwardFinish::default(); 2];
        for (value, finish) in fast.normed.into_iter().zip(&mut finishes) {
            if let Some(number) = value.and_then(|value| self.plan.program.values[value].norm) {
                *finish = self.norm_backward_finish(number, fast.backward.num_blocks(num_images) as u32);
                self.summed_norms[number] = true;
            }
        }
        // Kernels write where `finish` reads.
        let parts = finishes.map(|finish| finish.parts);
        let normed = fast.normed.map(|value| value.map_or(0, |value| self.memory.value(value)));
        let arguments = ConvBackward {
            input: self.memory.value(from),
            weights: self.weight(kernel),
            norm: self.norm_of(from),
            output: upstream.values,
            output_gradient: upstream.gradient,
            input_gradient,
            weight_gradient: self.sums(kernel),
            bias_gradient: bias.map_or(0, |bias| self.sums(bias)),
            normed: normed[0],
            parts: parts[0],
            tickets: self.memory.tickets.at(0),
            finish: finishes[0],
            parameter_stride: self.parameter_stride(),
            num_images: self.num_images,
            tiles_per_block: fast.backward.tiles_per_block(num_images) as u32,
            other_normed: normed[1],
            other_parts: parts[1],
            other_finish: finishes[1],
            pending: self.pending_of(to).1,
        };
        let launch = match fast.company {
            Company::Strided(shortcut) => {
                let arguments = self.with_shortcut(arguments, shortcut);
                fast.backward.launch(self.group.num_chains, num_images, &arguments)
            }
            _ => fast.backward.launch(self.group.num_chains, num_images, &arguments),
        };
        self.launches.push(launch);
    }

    /// What the kernel of strided convolutions needs beside, where a shortcut goes along: its operation.
    fn with_shortcut(&mut self, conv: ConvBackward, shortcut: Option<usize>) -> ConvStrided {
        let operation = shortcut.map(|shortcut| &self.plan.program.operations[shortcut]);
        let Some(Operation::Conv { to, kernel, .. }) = operation else {
            return ConvStrided { conv, ..ConvStrided::default() };
        };
        let upstream = self.upstream(*to);
        ConvStrided {
            conv,
            weights: self.weight(kernel.start),
            output: upstream.values,
            output_gradient: upstream.gradient,
            weight_gradient: self.sums(kernel.start),
            pending: self.pending_of(*to).1,
        }
    }

    fn product(&mut self, kernel: Kernel, which: DenseProduct, arguments: &Product) {
        let tiles = |len: u32| len.div_ceil(PRODUCT_TILE as u32);
        let grid = [tiles(arguments.rows) * tiles(arguments.columns), self.group.num_chains, 1];
        let threads = (PRODUCT_THREADS * which.cut().groups) as u32;
        self.launches.push(Launch::new(kernel, grid, threads, which.shared_bytes() as u32, arguments));
    }

    /// A dense layer's way forward.
    pub(super) fn fast_dense(&mut self, fast: &FastDense, from: usize, to: usize, kernel: usize, bias: usize) {
        let (inputs, units) = (self.plan.len(from), self.plan.len(to));
        let arguments = Product {
            a: self.memory.value(from),
            b: self.weight(kernel),
            c: self.memory.value(to),
            bias: self.parameter(bias),
            mask: 0,
            a_stride: self.count(from) as u64,
            b_stride: self.parameter_stride(),
            c_stride: self.count(to) as u64,
            bias_stride: self.parameter_stride(),
            rows: self.num_images,
            columns: units as u32,
            depth: inputs as u32,
            reserved: 0,
        };
        self.product(fast.forward, DenseProduct::Forward, &arguments);
    }

    /// A dense layer's way back, but for its bias.
    pub(super) fn fast_dense_backward(&mut self, fast: &FastDense, from: usize, to: usize, kernel: usize) {
        let (inputs, units) = (self.plan.len(from), self.plan.len(to));
        let gradient = self.gradient(to);
        let weights = Product {
            a: self.memory.value(from),
            b: gradient,
            c: self.sums(kernel),
            a_stride: self.count(from) as u64,
            b_stride: self.count(to) as u64,
            c_stride: (inputs * units) as u64,
            rows: inputs as u32,
            columns: units as u32,
            depth: self.num_images,
            ..Product::default()
        };
        self.product(fast.weights, DenseProduct::Weights, &weights);
        let Some(kernel_of_input) = fast.input else { return };
        let input = Product {
            a: gradient,
            b: self.weight(kernel),
            c: self.downstream(from).gradient,
            mask: self.memory.value(from),
            a_stride: self.count(to) as u64,
            b_stride: self.parameter_stride(),
            c_stride: self.count(from) as u64,
            rows: self.num_images,
            columns: inputs as u32,
            depth: units as u32,
            ..Product::default()
        };
        self.product(kernel_of_input, DenseProduct::Input, &input);
    }
}
