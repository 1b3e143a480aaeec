//! Tables as values, and the tables of runs, sweeps, selections and the paper.

mod audit_table;
mod corruption_table;
mod diagnosis;
mod folds_table;
mod latex;
mod named_run;
mod of_findings;
mod paper_layout;
mod paper_numbers;
mod paper_tables;
mod run_table;
mod selection_table;
mod table;
mod theory_table;
mod uncertainty_table;

pub use diagnosis::{BAND, Search, Temperature, Tensor, Tensors, searches, temperatures, tensors};
pub(crate) use named_run::NamedRun;
pub use of_findings::tables_of;
pub(crate) use paper_layout::paper_tables;
pub use paper_layout::{Layout, one_run, selectors};
pub use paper_numbers::{PAPER, PaperNumbers};
pub use paper_tables::Spread;
pub(crate) use paper_tables::{Sweep, choices, mean_and_spread, partly_sampled, with_spread};
pub(crate) use run_table::chains_table;
pub use selection_table::{
    Line, legend_text, printed, refusals_text, selection_table, stored_selection_legend, stored_selection_table,
    warnings_text,
};
pub use table::{Alignment, Table};
pub(crate) use theory_table::prediction;
pub use theory_table::{ChainTheory, MISSING, TheoryLine, about, theory_lines, theory_table};
