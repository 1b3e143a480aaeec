//! The story of a run as one page: the answer, the tables, the figures, the cases, the doubts, the settings.

use kelvin::diagnostics::Warning;

use crate::compare::{headline, verdict};
use crate::figures::{Figure, RunFigures};
use crate::page::case_blocks::case_blocks;
use crate::page::page_html::{Block, Page, Section, Warning as WarningBox};
use crate::run_files::RunFiles;
use crate::tables::{
    MISSING, Table, about, chains_table, stored_selection_legend, stored_selection_table, tables_of, theory_lines,
    theory_table,
};
use crate::text::few_names;
use kelvin_study::findings::{Findings, RunCommand};
use kelvin_study::folder::{ChainOrigin, StoredSelection, chains_differ};

/// The page of one run; `beside` are tables that go with its scores.
pub fn page(run: &RunFiles, figures: RunFigures, beside: Vec<Table>) -> Page {
    Page { title: format!("kelvin: {}", run.findings.name), lead: lead(run), sections: parts(run, figures, beside) }
}

/// What the predictions are worth, then which temperature.
fn lead(run: &RunFiles) -> String {
    let mut sentences = headline(&run.findings);
    sentences.push(verdict(&run.findings, run.gain));
    sentences.join(" ")
}

/// A run on a page of several.
pub struct Story {
    /// The name that distinguishes it from the others on the page.
    pub label: String,
    /// The run as its folder holds it.
    pub run: RunFiles,
    /// The figures of this run.
    pub figures: RunFigures,
}

/// The page of several runs and selections: what they show together, then the story of each run.
pub fn page_of_several(
    stories: Vec<Story>,
    selections: &[StoredSelection],
    beside: Vec<Table>,
    figures: Vec<Figure>,
) -> Page {
    let answers: Vec<(String, String)> =
        stories.iter().map(|story| (story.label.clone(), verdict(&story.run.findings, story.run.gain))).collect();
    let mut blocks: Vec<Block> = if answers.is_empty() { Vec::new() } else { vec![Block::Definitions(answers)] };
    blocks.extend(beside.into_iter().map(folded_if_long));
    let mut sections = vec![section("Side by side", blocks)];
    if !figures.is_empty() {
        sections.push(section("Figures of all runs", figures.into_iter().map(Block::Figure).collect()));
    }
    let chosen = selections.iter().map(ways_to_choose);
    let labels: Vec<String> = stories.iter().map(|story| story.label.clone()).chain(chosen).collect();
    for Story { label, run, figures } in stories {
        let mut blocks = vec![Block::Paragraph(lead(&run))];
        for part in parts(&run, figures, Vec::new()) {
            blocks.push(Block::Heading(part.heading));
            blocks.extend(part.blocks);
        }
        sections.push(section(&label, blocks));
    }
    for selection in selections {
        let legend = stored_selection_legend(selection).into_iter().map(Block::Paragraph);
        let blocks = std::iter::once(Block::Table(stored_selection_table(selection))).chain(legend).collect();
        sections.push(section(&ways_to_choose(selection), blocks));
    }
    Page { title: format!("kelvin: {}", labels.join(", ")), lead: String::new(), sections }
}

fn ways_to_choose(selection: &StoredSelection) -> String {
    format!("ways to choose β for {}", selection.name)
}

/// A table, folded away where it has more rows than a reader wants to pass by.
fn folded_if_long(table: Table) -> Block {
    const LONG: usize = 30;
    match table.rows.len() {
        0..=LONG => Block::Table(table),
        _ => Block::Details { summary: table.title.clone(), blocks: vec![Block::Table(table)] },
    }
}

fn section(heading: &str, blocks: Vec<Block>) -> Section {
    Section { heading: heading.into(), blocks }
}

/// The parts of a run's story, in order; what a run does not have is left out.
fn parts(run: &RunFiles, figures: RunFigures, beside: Vec<Table>) -> Vec<Section> {
    let findings = &run.findings;
    let mut tables = tables_of(findings);
    // A sweep's tables of chains stand with its chains, that of learning theory with its figure.
    let mut take = |name: &str| {
        let at = tables.iter().position(|(file, _)| *file == name)?;
        Some(Block::Table(tables.remove(at).1))
    };
    let (kinetic, agreement) = (take("kinetic_temperature"), take("agreement"));
    take("learning_theory");
    let scores: Vec<Block> = tables.into_iter().map(|(_, table)| table).chain(beside).map(folded_if_long).collect();
    let audited = findings.audit.iter().map(|row| Block::Paragraph(format!("Audit: {}", row.sentence)));
    let scores = scores.into_iter().chain(audited).collect();
    let shown = |figures: Vec<Figure>| figures.into_iter().map(Block::Figure);
    let mut fit: Vec<Block> = shown(figures.fit).collect();
    if fit.is_empty() {
        let text = "Only β = 1 and the chosen β were sampled; `kelvin run --grid` draws the curve over a grid of β.";
        fit.push(Block::Paragraph(text.into()));
    }
    let mut calibration: Vec<Block> = shown(figures.calibration).collect();
    if findings.command == RunCommand::Sweep && !calibration.is_empty() {
        let text = "Of the first repetition at its chosen β, as are the predictions and cases below.";
        calibration.insert(0, Block::Paragraph(text.into()));
    }
    let mut chains: Vec<Block> = shown(figures.chains).collect();
    chains.push(agreement.unwrap_or_else(|| Block::Table(chains_table(&findings.rows))));
    // They stand above what they are about, and a clean run needs no box.
    let warning_blocks = if findings.warnings.is_empty() { Vec::new() } else { vec![warnings(&findings.warnings)] };
    let all = [
        section("Warnings", warning_blocks),
        section("Scores", scores),
        section("Scores against β", fit),
        section("The search for β", shown(figures.search).collect()),
        section("Calibration", calibration),
        section("Predictions", shown(figures.predictions).collect()),
        section("Cases to look at", case_blocks(run)),
        section("Temperatures", shown(figures.temperatures).chain(kinetic).collect()),
        section("Chains", chains),
        section("Learning theory", learning_theory(findings, figures.theory)),
        section(
            "Settings and provenance",
            vec![
                Block::Definitions(facts(run)),
                Block::Details {
                    summary: "experiment.toml".into(),
                    blocks: vec![Block::Preformatted(run.settings_text.clone())],
                },
            ],
        ),
    ];
    all.into_iter().filter(|part| !part.blocks.is_empty()).collect()
}

