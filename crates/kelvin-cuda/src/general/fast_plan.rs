//! Which fast kernels a network's shapes allow, and what each is compiled with.

use kelvin::network::{Network, Operation};

use super::conv_tile::Tile;
use super::dense_kernels::{DenseProduct, DenseShape};
use super::fast::{Company, Fast, FastConv, FastDense, Tiled};
use super::fast_back::{BackwardKernel, Shortcut, shortcuts};
use super::fast_shape::{Source, fast_shape, forward_kernel, terms_of};
use super::plan::{Plan, pool_of, written as written_by};
use super::precision::Precision;
use crate::gpu::device::{Device, DeviceError, Kernel, Limits};
use crate::gpu::kernels::KernelSource;

/// How the backward pass writes to the gradient of what an operation reads: whether it adds, and whether it is the last.
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
    pub fn new(device: &dyn Device, plan: &Plan, precision: Precision) -> Result<Self, DeviceError> {
        let (mut fast, sources) = Self::planned(device.limits(), plan, precision);
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
    pub(super) fn planned(limits: Limits, plan: &Plan, precision: Precision) -> (Self, Vec<KernelSource>) {
        let shortcuts = if precision == Precision::Half { shortcuts(limits, plan) } else { Vec::new() };
        let mut planning = Planning { limits, plan, precision, shortcuts, sources: Vec::new() };
        let mut fast = Self::default();
        for ((number, operation), writes) in plan.program.operations.iter().enumerate().zip(writes(plan)) {
            let conv = planning.conv(number, operation, writes, &fast.convs);
            if conv.is_some_and(|conv| conv.terms.is_some()) {
                fast.sums.extend(operation.reads());
            }
            fast.convs.push(conv);
            fast.denses.push(planning.dense(operation, writes));
        }
        let mut sources = planning.sources;
        fast.choose_finishers(plan, &mut sources);
        (fast, sources)
    }
}

/// What operations are given kernels from.
struct Planning<'a> {
    limits: Limits,
    plan: &'a Plan,
    precision: Precision,
    shortcuts: Vec<Shortcut>,
    sources: Vec<KernelSource>,
}

impl Planning<'_> {
    fn add(&mut self, (file, entry): Source, defines: Vec<(&'static str, i64)>) -> Kernel {
        self.sources.push(KernelSource { file, entry, defines });
        Kernel(self.sources.len() - 1)
    }

    /// A kernel that takes tile after tile, of a convolution with so many rows of output.
    fn tiled(
        &mut self,
        source: Source,
        mut defines: Vec<(&'static str, i64)>,
        (tile, bytes): (Tile, usize),
        output_rows: usize,
    ) -> Tiled {
        defines.push(("BULK", i64::from(self.limits.warpgroup_products)));
        let slots = self.limits.num_multiprocessors as usize * tile.blocks;
        Tiled { kernel: self.add(source, defines), tile, shared_bytes: bytes as u32, output_rows, slots }
    }

    /// The kernels of a convolution; `before` has those of the operations before it.
    fn conv(
        &mut self,
        number: usize,
        operation: &Operation,
        (adds, is_last): (bool, bool),
        before: &[Option<FastConv>],
    ) -> Option<FastConv> {
        let Operation::Conv { from, to, sizes, .. } = operation else { return None };
        if self.precision == Precision::Single {
            return None;
        }
        let plan = self.plan;
        let along = self.shortcuts.iter().find(|shortcut| shortcut.leader == number).copied();
        let leader = self.shortcuts.iter().find(|shortcut| shortcut.operation == number).copied();
        // Two readers alone, which write at once.
        let adds = adds && along.is_none();
        let (shape, mut gradients) = fast_shape(plan, operation, plan.packed_input, adds, is_last)?;
        let (source, forward) = forward_kernel(&shape, &gradients, self.limits)?;
        gradients.pooled = gradients.pool > 1 && shape.makes_pool(&forward.0, gradients.pool);
        gradients.shortcut = along.is_some();
        let back = BackwardKernel::new(&shape, &gradients, self.limits)?;
        gradients.norm_sums = gradients.norm_sums.min(back.most_norm_sums);

        let output_rows = sizes.output.height;
        let forward = self.tiled(source, shape.forward_defines(&forward.0, &gradients), forward, output_rows);
        let backward = match leader.and_then(|of| before[of.leader]) {
            Some(leader) => leader.backward,
            None => self.tiled(back.source, back.defines(&shape, &gradients), (back.tile, back.bytes), output_rows),
        };
        let company = match leader {
            Some(shortcut) => Company::Follows(shortcut.leader),
            None if back.is_strided() => Company::Strided(along.map(|shortcut| shortcut.operation)),
            None => Company::None,
        };
        let mut normed = plan.normed_by(*from);
        normed[gradients.norm_sums..].fill(None);
        Some(FastConv {
            forward,
            backward,
            statistics: gradients.output_norm,
            terms: terms_of(plan, operation, *from).filter(|_| shape.terms.is_some()),
            pooled: pool_of(plan, *to).filter(|_| gradients.pooled).map(|(result, _)| result),
            normed,
            company,
        })
    }

    /// The kernels of a dense layer.
    fn dense(&mut self, operation: &Operation, (adds, is_last): (bool, bool)) -> Option<FastDense> {
        let Operation::Dense { from, .. } = operation else { return None };
        let shape = DenseShape::new(self.plan, operation, self.precision)?;
        let mut product = |which| {
            self.sources.push(shape.source(which, adds, is_last));
            Kernel(self.sources.len() - 1)
        };
        Some(FastDense {
            shape,
            forward: product(DenseProduct::Forward),
            weights: product(DenseProduct::Weights),
            input: (*from != 0).then(|| product(DenseProduct::Input)),
        })
    }
}

/// The fast kernels of the paper's networks.
pub fn example_kernels() -> Vec<KernelSource> {
    let networks = [Network::mnist_cnn(), Network::resnet(20).expect("a network of the paper")];
    let mut sources = dense_examples();
    for (network, warpgroup_products) in networks.iter().flat_map(|network| [(network, false), (network, true)]) {
        let limits = Limits { num_multiprocessors: 132, shared_bytes: 227 << 10, warpgroup_products, memory_bytes: 0 };
        let mut plan = Plan::new(network.program());
        plan.packed_input = wants_packed_input(limits, &plan);
        for source in Fast::planned(limits, &plan, Precision::Half).1 {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
    }
    sources
}

/// The products of dense networks, with rows that begin at multiples of sixteen bytes and others, in both precisions.
fn dense_examples() -> Vec<KernelSource> {
    let limits =
        Limits { num_multiprocessors: 132, shared_bytes: 227 << 10, warpgroup_products: true, memory_bytes: 0 };
    let networks = [(784, [256, 256], 10), (30, [128, 100], 3), (13, [37, 50], 100)];
    let plans = networks.map(|(inputs, hidden, outputs)| {
        Plan::new(Network::dense(inputs, &hidden, outputs).expect("a dense network").program())
    });
    let both = [Precision::Single, Precision::Half];
    plans.iter().flat_map(|plan| both.map(|precision| Fast::planned(limits, plan, precision).1)).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(network: &Network, warpgroup_products: bool) -> (Plan, Fast) {
        let limits = Limits { num_multiprocessors: 132, shared_bytes: 227 << 10, warpgroup_products, memory_bytes: 0 };
        let mut plan = Plan::new(network.program());
        plan.packed_input = wants_packed_input(limits, &plan);
        let fast = Fast::planned(limits, &plan, Precision::Half).0;
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
