//! Conformance: every rule keeps the contract: finite, named by its seed, whatever the threads, resumable, frugal.

use std::sync::Mutex;

use kelvin::data::{Examples, Inputs, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Activation, Layer, Mode, Network, Rows, Shape};
use kelvin::potential::{Batch, Posterior, Potential};
use kelvin::prior::{IsotropicGaussian, LearnedScales, Prior, ScaleGroups};
use kelvin::random::{NoiseKey, Permutation, Purpose};
use kelvin::sampler::{
    AscentObjective, Batches, Chain, ChainState, ClipScope, Divergence, Hmc, Integrator, JointAscent, Keep, Langevin,
    LayerwiseMass, MassRule, Plan, PriorShare, Rule, Scratch, Silent, StepName, WarmUp, run_population,
};
use kelvin::temperature::{Schedule, Temperature, Tempering};

const NUM_ROWS: usize = 24;
const BATCH_SIZE: usize = 7;
const NUM_STEPS: u64 = 120;
/// For each there is a test of every check in `for_each_network`.
const NUM_PROBLEMS: usize = 10;

/// Every rule there is, as one type.
#[derive(Clone, Debug)]
enum AnyRule {
    Sampler(Langevin),
    Ascent(JointAscent),
    Exact(Hmc),
}

impl Rule<Posterior> for AnyRule {
    fn step(
        &self,
        potential: &Posterior,
        name: &StepName,
        chain: &mut Chain,
        scratch: &mut Scratch<<Posterior as Potential>::Workspace>,
    ) -> Result<(), Divergence> {
        match self {
            Self::Sampler(rule) => rule.step(potential, name, chain, scratch),
            Self::Ascent(rule) => rule.step(potential, name, chain, scratch),
            Self::Exact(rule) => rule.step(potential, name, chain, scratch),
        }
    }

    fn has_momentum_temperature(&self) -> bool {
        match self {
            Self::Sampler(rule) => Rule::<Posterior>::has_momentum_temperature(rule),
            Self::Ascent(rule) => Rule::<Posterior>::has_momentum_temperature(rule),
            Self::Exact(rule) => Rule::<Posterior>::has_momentum_temperature(rule),
        }
    }
}

impl AnyRule {
    /// Whether it finds its step size itself.
    fn adapts(&self) -> bool {
        matches!(self, Self::Sampler(Langevin { warm_up: Some(_), .. }) | Self::Exact(_))
    }

    /// Whether it can move on the problem's energy: HMC needs one that is a function of θ alone, and joint ascent a β to tell.
    fn serves(&self, problem: &Problem) -> bool {
        match self {
            Self::Exact(_) => !problem.network.has_batch_norm(),
            Self::Ascent(_) => problem.likelihood.identifies_beta(),
            Self::Sampler(_) => true,
        }
    }

    fn with_learning_rate(&self, value: f64) -> Self {
        match self {
            Self::Sampler(rule) => Self::Sampler(Langevin { learning_rate: value, ..rule.clone() }),
            Self::Ascent(rule) => {
                Self::Ascent(JointAscent { learning_rate: Schedule::Constant { value }, ..rule.clone() })
            }
            Self::Exact(rule) => Self::Exact(*rule),
        }
    }
}

