//! Phases: what is done to the documents, how fast, and under which guarantees.

use std::path::PathBuf;

use indexmap::IndexMap;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::de::{self, value::MapDeserializer};
use serde::{Deserialize, Serialize, Serializer};

use super::copies::CopyDirection;
use super::faults::{Fault, RandomFaults};
use super::kinds::PhaseKind;
use super::mix::MixEntry;
use super::popularity::Popularity;
use super::servers::RestartSpec;
use crate::durability::{DurabilityRequest, Isolation, ReadConsistency};
use crate::units::{Count, PerSecond, Span};
use crate::written::{is_default, schema, wire, written_as};

/// One phase. It loads collections, runs a mix of operations, copies a collection, or makes the store restart, settle
/// or compact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name in results.
    pub name: String,
    /// Collections whose documents are all written once, in bulk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load: Vec<String>,
    /// Operations by weight: `{ read = 50, update = { op = "upsert", weight = 50 } }`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "IndexMap<String, super::mix::MixWire>"))]
    pub mix: IndexMap<String, MixEntry>,
    /// Replays recorded traffic on a collection that has the same `trace`: a JSONL or CSV file with `time`, `op`, `key`, and
    /// optionally `client`, and `size` or `body`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// For a trace: how much faster than recorded; default 1, its own times. `"max"`: each client sends its next operation
    /// when the last one has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
    /// For a trace: whether to compare what the stores of the run answer to each operation. `run --compare-answers` sets it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compare_answers: bool,
    /// Copies a collection in bulk: `"in"` from files into the store, `"out"` from the store into files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyDirection>,
    /// The collection of a copy, and of operations that name none; default: the study's only collection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Documents in one bulk operation of a load; default 1,000. With 1, the load uses single inserts. For a copy into
    /// the store: the maximum number of documents in one request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// For a copy: how many parts run at once, each on its own thread and connection; default 2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u32>,
    /// For a copy: how many parts the work is split into; default: 64, or four for each task if that is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
    /// For a copy out of the store: reads the rows of this view (`design/view`) instead of the collection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// Which keys are requested more often; default uniform.
    #[serde(default)]
    pub popularity: Popularity,
    /// Whether workers draw from the whole key space, or each from its own share.
    #[serde(default)]
    pub streams: Streams,
    /// Threads that send operations; default 2. `"auto"`: one for each core that the stores do not need. The program replaces
    /// it before it reads the study.
    #[serde(default = "default_workers")]
    #[cfg_attr(feature = "schema", schemars(with = "WorkersWire"))]
    pub workers: u32,
    /// Whether each worker stays on one processor of its own; default: the system moves them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pin_workers: bool,
    /// Connections of each worker; default 1.
    #[serde(default = "one")]
    pub connections: u32,
    /// Operations in flight on each connection; default 1.
    #[serde(default = "one")]
    pub in_flight: u32,
    /// Operations scheduled per second over all workers (open loop). Without it the loop is closed: each
    /// worker sends the next operation when the last one has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateSpec>,
    /// How arrivals are spaced at a rate.
    #[serde(default)]
    pub arrival: ArrivalSpec,
    /// How a worker waits for the next arrival.
    #[serde(default)]
    pub pacing: Pacing,
    /// Closed loop only: pause between the end of one operation and the start of the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Span>,
    /// How long it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Or how many operations it runs, over all workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<Count>,
    /// Runs like any phase and is recorded, but is not part of the measured result.
    #[serde(default, skip_serializing_if = "is_default")]
    pub warm_up: bool,
    /// What an acknowledged write survives at least: the store gives the weakest durability that it
    /// has at or above it. `{ exactly = "os" }` asks for neither less nor more, `"default"` for the
    /// store as it is shipped. Default: the strongest of fsync, os and none that the store guarantees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<DurabilityRequest>,
    /// How fresh reads are; default: strong if the store guarantees it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consistency: Option<ReadConsistency>,
    /// How far its transactions are kept apart from others; default: the strongest isolation that the store guarantees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// How long one try of an operation may take; default 10 s.
    #[serde(default = "default_timeout")]
    pub timeout: Span,
    /// What happens after a temporary failure; default: no retry.
    #[serde(default)]
    pub retry: Retry,
    /// What happens when a connection is lost; default: the run continues and reports it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_disconnect: OnDisconnect,
    /// How long after the end scheduled operations are still sent and awaited; default 0 s. The rest count as
    /// unfinished, at their current age.
    #[serde(default, skip_serializing_if = "is_default")]
    pub drain: Span,
    /// Share of the reads (0 to 1) whose contents are compared with the expected ones; default 0.01.
    #[serde(default = "default_check")]
    pub check: f64,
    /// Records the latest acknowledged version of each key written, and reads them all back at the end. Needs `streams
    /// = "disjoint"`, so that each key has one writer. `{ share = 0.1 }` follows a seeded sample of the keys; default:
    /// all keys, or a sample of about a million.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ledger: LedgerSpec,
    /// Records each read and write of documents that all workers share, and decides afterwards whether some order of
    /// them explains what the workers saw. `true`: of all documents. `{ share = 0.1 }`: of a seeded sample. `{ keys =
    /// 100 }`: of the 100 most popular documents of each collection.
    #[serde(default, skip_serializing_if = "is_default")]
    pub consistency_check: ConsistencyCheck,
    /// Faults of the store's server during the phase: `[{ at = "5s", do = "kill" }]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// Instead of `faults`: faults drawn from a seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_faults: Option<RandomFaults>,
    /// Before the phase, shuts the store's server down cleanly and starts it again. `"cold"` also drops its data from
    /// the system's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartSpec>,
    /// After the phase, asks the store to compact, and waits until it has.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compact: bool,
    /// After the phase, waits until the store is idle (flush, compaction), at most this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<Span>,
}

