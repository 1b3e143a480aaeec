//! Known posterior: Metropolis-corrected HMC has the exact law whatever its step size, masses and trajectories.
//!
//! Chains are independent and give one average each: the check, its false-alarm rate and the twins are those of `known_posterior.rs`.

use std::sync::Mutex;

use kelvin::network::Layout;
use kelvin::potential::Potential;
use kelvin::sampler::{Batches, Chain, Hmc, Keep, Plan, Rule, Silent, run_population};
use kelvin::temperature::{Temperature, Tempering};

use crate::known_posterior::{
    BURN_IN, Bowls, CURVATURES, DoubleWells, NOISE_VARIANCE, Reading, Regression, check_with_twin, well_expectations,
    well_statistics,
};

const CHAINS: u32 = 192;
const WARM_UP: u64 = 150;
const TRAJECTORIES: u64 = 1200;

pub(crate) fn plan(temperature: f64) -> Plan {
    Plan {
        seed: temperature.to_bits(),
        batches: Batches::full(1),
        num_steps: WARM_UP + TRAJECTORIES,
        keep: Keep { burn_in: WARM_UP, every: 1 },
    }
}

pub(crate) fn chains(layout: &Layout, temperature: f64, start: impl Fn(usize) -> f32) -> Vec<Chain> {
    let temperature = Temperature::new(temperature).unwrap();
    (0..CHAINS).map(|id| Chain::new(id, temperature, (0..layout.len()).map(&start).collect(), layout)).collect()
}

/// For each statistic of a position its average over time, one for each chain.
pub(crate) fn averages<P: Potential, const N: usize>(
    potential: &P,
    rule: &impl Rule<P>,
    plan: &Plan,
    chains: &mut [Chain],
    statistics: impl Fn(&[f32]) -> [f64; N] + Sync,
) -> [Vec<f64>; N] {
    let num_draws = ((plan.num_steps - plan.keep.burn_in) / plan.keep.every) as f64;
    let sums = Mutex::new([(); N].map(|()| vec![0.0; chains.len()]));
    run_population(potential, rule, plan, chains, &|index: usize, chain: &Chain| {
        let values = statistics(&chain.state.position);
        for (sum, value) in sums.lock().unwrap().iter_mut().zip(values) {
            sum[index] += value / num_draws;
        }
    });
    assert!(chains.iter().all(|chain| chain.divergence.is_none()));
    sums.into_inner().unwrap()
}

pub(crate) fn mean_square(numbers: &[f32]) -> f64 {
    numbers.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / numbers.len() as f64
}

/// T/k, with the masses of looks and with given ones, with fine steps and with steps of which half are rejected.
fn quadratics(temperature: f64) {
    let bowls = Bowls { curvatures: CURVATURES.to_vec(), coordinates: 2, gradient_noise_variance: 0.0 };
    let looks = Hmc { num_warm_up: WARM_UP, num_looks: 10, trajectory: 0.7, ..Hmc::default() };
    let given = Hmc { num_looks: 0, acceptance: 0.5, ..looks };
    for (hmc, masses) in [(looks, [1.0; 4]), (given, [1.0; 4]), (given, [2.5, 0.7, 1.5, 4.0])] {
        let case = format!("{hmc:?}, M = {masses:?}, T = {temperature}");
        check_with_twin(&case, temperature, |actual| {
            let mut chains = chains(&bowls.layout(), actual, |_| 0.0);
            for chain in chains.iter_mut().filter(|_| hmc.num_looks == 0) {
                chain.state.mass = masses.to_vec();
                chain.state.adapted.step_size = 0.1;
            }
            let squares = averages(&bowls, &hmc, &plan(actual), &mut chains, |position| {
                [0, 1, 2, 3].map(|group| mean_square(&position[2 * group..2 * group + 2]))
            });
            let what = |curvature| format!("position variance at k = {curvature}");
            let of_each = CURVATURES.into_iter().zip(squares);
            of_each.map(|(k, averages)| Reading { what: what(k), averages, expected: temperature / k }).collect()
        });
    }
}

