//! `kelvin merge`: a study from its shards, or a sweep from runs of its repetitions.

use kelvin_study::folder::stored_run;
use kelvin_study::study::Piece;

use super::conduct::{Asked, carry_out, threads};
use super::resume::result_of;
use crate::arguments::MergeArguments;
use crate::source::Source;

pub fn merge(arguments: &MergeArguments) -> anyhow::Result<()> {
    let MergeArguments { run, repetitions, conduct } = arguments;
    threads(conduct.threads)?;
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