fn one() -> u32 {
    1
}

fn default_workers() -> u32 {
    2
}

fn default_timeout() -> Span {
    Span(std::time::Duration::from_secs(10))
}

fn default_check() -> f64 {
    0.01
}

impl Phase {
    /// A phase of this name with all defaults and nothing to do.
    pub fn named(name: impl Into<String>) -> Self {
        let fields = MapDeserializer::<_, de::value::Error>::new([("name", name.into())].into_iter());
        Self::deserialize(fields).expect("every key but the name has a default")
    }

    /// Whether it sends nothing, and observes how the store restarts, settles or compacts.
    pub fn rests(&self) -> bool {
        self.kind() == Some(PhaseKind::Rest)
    }

    /// Whether it sends operations on documents that are there: a mix, or recorded traffic.
    pub fn asks(&self) -> bool {
        matches!(self.kind(), Some(PhaseKind::Mix(_) | PhaseKind::Trace(_)))
    }

    /// Whether it may change what is stored. Recorded traffic may.
    pub fn writes(&self) -> bool {
        self.loads() || self.trace.is_some() || self.operations_of_mix().any(|of| of.writes())
    }

    /// Whether it writes all documents of collections to the store, by a load or by a copy of files.
    pub fn loads(&self) -> bool {
        !self.load.is_empty() || self.copy == Some(CopyDirection::In)
    }
}

/// How fast recorded traffic is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "SpeedWire"))]
pub enum Speed {
    /// This many times as fast as recorded.
    Times(f64),
    /// As fast as it goes.
    Max,
}

wire! {
    WorkersWire:
    /// `4`
    Count(u32),
    /// `"auto"`
    Auto(String),
}

wire! {
    SpeedWire:
    /// `2`
    Times(f64),
    /// `"max"`
    Max(String),
}

impl Speed {
    fn times(factor: f64) -> Result<Self, String> {
        let fits = factor.is_finite() && (1e-6..=1e6).contains(&factor);
        fits.then_some(Self::Times(factor)).ok_or_else(|| format!("a speed of {factor}; use 0.000001 to 1,000,000"))
    }
}

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Times(factor) => write!(f, "{factor}"),
            Self::Max => f.write_str("max"),
        }
    }
}

written_as!(
    Speed,
    "a factor (2) or \"max\"",
    number = Speed::times,
    text = |text| match (text, text.parse()) {
        ("max", _) => Ok(Speed::Max),
        (_, Ok(factor)) => Speed::times(factor),
        _ => Err(format!("`{text}` is neither a factor nor \"max\"")),
    },
);

impl Serialize for Speed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Times(factor) => serializer.serialize_f64(*factor),
            Self::Max => serializer.serialize_str("max"),
        }
    }
}

/// Whether a phase keeps a ledger, and of how many keys.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(untagged, expecting = "write true, or { share = 0.1 }")]
pub enum LedgerSpec {
    /// Whether it keeps one, of all keys or of a sample of about a million.
    Kept(bool),
    /// It keeps one, of this share of the keys.
    Sample(KeyShare),
}

/// A share of the keys, chosen by the seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KeyShare {
    /// Above 0, up to 1.
    pub share: f64,
}

impl Default for LedgerSpec {
    fn default() -> Self {
        Self::Kept(false)
    }
}

impl LedgerSpec {
    /// Whether it is kept.
    pub fn is_kept(self) -> bool {
        self != Self::Kept(false)
    }

    /// The share of the keys, if one is given.
    pub fn share(self) -> Option<f64> {
        match self {
            Self::Kept(_) => None,
            Self::Sample(KeyShare { share }) => Some(share),
        }
    }
}

/// Which documents a phase follows to decide whether some order of all operations explains what the workers saw.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(untagged, expecting = "write true, { share = 0.1 } or { keys = 100 }")]
pub enum ConsistencyCheck {
    /// All or none.
    Of(bool),
    /// A share of them.
    Share(KeyShare),
    /// The most popular ones.
    Popular(PopularKeys),
}

