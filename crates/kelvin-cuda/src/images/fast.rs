//! Tensor cores where shapes allow it: the fast kernels of a network's convolutions and dense layers.

use kelvin::network::{Network, Operation};

use super::conv_tile::{ConvShape, Gradients, Tile};
use super::fast_back::{WayBack, shortcuts};
use super::fast_lower::DenseProduct;
use super::finishers::Finishers;
use super::plan::{Plan, written as written_by};
use crate::device::{Device, DeviceError, Kernel, Launch, Limits};
use crate::kernels::KernelSource;

/// Chains that are to fill the device. Partial sums, and with them every last bit, depend on how a chain's work is cut, so that
/// it is cut for so many chains however many there are: those of a repetition of the paper's experiment, whose fifty then fill the
/// device five times over.
const CHAINS: usize = 10;

/// A kernel that takes tile after tile.
#[derive(Clone, Copy, Debug)]
pub struct Tiled {
    pub(super) kernel: Kernel,
    pub(super) tile: Tile,
    shared_bytes: u32,
    output_rows: usize,
    /// Multiprocessors times blocks on each.
    slots: usize,
}

impl Tiled {
    /// As many that the blocks of those chains all run at the same time: one too many would be waited for by all.
    pub(super) fn tiles_per_block(&self, num_images: usize) -> usize {
        self.tile.count(self.output_rows, num_images).div_ceil(self.slots_of_a_chain())
    }

    fn slots_of_a_chain(&self) -> usize {
        (self.slots / CHAINS).max(1)
    }

    /// Blocks of a chain.
    pub(super) fn num_blocks(&self, num_images: usize) -> usize {
        self.tile.count(self.output_rows, num_images).div_ceil(self.tiles_per_block(num_images))
    }

    /// The most blocks of a chain that has so many images or fewer: more images can have fewer blocks, of more tiles.
    fn most_blocks(&self, num_images: usize) -> usize {
        self.tile.count(self.output_rows, num_images).min(self.slots_of_a_chain())
    }

    pub(super) fn launch<A: bytemuck::NoUninit>(&self, num_chains: u32, num_images: usize, arguments: &A) -> Launch {
        let grid = [self.num_blocks(num_images) as u32, num_chains, 1];
        Launch::new(self.kernel, grid, 32 * self.tile.warps as u32, self.shared_bytes, arguments)
    }
}

/// The fast kernels of a convolution.
#[derive(Clone, Copy, Debug)]
pub struct FastConv {
    pub(super) forward: Tiled,
    pub(super) backward: Tiled,
    /// Whether the way forward leaves parts of the norm that follows.
    pub(super) statistics: bool,
    /// The terms of the input, where it is a sum that the way forward works out.
    pub(super) terms: Option<[usize; 2]>,
    /// The result of the pool that the way forward makes as well.
    pub(super) pooled: Option<usize>,
    /// The values whose norms the way back goes through as well.
    pub(super) normed: [Option<usize>; 2],
    /// Who goes the way back, and which others with it.
    pub(super) company: Company,
}

/// With whom a convolution goes the way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// Alone.
    None,
    /// By the kernel of strided convolutions, which may take a shortcut along: its operation.
    Strided(Option<usize>),
    /// Along with another operation, later on the way back.
    Follows(usize),
}

/// The fast kernels of a dense layer.
#[derive(Clone, Copy, Debug)]
pub struct FastDense {
    pub(super) forward: Kernel,
    pub(super) weights: Kernel,
    /// None for the first layer.
    pub(super) input: Option<Kernel>,
}

/// Fast kernels by operation.
#[derive(Clone, Debug, Default)]
pub struct Fast {
    pub(super) convs: Vec<Option<FastConv>>,
    denses: Vec<Option<FastDense>>,
    /// Sums that convolutions work out.
    sums: Vec<usize>,
    /// By norm.
    pub(super) finishers: Vec<Finishers>,
}

