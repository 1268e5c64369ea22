//! How often a study is repeated.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::limits::Percent;

/// The round after which intervals are looked at first. Before, a run would often end because its rounds happen to be
/// alike, and its intervals would miss the true value more often than they say: in simulated studies 7 to 12 % instead of
/// 5 % if the first look is after 3 to 8 rounds.
pub const FIRST_LOOK: u32 = 12;

/// How often everything is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(untagged, expecting = "write a number such as 5, or { until = \"3%\", at_most = 30 }")]
pub enum Repeats {
    /// This often.
    Times(u32),
    /// Until intervals are narrow enough.
    Until(UntilNarrow),
}

/// When a run has enough rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UntilNarrow {
    /// The half width that the intervals should have: `"3%"`.
    pub until: Percent,
    /// The most rounds, at least 12: intervals are looked at first after 12 rounds, then after each.
    pub at_most: u32,
}

impl Default for Repeats {
    fn default() -> Self {
        Self::Times(1)
    }
}

impl From<u32> for Repeats {
    fn from(times: u32) -> Self {
        Self::Times(times)
    }
}

impl Repeats {
    /// The most rounds.
    pub fn most(self) -> u32 {
        match self {
            Self::Times(times) => times,
            Self::Until(UntilNarrow { at_most, .. }) => at_most,
        }
    }

    /// The fewest rounds.
    pub fn least(self) -> u32 {
        match self {
            Self::Times(times) => times,
            Self::Until(UntilNarrow { at_most, .. }) => FIRST_LOOK.min(at_most),
        }
    }

    /// The half width that intervals should have, as a share, if that decides.
    pub fn until(self) -> Option<f64> {
        match self {
            Self::Times(_) => None,
            Self::Until(UntilNarrow { until, .. }) => Some(until.share()),
        }
    }

    /// What is wrong, and what to do.
    pub(super) fn problem(self) -> Option<String> {
        match self {
            Self::Times(0) => Some("0 repeats measure nothing; use 1 or more".into()),
            Self::Until(UntilNarrow { at_most, .. }) if at_most < FIRST_LOOK => Some(format!(
                "intervals are looked at first after {FIRST_LOOK} rounds; use at_most = {FIRST_LOOK} or more, or a number \
                 of repeats"
            )),
            Self::Until(UntilNarrow { until, .. }) if !(until.share() > 0.0 && until.share() < 1.0) => {
                Some("use a width above 0 % and below 100 %, such as until = \"3%\"".into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Study;

    fn read(repeats: &str) -> Result<Repeats, String> {
        let text = format!(
            "title = \"x\"\nrepeats = {repeats}\n[collections.docs]\ncount = 9\n[[phases]]\nname = \"load\"\nload = [\"docs\"]\n"
        );
        let study = Study::parse(&text, std::path::Path::new("x.toml"), &[]).map_err(|error| error.to_string())?;
        // What a result keeps reads back.
        let again: Study = serde_json::from_value(serde_json::to_value(&study).unwrap()).unwrap();
        assert_eq!(again, study);
        Ok(study.repeats)
    }

    #[test]
    fn a_number_or_a_width() {
        let five = read("5").unwrap();
        assert_eq!((five.least(), five.most(), five.until()), (5, 5, None));
        let narrow = read("{ until = \"3%\", at_most = 30 }").unwrap();
        assert_eq!((narrow.least(), narrow.most(), narrow.until()), (FIRST_LOOK, 30, Some(0.03)));
        for (wrong, told) in [
            ("0", "use 1 or more"),
            ("{ until = \"3%\", at_most = 5 }", "at_most = 12 or more"),
            ("{ until = \"0%\", at_most = 20 }", "a width above 0 %"),
            ("{ until = \"3\", at_most = 20 }", "until = \"3%\""),
            ("{ until = \"3%\" }", "at_most"),
            ("\"often\"", "a number such as 5"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(told), "{wrong}: {error}");
        }
    }
}