#[test]
fn quadratics_hot() {
    quadratics(3.0);
}

#[test]
fn quadratics_at_temperature_one() {
    quadratics(1.0);
}

#[test]
fn quadratics_cold() {
    quadratics(0.3);
}

#[test]
fn quadratics_colder() {
    quadratics(0.1);
}

#[test]
fn double_well() {
    let wells = DoubleWells(4);
    let hmc = Hmc { num_warm_up: WARM_UP, num_looks: 10, trajectory: 1.0, ..Hmc::default() };
    for temperature in [0.3, 1.0, 3.0] {
        let expected = well_expectations(temperature);
        check_with_twin(&format!("T = {temperature}"), temperature, |actual| {
            let mut chains = chains(&wells.layout(), actual, |index| if index % 2 == 0 { 1.0 } else { -1.0 });
            let found = averages(&wells, &hmc, &plan(actual), &mut chains, |position| {
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
    let hmc = Hmc { num_warm_up: BURN_IN, num_looks: 10, ..Hmc::default() };
    for (tempering, temperature) in [
        (Tempering::Posterior, 0.3),
        (Tempering::Posterior, 1.0),
        (Tempering::Posterior, 3.0),
        (Tempering::Likelihood, 2.5),
    ] {
        let (noise_variance, posterior_temperature) = match tempering {
            Tempering::Posterior => (NOISE_VARIANCE, temperature),
            Tempering::Likelihood => (NOISE_VARIANCE * temperature, 1.0),
        };
        let exact = regression.exact(noise_variance);
        let covariance = exact.posterior_covariance(1.0 / posterior_temperature);
        check_with_twin(&format!("{tempering:?}, T = {temperature}"), temperature, |actual| {
            regression.readings(&Hmc { tempering, ..hmc }, [1.0; 2], actual, (exact.mean(), &covariance))
        });
    }
}

/// Whatever the dimension, the warm-up finds the step size of the asked acceptance.
#[test]
fn the_warm_up_finds_the_asked_acceptance() {
    for (coordinates, asked) in [(2, 0.8), (512, 0.8), (512, 0.6)] {
        let bowls = Bowls { curvatures: CURVATURES.to_vec(), coordinates, gradient_noise_variance: 0.0 };
        let hmc = Hmc { num_warm_up: 400, num_looks: 10, trajectory: 0.7, acceptance: asked, ..Hmc::default() };
        let temperature = Temperature::new(0.3).unwrap();
        let mut chain = [Chain::new(0, temperature, vec![0.1; bowls.dim()], &bowls.layout())];
        run_population(&bowls, &hmc, &Plan { num_steps: 1400, ..plan(0.3) }, &mut chain, &Silent);
        let record = hmc.record(&chain[0].state).unwrap();
        assert!((record.acceptance - asked).abs() < 0.1, "{coordinates} × 4: {record:?}");
        assert!(record.num_gradients > 1400 && record.num_divergences < 20, "{record:?}");
    }
}

/// A step beyond all bounds is rejected and counted; the chain stays where it is.
#[test]
fn divergent_trajectories_are_counted_and_rejected() {
    let wells = DoubleWells(4);
    let hmc = Hmc { num_warm_up: 0, num_looks: 0, trajectory: 1e4, ..Hmc::default() };
    let mut chain = [Chain::new(0, Temperature::new(1.0).unwrap(), vec![1.0; 4], &wells.layout())];
    chain[0].state.adapted.step_size = 100.0;
    run_population(&wells, &hmc, &Plan { num_steps: 20, ..plan(1.0) }, &mut chain, &Silent);
    let [chain] = chain;
    assert_eq!(hmc.record(&chain.state).unwrap().num_divergences, 20);
    assert_eq!((chain.divergence, chain.state.position), (None, vec![1.0; 4]));
    assert!(chain.state.momentum.iter().all(|m| m.is_finite()));
}
