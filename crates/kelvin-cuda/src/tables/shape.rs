//! How a small dense network is spread over the blocks of a chain: shares, lanes, units, rows at a time, places in shared memory.

use kelvin::likelihood::{Likelihood, TargetKind};
use kelvin::network::{Layer, Network};

use super::arguments::MOST_TENSORS;
use crate::gpu::device::Limits;
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

/// The most hidden layers.
const MOST_HIDDEN_LAYERS: usize = 3;
/// The most parameters of several hidden layers: beyond them the general engine, which waits for launches, is as fast as chains that
/// wait for their states in global memory. Of 4801 parameters (8-64-64-1) these take 0.6 of its time, of 20,867 (30-128-128-3) 1.25.
const MOST_PARAMETERS: usize = 10_000;
/// The widest of several hidden layers and the most outputs, which threads are shared out over.
const WIDEST: usize = 256;
const MOST_OUTPUTS: usize = 16;
/// Rows that several hidden layers take at a time where layers are narrow and shares fill more than half of them, and elsewhere.
const MANY_ROWS: usize = 128;
const FEW_ROWS: usize = 32;
const NARROW: usize = 64;
/// Shares of a step of several hidden layers, if each has so many rows.
const MOST_SHARES: usize = 4;
const LEAST_ROWS_OF_SHARE: usize = 32;

/// A dense network of one to three hidden layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub inputs: usize,
    pub hidden: Vec<usize>,
    pub outputs: usize,
    pub is_categorical: bool,
}

impl Sizes {
    /// The sizes, or `None` where the network is of another kind.
    pub fn of(network: &Network, likelihood: Likelihood) -> Option<Self> {
        let (last, before) = network.layers().split_last()?;
        let &Layer::Dense { units: outputs } = last else { return None };
        let (pairs, rest) = before.as_chunks::<2>();
        let hidden: Option<Vec<usize>> = pairs
            .iter()
            .map(|pair| match *pair {
                [Layer::Dense { units }, Layer::Relu] => Some(units),
                _ => None,
            })
            .collect();
        let hidden = hidden.filter(|hidden| rest.is_empty() && (1..=MOST_HIDDEN_LAYERS).contains(&hidden.len()))?;
        let is_categorical = matches!(likelihood.kind(), TargetKind::Classes { .. });
        Some(Self { inputs: network.num_inputs(), hidden, outputs, is_categorical })
    }

    fn is_deep(&self) -> bool {
        self.hidden.len() > 1
    }

    /// Inputs, hidden units of each layer, outputs.
    fn widths(&self) -> Vec<usize> {
        [&[self.inputs][..], &self.hidden, &[self.outputs]].concat()
    }

    /// Numbers of a row: inputs, target, zeros up to an odd number of vectors (of several hidden layers: of eights), so that
    /// rows that are read together start in different banks.
    pub fn stride(&self) -> usize {
        match self.is_deep() {
            true => values_stride(self.inputs + 1),
            false => 4 * ((self.inputs + 1).div_ceil(4) | 1),
        }
    }

    pub fn num_parameters(&self) -> usize {
        self.widths().windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum()
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
    Tensor { lanes: usize, units: usize, has_registers_to_spare: bool },
    /// In shared memory, chunk by chunk.
    Wide,
    /// Several hidden layers: chunk by chunk on the tensor cores.
    Layers { chunk: usize },
}

/// Numbers of each chain that lie in global memory beside its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scratch {
    pub squares: usize,
    pub noise: usize,
    pub sums: usize,
}

/// A kernel for these sizes and batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    sizes: Sizes,
    way: Way,
    warps: usize,
    /// Parts of a step's rows whose sums are made one by one, whatever the number of blocks.
    shares: usize,
    /// Blocks of a chain; more than one are a cluster.
    pub blocks: u32,
    row_place: RowPlace,
    /// Names and places of the parts of shared memory.
    places: Vec<(&'static str, i64)>,
    pub shared_bytes: u32,
}

impl Shape {
    /// The best way to run steps of `batch_rows` rows of so many chains, or `None` where no way has the registers or the memory.
    /// The number of chains decides over how many blocks shares are dealt out, which no bit depends on.
    pub fn new(sizes: &Sizes, batch_rows: usize, is_full: bool, num_chains: usize, limits: &Limits) -> Option<Self> {
        let ways: Vec<Way> = match sizes.is_deep() {
            true => layer_ways(sizes, batch_rows),
            false => tensor_way(sizes).into_iter().chain(register_way(sizes)).chain([Way::Wide]).collect(),
        };
        ways.into_iter().find_map(|way| Self::of_way(way, sizes, batch_rows, is_full, num_chains, limits))
    }

