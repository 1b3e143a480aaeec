//! `kelvin merge`: a study or a selection from its shards, or a sweep from runs of its repetitions.

use kelvin_report::tables::{printed, stored_selection_table};
use kelvin_study::folder::{merge_selections, stored_run};
use kelvin_study::study::Piece;

use super::conduct::{Asked, carry_out, threads};
use super::resume::result_of;
use crate::arguments::MergeArguments;
use crate::output::print_result;
use crate::source::Source;

pub fn merge(arguments: &MergeArguments) -> anyhow::Result<()> {
    let MergeArguments { run, repetitions, conduct } = arguments;
    threads(conduct.threads)?;
    if let Some(selection) = merge_selections(run, |selection| stored_selection_table(selection).to_csv())? {
        return print_result(&printed(stored_selection_table(&selection)).to_text());
    }
    let (record, mut settings) = stored_run(repetitions.first().unwrap_or(run))?;
    if !repetitions.is_empty() {
        settings.run.only_repetition = None;
    }
    let data = record.read_data(&settings, conduct.data_dir.as_deref())?;
    let source = Source { settings, data, automatic: record.automatic, time: None };
    let asked =
        Asked { command: record.command, piece: Some(Piece::Merge(repetitions.clone())), out: Some(run), fresh: false };
    carry_out(asked, source, conduct, result_of(record.command))
}