fn rules() -> Vec<AnyRule> {
    let sampler = |integrator: Integrator| Langevin {
        step_scale: Schedule::CosineCycle { start: 20, period: 10, value: 1.0 },
        temperature_scale: Schedule::Ramp { start: 5, end: 15, value: 1.0 },
        clip_norm: 200.0,
        ..Langevin::new(integrator, 1e-3, 0.9)
    };
    let layerwise = MassRule::Layerwise(LayerwiseMass { num_batches: 5, ..LayerwiseMass::default() });
    let mut rules: Vec<AnyRule> =
        Integrator::ALL.iter().map(|&integrator| AnyRule::Sampler(sampler(integrator))).collect();
    rules.extend([
        AnyRule::Sampler(Langevin { mass: layerwise, ..sampler(Integrator::Sghmc) }),
        AnyRule::Sampler(Langevin { tempering: Tempering::Likelihood, ..sampler(Integrator::Baoa) }),
        // 47 steps, where a run is cut below, are in the middle of it.
        AnyRule::Sampler(Langevin {
            warm_up: Some(WarmUp { num_steps: 60, friction: None }),
            ..sampler(Integrator::Baoab)
        }),
        AnyRule::Sampler(Langevin {
            warm_up: Some(WarmUp { num_steps: 60, friction: None }),
            ..sampler(Integrator::Mclmc)
        }),
        AnyRule::Exact(Hmc { num_warm_up: 60, num_looks: 10, ..Hmc::default() }),
        AnyRule::Ascent(JointAscent {
            objective: AscentObjective { prior: PriorShare::Once, ..AscentObjective::default() },
            learning_rate: Schedule::CosineDecay { value: 1e-4, total: NUM_STEPS },
            momentum: 0.9,
            weight_decay: 1.0,
            clip_norm: 200.0,
            clip_scope: ClipScope::All,
        }),
        AnyRule::Ascent(JointAscent {
            objective: AscentObjective::default(),
            learning_rate: Schedule::CosineDecay { value: 1e-4, total: NUM_STEPS },
            momentum: 0.9,
            weight_decay: 1.0,
            clip_norm: 200.0,
            clip_scope: ClipScope::All,
        }),
    ]);
    rules
}

/// A network with rows it was not made for.
struct Problem {
    network: Network,
    examples: Examples,
    likelihood: Likelihood,
}

impl Problem {
    fn posterior(&self) -> Posterior {
        let prior: Box<dyn Prior> = match self.likelihood.are_counts() || !self.likelihood.spread_outputs().is_empty() {
            true => {
                let of = ScaleGroups { each_input: true, spread_outputs: &self.likelihood.spread_outputs() };
                Box::new(LearnedScales::new(&self.network, 1.0, of).unwrap())
            }
            false => Box::new(IsotropicGaussian::new(0.5).unwrap()),
        };
        Posterior::new(&self.network, self.likelihood, prior, &self.examples).unwrap()
    }

    /// Whether no weights are so large that U stops rising with their squares; bounded noise and far tails have such.
    fn has_steep_energy(&self) -> bool {
        matches!(self.likelihood, Likelihood::Gaussian { .. } | Likelihood::Categorical { .. })
    }

    /// Whether outputs stay moderate where all weights but the last are huge, as behind norms of each image.
    fn norms_its_outputs(&self) -> bool {
        self.network.layers().contains(&Layer::LAYER_NORM)
    }

    fn chains(&self, ids: impl IntoIterator<Item = u32>) -> Vec<Chain> {
        let posterior = self.posterior();
        let layout = posterior.layout();
        ids.into_iter()
            .map(|id| {
                let temperature = Temperature::new(0.1 + f64::from(id)).unwrap();
                Chain::new(id, temperature, posterior.initial_position(2, id), &layout)
            })
            .collect()
    }
}

