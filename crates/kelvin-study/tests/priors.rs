//! Priors as settings: chains of a network that hardly sees its data have the prior's moments.

use kelvin::sampler::Silent;
use kelvin_study::experiment::{ChainSpec, Experiment, Slot};
use kelvin_study::problem::Problem;
use kelvin_study::settings::{PriorName, preset};

const VARIANCE: f64 = 0.1;

#[test]
fn chains_without_information_are_draws_of_the_prior() {
    // (prior, variance of the first kernel, mean size of a bias over its standard deviation)
    let laplace = 0.5f64.sqrt();
    let gaussian = (2.0 / std::f64::consts::PI).sqrt();
    // Student-t with k = 5: E|t|/sd = 2 √(k−2) Γ((k+1)/2) / ((k−1) √π Γ(k/2)).
    let student = 0.7351;
    for (prior, kernel, size) in [
        (PriorName::Gaussian, VARIANCE, gaussian),
        (PriorName::Layerwise, VARIANCE / 8.0, gaussian),
        (PriorName::Laplace, VARIANCE, laplace),
        (PriorName::StudentT, VARIANCE, student),
    ] {
        let mut settings = preset("concrete").unwrap().settings();
        settings.model.hidden = Some(vec![8]);
        settings.model.noise_variance = 1e6;
        settings.model.prior = prior;
        let sampler = &mut settings.sampler;
        (sampler.learning_rate, sampler.momentum) = (0.3, 0.95);
        (sampler.ramp_start, sampler.ramp_end, sampler.burn_in) = (0, 0, 2000);
        (sampler.epochs, sampler.cycle) = (22_000, 50);
        let problem = Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap();
        let experiment = Experiment::new(problem, settings).unwrap();
        let spec = |repetition| ChainSpec {
            label: "prior".into(),
            repetition,
            slot: Slot::Bayes,
            inverse_temperature: 1.0,
            start: None,
        };
        let chains = experiment.sample(&[spec(0), spec(1)], &Silent).unwrap();
        let (mut squares, mut sizes) = (Vec::new(), Vec::new());
        for chain in &chains {
            let lot = chain.draws.all().unwrap();
            for weights in lot.iter() {
                squares.extend(weights.parameters[..64].iter().map(|&theta| f64::from(theta).powi(2)));
                sizes.extend(weights.parameters[64..72].iter().map(|&theta| f64::from(theta).abs()));
            }
        }
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let found = (mean(&squares) / kernel, mean(&sizes) / VARIANCE.sqrt() / size);
        assert!((found.0 - 1.0).abs() < 0.1, "{prior:?}: variance {}", found.0);
        assert!((found.1 - 1.0).abs() < 0.1, "{prior:?}: size {}", found.1);
    }
}
