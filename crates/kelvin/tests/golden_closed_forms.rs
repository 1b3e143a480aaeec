//! The closed forms against tables computed by quadrature, automatic differentiation and Lyapunov equations.

use crate::support::{self, Golden, assert_close};
use kelvin::diagnostics::Discretisation;
use kelvin::exact::{GaussianToy, LinearRegression, Objective, PhaseLaw, Quadratic};
use serde_json::Value;

fn closed_forms() -> Option<Value> {
    let path = support::golden("closed_forms.json")?;
    Some(serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap())
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("no number {name}"))
}

/// Numbers of an array, nested arrays row after row.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        other => vec![other.as_f64().expect("a number")],
    }
}

fn cases<'a>(golden: &'a Value, name: &str) -> &'a Vec<Value> {
    golden[name].as_array().unwrap_or_else(|| panic!("no list {name}"))
}

/// |found − expected| ≤ tolerance · max(1, |expected|).
fn assert_number(case: &Value, name: &str, found: f64, tolerance: f64) {
    let expected = number(case, name);
    let error = (found - expected).abs() / expected.abs().max(1.0);
    assert!(error <= tolerance, "{name}: {found} is not {expected} ({error:.2e} off)");
}

#[test]
fn gaussian_toy() {
    let Some(golden) = closed_forms() else { return };
    for case in cases(&golden, "gaussian_toy") {
        let toy = GaussianToy {
            num_examples: case["n"].as_u64().unwrap(),
            mean_of_examples: number(case, "xbar"),
            model_variance: number(case, "sigma2"),
            prior_variance: number(case, "sigma_p2"),
            true_variance: number(case, "tau2"),
        };
        for (name, found) in
            [("T_star_w2", toy.optimal_temperature_wasserstein()), ("T_star_kl", toy.optimal_temperature_kl())]
        {
            assert_number(case, name, found.formula(), 1e-9);
            let interior = case[format!("{name}_interior")].as_bool().unwrap();
            assert_eq!(found.interior().is_some(), interior, "{name}");
        }
        match toy.optimal_temperature_kl().interior() {
            Some(best) => assert_number(case, "kl_at_T_star_kl", toy.kl_divergence(best), 1e-9),
            None => assert!(case["kl_at_T_star_kl"].is_null()),
        }
        for at in cases(case, "at") {
            let temperature = number(at, "T");
            let (standard, tempered) = (toy.standard_predictive(temperature), toy.tempered_predictive(temperature));
            for (name, found) in [
                ("posterior_mean", toy.posterior(temperature).mean),
                ("posterior_var", toy.posterior(temperature).variance),
                ("sm_mean", standard.mean),
                ("sm_var", standard.variance),
                ("tm_var", tempered.variance),
                ("kl", toy.kl_divergence(temperature)),
                ("w2_squared", toy.squared_wasserstein(temperature)),
                ("lpd_sm", toy.standard_lpd(temperature)),
                ("lpd_tm", toy.tempered_lpd(temperature)),
            ] {
                assert_number(at, name, found, 1e-9);
            }
        }
    }
}

#[test]
fn linear_regression() {
    let Some(golden) = closed_forms() else { return };
    let case = &golden["linear_regression"];
    let num_features = case["d"].as_u64().unwrap() as usize;
    let (inputs, targets) = (numbers(&case["X"]), numbers(&case["y"]));
    let (test_inputs, test_targets) = (numbers(&case["X_test"]), numbers(&case["y_test"]));
    assert_eq!(targets.len() as u64, case["n"].as_u64().unwrap());
    let fit = LinearRegression::new(&inputs, &targets, num_features, number(case, "sigma2"), number(case, "sigma_p2"))
        .unwrap();
    assert_close("posterior_mean", fit.mean(), &numbers(&case["posterior_mean"]), 1e-9);
    assert_close("Sigma", &fit.unit_covariance(), &numbers(&case["Sigma"]), 1e-9);

    for at in cases(case, "at") {
        let beta = number(at, "beta");
        assert_close("posterior_cov", &fit.posterior_covariance(beta), &numbers(&at["posterior_cov"]), 1e-9);
        for (objective, per_point, mean) in [
            (Objective::TemperedModel, "tm_log_density", "tm_lpd"),
            (Objective::StandardModel, "sm_log_density", "sm_lpd"),
            (Objective::LowerBound, "lower_bound_per_point", "lower_bound"),
        ] {
            let rows = test_inputs.chunks_exact(num_features).zip(&test_targets);
            let found: Vec<f64> = rows.map(|(x, &y)| fit.log_density(objective, x, y, beta)).collect();
            assert_close(per_point, &found, &numbers(&at[per_point]), 1e-9);
            assert_number(at, mean, fit.mean_log_density(objective, &test_inputs, &test_targets, beta).unwrap(), 1e-9);
        }
    }
    for (objective, name) in [
        (Objective::TemperedModel, "beta_star_tm"),
        (Objective::StandardModel, "beta_star_sm"),
        (Objective::LowerBound, "beta_star_lower_bound"),
    ] {
        let best = fit.best_inverse_temperature(objective, &test_inputs, &test_targets).unwrap();
        assert_number(case, name, best.unwrap(), 1e-5);
    }
}