/// The most popular keys of each collection.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PopularKeys {
    /// How many, from 1 to 1,000,000.
    pub keys: u64,
}

impl Default for ConsistencyCheck {
    fn default() -> Self {
        Self::Of(false)
    }
}

impl ConsistencyCheck {
    /// Whether any document is followed.
    pub fn is_done(self) -> bool {
        self != Self::Of(false)
    }
}

/// How the key space is shared between workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Streams {
    /// Every worker draws from the whole key space with its own seed.
    #[default]
    Independent,
    /// Worker w of W owns the indexes with the remainder w when divided by W.
    Disjoint,
}

/// How arrivals are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalSpec {
    /// Evenly.
    #[default]
    Constant,
    /// As from many independent users: a Poisson process of that rate.
    Poisson,
}

/// How a worker waits for the next arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// Sleeps, and sends operations that were scheduled within up to 100 µs together.
    #[default]
    Economical,
    /// Spins for the last stretch, and yields to the reactor in every iteration. Uses a core for each worker.
    Precise,
}

/// What a lost connection does to the phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OnDisconnect {
    /// The session reconnects by itself; operations that fail meanwhile are counted.
    #[default]
    GoOn,
    /// The phase and its trial end. What was measured until then is kept, and the exit code is 3.
    End,
}

/// What happens after a *temporary* failure: capped exponential back-off with full jitter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// Total number of tries; 1 means no retry.
    pub tries: u32,
    /// Upper bound of the first wait; it doubles for each further one. Each wait is drawn uniformly from 0 to its
    /// bound.
    pub backoff: Span,
    /// Upper bound of every wait.
    pub cap: Span,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            tries: 1,
            backoff: Span(std::time::Duration::from_millis(10)),
            cap: Span(std::time::Duration::from_secs(1)),
        }
    }
}

/// Operations scheduled per second. Written `250`, `{ ramp = [100, 1000] }` (over the whole phase) or
/// `{ steps = [100, 200], each = "10s" }`.
#[derive(Debug, Clone, PartialEq)]
pub enum RateSpec {
    /// The same throughout.
    Constant(f64),
    /// From the first to the second, linearly over the phase's duration.
    Ramp(f64, f64),
    /// One after the other, each equally long.
    Steps {
        /// Operations per second.
        steps: Vec<f64>,
        /// How long each lasts.
        each: Span,
    },
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
struct RateTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    ramp: Option<(PerSecond, PerSecond)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<Vec<PerSecond>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    each: Option<Span>,
}

fn checked_rate(rate: f64) -> Result<f64, String> {
    let fits = rate.is_finite() && (0.0..=1e8).contains(&rate);
    fits.then_some(rate).ok_or_else(|| format!("a rate of {rate} per second; use a number above 0, up to 1e8"))
}

impl RateSpec {
    fn constant(rate: f64) -> Result<Self, String> {
        if rate <= 0.0 {
            return Err(format!("a rate of {rate} per second never sends anything; use more than 0"));
        }
        checked_rate(rate).map(Self::Constant)
    }

    fn of_table(t: RateTable) -> Result<Self, String> {
        match (t.ramp, t.steps, t.each) {
            (Some((from, to)), None, None) if from.0 + to.0 > 0.0 => {
                Ok(Self::Ramp(checked_rate(from.0)?, checked_rate(to.0)?))
            }
            (None, Some(steps), Some(each)) if steps.iter().any(|r| r.0 > 0.0) && !each.0.is_zero() => {
                let steps = steps.into_iter().map(|r| checked_rate(r.0)).collect::<Result<_, _>>()?;
                Ok(Self::Steps { steps, each })
            }
            (None, Some(_), None) => Err("`steps` needs `each`, the length of one step".into()),
            _ => Err("write { ramp = [from, to] } or { steps = [rates], each = \"10s\" }, with a rate above 0".into()),
        }
    }
}

written_as!(
    RateSpec,
    "operations per second (250), { ramp = [100, 1000] } or { steps = [100, 200], each = \"10s\" }",
    number = RateSpec::constant,
    text = |text| text.parse::<PerSecond>().map_err(|e| e.to_string()).and_then(|rate| RateSpec::constant(rate.0)),
    table = RateSpec::of_table,
);

impl Serialize for RateSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let table = match self {
            Self::Constant(rate) => return serializer.serialize_f64(*rate),
            Self::Ramp(from, to) => {
                RateTable { ramp: Some((PerSecond(*from), PerSecond(*to))), steps: None, each: None }
            }
            Self::Steps { steps, each } => {
                let steps = steps.iter().copied().map(PerSecond).collect();
                RateTable { ramp: None, steps: Some(steps), each: Some(*each) }
            }
        };
        table.serialize(serializer)
    }
}

schema!(RateSpec, "Rate", |generator| {
    let table = generator.subschema_for::<RateTable>();
    schemars::json_schema!({ "anyOf": [{ "type": "number", "exclusiveMinimum": 0 }, { "type": "string" }, table] })
});
