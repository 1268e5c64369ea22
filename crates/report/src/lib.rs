//! Runs as pages: one HTML file that needs nothing else, and Markdown for a comment on a change.
//!
//! A report is made of run folders alone. [`Recorded`] is what was read of one; [`Subject`] is several of them with one
//! colour for each configuration; `charts` makes charts of it, which are data; `page` makes the HTML, whose tables stand without any
//! script; the script (TypeScript in `report/`) draws the charts.

mod charts;
mod data;
mod live;
mod markdown;
mod page;
mod picture;
mod recorded;
mod subject;

pub use live::Live;
pub use markdown::markdown;
pub use page::{Life, changing, page};
pub use picture::picture;
pub use recorded::{ReadOldTable, Recorded, ReportError};
pub use subject::Subject;
