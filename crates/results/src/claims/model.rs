//! The result of testing a claim.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::stats::Estimate;

/// How a claim compares with the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// The interval lies where the claim says.
    Matches,
    /// The whole interval lies elsewhere.
    Differs,
    /// The interval straddles the range, there is none, or groups of configurations disagree.
    Undecided,
    /// This run cannot decide it.
    NotTestable,
}

impl ClaimVerdict {
    /// All of them, the clearest first.
    pub(crate) const ALL: [Self; 4] = [Self::Matches, Self::Differs, Self::Undecided, Self::NotTestable];

    /// In a few words, to follow a count.
    pub(crate) fn in_short(self) -> &'static str {
        match self {
            Self::Matches => "match in shape",
            Self::Differs => "differ here",
            Self::Undecided => "undecided",
            Self::NotTestable => "not tested by this run",
        }
    }
}

impl fmt::Display for ClaimVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Matches => "matches in shape",
            Self::Differs => "differs here",
            Self::Undecided => "undecided",
            Self::NotTestable => "not tested by this run",
        })
    }
}

/// A claim and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimResult {
    /// What was published, in one sentence.
    pub says: String,
    /// The figures as they were published.
    pub figures: String,
    /// Where it was published.
    pub source: Option<String>,
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// What was found here, over all groups of configurations: a ratio; a share from 0 to 1; for a peak the best value,
    /// with the lowest and the highest value that may be the best as its ends. Null if nothing was found.
    pub found: Option<Estimate>,
    /// What the claim predicts for the figures of a run. Empty without a test.
    pub expected: String,
    /// Why the verdict is what it is, and what else a reader should know.
    pub why: String,
    /// What was found for each group of configurations that differ only in what is compared. Empty if there is one
    /// group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<ClaimPart>,
}

/// What was found for one group of configurations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimPart {
    /// What its configurations share: `redb, batch = 100`.
    pub configurations: String,
    /// The verdict for this group alone.
    pub verdict: ClaimVerdict,
    /// As in [`ClaimResult`].
    pub found: Estimate,
}
