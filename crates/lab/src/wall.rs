//! When something ended, although the clock of the machine may have been set back meanwhile.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use storebench_results::human::duration;

/// A smaller step is how a clock is kept right.
const STEP: SignedDuration = SignedDuration::from_secs(1);

/// The time of the end, given the time of day at the beginning, how long it took, and the time of day now. With a note if
/// the clock was set back: the end is then computed, so that it is not before the beginning.
pub(crate) fn ended(began: &str, took: Duration, now: Timestamp) -> (String, Option<String>) {
    let Ok(began) = began.parse::<Timestamp>() else { return (now.to_string(), None) };
    let expected = began.checked_add(took).unwrap_or(now);
    let back = expected.duration_since(now);
    if back <= STEP {
        return (now.max(began).to_string(), None);
    }
    let back = duration(back.as_secs_f64() * 1e9);
    let note = format!(
        "the clock of this machine was set back by about {back} meanwhile: times of day are not in order, and the end is \
         computed from the time that passed; durations and rates are right"
    );
    (expected.to_string(), Some(note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_before_it_began() {
        let (began, took) = ("2026-11-28T10:00:00Z", Duration::from_secs(60));
        let at = |now: &str| ended(began, took, now.parse().unwrap());
        assert_eq!(at("2026-11-28T10:01:00.2Z"), ("2026-11-28T10:01:00.2Z".to_owned(), None));
        // The machine slept, or its clock was set forward.
        assert_eq!(at("2026-11-28T12:00:00Z"), ("2026-11-28T12:00:00Z".to_owned(), None));
        let (end, note) = at("2026-11-28T09:31:00Z");
        assert_eq!(end, "2026-11-28T10:01:00Z");
        assert!(note.unwrap().contains("set back by about 30 m meanwhile"));
        // By less than a second, in no time.
        let (end, note) = ended(began, Duration::ZERO, "2026-11-28T09:59:59.5Z".parse().unwrap());
        assert_eq!((end.as_str(), note), (began, None));
    }
}
