//! Known posterior: MCLMC at small steps, and with the masses and the step size of its warm-up.
//!
//! Its bias goes with h², and no exact law of a finite step is known. Steps here are so small that halving them changes no number by more than a standard error; chains are
//! independent and give one average each: the check, its false-alarm rate and the twins are those of `known_posterior.rs`.

use kelvin::potential::Potential;
use kelvin::sampler::{Chain, Integrator, Keep, Langevin, Plan, Silent, WarmUp, run_population};
use kelvin::temperature::Temperature;

use crate::hmc::{averages, chains, mean_square, plan};
use crate::known_posterior::{
    BURN_IN, Bowls, CURVATURES, DoubleWells, NOISE_VARIANCE, Reading, Regression, check_with_twin, well_expectations,
    well_statistics,
};

const GROUP: usize = 4;

fn rule(learning_rate: f64) -> Langevin {
    Langevin::new(Integrator::Mclmc, learning_rate, 0.9)
}

/// Two thousand draws after a warm-up.
fn steps(temperature: f64, burn_in: u64, every: u64) -> Plan {
    Plan { num_steps: burn_in + 2000 * every, keep: Keep { burn_in, every }, ..plan(temperature) }
}

#[test]
fn quadratics() {
    let bowls = Bowls { curvatures: CURVATURES.to_vec(), coordinates: GROUP, gradient_noise_variance: 0.0 };
    let adaptive = Langevin { warm_up: Some(WarmUp { num_steps: 400, friction: None }), ..rule(f64::NAN) };
    // With masses all frequencies are the same, and a step of the warm-up's size would be a coarse one.
    for (rule, masses, share) in
        [(rule(2e-3), [1.0; 4], 1.0), (rule(2e-3), [2.5, 0.7, 1.5, 4.0], 1.0), (adaptive, [1.0; 4], 0.2)]
    {
        for temperature in [0.1, 0.3, 1.0, 3.0] {
            let case = format!("ℓ = {}, M = {masses:?}, T = {temperature}", rule.learning_rate);
            check_with_twin(&case, temperature, |actual| {
                let mut chains = chains(&bowls.layout(), actual, |_| 0.0);
                chains.iter_mut().for_each(|chain| chain.state.mass = masses.to_vec());
                if let Some(warm_up) = rule.warm_up {
                    let first = Plan { num_steps: warm_up.num_steps, ..steps(actual, 400, 5) };
                    run_population(&bowls, &rule, &first, &mut chains, &Silent);
                    chains.iter_mut().for_each(|chain| chain.state.adapted.step_size *= share);
                }
                let squares = averages(&bowls, &rule, &steps(actual, 800, 5), &mut chains, |position| {
                    [0, 1, 2, 3].map(|group| mean_square(&position[GROUP * group..GROUP * (group + 1)]))
                });
                let what = |curvature| format!("position variance at k = {curvature}");
                let of_each = CURVATURES.into_iter().zip(squares);
                of_each.map(|(k, averages)| Reading { what: what(k), averages, expected: temperature / k }).collect()
            });
        }
    }
}

#[test]
fn double_well() {
    let wells = DoubleWells(8);
    for temperature in [0.3, 1.0, 3.0] {
        let expected = well_expectations(temperature);
        check_with_twin(&format!("T = {temperature}"), temperature, |actual| {
            let mut chains = chains(&wells.layout(), actual, |index| if index % 2 == 0 { 1.0 } else { -1.0 });
            let found = averages(&wells, &rule(2e-3), &steps(actual, 1000, 8), &mut chains, |position| {
                let each = position.iter().map(|&theta| well_statistics(f64::from(theta)));
                each.fold([0.0; 3], |sum, of| [0, 1, 2].map(|i| sum[i] + of[i] / position.len() as f64))
            });
            let names = ["θ²", "U", "share between the wells"];
            let all = names.into_iter().zip(found).zip(expected);
            all.map(|((what, averages), expected)| Reading { what: what.into(), averages, expected }).collect()
        });
    }
}

#[test]
fn linear_regression() {
    let regression = Regression::new();
    let exact = regression.exact(NOISE_VARIANCE);
    for temperature in [0.3, 1.0, 3.0] {
        let covariance = exact.posterior_covariance(1.0 / temperature);
        check_with_twin(&format!("T = {temperature}"), temperature, |actual| {
            regression.readings(&rule(4e-3), [2.0, 0.5], actual, (exact.mean(), &covariance))
        });
    }
}

/// Momenta have the length √(dT) from the first step on, in the measure of their masses.
#[test]
fn the_velocity_keeps_its_length() {
    let bowls = Bowls { curvatures: CURVATURES.to_vec(), coordinates: GROUP, gradient_noise_variance: 0.0 };
    let warm_up = Some(WarmUp { num_steps: BURN_IN, friction: None });
    let mut chain = [Chain::new(0, Temperature::new(0.3).unwrap(), vec![1.0; bowls.dim()], &bowls.layout())];
    for num_steps in [1, 17, 500] {
        let rule = Langevin { warm_up, ..rule(f64::NAN) };
        run_population(&bowls, &rule, &Plan { num_steps, ..plan(0.3) }, &mut chain, &Silent);
        let mut squares = [0.0; 4];
        chain[0].state.kinetic_squares(&bowls.layout(), &mut squares);
        let found = squares.iter().sum::<f64>() / (0.3 * bowls.dim() as f64);
        assert!((found - 1.0).abs() < 1e-5, "{found} after {num_steps} steps");
    }
    assert_eq!(chain[0].kinetic_all.num_readings(), 0, "its length is no temperature");
}
