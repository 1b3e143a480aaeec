//! Which layers are made along with others: what follows a filter response or group norm or an activation, up to a pool, where
//! nobody else reads what lies between.

use kelvin::network::{Activation, Operation, Program};

use super::block_size::THREADS;
use super::precision::Precision;

/// The most pixels of a pool's rectangle.
const MOST_PIXELS: usize = 16;
/// Bytes that a block may keep of what it reads, so that at least two of them fit on a multiprocessor.
const MOST_KEPT: usize = 64 << 10;
/// The fewest units of sixteen bytes that a block takes of a pixel: what lies together in memory is read together.
const FEWEST_UNITS: usize = 4;

/// An operation whose kernels make others along with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fusion {
    /// The first of them among the program's: a filter response or group norm, an activation or a pool of maxima.
    pub operation: usize,
    /// The others.
    pub made: Vec<usize>,
    /// Where a threshold begins among the parameters.
    pub threshold: Option<usize>,
    /// The activation; a ReLU where a pool reads a norm through it.
    pub activation: Option<Activation>,
    /// Whether a pool takes maxima.
    pub maxima: bool,
    /// The value that is written; those before it are not.
    pub to: usize,
    /// Values that nobody writes.
    pub passed: Vec<usize>,
}

impl Fusion {
    /// Height and width of the rectangles that a pool makes one number of; those of a pixel where there is no pool.
    pub fn cell(&self, program: &Program) -> [usize; 2] {
        let from = program.operations[self.operation].reads().next().map(|from| program.values[from].shape);
        let (input, output) = (from.expect("an operation that reads"), program.values[self.to].shape);
        [input.height / output.height, input.width / output.width]
    }
}

/// How a kernel goes through a value: units of a block, and whether it has room for what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellCut {
    /// Units of channels.
    pub units: usize,
    /// Blocks that share the channels.
    pub blocks: usize,
    /// Bytes of what a block keeps; 0 where there is no room.
    pub kept_bytes: usize,
    /// Cells that a thread takes, at most.
    pub turns: usize,
}

impl CellCut {
    /// For `num_cells` cells of `area` pixels of `channels` channels, `width` of them at a time, of which `together` cells are asked for
    /// at the same time.
    pub fn new(
        precision: Precision,
        (channels, width): (usize, usize),
        (num_cells, area): (usize, usize),
        together: usize,
    ) -> Self {
        let all = channels / width;
        let kept = |units: usize| kept_bytes(precision, width, units, (num_cells, area), together);
        let most = all.min(THREADS);
        let halves = (0..).map(|times| all.div_ceil(1 << times)).take_while(|&units| units >= FEWEST_UNITS.min(all));
        let mut fitting = halves.take(16).filter(|&units| units <= most && kept(units) <= MOST_KEPT);
        let (units, kept_bytes) = fitting.next().map_or((most, 0), |units| (units, kept(units)));
        Self { units, blocks: all.div_ceil(units), kept_bytes, turns: num_cells.div_ceil(THREADS / units) }
    }

    /// The same for a block that takes all channels.
    pub fn whole(
        precision: Precision,
        (channels, width): (usize, usize),
        cells: (usize, usize),
        together: usize,
    ) -> Self {
        let units = channels / width;
        let kept = kept_bytes(precision, width, units, cells, together);
        let kept_bytes = if kept <= MOST_KEPT { kept } else { 0 };
        Self { units, blocks: 1, kept_bytes, turns: cells.0.div_ceil(THREADS / units) }
    }
}

fn kept_bytes(
    precision: Precision,
    width: usize,
    units: usize,
    (num_cells, area): (usize, usize),
    together: usize,
) -> usize {
    // Of a rectangle whose size the kernel does not know four pixels at a time.
    let pixels = if matches!(area, 1 | 4) { area } else { area.next_multiple_of(4) };
    let turns = num_cells.div_ceil(THREADS / units).next_multiple_of(together);
    THREADS * width * precision.bytes() * turns * pixels
}

/// Whether a block has room for all channels in both precisions, sixteen bytes at a time or number by number.
fn fit_into_a_block(channels: usize) -> bool {
    channels <= THREADS || (channels.is_multiple_of(8) && channels <= 4 * THREADS)
}

/// The only operation that reads a value, if there is one.
fn only_reader(program: &Program, value: usize) -> Option<usize> {
    let mut readers =
        (0..program.operations.len()).filter(|&number| program.operations[number].reads().any(|read| read == value));
    readers.next().filter(|_| readers.next().is_none())
}

