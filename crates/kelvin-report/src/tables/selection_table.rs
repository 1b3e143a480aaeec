//! Ways to choose β as a table: β and how well it is known, test scores there, cost, and what stands below it.

use crate::tables::table::{Alignment, Table};
use crate::text::wrapped;
use kelvin::diagnostics::Warning;
use kelvin::predictive::{PredictiveModel, Scores};
use kelvin::selection::{BetaInterval, Cost, Goal, IntervalMeaning, Selection};
use kelvin_study::findings::{Choice, Refusal};
use kelvin_study::folder::{StoredChoice, StoredSelection};
use kelvin_study::number::{fixed, significant};

/// One row of the table: a choice just made, or read back from selection.json.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    /// The name of the method.
    pub method: &'a str,
    /// What its β is best for.
    pub goal: Goal,
    /// The inverse temperature that it chose.
    pub inverse_temperature: f64,
    /// Intervals of β, each with its meaning; empty if the method has none.
    pub intervals: &'a [BetaInterval],
    /// What the choice cost, in gradients.
    pub cost: Cost,
    /// Test scores of chains at β; none if no chain kept a draw.
    pub test: Option<&'a Scores>,
}

impl<'a> From<&'a Choice> for Line<'a> {
    fn from(Choice { selection, test, .. }: &'a Choice) -> Self {
        let Selection { method, goal, inverse_temperature, intervals, cost, .. } = selection;
        let (goal, inverse_temperature, cost) = (*goal, *inverse_temperature, *cost);
        Self { method, goal, inverse_temperature, intervals, cost, test: test.as_ref() }
    }
}

impl<'a> From<&'a StoredChoice> for Line<'a> {
    fn from(StoredChoice { method, goal, inverse_temperature, intervals, cost, test }: &'a StoredChoice) -> Self {
        let (goal, inverse_temperature, cost) = (*goal, *inverse_temperature, *cost);
        Self { method, goal, inverse_temperature, intervals, cost, test: test.as_ref() }
    }
}

/// The table of methods that `kelvin select` printed, read back.
pub fn stored_selection_table(stored: &StoredSelection) -> Table {
    selection_table(&stored.name, &lines_of(stored), stored.has_classes())
}

/// The legend of [`stored_selection_table`], one sentence for each entry.
pub fn stored_selection_legend(stored: &StoredSelection) -> Vec<String> {
    legend(&lines_of(stored), stored.has_classes())
}

fn lines_of(stored: &StoredSelection) -> Vec<Line<'_>> {
    stored.methods.iter().map(Line::from).collect()
}

