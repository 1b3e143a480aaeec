//! Selectors on linear regressions, whose posteriors are sampled exactly and whose LPD is known at every β.

use crate::support::conjugate::{ConjugateLaboratory, LinearProblem};
use crate::support::{Golden, assert_close};
use kelvin::data::Targets;
use kelvin::diagnostics::Warning;
use kelvin::exact::{Gaussian, LinearRegression, Objective};
use kelvin::held_out::HeldOut;
use kelvin::predictive::PredictiveModel;
use kelvin::selection::{
    ChainDensities, Criterion, Direction, Goal, GridSelector, HeldOutDraws, IntervalMeaning, Laboratory, LpdSlope,
    MeasuredGrid, RefineSelector, SampledStart, SelectionError, Selector, reweighting_ess,
};
use kelvin::temperature::Tempering;

const MODELS: [(PredictiveModel, Objective); 2] =
    [(PredictiveModel::Standard, Objective::StandardModel), (PredictiveModel::Tempered, Objective::TemperedModel)];
const GRID: [f64; 7] = [0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0];

/// The noise is three times what the model believes, so that the tempered model's best β is near 1/3.
fn noisier_than_believed() -> LinearProblem {
    LinearProblem::new(5, 3, [80, 100], 0.15, 0.05)
}

/// Lemma B from given draws: the same numbers as the reference.
#[test]
fn slopes_from_draws_agree_with_the_reference() {
    let Some(golden) = Golden::open("lemma_grad_lpd.safetensors") else { return };
    let num_features = golden.shape("X")[1];
    let (inputs, targets) = (golden.f64s("X"), golden.f64s("y"));
    let (test_inputs, test_targets) = (golden.f64s("X_test"), golden.f64s("y_test"));
    let (noise_variance, prior_variance) = (golden.scalar("sigma2"), golden.scalar("sigma_p2"));
    let log_normal = |residual: f64, variance: f64| {
        -0.5 * (std::f64::consts::TAU * variance).ln() - residual * residual / (2.0 * variance)
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let mut chain = ChainDensities::default();
    for theta in golden.f64s("samples.theta").chunks_exact(num_features) {
        let rows = inputs.chunks_exact(num_features).zip(&targets);
        let likelihood: f64 = rows.map(|(x, y)| log_normal(y - dot(x, theta), noise_variance)).sum();
        chain.log_joint.push(likelihood + theta.iter().map(|&t| log_normal(t, prior_variance)).sum::<f64>());
        for (x, y) in test_inputs.chunks_exact(num_features).zip(&test_targets) {
            chain.log_densities.push(log_normal(y - dot(x, theta), noise_variance));
            chain.slopes.push(0.0);
        }
    }
    assert_close("log_joint", &chain.log_joint, &golden.f64s("samples.expected.log_joint"), 1e-9);
    let beta = golden.scalar("samples.beta");
    let found = LpdSlope::new(beta, &[chain]).unwrap();
    assert_close("per point", &found.per_row, &golden.f64s("samples.expected.estimate_per_point"), 1e-9);
    assert_close("estimate", &[found.slope], &[golden.scalar("samples.expected.estimate")], 1e-9);
    // A block jackknife of the same draws (100 blocks) gives 0.00635; the reference states 0.00505, by a way of its own.
    let error = found.chain_error.unwrap();
    assert!((error / 0.00635 - 1.0).abs() < 0.1, "{error}");
    let exact = golden.scalar("samples.exact");
    assert!((found.slope - exact).abs() < 5.0 * found.chain_error.unwrap());
}

/// |z| < 5 at each of six temperatures and both models; weights of slopes 5 % off must fail somewhere.
#[test]
fn slopes_agree_with_the_closed_form() {
    let problem = noisier_than_believed();
    let laboratory = ConjugateLaboratory::new(&problem, 4, 2000);
    let (inputs, targets) = problem.design(&problem.validation);
    let exact_slope = |objective, beta: f64| {
        let rows = inputs.chunks_exact(4).zip(&targets);
        let slope = |(x, &y): (&[f64], &f64)| laboratory.exact.log_density_slope(objective, x, y, beta);
        rows.map(slope).sum::<f64>() / targets.len() as f64
    };
    let mut most = 0.0f64;
    for beta in [0.1, 0.2, 0.4, 1.0, 3.0, 10.0] {
        let draws = laboratory.sample(&[beta]).unwrap().remove(0);
        let held_out =
            HeldOutDraws::new(&laboratory, laboratory.validation(), beta, SampledStart::draws_of(&draws)).unwrap();
        for (model, objective) in MODELS {
            let found = LpdSlope::new(beta, &held_out.densities(model, beta)).unwrap();
            let exact = exact_slope(objective, beta);
            let z = (found.slope - exact) / found.chain_error.unwrap();
            assert!(z.abs() < 5.0, "β = {beta}, {model:?}: {} instead of {exact}, z = {z}", found.slope);
            let lpd = laboratory.exact_lpd(objective, beta);
            assert!((found.lpd - lpd).abs() < 0.01, "β = {beta}, {model:?}: {} instead of {lpd}", found.lpd);
            most = most.max((found.slope - 1.05 * exact).abs() / found.chain_error.unwrap());
            let expected = if found.slope.abs() < 2.0 * found.standard_error() {
                Direction::Flat
            } else if beta < laboratory.exact_best(objective) {
                Direction::Colder
            } else {
                Direction::Warmer
            };
            assert_eq!(found.direction(), expected, "β = {beta}, {model:?}");
        }
    }
    assert!(most > 5.0, "a wrong slope would pass: {most}");
    assert_eq!(Direction::Warmer.to_string(), "warmer: a smaller β would predict better");
}

/// Where only the likelihood is tempered, J is log p(D|θ) and the posterior mean moves with β. The prior is narrow and rows are few,
/// so that it matters: slopes agree with the closed form (|z| < 5), and those by log p(D, θ) fail.
#[test]
fn slopes_of_a_tempered_likelihood_agree_with_the_closed_form() {
    let problem = LinearProblem { prior_variance: 0.1, ..LinearProblem::new(5, 3, [12, 100], 0.15, 0.05) };
    let joint = ConjugateLaboratory::new(&problem, 4, 2000);
    let mut laboratory = ConjugateLaboratory::new(&problem, 4, 2000);
    laboratory.tempering = Tempering::Likelihood;
    let (inputs, targets) = problem.design(&problem.validation);
    let exact_lpd = |model: PredictiveModel, beta: f64| {
        let exact = problem.exact_with_noise(problem.noise_variance / beta);
        let variance = problem.noise_variance / model.power(beta);
        let log_density = |(x, &y): (&[f64], &f64)| {
            let mean = x.iter().zip(exact.mean()).map(|(x, theta)| x * theta).sum();
            Gaussian { mean, variance: variance + exact.spread(x, 1.0) }.log_density(y)
        };
        inputs.chunks_exact(4).zip(&targets).map(log_density).sum::<f64>() / targets.len() as f64
    };
    let mut most = 0.0f64;
    for beta in [0.1, 0.2, 0.4, 1.0] {
        let draws = laboratory.sample(&[beta]).unwrap().remove(0);
        let held_out =
            HeldOutDraws::new(&laboratory, laboratory.validation(), beta, SampledStart::draws_of(&draws)).unwrap();
        let by_joint = HeldOutDraws::new(&joint, joint.validation(), beta, SampledStart::draws_of(&draws)).unwrap();
        for model in PredictiveModel::BOTH {
            let found = LpdSlope::new(beta, &held_out.densities(model, beta)).unwrap();
            let exact = (exact_lpd(model, 1.001 * beta) - exact_lpd(model, 0.999 * beta)) / (0.002 * beta);
            let z = (found.slope - exact) / found.chain_error.unwrap();
            assert!(z.abs() < 5.0, "β = {beta}, {model:?}: {} instead of {exact}, z = {z}", found.slope);
            let lpd = exact_lpd(model, beta);
            assert!((found.lpd - lpd).abs() < 0.02, "β = {beta}, {model:?}: {} instead of {lpd}", found.lpd);
            let wrong = LpdSlope::new(beta, &by_joint.densities(model, beta)).unwrap();
            most = most.max((wrong.slope - exact).abs() / wrong.chain_error.unwrap());
        }
    }
    assert!(most > 5.0, "slopes by log p(D, θ) would pass: {most}");

    // At the training rows themselves, densities of a draw add up to its J.
    let draws = laboratory.sample(&[0.3]).unwrap().remove(0);
    let training = HeldOut::new(&problem.network(), &problem.train);
    let at_training = HeldOutDraws::new(&laboratory, &training, 0.3, SampledStart::draws_of(&draws)).unwrap();
    for chain in at_training.densities(PredictiveModel::Standard, 0.3) {
        for (joint, rows) in chain.log_joint.iter().zip(chain.log_densities.chunks_exact(12)) {
            let sum: f64 = rows.iter().sum();
            assert!((joint - sum).abs() < 1e-4 * (1.0 + sum.abs()), "{joint} {sum}");
        }
    }
}

#[test]
fn draws_stand_for_nearby_temperatures_while_their_weights_are_worth_enough() {
    let problem = noisier_than_believed();
    let laboratory = ConjugateLaboratory::new(&problem, 2, 4000);
    let draws = laboratory.sample(&[0.2]).unwrap().remove(0);
    let held_out =
        HeldOutDraws::new(&laboratory, laboratory.validation(), 0.2, SampledStart::draws_of(&draws)).unwrap();
    let densities = held_out.densities(PredictiveModel::Standard, 0.2);
    // U is Gamma(d/2) with rate β, so that ESS/S = ((1 + 2r)/(1 + r)²)^(d/2) at β (1 + r); d = 4.
    for ratio in [-0.2f64, 0.3] {
        let expected = ((1.0 + 2.0 * ratio) / (1.0 + ratio).powi(2)).powi(2);
        let found = reweighting_ess(&densities, 0.2, 0.2 * (1.0 + ratio)) / 8000.0;
        assert!((found / expected - 1.0).abs() < 0.05, "{found} {expected}");
        let at = 0.2 * (1.0 + ratio);
        for (model, objective) in MODELS {
            let moved = LpdSlope::reweighted(0.2, at, &held_out.densities(model, at)).unwrap();
            assert!((moved.lpd - laboratory.exact_lpd(objective, at)).abs() < 0.01, "{model:?} {at}");
        }
    }
    assert!(reweighting_ess(&densities, 0.2, 20.0) < 200.0);
}

#[test]
fn a_grid_finds_the_best_and_says_how_well_it_is_known() {
    let problem = noisier_than_believed();
    let laboratory = ConjugateLaboratory::new(&problem, 2, 1500);
    let measured = MeasuredGrid::new(&laboratory, &GRID).unwrap();
    assert_eq!((measured.cost.chains, measured.judged.len()), (14.0, 7));
    for (model, objective) in MODELS {
        let selector = GridSelector { inverse_temperatures: GRID.to_vec(), criterion: Criterion::Lpd, model };
        let selection = selector.choose(&measured).unwrap();
        let best = laboratory.exact_best(objective);
        let score = |beta| laboratory.exact_lpd(objective, beta);
        let on_grid = GRID.into_iter().max_by(|&a, &b| score(a).total_cmp(&score(b))).unwrap();
        assert!(score(selection.inverse_temperature) > score(on_grid) - 0.01, "{model:?}");
        assert!((selection.inverse_temperature / best).ln().abs() < 0.6, "{} {best}", selection.inverse_temperature);
        let [flat, credible] = selection.intervals[..] else { panic!("two intervals") };
        assert_eq!(flat.meaning, IntervalMeaning::Flat);
        assert_eq!(credible.meaning, IntervalMeaning::Credible { probability: 0.9 });
        for interval in [flat, credible] {
            assert!(interval.low < best && best < interval.high, "{model:?} {interval:?} {best}");
        }
        assert!(selection.warnings.is_empty());
    }
    // All grid points have nearly the same mean prediction, so the point error is nearly flat; coverage is not.
    let by =
        |criterion| GridSelector { inverse_temperatures: GRID.to_vec(), criterion, model: PredictiveModel::Tempered };
    let coverage = by(Criterion::Coverage).choose(&measured).unwrap();
    assert!((0.05..0.6).contains(&coverage.inverse_temperature), "{}", coverage.inverse_temperature);
    assert!(by(Criterion::PointError).choose(&measured).is_ok());
    let refused = by(Criterion::Ece).select(&laboratory).unwrap_err();
    assert!(matches!(refused, SelectionError::DoesNotSuit { .. }));
    assert!(refused.to_string().contains("grid-ece-tm cannot choose a temperature here"), "{refused}");
    // A grid that ends before the best is told so.
    let selector = GridSelector { inverse_temperatures: vec![1.0, 3.0, 10.0], ..by(Criterion::Lpd) };
    let edge = selector.select(&laboratory).unwrap();
    assert_eq!((edge.inverse_temperature, edge.warnings.len()), (1.0, 1));
}

fn refining_finds_the_maximum_from(factor: f64) {
    let problem = noisier_than_believed();
    let laboratory = ConjugateLaboratory::new(&problem, 2, 2000);
    for (model, objective) in MODELS {
        let best = laboratory.exact_best(objective);
        let score = |beta| laboratory.exact_lpd(objective, beta);
        let start = factor * best;
        let selector = RefineSelector { start: Some(start), ..RefineSelector::new(model) };
        let refined = selector.refine(&laboratory, start).unwrap();
        let found = refined.inverse_temperature;
        assert!(score(best) - score(found) < 2e-3, "{model:?} from {start}: {found} instead of {best}");
        assert!(refined.converged && refined.visits.len() <= 5, "{model:?} from {start}");
    }
}

#[test]
fn refining_finds_the_maximum_from_far_below() {
    refining_finds_the_maximum_from(0.125);
}

#[test]
fn refining_finds_the_maximum_from_below() {
    refining_finds_the_maximum_from(2.0 / 3.0);
}

#[test]
fn refining_stays_at_the_maximum() {
    refining_finds_the_maximum_from(1.0);
}

#[test]
fn refining_finds_the_maximum_from_above() {
    refining_finds_the_maximum_from(1.5);
}

#[test]
fn refining_finds_the_maximum_from_far_above() {
    refining_finds_the_maximum_from(8.0);
}

#[test]
fn a_refined_selection_says_what_it_took() {
    let problem = noisier_than_believed();
    let laboratory = ConjugateLaboratory::new(&problem, 2, 2000);
    for (model, objective) in MODELS {
        let start = 1.5 * laboratory.exact_best(objective);
        let selector = RefineSelector { start: Some(start), ..RefineSelector::new(model) };
        let (refined, selection) =
            (selector.refine(&laboratory, start).unwrap(), selector.select(&laboratory).unwrap());
        let chains = 2.0 + (refined.visits.len() - 1) as f64;
        assert_eq!((selection.inverse_temperature, selection.cost.chains), (refined.inverse_temperature, chains));
        assert!(selection.warnings.is_empty() && selection.goal == Goal::PredictiveDensity(model), "{selection:?}");
    }
}

/// One temperature from far away is no maximum, on either side; the chain's own β is all there is to say.
#[test]
fn a_refinement_that_is_cut_says_that_it_is() {
    let problem = noisier_than_believed();
    let laboratory = ConjugateLaboratory::new(&problem, 2, 2000);
    for (model, objective) in MODELS {
        for factor in [0.05, 20.0] {
            let start = factor * laboratory.exact_best(objective);
            let selector = RefineSelector { start: Some(start), most_chains: 1, ..RefineSelector::new(model) };
            let refined = selector.refine(&laboratory, start).unwrap();
            assert_eq!((refined.visits.len(), refined.row_gradients, refined.converged), (1, 2.0, false));
            assert_eq!(refined.visits[0].slope > 0.0, factor < 1.0);
            let selection = selector.select(&laboratory).unwrap();
            assert_eq!(selection.inverse_temperature, start, "{model:?} {factor}");
            let warned = |warning: &Warning| matches!(*warning, Warning::SelectionNotConverged { beta, num_checkpoints: 1 } if beta == start);
            assert!(selection.warnings.iter().any(warned), "{:?}", selection.warnings);
        }
    }
}

/// Held-out rows that are 40 standard deviations away are as likely as the one draw that comes nearest.
#[test]
fn rows_that_hang_on_few_draws_are_doubted() {
    let mut problem = noisier_than_believed();
    let Targets::Real(targets) = &mut problem.validation.targets else { panic!("numbers") };
    targets.iter_mut().for_each(|target| *target += 9.0);
    let laboratory = ConjugateLaboratory::new(&problem, 2, 200);
    let selector = RefineSelector { start: Some(1.0), ..RefineSelector::new(PredictiveModel::Standard) };
    let refined = selector.refine(&laboratory, 1.0).unwrap();
    let few = refined.visits.iter().find(|visit| visit.weights_ess < 10.0).unwrap();
    let selection = selector.select(&laboratory).unwrap();
    let warned = |warning: &Warning| match warning {
        Warning::FewEffectiveWeights { label, ess, num_draws } => {
            let beta = format!("β = {:.3},", few.inverse_temperature);
            label.starts_with(&beta) && *ess == few.weights_ess && *num_draws == few.num_draws
        }
        _ => false,
    };
    assert!(selection.warnings.iter().any(warned), "{:?}", selection.warnings);
}

#[test]
fn chains_are_as_long_as_their_draws() {
    let problem = noisier_than_believed();
    let laboratory = ConjugateLaboratory::new(&problem, 3, 7);
    let draws = laboratory.sample(&[0.4]).unwrap().remove(0);
    let seen = HeldOutDraws::new(&laboratory, laboratory.validation(), 0.4, SampledStart::draws_of(&draws)).unwrap();
    assert_eq!((seen.inverse_temperature(), seen.shortest_chain()), (0.4, 7));
    // The last draws alone are other draws than all of them.
    let by_last = |last| seen.predictive_log_densities(PredictiveModel::Standard, last);
    assert_eq!(by_last(7), by_last(100));
    assert_ne!(by_last(7), by_last(1));
}

#[test]
fn chains_without_draws_are_an_error() {
    let problem = noisier_than_believed();
    let laboratory = ConjugateLaboratory::new(&problem, 0, 0);
    let selector = RefineSelector { start: Some(0.5), ..RefineSelector::new(PredictiveModel::Tempered) };
    let error = selector.select(&laboratory).unwrap_err();
    assert!(matches!(error, SelectionError::NothingFound { method: "refine-tm", .. }), "{error}");
    assert!(error.to_string().contains("no draw at β = 0.5 has a finite density"), "{error}");
}

/// With a tenth of the draws slopes are too rough to lead, and LPD itself leads to the right third.
#[test]
fn where_slopes_are_rough_densities_lead() {
    let problem = noisier_than_believed();
    let laboratory = ConjugateLaboratory::new(&problem, 2, 30);
    let (model, objective) = MODELS[0];
    let best = laboratory.exact_best(objective);
    for start in [best / 4.0, 4.0 * best] {
        let selector = RefineSelector { start: Some(start), ..RefineSelector::new(model) };
        let refined = selector.refine(&laboratory, start).unwrap();
        let (found, score) = (refined.inverse_temperature, |beta| laboratory.exact_lpd(objective, beta));
        assert!(score(found) > score(start) && (found / best).ln().abs() < 0.8, "{start}: {found} instead of {best}");
    }
}

/// By LPD itself β moves by factors of three, uphill first and then beyond either end of what was seen, until the best has neighbours on both sides.
#[test]
fn densities_lead_by_factors_of_three() {
    let problem = noisier_than_believed();
    let laboratory = ConjugateLaboratory::new(&problem, 2, 30);
    let (model, objective) = MODELS[0];
    for factor in [0.2, 1.0, 6.0] {
        let start = factor * laboratory.exact_best(objective);
        let selector = RefineSelector { start: Some(start), ..RefineSelector::new(model) };
        let refined = selector.refine(&laboratory, start).unwrap();
        let places: Vec<f64> =
            refined.visits.iter().map(|visit| (visit.inverse_temperature / start).ln() / 3f64.ln()).collect();
        assert!((places[1] - 1f64.copysign(refined.visits[0].slope)).abs() < 1e-9, "{factor}: {places:?}");
        // What was seen of a grid: where its best lies says where the next β is.
        for seen in 1..places.len() {
            let mut points: Vec<(f64, f64)> =
                places[..seen].iter().copied().zip(refined.visits.iter().map(|visit| visit.lpd)).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let best = (0..seen).max_by(|&a, &b| points[a].1.total_cmp(&points[b].1)).unwrap();
            let (low, high, place) = (points[0].0, points[seen - 1].0, places[seen]);
            let is_right = match best {
                _ if seen == 1 => (place.abs() - 1.0).abs() < 1e-9,
                0 => (place - (low - 1.0)).abs() < 1e-9,
                best if best + 1 == seen => (place - (high + 1.0)).abs() < 1e-9,
                best => place > points[best - 1].0 && place < points[best + 1].0,
            };
            assert!(is_right, "{factor}: {places:?}");
            let is_new = places[..seen].iter().all(|other| (other - place).abs() * 3f64.ln() > 0.25);
            assert!(is_new, "{factor}: {places:?} has one twice");
        }
        let found = (refined.inverse_temperature / start).ln() / 3f64.ln();
        let is_seen = places.iter().any(|place| (place - found).abs() * 3f64.ln() < 0.25);
        assert!(!refined.converged || is_seen, "{factor}: {found} is far from all of {places:?}");
        assert!(places.len() <= 5 && (!refined.converged || places.len() > 2), "{factor}: {places:?}");
        // Two chains, of 1, and each continued for half of that.
        assert_eq!(refined.row_gradients, 2.0 + (places.len() - 1) as f64, "{factor}");
        for most_chains in [1, 2] {
            let cut = RefineSelector { most_chains, ..selector }.refine(&laboratory, start).unwrap();
            assert_eq!((cut.visits.len(), cut.converged), (most_chains, false), "{factor}");
        }
    }
}

/// From the best β with few draws nothing better can be seen, and the search ends where it began.
#[test]
fn what_rows_cannot_tell_apart_is_not_moved() {
    let problem = noisier_than_believed();
    let laboratory = ConjugateLaboratory::new(&problem, 2, 30);
    for (model, objective) in MODELS {
        let best = laboratory.exact_best(objective);
        let selector = RefineSelector { start: Some(best), ..RefineSelector::new(model) };
        assert_eq!(selector.select(&laboratory).unwrap().inverse_temperature, best, "{model:?}");
    }
}

/// The linear model is also what the exact laboratory says it is.
#[test]
fn the_laboratory_draws_from_the_posterior() {
    let problem = noisier_than_believed();
    let laboratory = ConjugateLaboratory::new(&problem, 1, 4000);
    let draws = laboratory.sample(&[0.5]).unwrap().remove(0).remove(0).draws;
    let exact: &LinearRegression = &laboratory.exact;
    let mean_energy = draws.potential_energy.iter().sum::<f64>() / 4000.0;
    // Var U = d/(2β²): four standard errors of the mean.
    let error = 4.0 * (4.0 / (2.0 * 0.25) / 4000.0f64).sqrt();
    assert!((mean_energy + exact.mean_log_joint(0.5)).abs() < error, "{mean_energy}");
}