/// How the way back writes to the gradient of what an operation reads: whether it adds, and whether it is the last.
fn writes(plan: &Plan) -> Vec<(bool, bool)> {
    let mut written = vec![0; plan.program.values.len()];
    let mut found = vec![(false, false); plan.program.operations.len()];
    for (number, operation) in plan.program.operations.iter().enumerate().rev() {
        for read in operation.reads() {
            let inherits = plan.inherits[read];
            if inherits.is_some() && written_by(operation) == inherits {
                continue;
            }
            found[number] = (written[read] > 0 || inherits.is_some(), written[read] + 1 == plan.writers[read]);
            written[read] += 1;
        }
    }
    found
}

/// The pool's result and the size of its squares, where a pool alone reads a value without norm: a fast kernel then takes the
/// value's gradient from that of the result.
fn pool_of(plan: &Plan, value: usize) -> Option<(usize, usize)> {
    let program = &plan.program;
    let mut readers = program.operations.iter().filter(|operation| operation.reads().any(|read| read == value));
    match (readers.next(), readers.next()) {
        (Some(&Operation::Pool { to, height, width, .. }), None)
            if height == width
                && height.is_power_of_two()
                && height < program.values[value].shape.width
                && program.values[value].norm.is_none()
                && program.values[to].norm.is_none() =>
        {
            Some((to, height))
        }
        _ => None,
    }
}

/// The terms of what an operation reads, where it is a sum without norm that nobody reads before.
fn terms_of(plan: &Plan, operation: &Operation, value: usize) -> Option<[usize; 2]> {
    let program = &plan.program;
    let reads = |other: &&Operation| other.reads().any(|read| read == value);
    let is_first = program.operations.iter().find(reads).is_some_and(|first| std::ptr::eq(first, operation));
    program.operations.iter().find_map(|made| match *made {
        Operation::Add { left, right, to } if to == value => {
            let plain = program.values[value].norm.is_none() && left != 0 && right != 0;
            (is_first && plain).then_some([left, right])
        }
        _ => None,
    })
}

/// A convolution's shape and what its gradients need, where fast kernels can serve it.
pub(super) fn fast_shape(
    plan: &Plan,
    operation: &Operation,
    packed_input: bool,
    adds: bool,
    is_last: bool,
) -> Option<(ConvShape, Gradients)> {
    let Operation::Conv { from, to, kernel, sizes, adds_bias, .. } = operation else { return None };
    let (input, output) = (&plan.program.values[*from], &plan.program.values[*to]);
    let mut shape = ConvShape {
        sizes: *sizes,
        packed: *from == 0 && packed_input,
        input_norm: input.norm.is_some(),
        input_relu: input.relu,
        terms: None,
    };
    let reading = |term: usize| (plan.program.values[term].norm.is_some(), plan.program.values[term].relu);
    shape.terms = terms_of(plan, operation, *from).filter(|_| shape.covers_input()).map(|terms| terms.map(reading));
    let pool = pool_of(plan, *to);
    let gradients = Gradients {
        output_norm: output.norm.is_some(),
        pool: pool.map_or(1, |(_, size)| size),
        pool_relu: pool.is_some() && output.relu,
        pooled: false,
        input: *from != 0,
        bias: *adds_bias,
        adds,
        masks: is_last && input.relu,
        norm_sums: if is_last { plan.normed_by(*from).iter().flatten().count() } else { 0 },
        shortcut: false,
    };
    (shape.fits() && kernel.start.is_multiple_of(8)).then_some((shape, gradients))
}

/// A kernel's file and its entry.
pub(super) type Source = (&'static str, &'static str);

/// The kernel of the way forward, its tile and shared memory: by warpgroups, where the GPU has their products and the shape fits.
pub(super) fn way_forward(shape: &ConvShape, gradients: &Gradients, limits: Limits) -> Option<(Source, (Tile, usize))> {
    let shared = limits.shared_bytes as usize;
    let wide = shape.wide_forward_tile(gradients, shared).filter(|_| limits.warpgroup_products);
    let source = match wide {
        Some(_) => ("conv_forward_wide.cu", "conv_forward_wide"),
        None => ("conv_forward.cu", "conv_forward"),
    };
    let forward = wide.or_else(|| shape.forward_tile(shared))?;
    (!gradients.output_norm || shape.has_room_for_parts(&forward.0)).then_some((source, forward))
}

