//! Golden: sixteen steps of SGHMC, BAOA and SGLD with given noise agree with an independent JAX implementation.

use crate::support::{Golden, assert_close, to_f32, to_f64};
use kelvin::data::{Examples, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::potential::{Batch, Posterior, Potential};
use kelvin::prior::IsotropicGaussian;
use kelvin::sampler::{ChainState, Integrator};
use kelvin::temperature::Schedule;

const FILE: &str = "sghmc_trajectory.safetensors";
const TOLERANCE: f64 = 1e-5;
const SAMPLERS: [(&str, Integrator); 3] =
    [("sghmc", Integrator::Sghmc), ("baoa", Integrator::Baoa), ("sgld", Integrator::Sgld)];

fn step_scale(golden: &Golden) -> Schedule {
    Schedule::CosineCycle { start: 0, period: golden.indices("cycle_length")[0] as u64, value: 1.0 }
}

#[test]
fn the_cosine_cycle_is_the_files() {
    let Some(golden) = Golden::open(FILE) else { return };
    let (schedule, expected) = (step_scale(&golden), golden.f64s("C"));
    let found: Vec<f64> = (0..expected.len() as u64).map(|step| schedule.at(step)).collect();
    assert_close("C", &found, &expected, 1e-14);
}

#[test]
fn every_sampler_with_every_mass_follows_the_reference() {
    let Some(golden) = Golden::open(FILE) else { return };
    for (sampler, integrator) in SAMPLERS {
        for mass in ["identity", "layerwise"] {
            follow(&golden, sampler, integrator, mass);
        }
    }
}

fn follow(golden: &Golden, sampler: &str, integrator: Integrator, mass: &str) {
    let case = format!("expected.{sampler}.{mass}");
    let network = golden.network("params.");
    let layout = network.layout();
    let examples = Examples {
        inputs: golden.f32s("x").into(),
        num_features: golden.shape("x")[1],
        targets: Targets::Real(golden.f32s("y")),
    };
    assert_eq!(golden.indices("n"), [examples.len()]);
    let likelihood = Likelihood::Gaussian { noise_variance: golden.scalar("sigma2") };
    let prior = IsotropicGaussian::new(golden.scalar("prior_variance")).unwrap();
    let posterior = Posterior::new(&network, likelihood, prior, &examples).unwrap();

    let mut state = ChainState::at_rest(to_f32(&golden.parameters("params.")), &layout);
    state.momentum = to_f32(&golden.parameters(&format!("m0.{mass}.")));
    if mass == "layerwise" {
        state.mass = golden.parameters("mass.");
    }
    let schedule = step_scale(golden);
    let kept = golden.numbers_after(&format!("{case}.step"));
    assert!(!kept.is_empty(), "{case} has no steps to compare");

    let (mut gradient, mut kinetic) = (vec![0.0; posterior.dim()], vec![0.0; layout.tensors().len()]);
    let mut work = posterior.workspace();
    let (mut energies, mut temperatures, mut tensor_temperatures) = (Vec::new(), Vec::new(), Vec::new());
    for noise in golden.stacked_parameters("noise.") {
        energies.push(posterior.evaluate(&state.position, Batch::ALL, &mut gradient, &mut work));
        let at = integrator.conditions(
            golden.scalar("learning_rate"),
            golden.scalar("momentum"),
            posterior.num_examples(),
            schedule.at(state.step),
            golden.scalar("temperature"),
        );
        integrator.advance(&at, 1.0, &layout, &gradient, &to_f32(&noise), &mut state, &mut kinetic);
        state.step += 1;

        temperatures.push(kinetic.iter().sum::<f64>() / posterior.dim() as f64);
        tensor_temperatures.extend(kinetic.iter().zip(layout.tensors()).map(|(k, t)| k / t.range.len() as f64));
        if kept.contains(&state.step) {
            let compare = |what: &str, found: &[f32]| {
                let prefix = format!("{case}.step{}.{what}.", state.step);
                let expected = golden.parameters(&prefix);
                // SGLD has no momentum and the file none of it.
                if !(expected.is_empty() && integrator == Integrator::Sgld) {
                    assert_close(&prefix, &to_f64(found), &expected, TOLERANCE);
                }
            };
            compare("theta", &state.position);
            compare("m", &state.momentum);
        }
    }
    assert!(kept.iter().all(|step| *step <= state.step), "{case}: steps {kept:?} were not all reached");
    energies.push(posterior.evaluate(&state.position, Batch::ALL, &mut gradient, &mut work));

    assert_close(&format!("{case}.U"), &energies, &golden.f64s(&format!("{case}.U")), TOLERANCE);
    if integrator != Integrator::Sgld {
        let name = format!("{case}.kinetic_temperature");
        assert_close(&name, &temperatures, &golden.f64s(&name), TOLERANCE);
        let name = format!("{case}.kinetic_temperature_per_tensor");
        let num_tensors = layout.tensors().len();
        let expected = golden.f64s(&name);
        assert_close(&name, &tensor_temperatures, &expected, TOLERANCE);
        // Each tensor by itself, so that a small one cannot hide; that of one number may pass near 0.
        for tensor in 0..num_tensors {
            let column = |all: &[f64]| all.iter().skip(tensor).step_by(num_tensors).copied().collect::<Vec<_>>();
            assert_close(&name, &column(&tensor_temperatures), &column(&expected), 10.0 * TOLERANCE);
        }
    }
}
