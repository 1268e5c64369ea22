//! What clients saw of a fault: how long nothing was answered, and when the rate recovered.

use indexmap::IndexMap;
use storebench_engine::measure::{Answered, Interval, PhaseRecord};

/// The share of the previous rate that counts as recovered.
const AS_BEFORE: f64 = 0.95;
/// The previous rate is the median over at most this time, in ns.
const BEFORE_NS: u64 = 10_000_000_000;
/// The rate must be sustained for this long to count as recovered, in ns.
const SUSTAINED_NS: u64 = 1_000_000_000;
/// An outage that starts at most this long after a fault is attributed to it, in ns.
const LATE_NS: u64 = 2_000_000_000;

/// What clients saw of a fault; times in ns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outage {
    /// The longest time around the fault without an answer; 0 if it was shorter than an interval.
    pub unavailable_ns: u64,
    /// The same for each operation, by name.
    pub by_op: IndexMap<String, u64>,
    /// From the fault to the answer that ended the outage, for each operation that had one and was answered again.
    pub first_by_op: IndexMap<String, u64>,
    /// From the fault to the answer that ended the outage. `None` if there was no such answer, or it is unknown.
    pub first_answer_ns: Option<u64>,
    /// From the fault until 95 % of the previous rate was sustained for a second. `None` if that was not reached, or
    /// the previous rate is unknown.
    pub recovered_ns: Option<u64>,
}

impl Outage {
    /// How much later clients were answered again than control calls, which the store answered at `ready_ns`. If
    /// clients were not answered before the phase ended, it is at least this much. `None` if there was no outage. Times
    /// from the phase's start, in ns.
    pub(super) fn late_ns(&self, began_ns: u64, ready_ns: u64, end_ns: u64) -> Option<u64> {
        let first_ns = self.first_answer_ns.map_or(end_ns, |after| began_ns + after);
        (self.unavailable_ns > 0).then(|| first_ns.saturating_sub(ready_ns))
    }
}

/// When a fault happened, when it was over, and when the next one happened, in ns from the phase's start.
#[derive(Debug, Clone, Copy)]
pub(super) struct FaultTimes {
    pub began_ns: u64,
    pub over_ns: u64,
    /// `u64::MAX` if there is none.
    pub next_ns: u64,
}

/// When clients were answered in a phase. It is extracted once, because intervals are stored compressed.
pub(super) struct AnswerTimeline {
    seen: Vec<IntervalAnswers>,
    names: Vec<String>,
    end_ns: u64,
    /// The length of an interval.
    least_ns: u64,
}

impl AnswerTimeline {
    /// From a phase's record.
    pub(super) fn of(record: &PhaseRecord) -> Self {
        Self {
            seen: record.intervals.iter().map(IntervalAnswers::of).collect(),
            names: record.labels.iter().map(|label| label.name.clone()).collect(),
            end_ns: record.sending_ns,
            least_ns: record.intervals.first().map_or(0, |i| i.to_ns.saturating_sub(i.from_ns)),
        }
    }

    /// What clients saw of a fault.
    pub(super) fn outage(&self, when: FaultTimes) -> Outage {
        let (seen, began_ns) = (&self.seen, when.began_ns);
        let found = gap(seen.iter().map(|s| s.all), when, self.end_ns, self.least_ns);
        let (mut by_op, mut first_by_op) = (IndexMap::new(), IndexMap::new());
        for (nth, name) in self.names.iter().enumerate() {
            let own = seen.iter().map(|s| s.by_op[nth]);
            if let Some((from_ns, to_ns, ended)) = gap(own, when, self.end_ns, self.least_ns) {
                by_op.insert(name.clone(), to_ns - from_ns);
                if ended {
                    first_by_op.insert(name.clone(), to_ns.saturating_sub(began_ns));
                }
            }
        }
        let Some((from_ns, to_ns, ended)) = found else {
            let recovered_ns = recovered(seen, began_ns, began_ns);
            return Outage { by_op, first_by_op, recovered_ns, ..Outage::default() };
        };
        Outage {
            unavailable_ns: to_ns - from_ns,
            by_op,
            first_by_op,
            first_answer_ns: ended.then(|| to_ns.saturating_sub(began_ns)),
            recovered_ns: ended.then(|| recovered(seen, began_ns, to_ns)).flatten(),
        }
    }
}

/// When, and how often, clients were answered in an interval.
struct IntervalAnswers {
    from_ns: u64,
    to_ns: u64,
    answers: u64,
    all: Answered,
    by_op: Vec<Answered>,
}

impl IntervalAnswers {
    fn of(interval: &Interval) -> Self {
        let record = interval.record();
        let mut all = Answered::default();
        record.ops.iter().for_each(|op| all.add(op.answered_at));
        Self {
            from_ns: interval.from_ns,
            to_ns: interval.to_ns,
            answers: record.answers(),
            all,
            by_op: record.ops.iter().map(|op| op.answered_at).collect(),
        }
    }
}

