//! Which layers a filter response norm's kernels make along with it: what cuts off its result, and the pool behind it.

use kelvin::network::{Operation, Program};

use super::block_size::THREADS;
use super::precision::Precision;

/// The most pixels of a pool's rectangle: the threads of a block take one each.
const MOST_PIXELS: usize = 16;
/// Bytes that a block may keep of what it reads, so that at least two of them fit on a multiprocessor.
const MOST_KEPT: usize = 64 << 10;
/// The fewest units of sixteen bytes that a block takes of a pixel: what lies together in memory is read together.
const FEWEST_UNITS: usize = 4;

/// A filter response norm, and what is made along with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The norm among the program's operations.
    pub operation: usize,
    /// What its kernels make as well: a threshold, a pool that alone reads what was cut off.
    pub made: Vec<usize>,
    /// Where the threshold begins among the parameters.
    pub threshold: Option<usize>,
    /// Whether the result is cut off at 0: a ReLU, where the pool reads it.
    pub cuts_at_zero: bool,
    /// The value that is written; those before it are not.
    pub to: usize,
    /// Values that nobody writes.
    pub passed: Vec<usize>,
}

/// How a kernel goes through a value: units of a block, and whether it has room for what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseCut {
    /// Units of channels.
    pub units: usize,
    /// Blocks that share the channels.
    pub blocks: usize,
    /// Bytes of what a block keeps; 0 where there is no room.
    pub kept_bytes: usize,
}

impl ResponseCut {
    /// For `num_cells` cells of `area` pixels of `channels` channels, `width` of them at a time, of which `together` cells are asked for
    /// at the same time.
    pub fn new(
        precision: Precision,
        (channels, width): (usize, usize),
        (num_cells, area): (usize, usize),
        together: usize,
    ) -> Self {
        let all = channels / width;
        // Of a rectangle whose size the kernel does not know four pixels at a time.
        let pixels = if matches!(area, 1 | 4) { area } else { area.next_multiple_of(4) };
        let kept = |units: usize| {
            let turns = num_cells.div_ceil(THREADS / units).next_multiple_of(together);
            THREADS * width * precision.bytes() * turns * pixels
        };
        let most = all.min(THREADS);
        let halves = (0..).map(|times| all.div_ceil(1 << times)).take_while(|&units| units >= FEWEST_UNITS.min(all));
        let mut fitting = halves.take(16).filter(|&units| units <= most && kept(units) <= MOST_KEPT);
        let (units, kept_bytes) = fitting.next().map_or((most, 0), |units| (units, kept(units)));
        Self { units, blocks: all.div_ceil(units), kept_bytes }
    }
}

/// The only operation that reads a value, if there is one.
fn only_reader(program: &Program, value: usize) -> Option<usize> {
    let mut readers =
        (0..program.operations.len()).filter(|&number| program.operations[number].reads().any(|read| read == value));
    readers.next().filter(|_| readers.next().is_none())
}

fn response(program: &Program, number: usize, operation: &Operation) -> Option<Response> {
    let Operation::FilterResponseNorm { to, .. } = *operation else { return None };
    let mut of =
        Response { operation: number, made: Vec::new(), threshold: None, cuts_at_zero: false, to, passed: Vec::new() };
    let reader = |value: usize| {
        only_reader(program, value)
            .filter(|_| program.values[value].norm.is_none())
            .map(|at| (at, &program.operations[at]))
    };
    let make = |of: &mut Response, at: usize, to: usize| {
        of.made.push(at);
        of.passed.push(of.to);
        of.to = to;
    };
    if let Some((at, Operation::Threshold { to, threshold, .. })) = reader(of.to)
        && !program.values[of.to].relu
    {
        of.threshold = Some(threshold.start);
        make(&mut of, at, *to);
    }
    let relu = program.values[of.to].relu;
    if let Some((at, &Operation::Pool { to, height, width, .. })) = reader(of.to)
        && height * width <= MOST_PIXELS
        && !(relu && of.threshold.is_some())
    {
        of.cuts_at_zero = relu;
        make(&mut of, at, to);
    }
    Some(of)
}