/// One row for each method, and one more for each interval after its first.
pub fn selection_table(name: &str, lines: &[Line<'_>], classes: bool) -> Table {
    let (point, calibration) = if classes { ("acc. %", "ECE") } else { ("MSE ×10³", "cover") };
    let header = ["method", "best for", "β", "interval of β", "LPD SM", "LPD TM", point];
    let header = header.into_iter().map(str::to_owned);
    let header = header.chain([format!("{calibration} SM"), format!("{calibration} TM"), "cost".into()]);
    let mut table = Table::new(format!("{name} — ways to choose β"), header);
    table.alignments[1] = Alignment::Left;
    table.alignments[3] = Alignment::Left;
    for line in lines {
        let mut intervals = line.intervals.iter().map(interval_text);
        let mut row = vec![line.method.to_owned(), short_goal(line.goal)];
        row.push(significant(line.inverse_temperature, 3));
        row.push(intervals.next().unwrap_or_else(|| "–".into()));
        row.extend(scores_text(line.test));
        row.push(significant(line.cost.chains, 2));
        table.push(row);
        intervals.for_each(|interval| table.push(["", "", "", &interval]));
    }
    table
}

/// The table as a terminal has room for: without goals, which the legend tells, and with calibration of both models in one column.
pub fn printed(mut table: Table) -> Table {
    let narrowed = |mut row: Vec<String>| {
        if row.len() == table.header.len() {
            let tempered = row.remove(8);
            row[7] = format!("{}/{tempered}", row[7].trim_end_matches(" %"));
            let goal = row.remove(1);
            row[0] += if goal.ends_with('*') { "*" } else { "" };
        } else {
            row.remove(1);
        }
        row
    };
    let rows = std::mem::take(&mut table.rows).into_iter().map(narrowed).collect();
    table.rows = rows;
    table.header.remove(8);
    table.header[7] = table.header[7].replace(" SM", "");
    table.header.remove(1);
    table.alignments.remove(8);
    table.alignments.remove(1);
    table
}

fn scores_text(test: Option<&Scores>) -> [String; 5] {
    let Some(scores) = test else { return std::array::from_fn(|_| "–".into()) };
    let lpd = scores.lpd();
    let [point, standard, tempered] = match scores {
        Scores::Regression(scores) => {
            let share = |value: f64| format!("{} %", fixed(100.0 * value, 0));
            let mse = significant(1e3 * scores.standard.mse, 3);
            [mse, share(scores.standard.coverage_90), share(scores.tempered.coverage_90)]
        }
        Scores::Classification(scores) => {
            [fixed(100.0 * scores.standard.accuracy, 2), fixed(scores.standard.ece, 3), fixed(scores.tempered.ece, 3)]
        }
    };
    [lpd_text(lpd.standard), lpd_text(lpd.tempered), point, standard, tempered]
}

/// Three decimals; beyond ±100 four significant digits.
fn lpd_text(value: f64) -> String {
    const FAR: f64 = 100.0;
    if value.abs() < FAR { fixed(value, 3) } else { significant(value, 4) }
}

/// A goal in a word or two, with a star where it is another than LPD and no score of the table measures it.
fn short_goal(goal: Goal) -> String {
    match goal {
        Goal::PlugInDensity => "LPD of one network",
        Goal::PredictiveDensity(PredictiveModel::Standard) => "LPD SM",
        Goal::PredictiveDensity(PredictiveModel::Tempered) => "LPD TM",
        Goal::PointError => "point error",
        Goal::Calibration => "calibration",
        Goal::BrierScore => "Brier score",
        Goal::Concentration => "concentration*",
        Goal::InformationGain => "information*",
        Goal::BootstrapSpread => "spread*",
        Goal::CredibleCoverage => "credible sets*",
        Goal::PredictionCoverage => "prediction sets*",
        Goal::Evidence => "evidence*",
    }
    .into()
}

fn interval_text(interval: &BetaInterval) -> String {
    let ends = format!("{}–{}", significant(interval.low, 2), significant(interval.high, 2));
    match interval.meaning {
        IntervalMeaning::OverStarts { .. } => format!("{ends} starts"),
        IntervalMeaning::Flat => format!("{ends} flat"),
        IntervalMeaning::Credible { probability } => format!("{ends} {} %", fixed(100.0 * probability, 0)),
    }
}

/// What the words and signs of a table mean, as far as it has them, for a terminal.
pub fn legend_text(lines: &[Line<'_>], classes: bool) -> String {
    legend(lines, classes).iter().map(|meaning| wrapped(meaning, "  ")).collect()
}

/// The same, one sentence for each entry.
pub fn legend(lines: &[Line<'_>], classes: bool) -> Vec<String> {
    let meanings = || lines.iter().flat_map(|line| line.intervals).map(|interval| interval.meaning);
    let mut told = vec![goals_text(lines)];
    let mut say = |line: &str| told.push(line.to_owned());
    say(if classes {
        "LPD, accuracy and ECE (SM/TM): test images or rows, by chains at each β. SM: standard model, TM: tempered model."
    } else {
        "LPD, MSE and cover (share inside 90 % intervals, SM/TM): test rows (standardised target), by chains at each β. SM: \
         standard model, TM: tempered model."
    });
    say("cost: gradients in chains of full length, all starts together; methods of a grid share its chains.");
    if lines.iter().any(|line| line.method.starts_with("refine")) {
        say("refine: stays at the β of joint unless validation rows show a gain of two standard errors.");
    }
    let num_starts = meanings().filter_map(|meaning| match meaning {
        IntervalMeaning::OverStarts { count } => Some(count),
        _ => None,
    });
    if let Some(count) = num_starts.max() {
        say(&format!("starts: from the smallest to the largest β that {count} starts found."));
    }
    if meanings().any(|meaning| meaning == IntervalMeaning::Flat) {
        say("flat: validation LPD within one standard error (of the difference, row by row) of the best.");
    }
    if meanings().any(|meaning| matches!(meaning, IntervalMeaning::Credible { .. })) {
        say("%: holds β with this probability, given the validation rows and a flat prior on log β over the grid.");
    }
    if lines.iter().any(|line| short_goal(line.goal).ends_with('*')) {
        say("*: another goal than held-out predictions; a low LPD there is no failure of the method.");
    }
    told
}

/// Which methods are best for what.
fn goals_text(lines: &[Line<'_>]) -> String {
    let mut goals: Vec<(String, Vec<&str>)> = Vec::new();
    for line in lines {
        let goal = short_goal(line.goal);
        match goals.iter_mut().find(|(known, _)| *known == goal) {
            Some((_, methods)) => methods.push(line.method),
            None => goals.push((goal, vec![line.method])),
        }
    }
    let goals: Vec<String> = goals.iter().map(|(goal, methods)| format!("{goal} ({})", methods.join(", "))).collect();
    format!("best for: {}.", goals.join("; "))
}

/// Methods that did not choose, each reason once.
pub fn refusals_text(refusals: &[Refusal]) -> String {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for Refusal { method, reason } in refusals {
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, methods)) => methods.push(method),
            None => reasons.push((reason, vec![method])),
        }
    }
    let mut text = String::from(if reasons.is_empty() { "" } else { "\nNot here:\n" });
    for (reason, methods) in reasons {
        text += &wrapped(&format!("  {}: {reason}", methods.join(", ")), "    ");
    }
    text
}

/// Warnings of all methods, each once with those it concerns; what to try is said once a kind.
pub fn warnings_text(choices: &[Choice]) -> String {
    let mut warnings: Vec<(&Warning, Vec<&str>)> = Vec::new();
    for Choice { selection, .. } in choices {
        for warning in &selection.warnings {
            match warnings.iter_mut().find(|(known, _)| *known == warning) {
                Some((_, methods)) => methods.push(selection.method),
                None => warnings.push((warning, vec![selection.method])),
            }
        }
    }
    let mut text = String::new();
    for (index, (warning, methods)) in warnings.iter().enumerate() {
        text += &wrapped(&format!("warning: {}: {}: {}", methods.join(", "), warning.name(), warning.seen()), "  ");
        if warnings[index + 1..].iter().all(|(later, _)| later.name() != warning.name()) {
            text += &wrapped(&format!("  try: {}", warning.try_this()), "    ");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use kelvin::selection::SelectionError;

    use super::*;

    fn choice(method: &'static str, intervals: Vec<BetaInterval>, warnings: Vec<Warning>) -> Choice {
        let (goal, cost) = (Goal::Evidence, Cost { row_gradients: 10.0, chains: 0.5 });
        let selection = Selection { method, goal, inverse_temperature: 0.25, intervals, cost, warnings };
        Choice {
            selection,
            serves: goal.describe(),
            serves_lpd: goal.serves_lpd(),
            validation: None,
            test: None,
            which_way: None,
        }
    }

    #[test]
    fn each_interval_has_a_line_and_is_explained() {
        let flat = BetaInterval { low: 0.1, high: 0.4, meaning: IntervalMeaning::Flat };
        let credible = BetaInterval { meaning: IntervalMeaning::Credible { probability: 0.9 }, ..flat };
        let choices = [choice("a", vec![flat, credible], vec![])];
        let lines: Vec<Line<'_>> = choices.iter().map(Line::from).collect();
        let table = selection_table("", &lines, false);
        assert_eq!(table.rows.len(), 2);
        assert_eq!((table.rows[0][3].as_str(), table.rows[1][3].as_str()), ("0.1–0.4 flat", "0.1–0.4 90 %"));
        let legend = legend_text(&lines, false);
        assert!(legend.contains("\nflat: ") && legend.contains("\n%: ") && legend.contains("\n*: "), "{legend}");
        assert!(!legend.contains("starts: "), "{legend}");
        assert!(legend.starts_with("best for: evidence* (a).\n"), "{legend}");
    }

    #[test]
    fn a_terminal_of_a_hundred_columns_has_room_for_all_methods() {
        let interval = BetaInterval { low: 0.0123, high: 0.0456, meaning: IntervalMeaning::OverStarts { count: 16 } };
        let longest = choice("lyddon-holmes-walker", vec![interval, interval], vec![]);
        let mut wide = selection_table("", &[Line::from(&longest)], false);
        let scores = ["−0.123", "−1735", "99.9", "100 %", "100 %"];
        wide.rows[0].splice(4..9, scores.map(str::to_owned));
        let narrow = printed(wide);
        let text = narrow.to_text();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert_eq!(narrow.header[6], "cover");
        assert_eq!(narrow.rows[0][..2], ["lyddon-holmes-walker*", "0.25"]);
        assert_eq!((narrow.rows[0][6].as_str(), narrow.rows[1][2].as_str()), ("100/100 %", "0.012–0.046 starts"));
    }

    #[test]
    fn what_is_far_off_has_no_decimals() {
        assert_eq!((lpd_text(-1735.929), lpd_text(-0.1164)), ("−1736".into(), "−0.116".into()));
    }

    #[test]
    fn what_methods_share_is_said_once() {
        let edge = Warning::BetaAtGridEdge { beta: 0.1, metric: "LPD".into() };
        let unbounded = Warning::BetaAtGridEdge { beta: 1000.0, metric: "MSE".into() };
        let text =
            warnings_text(&[choice("a", vec![], vec![edge.clone()]), choice("b", vec![], vec![edge, unbounded])]);
        assert_eq!((text.matches("warning: ").count(), text.matches("  try: ").count()), (2, 1), "{text}");
        assert!(text.starts_with("warning: a, b: "), "{text}");

        let reason = SelectionError::NothingFound { method: "c", reason: "none".into() }.to_string();
        let refused = |method| Refusal { method, reason: reason.clone() };
        let text = refusals_text(&[refused("c"), refused("d")]);
        assert_eq!(text.matches("none").count(), 1, "{text}");
        assert!(text.contains("  c, d: "), "{text}");
        assert_eq!(refusals_text(&[]), "");
    }
}
