//! Generalized-Bayes selectors see any small model alike: the same answers as written-out algebra for linear models and
//! networks, and what is refused. `logistic_models.rs` has classes.

use crate::support::given::{Given, GivenLaboratory, logistic, normals};
use kelvin::data::{Examples, Targets};
use kelvin::diagnostics::Warning;
use kelvin::exact::LinearRegression;
use kelvin::likelihood::Likelihood;
use kelvin::network::{Evaluator, Network, Weights};
use kelvin::potential::Posterior;
use kelvin::predictive::PredictiveModel;
use kelvin::prior::LayerwiseGaussian;
use kelvin::random::{NoiseKey, Purpose};
use kelvin::selection::{
    BootstrapSpreadSelector, CredibleCoverageSelector, Criterion, EvidenceSelector, GridSelector, GuoSelector,
    InformationGainSelector, PredictionCoverageSelector, SafeBayesSelector, SafeLoss, SelectionError, Selector,
    best_scaling, generalized_selectors,
};
use kelvin::temperature::Tempering;

/// y = sin(a) + b/2 with noise of variance 0.09 where the model says 0.04; `hidden` ReLU units or none.
fn regression(hidden: &[usize], tempering: Tempering) -> Given {
    let rows = |step: u64, count: usize| {
        let inputs = normals(11, step, 2 * count);
        let noise = normals(11, step + 1, count);
        let target = |(x, noise): (&[f32], &f32)| x[0].sin() + 0.5 * x[1] + 0.3 * noise;
        let targets = inputs.chunks_exact(2).zip(&noise).map(target).collect();
        Examples { inputs: inputs.into(), num_features: 2, targets: Targets::Real(targets) }
    };
    let network = Network::dense(2, hidden, 1).unwrap();
    let found = if hidden.is_empty() { Vec::new() } else { network.initial_parameters(4, 0) };
    let likelihood = Likelihood::Gaussian { noise_variance: 0.04 };
    Given { network, likelihood, prior_variance: 0.5, tempering, train: rows(0, 60), validation: rows(2, 30), found }
}

/// A regression as the algebra below sees it: features, and targets less what no parameter moves.
struct Written {
    train: (Vec<f64>, Vec<f64>),
    judged: (Vec<f64>, Vec<f64>),
    d: usize,
    tempering: Tempering,
    is_network: bool,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

impl Written {
    fn new(given: &Given) -> Self {
        let d = given.network.layout().len();
        let is_network = !given.found.is_empty();
        let at: Vec<f64> = if is_network { given.found.iter().map(|&v| f64::from(v)).collect() } else { vec![0.0; d] };
        let Some(Evaluator::Dense(stack)) = given.network.dense_evaluator() else { panic!("dense") };
        let design = |examples: &Examples| {
            let Targets::Real(targets) = &examples.targets else { panic!("numbers") };
            let (mut features, mut left) = (Vec::new(), Vec::new());
            for (input, target) in examples.inputs.numbers().chunks_exact(2).zip(targets) {
                let input: Vec<f64> = input.iter().map(|&x| f64::from(x)).collect();
                let (outputs, slope) = stack.reference(&at, &input, |_, outputs| outputs.fill(1.0));
                left.push(f64::from(*target) - outputs[0] + dot(&slope, &at));
                features.extend(slope);
            }
            (features, left)
        };
        let (train, validation) = (design(&given.train), design(&given.validation));
        let judged = if is_network { validation } else { train.clone() };
        Self { train, judged, d, tempering: given.tempering, is_network }
    }

    /// The fit of listed rows, and β as it counts it.
    fn fit(&self, rows: &[(&[f64], f64)], beta: f64) -> (LinearRegression, f64) {
        let (noise, power) = match self.tempering {
            Tempering::Posterior => (0.04, beta),
            Tempering::Likelihood => (0.04 / beta, 1.0),
        };
        let inputs: Vec<f64> = rows.iter().flat_map(|(x, _)| x.to_vec()).collect();
        let targets: Vec<f64> = rows.iter().map(|(_, y)| *y).collect();
        (LinearRegression::new(&inputs, &targets, self.d, noise, 0.5).unwrap(), power)
    }

    fn rows<'w>(&self, (features, targets): &'w (Vec<f64>, Vec<f64>)) -> Vec<(&'w [f64], f64)> {
        features.chunks_exact(self.d).zip(targets.iter().copied()).collect()
    }

    fn resampled(&self, sample: u32) -> Vec<usize> {
        let key = NoiseKey { seed: 0, purpose: Purpose::Bootstrap, chain: sample, step: 0 };
        (0..60).map(|index| (key.uniform(index) * 60.0) as usize).collect()
    }