/// Whether the input's pixels are to be stored as four numbers: its only reader is a convolution that wants it so.
pub fn wants_packed_input(limits: Limits, plan: &Plan) -> bool {
    let shared = limits.shared_bytes as usize;
    let mut readers = plan.program.operations.iter().filter(|operation| operation.reads().any(|read| read == 0));
    let only = readers.next().filter(|_| readers.next().is_none());
    let shape = only.and_then(|operation| fast_shape(plan, operation, true, false, true));
    shape.is_some_and(|(shape, gradients)| {
        shape.forward_tile(shared).is_some() && shape.backward_tile(&gradients, shared).is_some()
    })
}

impl Fast {
    /// Compiles what a program's shapes allow.
    pub fn new(device: &dyn Device, plan: &Plan) -> Result<Self, DeviceError> {
        let (mut fast, sources) = Self::planned(device.limits(), plan);
        let compiled = device.compile_all(&sources)?;
        let replace = |kernel: &mut Kernel| *kernel = compiled[kernel.0];
        for conv in fast.convs.iter_mut().flatten() {
            replace(&mut conv.forward.kernel);
            replace(&mut conv.backward.kernel);
        }
        for dense in fast.denses.iter_mut().flatten() {
            replace(&mut dense.forward);
            replace(&mut dense.weights);
            dense.input.as_mut().map(replace);
        }
        Ok(fast)
    }

