//! Convolutions on the tensor cores as launches, forward and backward.

use kelvin::network::Operation;

use super::arguments::{ConvBackward, ConvForward, ConvStrided, NormBackwardFinish, NormFinish};
use super::fast::{Company, FastConv};
use super::lower::{Lowering, Norms, Parts};

impl Lowering<'_> {
    fn norm_of(&self, value: usize) -> u64 {
        self.plan.program.values[value].norm.map_or(0, |norm| self.memory.norm(norm))
    }

    /// What finishes the norm of a value that was left to its reader, or to the convolution that made it.
    fn pending_of(&self, value: usize) -> (NormFinish, NormBackwardFinish) {
        self.plan.program.values[value].norm.map_or_else(Default::default, |norm| self.pending[norm])
    }

    /// A convolution's forward pass; it also finishes the norm that follows unless its reader does, finishes those that
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

    /// A convolution's whole backward pass; it may also go through the norm of what it reads, and take a shortcut along.
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
}