/// The longest time without an answer that overlaps the fault: its start, its end, and whether an answer ended it. Gaps
/// within one interval are not visible, so a gap must be at least as long as an interval.
fn gap(
    answers: impl Iterator<Item = Answered>,
    when: FaultTimes,
    end_ns: u64,
    least_ns: u64,
) -> Option<(u64, u64, bool)> {
    let FaultTimes { began_ns, over_ns, next_ns } = when;
    let mut before_ns = 0;
    let mut longest: Option<(u64, u64, bool)> = None;
    let mut take = |from_ns: u64, to_ns: u64, ended: bool| {
        let of_next = from_ns >= over_ns && to_ns > next_ns;
        let touches = to_ns > began_ns && from_ns < over_ns.saturating_add(LATE_NS) && !of_next;
        let length = to_ns.saturating_sub(from_ns);
        if touches && length >= least_ns.max(1) && longest.is_none_or(|(from, to, _)| length > to - from) {
            longest = Some((from_ns, to_ns, ended));
        }
    };
    for answered in answers.filter(|answered| answered.ever()) {
        take(before_ns, answered.first_ns, true);
        before_ns = before_ns.max(answered.last_ns);
    }
    take(before_ns, end_ns, false);
    longest
}

/// From the fault until the rate has recovered, looking from `from_ns` on.
fn recovered(seen: &[IntervalAnswers], began_ns: u64, from_ns: u64) -> Option<u64> {
    let per_second = |s: &IntervalAnswers| s.answers as f64 / ((s.to_ns - s.from_ns).max(1) as f64 / 1e9);
    let mut before: Vec<f64> = seen
        .iter()
        .filter(|s| s.to_ns <= began_ns && s.from_ns.saturating_add(BEFORE_NS) >= began_ns && s.from_ns > 0)
        .map(per_second)
        .collect();
    before.sort_by(f64::total_cmp);
    let wanted = *before.get(before.len() / 2)? * AS_BEFORE;
    let after: Vec<&IntervalAnswers> = seen.iter().filter(|s| s.from_ns >= from_ns).collect();
    for (nth, first) in after.iter().enumerate() {
        let (mut answers, mut to_ns) = (0, first.from_ns);
        for s in &after[nth..] {
            answers += s.answers;
            to_ns = s.to_ns;
            if to_ns - first.from_ns >= SUSTAINED_NS {
                break;
            }
        }
        let long_enough = to_ns - first.from_ns >= SUSTAINED_NS;
        if long_enough
            && answers as f64 / ((to_ns - first.from_ns) as f64 / 1e9) >= wanted
            && per_second(first) >= wanted
        {
            return Some(first.from_ns.saturating_sub(began_ns));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn answered(first_ms: u64, last_ms: u64) -> Answered {
        Answered { first_ns: first_ms * MS, last_ns: last_ms * MS }
    }

    #[test]
    fn an_outage_is_the_longest_silence_around_its_fault() {
        let none = Answered::default();
        let answers = [answered(1, 99), answered(101, 150), none, none, answered(450, 499), answered(500, 590)];
        let when = |began: u64, over: u64, next: u64| FaultTimes {
            began_ns: began * MS,
            over_ns: over * MS,
            next_ns: next.saturating_mul(MS),
        };
        let gap =
            |began: u64, over: u64, next: u64| gap(answers.into_iter(), when(began, over, next), 600 * MS, 100 * MS);
        assert_eq!(gap(151, 300, u64::MAX), Some((150 * MS, 450 * MS, true)));
        assert_eq!(gap(460, 470, u64::MAX), None, "a gap shorter than an interval is not visible");
        assert_eq!(gap(101, 120, 151), None, "it belongs to the next fault");
        assert_eq!(gap(101, 160, 200), Some((150 * MS, 450 * MS, true)), "it had begun before the next one");
        // No answers come again.
        let answers = [answered(1, 99), none, none];
        assert_eq!(
            super::gap(answers.into_iter(), when(100, 120, u64::MAX), 300 * MS, 100 * MS),
            Some((99 * MS, 300 * MS, false))
        );
    }

    #[test]
    fn clients_are_late_by_what_the_store_had_answered_before_them() {
        let of = |unavailable_ns, first_answer_ns| Outage { unavailable_ns, first_answer_ns, ..Outage::default() };
        assert_eq!(of(900, Some(700)).late_ns(2_000, 2_500, 9_000), Some(200));
        assert_eq!(of(900, Some(400)).late_ns(2_000, 2_500, 9_000), Some(0), "answered before the store was asked");
        assert_eq!(of(7_000, None).late_ns(2_000, 2_500, 9_000), Some(6_500), "they were never answered again");
        assert_eq!(of(0, None).late_ns(2_000, 2_500, 9_000), None);
    }

    fn seen(answers: &[u64]) -> Vec<IntervalAnswers> {
        let interval = |(nth, answers): (usize, &u64)| IntervalAnswers {
            from_ns: nth as u64 * 500 * MS,
            to_ns: (nth as u64 + 1) * 500 * MS,
            answers: *answers,
            all: Answered::default(),
            by_op: Vec::new(),
        };
        answers.iter().enumerate().map(interval).collect()
    }

    #[test]
    fn it_is_as_before_when_the_rate_before_is_sustained_for_a_second() {
        // The fault comes at 2 s. The first burst of queued operations does not count, because it does not last.
        let course = seen(&[50, 100, 100, 100, 0, 0, 120, 20, 90, 96, 100, 100]);
        assert_eq!(recovered(&course, 2_000 * MS, 3_000 * MS), Some(2_500 * MS));
        assert_eq!(recovered(&course[..9], 2_000 * MS, 3_000 * MS), None);
        assert_eq!(recovered(&course, 0, 0), None, "the previous rate is unknown");
    }
}