#[test]
fn slopes_of_the_linear_regression() {
    let Some(golden) = Golden::open("lemma_grad_lpd.safetensors") else { return };
    let num_features = golden.shape("X")[1];
    let (inputs, targets) = (golden.f64s("X"), golden.f64s("y"));
    let (test_inputs, test_targets) = (golden.f64s("X_test"), golden.f64s("y_test"));
    let (noise_variance, prior_variance) = (golden.scalar("sigma2"), golden.scalar("sigma_p2"));
    let fit = LinearRegression::new(&inputs, &targets, num_features, noise_variance, prior_variance).unwrap();
    let betas = golden.f64s("betas");

    let slopes = |objective| -> Vec<f64> {
        let slope = |&beta: &f64| {
            let rows = test_inputs.chunks_exact(num_features).zip(&test_targets);
            rows.map(move |(x, &y)| (x, y, beta)).collect::<Vec<_>>()
        };
        betas.iter().flat_map(slope).map(|(x, y, beta)| fit.log_density_slope(objective, x, y, beta)).collect()
    };
    let means = |slopes: Vec<f64>| -> Vec<f64> {
        let num_points = test_targets.len();
        slopes.chunks_exact(num_points).map(|row| row.iter().sum::<f64>() / num_points as f64).collect()
    };
    let standard = slopes(Objective::StandardModel);
    assert_close("dlpd_sm per point", &standard, &golden.f64s("expected.dlpd_sm_dbeta_per_point"), 1e-9);
    assert_close("dlpd_sm", &means(standard), &golden.f64s("expected.dlpd_sm_dbeta"), 1e-9);
    let tempered = slopes(Objective::TemperedModel);
    assert_close("dlpd_tm", &means(tempered), &golden.f64s("expected.dlpd_tm_dbeta"), 1e-9);
    let joint: Vec<f64> = betas.iter().map(|&beta| fit.mean_log_joint(beta)).collect();
    assert_close("mean_log_joint", &joint, &golden.f64s("expected.mean_log_joint"), 1e-9);
}

fn quadratic(case: &Value) -> Quadratic {
    Quadratic {
        curvature: number(case, "k"),
        mass: number(case, "M"),
        temperature: number(case, "T"),
        gradient_noise_variance: number(case, "V_g"),
    }
}

fn assert_phase_law(case: &Value, law: &PhaseLaw, tolerance: f64) {
    for (name, found) in [
        ("var_theta", law.position_variance),
        ("var_m", law.momentum_variance),
        ("cov_theta_m", law.covariance),
        ("kinetic_temperature", law.kinetic_temperature),
        ("configurational_temperature", law.configurational_temperature),
    ] {
        assert_close(name, &[found], &[number(case, name)], tolerance);
    }
}

#[test]
fn symplectic_euler_on_a_quadratic() {
    let Some(golden) = closed_forms() else { return };
    for case in cases(&golden, "symplectic_euler_quadratic") {
        let bowl = quadratic(case);
        let (step_size, retained_momentum) = (number(case, "h"), number(case, "mu"));
        assert_number(case, "T_effective", bowl.effective_temperature(step_size, retained_momentum), 1e-9);
        assert_phase_law(case, &bowl.symplectic_euler(step_size, retained_momentum).unwrap(), 1e-9);
        // The diagnostic's formula has unit mass: rescale θ by √M.
        let diagnostic = Discretisation {
            step_size,
            retained_momentum,
            curvature: bowl.curvature / bowl.mass,
            gradient_noise_variance: bowl.gradient_noise_variance / bowl.mass,
        };
        assert_number(case, "kinetic_temperature", diagnostic.kinetic_temperature(bowl.temperature).unwrap(), 1e-9);
    }
}

#[test]
fn baoa_on_a_quadratic() {
    let Some(golden) = closed_forms() else { return };
    for case in cases(&golden, "baoa_quadratic") {
        let law = quadratic(case).baoa(number(case, "h"), number(case, "mu")).unwrap();
        assert_phase_law(case, &law, 1e-6);
    }
}

#[test]
fn langevin_on_a_quadratic() {
    let Some(golden) = closed_forms() else { return };
    for case in cases(&golden, "sgld_quadratic") {
        let law = quadratic(case).langevin(number(case, "step")).unwrap();
        assert_close("var_theta", &[law.position_variance], &[number(case, "var_theta")], 1e-6);
        let expected = number(case, "configurational_temperature");
        assert_close("configurational", &[law.configurational_temperature], &[expected], 1e-6);
    }
}
