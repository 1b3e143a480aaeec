//! Tables as values, and the tables of runs, sweeps, selections and the paper.

mod diagnosis;
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

pub use diagnosis::{BAND, Search, Temperature, Tensor, Tensors, searches, temperature, temperatures, tensors};
pub use named_run::NamedRun;
pub use of_findings::tables_of;
pub use paper_layout::{Layout, one_run, paper_tables, selectors};
pub use paper_numbers::{GRID, PAPER, PaperNumbers, PaperSelectors};
pub use paper_tables::{Spread, Sweep, choices, mean_and_spread, partly_sampled, with_spread};
pub use run_table::{chains_table, out_of_distribution_table, run_table};
pub use selection_table::{
    Line, legend, legend_text, printed, refusals_text, selection_table, stored_selection_legend,
    stored_selection_table, warnings_text,
};
pub use table::{Alignment, Table};
pub use theory_table::{ChainTheory, MISSING, Prediction, TheoryLine, about, prediction, theory_lines, theory_table};
