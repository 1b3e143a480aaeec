//! Golden: joint ascent in (θ, log β) agrees with an independent JAX implementation, step by step.

use crate::support::{Golden, assert_close, to_f32, to_f64};
use kelvin::data::{Examples, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Mode, Rows};
use kelvin::potential::{Batch, Posterior, Potential, TemperedModel};
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{
    AscentObjective, Batches, Chain, ChainState, ClipScope, JointAscent, Keep, Plan, Silent, run_population,
};
use kelvin::temperature::{Schedule, Temperature};

const FILE: &str = "joint_mle_sgd.safetensors";
const TOLERANCE: f64 = 1e-5;

/// The prior has no part in the ascent; any will do.
fn no_matter() -> IsotropicGaussian {
    IsotropicGaussian::new(1.0).unwrap()
}

fn examples(golden: &Golden, model: &str, part: &str, classes: bool) -> Examples {
    let (x, y) = (format!("{model}.x_{part}"), format!("{model}.y_{part}"));
    let targets = if classes {
        Targets::Classes(golden.indices(&y).into_iter().map(|label| label as u32).collect())
    } else {
        Targets::Real(golden.f32s(&y))
    };
    Examples { inputs: golden.f32s(&x).into(), num_features: golden.shape(&x)[1], targets }
}

fn follow(golden: &Golden, model: &str, clip: &str, clip_scope: ClipScope) {
    let case = format!("expected.{model}.{clip}");
    let setting = |name: &str| golden.scalar(&format!("{model}.{name}"));
    let network = golden.network(&format!("{model}.params."));
    let classes = !golden.has(&format!("{model}.sigma2"));
    let likelihood = if classes {
        Likelihood::Categorical { num_classes: network.num_outputs() }
    } else {
        Likelihood::Gaussian { noise_variance: setting("sigma2") }
    };
    let train = examples(golden, model, "train", classes);
    let valid = examples(golden, model, "valid", classes);
    let posterior = Posterior::new(&network, likelihood, no_matter(), &train).unwrap();
    let held_out = Posterior::new(&network, likelihood, no_matter(), &valid).unwrap();

    let rates = golden.f64s(&format!("{model}.learning_rate"));
    let num_steps = rates.len();
    let learning_rate = Schedule::CosineDecay { value: setting("learning_rate0"), total: num_steps as u64 };
    let found: Vec<f64> = (0..num_steps as u64).map(|step| learning_rate.at(step)).collect();
    assert_close("learning_rate", &found, &rates, 1e-12);
    let ascent = JointAscent {
        objective: AscentObjective::default(),
        learning_rate,
        momentum: setting("momentum"),
        weight_decay: setting("weight_decay"),
        clip_norm: setting("clip_threshold"),
        clip_scope,
    };

    let mut state = ChainState::at_rest(to_f32(&golden.parameters(&format!("{model}.params."))), &network.layout());
    state.log_beta = setting("log_beta0");
    let batches: Vec<u32> = golden.indices(&format!("{model}.batch_index")).into_iter().map(|row| row as u32).collect();
    let kept = golden.numbers_after(&format!("{case}.step"));
    assert!(!kept.is_empty(), "{case} has no steps to compare");
    let (mut gradient, mut work) = (vec![0.0; posterior.dim()], posterior.workspace());
    let (mut norms, mut held_out_gradient) = (Vec::new(), vec![0.0; held_out.dim()]);
    for rows in batches.chunks_exact(batches.len() / num_steps) {
        let likelihood_weight = train.len() as f64 / rows.len() as f64;
        let batch = Batch { rows: Rows::These(rows), likelihood_weight, mode: Mode::Training };
        norms.push(ascent.ascend(&posterior, batch, &mut state, &mut gradient, &mut work).unwrap());
        state.step += 1;
        if kept.contains(&state.step) {
            let name = |array: &str| format!("{case}.step{}.{array}", state.step);
            let close = |array: &str, found: &[f64], expected: &[f64]| {
                assert_close(&name(array), found, expected, TOLERANCE);
            };
            close("theta.", &to_f64(&state.position), &golden.parameters(&name("theta.")));
            close("log_beta", &[state.log_beta], &golden.f64s(&name("log_beta")));
            let (theta, beta) = (&state.position, state.log_beta.exp());
            let sum =
                held_out.tempered_gradient(theta, Rows::All, Mode::Training, beta, &mut held_out_gradient, &mut work);
            close("valid_log_likelihood", &[sum.value], &golden.f64s(&name("valid_log_likelihood")));
        }
    }
    assert!(kept.iter().all(|step| *step <= state.step), "{case}: steps {kept:?} were not all reached");
    for (found, expected) in norms.iter().zip(golden.f64s(&format!("{case}.gradient_norm"))) {
        assert_close(&format!("{case}.gradient_norm"), &[*found], &[expected], TOLERANCE);
    }
    let clipped: Vec<usize> = norms.iter().map(|&norm| usize::from(norm >= ascent.clip_norm)).collect();
    assert_eq!(clipped, golden.indices(&format!("{case}.clipped")), "{case}.clipped");
}

#[test]
fn every_model_with_every_clipping_follows_the_reference() {
    let Some(golden) = Golden::open(FILE) else { return };
    for model in ["gaussian", "softmax"] {
        follow(&golden, model, "clip_all", ClipScope::All);
        follow(&golden, model, "clip_theta", ClipScope::Theta);
    }
}

/// At a stationary point of regression β̂ = σ² n / SSE, with θ the least-squares fit.
#[test]
fn regression_settles_at_the_closed_form() {
    let noise_variance = 0.05;
    let inputs: Vec<f32> = (0..12).map(|row| row as f32 / 6.0 - 1.0).collect();
    let targets: Vec<f32> = inputs.iter().map(|x| 0.5 + 1.5 * x + 0.3 * (7.0 * x).sin()).collect();
    let examples = Examples { inputs: inputs.clone().into(), num_features: 1, targets: Targets::Real(targets.clone()) };
    let network = kelvin::network::Network::dense(1, &[], 1).unwrap();
    let likelihood = Likelihood::Gaussian { noise_variance };
    let posterior = Posterior::new(&network, likelihood, no_matter(), &examples).unwrap();
    let ascent = JointAscent {
        objective: AscentObjective::default(),
        learning_rate: Schedule::Constant { value: 1e-3 },
        momentum: 0.9,
        weight_decay: 0.0,
        clip_norm: 1e6,
        clip_scope: ClipScope::All,
    };
    let plan = Plan {
        seed: 1,
        batches: Batches::full(examples.len()),
        num_steps: 5000,
        keep: Keep { burn_in: 0, every: 5000 },
    };
    let mut chains = [Chain::new(0, Temperature::BAYES, network.initial_parameters(1, 0), &network.layout())];
    run_population(&posterior, &ascent, &plan, &mut chains, &Silent);
    let state = &chains[0].state;

    let n = inputs.len() as f64;
    let (x, y) = (to_f64(&inputs), to_f64(&targets));
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / n, y.iter().sum::<f64>() / n);
    let covariance: f64 = x.iter().zip(&y).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let slope = covariance / x.iter().map(|x| (x - mean_x).powi(2)).sum::<f64>();
    let intercept = mean_y - slope * mean_x;
    let sse: f64 = x.iter().zip(&y).map(|(x, y)| (y - intercept - slope * x).powi(2)).sum();

    assert_close("least squares", &to_f64(&state.position), &[slope, intercept], 1e-5);
    assert_close("β̂", &[state.log_beta.exp()], &[noise_variance * n / sse], 1e-5);
}
