//! Golden: energy, gradients and tempered likelihood of a Gaussian network agree with an independent JAX implementation,
//! for the fused evaluator, the general evaluator and the f64 reference.

use crate::support::{self, Golden, assert_close, to_f32, to_f64};
use kelvin::data::{Examples, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Evaluator, Mode, Network, Rows, Weights};
use kelvin::potential::{Batch, Posterior, Potential, TemperedModel};
use kelvin::prior::IsotropicGaussian;

const FILE: &str = "mlp_gaussian.safetensors";
const GRADIENT: f64 = 1e-5;
const SUM: f64 = 2e-6;

/// The file's problem.
struct Problem {
    golden: Golden,
    network: Network,
    examples: Examples,
    parameters: Vec<f64>,
    batch: Vec<u32>,
    noise_variance: f64,
    prior_variance: f64,
    beta: f64,
}

impl Problem {
    fn open() -> Option<Self> {
        let golden = Golden::open(FILE)?;
        Some(Self {
            network: golden.network("params."),
            examples: Examples {
                inputs: golden.f32s("x").into(),
                num_features: golden.shape("x")[1],
                targets: Targets::Real(golden.f32s("y")),
            },
            parameters: golden.parameters("params."),
            batch: golden.indices("batch_index").into_iter().map(|row| row as u32).collect(),
            noise_variance: golden.scalar("sigma2"),
            prior_variance: golden.scalar("prior_variance"),
            beta: golden.scalar("beta"),
            golden,
        })
    }

    /// Compares what an implementation computed with the file; `scale` multiplies the tolerances.
    fn assert_agrees(&self, who: &str, found: &Found, scale: f64) {
        let close = |array: &str, found: &[f64], expected: &[f64], tolerance: f64| {
            assert_close(&format!("{who}, {array}"), found, expected, scale * tolerance);
        };
        let sum = |array: &str, found: f64| close(array, &[found], &self.golden.f64s(array), SUM);
        let gradient = |array: &str, found: &[f64]| close(array, found, &self.golden.parameters(array), GRADIENT);
        close("expected.mu", &found.outputs, &self.golden.f64s("expected.mu"), SUM);
        sum("expected.U", found.energy);
        sum("expected.log_prior", found.log_prior);
        sum("expected.sum_log_likelihood", found.log_likelihood);
        sum("expected.tempered_sum_log_likelihood", found.tempered_log_likelihood);
        gradient("expected.grad_U.", &found.energy_gradient);
        gradient("expected.grad_U_minibatch.", &found.minibatch_gradient);
        gradient("expected.grad_tempered.", &found.tempered_gradient);
        let log_beta = "expected.grad_tempered.log_beta";
        close(log_beta, &[found.log_beta_gradient], &self.golden.f64s(log_beta), GRADIENT);
    }
}

/// Everything the file has an expected value for.
struct Found {
    outputs: Vec<f64>,
    energy: f64,
    log_prior: f64,
    log_likelihood: f64,
    energy_gradient: Vec<f64>,
    minibatch_gradient: Vec<f64>,
    tempered_log_likelihood: f64,
    tempered_gradient: Vec<f64>,
    log_beta_gradient: f64,
}

/// What the library's posterior computes with an evaluator.
fn with_evaluator(problem: &Problem, evaluator: Evaluator) -> Found {
    let likelihood = Likelihood::Gaussian { noise_variance: problem.noise_variance };
    let prior = IsotropicGaussian::new(problem.prior_variance).unwrap();
    let (network, examples) = (&problem.network, &problem.examples);
    let posterior = Posterior::with_evaluator(network, evaluator, likelihood, prior, examples).unwrap();
    let theta = to_f32(&problem.parameters);
    let mut work = posterior.workspace();

    let inputs = posterior.evaluator().prepare(&examples.inputs);
    let mut outputs = vec![0.0; examples.len()];
    posterior.evaluator().outputs(Weights::plain(&theta), &inputs, Rows::All, &mut outputs, &mut work);

    // Gradients must be overwritten, not added to.
    let mut energy_gradient = vec![f32::NAN; posterior.dim()];
    let energy = posterior.evaluate(&theta, Batch::ALL, &mut energy_gradient, &mut work);
    let mut minibatch_gradient = vec![f32::NAN; posterior.dim()];
    let likelihood_weight = examples.len() as f64 / problem.batch.len() as f64;
    let batch = Batch { rows: Rows::These(&problem.batch), likelihood_weight, mode: Mode::Training };
    posterior.evaluate(&theta, batch, &mut minibatch_gradient, &mut work);
    let mut tempered_gradient = vec![f32::NAN; posterior.dim()];
    let tempered =
        posterior.tempered_gradient(&theta, Rows::All, Mode::Training, problem.beta, &mut tempered_gradient, &mut work);
    let log_likelihood = likelihood.log_likelihood(&outputs, &examples.targets, 1.0);

    Found {
        outputs: to_f64(&outputs),
        energy,
        log_prior: posterior.log_prior(&theta),
        log_likelihood: log_likelihood.value,
        energy_gradient: to_f64(&energy_gradient),
        minibatch_gradient: to_f64(&minibatch_gradient),
        tempered_log_likelihood: tempered.value,
        tempered_gradient: to_f64(&tempered_gradient),
        log_beta_gradient: tempered.log_beta_gradient,
    }
}

