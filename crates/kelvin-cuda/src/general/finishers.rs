//! Chooses which kernel finalises each batch norm's statistics: the convolution that needs them first, where that is one of
//! the tensor cores'; else the kernel that took the sums (`norm_finish.cuh`).

use kelvin::network::Operation;

use super::fast::{Company, Fast, Finishers};
use super::plan::{Plan, written};
use crate::gpu::kernels::KernelSource;

impl Fast {
    /// Leaves norms to the convolutions that need them first, and tells their kernels so.
    pub(super) fn choose_finishers(&mut self, plan: &Plan, sources: &mut [KernelSource]) {
        let operations = &plan.program.operations;
        // Of each convolution: whether it finishes the norm of its input or first term, and of its second.
        let mut pending = vec![[false; 2]; operations.len()];
        for norm in &plan.program.norms {
            let first = (0..operations.len()).find(|&number| self.launched_reads(plan, number).contains(&norm.value));
            let reader = first.filter(|&number| self.conv(number).is_some()).and_then(|number| {
                let reads = self.launched_reads(plan, number);
                let mut places = (0..reads.len()).filter(|&at| reads[at] == norm.value);
                // Both terms of a sum may be the same value, whose norm would be finished twice.
                places.next().filter(|_| places.next().is_none()).map(|at| (number, at))
            });
            if let Some((number, at)) = reader {
                pending[number][at] = true;
            }
            let made = operations.iter().position(|operation| written(operation) == Some(norm.value));
            let maker = made.is_some_and(|number| self.conv(number).is_some());
            self.finishers.push(Finishers { reader: reader.is_some(), maker });
        }
        let norm_of = |value: usize| plan.program.values[value].norm;
        for ((operation, conv), [input, other]) in operations.iter().zip(&self.convs).zip(pending) {
            let (Operation::Conv { to, .. }, Some(conv)) = (operation, conv) else { continue };
            let forward = norm_of(*to).is_some_and(|norm| !self.reader_finishes(norm));
            let mut normed = conv.normed.iter().flatten().filter_map(|value| norm_of(*value));
            let backward = normed.any(|norm| !self.maker_finishes(norm));
            let flag = |name, is_set| (name, i64::from(is_set));
            let flags = [flag("INPUT_PENDING", input), flag("OTHER_PENDING", other), flag("FINISH", forward)];
            sources[conv.forward.kernel.0].defines.extend(flags);
            if !matches!(conv.company, Company::Follows(_)) {
                sources[conv.backward.kernel.0].defines.push(flag("FINISH", backward));
            }
        }
    }

    /// What the launches of an operation read: a convolution that works out its sum reads the terms, and nobody before
    /// it.
    fn launched_reads(&self, plan: &Plan, number: usize) -> Vec<usize> {
        match (self.conv(number).and_then(|conv| conv.terms), &plan.program.operations[number]) {
            (Some(terms), _) => terms.to_vec(),
            (None, Operation::Add { to, .. }) if self.makes_sum(*to) => vec![],
            (None, operation) => operation.reads().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use kelvin::network::Network;

    use super::*;
    use crate::general::fast_plan::wants_packed_input;
    use crate::general::precision::Precision;
    use crate::gpu::device::Limits;

    fn planned(network: &Network, warpgroup_products: bool) -> (Plan, Fast, Vec<KernelSource>) {
        let limits = Limits { num_multiprocessors: 132, shared_bytes: 227 << 10, warpgroup_products, memory_bytes: 0 };
        let mut plan = Plan::new(network.program());
        plan.packed_input = wants_packed_input(limits, &plan);
        let (fast, sources) = Fast::planned(limits, &plan, Precision::Half);
        (plan, fast, sources)
    }

    #[test]
    fn convolutions_of_a_resnet_finish_all_norms_but_what_the_pool_reads() {
        let network = Network::resnet(20).unwrap();
        for warpgroup_products in [false, true] {
            let (plan, fast, _) = planned(&network, warpgroup_products);
            let (norms, operations) = (&plan.program.norms, &plan.program.operations);
            assert_eq!(norms.len(), 21);
            assert!((0..norms.len()).all(|norm| fast.maker_finishes(norm)));
            let left: Vec<usize> = (0..norms.len()).filter(|&norm| !fast.reader_finishes(norm)).collect();
            assert_eq!(left.len(), 1);
            // Its value is a term of the sum that the pool reads.
            let reader = |value: usize| operations.iter().find(|operation| operation.reads().any(|read| read == value));
            let sum = reader(norms[left[0]].value).and_then(written).unwrap();
            assert!(matches!(reader(sum), Some(Operation::Pool { .. })));
        }
    }

    #[test]
    fn each_norm_of_a_resnet_is_finished_once() {
        let (_, fast, sources) = planned(&Network::resnet(20).unwrap(), true);
        let count = |name: &'static str| sources.iter().filter(|source| source.defines.contains(&(name, 1))).count();
        // Both terms of the sums behind the two projections.
        assert_eq!(count("OTHER_PENDING"), 2);
        let finished = fast.finishers.iter().filter(|finishers| finishers.reader).count();
        assert_eq!(count("INPUT_PENDING") + count("OTHER_PENDING"), finished);
        // The rest by the last block of a chain.
        assert_eq!(count("FINISH"), fast.finishers.len() - finished);
    }
}