    /// Largest β whose share of misses is not above `miss`, by a scan and halving.
    fn border(&self, miss: f64, missed: impl Fn(f64) -> f64) -> f64 {
        let (mut low, mut high) = (1e-6f64.ln(), 1e6f64.ln());
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if missed(middle.exp()) > miss { high = middle } else { low = middle }
        }
        (0.5 * (low + high)).exp()
    }

    fn safe_bayes(&self, loss: SafeLoss) -> f64 {
        let cumulative = |beta: f64| {
            let mut before = if self.is_network { self.rows(&self.train) } else { Vec::new() };
            let mut sum = 0.0;
            for (x, y) in self.rows(&self.judged) {
                let (fit, power) = self.fit(&before, beta);
                let spread = if loss == SafeLoss::Randomised { fit.spread(x, power) } else { 0.0 };
                sum += (y - dot(x, fit.mean())).powi(2) + spread;
                before.push((x, y));
            }
            sum
        };
        let losses: Vec<f64> = (0..=12).map(|step| cumulative(0.5f64.powf(0.5 * f64::from(step)))).collect();
        // Where β moves nothing, the first.
        let least = losses.iter().copied().fold(f64::INFINITY, f64::min);
        let first = losses.iter().position(|loss| *loss < least * (1.0 + 1e-12)).unwrap();
        0.5f64.powf(0.5 * first as f64)
    }

    fn syring_martin(&self, num_samples: u32) -> f64 {
        let all = self.rows(&self.train);
        self.border(0.05, |beta| {
            let (estimate, _) = self.fit(&all, beta);
            let (mut missed, mut count) = (0.0, 0.0);
            for sample in 0..num_samples {
                let rows: Vec<_> = self.resampled(sample).into_iter().map(|row| all[row]).collect();
                let (fit, power) = self.fit(&rows, beta);
                let away: Vec<f64> = estimate.mean().iter().zip(fit.mean()).map(|(a, b)| a - b).collect();
                let squares: Vec<f64> = match self.is_network {
                    false => vec![fit.squared_distance(&away, power)],
                    true => self
                        .rows(&self.judged)
                        .iter()
                        .map(|(x, _)| dot(x, &away).powi(2) / fit.spread(x, power))
                        .collect(),
                };
                // χ²₃ and χ²₁ at 95 %.
                let border = if self.is_network { 3.841_458_820_694_124 } else { 7.814_727_903_251_18 };
                missed += squares.iter().filter(|square| **square > border).count() as f64;
                count += squares.len() as f64;
            }
            missed / count
        })
    }

    fn wu_martin(&self, model: PredictiveModel) -> f64 {
        let all = self.rows(&self.train);
        self.border(0.1, |beta| {
            let (mut missed, mut count) = (0.0, 0.0);
            for sample in 0..50 {
                let drawn = self.resampled(sample);
                let (fit, power) = self.fit(&drawn.iter().map(|&row| all[row]).collect::<Vec<_>>(), beta);
                let judged = match self.is_network {
                    true => self.rows(&self.judged),
                    false => (0..60).filter(|row| !drawn.contains(row)).map(|row| all[row]).collect(),
                };
                for (x, y) in judged {
                    let variance = 0.04 / model.power(beta) + fit.spread(x, power);
                    let square = (y - dot(x, fit.mean())).powi(2) / variance;
                    missed += f64::from(u8::from(square > 2.705_543_454_095_404));
                    count += 1.0;
                }
            }
            missed / count
        })
    }

    /// Networks: Σ tr(Φ H⁻¹ Φᵀ) / Σ tr(Φ H⁻¹ I H⁻¹ Φᵀ) with H⁻¹ = posterior covariance at β = 1.
    fn reweighted_outputs(&self) -> f64 {
        let all = self.rows(&self.train);
        let (fit, _) = Self { tempering: Tempering::Posterior, ..self.copy() }.fit(&all, 1.0);
        let covariance = fit.posterior_covariance(1.0);
        let (mut believed, mut reweighted) = (0.0, 0.0);
        for (x, _) in self.rows(&self.judged) {
            let towards: Vec<f64> = covariance.chunks_exact(self.d).map(|row| dot(row, x)).collect();
            believed += dot(&towards, x);
            let score = |(x, y): &(&[f64], f64)| ((y - dot(x, fit.mean())) / 0.04 * dot(x, &towards)).powi(2);
            reweighted += all.iter().map(score).sum::<f64>();
        }
        believed / reweighted
    }

    fn copy(&self) -> Self {
        Self { train: self.train.clone(), judged: self.judged.clone(), ..*self }
    }

    /// log N(y | 0, σ²/β I + s XXᵀ), s the prior's variance as tempered, by β; where it is largest on a fine lattice.
    fn evidence(&self) -> f64 {
        let all = self.rows(&self.train);
        let value = |log_beta: f64| {
            let beta = log_beta.exp();
            let prior = if self.tempering == Tempering::Posterior { 0.5 / beta } else { 0.5 };
            // Row by row: each answer given those before, Σ log N(y | mean, σ²/β + spread).
            let mut sum = 0.0;
            for (index, (x, y)) in all.iter().enumerate() {
                let inputs: Vec<f64> = all[..index].iter().flat_map(|(x, _)| x.to_vec()).collect();
                let targets: Vec<f64> = all[..index].iter().map(|(_, y)| *y).collect();
                let fit = LinearRegression::new(&inputs, &targets, self.d, 0.04 / beta, prior).unwrap();
                sum += fit.standard_predictive(x, 1.0).log_density(*y);
            }
            sum
        };
        let mut centre = 0.0;
        for width in [1.0, 0.1, 0.01, 0.001] {
            let lattice = (-12..=12).map(|step| centre + 0.25 * width * f64::from(step));
            centre = lattice.max_by(|&a, &b| value(a).total_cmp(&value(b))).unwrap();
        }
        centre.exp()
    }
}