/// The result of a pool, the sides of its rectangles and whether it takes maxima, where rectangles are small and none overlaps another.
fn pool_of(program: &Program, operation: &Operation) -> Option<(usize, [usize; 2], bool)> {
    let (to, sides, maxima) = match *operation {
        Operation::Pool { to, height, width, .. } => (to, [height, width], false),
        Operation::MaxPool { to, window, .. } => {
            let apart = window.stride == window.kernel && window.before == [0, 0];
            (to, [if apart { window.kernel } else { 0 }; 2], true)
        }
        _ => return None,
    };
    let from = operation.reads().next()?;
    let (input, output) = (program.values[from].shape, program.values[to].shape);
    let covers = input.height == output.height * sides[0] && input.width == output.width * sides[1];
    (covers && sides[0] * sides[1] <= MOST_PIXELS).then_some((to, sides, maxima))
}

fn fusion(program: &Program, number: usize, operation: &Operation) -> Option<Fusion> {
    let (to, activation) = match *operation {
        Operation::FilterResponseNorm { to, .. } => (to, None),
        Operation::GroupNorm { to, .. } if fit_into_a_block(program.values[to].shape.channels) => (to, None),
        Operation::Activation { to, by, .. } => (to, Some(by)),
        Operation::MaxPool { .. } => (pool_of(program, operation)?.0, None),
        _ => return None,
    };
    let maxima = matches!(operation, Operation::MaxPool { .. });
    let mut of = Fusion { operation: number, made: vec![], threshold: None, activation, maxima, to, passed: vec![] };
    if maxima {
        return Some(of);
    }
    let reader = |value: usize| {
        let only = only_reader(program, value).filter(|_| program.values[value].norm.is_none());
        only.map(|at| (at, &program.operations[at]))
    };
    let make = |of: &mut Fusion, at: usize, to: usize| {
        of.made.push(at);
        of.passed.push(of.to);
        of.to = to;
    };
    match (operation, reader(of.to).filter(|_| !program.values[of.to].relu)) {
        (Operation::FilterResponseNorm { .. }, Some((at, Operation::Threshold { to, threshold, .. }))) => {
            of.threshold = Some(threshold.start);
            make(&mut of, at, *to);
        }
        (Operation::GroupNorm { .. }, Some((at, &Operation::Activation { to, by, .. }))) => {
            of.activation = Some(by);
            make(&mut of, at, to);
        }
        _ => {}
    }
    let relu = program.values[of.to].relu;
    let is_bent = of.threshold.is_some() || of.activation.is_some();
    let pool = reader(of.to).and_then(|(at, reader)| Some((at, pool_of(program, reader)?)));
    if let Some((at, (to, _, maxima))) = pool.filter(|_| !(relu && is_bent)) {
        if relu {
            of.activation = Some(Activation::Relu);
        }
        of.maxima = maxima;
        make(&mut of, at, to);
    }
    let is_norm = !matches!(operation, Operation::Activation { .. });
    (is_norm || !of.made.is_empty()).then_some(of)
}

/// The fusions of a program.
#[derive(Clone, Debug, Default)]
pub struct Fusions(Vec<Fusion>);

