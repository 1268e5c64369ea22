//! The run loop, and what surrounds it.
//!
//! A [`PhasePlan`] says what a phase does. [`run_phase`] starts its workers together and gathers what they record. Each
//! worker is one thread that runs one loop: take completions, send what is due while slots are free, wait. The loop is
//! the same for embedded and network stores, for open and closed loop. Only the place where it waits differs.

mod answers;
#[cfg(test)]
mod batches;
mod calibrate;
mod caller;
mod checked;
mod clock;
mod companion;
mod copies;
#[cfg(test)]
mod drawn;
mod drive;
mod events;
mod explain;
mod fit;
mod followed;
mod guarantees;
mod host;
mod indexes;
mod maker;
mod pin;
mod plan;
mod queries;
mod read_back;
mod recipes;
mod replay;
mod requests;
mod run;
mod silence;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod simulated_bulk;
#[cfg(test)]
mod simulated_ends;
#[cfg(test)]
mod simulated_ledger;
#[cfg(test)]
mod simulated_replay;
#[cfg(test)]
mod simulated_transactions;
mod slots;
mod steps;
mod stop;
mod team;
mod worker;

pub use answers::{ComparedAnswers, canonical};
pub use calibrate::calibrate;
pub use caller::Caller;
pub use clock::{Clock, FakeClock, RealClock, unix_now_ns};
pub use companion::{Companion, StoreUse, Watch};
pub use copies::CopyPlan;
pub use drive::{WorkerReport, drive};
pub use events::{Event, Gauges, Observer};
pub use explain::{Explained, example_requests, explain_queries};
pub use fit::{Fit, Lack, StudyPart, Unsupported};
pub use followed::Followed;
pub use guarantees::Guarantees;
pub use host::with_one_waker;
pub use indexes::OwnIndex;
pub use plan::{Amount, PhasePlan, ResolvedPhase, WorkerJob};
pub use queries::AskedQuery;
pub use recipes::{Ask, DEFAULT_LOAD_BATCH, Recipe, Rows};
pub use run::{Begin, PhaseContext, Written, run_phase};
pub use stop::Stop;
pub use team::{Member, Outbox, Snapshot};
