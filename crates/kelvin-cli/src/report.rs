//! The story of a run as one page: the answer, the table, the figures, the warnings, the settings.

use kelvin::diagnostics::Warning;
use kelvin::experiment::{Experiment, ProblemSource, TableSource};

use crate::chart::{fixed, significant};
use crate::figures::Figure;
use crate::page::{self, Block, Page, Section};
use crate::row::{BETA_STAR, Method, Row};
use crate::table::Table;

/// Everything the page shows.
pub struct RunReport<'a> {
    pub experiment: &'a Experiment<'a>,
    pub verdict: &'a str,
    pub table: &'a Table,
    /// Further tables, for a sweep.
    pub tables: &'a [Table],
    pub figures: &'a [Figure],
    pub warnings: &'a [Warning],
}

impl RunReport<'_> {
    pub fn page(&self) -> anyhow::Result<Page> {
        let settings = &self.experiment.settings;
        let problem = self.experiment.problem;
        let mut answer = vec![Block::Table(self.table.clone())];
        answer.extend(self.tables.iter().cloned().map(Block::Table));
        let figures = self
            .figures
            .iter()
            .map(|figure| Block::Figure { svg: figure.svg.clone(), caption: figure.caption.clone() });
        let warnings = if self.warnings.is_empty() {
            Block::Paragraph(
                "None: temperatures, agreement of the chains and the number of draws look as they should.".into(),
            )
        } else {
            let shown = self.warnings.iter().map(|warning| page::Warning {
                title: warning.name().into(),
                seen: warning.seen(),
                why: warning.why().into(),
                try_this: warning.try_this().into(),
            });
            Block::Warnings(shown.collect())
        };
        let rows = |rows: usize| rows.to_string();
        let mut facts = facts(&problem.source);
        facts.extend([
            ("training rows".into(), rows(problem.train.len())),
            ("validation rows".into(), rows(problem.validation.len())),
            ("test rows".into(), rows(problem.test.len())),
            ("network".into(), problem.network.describe()),
            ("seed".into(), settings.run.seed.to_string()),
            ("device".into(), self.experiment.engine.describe_for(&self.experiment.posterior)),
            ("kelvin".into(), format!("{} ({})", env!("CARGO_PKG_VERSION"), env!("KELVIN_COMMIT"))),
        ]);
        let section = |heading: &str, blocks: Vec<Block>| Section { heading: heading.into(), blocks };
        Ok(Page {
            title: format!("kelvin: {}", settings.name),
            lead: self.verdict.into(),
            sections: vec![
                section("Scores", answer),
                section("Figures", figures.collect()),
                section("Warnings", vec![warnings]),
                section(
                    "Settings and provenance",
                    vec![
                        Block::Definitions(facts),
                        Block::Details {
                            summary: "experiment.toml".into(),
                            blocks: vec![Block::Preformatted(settings.to_toml()?)],
                        },
                    ],
                ),
            ],
        })
    }
}

/// Where the rows come from.
fn facts(source: &ProblemSource) -> Vec<(String, String)> {
    match source {
        ProblemSource::Table(TableSource { dataset, .. }) => vec![
            ("data".into(), dataset.name.clone()),
            ("target".into(), dataset.target_name.clone()),
            ("features".into(), dataset.feature_names.join(", ")),
        ],
        ProblemSource::Images(images) => {
            let mut facts = vec![
                ("data".into(), images.name.clone()),
                ("images".into(), images.shape.to_string()),
                ("classes".into(), images.class_names.join(", ")),
            ];
            facts.extend(images.out_of_distribution.iter().map(|other| ("another set".into(), other.clone())));
            facts
        }
    }
}

/// The answer in one sentence.
pub fn verdict(beta: f64, rows: &[Row]) -> String {
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