impl Fusions {
    /// Finds them; none begins with what is made along with another.
    pub fn new(program: &Program) -> Self {
        let mut found = Self::default();
        for (number, operation) in program.operations.iter().enumerate() {
            if !found.make(number) {
                found.0.extend(fusion(program, number, operation));
            }
        }
        found
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &Fusion> {
        self.0.iter()
    }

    /// That of an operation: its number among them, and what it is.
    pub fn of(&self, operation: usize) -> Option<(usize, &Fusion)> {
        self.0.iter().enumerate().find(|(_, fusion)| fusion.operation == operation)
    }

    /// Whether an operation is made along with another.
    fn make(&self, operation: usize) -> bool {
        self.0.iter().any(|fusion| fusion.made.contains(&operation))
    }

    /// Whether an operation is of a fusion.
    pub fn have(&self, operation: usize) -> bool {
        self.make(operation) || self.of(operation).is_some()
    }

    /// Whether a value is never written.
    pub fn pass(&self, value: usize) -> bool {
        self.0.iter().any(|fusion| fusion.passed.contains(&value))
    }

    /// The values that are never written, each with that whose gradient is taken instead.
    pub fn passed(&self) -> Vec<(usize, usize)> {
        let of = |fusion: &Fusion| fusion.passed.iter().map(|&value| (value, fusion.to)).collect::<Vec<_>>();
        self.0.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use kelvin::network::{Layer, Network, Shape};

    use super::*;

    fn found(layers: Vec<Layer>) -> Fusions {
        let layers = layers.into_iter().chain([Layer::Dense { units: 2 }]).collect();
        Fusions::new(Network::new(Shape::image(8, 8, 1), layers).unwrap().program())
    }

    fn conv() -> Layer {
        Layer::Conv { filters: 4, kernel: 3, stride: 1, groups: 1 }
    }

    #[test]
    fn thresholds_and_pools_are_made_along_unless_others_read_what_is_between() {
        let norm = Layer::FILTER_RESPONSE_NORM;
        let pool = Layer::AvgPool { size: 2 };
        let of = |layers: Vec<Layer>| {
            let found = found(layers);
            let fusion = found.iter().next().unwrap();
            (fusion.threshold.is_some(), fusion.activation, fusion.made.len())
        };
        assert_eq!(of(vec![conv(), norm.clone(), Layer::Threshold, pool.clone()]), (true, None, 2));
        assert_eq!(of(vec![conv(), norm.clone(), Layer::Threshold, conv()]), (true, None, 1));
        assert_eq!(of(vec![conv(), norm.clone(), Layer::Relu, pool.clone()]), (false, Some(Activation::Relu), 1));
        assert_eq!(of(vec![conv(), norm.clone(), Layer::Relu, conv()]), (false, None, 0));
        assert_eq!(of(vec![conv(), norm.clone(), Layer::BATCH_NORM, pool.clone()]), (false, None, 0));
        assert_eq!(of(vec![conv(), norm.clone(), Layer::Threshold, Layer::Relu, pool.clone()]), (true, None, 1));
        let groups = Layer::GroupNorm { groups: 2, epsilon: 1e-5 };
        let silu = Some(Activation::Silu);
        assert_eq!(of(vec![conv(), groups.clone(), Layer::Silu, Layer::AvgPool { size: 4 }]), (false, silu, 2));
        assert_eq!(of(vec![conv(), groups.clone(), Layer::Silu, Layer::Relu, pool.clone()]), (false, silu, 1));
        assert_eq!(of(vec![conv(), groups, Layer::Threshold, pool.clone()]), (false, None, 0));
        let many = Layer::Conv { filters: 300, kernel: 1, stride: 1, groups: 1 };
        let of_many = found(vec![many, Layer::GroupNorm { groups: 1, epsilon: 1e-5 }]);
        assert_eq!(of_many.iter().count(), 0, "they do not fit into a block");
        let body = vec![Layer::Threshold, conv()];
        let beside = vec![conv(), norm, Layer::Residual { body, shortcut: vec![] }];
        assert_eq!(of(beside), (false, None, 0), "the sum reads it as well");
    }

    #[test]
    fn pools_are_made_along_with_activations_and_maxima_apart_by_themselves() {
        let max = |size, stride| Layer::MaxPool { size, stride };
        let of = |layers: Vec<Layer>| {
            let kept = |fusion: &Fusion| (fusion.activation, fusion.maxima, fusion.made.len());
            found(layers).iter().map(kept).collect::<Vec<_>>()
        };
        let gelu = Some(Activation::Gelu);
        assert_eq!(of(vec![conv(), Layer::Gelu, max(2, None)]), [(gelu, true, 1)]);
        assert_eq!(of(vec![conv(), Layer::Gelu, Layer::AvgPool { size: 2 }]), [(gelu, false, 1)]);
        assert_eq!(of(vec![conv(), Layer::Gelu, max(3, Some(2))]), [], "rectangles overlap");
        assert_eq!(of(vec![conv(), Layer::Gelu, max(3, None)]), [], "they do not cover the image");
        assert_eq!(of(vec![conv(), Layer::Gelu, Layer::AvgPool { size: 8 }]), [], "they are large");
        assert_eq!(of(vec![conv(), Layer::Relu, max(2, None)]), [(None, true, 0)]);
        let norm = Layer::GroupNorm { groups: 2, epsilon: 1e-5 };
        assert_eq!(of(vec![conv(), norm, Layer::Gelu, max(4, None)]), [(gelu, true, 2)]);
    }

    #[test]
    fn blocks_take_fewer_channels_where_all_would_not_fit() {
        let cut = |channels, cells, area| CellCut::new(Precision::Half, (channels, 8), (cells, area), 1);
        assert_eq!(cut(32, 196, 4), CellCut { units: 4, blocks: 1, kept_bytes: 64 << 10, turns: 4 });
        assert_eq!(cut(64, 1024, 1), CellCut { units: 4, blocks: 2, kept_bytes: 64 << 10, turns: 16 });
        assert_eq!(cut(64, 4096, 1), CellCut { units: 8, blocks: 1, kept_bytes: 0, turns: 128 });
        assert_eq!(cut(8, 9, 9), CellCut { units: 1, blocks: 1, kept_bytes: 48 << 10, turns: 1 });
        let of_numbers = CellCut::new(Precision::Single, (301, 1), (1, 1), 8);
        assert_eq!(of_numbers, CellCut { units: 151, blocks: 2, kept_bytes: 8 << 10, turns: 1 });
    }
}
