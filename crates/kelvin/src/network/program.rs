//! A network as a straight line of operations on numbered values, with every shape and parameter in its place.
//!
//! A value is written once and read by others. Batch norm and ReLU write nothing: they change how a value is *read*
//! (scale and shift each channel, then cut off at 0), so that evaluators can do them on the way into the next product.

use std::ops::Range;

use super::error::NetworkError;
use super::layers::{Activation, Layer, Shape};
use super::layout::{Layout, Role};

/// The most parameters of a network: a chain holds several vectors of this length.
pub(super) const MOST_PARAMETERS: usize = 100_000_000;
/// The most numbers of one value for one image.
const MOST_ACTIVATIONS: usize = 100_000_000;

/// What flows between operations: a shape, and how it is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// Its size for one row.
    pub shape: Shape,
    /// The batch norm that scales and shifts it, by number.
    pub norm: Option<usize>,
    /// Whether readers see max(x, 0).
    pub relu: bool,
}

/// A convolution's sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Convolution {
    /// What is read.
    pub input: Shape,
    /// What is written.
    pub output: Shape,
    /// Rows and columns of the kernel.
    pub kernel: usize,
    /// Pixels from one place of the kernel to the next.
    pub stride: usize,
    /// Groups of channels and of filters; filters read those of their own group.
    pub groups: usize,
    /// Zero rows above and columns to the left of the image.
    pub before: [usize; 2],
}

/// A batch norm's parameters and statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNorm {
    /// The value it is of.
    pub value: usize,
    /// Places of its parameters γ.
    pub scale: Range<usize>,
    /// Places of its parameters added after scaling.
    pub offset: Range<usize>,
    /// Places among the statistics.
    pub mean: Range<usize>,
    /// Places among the statistics.
    pub variance: Range<usize>,
    /// What running statistics keep at each step.
    pub momentum: f64,
    /// Added to the variance.
    pub epsilon: f64,
    /// The bias of the convolution before it: no use adding what the mean takes away.
    pub bias: Option<Range<usize>>,
}

/// One operation; `from` is read, `to` is written; ranges are places of parameters.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are those of the layer, by the same names")]
pub enum Operation {
    /// `adds_bias` is off where a batch norm follows at once.
    Conv {
        from: usize,
        to: usize,
        kernel: Range<usize>,
        bias: Range<usize>,
        sizes: Convolution,
        adds_bias: bool,
    },
    Dense {
        from: usize,
        to: usize,
        kernel: Range<usize>,
        bias: Range<usize>,
    },
    /// Takes the statistics of a value that was just written.
    BatchNorm {
        number: usize,
    },
    FilterResponseNorm {
        from: usize,
        to: usize,
        scale: Range<usize>,
        offset: Range<usize>,
        epsilon: f64,
    },
    Threshold {
        from: usize,
        to: usize,
        threshold: Range<usize>,
    },
    /// Any but a ReLU, which is done where values are read.
    Activation {
        from: usize,
        to: usize,
        by: Activation,
    },
    GroupNorm {
        from: usize,
        to: usize,
        scale: Range<usize>,
        offset: Range<usize>,
        groups: usize,
        epsilon: f64,
    },
    LayerNorm {
        from: usize,
        to: usize,
        scale: Range<usize>,
        offset: Range<usize>,
        epsilon: f64,
    },
    Pool {
        from: usize,
        to: usize,
        height: usize,
        width: usize,
    },
    /// Windows lie as the kernels of a convolution do.
    MaxPool {
        from: usize,
        to: usize,
        window: Convolution,
    },
    Add {
        left: usize,
        right: usize,
        to: usize,
    },
    Copy {
        from: usize,
        to: usize,
    },
}