    /// The parts of shared memory, and where rows fit.
    fn of_way(
        way: Way,
        sizes: &Sizes,
        batch_rows: usize,
        is_full: bool,
        num_chains: usize,
        limits: &Limits,
    ) -> Option<Self> {
        let rows_of_warp = 32 / TENSOR_LANES * TENSOR_ROWS;
        let warps = match way {
            Way::Tensor { has_registers_to_spare: true, .. } if batch_rows > WARPS * rows_of_warp => MANY_WARPS,
            _ => WARPS,
        };
        let shares = match way {
            Way::Layers { .. } => num_shares(batch_rows),
            _ => 1,
        };
        let blocks = num_blocks(shares, num_chains, limits);
        let own_shares = shares / blocks;
        let rows_of_sweep = match way {
            Way::Registers { lanes, rows, .. } => warps * (32 / lanes) * rows,
            Way::Tensor { .. } => warps * rows_of_warp,
            Way::Wide => CHUNK,
            Way::Layers { chunk } => chunk,
        };
        let num_parameters = sizes.num_parameters();
        let mut end = 0;
        let mut places = Vec::new();
        let mut place = |name: &'static str, bytes: usize| {
            places.push((name, end as i64));
            end += bytes.next_multiple_of(16);
        };
        place("AT_SCALARS", scalar_bytes(shares * warps));
        place("AT_FAILED", 4);
        match way {
            Way::Layers { chunk } => {
                place("AT_WEIGHTS", 4 * padded_weights(&sizes.widths()));
                place("AT_CHUNK", 4 * chunk_numbers(chunk, sizes));
            }
            Way::Wide => {
                let padded_hidden = sizes.hidden[0].next_multiple_of(4);
                let padded_parameters = padded_parameters(sizes, padded_hidden);
                place("AT_WEIGHTS", 4 * padded_parameters);
                place("AT_SUMS", 4 * padded_parameters);
                place("AT_CHUNK", 4 * CHUNK * (2 * padded_hidden + sizes.outputs + 1));
            }
            Way::Registers { lanes, units, .. } | Way::Tensor { lanes, units, .. } => {
                let padded_parameters = padded_parameters(sizes, lanes * units);
                place("AT_WEIGHTS", 4 * padded_parameters);
                place("AT_SUMS", 4 * padded_parameters * warps);
                place("AT_SQUARES", 8 * num_parameters);
                place("AT_POSITION", 4 * num_parameters);
                place("AT_MOMENTUM", 4 * num_parameters);
                place("AT_NOISE", 4 * num_parameters.next_multiple_of(64));
            }
        }
        place("AT_ROWS", 0);

        let share_rows = batch_rows.div_ceil(shares);
        let padded_rows = (own_shares - 1) * share_rows + share_rows.next_multiple_of(rows_of_sweep);
        let row_bytes = padded_rows * sizes.stride() * 4;
        let (row_place, row_bytes) = match is_full {
            true => (RowPlace::Resident, row_bytes),
            false => (RowPlace::Copied, 2 * row_bytes),
        };
        let most = limits.shared_bytes as usize;
        // Several hidden layers have rows that are read in place copied into the chunk, and read eight numbers behind the last row.
        let (row_bytes, staged) = match way {
            Way::Layers { chunk } => (row_bytes + 32, 4 * chunk * sizes.stride() + 32),
            _ => (row_bytes, 0),
        };
        let (row_place, total) =
            if end + row_bytes <= most { (row_place, end + row_bytes) } else { (RowPlace::InPlace, end + staged) };
        let shared_bytes = u32::try_from(total).ok().filter(|&total| total <= limits.shared_bytes)?;
        let blocks = blocks as u32;
        Some(Self { sizes: sizes.clone(), way, warps, shares, blocks, row_place, places, shared_bytes })
    }

    /// Threads of a block.
    pub fn num_threads(&self) -> u32 {
        32 * self.warps as u32
    }

    /// What lies in global memory.
    pub fn scratch(&self) -> Scratch {
        let num_parameters = self.sizes.num_parameters();
        let (squares, noise) = (num_parameters, num_parameters.next_multiple_of(64));
        match self.way {
            Way::Registers { .. } | Way::Tensor { .. } => Scratch::default(),
            Way::Wide => Scratch { squares, noise, sums: 0 },
            Way::Layers { .. } => Scratch { squares, noise, sums: self.shares * num_parameters },
        }
    }

    /// The kernel's source for a rule.
    pub fn source(&self, rule: KernelRule) -> KernelSource {
        let sizes = &self.sizes;
        let mut defines = vec![
            ("INPUTS", sizes.inputs as i64),
            ("OUTPUTS", sizes.outputs as i64),
            ("CATEGORICAL", i64::from(sizes.is_categorical)),
            ("WARPS", self.warps as i64),
            ("STRIDE", sizes.stride() as i64),
            ("RULE", rule as i64),
            ("ROW_PLACE", self.row_place as i64),
            ("SHARES", self.shares as i64),
            ("BLOCKS", i64::from(self.blocks)),
        ];
        let one_hidden = |gradient, lanes, units, rows| {
            [("GRADIENT", gradient), ("HIDDEN", sizes.hidden[0]), ("LANES", lanes), ("UNITS", units), ("ROWS", rows)]
        };
        match self.way {
            Way::Registers { lanes, units, rows } => defines.extend(numbers(&one_hidden(0, lanes, units, rows))),
            Way::Tensor { lanes, units, .. } => defines.extend(numbers(&one_hidden(1, lanes, units, TENSOR_ROWS))),
            Way::Wide => defines.extend(numbers(&one_hidden(2, 0, 0, 0))),
            Way::Layers { chunk } => {
                let widths = sizes.widths();
                defines.extend(numbers(&[("GRADIENT", 3), ("CHUNK", chunk), ("LAYERS", widths.len() - 1)]));
                let names = ["WIDTH_0", "WIDTH_1", "WIDTH_2", "WIDTH_3", "WIDTH_4"];
                let width = |(l, name)| (name, widths.get(l).map_or(0, |&width| width as i64));
                defines.extend(names.into_iter().enumerate().map(width));
            }
        }
        defines.extend(&self.places);
        KernelSource { file: "table_chain.cu", entry: "table_chain", defines }
    }
}

