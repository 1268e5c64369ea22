//! Whether the store still answers. A phase on one that stands still would last as long as all its timeouts together.

use std::time::Duration;

use storebench_study::units::Span;

use crate::measure::{Partial, PartialCause, Recorder};
use crate::store::ErrorKind;

/// The silence that ends a phase is at least this long,
const SHORTEST: Duration = Duration::from_secs(60);
/// and as long as this many operations that follow each other and time out.
const TIMEOUTS: u64 = 5;

/// What the workers of a phase have reported of answers, in ns from its start.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// When the store last answered.
    heard_ns: u64,
    /// Operations that timed out since.
    timed_out: u64,
    /// All operations that were answered.
    answered: u64,
}

impl Silence {
    /// Takes a worker's record of an interval. `now_ns` is the latest that it can contain.
    pub(super) fn take(&mut self, recorder: &Recorder, now_ns: u64) {
        for tally in &recorder.ops {
            // Sessions themselves end operations in the other ways, while a connection is lost.
            let of_store = |kind: &ErrorKind| !matches!(kind, ErrorKind::Temporary | ErrorKind::OutcomeUnknown);
            let refused = ErrorKind::ALL.into_iter().filter(of_store).any(|kind| tally.failed_as(kind) > 0);
            self.answered += tally.succeeded + tally.missed;
            self.timed_out += tally.timed_out;
            if refused || tally.answered_at.ever() {
                self.heard_ns = self.heard_ns.max(if refused { now_ns } else { tally.answered_at.last_ns });
                self.timed_out = tally.timed_out;
            }
        }
    }

    /// Why the phase ends, if the store has been silent for too long. `in_flight` operations are sent at once at most.
    pub(super) fn ends(&self, now_ns: u64, timeout_ns: u64, in_flight: u64) -> Option<Partial> {
        let silent_ns = now_ns.saturating_sub(self.heard_ns);
        let longest_ns = (SHORTEST.as_nanos() as u64).max(timeout_ns.saturating_mul(TIMEOUTS));
        if self.timed_out < TIMEOUTS || silent_ns < longest_ns {
            return None;
        }
        let span = |ns: u64| Span(Duration::from_secs(Duration::from_nanos(ns).as_secs()));
        let since = match self.answered {
            0 => "since the phase began; nothing was measured".to_owned(),
            _ => format!("since {} after the phase began; what it answered before then is kept", span(self.heard_ns)),
        };
        let why = format!(
            "the store has answered nothing for {}, {since}. {} operations timed out meanwhile. It may stand still \
             because of too many operations at once: restart it, and try fewer than these {in_flight} in flight \
             (workers × connections × in-flight)",
            span(silent_ns),
            self.timed_out,
        );
        Some(Partial { cause: PartialCause::Disconnected, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn interval(succeeded: u64, timed_out: u64, refused: u64, at_s: u64) -> Recorder {
        let mut recorder = Recorder::new(1);
        let tally = &mut recorder.ops[0];
        (tally.succeeded, tally.timed_out) = (succeeded, timed_out);
        // Connections were lost, too.
        tally.failed[ErrorKind::OutcomeUnknown as usize] = timed_out;
        tally.failed[ErrorKind::Temporary as usize] = 7 * timed_out;
        tally.failed[ErrorKind::Refused as usize] = refused;
        if succeeded > 0 {
            tally.answered_at.at(at_s * SECOND);
        }
        recorder
    }

    #[test]
    fn a_store_that_stands_still_ends_the_phase_and_the_reason_says_since_when() {
        let mut silence = Silence::default();
        for s in 0..12 {
            silence.take(&interval(100, 0, 0, s), (s + 1) * SECOND);
        }
        for s in 12..71 {
            silence.take(&interval(0, 10, 0, s), (s + 1) * SECOND);
            assert_eq!(silence.ends(s * SECOND, 10 * SECOND, 100), None, "{s}");
        }
        let ended = silence.ends(71 * SECOND, 10 * SECOND, 100).unwrap();
        for part in ["nothing for 1m", "since 11s after", "is kept", "590 operations timed out", "these 100 in flight"]
        {
            assert!(ended.why.contains(part), "`{part}` is missing: {}", ended.why);
        }
        // Where an operation may take longer, more patience is needed.
        assert_eq!(silence.ends(71 * SECOND, 15 * SECOND, 100), None);
        assert!(silence.ends(86 * SECOND, 15 * SECOND, 100).is_some());
    }

    #[test]
    fn a_store_that_refuses_or_is_hardly_asked_does_not_end_the_phase() {
        let mut refuses = Silence::default();
        let mut idle = Silence::default();
        for s in 0..1_000 {
            refuses.take(&interval(0, 1, 1, s), (s + 1) * SECOND);
            idle.take(&interval(0, u64::from(s == 3), 0, s), (s + 1) * SECOND);
        }
        assert_eq!(refuses.ends(1_000 * SECOND, SECOND, 1), None);
        assert_eq!(idle.ends(1_000 * SECOND, SECOND, 1), None);
        let mut never = Silence::default();
        never.take(&interval(0, 9, 0, 0), SECOND);
        assert!(never.ends(60 * SECOND, SECOND, 1).unwrap().why.contains("nothing was measured"));
    }
}
