//! Searches for the highest rate that meets the limits, as `run.json` stores them.

use serde::{Deserialize, Serialize};

use super::phase::LimitResult;

/// A search for the highest rate at which the study's limits are met.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SearchResult {
    /// The phase whose rate was searched.
    pub phase: String,
    /// The highest rate that met every limit in most probes, and then for longer (unless the study says `hold = 0`). Null
    /// if there is none.
    pub rate: Option<f64>,
    /// The lowest rate above it that missed a limit in most probes, or for longer. Null if the highest rate that was
    /// tried met them.
    pub fails_at: Option<f64>,
    /// Whether the bracket became as narrow as requested before the probes ran out.
    pub complete: bool,
    /// Every rate that was tried, in order.
    pub probes: Vec<ProbeResult>,
}

/// One rate that was tried.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProbeResult {
    /// Operations scheduled per second.
    pub rate: f64,
    /// Why this one was tried.
    pub why: ProbeReason,
    /// How many times as long as the phase it lasted: more than 1 when a rate had to be held for longer.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub times: u32,
    /// Whether every limit was met.
    pub met: bool,
    /// The limits.
    pub limits: Vec<LimitResult>,
    /// Successes and misses per second.
    pub achieved_per_s: f64,
    /// Share of the in-flight limit that was in use, on average.
    pub in_flight_share: f64,
    /// How late the client sent although the in-flight limit was not reached. If this comes near the limit, the client
    /// failed, not the store.
    pub send_delay_p99_ns: Option<u64>,
    /// Whether the store had settled before the probe.
    pub rested: Option<bool>,
}

/// Why a rate is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ProbeReason {
    /// The first rate.
    #[default]
    #[serde(rename = "the first")]
    First,
    /// The limits were met at half of this rate (or near `to`).
    #[serde(rename = "limits met below")]
    Grow,
    /// The middle of the bracket.
    #[serde(rename = "between met and failed")]
    Bisect,
    /// The lower end of the bracket, where the limits must be met again.
    #[serde(rename = "confirm that they are met")]
    ConfirmMet,
    /// The upper end of the bracket, where the limits must be missed again.
    #[serde(rename = "confirm that they fail")]
    ConfirmFails,
    /// The limits were met in most probes, and must be met for longer.
    #[serde(rename = "hold for longer")]
    Hold,
}

fn once() -> u32 {
    1
}

/// By reference, as serde asks for.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_once(times: &u32) -> bool {
    *times == 1
}

impl SearchResult {
    /// Whether the rate that was found met the limits for longer, in a phase that it was not chosen by.
    pub fn is_held(&self) -> bool {
        self.probes.iter().any(|probe| probe.why == ProbeReason::Hold && probe.met && Some(probe.rate) == self.rate)
    }

    /// The highest rate that met the limits in most probes, but not for longer, and how many times as long that was.
    pub fn not_held(&self) -> Option<(f64, u32)> {
        let failed = self.probes.iter().filter(|probe| probe.why == ProbeReason::Hold && !probe.met);
        failed.map(|probe| (probe.rate, probe.times)).max_by(|a, b| a.0.total_cmp(&b.0))
    }
}
