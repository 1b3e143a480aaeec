//! The command `kelvin`: an experiment in, a run folder with tables, figures and a report out.

#![allow(dead_code, unused_imports)] // until the commands that use these modules are written

mod chart;
mod escape;
mod page;
mod table;

fn main() {}