    /// What a program's shapes allow, with kernels that are numbers of the sources yet to be compiled.
    pub(super) fn planned(limits: Limits, plan: &Plan) -> (Self, Vec<KernelSource>) {
        let processors = limits.num_multiprocessors as usize;
        let mut sources = Vec::new();
        let mut add = |file, entry, defines| {
            sources.push(KernelSource { file, entry, defines });
            Kernel(sources.len() - 1)
        };
        let mut fast = Self::default();
        let shortcuts = shortcuts(limits, plan);
        for ((number, operation), (adds, is_last)) in plan.program.operations.iter().enumerate().zip(writes(plan)) {
            let (mut conv, mut dense) = (None, None);
            match operation {
                Operation::Conv { from, to, sizes, .. } => {
                    let along = shortcuts.iter().find(|shortcut| shortcut.leader == number);
                    let leader = shortcuts.iter().find(|shortcut| shortcut.operation == number);
                    // Two readers alone, which write at once.
                    let adds = adds && along.is_none();
                    let shape = fast_shape(plan, operation, plan.packed_input, adds, is_last);
                    let tiles = shape.and_then(|(shape, mut gradients)| {
                        let (source, forward) = way_forward(&shape, &gradients, limits)?;
                        gradients.pooled = gradients.pool > 1 && shape.makes_pool(&forward.0, gradients.pool);
                        gradients.shortcut = along.is_some();
                        let back = WayBack::new(&shape, &gradients, limits)?;
                        gradients.norm_sums = gradients.norm_sums.min(back.most_norm_sums);
                        Some((shape, gradients, (source, forward), back))
                    });
                    if let Some((shape, gradients, (source, forward), back)) = tiles {
                        let statistics = gradients.output_norm;
                        let tiled = |kernel, (tile, bytes): (Tile, usize)| Tiled {
                            kernel,
                            tile,
                            shared_bytes: bytes as u32,
                            output_rows: sizes.output.height,
                            slots: processors * tile.blocks,
                        };
                        let bulk = ("BULK", i64::from(limits.warpgroup_products));
                        let mut defines = shape.forward_defines(&forward.0, &gradients);
                        defines.push(bulk);
                        let forward = tiled(add(source.0, source.1, defines), forward);
                        let company = match leader {
                            Some(shortcut) => Company::Follows(shortcut.leader),
                            None if back.is_strided() => Company::Strided(along.map(|shortcut| shortcut.operation)),
                            None => Company::None,
                        };
                        let of_leader: Option<&FastConv> = leader.and_then(|of| fast.convs[of.leader].as_ref());
                        let backward = match of_leader {
                            Some(leader) => leader.backward,
                            None => {
                                let mut defines = back.defines(&shape, &gradients);
                                defines.push(bulk);
                                tiled(add(back.source.0, back.source.1, defines), (back.tile, back.bytes))
                            }
                        };
                        let pooled = pool_of(plan, *to).filter(|_| gradients.pooled).map(|(result, _)| result);
                        let mut normed = plan.normed_by(*from);
                        normed[gradients.norm_sums..].fill(None);
                        let terms = terms_of(plan, operation, *from).filter(|_| shape.terms.is_some());
                        fast.sums.extend(terms.map(|_| *from));
                        conv = Some(FastConv { forward, backward, statistics, terms, pooled, normed, company });
                    }
                }
                Operation::Dense { from, to, kernel, .. } => {
                    let (input, units) = (&plan.program.values[*from], plan.len(*to));
                    let aligned = [kernel.start, plan.len(*from), units].iter().all(|len| len.is_multiple_of(8));
                    // A product reads and writes gradients as they are.
                    let plain = input.norm.is_none() && plan.program.values[*to].norm.is_none();
                    if aligned && plain && *to != plan.output() && !(*from == 0 && plan.packed_input) {
                        let relu = i64::from(input.relu);
                        let masks = i64::from(is_last && input.relu);
                        let mut product = |which: DenseProduct| {
                            let (cut, (a_transposed, b_transposed)) = (which.cut(), which.transposed());
                            let only = |of, value| if which == of { value } else { 0 };
                            let defines = vec![
                                ("STAGES", cut.stages as i64),
                                ("GROUPS", cut.groups as i64),
                                ("BLOCKS", cut.blocks as i64),
                                ("A_TRANSPOSED", i64::from(a_transposed)),
                                ("B_TRANSPOSED", i64::from(b_transposed)),
                                ("RELU_A", if which == DenseProduct::Input { 0 } else { relu }),
                                ("FLOAT_C", only(DenseProduct::Weights, 1)),
                                ("ADD_BIAS", only(DenseProduct::Forward, 1)),
                                ("ADD_PREVIOUS", only(DenseProduct::Input, i64::from(adds))),
                                ("MASK", only(DenseProduct::Input, masks)),
                            ];
                            add("product.cu", "product", defines)
                        };
                        dense = Some(FastDense {
                            forward: product(DenseProduct::Forward),
                            weights: product(DenseProduct::Weights),
                            input: (*from != 0).then(|| product(DenseProduct::Input)),
                        });
                    }
                }
                _ => {}
            }
            fast.convs.push(conv);
            fast.denses.push(dense);
        }
        fast.choose_finishers(plan, &mut sources);
        (fast, sources)
    }

    /// Into how many partial sums the fast kernel of an operation cuts the gradients of its parameters.
    pub fn num_splits(&self, operation: usize, num_images: usize) -> Option<Splits> {
        self.splits(operation, |backward| backward.num_blocks(num_images))
    }

    /// The most of them for so many images or fewer.
    pub fn most_splits(&self, operation: usize, num_images: usize) -> Option<Splits> {
        self.splits(operation, |backward| backward.most_blocks(num_images))
    }

    fn splits(&self, operation: usize, of_conv: impl Fn(&Tiled) -> usize) -> Option<Splits> {
        if let Some(conv) = self.convs.get(operation).copied().flatten() {
            let blocks = of_conv(&conv.backward);
            return Some(Splits { kernel: blocks, bias: Some(blocks) });
        }
        self.denses.get(operation).copied().flatten().map(|_| Splits { kernel: 1, bias: None })
    }

    /// The values whose gradient fast kernels take from that of the pool that reads them, each with the pool's result.
    pub fn passed_pools(&self, plan: &Plan) -> Vec<(usize, usize)> {
        let made = |operation: &Operation| written_by(operation).and_then(|to| Some((to, pool_of(plan, to)?.0)));
        let operations = plan.program.operations.iter().zip(&self.convs);
        operations.filter_map(|(operation, conv)| conv.and_then(|_| made(operation))).collect()
    }

