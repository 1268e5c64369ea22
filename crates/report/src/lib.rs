//! Reports of runs: one HTML file that loads nothing, and Markdown for a pull request.
//!
//! A report needs only run folders. [`Recorded`] is a run folder that was read. [`Subject`] is several of them, with a
//! colour for each configuration. `charts` turns it into charts, which are data. `page` makes the HTML, whose tables
//! need no script. The script (TypeScript in `report/`) draws the charts. [`compare_page`] shows a comparison,
//! [`history_page`] the lines of a history; [`index`] lists many runs, and [`gallery`] bundles.

mod charts;
mod compare;
mod data;
mod gallery;
mod history;
mod http;
mod index;
mod live;
mod markdown;
pub mod metrics;
mod page;
mod picture;
mod ratios;
mod recorded;
mod subject;

pub use compare::compare_page;
pub use gallery::{GALLERY_MARK, GalleryRow, gallery};
pub use history::history_page;
pub use index::{INDEX_MARK, IndexedRun, index};
pub use live::Live;
pub use markdown::markdown;
pub use page::{Life, PAGE_MARK, page};
pub use picture::picture;
pub use recorded::{Recorded, ReportError};
pub use subject::Subject;
