//! The result of a check.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How severe a finding is. Ordered: later is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Checked, and no problem found.
    Pass,
    /// For information; the result remains valid.
    Note,
    /// The result holds with this reservation.
    Caution,
    /// The figures do not measure the store.
    Invalid,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pass => "pass",
            Self::Note => "note",
            Self::Caution => "caution",
            Self::Invalid => "invalid",
        })
    }
}

/// What one check says about a run, a trial or a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckResult {
    /// Name of the check.
    pub check: String,
    /// How severe the finding is.
    pub severity: Severity,
    /// The figure that it observed, with its unit.
    pub observed: String,
    /// The thresholds of its severities.
    pub threshold: String,
    /// What to do, one sentence; empty when there is nothing to do.
    pub advice: String,
    /// How bad it is among the findings of its check and severity: more is worse. Null if they are alike, or cannot be
    /// ordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Number of the trial, if it is about one.
    pub trial: Option<u32>,
    /// Name of the store, if it is about one trial.
    pub store: Option<String>,
    /// Name of the configuration, if it is about one trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// Name of the phase, if it is about one.
    pub phase: Option<String>,
}
