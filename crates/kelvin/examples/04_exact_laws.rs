//! Shows what a step size costs: the temperature at which SGHMC and BAOA really sample a quadratic, exact and measured.
//!
//! `cargo run --release -p kelvin --example 04_exact_laws`

use std::sync::Mutex;

use kelvin::exact::Quadratic;
use kelvin::potential::{Batch, Potential};
use kelvin::sampler::{Batches, Chain, Integrator, Keep, Langevin, Plan, run_population};
use kelvin::temperature::Temperature;

/// U = Σ θ²/2 over a thousand independent coordinates.
struct Bowl;

impl Potential for Bowl {
    type Workspace = ();

    fn dim(&self) -> usize {
        1_000
    }

    fn evaluate(&self, position: &[f32], _: Batch<'_>, gradient: &mut [f32], (): &mut ()) -> f64 {
        gradient.copy_from_slice(position);
        position.iter().map(|&theta| 0.5 * f64::from(theta * theta)).sum()
    }

    fn workspace(&self) {}
}

/// (E θ², kinetic temperature) of a run at T = 1.
fn measured(integrator: Integrator, learning_rate: f64, momentum: f64) -> (f64, f64) {
    let sampler = Langevin::new(integrator, learning_rate, momentum);
    let keep = Keep { burn_in: 500, every: 1 };
    let plan = Plan { seed: 3, batches: Batches::full(1), num_steps: 4_500, keep };
    let mut chains = [Chain::new(0, Temperature::BAYES, vec![0.0; Bowl.dim()], &Bowl.layout())];
    let sum = Mutex::new((0.0, 0.0));
    run_population(&Bowl, &sampler, &plan, &mut chains, &|_: usize, chain: &Chain| {
        let squares: f64 = chain.state.position.iter().map(|&theta| f64::from(theta * theta)).sum();
        let mut sum = sum.lock().expect("no panic elsewhere");
        *sum = (sum.0 + squares / Bowl.dim() as f64, sum.1 + 1.0);
    });
    let (squares, count) = sum.into_inner().expect("no panic elsewhere");
    (squares / count, chains[0].kinetic_all.mean().expect("readings after the burn-in"))
}

fn main() {
    let bowl = Quadratic { curvature: 1.0, mass: 1.0, temperature: 1.0, gradient_noise_variance: 0.0 };
    let momentum = 0.9;
    println!("U = θ²/2 at T = 1, momentum {momentum}: the temperature of positions and of momenta\n");
    println!("{:>11} {:>8} {:>18} {:>18}", "", "", "positions", "momenta");
    println!("{:>11} {:>8} {:>9}{:>9} {:>9}{:>9}", "integrator", "h", "exact", "measured", "exact", "measured");
    for integrator in [Integrator::Sghmc, Integrator::Baoa] {
        for learning_rate in [0.01, 0.1, 0.5, 1.5, 2.5] {
            let at = integrator.conditions(learning_rate, momentum, Bowl.num_examples(), 1.0, 1.0);
            let law = match integrator {
                Integrator::Baoa => bowl.baoa(at.step_size, at.retained_momentum),
                _ => bowl.symplectic_euler(at.step_size, at.retained_momentum),
            }
            .expect("a stable step");
            let (positions, momenta) = measured(integrator, learning_rate, momentum);
            println!(
                "{:>11} {:>8.3} {:>9.4}{positions:>9.4} {:>9.4}{momenta:>9.4}",
                format!("{integrator:?}"),
                at.step_size,
                law.configurational_temperature,
                law.kinetic_temperature
            );
            assert!((positions / law.configurational_temperature - 1.0).abs() < 0.02);
            assert!((momenta / law.kinetic_temperature - 1.0).abs() < 0.02);
        }
    }
    println!("\nBAOA is exact at every stable step on a quadratic; SGHMC is too hot, its momenta even as h → 0.");
}
