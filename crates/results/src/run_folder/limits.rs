//! Judges the study's limits over all attempts of a phase, so that a store cannot pass by failing its slow requests.

use indexmap::IndexMap;
use storebench_engine::measure::{PhaseRecord, Tally};
use storebench_study::workload::{Limit, LimitOn, LimitPath};

use super::attempts::{at_rank, merged, rank};
use super::phase::LimitResult;

/// Judges every limit of this phase.
///
/// Operations that failed, or were unanswered when the phase ended, count as infinitely slow, whatever their age. Give
/// the phase a `drain` as long as the limit, so that only slower operations are left unfinished.
pub fn judge(record: &PhaseRecord, limits: &IndexMap<String, Limit>) -> Vec<LimitResult> {
    let of_phase = limits.iter().filter_map(|(path, limit)| Some((path, limit, LimitPath::parse(path)?)));
    let mine = of_phase.filter(|(.., of)| of.phase == record.name);
    mine.map(|(path, limit, of)| LimitResult { path: path.clone(), ..one(record, limit.value(), &of) }).collect()
}

/// Judges the limits that were judged for a part of this phase.
pub(crate) fn judge_again(record: &PhaseRecord, limits: &[LimitResult]) -> Vec<LimitResult> {
    let again = |of: &LimitResult| {
        Some(LimitResult { path: of.path.clone(), ..one(record, of.limit, &LimitPath::parse(&of.path)?) })
    };
    limits.iter().filter_map(again).collect()
}

fn one(record: &PhaseRecord, limit: f64, of: &LimitPath<'_>) -> LimitResult {
    let all = record.labels.iter().zip(&record.total.ops);
    let tallies: Vec<&Tally> =
        all.filter(|(label, _)| of.op.is_none_or(|op| op == label.name)).map(|(_, tally)| tally).collect();
    let sum = |pick: fn(&Tally) -> u64| tallies.iter().map(|t| pick(t)).sum::<u64>();
    let attempts = sum(Tally::attempts);
    let mut found = LimitResult { limit, attempts, ..LimitResult::default() };
    let (quantile, answered) = match of.on {
        LimitOn::Errors => {
            let failed = sum(Tally::errors) + sum(|t| t.unfinished);
            let share = if attempts == 0 { 1.0 } else { failed as f64 / attempts as f64 };
            return LimitResult { found: Some(share), met: share <= limit, ..found };
        }
        LimitOn::Response(quantile) => (quantile, merged(tallies.iter().copied(), Tally::answered)),
        LimitOn::Service(quantile) => (quantile, merged(tallies.iter().copied(), |t| &t.service)),
    };
    if attempts == 0 {
        return found;
    }
    let within = answered.count_between(0, limit as u64);
    found.share_within = Some(within as f64 / attempts as f64);
    let rank = rank(quantile, attempts);
    found.found = at_rank(&answered, rank).map(|ns| ns as f64);
    // Histogram values are the ends of ranges, so the count within the limit decides.
    found.met = rank <= within;
    found
}

#[cfg(test)]
mod tests {
    use storebench_engine::measure::{histogram, record as note};
    use storebench_engine::store::ErrorKind;

    use super::*;
    use crate::fixture;

    /// 1,000 attempts on one label: `failed` of them failed, `unfinished` were not answered, `slow` took 10 ms, the
    /// rest 1 ms.
    fn phase(failed: u64, unfinished: u64, slow: u64) -> PhaseRecord {
        let mut phase = fixture::open_loop();
        phase.name = "steady".into();
        phase.total.ops.truncate(1);
        phase.labels.truncate(1);
        phase.labels[0].name = "read".into();
        let mut tally = Tally { unfinished, ..Tally::default() };
        tally.failed[ErrorKind::Temporary as usize] = failed;
        tally.succeeded = 1_000 - failed - unfinished;
        for n in 0..tally.succeeded {
            note(&mut tally.response, if n < slow { 10_000_000 } else { 1_000_000 });
            note(&mut tally.service, 1_000_000);
        }
        for n in 0..unfinished {
            // Some were scheduled long before the end, some just before it.
            let age = if n % 2 == 0 { 500 } else { 300_000_000 };
            note(&mut tally.response, age);
            note(&mut tally.unfinished_age, age);
        }
        phase.total.ops[0] = tally;
        phase
    }

    fn judged(record: &PhaseRecord, path: &str, limit: &str) -> LimitResult {
        let limit: Limit = serde_json::from_str(limit).unwrap();
        judge(record, &IndexMap::from([(path.to_owned(), limit)])).remove(0)
    }

    #[test]
    fn failures_and_what_was_not_answered_are_infinitely_slow() {
        for (failed, unfinished) in [(0, 0), (10, 0), (0, 10)] {
            let found = judged(&phase(failed, unfinished, 0), "steady.response.p99", "\"2ms\"");
            assert!(found.met && found.found.is_some(), "{failed} {unfinished}: {found:?}");
            assert_eq!(found.share_within, Some((1_000 - failed - unfinished) as f64 / 1_000.0));
        }
        for (failed, unfinished) in [(11, 0), (0, 11), (6, 5), (1_000, 0)] {
            let found = judged(&phase(failed, unfinished, 0), "steady.response.p99", "\"2ms\"");
            assert!(!found.met && found.found.is_none(), "{failed} {unfinished}: {found:?}");
        }
        assert!(judged(&phase(0, 0, 10), "steady.read.response.p99", "\"2ms\"").met);
        let slow = judged(&phase(0, 0, 11), "steady.read.response.p99", "\"2ms\"");
        assert!(!slow.met && slow.found.is_some_and(|ns| ns > 9e6), "{slow:?}");
        assert!(judged(&phase(0, 0, 11), "steady.service.p99", "\"2ms\"").met);
    }

    /// All unfinished operations are older than the limit, so none of them counts as within it.
    #[test]
    fn what_was_not_answered_is_counted_once() {
        let mut unfinished = phase(0, 20, 0);
        let tally = &mut unfinished.total.ops[0];
        (tally.response, tally.unfinished_age) = (tally.answered(), histogram());
        for _ in 0..20 {
            note(&mut tally.response, 250_000_000);
            note(&mut tally.unfinished_age, 250_000_000);
        }
        let found = judged(&unfinished, "steady.response.p98", "\"200ms\"");
        assert!(found.met && found.share_within == Some(0.98) && found.found.is_some_and(|ns| ns < 2e6), "{found:?}");
        assert!(!judged(&unfinished, "steady.response.p98.1", "\"200ms\"").met);
    }

    #[test]
    fn errors_are_a_share_of_all_attempts() {
        assert!(judged(&phase(2, 3, 0), "steady.errors", "0.005").met);
        let found = judged(&phase(3, 3, 0), "steady.errors", "\"0.5%\"");
        assert!(!found.met && found.found == Some(0.006), "{found:?}");
    }

    #[test]
    fn limits_of_other_phases_and_of_nothing_do_not_hold() {
        let other = IndexMap::from([("other.errors".to_owned(), Limit::Share(1.0))]);
        assert!(judge(&phase(0, 0, 0), &other).is_empty());
        let mut nothing = phase(0, 0, 0);
        nothing.total.ops[0] = Tally::default();
        assert!(!judged(&nothing, "steady.response.p50", "\"1s\"").met);
        assert!(!judged(&nothing, "steady.errors", "0").met);
    }
}