/// Everything that is Gaussian must come out as algebra has it, for a linear regression and for a linearised network.
#[test]
fn gaussian_models_agree_with_written_out_algebra() {
    for tempering in [Tempering::Posterior, Tempering::Likelihood] {
        for hidden in [&[][..], &[3]] {
            let given = regression(hidden, tempering);
            let written = Written::new(&given);
            let agree = |what: &str, selector: &dyn Selector, expected: f64, tolerance: f64| {
                let found = given.select(selector);
                let error = (found / expected - 1.0).abs();
                assert!(error < tolerance, "{what}, {tempering:?}, {hidden:?}: {found} instead of {expected}");
            };
            for loss in [SafeLoss::Randomised, SafeLoss::InModel] {
                agree("safe-bayes", &SafeBayesSelector { loss }, written.safe_bayes(loss), 1e-9);
            }
            let credible = CredibleCoverageSelector { num_samples: 40, ..Default::default() };
            agree("syring-martin", &credible, written.syring_martin(40), 1e-7);
            for model in PredictiveModel::BOTH {
                let selector = PredictionCoverageSelector { model, ..Default::default() };
                agree("wu-martin", &selector, written.wu_martin(model), 1e-7);
            }
            if !hidden.is_empty() {
                agree("bootstrap", &BootstrapSpreadSelector, written.reweighted_outputs(), 1e-9);
            }
            // Posterior tempering of a network takes the checkpoint itself for the mode.
            if hidden.is_empty() || tempering == Tempering::Likelihood {
                agree("evidence", &EvidenceSelector, written.evidence(), 1e-3);
            }
        }
    }
}

/// Under posterior tempering a network's evidence needs its energy at the mode alone: β̂ = n / (2 U₀), of the better of two starts.
#[test]
fn the_evidence_of_a_network_is_that_of_its_mode() {
    let given = regression(&[3], Tempering::Posterior);
    let positions = [given.found.clone(), given.network.initial_parameters(5, 1)];
    let given = Given { found: positions.concat(), ..given };
    let Some(Evaluator::Dense(stack)) = given.network.dense_evaluator() else { panic!("dense") };
    let Targets::Real(targets) = &given.train.targets else { panic!("numbers") };
    let expected = positions.map(|position| {
        let at: Vec<f64> = position.iter().map(|&v| f64::from(v)).collect();
        let square = |(input, target): (&[f32], &f32)| {
            let input: Vec<f64> = input.iter().map(|&x| f64::from(x)).collect();
            let (outputs, _) = stack.reference(&at, &input, |_, outputs| outputs.fill(1.0));
            (f64::from(*target) - outputs[0]).powi(2)
        };
        let inputs = given.train.inputs.numbers();
        let rows = inputs.chunks_exact(2).zip(targets);
        let energy = rows.map(square).sum::<f64>() / (2.0 * 0.04) + dot(&at, &at) / (2.0 * 0.5);
        60.0 / (2.0 * energy)
    });
    let selection = EvidenceSelector.select(&given.laboratory()).unwrap();
    let is_close = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-5;
    assert!(is_close(selection.inverse_temperature, expected[0]), "{selection:?} {expected:?}");
    let [interval] = selection.intervals[..] else { panic!("{selection:?}") };
    assert!(is_close(interval.low, expected[0].min(expected[1])), "{interval:?} {expected:?}");
    assert!(is_close(interval.high, expected[0].max(expected[1])), "{interval:?} {expected:?}");
    // Two searches of half a chain.
    assert_eq!((selection.cost.row_gradients, selection.cost.chains), (1.0, 1.0));
    assert!(selection.warnings.is_empty());

    let prior = LayerwiseGaussian::new(1.0, &given.network.layout()).unwrap();
    let posterior = Posterior::new(&given.network, given.likelihood, prior, &given.train).unwrap();
    let refused = EvidenceSelector.select(&GivenLaboratory { posterior, ..given.laboratory() }).unwrap_err();
    assert!(refused.to_string().contains("a Gaussian prior that β scales"), "{refused}");
}

