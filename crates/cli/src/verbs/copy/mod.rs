//! `copy FROM TO`: copies documents between files and stores.
//!
//! A [`Plan`](plan::Plan) says what to do. Each step takes the plan and what the step before it returned: the source that
//! was opened, how the copy begins, the target, the request.

mod columns;
mod ended;
mod guards;
mod plan;
mod reading;
mod records;
mod run;
mod settings;
mod source;
mod space;
mod summary;
mod target;
mod tasks;

pub use reading::Reading;
pub(crate) use run::copy;
pub(crate) use summary::losses;
pub use tasks::check_server;
