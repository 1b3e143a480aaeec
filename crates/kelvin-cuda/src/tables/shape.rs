//! How a network of one hidden layer is spread over a block: lanes, units, rows at a time, places in shared memory.

use kelvin::likelihood::{Likelihood, TargetKind};
use kelvin::network::{Layer, Network};

use crate::gpu::kernels::KernelSource;

/// Warps of a block. More would hide more waiting, but each has its own sums to be added in the end.
const WARPS: usize = 8;
/// Where a batch has rows for so many and a thread needs few registers, these.
const MANY_WARPS: usize = 12;
/// Registers of a thread with [`MANY_WARPS`] warps, as below.
const FEW_TENSOR_REGISTERS: usize = 140;
/// Registers of a thread with [`WARPS`] warps, less what everything but weights, sums and rows needs.
const REGISTERS: usize = 216;
/// The same with the backward pass on the tensor cores.
const TENSOR_REGISTERS: usize = 200;
/// Ways to share out the work without them, (units of a lane, rows at a time), the best first: many units for each row
/// that is read, many rows to hide the time that sums over lanes take.
const WAYS: [(usize, usize); 8] = [(4, 4), (4, 2), (8, 2), (2, 4), (2, 2), (8, 1), (1, 4), (1, 2)];

/// Lanes that share a row on the way to the tensor cores, and rows that each has: the shape of their fragments.
const TENSOR_LANES: usize = 8;
const TENSOR_ROWS: usize = 4;
/// Rows that a wide network takes at a time: the kernel's CHUNK.
const CHUNK: usize = 32;

/// A network of one hidden layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub inputs: usize,
    pub hidden: usize,
    pub outputs: usize,
    pub is_categorical: bool,
}

impl Sizes {
    /// The sizes, or `None` where the network is of another kind.
    pub fn of(network: &Network, likelihood: Likelihood) -> Option<Self> {
        let [Layer::Dense { units: hidden }, Layer::Relu, Layer::Dense { units: outputs }] = network.layers()[..]
        else {
            return None;
        };
        let is_categorical = matches!(likelihood.kind(), TargetKind::Classes { .. });
        Some(Self { inputs: network.num_inputs(), hidden, outputs, is_categorical })
    }

    /// Numbers of a row: inputs, target, zeros up to an odd number of vectors, so that rows that are read together start
    /// in different banks.
    pub fn stride(&self) -> usize {
        4 * ((self.inputs + 1).div_ceil(4) | 1)
    }

    pub fn num_parameters(&self) -> usize {
        (self.inputs + 1) * self.hidden + (self.hidden + 1) * self.outputs
    }
}

/// What moves the chains; the numbers are those of `table_chain.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelRule {
    Sghmc = 0,
    Baoa = 1,
    Sgld = 2,
    JointAscent = 3,
    MassEstimate = 4,
    Baoab = 5,
}

impl KernelRule {
    /// Those of [`crate::samplers::OF_TABLES`], in its order.
    pub const SAMPLERS: [Self; 4] = [Self::Sghmc, Self::Baoa, Self::Sgld, Self::Baoab];
}

/// Where the rows of a step are read from; the numbers are those of `table_chain.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowPlace {
    /// All rows stay in shared memory.
    Resident = 0,
    /// Each batch is copied to shared memory while the one before it is computed.
    Copied = 1,
    /// Rows are too many for shared memory and read from global memory.
    InPlace = 2,
}

/// How the gradient is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// In registers: `units` hidden units a lane, `rows` rows at a time.
    Registers { lanes: usize, units: usize, rows: usize },
    /// The same, the backward pass on the tensor cores: eight lanes and four rows.
    Tensor { units: usize, has_registers_to_spare: bool },
    /// In shared memory, chunk by chunk.
    Wide,
}

/// A kernel for these sizes and batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    sizes: Sizes,
    way: Way,
    warps: usize,
    row_place: RowPlace,
    /// Names and places of the parts of shared memory.
    places: Vec<(&'static str, i64)>,
    pub shared_bytes: u32,
}

impl Shape {
    /// The best way to run steps of `batch_rows` rows, or `None` where no way has the registers or the memory.
    pub fn new(sizes: Sizes, batch_rows: usize, is_full: bool, most_shared_bytes: u32) -> Option<Self> {
        let ways = tensor_way(&sizes).into_iter().chain(register_way(&sizes)).chain([Way::Wide]);
        ways.filter_map(|way| Self::of_way(way, sizes, batch_rows, is_full, most_shared_bytes)).next()
    }

