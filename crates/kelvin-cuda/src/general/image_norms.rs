//! Which layers the kernels of filter response and group norms make along with them: what cuts off or bends the result, and the
//! pool behind it.

use kelvin::network::{Activation, Operation, Program};

use super::block_size::THREADS;
use super::precision::Precision;

/// The most pixels of a pool's rectangle: the threads of a block take one each.
const MOST_PIXELS: usize = 16;
/// Bytes that a block may keep of what it reads, so that at least two of them fit on a multiprocessor.
const MOST_KEPT: usize = 64 << 10;
/// The fewest units of sixteen bytes that a block takes of a pixel: what lies together in memory is read together.
const FEWEST_UNITS: usize = 4;

/// A filter response or group norm, and what is made along with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageNorm {
    /// The norm among the program's operations.
    pub operation: usize,
    /// What its kernels make as well: a threshold or an activation, a pool that alone reads what comes of it.
    pub made: Vec<usize>,
    /// Where the threshold begins among the parameters.
    pub threshold: Option<usize>,
    /// The activation; a ReLU where a pool reads through it.
    pub activation: Option<Activation>,
    /// The value that is written; those before it are not.
    pub to: usize,
    /// Values that nobody writes.
    pub passed: Vec<usize>,
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
        Self { units, blocks: all.div_ceil(units), kept_bytes }
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
        Self { units, blocks: 1, kept_bytes: if kept <= MOST_KEPT { kept } else { 0 } }
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

fn image_norm(program: &Program, number: usize, operation: &Operation) -> Option<ImageNorm> {
    let (to, of_groups) = match *operation {
        Operation::FilterResponseNorm { to, .. } => (to, false),
        Operation::GroupNorm { to, .. } if fit_into_a_block(program.values[to].shape.channels) => (to, true),
        _ => return None,
    };
    let mut of = ImageNorm { operation: number, made: vec![], threshold: None, activation: None, to, passed: vec![] };
    let reader = |value: usize| {
        let only = only_reader(program, value).filter(|_| program.values[value].norm.is_none());
        only.map(|at| (at, &program.operations[at]))
    };
    let make = |of: &mut ImageNorm, at: usize, to: usize| {
        of.made.push(at);
        of.passed.push(of.to);
        of.to = to;
    };
    match reader(of.to).filter(|_| !program.values[of.to].relu) {
        Some((at, Operation::Threshold { to, threshold, .. })) if !of_groups => {
            of.threshold = Some(threshold.start);
            make(&mut of, at, *to);
        }
        Some((at, &Operation::Activation { to, by, .. })) if of_groups => {
            of.activation = Some(by);
            make(&mut of, at, to);
        }
        _ => {}
    }
    let relu = program.values[of.to].relu;
    if let Some((at, &Operation::Pool { to, height, width, .. })) = reader(of.to)
        && height * width <= MOST_PIXELS
        && (!relu || of.made.is_empty())
    {
        if relu {
            of.activation = Some(Activation::Relu);
        }
        make(&mut of, at, to);
    }
    Some(of)
}

/// The norms of a program that are made so.
#[derive(Clone, Debug, Default)]
pub struct ImageNorms(Vec<ImageNorm>);

impl ImageNorms {
    /// Finds what is made along with each.
    pub fn new(program: &Program) -> Self {
        let operations = program.operations.iter().enumerate();
        Self(operations.filter_map(|(number, operation)| image_norm(program, number, operation)).collect())
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &ImageNorm> {
        self.0.iter()
    }

    /// That of an operation: its number among them, and what it is.
    pub fn of(&self, operation: usize) -> Option<(usize, &ImageNorm)> {
        self.0.iter().enumerate().find(|(_, norm)| norm.operation == operation)
    }

    /// Whether an operation is made along with a norm.
    pub fn make(&self, operation: usize) -> bool {
        self.0.iter().any(|norm| norm.made.contains(&operation))
    }

    /// Whether a value is never written.
    pub fn pass(&self, value: usize) -> bool {
        self.0.iter().any(|norm| norm.passed.contains(&value))
    }

    /// The values that are never written, each with that whose gradient is taken instead.
    pub fn passed(&self) -> Vec<(usize, usize)> {
        let of = |norm: &ImageNorm| norm.passed.iter().map(|&value| (value, norm.to)).collect::<Vec<_>>();
        self.0.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use kelvin::network::{Layer, Network, Shape};

    use super::*;

    fn found(layers: Vec<Layer>) -> ImageNorms {
        let layers = layers.into_iter().chain([Layer::Dense { units: 2 }]).collect();
        ImageNorms::new(Network::new(Shape::image(8, 8, 1), layers).unwrap().program())
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
            let norm = found.iter().next().unwrap();
            (norm.threshold.is_some(), norm.activation, norm.made.len())
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
        assert_eq!(of(vec![conv(), groups, Layer::Threshold, pool.clone()]), (false, None, 0));
        let many = Layer::Conv { filters: 300, kernel: 1, stride: 1, groups: 1 };
        let of_many = found(vec![many, Layer::GroupNorm { groups: 1, epsilon: 1e-5 }]);
        assert_eq!(of_many.iter().count(), 0, "they do not fit into a block");
        let body = vec![Layer::Threshold, conv()];
        let beside = vec![conv(), norm, Layer::Residual { body, shortcut: vec![] }];
        assert_eq!(of(beside), (false, None, 0), "the sum reads it as well");
    }

    #[test]
    fn blocks_take_fewer_channels_where_all_would_not_fit() {
        let cut = |channels, cells, area| CellCut::new(Precision::Half, (channels, 8), (cells, area), 1);
        assert_eq!(cut(32, 196, 4), CellCut { units: 4, blocks: 1, kept_bytes: 64 << 10 });
        assert_eq!(cut(64, 1024, 1), CellCut { units: 4, blocks: 2, kept_bytes: 64 << 10 });
        assert_eq!(cut(64, 4096, 1), CellCut { units: 8, blocks: 1, kept_bytes: 0 });
        assert_eq!(cut(8, 9, 9), CellCut { units: 1, blocks: 1, kept_bytes: 48 << 10 });
        let of_numbers = CellCut::new(Precision::Single, (301, 1), (1, 1), 8);
        assert_eq!(of_numbers, CellCut { units: 151, blocks: 2, kept_bytes: 8 << 10 });
    }
}
