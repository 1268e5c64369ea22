//! Expiry of documents.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

/// Longest expiry. Stores count seconds in different ways; nobody needs more.
const LONGEST_S: u64 = 100 * 366 * 86_400;
/// Time left for an expiry that has already passed: the shortest that stores support.
const SHORTEST: Duration = Duration::from_secs(1);

/// When a document is to expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// This long after it was written.
    In(Duration),
    /// At this time.
    At(Timestamp),
    /// At this time, copied from the source. A document that expires on the way is gone in the source, too.
    AsThere(Timestamp),
}

impl Expiry {
    /// Parses a field's value: seconds as an integer, or a time in RFC 3339; `None` for null.
    ///
    /// # Errors
    /// The value is neither. Whether a time has passed is not checked here: a resumed copy must find the same records
    /// again.
    pub(crate) fn of_json(json: &str) -> Result<Option<Self>, String> {
        let wrong = || {
            let json: String = json.chars().take(60).collect();
            format!("invalid expiry {json}; expected seconds from now (3600), or a time (\"2031-01-31T12:00:00Z\")")
        };
        match serde_json::from_str(json).map_err(|_| wrong())? {
            Value::Null => Ok(None),
            Value::Number(seconds) => match seconds.as_u64().filter(|seconds| (1..=LONGEST_S).contains(seconds)) {
                Some(seconds) => Ok(Some(Self::In(Duration::from_secs(seconds)))),
                None => {
                    Err(format!("invalid expiry {seconds}; expected a whole number of seconds from 1 to {LONGEST_S}"))
                }
            },
            Value::String(text) => text.parse().map(|at| Some(Self::At(at))).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }

    /// Why a document written now cannot have this expiry.
    pub(crate) fn wrong_at(self, now: Timestamp) -> Option<String> {
        match self {
            Self::At(at) if at <= now => Some(format!("its expiry {at} has passed")),
            Self::At(at) | Self::AsThere(at) if at.duration_since(now).as_secs() > LONGEST_S as i64 => {
                Some(format!("its expiry {at} is more than {LONGEST_S} seconds away"))
            }
            _ => None,
        }
    }

    /// Whether the source no longer has the document.
    pub(crate) fn gone_at(self, now: Timestamp) -> bool {
        matches!(self, Self::AsThere(at) if at <= now)
    }

    /// From when on a document may be gone that was written at this moment or later.
    pub(crate) fn gone_from(self, written: Timestamp) -> Timestamp {
        match self {
            Self::In(left) => written.checked_add(left).unwrap_or(Timestamp::MAX),
            Self::At(at) | Self::AsThere(at) => at,
        }
    }

    /// Time left at this moment.
    pub(crate) fn left(self, now: Timestamp) -> Duration {
        match self {
            Self::In(left) => left,
            Self::At(at) | Self::AsThere(at) => at.duration_since(now).try_into().unwrap_or(SHORTEST).max(SHORTEST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn seconds_and_times_are_expiries() {
        let now = at("2030-01-01T00:00:00Z");
        let of = Expiry::of_json;
        assert_eq!(of("3600").unwrap().unwrap().left(now), Duration::from_secs(3_600));
        let hour = of("\"2030-01-01T02:00:00+01:00\"").unwrap().unwrap();
        assert_eq!(hour.left(now), Duration::from_secs(3_600));
        assert_eq!(hour.left(at("2030-01-01T00:59:50Z")), Duration::from_secs(10));
        // The expiry has passed since the record was read.
        assert_eq!(hour.left(at("2030-01-01T07:00:00Z")), SHORTEST);
        assert_eq!(hour.gone_from(now), at("2030-01-01T01:00:00Z"));
        assert_eq!(of("3600").unwrap().unwrap().gone_from(now), at("2030-01-01T01:00:00Z"));
        assert_eq!(of("null"), Ok(None));
        for (json, why) in [
            ("0", "whole"),
            ("-5", "whole"),
            ("1.5", "whole"),
            ("99999999999999", "whole"),
            ("\"tomorrow\"", "invalid expiry"),
            ("\"2030-01-01T02:00:00\"", "invalid expiry"),
            ("true", "invalid expiry"),
        ] {
            assert!(of(json).unwrap_err().contains(why), "{json}: {:?}", of(json));
        }
        let wrong = |json: &str| of(json).unwrap().unwrap().wrong_at(now);
        assert!(wrong("\"2029-12-31T23:59:59Z\"").unwrap().contains("has passed"));
        assert!(wrong("\"9000-01-01T00:00:00Z\"").unwrap().contains("away"));
        assert_eq!((hour.wrong_at(now), wrong("1")), (None, None));
        let past = at("2029-12-31T23:59:59Z");
        assert!(Expiry::AsThere(past).gone_at(now) && !Expiry::AsThere(now).gone_at(past));
        assert!(!Expiry::At(past).gone_at(now) && Expiry::AsThere(past).wrong_at(now).is_none());
    }
}
