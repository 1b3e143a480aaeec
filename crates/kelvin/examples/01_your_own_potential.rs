//! Samples an energy of your own, a tilted Gaussian valley, with SGHMC at two temperatures: the spread follows T.
//!
//! `cargo run --release -p kelvin --example 01_your_own_potential`

use std::sync::Mutex;

use kelvin::potential::{Batch, Potential};
use kelvin::sampler::{Batches, Chain, Integrator, Keep, Langevin, Plan, run_population};
use kelvin::temperature::Temperature;

/// U(x, y) = (x² − 2ρxy + y²) / (2(1 − ρ²)): at T = 1 two standard normal numbers with correlation ρ.
struct Valley {
    correlation: f32,
}

impl Potential for Valley {
    type Workspace = ();

    fn dim(&self) -> usize {
        2
    }

    fn evaluate(&self, position: &[f32], _: Batch<'_>, gradient: &mut [f32], (): &mut ()) -> f64 {
        let (x, y, rho) = (position[0], position[1], self.correlation);
        let scale = 1.0 / (1.0 - rho * rho);
        gradient[0] = scale * (x - rho * y);
        gradient[1] = scale * (y - rho * x);
        f64::from(0.5 * (x * gradient[0] + y * gradient[1]))
    }

    fn workspace(&self) {}
}

fn main() {
    let valley = Valley { correlation: 0.9 };
    let sampler = Langevin::new(Integrator::Sghmc, 0.01, 0.9);
    let keep = Keep { burn_in: 1_000, every: 20 };
    let plan = Plan { seed: 1, batches: Batches::full(1), num_steps: 41_000, keep };

    println!("{:>12} {:>8} {:>12} {:>8}", "temperature", "draws", "variance", "corr.");
    for temperature in [1.0, 0.1] {
        let at = Temperature::new(temperature).expect("a temperature");
        let mut chains: Vec<Chain> = (0..16).map(|id| Chain::new(id, at, vec![0.0; 2], &valley.layout())).collect();
        let draws = Mutex::new(Vec::new());
        run_population(&valley, &sampler, &plan, &mut chains, &|_: usize, chain: &Chain| {
            draws.lock().expect("no panic elsewhere").push([chain.state.position[0], chain.state.position[1]]);
        });

        let draws = draws.into_inner().expect("no panic elsewhere");
        let mean = |statistic: fn(f64, f64) -> f64| -> f64 {
            draws.iter().map(|draw| statistic(f64::from(draw[0]), f64::from(draw[1]))).sum::<f64>() / draws.len() as f64
        };
        let variance = 0.5 * (mean(|x, _| x * x) + mean(|_, y| y * y));
        let correlation = mean(|x, y| x * y) / variance;
        println!("{temperature:>12} {:>8} {variance:>12.4} {correlation:>8.3}", draws.len());
        assert!((variance / temperature - 1.0).abs() < 0.05, "the variance should be T");
        assert!((correlation - 0.9).abs() < 0.01, "the correlation should not depend on T");
    }
}