fn numbers<'a>(defines: &'a [(&'static str, usize)]) -> impl Iterator<Item = (&'static str, i64)> + 'a {
    defines.iter().map(|&(name, value)| (name, value as i64))
}

/// The kernel's structure `Scalars`: four f64 and one a part, one f32 a part and as many as tensors twice, three more, an order of
/// eleven words.
const fn scalar_bytes(parts: usize) -> usize {
    8 * (4 + parts) + 4 * (parts + 2 * MOST_TENSORS + 3 + 11)
}

/// Weights of one hidden layer as its kernels read them: `PADDED_PARAMETERS`.
fn padded_parameters(sizes: &Sizes, padded_hidden: usize) -> usize {
    (sizes.inputs + 1 + sizes.outputs) * padded_hidden + sizes.outputs.next_multiple_of(4)
}

fn lanes_of(sizes: &Sizes, units: usize) -> usize {
    sizes.hidden[0].div_ceil(units).next_power_of_two().max(4)
}

/// From one row of a layer's values to the next: the kernel's `value_stride`.
fn values_stride(width: usize) -> usize {
    8 * (width.div_ceil(8) | 1)
}

/// Weights of several hidden layers as their kernel reads them: its `PADDED_PARAMETERS`.
fn padded_weights(widths: &[usize]) -> usize {
    let (last, hidden) = widths.split_last().expect("a network has outputs");
    let eights = |width: usize| width.next_multiple_of(8);
    let layers = hidden.windows(2).map(|pair| eights(pair[0]) * (eights(pair[1]) + 4) + eights(pair[1]));
    layers.sum::<usize>() + last * eights(hidden[hidden.len() - 1]) + last.next_multiple_of(4)
}

/// Numbers of a chunk: values of each hidden layer, outputs, and sums of threads.
fn chunk_numbers(chunk: usize, sizes: &Sizes) -> usize {
    let values: usize = sizes.hidden.iter().map(|&width| values_stride(width)).sum();
    chunk * (values + sizes.outputs) + 32 * WARPS * (sizes.hidden.len() + sizes.outputs)
}

/// Shares of a step of several hidden layers.
fn num_shares(batch_rows: usize) -> usize {
    let mut shares = MOST_SHARES;
    while shares > 1 && batch_rows.div_ceil(shares) < LEAST_ROWS_OF_SHARE {
        shares /= 2;
    }
    shares
}

/// Blocks of each chain: as many as there are multiprocessors for, of which clusters of more than two leave some idle.
fn num_blocks(shares: usize, num_chains: usize, limits: &Limits) -> usize {
    if !limits.warpgroup_products {
        return 1;
    }
    let multiprocessors = limits.num_multiprocessors as usize;
    let has_room = |blocks: usize| {
        let usable = if blocks > 2 { multiprocessors - multiprocessors / 8 } else { multiprocessors };
        num_chains * blocks <= usable
    };
    let mut blocks = shares;
    while blocks > 1 && !has_room(blocks) {
        blocks /= 2;
    }
    blocks
}

/// The rows at a time that are tried one after the other; none where the general engine serves.
fn layer_ways(sizes: &Sizes, batch_rows: usize) -> Vec<Way> {
    let widest = sizes.hidden.iter().copied().max().unwrap_or(0);
    if sizes.num_parameters() > MOST_PARAMETERS || widest > WIDEST || sizes.outputs > MOST_OUTPUTS {
        return Vec::new();
    }
    let share_rows = batch_rows.div_ceil(num_shares(batch_rows));
    let many = (widest <= NARROW && 2 * share_rows > MANY_ROWS).then_some(MANY_ROWS);
    many.into_iter().chain([FEW_ROWS]).map(|chunk| Way::Layers { chunk }).collect()
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
    let units = [2, 4, 8].into_iter().find(|units| TENSOR_LANES * units >= sizes.hidden[0])?;
    let weights = units * (sizes.inputs + 2);
    // Sums of eight columns at a time, one of them the bias's, and half a register for each row and unit that is on.
    let sums = 2 * units * (sizes.inputs + 1).div_ceil(8);
    let registers = weights + sums + 2 * units + sizes.inputs.next_multiple_of(4);
    let has_registers_to_spare = registers <= FEW_TENSOR_REGISTERS;
    (sizes.outputs == 1 && registers <= TENSOR_REGISTERS).then_some(Way::Tensor {
        lanes: TENSOR_LANES,
        units,
        has_registers_to_spare,
    })
}