/// A regression for the fused evaluator, a classification for the dense one, images with batch norm and images with the layers that need none, GELUs; then networks with a skip or tanh, under
/// likelihoods with parameters or outputs of their own and priors with learned scales.
fn problems() -> [Problem; NUM_PROBLEMS] {
    let mut inputs = vec![0.0; 3 * NUM_ROWS];
    NoiseKey { seed: 4, purpose: Purpose::Split, chain: 0, step: 0 }.fill_normal(&mut inputs);
    let targets: Vec<f32> = inputs.chunks_exact(3).map(|x| x[0] - x[1] * x[2]).collect();
    let labels: Vec<u32> = targets.iter().map(|&y| u32::from(y > -0.5) + u32::from(y > 0.5)).collect();
    let counts = targets.iter().map(|&y| (0.5 + 0.4 * y).exp().round()).collect();
    let numbers = targets.clone();
    let pairs = targets.iter().flat_map(|&y| [y, 0.3 - y * y]).collect();
    let examples = |targets: Targets| Examples { inputs: inputs.clone().into(), num_features: 3, targets };
    [
        Problem {
            network: Network::dense(3, &[5], 1).unwrap(),
            examples: examples(Targets::Real(targets)),
            likelihood: Likelihood::Gaussian { noise_variance: 0.1 },
        },
        Problem {
            network: Network::dense(3, &[6, 4], 3).unwrap(),
            examples: examples(Targets::Classes(labels.clone())),
            likelihood: Likelihood::Categorical { num_classes: 3 },
        },
        images_with_batch_norm(),
        images_without_batch_norm(),
        Problem {
            network: Network::table(3, &[5, 4], 3, Activation::Gelu, false).unwrap(),
            examples: examples(Targets::Classes(labels)),
            likelihood: Likelihood::Categorical { num_classes: 3 },
        },
        Problem {
            network: Network::table(3, &[5], 2, Activation::Relu, true).unwrap(),
            examples: examples(Targets::Real(numbers.clone())),
            likelihood: Likelihood::VaryingGaussian,
        },
        Problem {
            network: Network::table(3, &[5, 4], 1, Activation::Tanh, true).unwrap(),
            examples: examples(Targets::Real(numbers.clone())),
            likelihood: Likelihood::StudentT,
        },
        Problem {
            network: Network::table(3, &[4], 2, Activation::Relu, true).unwrap(),
            examples: examples(Targets::Real(numbers)),
            likelihood: Likelihood::VaryingStudentT,
        },
        Problem {
            network: Network::table(3, &[6], 1, Activation::Tanh, false).unwrap(),
            examples: examples(Targets::Real(counts)),
            likelihood: Likelihood::NegativeBinomial { log_mean: 0.6 },
        },
        Problem {
            network: Network::table(3, &[5], 2, Activation::Relu, true).unwrap(),
            examples: examples(Targets::Real(pairs)),
            likelihood: Likelihood::LearnedGaussian.of_targets(2).unwrap(),
        },
    ]
}

fn images_with_batch_norm() -> Problem {
    let conv = |stride| Layer::Conv { filters: 3, kernel: 3, stride, groups: 1 };
    let body = vec![conv(1), Layer::BATCH_NORM, Layer::Relu, conv(1), Layer::BATCH_NORM];
    let layers = vec![
        conv(2),
        Layer::BATCH_NORM,
        Layer::Relu,
        Layer::Residual { body, shortcut: vec![] },
        Layer::Relu,
        Layer::GlobalAvgPool,
        Layer::Dense { units: 2 },
    ];
    images(layers)
}

/// Every layer that needs no batch and no numbers above zero.
fn images_without_batch_norm() -> Problem {
    let conv = |groups, stride| Layer::Conv { filters: 4, kernel: 3, stride, groups };
    images(vec![
        conv(1, 1),
        Layer::GroupNorm { groups: 2, epsilon: 1e-5 },
        Layer::Gelu,
        Layer::MaxPool { size: 3, stride: Some(2) },
        conv(4, 1),
        Layer::LAYER_NORM,
        Layer::Silu,
        conv(2, 2),
        Layer::Tanh,
        Layer::Dense { units: 2 },
    ])
}

fn images(layers: Vec<Layer>) -> Problem {
    let pixels: Vec<u8> = (0..NUM_ROWS * 36).map(|i| (i * i * 31 % 251) as u8).collect();
    let labels = pixels.chunks_exact(36).map(|image| u32::from(image[14] > image[21])).collect();
    Problem {
        network: Network::new(Shape::image(6, 6, 1), layers).unwrap(),
        examples: Examples {
            inputs: Inputs::Bytes(pixels.into()),
            num_features: 36,
            targets: Targets::Classes(labels),
        },
        likelihood: Likelihood::Categorical { num_classes: 2 },
    }
}

fn for_rules(problem: usize, check: impl Fn(&Problem, &AnyRule)) {
    let problem = &problems()[problem];
    for rule in rules().iter().filter(|rule| rule.serves(problem)) {
        check(problem, rule);
    }
}

