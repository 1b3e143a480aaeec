//! A program with places for its gradients: which share one, and when each is free for another.
//!
//! Every value has a place of its own, since the backward pass reads it again. The gradient D of a value lives from its first
//! reader (in the backward pass) to the operation that wrote the value. Where a value without ReLU is read by a sum or copy
//! alone, whose result has no norm, its gradient is that of the result: they share a place and nothing is copied. A term with
//! other readers inherits the place: what these hand on is added to the sum's gradient where it lies, once nobody else needs it.

use kelvin::network::{Operation, Program};

use super::image_norms::ImageNorms;

/// Numbers that a pixel of a packed input is stored as.
pub const PACKED_CHANNELS: usize = 4;
/// The fewest pixels of a part of a norm's sums; kernels may take more.
pub const ROWS_PER_PART: usize = 64;

/// A program ready to be lowered.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program that is planned.
    pub program: Program,
    /// The place of each value's gradient; none for the input, which wants none.
    pub gradients: Vec<Option<usize>>,
    /// Numbers of each place for one image.
    pub places: Vec<usize>,
    /// How often each value's gradient is written in the backward pass; 0 where it is shared.
    pub writers: Vec<usize>,
    /// The sum whose gradient a value's begins with, in the same place.
    pub inherits: Vec<Option<usize>>,
    /// Whether a value's gradient is another's: nobody writes it.
    pub borrowed: Vec<bool>,
    /// Whether a pixel of the input is stored as four numbers, for a fast kernel that wants it so.
    pub packed_input: bool,
    /// Its filter response norms, with what is made along with them.
    pub image_norms: ImageNorms,
}

/// The value that an operation writes; none for a batch norm, which changes how one is read.
pub fn written(operation: &Operation) -> Option<usize> {
    match *operation {
        Operation::Conv { to, .. }
        | Operation::Dense { to, .. }
        | Operation::FilterResponseNorm { to, .. }
        | Operation::Threshold { to, .. }
        | Operation::Activation { to, .. }
        | Operation::GroupNorm { to, .. }
        | Operation::LayerNorm { to, .. }
        | Operation::Pool { to, .. }
        | Operation::MaxPool { to, .. }
        | Operation::Add { to, .. }
        | Operation::Copy { to, .. } => Some(to),
        Operation::BatchNorm { .. } => None,
    }
}

