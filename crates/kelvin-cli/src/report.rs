//! The story of a run as one page: the answer, the table, the figures, the warnings, the settings.

use crate::chart::{fixed, significant};
use crate::figures::Figure;
use crate::findings::Findings;
use crate::page::{self, Block, Page, Section};
use crate::row::{BETA_STAR, Method, Row};
use crate::table::Table;

/// The page of what was found; `settings` is experiment.toml.
pub fn page(findings: &Findings, settings: &str, tables: &[Table], figures: &[Figure]) -> Page {
    let figures =
        figures.iter().map(|figure| Block::Figure { svg: figure.svg.clone(), caption: figure.caption.clone() });
    let warnings = if findings.warnings.is_empty() {
        Block::Paragraph(
            "None: temperatures, agreement of the chains and the number of draws look as they should.".into(),
        )
    } else {
        let shown = findings.warnings.iter().map(|warning| page::Warning {
            title: warning.name().into(),
            seen: warning.seen(),
            why: warning.why().into(),
            try_this: warning.try_this().into(),
        });
        Block::Warnings(shown.collect())
    };
    let section = |heading: &str, blocks: Vec<Block>| Section { heading: heading.into(), blocks };
    Page {
        title: format!("kelvin: {}", findings.name),
        lead: verdict(findings),
        sections: vec![
            section("Scores", tables.iter().cloned().map(Block::Table).collect()),
            section("Figures", figures.collect()),
            section("Warnings", vec![warnings]),
            section(
                "Settings and provenance",
                vec![
                    Block::Definitions(facts(findings)),
                    Block::Details {
                        summary: "experiment.toml".into(),
                        blocks: vec![Block::Preformatted(settings.into())],
                    },
                ],
            ),
        ],
    }
}

/// Where the rows come from and what learned from them.
fn facts(findings: &Findings) -> Vec<(String, String)> {
    let problem = &findings.problem;
    let mut facts = vec![("data", problem.data.clone())];
    if let Some([height, width, channels]) = problem.image {
        facts.push(("images", format!("{height}×{width}×{channels}")));
        facts.push(("classes", problem.classes.join(", ")));
        facts.extend(problem.out_of_distribution.iter().map(|other| ("another set", other.clone())));
    } else {
        facts.extend([("target", problem.target.clone()), ("features", problem.features.join(", "))]);
    }
    facts.extend([
        ("training rows", problem.training_rows.to_string()),
        ("validation rows", problem.validation_rows.to_string()),
        ("test rows", problem.test_rows.to_string()),
        ("network", problem.network.clone()),
        ("seed", findings.sampling.seed.to_string()),
        ("device", findings.device.clone()),
        ("kelvin", findings.kelvin.clone()),
    ]);
    facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect()
}

/// The answer in one sentence.
pub fn verdict(findings: &Findings) -> String {
    match findings.beta_star {
        Some(beta) => verdict_of_run(beta, &findings.rows),
        None => {
            let chosen = findings.searches.iter().filter_map(|search| search.path.get(search.best));
            let betas: Vec<String> = chosen.map(|visit| significant(visit.beta, 3)).collect();
            format!("{BETA_STAR} of the {} repetitions: {}.", findings.repetitions, betas.join(", "))
        }
    }
}

fn verdict_of_run(beta: f64, rows: &[Row]) -> String {
    let direction = match beta {
        b if b < 0.9 => "the posterior should be warmer than Bayes",
        b if b > 1.1 => "the posterior should be colder than Bayes",
        _ => "the posterior of Bayes has the right temperature",
    };
    let lpd = |method: Method| rows.iter().find(|row| row.method == method).map(|row| row.test.lpd());
    let at_one = rows.iter().find(|row| row.method == Method::Bayes || row.beta == 1.0).map(|row| row.test.lpd());
    match (lpd(Method::Chosen), at_one) {
        // The search looks at the tempered point estimate, not at draws: it may be wrong about them.
        (Some(chosen), Some(one)) if chosen.standard.max(chosen.tempered) < one.standard => format!(
            "{BETA_STAR} = {}, but here β = 1 predicts better: test LPD {} against {} (SM) and {} (TM) at {BETA_STAR}.",
            significant(beta, 3),
            fixed(one.standard, 3),
            fixed(chosen.standard, 3),
            fixed(chosen.tempered, 3),
        ),
        (Some(chosen), Some(one)) => format!(
            "{BETA_STAR} = {}: {direction}; test LPD {} (SM) and {} (TM) against {} at β = 1.",
            significant(beta, 3),
            fixed(chosen.standard, 3),
            fixed(chosen.tempered, 3),
            fixed(one.standard, 3)
        ),
        _ => format!("{BETA_STAR} = {}: {direction}.", significant(beta, 3)),
    }
}

/// Which row has the best test LPD, in a line.
pub fn best_of(rows: &[Row]) -> String {
    let scored = rows.iter().flat_map(|row| {
        let lpd = row.test.lpd();
        // The last of equals is taken, and at β = 1 the two models are one.
        [(row, "TM", lpd.tempered), (row, "SM", lpd.standard)]
    });
    scored.max_by(|a, b| a.2.total_cmp(&b.2)).map_or(String::new(), |(row, model, lpd)| {
        format!("best test LPD: {} under {model}, at {}\n", fixed(lpd, 3), row.label)
    })
}