/// A test of a check for each of the problems, in their order.
macro_rules! for_each_network {
    ($($check:ident)*) => {$(
        mod $check {
            use super::{for_rules, $check};

            #[test]
            fn regression() {
                for_rules(0, $check);
            }

            #[test]
            fn classes() {
                for_rules(1, $check);
            }

            #[test]
            fn images_with_batch_norm() {
                for_rules(2, $check);
            }

            #[test]
            fn images_without_batch_norm() {
                for_rules(3, $check);
            }

            #[test]
            fn gelu() {
                for_rules(4, $check);
            }

            #[test]
            fn varying_noise() {
                for_rules(5, $check);
            }

            #[test]
            fn far_tails() {
                for_rules(6, $check);
            }

            #[test]
            fn varying_far_tails() {
                for_rules(7, $check);
            }

            #[test]
            fn counts() {
                for_rules(8, $check);
            }

            #[test]
            fn several_targets() {
                for_rules(9, $check);
            }
        }
    )*};
}

for_each_network! {
    finite_and_named_by_the_seed
    whatever_the_number_of_threads
    resumes_bit_exactly
    a_divergence_stops_its_chain_alone
    a_huge_learning_rate_diverges_without_bad_draws
    steps_allocate_nothing
    steps_compute_no_energy
}

fn plan(seed: u64, num_steps: u64) -> Plan {
    let batches = Batches::new(NUM_ROWS, Some(BATCH_SIZE)).unwrap();
    Plan { seed, batches, num_steps, keep: Keep { burn_in: 20, every: 10 } }
}

/// Runs the chains and gives every kept state of each.
fn kept(potential: &Posterior, rule: &AnyRule, plan: &Plan, chains: &mut [Chain]) -> Vec<Vec<ChainState>> {
    let draws = Mutex::new(vec![Vec::new(); chains.len()]);
    run_population(potential, rule, plan, chains, &|index: usize, chain: &Chain| {
        draws.lock().unwrap()[index].push(chain.state.clone());
    });
    draws.into_inner().unwrap()
}

fn assert_same(what: &str, left: &[Chain], right: &[Chain]) {
    assert_eq!(left.len(), right.len());
    for (left, right) in left.iter().zip(right) {
        assert_eq!(left.state, right.state, "{what}, chain {}", left.id);
        assert_eq!(left.kinetic_all, right.kinetic_all, "{what}, chain {}", left.id);
        assert_eq!(left.kinetic_kept, right.kinetic_kept, "{what}, chain {}", left.id);
        assert_eq!(left.divergence, right.divergence, "{what}, chain {}", left.id);
    }
}

fn finite_and_named_by_the_seed(problem: &Problem, rule: &AnyRule) {
    let potential = problem.posterior();
    let run = |seed: u64| {
        let mut chains = problem.chains(0..3);
        let draws = kept(&potential, rule, &plan(seed, NUM_STEPS), &mut chains);
        (chains, draws)
    };
    let (chains, draws) = run(1);
    assert!(chains.iter().all(|chain| chain.divergence.is_none() && chain.state.step == NUM_STEPS), "{rule:?}");
    assert!(draws.iter().all(|draws| draws.len() == 10 && draws.iter().all(ChainState::is_finite)), "{rule:?}");
    let (again, same_draws) = run(1);
    assert_same("the same seed", &chains, &again);
    assert_eq!(draws, same_draws, "{rule:?}");
    let (others, _) = run(2);
    for (chain, other) in chains.iter().zip(&others) {
        assert_ne!(chain.state.position, other.state.position, "{rule:?}");
    }
}

fn whatever_the_number_of_threads(problem: &Problem, rule: &AnyRule) {
    let potential = problem.posterior();
    let run = |num_threads: usize| {
        let mut chains = problem.chains(0..5);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(num_threads).build().unwrap();
        let draws = pool.install(|| kept(&potential, rule, &plan(1, NUM_STEPS), &mut chains));
        (chains, draws)
    };
    let (chains, draws) = run(1);
    for num_threads in [2, 3] {
        let (others, other_draws) = run(num_threads);
        assert_same("threads", &chains, &others);
        assert_eq!(draws, other_draws, "{rule:?}");
    }
}

