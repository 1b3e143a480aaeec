//! `kelvin toy`: the theory in closed form, as tables and figures; nothing is sampled.

use kelvin::exact::{BoundExample, BoundSettings, Objective, OptimalTemperature, TOY_CASES};

use crate::arguments::ToyArguments;
use crate::output::print_result;
use kelvin_report::chart::write_figure;
use kelvin_report::figures::{bound, gaussian_toy, value_at};
use kelvin_report::present::create_folder;
use kelvin_report::tables::Table;
use kelvin_report::text::wrapped;
use kelvin_study::folder::write;
use kelvin_study::number::{fixed, significant};

pub fn toy(arguments: &ToyArguments) -> anyhow::Result<()> {
    let settings = BoundSettings::default();
    let example = BoundExample::new(&settings)?;
    let (toy_table, bound_table) = (toy_table(), bound_table(&example)?);
    let (toy_panels, bound_chart) = (gaussian_toy(), bound(&example)?);

    let out = &arguments.out;
    create_folder(&out.join("figures"))?;
    write(out, "gaussian_toy.csv", toy_table.to_csv().as_bytes())?;
    write(out, "bound.csv", bound_table.to_csv().as_bytes())?;
    for (name, svg, csv) in [
        ("gaussian_toy", toy_panels.to_svg(), toy_panels.to_csv()),
        ("bound", bound_chart.to_svg(), bound_chart.to_csv()),
    ] {
        write_figure(out, name, &svg)?;
        write(out, &format!("figures/{name}.csv"), csv.as_bytes())?;
    }

    let mut text = toy_table.to_text();
    for case in &TOY_CASES {
        text += &wrapped(&format!("{}: {}.", case.name, case.shows), "  ");
    }
    text += "→ 0: the colder the better; in brackets what the formula for T* gives, which is no temperature.\n\n";
    text += &bound_table.to_text();
    text += &wrapped(&about_the_bound(&settings), "  ");
    text += &format!("figures: {}\n", out.join("figures").display());
    print_result(&text)
}

fn about_the_bound(settings: &BoundSettings) -> String {
    let BoundSettings { num_rows, num_features, true_variance, model_variance, .. } = settings;
    format!(
        "{num_features} features, {num_rows} training rows, noise of variance {true_variance} that the model takes for \
         {model_variance}; means over {} test rows. The bound is tight enough to choose β of TM-PD by; SM-PD cannot \
         widen its noise, so it wants another β.",
        10 * num_rows
    )
}

/// T* of both criteria, and what they are worth there and at T = 1.
fn toy_table() -> Table {
    let title = "Gaussian toy (Appendix A): distance of truth N(0, τ²) and SM-PD of a model with σ² = 1";
    let header = ["case", "τ²", "T* of KL", "KL", "at T = 1", "T* of W₂²", "W₂²", "at T = 1"];
    let mut table = Table::new(title, header);
    for case in &TOY_CASES {
        let toy = &case.toy;
        let (kl, wasserstein) = (toy.optimal_temperature_kl(), toy.optimal_temperature_wasserstein());
        let at = |best: OptimalTemperature| best.interior().unwrap_or(0.0);
        table.push([
            case.name.into(),
            significant(toy.true_variance, 3),
            best_text(kl),
            fixed(toy.kl_divergence(at(kl)), 4),
            fixed(toy.kl_divergence(1.0), 4),
            best_text(wasserstein),
            fixed(toy.squared_wasserstein(at(wasserstein)), 4),
            fixed(toy.squared_wasserstein(1.0), 4),
        ]);
    }
    table
}

fn best_text(best: OptimalTemperature) -> String {
    match best {
        OptimalTemperature::Interior(temperature) => significant(temperature, 3),
        OptimalTemperature::Cold { formula } => format!("→ 0 ({})", significant(formula, 3)),
    }
}

fn bound_table(example: &BoundExample) -> anyhow::Result<Table> {
    let title = "Linear regression (Lemma 3.1): where each objective is largest, and the test LPD there";
    let mut table = Table::new(title, ["objective", "best β", "its value", "at β = 1", "LPD SM", "LPD TM"]);
    for (name, objective) in [
        ("log SM-PD", Objective::StandardModel),
        ("log TM-PD", Objective::TemperedModel),
        ("bound on log TM-PD", Objective::LowerBound),
    ] {
        let at_one = fixed(value_at(example, objective, 1.0)?, 3);
        let mut row = vec![name.to_owned()];
        match example.best_inverse_temperature(objective)? {
            Some(beta) => row.extend([
                significant(beta, 3),
                fixed(value_at(example, objective, beta)?, 3),
                at_one,
                fixed(value_at(example, Objective::StandardModel, beta)?, 3),
                fixed(value_at(example, Objective::TemperedModel, beta)?, 3),
            ]),
            None => row.extend(["none inside".into(), "–".into(), at_one]),
        }
        table.push(row);
    }
    Ok(table)
}