/// The filter response norms of a program.
#[derive(Clone, Debug, Default)]
pub struct Responses(Vec<Response>);

impl Responses {
    /// Finds what is made along with each.
    pub fn new(program: &Program) -> Self {
        let operations = program.operations.iter().enumerate();
        Self(operations.filter_map(|(number, operation)| response(program, number, operation)).collect())
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = &Response> {
        self.0.iter()
    }

    /// That of an operation: its number among them, and what it is.
    pub fn of(&self, operation: usize) -> Option<(usize, &Response)> {
        self.0.iter().enumerate().find(|(_, response)| response.operation == operation)
    }

    /// Whether an operation is made along with a filter response norm.
    pub fn make(&self, operation: usize) -> bool {
        self.0.iter().any(|response| response.made.contains(&operation))
    }

    /// Whether a value is never written.
    pub fn pass(&self, value: usize) -> bool {
        self.0.iter().any(|response| response.passed.contains(&value))
    }

    /// The values that are never written, each with that whose gradient is taken instead.
    pub fn passed(&self) -> Vec<(usize, usize)> {
        let of = |response: &Response| response.passed.iter().map(|&value| (value, response.to)).collect::<Vec<_>>();
        self.0.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use kelvin::network::{Layer, Network, Shape};

    use super::*;

    fn found(layers: Vec<Layer>) -> Responses {
        let layers = layers.into_iter().chain([Layer::Dense { units: 2 }]).collect();
        Responses::new(Network::new(Shape::image(8, 8, 1), layers).unwrap().program())
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
            let response = found.iter().next().unwrap();
            (response.threshold.is_some(), response.cuts_at_zero, response.made.len())
        };
        assert_eq!(of(vec![conv(), norm.clone(), Layer::Threshold, pool.clone()]), (true, false, 2));
        assert_eq!(of(vec![conv(), norm.clone(), Layer::Threshold, conv()]), (true, false, 1));
        assert_eq!(of(vec![conv(), norm.clone(), Layer::Relu, pool.clone()]), (false, true, 1));
        assert_eq!(of(vec![conv(), norm.clone(), Layer::Relu, conv()]), (false, false, 0));
        assert_eq!(of(vec![conv(), norm.clone(), Layer::BATCH_NORM, pool.clone()]), (false, false, 0));
        assert_eq!(of(vec![conv(), norm.clone(), Layer::Threshold, Layer::Relu, pool]), (true, false, 1));
        let body = vec![Layer::Threshold, conv()];
        let beside = vec![conv(), norm, Layer::Residual { body, shortcut: vec![] }];
        assert_eq!(of(beside), (false, false, 0), "the sum reads it as well");
    }

    #[test]
    fn blocks_take_fewer_channels_where_all_would_not_fit() {
        let cut = |channels, cells, area| ResponseCut::new(Precision::Half, (channels, 8), (cells, area), 1);
        assert_eq!(cut(32, 196, 4), ResponseCut { units: 4, blocks: 1, kept_bytes: 64 << 10 });
        assert_eq!(cut(64, 1024, 1), ResponseCut { units: 4, blocks: 2, kept_bytes: 64 << 10 });
        assert_eq!(cut(64, 4096, 1), ResponseCut { units: 8, blocks: 1, kept_bytes: 0 });
        assert_eq!(cut(8, 9, 9), ResponseCut { units: 1, blocks: 1, kept_bytes: 48 << 10 });
        let of_numbers = ResponseCut::new(Precision::Single, (301, 1), (1, 1), 8);
        assert_eq!(of_numbers, ResponseCut { units: 151, blocks: 2, kept_bytes: 8 << 10 });
    }
}
