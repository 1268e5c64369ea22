//! Searches for the highest rate at which limits are met, as `run.json` tells them.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::model::LimitResult;

/// A search for the highest rate at which the study's limits are met.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct SearchResult {
    /// The phase whose rate was searched.
    pub phase: String,
    /// The highest rate at which every limit was met in most probes; null where none did.
    pub rate: Option<f64>,
    /// The lowest rate above it at which they did not in most probes; null where they were met at the highest that was
    /// tried.
    pub fails_at: Option<f64>,
    /// Whether the bracket became as narrow as asked for before the probes ran out.
    pub complete: bool,
    /// Every rate that was tried, in order.
    pub probes: Vec<ProbeResult>,
}

/// One rate that was tried.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct ProbeResult {
    /// Operations scheduled per second.
    pub rate: f64,
    /// Why this one was tried.
    pub why: ProbeReason,
    /// Whether every limit was met.
    pub met: bool,
    /// The limits.
    pub limits: Vec<LimitResult>,
    /// Successes and misses per second.
    pub achieved_per_s: f64,
    /// Share of the in-flight limit that was in use, on average.
    #[serde(default)]
    pub in_flight_share: f64,
    /// How late the client sent though the in-flight limit was not reached: where it comes near the limit, the client failed, not the store.
    pub send_delay_p99_ns: Option<u64>,
    /// Whether the store had come to rest before it.
    pub rested: Option<bool>,
}

/// Why a rate is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub enum ProbeReason {
    /// It is the first.
    #[default]
    #[serde(rename = "the first")]
    First,
    /// The limits were met at half of it (or near `to`).
    #[serde(rename = "limits met below")]
    Grow,
    /// It lies in the middle of the bracket.
    #[serde(rename = "between met and failed")]
    Bisect,
    /// It is the bracket's lower end, where they must be met again.
    #[serde(rename = "confirm that they are met")]
    ConfirmMet,
    /// It is the bracket's upper end, where they must fail again.
    #[serde(rename = "confirm that they fail")]
    ConfirmFails,
}
