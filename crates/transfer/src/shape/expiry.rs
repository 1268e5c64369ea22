//! When a document is to expire.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

/// Stores count seconds in ways of their own; nobody means more.
const LONGEST_S: u64 = 100 * 366 * 86_400;
/// What has passed meanwhile expires as soon as a store can.
const SHORTEST: Duration = Duration::from_secs(1);

/// When a document is to expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// So long after it was written.
    In(Duration),
    /// At this time.
    At(Timestamp),
}

impl Expiry {
    /// A field's value: seconds as an integer, or a time as in RFC 3339; nothing where it is null.
    ///
    /// # Errors
    /// It is neither, or has passed.
    pub(crate) fn of_json(json: &str, now: Timestamp) -> Result<Option<Self>, String> {
        let wrong = || {
            let json: String = json.chars().take(60).collect();
            format!("{json} is no expiry: write seconds from now (3600), or a time (\"2031-01-31T12:00:00Z\")")
        };
        match serde_json::from_str(json).map_err(|_| wrong())? {
            Value::Null => Ok(None),
            Value::Number(seconds) => match seconds.as_u64().filter(|seconds| (1..=LONGEST_S).contains(seconds)) {
                Some(seconds) => Ok(Some(Self::In(Duration::from_secs(seconds)))),
                None => Err(format!("{seconds} is no expiry: it is between 1 and {LONGEST_S} seconds, and whole")),
            },
            Value::String(text) => match text.parse::<Timestamp>().map_err(|_| wrong())? {
                at if at <= now => Err(format!("its expiry {text} has passed")),
                at if at.duration_since(now).as_secs() > LONGEST_S as i64 => {
                    Err(format!("its expiry {text} is more than {LONGEST_S} seconds away"))
                }
                at => Ok(Some(Self::At(at))),
            },
            _ => Err(wrong()),
        }
    }

    /// How long from then on.
    pub(crate) fn left(self, now: Timestamp) -> Duration {
        match self {
            Self::In(left) => left,
            Self::At(at) => at.duration_since(now).try_into().unwrap_or(SHORTEST).max(SHORTEST),
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
        let of = |json: &str| Expiry::of_json(json, now);
        assert_eq!(of("3600").unwrap().unwrap().left(now), Duration::from_secs(3_600));
        let hour = of("\"2030-01-01T02:00:00+01:00\"").unwrap().unwrap();
        assert_eq!(hour.left(now), Duration::from_secs(3_600));
        assert_eq!(hour.left(at("2030-01-01T00:59:50Z")), Duration::from_secs(10));
        // It was there when the record was read, and has passed since.
        assert_eq!(hour.left(at("2030-01-01T07:00:00Z")), SHORTEST);
        assert_eq!(of("null"), Ok(None));
        for (json, why) in [
            ("0", "whole"),
            ("-5", "whole"),
            ("1.5", "whole"),
            ("99999999999999", "whole"),
            ("\"tomorrow\"", "is no expiry"),
            ("\"2030-01-01T02:00:00\"", "is no expiry"),
            ("true", "is no expiry"),
            ("\"2029-12-31T23:59:59Z\"", "has passed"),
            ("\"9000-01-01T00:00:00Z\"", "away"),
        ] {
            assert!(of(json).unwrap_err().contains(why), "{json}: {:?}", of(json));
        }
    }
}