/// 47 steps end in the middle of an epoch and of a cycle.
fn resumes_bit_exactly(problem: &Problem, rule: &AnyRule) {
    let potential = problem.posterior();
    let mut whole = problem.chains(0..3);
    let draws = kept(&potential, rule, &plan(1, NUM_STEPS), &mut whole);
    let mut first = problem.chains(0..3);
    let mut first_draws = kept(&potential, rule, &plan(1, 47), &mut first);
    let mut resumed = first.clone();
    drop(first);
    let later_draws = kept(&potential, rule, &plan(1, NUM_STEPS), &mut resumed);
    assert_same("resumed", &whole, &resumed);
    for (first, later) in first_draws.iter_mut().zip(later_draws) {
        first.extend(later);
    }
    assert_eq!(draws, first_draws, "{rule:?}");
}

/// Which other chains run beside it is no matter to a chain, not even one that leaves the numbers.
fn a_divergence_stops_its_chain_alone(problem: &Problem, rule: &AnyRule) {
    let potential = problem.posterior();
    let mut alone = problem.chains([0, 2]);
    run_population(&potential, rule, &plan(1, NUM_STEPS), &mut alone, &Silent);
    let mut chains = problem.chains([0, 1, 2]);
    chains[1].state.position.fill(1e30);
    run_population(&potential, rule, &plan(1, NUM_STEPS), &mut chains, &Silent);
    if problem.has_steep_energy() {
        assert_eq!(chains[1].divergence, Some(Divergence { step: 0 }), "{rule:?}");
        assert_eq!(chains[1].state.step, 0, "a failed step is not counted");
    }
    chains.remove(1);
    assert_same("beside a diverging chain", &alone, &chains);
}

/// However large the learning rate: a divergence says so, and no state that is not finite is ever shown.
fn a_huge_learning_rate_diverges_without_bad_draws(problem: &Problem, rule: &AnyRule) {
    // Nor has MCLMC, whose speed is bounded, any learning rate of this size at which it must fail.
    if rule.adapts() || matches!(rule, AnyRule::Sampler(Langevin { integrator: Integrator::Mclmc, .. })) {
        return;
    }
    let potential = problem.posterior();
    for learning_rate in [1e10, 1e25, 1e38, 1e200] {
        let rule = rule.with_learning_rate(learning_rate);
        let mut chains = problem.chains(0..2);
        let plan = Plan { keep: Keep { burn_in: 0, every: 1 }, ..plan(1, NUM_STEPS) };
        let draws = kept(&potential, &rule, &plan, &mut chains);
        for (chain, draws) in chains.iter().zip(&draws) {
            assert!(draws.iter().all(ChainState::is_finite), "{rule:?}");
            // Clipped steps of the smallest rate leave weights that only networks without norms cannot bear.
            let may_stand = !problem.has_steep_energy() || (problem.norms_its_outputs() && learning_rate < 1e20);
            if chain.divergence.is_none() && may_stand {
                continue;
            }
            let divergence = chain.divergence.unwrap_or_else(|| panic!("{rule:?} did not diverge"));
            assert_eq!(divergence.step, draws.len() as u64);
            assert!(divergence.to_string().contains(&format!("at step {}", divergence.step)));
        }
    }
}

/// A run of twice the steps, minibatches and layerwise masses included, allocates exactly as often.
fn steps_allocate_nothing(problem: &Problem, rule: &AnyRule) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let potential = problem.posterior();
    let allocations = |num_steps: u64| {
        let mut chains = problem.chains(0..2);
        pool.install(|| {
            let run = || run_population(&potential, rule, &plan(1, num_steps), &mut chains, &Silent);
            allocation_counter::measure(run).count_total
        })
    };
    allocations(1); // a thread's first run also sets up rayon
    let (short, long) = (allocations(500), allocations(1000));
    assert!(short > 0, "the counter counts");
    assert_eq!(short, long, "{rule:?}");
}

/// A prior whose density nobody may ask for.
struct GradientAlone(IsotropicGaussian);

impl Prior for GradientAlone {
    fn log_density(&self, _: &[f32]) -> f64 {
        panic!("a step needs no energy")
    }

    fn add_energy_gradient(&self, parameters: &[f32], scale: f64, gradient: &mut [f32]) {
        self.0.add_energy_gradient(parameters, scale, gradient);
    }
}

