//! The tables of a run folder as rows.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A row of a table.
pub(super) trait Row: DeserializeOwned {
    /// The trial, the phase and its pass.
    fn of(&self) -> (u32, String, String);
}

macro_rules! row {
    ($($row:ty)*) => {
        $(impl Row for $row {
            fn of(&self) -> (u32, String, String) {
                (self.trial, self.phase.clone(), self.pass.clone())
            }
        })*
    };
}
row!(IntervalRow ResourceRow StoreRow);

/// One interval of one operation.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct IntervalRow {
    pub(crate) trial: u32,
    pub(crate) phase: String,
    pub(crate) pass: String,
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
    pub(crate) op: String,
    pub(crate) succeeded: u64,
    pub(crate) documents: u64,
    pub(crate) errors: u64,
    #[serde(flatten)]
    pub(crate) times: Times,
}

/// The process at one moment.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ResourceRow {
    pub(crate) trial: u32,
    pub(crate) phase: String,
    pub(crate) pass: String,
    pub(crate) at_ns: u64,
    pub(crate) rss_bytes: u64,
    #[serde(rename = "process_cpu_ns")]
    pub(crate) cpu_ns: u64,
}

/// One figure at one moment: reported by the store, or observed of its processes, its folder or the machine.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct StoreRow {
    pub(crate) trial: u32,
    pub(crate) phase: String,
    pub(crate) pass: String,
    pub(crate) at_ns: u64,
    pub(crate) figure: String,
    /// NaN if the table has null.
    #[serde(deserialize_with = "number")]
    pub(crate) value: f64,
}

fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Option::deserialize(from).map(|value| value.unwrap_or(f64::NAN))
}

/// Percentiles of an interval, as stored.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Times {
    response_p50_ns: Option<u64>,
    response_p99_ns: Option<u64>,
    response_p99_9_ns: Option<u64>,
    response_max_ns: Option<u64>,
    service_p50_ns: Option<u64>,
    service_p99_ns: Option<u64>,
    service_p99_9_ns: Option<u64>,
    service_max_ns: Option<u64>,
}

impl IntervalRow {
    /// p50, p99, p99.9 and maximum of the response time if there is one, otherwise of the service time. None if nothing
    /// was answered.
    pub(crate) fn times(&self) -> [Option<u64>; 4] {
        let of = &self.times;
        let response = [of.response_p50_ns, of.response_p99_ns, of.response_p99_9_ns, of.response_max_ns];
        let service = [of.service_p50_ns, of.service_p99_ns, of.service_p99_9_ns, of.service_max_ns];
        if response.iter().any(Option::is_some) { response } else { service }
    }
}
