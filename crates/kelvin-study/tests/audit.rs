//! The audit: exact HMC beside a sampler's chains, on a network small enough to be audited in seconds.

use std::ops::ControlFlow;

use kelvin::sampler::{Integrator, Observer, Silent};
use kelvin_study::error::ExperimentError;
use kelvin_study::experiment::{Agreement, AuditPlan, ChainGroup, ChainSpec, Experiment, SampledChain, Slot};
use kelvin_study::problem::Problem;
use kelvin_study::settings::{BatchSize, Settings, preset};

const BETAS: [f64; 2] = [0.1, 1.0];

fn settings() -> Settings {
    let mut settings = preset("concrete").unwrap().settings();
    settings.model.hidden = Some(vec![4]);
    settings.model.noise_variance = 0.2;
    let sampler = &mut settings.sampler;
    (sampler.integrator, sampler.adapt) = (Integrator::Baoab, true);
    (sampler.ramp_start, sampler.ramp_end, sampler.burn_in) = (0, 0, 4000);
    (sampler.epochs, sampler.cycle) = (16_000, 40);
    settings
}

fn experiment(settings: Settings) -> Experiment {
    let problem = Problem::new(Problem::read_dataset(&settings, None).unwrap(), &settings).unwrap();
    Experiment::new(problem, settings).unwrap()
}

fn sampled(experiment: &Experiment) -> Vec<SampledChain> {
    let spec = |(group, beta): (usize, f64), repetition| ChainSpec {
        label: format!("β = {beta}"),
        repetition,
        slot: Slot::Grid(group as u32),
        inverse_temperature: beta,
        start: None,
    };
    let betas = || BETAS.into_iter().enumerate();
    let specs: Vec<_> = betas().flat_map(|of| (0..3).map(move |repetition| spec(of, repetition))).collect();
    experiment.sample(&specs, &Silent).unwrap()
}

fn groups(chains: &[SampledChain]) -> Vec<ChainGroup<'_>> {
    BETAS
        .into_iter()
        .zip(chains.chunks(3))
        .map(|(beta, chains)| ChainGroup {
            label: format!("β = {beta}"),
            inverse_temperature: beta,
            chains: chains.iter().collect(),
        })
        .collect()
}

/// With a smooth enough posterior, chains of the adaptive sampler and exact ones say the same; there are more of the latter, so that one starts at a draw.
#[test]
fn an_audit_of_chains_that_are_right() {
    let experiment = experiment(settings());
    let chains = sampled(&experiment);
    let plan = AuditPlan { num_chains: 4, gradients: 30_000, most_draws: 300, ..AuditPlan::default() };
    let cost = experiment.audit_cost(BETAS.len(), &plan).unwrap();
    assert_eq!((cost.gradients, cost.multiply_adds_per_gradient), (240_000, 3 * 824 * 36));
    let rows = experiment.audit(&groups(&chains), &plan, &Silent).unwrap();
    let again = experiment.audit(&groups(&chains), &plan, &Silent).unwrap();
    assert_eq!(rows, again, "named by the seed");
    let spent: u64 = rows.iter().map(|row| row.hmc.num_gradients).sum();
    assert!(spent.abs_diff(cost.gradients) < cost.gradients / 10, "{spent} of {}", cost.gradients);
    for row in &rows {
        assert!((0.7..0.95).contains(&row.hmc.acceptance), "{row:?}");
        assert!(row.exact.num_chains == 4 && row.exact.num_draws > 4 * 100, "{row:?}");
        assert!(row.exact.lpd_bias.standard < 0.0 && row.exact.energy_error_by_ess > 0.0, "{row:?}");
        assert_ne!(row.comparison.potential_energy.agreement, Agreement::Differ, "{}", row.sentence);
        assert_ne!(row.comparison.lpd.standard.agreement, Agreement::Differ, "{}", row.sentence);
        assert_ne!(row.comparison.point_metric.agreement, Agreement::Differ, "{}", row.sentence);
    }
    let text = serde_json::to_string(&rows).unwrap();
    assert_eq!(serde_json::from_str::<Vec<kelvin_study::experiment::AuditRow>>(&text).unwrap(), rows);
}

/// Chains at half the temperature that is claimed for them are found out.
#[test]
fn an_audit_of_chains_that_are_too_cold() {
    let experiment = experiment(settings());
    let mut chains = sampled(&experiment);
    chains.drain(..3);
    let beta = 0.5 * BETAS[1];
    let group = [ChainGroup { label: "too cold".into(), inverse_temperature: beta, chains: chains.iter().collect() }];
    let plan = AuditPlan { num_chains: 4, gradients: 30_000, most_draws: 300, ..AuditPlan::default() };
    let rows = experiment.audit(&group, &plan, &Silent).unwrap();
    let found = &rows[0].comparison;
    assert_eq!(found.lpd.tempered.agreement, Agreement::Differ, "{}", rows[0].sentence);
    // 41 parameters have about 20 more of U at twice the temperature.
    assert!(found.potential_energy.difference.value < -10.0, "{}", rows[0].sentence);
}

/// Stops at once.
struct Stop;

impl Observer for Stop {
    fn advanced(&self, _: usize, _: u64) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

#[test]
fn it_can_be_stopped() {
    let experiment = experiment(settings());
    let chains = sampled(&experiment);
    let stopped = experiment.audit(&groups(&chains), &AuditPlan::default(), &Stop);
    assert!(matches!(stopped, Err(ExperimentError::Interrupted)));
}

#[test]
fn what_it_cannot_audit_it_refuses_with_the_reason() {
    let refused = |settings: Settings| {
        let error = experiment(settings).audit_cost(3, &AuditPlan::default()).unwrap_err();
        assert!(error.is_wrong_question());
        error.to_string()
    };
    let mut minibatch = settings();
    (minibatch.sampler.batch_size, minibatch.sampler.adapt) = (BatchSize::Rows(64), false);
    let reason = refused(minibatch);
    assert!(reason.starts_with("the exact audit does not apply here") && reason.contains("64 of 824"), "{reason}");
    let mut wide = settings();
    wide.model.hidden = Some(vec![512, 512]);
    let reason = refused(wide);
    assert!(reason.contains("multiply-adds") && reason.contains("6000000 times"), "{reason}");
}