/// Steps need gradients alone, so they take no sums over parameters for an energy that nobody looks at.
fn steps_compute_no_energy(problem: &Problem, rule: &AnyRule) {
    if rule.adapts() {
        return; // a warm-up notes a few energies
    }
    let prior = GradientAlone(IsotropicGaussian::new(0.5).unwrap());
    let potential = Posterior::new(&problem.network, problem.likelihood, prior, &problem.examples).unwrap();
    run_population(&potential, rule, &plan(1, 30), &mut problem.chains(0..1), &Silent);
}

/// At T = 0 a full batch leaves nothing to chance: the seed is no matter, and the energy falls; MCLMC, whose speed goes with √T, stands still.
#[test]
fn no_noise_at_temperature_zero() {
    for problem in &problems() {
        let potential = problem.posterior();
        for &integrator in Integrator::ALL {
            let rule = AnyRule::Sampler(Langevin::new(integrator, 1e-3, 0.9));
            let run = |seed: u64, temperature: f64| {
                let start = potential.initial_position(2, 0);
                let temperature = Temperature::new(temperature).unwrap();
                let mut chains = [Chain::new(0, temperature, start, &potential.layout())];
                let plan = Plan { batches: Batches::full(NUM_ROWS), ..plan(seed, NUM_STEPS) };
                run_population(&potential, &rule, &plan, &mut chains, &Silent);
                let [chain] = chains;
                chain.state
            };
            assert_eq!(run(1, 0.0), run(2, 0.0), "{integrator:?}");
            assert_ne!(run(1, 1e-6).position, run(2, 1e-6).position, "{integrator:?}");
            let (mut gradient, mut work) = (vec![0.0; potential.dim()], potential.workspace());
            let mut energy = |position: &[f32]| potential.evaluate(position, Batch::ALL, &mut gradient, &mut work);
            let (before, after) = (energy(&potential.initial_position(2, 0)), energy(&run(1, 0.0).position));
            let stands_still = integrator == Integrator::Mclmc && after == before;
            assert!(after < before || stands_still, "{integrator:?}: U went from {before} to {after}");
        }
    }
}

/// U = 0: only friction and drift are left to see.
struct Flat;

impl Potential for Flat {
    type Workspace = ();

    fn dim(&self) -> usize {
        1
    }

    fn evaluate(&self, _: &[f32], _: Batch<'_>, gradient: &mut [f32], (): &mut ()) -> f64 {
        gradient.fill(0.0);
        0.0
    }

    fn workspace(&self) {}
}

/// C scales h and leaves γ alone: at every step of a cycle 1 − hγ = 1 − C(1 − μ), and BAOA and BAOAB keep e^{−hγ} = μ^C.
#[test]
fn the_step_scale_keeps_the_friction() {
    let (learning_rate, momentum) = (0.04, 0.9);
    let step_scale = Schedule::CosineCycle { start: 2, period: 6, value: 1.0 };
    for integrator in [Integrator::Sghmc, Integrator::Baoa, Integrator::Baoab] {
        let rule = Langevin { step_scale: step_scale.clone(), ..Langevin::new(integrator, learning_rate, momentum) };
        let mut chain = Chain::new(0, Temperature::new(0.0).unwrap(), vec![0.0], &Flat.layout());
        chain.state.momentum = vec![1.0];
        let states = Mutex::new(vec![chain.state.clone()]);
        let plan = Plan { seed: 0, batches: Batches::full(1), num_steps: 14, keep: Keep { burn_in: 0, every: 1 } };
        run_population(&Flat, &rule, &plan, &mut [chain], &|_: usize, chain: &Chain| {
            states.lock().unwrap().push(chain.state.clone());
        });
        let top = integrator.conditions(learning_rate, momentum, 1, 1.0, 0.0).step_size;
        for (step, pair) in states.into_inner().unwrap().windows(2).enumerate() {
            let scale = step_scale.at(step as u64);
            let (before, after) = (f64::from(pair[0].momentum[0]), f64::from(pair[1].momentum[0]));
            let (expected, drifting) = match integrator {
                Integrator::Sghmc => (1.0 - scale * (1.0 - momentum), after),
                _ => (momentum.powf(scale), 0.5 * (before + after)),
            };
            assert!((after / before - expected).abs() < 1e-6, "{integrator:?}, step {step}: kept {}", after / before);
            let moved = f64::from(pair[1].position[0]) - f64::from(pair[0].position[0]);
            assert!((moved - scale * top * drifting).abs() < 1e-6, "{integrator:?}, step {step}: moved {moved}");
        }
    }
}

