//! Rows that count other than once: a whole weight is that of as many equal rows, in every likelihood and evaluator.

use kelvin::data::{Examples, Targets};
use kelvin::likelihood::{Likelihood, TargetKind};
use kelvin::network::{Mode, Network, Rows};
use kelvin::potential::{Batch, Posterior, Potential, TemperedModel};
use kelvin::prior::IsotropicGaussian;
use kelvin::random::{NoiseKey, Purpose};

const ROWS: usize = 37;
const FEATURES: usize = 3;
const LIKELIHOODS: [Likelihood; 10] = [
    Likelihood::Gaussian { noise_variance: 0.2 },
    Likelihood::LearnedGaussian,
    Likelihood::VaryingGaussian,
    Likelihood::StudentT,
    Likelihood::VaryingStudentT,
    Likelihood::LogNormal { log_mean: 0.3, log_std: 0.8 },
    Likelihood::PowerNormal { power: 0.4, mean: 0.3, std: 0.8 },
    Likelihood::Poisson { log_mean: 0.7 },
    Likelihood::NegativeBinomial { log_mean: 0.7 },
    Likelihood::Categorical { num_classes: 3 },
];

/// Rows whose answers suit a likelihood: all are counts from 1 to 3, or classes.
fn examples(likelihood: Likelihood) -> Examples {
    let mut inputs = vec![0.0; ROWS * FEATURES];
    NoiseKey { seed: 8, purpose: Purpose::Split, chain: 0, step: 0 }.fill_normal(&mut inputs);
    let targets = match likelihood.kind() {
        TargetKind::Numbers => Targets::Real((0..ROWS).map(|row| (1 + row * row % 3) as f32).collect()),
        TargetKind::Classes { .. } => Targets::Classes((0..ROWS as u32).map(|row| row * row % 3).collect()),
    };
    Examples { inputs: inputs.into(), num_features: FEATURES, targets }
}

fn posterior(network: &Network, likelihood: Likelihood, examples: &Examples) -> Posterior {
    Posterior::new(network, likelihood, IsotropicGaussian::new(0.5).unwrap(), examples).unwrap()
}

/// 0, 1, 2, 3, 0, …
fn whole(row: usize) -> u32 {
    (row % 4) as u32
}

fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 2e-4 * (1.0 + a.abs().max(b.abs()))
}

#[test]
fn whole_weights_are_those_of_repeated_rows() {
    for likelihood in LIKELIHOODS {
        for hidden in [&[8][..], &[5, 4], &[]] {
            let network = Network::dense(FEATURES, hidden, likelihood.num_outputs()).unwrap();
            let once = examples(likelihood);
            let listed: Vec<u32> = (0..ROWS).flat_map(|row| vec![row as u32; whole(row) as usize]).collect();
            let repeated = posterior(&network, likelihood, &once.these(&listed));
            let weights: Vec<f32> = (0..ROWS).map(|row| whole(row) as f32).collect();
            let weighed = posterior(&network, likelihood, &once).with_row_weights(&weights).unwrap();
            let position = repeated.initial_position(3, 1);
            let of = |posterior: &Posterior, rows: Rows<'_>, beta: f64| {
                let (mut gradient, mut work) = (vec![0.0; position.len()], posterior.workspace());
                let found =
                    posterior.tempered_gradient(&position, rows, Mode::Training, beta, &mut gradient, &mut work);
                let energy = posterior.evaluate(&position, Batch::ALL, &mut vec![0.0; position.len()], &mut work);
                let gradient = gradient.into_iter().map(f64::from);
                [found.value, found.log_beta_gradient, energy].into_iter().chain(gradient).collect::<Vec<_>>()
            };
            let beta = 1.7;
            let (found, expected) = (of(&weighed, Rows::All, beta), of(&repeated, Rows::All, beta));
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!(is_close(*found, *expected), "{likelihood:?}, {hidden:?}, {at}: {found} {expected}");
            }
            // A batch knows its rows by their numbers.
            let in_weighed = [6, 1, 2];
            let list: Vec<u32> =
                (0u32..).zip(&listed).filter(|(_, row)| in_weighed.contains(row)).map(|(place, _)| place).collect();
            let (found, expected) =
                (of(&weighed, Rows::These(&in_weighed), beta), of(&repeated, Rows::These(&list), beta));
            for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!(is_close(*found, *expected), "{likelihood:?}, {hidden:?}, batch, {at}: {found} {expected}");
            }
        }
    }
}

/// Of a line: Σ w x²/σ² + 1/τ², on average over random signs and targets. 4000 squares of normal numbers have a mean of a standard error of 2.2 %; the
/// seeds are fixed, the band is five of them, and without weights the numbers would be a third of these or less.
#[test]
fn squared_scores_have_the_weighed_curvature_as_their_mean() {
    const DRAWS: u64 = 4000;
    let network = Network::dense(FEATURES, &[], 1).unwrap();
    let likelihood = Likelihood::Gaussian { noise_variance: 0.2 };
    let examples = examples(likelihood);
    let weights: Vec<f32> = (0..ROWS).map(|row| 3.0 + 0.5 * whole(row) as f32).collect();
    let posterior = posterior(&network, likelihood, &examples).with_row_weights(&weights).unwrap();
    let position = posterior.initial_position(0, 0);
    let (mut work, mut diagonal) = (posterior.workspace(), vec![0.0; position.len()]);
    let mut means = vec![0.0; position.len()];
    for step in 0..DRAWS {
        let key = NoiseKey { seed: 5, purpose: Purpose::Curvature, chain: 0, step };
        assert!(posterior.gauss_newton_diagonal(&position, Batch::ALL, key, &mut diagonal, &mut work));
        means.iter_mut().zip(&diagonal).for_each(|(mean, value)| *mean += f64::from(*value) / DRAWS as f64);
    }
    let inputs = examples.inputs.numbers();
    for (feature, mean) in means.iter().enumerate() {
        let rows = inputs.chunks_exact(FEATURES).zip(&weights);
        let x = |row: &[f32]| row.get(feature).map_or(1.0, |&x| f64::from(x));
        let expected = rows.map(|(row, &w)| f64::from(w) * x(row).powi(2) / 0.2).sum::<f64>() + 2.0;
        assert!((mean / expected - 1.0).abs() < 0.11, "{feature}: {mean} {expected}");
    }
}

#[test]
fn weights_that_make_no_sense_are_refused() {
    let network = Network::dense(FEATURES, &[4], 1).unwrap();
    let likelihood = Likelihood::Gaussian { noise_variance: 0.2 };
    let refused = |weights: &[f32]| {
        let posterior = posterior(&network, likelihood, &examples(likelihood));
        posterior.with_row_weights(weights).err().unwrap().to_string()
    };
    assert_eq!(refused(&[1.0]), format!("1 weights were given for {ROWS} rows; give one for each"));
    let mut weights = [1.0; ROWS];
    weights[3] = -2.0;
    assert!(refused(&weights).ends_with("that of row 3 (from 0) is -2"), "{}", refused(&weights));
    weights[3] = f32::NAN;
    assert!(refused(&weights).contains("that of row 3 (from 0) is NaN"));
    assert!(refused(&[0.0; ROWS]).contains("all are 0"));
}
