//! The run folder: its document, its tables, its logs; written whole, read with care.
//!
//! `docs/results-format.md` says what each file and field holds.

mod attempts;
mod broken;
mod disk;
mod elsewhere;
#[cfg(test)]
pub(crate) mod fixture;
mod folder;
mod gather;
mod hlog;
mod limits;
mod model;
mod outage;
mod pass;
mod read;
mod redact;
mod resources;
mod secrets;
mod store_figures;
mod tables;

pub use broken::{FaultResult, ForgottenResult, RestartedResult};
pub use disk::{DiskIdle, DiskResult};
pub use elsewhere::{ElsewhereResult, Told};
pub(crate) use folder::RESULT_FILE;
pub use folder::{FolderError, RunFolder, log_name};
pub use gather::gather_phase;
pub use hlog::histogram_log;
pub(crate) use limits::judge as judge_limits;
pub use model::{
    AllOps, ArmResult, ClientUse, CollectionResult, CompressionResult, FORMAT, FactorSweep, Failure, FailureKind,
    FigureOverTrials, FigureResult, LimitResult, Message, OpResult, Percentiles, PhaseDocuments, PhaseResult,
    ProbeResult, Promise, QueryPlanResult, RateResult, RunInfo, RunResult, SampledResult, SearchResult, StoreAfter,
    StoreStatsResult, TasksResult, TrialResult,
};
pub(crate) use outage::{Course, When};
pub use pass::Pass;
pub use read::{read_result, read_run};
pub use redact::{redact, redact_url, without_password};
pub use resources::{
    FolderResult, HostResult, LimitedResult, NetworkResult, ResourcesResult, StoreUseResult, UseSample, UseSamples,
    Whose,
};
pub use secrets::Secrets;
pub use tables::{Column, Table, lines_of, rows_of};

pub use storebench_engine::measure::{LedgerReads as LedgerReadsResult, LedgerReport as LedgerResult};

/// The JSON Schema of `run.json`.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(RunResult).to_value()
}
