//! The report as one HTML file: its blocks, its figures, its cases, and the story of a run.

mod case_blocks;
mod markup;
mod page_figure;
mod page_html;
mod story;

pub(crate) use page_html::Page;
#[cfg(test)]
pub(crate) use page_html::{Block, Section, Warning};
pub(crate) use story::{Story, page, page_of_several};