/// The pool's result and the size of its squares, where a pool alone reads a value without norm: a fast kernel then takes the
/// value's gradient from that of the result.
pub fn pool_of(plan: &Plan, value: usize) -> Option<(usize, usize)> {
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

impl Plan {
    /// Finds places for the gradients of a program.
    pub fn new(program: &Program) -> Self {
        let (shared, inherits) = shared_gradients(program);
        let mut writers = vec![0; program.values.len()];
        for operation in &program.operations {
            for read in operation.reads().filter(|&read| read != 0) {
                let is_inherited = inherits[read].is_some() && written(operation) == inherits[read];
                if !is_inherited && (shared[read] == read || inherits[read].is_some()) {
                    writers[read] += 1;
                }
            }
        }
        let mut plan = Self {
            program: program.clone(),
            gradients: Vec::new(),
            places: Vec::new(),
            writers,
            inherits,
            borrowed: vec![false; program.values.len()],
            packed_input: false,
            image_norms: ImageNorms::new(program),
        };
        plan.gradients = plan.give_places(&shared, &[]);
        plan
    }

    /// Gives each of these values (first) no gradient of its own, but that of another (second), which lives as long as it would;
    /// and keeps the gradients of some values until an operation that comes later in the backward pass.
    pub fn borrow_gradients(&mut self, borrowed: &[(usize, usize)], kept: &[(usize, usize)]) {
        let (mut shared, _) = shared_gradients(&self.program);
        for &(value, from) in borrowed {
            shared[value] = shared[from];
            self.borrowed[value] = true;
        }
        self.places.clear();
        self.gradients = self.give_places(&shared, kept);
    }

    /// The number of the output.
    pub fn output(&self) -> usize {
        self.program.values.len() - 1
    }

    /// Numbers of a value for one image.
    pub fn len(&self, value: usize) -> usize {
        self.program.values[value].shape.len()
    }

    /// Numbers that an image of a value takes in memory.
    pub fn stored_len(&self, value: usize) -> usize {
        let shape = self.program.values[value].shape;
        if value == 0 && self.packed_input { shape.num_pixels() * PACKED_CHANNELS } else { shape.len() }
    }

    /// The values whose norms D of `value`, once complete, goes through: its own, or those of terms that share its gradient.
    pub fn normed_by(&self, value: usize) -> [Option<usize>; 2] {
        let program = &self.program;
        let has_norm = |of: &usize| program.values[*of].norm.is_some();
        let is_shared = |term: &usize| self.writers[*term] == 0 && self.gradients[*term] == self.gradients[value];
        let made = program.operations.iter().find(|operation| written(operation) == Some(value));
        match made {
            _ if value == 0 => [None; 2],
            Some(Operation::Add { left, right, .. }) if !has_norm(&value) => {
                let mut terms = [*left, *right].into_iter().filter(|term| is_shared(term) && has_norm(term));
                [terms.next(), terms.next()]
            }
            _ => [Some(value).filter(has_norm), None],
        }
    }

    /// Goes through the backward pass once to see which places are free when; `kept` as in `borrow_gradients`.
    fn give_places(&mut self, shared: &[usize], kept: &[(usize, usize)]) -> Vec<Option<usize>> {
        let mut given = vec![None; shared.len()];
        let mut free = Vec::new();
        // Values that still need the gradient at each shared place.
        let mut waiting = vec![0; shared.len()];
        shared.iter().skip(1).for_each(|&value| waiting[value] += 1);
        given[self.output()] = Some(self.place(&mut free, self.output()));
        for (number, operation) in self.program.operations.clone().iter().enumerate().rev() {
            for read in operation.reads().filter(|&read| read != 0) {
                let owner = shared[read];
                if given[owner].is_none() {
                    given[owner] = Some(self.place(&mut free, owner));
                }
            }
            let own = written(operation).filter(|to| kept.iter().all(|(value, _)| value != to));
            let late = kept.iter().filter(|(_, until)| *until == number).map(|&(value, _)| value);
            for to in late.chain(own) {
                waiting[shared[to]] -= 1;
                if waiting[shared[to]] == 0 {
                    free.extend(given[shared[to]]);
                }
            }
        }
        (0..shared.len()).map(|value| if value == 0 { None } else { given[shared[value]] }).collect()
    }

    /// The smallest free place that fits, else the largest free one made larger, else a new one.
    fn place(&mut self, free: &mut Vec<usize>, value: usize) -> usize {
        let len = self.len(value);
        let fits = |place: &usize| (self.places[*place] < len, self.places[*place].abs_diff(len));
        match (0..free.len()).min_by_key(|&at| fits(&free[at])) {
            Some(at) => {
                let place = free.swap_remove(at);
                self.places[place] = self.places[place].max(len);
                place
            }
            None => {
                self.places.push(len);
                self.places.len() - 1
            }
        }
    }
}

/// For each value the one whose place its gradient has, and the sum that it inherits the place from, if any.
fn shared_gradients(program: &Program) -> (Vec<usize>, Vec<Option<usize>>) {
    let mut shared: Vec<usize> = (0..program.values.len()).collect();
    let mut inherits = vec![None; program.values.len()];
    let readers = |value: usize| -> Vec<usize> {
        let reads = |operation: &Operation| operation.reads().any(|read| read == value);
        (0..program.operations.len()).filter(|&at| reads(&program.operations[at])).collect()
    };
    let writer = |value: usize| program.operations.iter().position(|operation| written(operation) == Some(value));
    for (number, operation) in program.operations.iter().enumerate().rev() {
        let (terms, to) = match *operation {
            Operation::Add { left, right, to } if left != right => (vec![left, right], to),
            Operation::Copy { from, to } => (vec![from], to),
            _ => continue,
        };
        if program.values[to].norm.is_some() {
            continue;
        }
        for &term in terms.iter().filter(|&&term| term != 0 && !program.values[term].relu) {
            if readers(term).len() == 1 {
                shared[term] = shared[to];
            }
        }
        // Those who need the sum's gradient come first in the backward pass if they come last in the forward pass.
        let in_place: Vec<usize> = (1..shared.len()).filter(|&value| shared[value] == shared[to]).collect();
        let heir = terms.into_iter().filter(|&term| term != 0 && shared[term] == term).find(|&term| {
            let others = readers(term).into_iter().filter(|&other| other != number);
            others.clone().count() > 0 && others.max() < in_place.iter().filter_map(|&value| writer(value)).min()
        });
        if let Some(heir) = heir {
            (shared[heir], inherits[heir]) = (shared[to], Some(to));
        }
    }
    (shared, inherits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelvin::network::{Layer, Network, Shape};

    fn conv(filters: usize) -> Layer {
        Layer::Conv { filters, kernel: 3, stride: 1, groups: 1 }
    }

    #[test]
    fn the_terms_of_a_sum_share_its_gradient() {
        let body = vec![conv(4), Layer::BATCH_NORM, Layer::Relu, conv(4), Layer::BATCH_NORM];
        let layers = vec![
            conv(4),
            Layer::Relu,
            Layer::Residual { body, shortcut: vec![] },
            Layer::Relu,
            Layer::GlobalAvgPool,
            Layer::Dense { units: 2 },
        ];
        let network = Network::new(Shape::image(4, 4, 1), layers).unwrap();
        let plan = Plan::new(network.program());
        // Values: input, conv (ReLU), conv, conv (norm), sum (ReLU), pool, outputs.
        assert_eq!(plan.gradients[0], None);
        assert_eq!(plan.gradients[3], plan.gradients[4], "the body ends in a norm and no ReLU");
        assert_eq!(
            plan.gradients[1], plan.gradients[4],
            "the other term inherits it: the body is done with it by then"
        );
        assert_eq!(plan.inherits[1], Some(4));
        assert_eq!(plan.writers, [0, 1, 1, 0, 1, 1, 0]);
    }

    #[test]
    fn gradients_are_kept_until_who_needs_them_is_done() {
        let strided = |filters, kernel| Layer::Conv { filters, kernel, stride: 2, groups: 1 };
        let body = vec![strided(8, 3), Layer::Relu, conv(8), Layer::Relu, conv(8), Layer::BATCH_NORM];
        let shortcut = vec![strided(8, 1), Layer::BATCH_NORM];
        let layers = vec![
            conv(4),
            Layer::Relu,
            conv(4),
            Layer::Relu,
            Layer::Residual { body, shortcut },
            Layer::Dense { units: 2 },
        ];
        let network = Network::new(Shape::image(8, 8, 1), layers).unwrap();
        let mut plan = Plan::new(network.program());
        // Values: input, conv, conv, then the body's three, the shortcut's, the sum, outputs.
        let [own, of_body, of_shortcut] = [2, 3, 6];
        assert_eq!(plan.gradients[of_body], plan.gradients[of_shortcut], "free once the body's end is done");
        let leader = plan.program.operations.iter().position(|operation| written(operation) == Some(of_body)).unwrap();
        plan.borrow_gradients(&[], &[(of_shortcut, leader)]);
        let [own, of_body, of_shortcut] = [own, of_body, of_shortcut].map(|value| plan.gradients[value]);
        assert!(own != of_shortcut && of_body != of_shortcut && own != of_body);
        assert_eq!(plan.places.len(), 4, "those of three and of the body's middle, which are free again afterwards");
    }

    #[test]
    fn what_a_filter_response_norm_passes_has_the_gradient_of_what_it_writes() {
        let layers = vec![
            conv(4),
            Layer::FILTER_RESPONSE_NORM,
            Layer::Threshold,
            Layer::AvgPool { size: 2 },
            Layer::Dense { units: 2 },
        ];
        let mut plan = Plan::new(Network::new(Shape::image(4, 4, 1), layers).unwrap().program());
        // Values: input, conv, norm, threshold, pool, outputs.
        assert_eq!(plan.image_norms.passed(), [(2, 4), (3, 4)]);
        plan.borrow_gradients(&plan.image_norms.passed(), &[]);
        assert_eq!([plan.gradients[2], plan.gradients[3]], [plan.gradients[4]; 2]);
        assert_ne!(plan.gradients[1], plan.gradients[4], "it is read while that of the convolution is written");
        assert!((0..6).filter(|&value| plan.image_norms.pass(value)).eq([2, 3]));
    }

    #[test]
    fn places_are_used_again() {
        let mut layers: Vec<Layer> = (0..6).flat_map(|_| [conv(4), Layer::Relu]).collect();
        layers.push(Layer::Dense { units: 2 });
        let network = Network::new(Shape::image(4, 4, 1), layers).unwrap();
        let plan = Plan::new(network.program());
        assert_eq!(plan.places.len(), 2, "only two gradients are alive at a time");
        assert!(plan.program.operations.iter().all(|operation| {
            let to = written(operation).and_then(|to| plan.gradients[to]);
            operation.reads().all(|read| read == 0 || plan.gradients[read] != to)
        }));
    }
}
