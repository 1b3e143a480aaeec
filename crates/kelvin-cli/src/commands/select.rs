//! `kelvin select`: ways to choose β side by side, each judged by chains at its β on test rows.

use std::sync::Arc;

use kelvin::likelihood::TargetKind;
use kelvin::selection::selector;
use kelvin_report::tables::{
    Layout, Line, Spread, legend_text, printed, refusals_text, selection_table, selectors, warnings_text,
};
use kelvin_report::text::wrapped;
use kelvin_report::which_way_text::which_way_text;
use kelvin_study::findings::SEARCHING;
use kelvin_study::folder::{
    SELECTION, SelectResult, SelectionShard, StoredSelection, check_keeps_to_itself, data_hashes, open_folder,
};
use kelvin_study::problem::Problem;
use kelvin_study::study::{Methods, Outcome, SelectStudy, Selected, Workload};

use super::conduct::threads;
use crate::arguments::{CommonArguments, SelectArguments};
use crate::interrupt::Interrupt;
use crate::output::{WrongFlags, print_result, say};
use crate::terminal::Terminal;
use crate::{device, source};

pub fn select(arguments: SelectArguments) -> anyhow::Result<()> {
    let SelectArguments { source, method, all, starts, each_start: each, shard, out, seed, overrides, conduct } =
        arguments;
    if let (Some(folder), Some(_)) = (&out, shard) {
        // The folder of a shard lies in it.
        check_keeps_to_itself(folder)?;
    }
    let out = out.map(|out| shard.map_or_else(|| out.clone(), |shard| shard.folder(&out)));
    for name in &method {
        selector(name, &[]).map_err(|error| WrongFlags(format!("--method: {error}")))?;
    }
    if each && !method.is_empty() && !method.iter().any(|name| SEARCHING.iter().any(|(known, _)| known == name)) {
        return Err(WrongFlags("--each-start is for methods that search alone: joint, map and guo".into()).into());
    }
    threads(conduct.threads)?;
    let common = CommonArguments { out: None, seed, fresh: false, overrides, conduct };
    let methods = match method.is_empty() {
        true if all => Methods::All,
        true => Methods::Usual,
        false => Methods::Named(method),
    };
    let work = Workload::Selection { methods: methods.clone(), num_starts: starts };
    let source = source::read(&source, &common, &work)?;
    let (conduct, asked) = (&common.conduct, source.settings.to_toml()?);
    out.as_deref().map(open_folder).transpose()?;
    let problem = Problem::new(source.data, &source.settings)?;
    let interrupt = Interrupt::listen()?;
    let experiment = device::experiment(conduct.device, conduct.quiet, problem, source.settings)?;
    let starts = starts.unwrap_or(experiment.settings.run.chains);
    let are_usual = methods == Methods::Usual;
    let study = SelectStudy {
        experiment,
        automatic: source.automatic,
        methods: methods.clone(),
        shard,
        num_starts: starts,
        each_start: each,
        observer: Arc::new(Terminal::new(conduct.quiet || conduct.json)),
        cancel: interrupt.cancel().clone(),
    };
    let Outcome::Finished(selected) = study.carry_out()? else { return Err(interrupt.stopped_for_good().into()) };
    let Selected { experiment, choices, refusals, of_starts, num_not_asked, prices } = selected;

    let name = &experiment.settings.name;
    let of_shard = shard.map(|shard| SelectionShard {
        shard,
        asked: methods.names(&experiment.settings.run.grid).into_iter().map(str::to_owned).collect(),
        data_sha256: data_hashes(&experiment.problem).data,
    });
    let result = SelectResult::new(&experiment, starts, &choices, &refusals, &of_starts).of_shard(of_shard);
    let classes = matches!(experiment.problem.likelihood.kind(), TargetKind::Classes { .. });
    let lines: Vec<Line<'_>> = choices.iter().map(Line::from).collect();
    let table = selection_table(name, &lines, classes);
    if let Some(folder) = &out {
        result.write(folder, &asked, &table.to_csv())?;
    }
    if conduct.json {
        return print_result(&format!("{}\n", serde_json::to_string(&result)?));
    }
    let (legend, refusals) = (legend_text(&lines, classes), refusals_text(&refusals));
    let joint = choices.iter().find(|choice| choice.selection.method == "joint");
    let way = joint.and_then(|joint| Some((joint.selection.inverse_temperature, joint.which_way?)));
    let way = way.map_or(String::new(), |(beta, way)| format!("\n{}", which_way_text(beta, &way)));
    print_result(&format!("{}{legend}{refusals}{way}", printed(table).to_text()))?;
    if each {
        let layout = Layout { spread: Spread::StandardDeviation, compare: false };
        let starts = selectors(&[&StoredSelection::of_starts(name, of_starts.clone())], layout);
        print_result(&starts.map_or(String::new(), |table| format!("\n{}", table.to_text())))?;
    }
    if let Some(folder) = &out {
        say(&format!("selection: {}\n", folder.join(SELECTION).display()));
    }
    say(&warnings_text(&choices));
    if are_usual && !conduct.quiet {
        let searches = 2.0 * f64::from(starts) * prices.search / prices.chain;
        say(&wrapped(&note_about_the_rest(num_not_asked, searches), "  "));
    }
    Ok(())
}

fn note_about_the_rest(rest: usize, searches: f64) -> String {
    format!(
        "note: --all adds {rest} methods: other criteria on the same grid for nothing, at most two more searches from every start (the \
         cost of {searches:.2} chains), and for small models methods that refit them"
    )
}