impl Operation {
    /// The values it reads.
    pub fn reads(&self) -> impl Iterator<Item = usize> {
        let (first, second) = match *self {
            Self::Conv { from, .. }
            | Self::Dense { from, .. }
            | Self::FilterResponseNorm { from, .. }
            | Self::Threshold { from, .. }
            | Self::Activation { from, .. }
            | Self::GroupNorm { from, .. }
            | Self::LayerNorm { from, .. }
            | Self::Pool { from, .. }
            | Self::MaxPool { from, .. }
            | Self::Copy { from, .. } => (Some(from), None),
            Self::Add { left, right, .. } => (Some(left), Some(right)),
            Self::BatchNorm { .. } => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// The operations of a network in order. Value 0 is the input, the last value the output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// What flows.
    pub values: Vec<Value>,
    /// In the order they are done.
    pub operations: Vec<Operation>,
    /// Batch norms by number.
    pub norms: Vec<BatchNorm>,
    /// Where each tensor of the parameters lies.
    pub layout: Layout,
    /// Where each tensor of the statistics lies.
    pub statistics: Layout,
}

impl Program {
    /// Lays out the layers, or says which of them does not fit.
    pub(super) fn new(input: Shape, layers: &[Layer]) -> Result<Self, NetworkError> {
        if input.is_empty() || layers.is_empty() {
            return Err(NetworkError::Empty { inputs: input.len(), layers: layers.len() });
        }
        let mut program = Self::default();
        let start = program.value("the input", input)?;
        let end = program.push_layers(start, layers, "")?;
        if let Some(found) = layers.last().filter(|_| !ends_dense(layers)) {
            return Err(NetworkError::LastNotDense { found: found.clone() });
        }
        debug_assert_eq!(end + 1, program.values.len(), "a dense layer, or a sum of two, writes the last value");
        Ok(program)
    }

    /// The shape of the last value.
    pub fn output(&self) -> Shape {
        self.values.last().map_or(Shape::flat(0), |value| value.shape)
    }

    /// The dense layers that write the outputs, by the numbers of their operations: one, or the terms of a sum.
    pub fn output_layers(&self) -> Vec<usize> {
        let (mut found, mut wanted) = (Vec::new(), vec![self.values.len() - 1]);
        for (number, operation) in self.operations.iter().enumerate().rev() {
            match *operation {
                Operation::Dense { to, .. } if wanted.contains(&to) => found.push(number),
                Operation::Add { left, right, to } if wanted.contains(&to) => wanted.extend([left, right]),
                _ => {}
            }
        }
        found
    }

    /// Whether what a layer writes may grow by any factor while the kernels that read it shrink by as much, and the outputs stay what they are: it is cut off at 0, and
    /// only dense layers read it.
    pub fn rescales_into_next(&self, value: usize) -> bool {
        let Value { norm, relu, .. } = self.values[value];
        let is_reader = |operation: &&Operation| operation.reads().any(|from| from == value);
        relu && norm.is_none()
            && self.operations.iter().filter(is_reader).all(|reader| matches!(reader, Operation::Dense { .. }))
    }

    /// Multiply-adds of one row on its way forward: those of dense layers and of convolutions, beside which all else is little.
    pub fn multiply_adds(&self) -> u64 {
        let one = |operation: &Operation| match operation {
            Operation::Dense { kernel, .. } => kernel.len() as u64,
            Operation::Conv { to, kernel, .. } => {
                let Shape { height, width, .. } = self.values[*to].shape;
                (height * width * kernel.len()) as u64
            }
            _ => 0,
        };
        self.operations.iter().map(one).sum()
    }

    fn value(&mut self, layer: &str, shape: Shape) -> Result<usize, NetworkError> {
        let product = shape.height.checked_mul(shape.width).and_then(|pixels| pixels.checked_mul(shape.channels));
        if product.is_none_or(|len| len > MOST_ACTIVATIONS) {
            let (what, most) = ("activations of an image", MOST_ACTIVATIONS);
            return Err(NetworkError::TooLarge { layer: layer.into(), what, most });
        }
        self.values.push(Value { shape, norm: None, relu: false });
        Ok(self.values.len() - 1)
    }

    fn tensor(&mut self, layer: &str, role: Role, shape: &[usize]) -> Result<Range<usize>, NetworkError> {
        let len = shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
        let total = len.and_then(|len| len.checked_add(self.layout.len()));
        if total.is_none_or(|total| total > MOST_PARAMETERS) {
            return Err(NetworkError::TooLarge { layer: layer.into(), what: "parameters", most: MOST_PARAMETERS });
        }
        Ok(self.layout.push(layer, role, shape))
    }

    /// A value that nobody else reads and that holds what readers of `from` see.
    fn copy(&mut self, layer: &str, from: usize) -> Result<usize, NetworkError> {
        let to = self.value(layer, self.values[from].shape)?;
        self.operations.push(Operation::Copy { from, to });
        Ok(to)
    }

    /// Whether some operation already reads this value.
    fn is_read(&self, value: usize) -> bool {
        self.operations.iter().any(|operation| operation.reads().any(|read| read == value))
    }

    fn push_layers(&mut self, start: usize, layers: &[Layer], scope: &str) -> Result<usize, NetworkError> {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        let mut at = start;
        for (position, layer) in layers.iter().enumerate() {
            let kind = layer.kind();
            let count = match counts.iter_mut().find(|(name, _)| *name == kind) {
                Some((_, count)) => {
                    *count += 1;
                    *count
                }
                None => {
                    counts.push((kind, 1));
                    1
                }
            };
            let name = format!("{scope}{kind}{count}");
            let follows_one = position > 0 && layers[position - 1].activation().is_some();
            let first = position == 0 && scope.is_empty();
            if layer.activation().is_some() && (first || follows_one) {
                return Err(NetworkError::MisplacedActivation { layer: name });
            }
            at = self.push_layer(at, layer, &name, start)?;
        }
        Ok(at)
    }

    /// `shared` is the value that enters a residual layer: how it is read must not be changed by one branch.
    fn push_layer(&mut self, from: usize, layer: &Layer, name: &str, shared: usize) -> Result<usize, NetworkError> {
        let shape = self.values[from].shape;
        let sizes: &[usize] = match layer {
            Layer::Dense { units } => &[*units],
            Layer::Conv { filters, kernel, stride, groups } => &[*filters, *kernel, *stride, *groups],
            Layer::GroupNorm { groups, .. } => &[*groups],
            Layer::AvgPool { size } => &[*size],
            Layer::MaxPool { size, stride } => &[*size, stride.unwrap_or(*size)],
            _ => &[],
        };
        if sizes.contains(&0) {
            return Err(NetworkError::ZeroSize { layer: name.into() });
        }
        let of_images =
            matches!(layer, Layer::Conv { .. } | Layer::AvgPool { .. } | Layer::MaxPool { .. } | Layer::GlobalAvgPool);
        if of_images && shape.num_pixels() == 1 && self.is_flat(from) {
            return Err(NetworkError::NeedsImages { layer: name.into(), found: shape });
        }
        match layer {
            Layer::Dense { units } => {
                let kernel = self.tensor(name, Role::Kernel, &[shape.len(), *units])?;
                let bias = self.tensor(name, Role::Bias, &[*units])?;
                let to = self.value(name, Shape::flat(*units))?;
                self.operations.push(Operation::Dense { from, to, kernel, bias });
                Ok(to)
            }
            Layer::Conv { filters, kernel: size, stride, groups } => {
                check_reach(name, shape, [("kernel", *size), ("stride", *stride)])?;
                check_groups(name, *groups, [("channels", shape.channels), ("filters", *filters)])?;
                let sizes = Convolution { groups: *groups, ..Convolution::same(shape, *filters, *size, *stride) };
                let kernel = self.tensor(name, Role::Kernel, &[*size, *size, shape.channels / groups, *filters])?;
                let bias = self.tensor(name, Role::Bias, &[*filters])?;
                let to = self.value(name, sizes.output)?;
                self.operations.push(Operation::Conv { from, to, kernel, bias, sizes, adds_bias: true });
                Ok(to)
            }
            Layer::BatchNorm { momentum, epsilon } => {
                check(name, "momentum", *momentum, (0.0..1.0).contains(momentum), "at least 0 and below 1")?;
                check_epsilon(name, *epsilon)?;
                self.push_batch_norm(from, name, shared, *momentum, *epsilon)
            }
            Layer::FilterResponseNorm { epsilon } => {
                let (epsilon, [scale, offset], to) = self.scale_and_offset(from, name, *epsilon)?;
                self.operations.push(Operation::FilterResponseNorm { from, to, scale, offset, epsilon });
                Ok(to)
            }
            Layer::GroupNorm { groups, epsilon } => {
                check_groups(name, *groups, [("channels", shape.channels)])?;
                let (groups, (epsilon, [scale, offset], to)) = (*groups, self.scale_and_offset(from, name, *epsilon)?);
                self.operations.push(Operation::GroupNorm { from, to, scale, offset, groups, epsilon });
                Ok(to)
            }
            Layer::LayerNorm { epsilon } => {
                let (epsilon, [scale, offset], to) = self.scale_and_offset(from, name, *epsilon)?;
                self.operations.push(Operation::LayerNorm { from, to, scale, offset, epsilon });
                Ok(to)
            }
            Layer::Threshold => {
                let threshold = self.tensor(name, Role::Threshold, &[shape.channels])?;
                let to = self.value(name, shape)?;
                self.operations.push(Operation::Threshold { from, to, threshold });
                Ok(to)
            }
            Layer::Relu => {
                let at = if from == shared || self.is_read(from) { self.copy(name, from)? } else { from };
                self.values[at].relu = true;
                Ok(at)
            }
            Layer::Tanh => self.push_activation(from, name, Activation::Tanh),
            Layer::Gelu => self.push_activation(from, name, Activation::Gelu),
            Layer::Silu => self.push_activation(from, name, Activation::Silu),
            Layer::AvgPool { size } => {
                if !shape.height.is_multiple_of(*size) || !shape.width.is_multiple_of(*size) {
                    return Err(NetworkError::PoolDoesNotDivide { layer: name.into(), size: *size, found: shape });
                }
                self.push_pool(from, name, *size, *size)
            }
            Layer::MaxPool { size, stride } => {
                let stride = stride.unwrap_or(*size);
                check_reach(name, shape, [("size", *size), ("stride", stride)])?;
                let window = Convolution::same(shape, shape.channels, *size, stride);
                let to = self.value(name, window.output)?;
                self.operations.push(Operation::MaxPool { from, to, window });
                Ok(to)
            }
            Layer::GlobalAvgPool => self.push_pool(from, name, shape.height, shape.width),
            Layer::Residual { body, shortcut } => {
                let left = self.push_layers(from, body, &format!("{name}."))?;
                let right = self.push_layers(from, shortcut, &format!("{name}.shortcut."))?;
                let (body, shortcut) = (self.values[left].shape, self.values[right].shape);
                if body != shortcut {
                    return Err(NetworkError::ResidualShape { layer: name.into(), body, shortcut });
                }
                let to = self.value(name, body)?;
                self.operations.push(Operation::Add { left, right, to });
                Ok(to)
            }
        }
    }

    /// Whether a value is a row of numbers by kind: the input of a table, or the output of a dense layer.
    fn is_flat(&self, value: usize) -> bool {
        let writes = |operation: &Operation| match operation {
            Operation::Dense { to, .. } => *to == value,
            Operation::Activation { from, to, .. }
            | Operation::GroupNorm { from, to, .. }
            | Operation::LayerNorm { from, to, .. } => *to == value && self.is_flat(*from),
            _ => false,
        };
        value == 0 || self.operations.iter().any(writes)
    }

    fn push_activation(&mut self, from: usize, name: &str, by: Activation) -> Result<usize, NetworkError> {
        let to = self.value(name, self.values[from].shape)?;
        self.operations.push(Operation::Activation { from, to, by });
        Ok(to)
    }

    /// Parameters and result of a norm that scales and shifts each channel.
    fn scale_and_offset(
        &mut self,
        from: usize,
        name: &str,
        epsilon: f64,
    ) -> Result<(f64, [Range<usize>; 2], usize), NetworkError> {
        check_epsilon(name, epsilon)?;
        let shape = self.values[from].shape;
        let scale = self.tensor(name, Role::Scale, &[shape.channels])?;
        let offset = self.tensor(name, Role::Offset, &[shape.channels])?;
        Ok((epsilon, [scale, offset], self.value(name, shape)?))
    }

    fn push_pool(&mut self, from: usize, name: &str, height: usize, width: usize) -> Result<usize, NetworkError> {
        let shape = self.values[from].shape;
        let to = self.value(name, Shape::image(shape.height / height, shape.width / width, shape.channels))?;
        self.operations.push(Operation::Pool { from, to, height, width });
        Ok(to)
    }

    fn push_batch_norm(
        &mut self,
        from: usize,
        name: &str,
        shared: usize,
        momentum: f64,
        epsilon: f64,
    ) -> Result<usize, NetworkError> {
        let reads_plainly = self.values[from].norm.is_none() && !self.values[from].relu;
        let value = if reads_plainly && from != shared && from != 0 && !self.is_read(from) {
            from
        } else {
            self.copy(name, from)?
        };
        let channels = self.values[value].shape.channels;
        let scale = self.tensor(name, Role::Scale, &[channels])?;
        let offset = self.tensor(name, Role::Offset, &[channels])?;
        let mean = self.statistics.push(name, Role::Mean, &[channels]);
        let variance = self.statistics.push(name, Role::Variance, &[channels]);
        let bias = match self.operations.last_mut() {
            Some(Operation::Conv { to, bias, adds_bias, .. }) if *to == value => {
                *adds_bias = false;
                Some(bias.clone())
            }
            _ => None,
        };
        let number = self.norms.len();
        self.norms.push(BatchNorm { value, scale, offset, mean, variance, momentum, epsilon, bias });
        self.values[value].norm = Some(number);
        self.operations.push(Operation::BatchNorm { number });
        Ok(value)
    }
}

impl Convolution {
    /// Zero padding such that the output has ⌈size/stride⌉ pixels; of an odd padding the smaller half comes first.
    fn same(input: Shape, filters: usize, kernel: usize, stride: usize) -> Self {
        let along = |size: usize| {
            let out = size.div_ceil(stride);
            let padding = ((out - 1) * stride + kernel).saturating_sub(size);
            (out, padding / 2)
        };
        let ((height, above), (width, left)) = (along(input.height), along(input.width));
        Self { input, output: Shape::image(height, width, filters), kernel, stride, groups: 1, before: [above, left] }
    }

    /// Whether each channel has a kernel of its own and each filter reads one channel.
    pub fn is_depthwise(&self) -> bool {
        let Self { input, output, groups, .. } = *self;
        groups > 1 && input.channels == groups && output.channels == groups
    }
}

/// Whether the last numbers can take any value: those of a dense layer, or a sum of two.
fn ends_dense(layers: &[Layer]) -> bool {
    match layers.last() {
        Some(Layer::Dense { .. }) => true,
        Some(Layer::Residual { body, shortcut }) => ends_dense(body) && ends_dense(shortcut),
        _ => false,
    }
}

/// The last tap of a larger kernel would never meet a pixel.
fn check_reach(layer: &str, found: Shape, sizes: [(&'static str, usize); 2]) -> Result<(), NetworkError> {
    let most = 2 * found.height.max(found.width) + 1;
    match sizes.into_iter().find(|&(_, size)| size > most) {
        Some((what, size)) => Err(NetworkError::Reach { layer: layer.into(), what, size, found, most }),
        None => Ok(()),
    }
}

fn check_groups<const N: usize>(
    layer: &str,
    groups: usize,
    counts: [(&'static str, usize); N],
) -> Result<(), NetworkError> {
    match counts.into_iter().find(|&(_, found)| !found.is_multiple_of(groups)) {
        Some((what, found)) => Err(NetworkError::Groups { layer: layer.into(), groups, what, found }),
        None => Ok(()),
    }
}

fn check_epsilon(layer: &str, epsilon: f64) -> Result<(), NetworkError> {
    check(layer, "epsilon", epsilon, epsilon > 0.0 && epsilon.is_finite(), "a finite number > 0")
}

fn check(layer: &str, setting: &'static str, found: f64, fine: bool, range: &'static str) -> Result<(), NetworkError> {
    if fine { Ok(()) } else { Err(NetworkError::Setting { layer: layer.into(), setting, range, found }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_that_of_tensorflow() {
        let at = |size: usize, kernel: usize, stride: usize| {
            let sizes = Convolution::same(Shape::image(size, size, 1), 1, kernel, stride);
            (sizes.output.height, sizes.before[0])
        };
        assert_eq!(at(32, 3, 1), (32, 1));
        assert_eq!(at(32, 3, 2), (16, 0), "nothing before, one after");
        assert_eq!(at(15, 3, 2), (8, 1));
        assert_eq!(at(32, 1, 2), (16, 0));
        assert_eq!(at(5, 4, 1), (5, 1), "one before, two after");
    }

    #[test]
    fn batch_norm_takes_the_bias_of_the_convolution_before_it() {
        let conv = Layer::Conv { filters: 2, kernel: 3, stride: 1, groups: 1 };
        let dense = Layer::Dense { units: 1 };
        let image = Shape::image(4, 4, 1);
        let program = Program::new(image, &[conv.clone(), Layer::BATCH_NORM, Layer::Relu, dense.clone()]).unwrap();
        assert_eq!(program.values[1], Value { shape: Shape::image(4, 4, 2), norm: Some(0), relu: true });
        assert!(matches!(program.operations[0], Operation::Conv { adds_bias: false, .. }));
        let program = Program::new(image, &[conv, Layer::Relu, Layer::BATCH_NORM, dense]).unwrap();
        assert!(matches!(program.operations[0], Operation::Conv { adds_bias: true, .. }));
        assert!(matches!(program.operations[1], Operation::Copy { from: 1, to: 2 }), "two ways to read are two values");
    }

    #[test]
    fn a_branch_does_not_change_what_the_other_reads() {
        let conv = Layer::Conv { filters: 1, kernel: 3, stride: 1, groups: 1 };
        let body = vec![Layer::BATCH_NORM, Layer::Relu, conv.clone()];
        let layers = [
            conv,
            Layer::Residual { body, shortcut: vec![] },
            Layer::Relu,
            Layer::GlobalAvgPool,
            Layer::Dense { units: 1 },
        ];
        let program = Program::new(Shape::image(4, 4, 1), &layers).unwrap();
        assert_eq!(program.values[1], Value { shape: Shape::image(4, 4, 1), norm: None, relu: false });
        assert!(matches!(program.operations[1], Operation::Copy { from: 1, to: 2 }));
        assert_eq!(program.norms[0].value, 2);
    }
}
