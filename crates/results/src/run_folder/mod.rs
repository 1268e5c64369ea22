//! The run folder: its document, tables and logs, how they are written, and how they are read.
//!
//! `docs/results-format.md` describes each file and field.

mod answers;
mod attempts;
mod broken;
mod disk;
mod elsewhere;
#[cfg(test)]
pub(crate) mod fixture;
mod folder;
mod gather;
mod generators;
mod history;
mod hlog;
mod indexes;
mod limits;
mod model;
mod operations;
mod part_rows;
mod pass;
mod phase;
mod read;
mod redact;
mod resources;
mod search;
mod secrets;
mod settings;
mod store_figures;
mod tables;

pub use answers::{AnswerRow, QueryAnswer, QueryAnswers, ReplayAnswers};
pub use broken::{FaultResult, ForgottenResult, RestartedResult};
pub use disk::DiskResult;
pub use elsewhere::ElsewhereResult;
pub use folder::{FolderError, RESULT_FILE, RunFolder, dated, is_run_file, log_name};
pub use gather::gather_phase;
pub use generators::{GeneratorResult, PartResult, PartsResult};
pub use history::{HistoryResult, read_history};
pub use hlog::{histogram_log, merged_log};
pub use indexes::IndexResult;
pub use limits::judge as judge_limits;
pub(crate) use limits::judge_again;
pub use model::{
    CollectionResult, ConfigurationResult, FORMAT, FactorSweep, Failure, FailureKind, FigureOverTrials, RunInfo,
    RunResult, SampledResult, TrialResult,
};
pub(crate) use operations::is_zero;
pub use operations::{OpResult, QueryPlanResult};
pub(crate) use part_rows::{PartRow, part_rows};
pub use pass::Pass;
pub use phase::{
    AllOps, ClientUse, FigureResult, Guarantee, LimitResult, Message, OwnDelay, Percentiles, PhaseDocuments,
    PhaseResult, RateResult, StoreAfter, StoreStatsResult, TasksResult,
};
pub use read::{read_result, read_run};
pub use redact::{HIDDEN, redact, redact_url, without_password};
pub use resources::{
    FolderResult, HostResult, LimitedResult, NetworkResult, ResourcesResult, StoreUseResult, WatchedProcess,
};
pub use search::{ProbeReason, ProbeResult, SearchResult};
pub use secrets::Secrets;
pub(crate) use settings::setting_value;
pub use settings::{SettingResult, SettingsResult};
pub use tables::{Column, FigureRow, Table, lines_of, rows_of};

/// The JSON Schema of `run.json`.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(RunResult).to_value()
}
