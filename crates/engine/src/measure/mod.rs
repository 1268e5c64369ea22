//! Recorders, intervals and the use of the machine.
//!
//! A worker owns its [`Recorder`] and swaps it each interval; percentiles come from merged
//! histograms only.

mod answer;
mod history;
mod ledger;
mod merged;
mod packed;
mod phase;
mod recorder;
mod resources;
mod store_stats;
mod tally;

pub use answer::Answer;
pub use history::{Content, Did, HistoryOperation, HistoryRecord};
pub use ledger::{LedgerReads, LedgerReport, READ_BACK_OF_A_COLLECTION};
pub use merged::merged;
pub use phase::{Label, OfPart, Partial, PartialCause, PhaseRecord, WorkerUse};
pub use recorder::{Interval, Recorder};
pub use resources::{
    ResourceSample, SAMPLE_EVERY, Sampler, process_cpu_ns, rss_bytes, thread_cpu_ns, thread_run_queue_ns,
};
pub use store_stats::{Asking, StatsSample, StatsSampler, StoreStats};
pub use tally::{Answered, SIGNIFICANT_DIGITS, Tally, histogram, record};