#[test]
fn fused_evaluator() {
    let Some(problem) = Problem::open() else { return };
    let evaluator = problem.network.evaluator();
    if matches!(evaluator, Evaluator::Dense(_)) {
        support::skipped(
            support::Need::Golden,
            &format!("the file's network {} has no fused evaluator", problem.network.describe()),
        );
        return;
    }
    problem.assert_agrees("fused", &with_evaluator(&problem, evaluator), 1.0);
}

#[test]
fn general_evaluator() {
    let Some(problem) = Problem::open() else { return };
    problem.assert_agrees("general", &with_evaluator(&problem, problem.network.general_evaluator()), 1.0);
}

/// The f64 form of the general evaluator, with the densities written out here.
#[test]
fn reference_in_f64() {
    let Some(problem) = Problem::open() else { return };
    let Evaluator::Dense(stack) = problem.network.dense_evaluator().unwrap() else { unreachable!() };
    let (theta, inputs) = (&problem.parameters, to_f64(&problem.examples.inputs.numbers()));
    let targets = problem.golden.f64s("y");
    let (sigma2, prior_variance) = (problem.noise_variance, problem.prior_variance);
    let n = targets.len() as f64;

    // Σ log N(y | μ, σ²/β) and its gradients over given rows.
    let tempered = |inputs: &[f64], targets: &[f64], beta: f64| {
        let (outputs, gradient) = stack.reference(theta, inputs, |first, outputs| {
            for (output, target) in outputs.iter_mut().zip(&targets[first..]) {
                *output = beta * (target - *output) / sigma2;
            }
        });
        let squares: f64 = outputs.iter().zip(targets).map(|(mu, y)| (y - mu).powi(2)).sum();
        let (count, misfit) = (targets.len() as f64, 0.5 * beta * squares / sigma2);
        let value = -0.5 * count * (std::f64::consts::TAU * sigma2 / beta).ln() - misfit;
        (outputs, value, gradient, 0.5 * count - misfit)
    };
    let energy_gradient = |gradient: &[f64], weight: f64| -> Vec<f64> {
        gradient.iter().zip(theta).map(|(g, theta)| theta / prior_variance - weight * g).collect()
    };
    let squares: f64 = theta.iter().map(|theta| theta * theta).sum();
    let constant = theta.len() as f64 * (std::f64::consts::TAU * prior_variance).ln();
    let log_prior = -0.5 * (constant + squares / prior_variance);

    let features = problem.examples.num_features;
    let rows = problem.batch.iter().map(|&row| row as usize);
    let batch_inputs: Vec<f64> = rows.clone().flat_map(|row| inputs[row * features..][..features].to_vec()).collect();
    let batch_targets: Vec<f64> = rows.map(|row| targets[row]).collect();

    let (outputs, log_likelihood, gradient, _) = tempered(&inputs, &targets, 1.0);
    let (_, _, batch_gradient, _) = tempered(&batch_inputs, &batch_targets, 1.0);
    let (_, tempered_log_likelihood, tempered_gradient, log_beta_gradient) = tempered(&inputs, &targets, problem.beta);
    let found = Found {
        outputs,
        energy: -log_prior - log_likelihood,
        log_prior,
        log_likelihood,
        energy_gradient: energy_gradient(&gradient, 1.0),
        minibatch_gradient: energy_gradient(&batch_gradient, n / batch_targets.len() as f64),
        tempered_log_likelihood,
        tempered_gradient,
        log_beta_gradient,
    };
    problem.assert_agrees("reference", &found, 1e-5); // gradients to 1e-10, sums to 2e-11
}