/// Answers a thousand times smaller than the noise that the model believes want a β beyond a thousand, where it is looked for no more.
#[test]
fn evidence_that_grows_to_the_end_of_its_grid_says_so() {
    let mut given = regression(&[], Tempering::Posterior);
    let Targets::Real(targets) = &mut given.train.targets else { panic!("numbers") };
    targets.iter_mut().for_each(|target| *target *= 1e-3);
    let selection = EvidenceSelector.select(&given.laboratory()).unwrap();
    assert!((selection.inverse_temperature / 1000.0 - 1.0).abs() < 1e-12, "{selection:?}");
    assert!(matches!(selection.warnings[..], [Warning::BetaAtGridEdge { .. }]), "{selection:?}");
}

/// A network of classes, linearised: a method has a finite β or says why there is none.
fn has_an_answer(name: &str) {
    let network = Network::dense(1, &[3], 2).unwrap();
    let found = network.initial_parameters(7, 0);
    let selector = generalized_selectors().into_iter().find(|selector| selector.name() == name).unwrap();
    for tempering in [Tempering::Posterior, Tempering::Likelihood] {
        let given = Given { network: network.clone(), found: found.clone(), ..logistic(60, 1, tempering) };
        match selector.select(&given.laboratory()) {
            Ok(selection) => assert!((1e-6..1e6).contains(&selection.inverse_temperature), "{selection:?}"),
            Err(SelectionError::NothingFound { reason, .. }) => assert!(reason.contains("no β gives"), "{reason}"),
            Err(SelectionError::DoesNotSuit { method: "holmes-walker", reason }) => {
                assert!(reason.contains("classes"), "{reason}");
            }
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

/// A test for each method, and one that none is left out.
macro_rules! networks_of_classes_have_answers {
    ($($test:ident $name:literal)*) => {
        mod networks_of_classes_have_answers {
            use super::has_an_answer;

            $(
                #[test]
                fn $test() {
                    has_an_answer($name);
                }
            )*
        }

        #[test]
        fn every_method_is_asked_about_networks_of_classes() {
            let names: Vec<&str> = generalized_selectors().iter().map(|selector| selector.name()).collect();
            assert_eq!(names, [$($name),*]);
        }
    };
}

networks_of_classes_have_answers! {
    randomised_safe_bayes "safe-bayes"
    safe_bayes_in_model "safe-bayes-in-model"
    information_gain "holmes-walker"
    bootstrap_spread "lyddon-holmes-walker"
    credible_coverage "syring-martin"
    prediction_coverage "wu-martin-sm"
    prediction_coverage_tempered "wu-martin-tm"
    evidence "evidence"
}

#[test]
fn large_networks_and_other_priors_are_refused_with_the_reason() {
    let reason = |given: &Given, selector: &dyn Selector| {
        let refused = selector.select(&given.laboratory()).unwrap_err();
        assert!(matches!(refused, SelectionError::DoesNotSuit { .. }), "{refused}");
        refused.to_string()
    };
    let images = |count: usize| Examples {
        inputs: vec![0.5; 784 * count].into(),
        num_features: 784,
        targets: Targets::Classes(vec![0; count]),
    };
    let cnn = Given {
        network: Network::mnist_cnn(),
        likelihood: Likelihood::Categorical { num_classes: 10 },
        train: images(2),
        validation: images(1),
        ..logistic(2, 1, Tempering::Posterior)
    };
    let wide = Given { network: Network::dense(1, &[1000], 2).unwrap(), ..logistic(50, 1, Tempering::Posterior) };
    let long = Given { network: Network::dense(1, &[400], 2).unwrap(), ..logistic(4000, 1, Tempering::Likelihood) };
    for selector in generalized_selectors() {
        let text = reason(&cnn, selector.as_ref());
        if selector.name() == "holmes-walker" {
            // Of no model of classes, whatever its size.
            assert!(text.contains("it would say β = 1 whatever the data"), "{text}");
            continue;
        }
        assert!(text.contains("dense layers alone") && text.contains("choose by LPD"), "{text}");
        let text = reason(&wide, selector.as_ref());
        assert!(text.contains("1-1000-2 has 3001 of them, and it stops at 2000"), "{text}");
    }
    for selector in [&CredibleCoverageSelector::default() as &dyn Selector, &PredictionCoverageSelector::default()] {
        let text = reason(&long, selector);
        assert!(text.contains("multiplications") && text.contains("sampler.tempering"), "{text}");
    }
    let given = logistic(20, 1, Tempering::Posterior);
    let prior = LayerwiseGaussian::new(1.0, &given.network.layout()).unwrap();
    let posterior = Posterior::new(&given.network, given.likelihood, prior, &given.train).unwrap();
    let laboratory = GivenLaboratory { posterior, ..given.laboratory() };
    let refused = SafeBayesSelector::default().select(&laboratory).unwrap_err().to_string();
    assert!(refused.contains("isotropic Gaussian prior"), "{refused}");
}

/// E_prior |∇f|² (f − y)² over rows, for answers y as likely as the fit says and for those there are: by other draws of the prior than the selector's.
#[test]
fn information_of_a_network_is_a_mean_over_its_prior() {
    let given = regression(&[3], Tempering::Posterior);
    let model = Written::new(&given);
    let (fit, _) = model.fit(&model.rows(&model.train), 1.0);
    let Some(Evaluator::Dense(stack)) = given.network.dense_evaluator() else { panic!("dense") };
    let Targets::Real(targets) = &given.train.targets else { panic!("numbers") };
    let rows: Vec<Vec<f64>> =
        given.train.inputs.numbers().chunks_exact(2).map(|x| x.iter().map(|&x| f64::from(x)).collect()).collect();
    let (mut expected, mut observed) = (0.0, 0.0);
    for draw in 0..4000 {
        let at: Vec<f64> = normals(5, draw, model.d).iter().map(|z| f64::from(*z) * 0.5f64.sqrt()).collect();
        for (row, input) in rows.iter().enumerate() {
            let (outputs, slope) = stack.reference(&at, input, |_, outputs| outputs.fill(1.0));
            let mean = dot(&model.train.0[row * model.d..(row + 1) * model.d], fit.mean());
            let away = outputs[0] - (mean + f64::from(targets[row]) - model.train.1[row]);
            let size = dot(&slope, &slope);
            expected += size * (away * away + 0.04);
            observed += size * (outputs[0] - f64::from(targets[row])).powi(2);
        }
    }
    let exact = (expected / observed).sqrt();
    let found = given.select(&InformationGainSelector);
    assert!((found / exact - 1.0).abs() < 0.03, "{found} {exact}");
}

#[test]
fn coverage_of_classes_is_refused_with_what_to_choose_by() {
    let given = logistic(20, 1, Tempering::Posterior);
    let selector = GridSelector {
        inverse_temperatures: vec![1.0],
        criterion: Criterion::Coverage,
        model: PredictiveModel::Standard,
    };
    let error = selector.select(&given.laboratory()).unwrap_err().to_string();
    assert!(error.contains("choose by ECE or Brier score"), "{error}");
}

/// Of two searches the better one's network is scaled, and both are paid for.
#[test]
fn the_best_start_is_the_one_that_is_scaled() {
    let mut given = logistic(40, 1, Tempering::Posterior);
    // Logits a + b x of the two classes: the first network is unsure, the second all too sure.
    given.found = [[0.1f32, -0.1, 0.05, -0.05], [4.0, -4.0, 1.0, -1.0]].concat();
    let laboratory = given.laboratory();
    let scaled = |position: &[f32]| {
        let weights = Weights { parameters: position, statistics: &[] };
        let outputs = laboratory.validation.outputs(weights);
        best_scaling(given.likelihood, &outputs, laboratory.validation.targets()).inverse_temperature()
    };
    let selection = GuoSelector.select(&laboratory).unwrap();
    assert_eq!(selection.inverse_temperature, scaled(&given.found[..4]));
    assert_ne!(scaled(&given.found[..4]), scaled(&given.found[4..]));
    assert_eq!(selection.cost.chains, 1.0, "two searches, each half a chain");
}
