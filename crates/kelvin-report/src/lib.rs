//! What a person looks at: charts, figures, tables, pages, comparisons and exports, all made from findings and run folders.

pub mod cases;
pub mod chart;
pub mod compare;
#[cfg(test)]
mod demo;
mod escape;
pub mod export;
pub mod figures;
mod page;
pub mod present;
pub mod run_files;
pub mod tables;
pub mod text;
pub mod which_way_text;
