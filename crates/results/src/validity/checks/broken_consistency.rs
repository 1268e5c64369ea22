//! `broken-consistency`: does some order of all operations explain what the workers saw?

use crate::HistoryResult;
use crate::human::plural;
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};
use crate::validity::guarantee::{allowed, broken_promises};

pub(super) const CHECK: Check =
    Check::new("broken-consistency", "workers saw what the promised consistency excludes", &[Looks::Phase(look)])
        .and_of_warm_ups();

fn look(scene: &Scene<'_>) -> Option<Finding> {
    let history = scene.phase.history.as_ref()?;
    let promised = scene.phase.consistency.name.as_str();
    let broken = broken_promises(scene.phase);
    let stale = &history.staleness;
    let missed = promised == "strong" && history.broken > 0
        || promised == "session" && stale.own_write_missed + stale.went_back > 0;
    let evicted = history.evicted;
    let (severity, advice) = match () {
        () if history.overflowed => (
            Severity::Caution,
            "too many operations to keep, so nothing was judged; follow fewer documents (consistency_check = { keys = 100 }), or make the phase shorter".to_owned(),
        ),
        () if broken > 0 => (Severity::Invalid, shown(history)),
        () if missed && evicted > 0 && !history.lossy => (
            Severity::Caution,
            "a store that evicts documents may lose any of them; give it more memory to judge its consistency".to_owned(),
        ),
        () if missed => (
            Severity::Caution,
            "this durability does not survive such a fault; use more (durability = \"fsync\") if these writes must be kept".to_owned(),
        ),
        () if promised == "strong" && history.undecided > 0 => (
            Severity::Caution,
            "the search gave up: follow documents with fewer operations at a time".to_owned(),
        ),
        () if history.shared == 0 => (
            Severity::Caution,
            "no document that is followed was read and written by several connections, so nothing was compared: follow more of them, use fewer documents, or lengthen the phase".to_owned(),
        ),
        () if stale.stale > 0 => (
            Severity::Note,
            format!("consistency `{promised}` allows this; use consistency = \"strong\" where reads must be fresh"),
        ),
        () => (Severity::Pass, String::new()),
    };
    let mut observed = history.in_a_line();
    if missed
        && history.lossy
        && let Some(allowed) = allowed(scene.trial, scene.phase)
    {
        observed += &format!("; some writes may be lost, {}", allowed.in_words());
    }
    if missed && evicted > 0 {
        observed += &format!("; the store evicted {}", plural(evicted, "document"));
    }
    Some(Finding::new(
        severity,
        observed,
        "invalid if no order of the operations on a document explains what strong reads saw, if session reads missed the session's own writes or went back, or if a read returned what nobody wrote; caution if the durability allows it after a fault, if it could not be decided, or if nothing was compared; note if reads were stale as their consistency allows",
        advice,
    ))
}

/// Where to see what no order explains.
fn shown(history: &HistoryResult) -> String {
    match &history.file {
        Some(file) => format!(
            "see `history.examples`; `storebench check` shows more of {file}, and --jepsen gives it to other checkers"
        ),
        None => "see `history.examples`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunResult;
    use crate::validity::testing::{CAUTION, INVALID, NOTE, PASS, closed, severity};
    use crate::validity::{exit_code, judge};

    fn found(consistency: &str, change: impl FnOnce(&mut HistoryResult)) -> RunResult {
        let mut result = closed(|p| {
            p.consistency.name = consistency.into();
            p.ops[0].kind = "upsert".into();
            let mut history =
                HistoryResult { keys: 9, shared: 9, operations: 900, linearizable: 9, ..HistoryResult::default() };
            change(&mut history);
            p.history = Some(history);
        });
        result.checks = judge(&result);
        result
    }

    #[test]
    fn the_promise_decides_what_is_broken() {
        let name = "broken-consistency";
        assert_eq!(severity(&closed(|_| ()), name), None);
        type Change = fn(&mut HistoryResult);
        let cases: [(Change, [Option<Severity>; 3]); 9] = [
            (|_| (), [PASS, PASS, PASS]),
            (|h| (h.linearizable, h.broken) = (8, 1), [INVALID, PASS, PASS]),
            (|h| (h.linearizable, h.undecided) = (8, 1), [CAUTION, PASS, PASS]),
            (|h| (h.broken, h.staleness.stale) = (1, 4), [INVALID, NOTE, NOTE]),
            (
                |h| (h.broken, h.staleness.stale, h.staleness.went_back, h.session_broken) = (1, 4, 1, 1),
                [INVALID, INVALID, NOTE],
            ),
            (|h| h.overflowed = true, [CAUTION, CAUTION, CAUTION]),
            (|h| h.shared = 0, [CAUTION, CAUTION, CAUTION]),
            (|h| h.foreign = 1, [INVALID, INVALID, INVALID]),
            // With strong reads, such a document is broken.
            (|h| (h.broken, h.staleness.never_written) = (1, 1), [INVALID, INVALID, INVALID]),
        ];
        for (nth, (change, expected)) in cases.into_iter().enumerate() {
            for (consistency, expected) in ["strong", "session", "stale-ok"].into_iter().zip(expected) {
                let result = found(consistency, change);
                assert_eq!(severity(&result, name), expected, "{nth} {consistency}");
                assert_eq!(exit_code(&result), u8::from(expected == INVALID), "{nth} {consistency}");
            }
        }
    }

    #[test]
    fn a_loss_that_the_durability_allows_excuses_what_it_explains() {
        let of = |consistency, change: fn(&mut HistoryResult)| {
            let result = found(consistency, change);
            (severity(&result, "broken-consistency"), exit_code(&result))
        };
        assert_eq!(of("strong", |h| (h.broken, h.excused, h.lossy) = (2, 2, true)), (CAUTION, 0));
        assert_eq!(of("strong", |h| (h.broken, h.excused, h.lossy) = (2, 1, true)), (INVALID, 1));
        assert_eq!(of("session", |h| (h.staleness.went_back, h.lossy) = (2, true)), (CAUTION, 0));
        let after = |h: &mut HistoryResult| (h.staleness.went_back, h.session_broken, h.lossy) = (2, 1, true);
        assert_eq!(of("session", after), (INVALID, 1));
    }

    #[test]
    fn an_eviction_excuses_what_it_explains() {
        let of = |excused| {
            let mut result = found("strong", |h| (h.broken, h.evicted, h.excused) = (2, 6, excused));
            result.checks = judge(&result);
            let check = result.checks.iter().find(|check| check.check == "broken-consistency").unwrap();
            assert!(check.observed.ends_with("; the store evicted 6 documents"), "{}", check.observed);
            (severity(&result, "broken-consistency"), exit_code(&result))
        };
        assert_eq!(of(2), (CAUTION, 0));
        assert_eq!(of(1), (INVALID, 1));
    }
}