    /// The values whose gradients are needed until an operation that comes later on the way back, each with that.
    pub fn kept_gradients(&self, plan: &Plan) -> Vec<(usize, usize)> {
        let operations = plan.program.operations.iter().zip(&self.convs);
        let kept = operations.filter_map(|(operation, conv)| match conv.as_ref()?.company {
            Company::Follows(leader) => Some((written_by(operation)?, leader)),
            _ => None,
        });
        kept.collect()
    }

    /// Whether a fast kernel has made the pool with this result.
    pub fn makes_pool(&self, result: usize) -> bool {
        self.convs.iter().flatten().any(|conv| conv.pooled == Some(result))
    }

    /// Whether a fast kernel works out this sum.
    pub fn makes_sum(&self, sum: usize) -> bool {
        self.sums.contains(&sum)
    }

    /// The fast kernels of a convolution, if it has any.
    pub fn conv(&self, operation: usize) -> Option<FastConv> {
        self.convs.get(operation).copied().flatten()
    }

    /// The fast kernels of a dense layer, if it has any.
    pub fn dense(&self, operation: usize) -> Option<FastDense> {
        self.denses.get(operation).copied().flatten()
    }
}

/// The fast kernels of the paper's networks.
pub fn example_kernels() -> Vec<KernelSource> {
    let networks = [Network::mnist_cnn(), Network::resnet(20).expect("a network of the paper")];
    let mut sources = Vec::new();
    for (network, warpgroup_products) in networks.iter().flat_map(|network| [(network, false), (network, true)]) {
        let limits = Limits { num_multiprocessors: 132, shared_bytes: 227 << 10, warpgroup_products, memory_bytes: 0 };
        let mut plan = Plan::new(network.program());
        plan.packed_input = wants_packed_input(limits, &plan);
        for source in Fast::planned(limits, &plan).1 {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
    }
    sources
}

/// Partial sums of an operation's gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splits {
    /// Of its kernel.
    pub kernel: usize,
    /// Of its bias, where the same kernel makes them.
    pub bias: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(network: &Network, warpgroup_products: bool) -> (Plan, Fast) {
        let limits = Limits { num_multiprocessors: 132, shared_bytes: 227 << 10, warpgroup_products, memory_bytes: 0 };
        let mut plan = Plan::new(network.program());
        plan.packed_input = wants_packed_input(limits, &plan);
        let fast = Fast::planned(limits, &plan).0;
        (plan, fast)
    }

    #[test]
    fn who_completes_a_gradient_of_a_resnet_takes_the_sums_of_its_norms() {
        let network = Network::resnet(20).unwrap();
        for warpgroup_products in [false, true] {
            let (plan, fast) = planned(&network, warpgroup_products);
            let of_pools = plan.program.operations.iter().filter_map(|operation| match operation {
                Operation::Pool { from, .. } => plan.normed_by(*from)[0],
                _ => None,
            });
            let mut normed: Vec<usize> = fast.convs.iter().flatten().flat_map(|conv| conv.normed).flatten().collect();
            normed.extend(of_pools);
            normed.sort_unstable();
            let mut wanted: Vec<usize> = plan.program.norms.iter().map(|norm| norm.value).collect();
            wanted.sort_unstable();
            if warpgroup_products {
                // But the second norm of the sum that 64 channels begin with.
                wanted.remove(16);
            }
            assert_eq!(normed, wanted);
        }
    }

    #[test]
    fn convolutions_of_a_resnet_work_out_the_sums_that_they_are_the_first_to_read() {
        let network = Network::resnet(20).unwrap();
        for warpgroup_products in [false, true] {
            let (plan, fast) = planned(&network, warpgroup_products);
            let mut wanted: Vec<usize> = plan
                .program
                .operations
                .iter()
                .filter_map(|operation| match operation {
                    Operation::Add { to, .. } => Some(*to),
                    _ => None,
                })
                .collect();
            assert_eq!(wanted.len(), 9);
            // A pool reads the last.
            wanted.pop();
            assert_eq!(fast.sums, wanted);
        }
    }
}