/// Figure, table, what they mean, and what speaks against them.
fn learning_theory(findings: &Findings, figures: Vec<Figure>) -> Vec<Block> {
    let lines = theory_lines(findings);
    let Some(table) = theory_table(&findings.name, &lines) else {
        return vec![Block::Paragraph(MISSING.into())];
    };
    let mut blocks: Vec<Block> = figures.into_iter().map(Block::Figure).collect();
    blocks.push(Block::Table(table));
    blocks.extend(about(findings).map(Block::Paragraph));
    let doubts: Vec<Warning> = lines.into_iter().flat_map(|line| line.warnings).collect();
    if !doubts.is_empty() {
        blocks.push(Block::Details { summary: "Doubts about these numbers".into(), blocks: vec![warnings(&doubts)] });
    }
    blocks
}

/// One box a kind of warning, however many chains share it.
fn warnings(warnings: &[Warning]) -> Block {
    let mut kinds: Vec<WarningBox> = Vec::new();
    for warning in warnings {
        match kinds.iter_mut().find(|kind| kind.title == as_sentence(warning.name())) {
            Some(kind) => kind.seen.push(warning.seen()),
            None => kinds.push(WarningBox {
                title: as_sentence(warning.name()),
                seen: vec![warning.seen()],
                why: as_sentence(warning.why()),
                try_this: as_sentence(warning.try_this()),
            }),
        }
    }
    if kinds.is_empty() {
        let text = "None: temperatures, agreement of the chains and the number of draws look as they should.";
        return Block::Paragraph(text.into());
    }
    Block::Warnings(kinds)
}

/// The text with a capital first letter.
fn as_sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Where the rows come from, what learned from them, and on what machine.
fn facts(run: &RunFiles) -> Vec<(String, String)> {
    let Findings { problem, sampling, .. } = &run.findings;
    let mut facts = vec![("data", problem.data.clone())];
    if let Some([height, width, channels]) = problem.image {
        facts.push(("images", format!("{height}×{width}×{channels}")));
        facts.push(("classes", problem.classes.join(", ")));
        facts.extend(problem.out_of_distribution.iter().map(|other| ("another set", other.clone())));
    } else {
        facts.extend([("target", problem.target.to_string()), ("features", problem.features.join(", "))]);
    }
    facts.extend([
        ("training rows", problem.training_rows.to_string()),
        ("validation rows", problem.validation_rows.to_string()),
        ("test rows", problem.test_rows.to_string()),
        ("network", problem.network.clone()),
        ("numbers in θ", problem.tensors.iter().map(|(_, size)| size).sum::<usize>().to_string()),
        ("seed", sampling.seed.to_string()),
        ("device", run.findings.device.clone()),
        ("kelvin", run.findings.kelvin.clone()),
    ]);
    if let Some(provenance) = &run.provenance {
        facts.extend([
            ("command", format!("`kelvin {}`", provenance.command.join(" "))),
            ("machine", format!("{}, {}", provenance.operating_system, provenance.processor)),
            ("SHA-256 of the data", provenance.data_sha256.clone()),
        ]);
        if !provenance.dropped_constant_columns.is_empty() {
            facts.push(("left out, since the same in every row", few_names(&provenance.dropped_constant_columns)));
        }
        if !provenance.left_out_columns.is_empty() {
            facts.push(("left out", few_names(&provenance.left_out_columns)));
        }
        if provenance.rows_without_target > 0 {
            facts.push(("rows left out, since they have no answer", provenance.rows_without_target.to_string()));
        }
        let went_on = provenance
            .continued
            .iter()
            .map(|on| ("went on", format!("with kelvin {} ({}) on {}", on.kelvin, on.commit, on.device)));
        facts.extend(went_on);
        let sampled = |origin: &ChainOrigin| format!("{} on {}", origin.chains.len(), origin.kinds());
        facts.extend(provenance.chains.iter().map(|origin| ("chains sampled", sampled(origin))));
        facts.extend(chains_differ(&provenance.chains).map(|difference| ("to be kept in mind", difference)));
    }
    facts.into_iter().map(|(name, fact)| (name.to_owned(), fact)).collect()
}
