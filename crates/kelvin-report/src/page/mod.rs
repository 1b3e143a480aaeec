//! The report as one HTML file: its blocks, its figures, its cases, and the story of a run.

mod case_blocks;
mod markup;
mod page_figure;
mod page_html;
mod story;

pub use case_blocks::case_blocks;
pub use markup::{data_url, inline};
pub use page_figure::figure_html;
pub use page_html::{Block, Page, Picture, Section, Warning};
pub use story::{Story, page, page_of_several};