/// √(mean of (∇Ũ/n)² + floor) of each tensor over the given batches, divided by the smallest.
fn masses_by_hand(
    potential: &Posterior,
    position: &[f32],
    mode: Mode<'_>,
    batches: &[Vec<u32>],
    floor: f64,
) -> Vec<f64> {
    let (mut gradient, mut work) = (vec![0.0; potential.dim()], potential.workspace());
    let layout = potential.layout();
    let mut masses = vec![0.0; layout.tensors().len()];
    let n = potential.num_examples() as f64;
    for rows in batches {
        let batch = Batch { rows: Rows::These(rows), likelihood_weight: n / rows.len() as f64, mode };
        potential.evaluate(position, batch, &mut gradient, &mut work);
        for (tensor, mass) in layout.tensors().iter().zip(&mut masses) {
            let squares: f64 = gradient[tensor.range.clone()].iter().map(|&g| (f64::from(g) / n).powi(2)).sum();
            *mass += squares / (tensor.range.len() * batches.len()) as f64;
        }
    }
    masses.iter_mut().for_each(|mass| *mass = (*mass + floor).sqrt());
    let smallest = masses.iter().copied().fold(f64::INFINITY, f64::min);
    masses.iter().map(|mass| mass / smallest).collect()
}

/// The masses after the first step of each epoch are those of the position at its start and of rows drawn for them.
#[test]
fn layerwise_masses_agree_with_a_direct_computation() {
    for training_mode in [false, true] {
        compare_layerwise_masses(training_mode);
    }
}

fn compare_layerwise_masses(training_mode: bool) {
    let estimate = LayerwiseMass { num_batches: 5, training_mode, ..LayerwiseMass::default() };
    let rule = AnyRule::Sampler(Langevin {
        mass: MassRule::Layerwise(estimate),
        ..Langevin::new(Integrator::Sghmc, 1e-3, 0.9)
    });
    let (seed, id) = (1, 3);
    for problem in &problems() {
        let potential = problem.posterior();
        let mut chains = problem.chains([id]);
        chains[0].state.statistics = potential.initial_statistics();
        let mut states = vec![chains[0].state.clone()];
        let plan = Plan { keep: Keep { burn_in: 0, every: 1 }, ..plan(seed, 9) };
        states.extend(kept(&potential, &rule, &plan, &mut chains).remove(0));

        let steps_per_epoch = plan.batches.steps_per_epoch(); // 3, so an estimate of 5 batches takes two orders
        for epoch in 0..3 {
            let start = (epoch * steps_per_epoch) as usize;
            let batches: Vec<Vec<u32>> = (0..estimate.num_batches)
                .map(|batch| {
                    let order = 2 * epoch + batch / steps_per_epoch;
                    let order = Permutation::new(seed, Purpose::Preconditioner, id, order, NUM_ROWS);
                    let first = (batch % steps_per_epoch) as usize * BATCH_SIZE;
                    (first..first + BATCH_SIZE).map(|position| order.at(position) as u32).collect()
                })
                .collect();
            let mode = if training_mode { Mode::Training } else { Mode::Inference(&states[start].statistics) };
            let expected = masses_by_hand(&potential, &states[start].position, mode, &batches, estimate.floor);
            for (found, expected) in states[start + 1].mass.iter().zip(&expected) {
                assert!((found / expected - 1.0).abs() < 1e-5, "epoch {epoch}: {found} instead of {expected}");
            }
            let smallest = states[start + 1].mass.iter().copied().fold(f64::INFINITY, f64::min);
            assert_eq!(smallest, 1.0);
            assert_eq!(states[start + 1].mass, states[start + 3].mass, "masses stay for an epoch");
        }
        assert_ne!(states[1].mass, states[4].mass);
    }
}
