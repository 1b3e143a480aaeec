//! An experiment whose noise is learned with the weights.

use kelvin::likelihood::Likelihood;
use kelvin::sampler::Silent;
use kelvin_study::experiment::{ChainSpec, Experiment, Slot};
use kelvin_study::problem::Problem;
use kelvin_study::settings::preset;

const LIKELIHOOD: Likelihood = Likelihood::LearnedGaussian;

/// An experiment whose problem was given this likelihood: chains move, draws are scored with their own noise.
#[test]
fn an_experiment_samples_the_noise_with_the_weights() {
    let mut settings = preset("concrete").unwrap().settings();
    settings.model.hidden = Some(vec![8]);
    let sampler = &mut settings.sampler;
    (sampler.ramp_start, sampler.ramp_end, sampler.burn_in) = (0, 100, 1500);
    (sampler.epochs, sampler.cycle) = (3000, 50);
    let mut problem = Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap();
    problem.likelihood = LIKELIHOOD;
    let experiment = Experiment::new(problem, settings).unwrap();
    let spec = |repetition| ChainSpec {
        label: "noise".into(),
        repetition,
        slot: Slot::Bayes,
        inverse_temperature: 1.0,
        start: None,
    };
    let chains = experiment.sample(&[spec(0)], &Silent).unwrap();
    let lot = chains[0].draws.all().unwrap();
    let variances: Vec<f32> = lot.iter().map(|weights| weights.parameters.last().unwrap().exp()).collect();
    let mean = variances.iter().sum::<f32>() / variances.len() as f32;
    assert!(mean > 0.05 && mean < 0.5, "concrete has noise of about 0.15 of its variance for eight units: {mean}");
    let predictive = experiment.predictive(&experiment.test, 1.0, [&chains[0].draws]).unwrap();
    let lpd = predictive.lpd().unwrap().standard;
    assert!(lpd > -1.2 && lpd < 0.0, "{lpd}");
}