    /// The parts of shared memory, and where rows fit.
    fn of_way(way: Way, sizes: Sizes, batch_rows: usize, is_full: bool, most_shared_bytes: u32) -> Option<Self> {
        let rows_of_warp = 32 / TENSOR_LANES * TENSOR_ROWS;
        let warps = match way {
            Way::Tensor { has_registers_to_spare: true, .. } if batch_rows > WARPS * rows_of_warp => MANY_WARPS,
            _ => WARPS,
        };
        let (padded_hidden, num_parts, rows_of_sweep) = match way {
            Way::Registers { lanes, units, rows } => (lanes * units, warps, warps * (32 / lanes) * rows),
            Way::Tensor { units, .. } => (TENSOR_LANES * units, warps, warps * rows_of_warp),
            Way::Wide => (sizes.hidden.next_multiple_of(4), 1, CHUNK),
        };
        let padded_parameters = (sizes.inputs + 1 + sizes.outputs) * padded_hidden + sizes.outputs.next_multiple_of(4);
        let num_parameters = sizes.num_parameters();
        let mut end = 0;
        let mut places = Vec::new();
        let mut place = |name: &'static str, bytes: usize| {
            places.push((name, end as i64));
            end += bytes.next_multiple_of(16);
        };
        place("AT_SCALARS", scalar_bytes(warps));
        place("AT_FAILED", 4);
        place("AT_WEIGHTS", 4 * padded_parameters);
        place("AT_SUMS", 4 * padded_parameters * num_parts);
        match way {
            Way::Registers { .. } | Way::Tensor { .. } => {
                place("AT_SQUARES", 8 * num_parameters);
                place("AT_POSITION", 4 * num_parameters);
                place("AT_MOMENTUM", 4 * num_parameters);
                place("AT_NOISE", 4 * num_parameters.next_multiple_of(64));
            }
            Way::Wide => place("AT_CHUNK", 4 * CHUNK * (2 * padded_hidden + sizes.outputs + 1)),
        }
        place("AT_ROWS", 0);

        let padded_rows = batch_rows.next_multiple_of(rows_of_sweep);
        let row_bytes = padded_rows * sizes.stride() * 4;
        let (row_place, row_bytes) = match is_full {
            true => (RowPlace::Resident, row_bytes),
            false => (RowPlace::Copied, 2 * row_bytes),
        };
        let most = most_shared_bytes as usize;
        let (row_place, total) =
            if end + row_bytes <= most { (row_place, end + row_bytes) } else { (RowPlace::InPlace, end) };
        let shared_bytes = u32::try_from(total).ok().filter(|&total| total <= most_shared_bytes)?;
        Some(Self { sizes, way, warps, row_place, places, shared_bytes })
    }

    /// Threads of a block.
    pub fn num_threads(&self) -> u32 {
        32 * self.warps as u32
    }

    /// Numbers of each chain that lie in global memory beside its state: squares of momenta, noise.
    pub fn scratch_numbers(&self) -> (usize, usize) {
        let num_parameters = self.sizes.num_parameters();
        match self.way {
            Way::Registers { .. } | Way::Tensor { .. } => (0, 0),
            Way::Wide => (num_parameters, num_parameters.next_multiple_of(64)),
        }
    }

    /// The kernel's source for a rule.
    pub fn source(&self, rule: KernelRule) -> KernelSource {
        let sizes = &self.sizes;
        let mut defines = vec![
            ("INPUTS", sizes.inputs as i64),
            ("HIDDEN", sizes.hidden as i64),
            ("OUTPUTS", sizes.outputs as i64),
            ("CATEGORICAL", i64::from(sizes.is_categorical)),
            ("WARPS", self.warps as i64),
            ("STRIDE", sizes.stride() as i64),
            ("RULE", rule as i64),
            ("ROW_PLACE", self.row_place as i64),
        ];
        let (gradient, lanes, units, rows) = match self.way {
            Way::Registers { lanes, units, rows } => (0, lanes, units, rows),
            Way::Tensor { units, .. } => (1, TENSOR_LANES, units, TENSOR_ROWS),
            Way::Wide => (2, 0, 0, 0),
        };
        defines.extend([
            ("GRADIENT", gradient),
            ("LANES", lanes as i64),
            ("UNITS", units as i64),
            ("ROWS", rows as i64),
        ]);
        defines.extend(&self.places);
        KernelSource { file: "table_chain.cu", entry: "table_chain", defines }
    }
}

/// The kernel's structure `Scalars`: four f64 and one a warp, one f32 a warp and eleven more, an order of eleven words.
const fn scalar_bytes(warps: usize) -> usize {
    8 * (4 + warps) + 4 * (warps + 11 + 11)
}

fn lanes_of(sizes: &Sizes, units: usize) -> usize {
    sizes.hidden.div_ceil(units).next_power_of_two().max(4)
}

fn register_way(sizes: &Sizes) -> Option<Way> {
    let fits = |&(units, rows): &(usize, usize)| {
        let weights_and_sums = 2 * units * (sizes.inputs + 1 + sizes.outputs);
        let row = sizes.inputs.next_multiple_of(4) + units + sizes.outputs;
        lanes_of(sizes, units) <= 32 && weights_and_sums + rows * row + 3 * sizes.outputs <= REGISTERS
    };
    WAYS.into_iter().find(fits).map(|(units, rows)| Way::Registers { lanes: lanes_of(sizes, units), units, rows })
}

fn tensor_way(sizes: &Sizes) -> Option<Way> {
    let units = [2, 4, 8].into_iter().find(|units| TENSOR_LANES * units >= sizes.hidden)?;
    let weights = units * (sizes.inputs + 2);
    // Sums of eight columns at a time, one of them the bias's, and half a register for each row and unit that is on.
    let sums = 2 * units * (sizes.inputs + 1).div_ceil(8);
    let registers = weights + sums + 2 * units + sizes.inputs.next_multiple_of(4);
    let has_registers_to_spare = registers <= FEW_TENSOR_REGISTERS;
    (sizes.outputs == 1 && registers <= TENSOR_REGISTERS).then_some(Way::Tensor { units, has_registers_to_spare })
}
