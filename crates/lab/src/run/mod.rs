//! The runner: measures every store of a study, trial by trial, and saves the results.
//!
//! Everything that can be refused is refused before the first store is touched. After each phase, the run folder holds
//! everything measured so far.

mod before_and_after;
#[cfg(test)]
mod configurations_tests;
mod disk;
mod documents;
mod error;
mod faults;
mod foreign;
mod histories;
#[cfg(test)]
mod history_tests;
mod indexes;
mod inspect;
mod ledgers;
mod links;
mod measure;
mod observe;
mod outage;
mod own_settings;
mod parts;
mod probes;
mod queries;
mod replays;
mod request;
mod resources;
mod resume;
#[cfg(test)]
mod rounds_tests;
mod runner;
#[cfg(test)]
mod server_tests;
mod servers;
mod sessions;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod transfer_tests;
mod transfers;
mod trial;

pub use disk::Disk;
pub use error::LabError;
pub use links::Links;
pub use parts::{Agreement, Meeting, PartRequest, SharedFolder, StartTimes};
pub use request::{Compiled, ConfigurationRequest, PrepareMode, RunRequest, compile_documents};
pub use runner::{RunOutcome, run};
pub use servers::Managed;
pub use transfers::{TransferProgress, TransferRequest, Transferred, Transfers};
