//! The study file: what is loaded, what is done to it, how fast, and how it is judged.

mod check;
mod claims;
mod collections;
mod copies;
mod errors;
mod existing;
mod factors;
mod faults;
mod fields;
mod followed;
mod hosts;
mod indexes;
mod kinds;
mod limits;
mod load;
mod mix;
mod phases;
mod popularity;
mod presets;
mod queries;
mod repeats;
mod servers;
mod study;
mod transactions;

pub use check::{Problem, collection_of, did_you_mean, does};
pub use claims::{Between, Claim, ClaimTest, FallsTest, PeakTest, RatioTest, RisesTest, ShareTest};
pub use collections::{BadLines, Bin, Body, Collection, FanOut, Per, Size};
pub use copies::{CopyDirection, DEFAULT_TASKS, MOST_TASKS};
pub use errors::{StudyError, StudyErrors, read_toml};
pub use existing::{DEFAULT_SAMPLE, ExistingDocuments};
pub use factors::{
    Database, Design, FactorValues, StoreOption, StudyConfiguration, short_name, short_names, shown_value,
};
pub use faults::{ClientsReach, Condition, Fault, FaultKind, Lost, RandomFaults};
pub use fields::{Field, IdKind, TimeForm, Vary};
pub use hosts::{at_host, leaves_host_open};
pub use indexes::{index_name, tokens};
pub use kinds::PhaseKind;
pub use limits::{Limit, LimitOn, LimitPath, Percent, RateSearch};
pub use load::{Override, automatic_workers};
pub use mix::{Draw, MixEntry};
pub use phases::{
    ArrivalSpec, ConsistencyCheck, KeyShare, LedgerSpec, OnDisconnect, Pacing, Phase, PopularKeys, RateSpec, Retry,
    Speed, Streams,
};
pub use popularity::Popularity;
pub use presets::{Flaw, Preset};
pub use queries::{COLLECTION, Language, QueryPart, QueryTexts, RowCount, SameOn, param_name};
pub use repeats::{FIRST_LOOK, Repeats, UntilNarrow};
pub use servers::{LinkSpec, RestartSpec, ServerSpec, StopSignal};
pub use study::{Stores, Study};
pub use transactions::Operation;

/// The JSON Schema of a study file, for editors.
#[cfg(feature = "schema")]
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Study).to_value()
}
