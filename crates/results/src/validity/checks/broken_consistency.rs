//! `broken-consistency`: does some order of all operations explain what the workers saw?

use crate::HistoryResult;
use crate::human::{count, duration, plural};
use crate::validity::check::{Check, Finding, Looks, Scene};
use crate::validity::guarantee::{allowed, broken_promises};
use crate::validity::model::Severity;

pub(super) const CHECK: Check =
    Check::new("broken-consistency", "workers saw what the promised consistency excludes", &[Looks::Phase(look)])
        .and_of_warm_ups();

fn look(scene: &Scene<'_>) -> Option<Finding> {
    let history = scene.phase.history.as_ref()?;
    let promised = scene.phase.consistency.name.as_str();
    let broken = broken_promises(scene.trial, scene.phase);
    let stale = &history.staleness;
    let (severity, advice) = match () {
        () if history.overflowed => (
            Severity::Caution,
            "too many operations to keep, so nothing was judged; follow fewer documents (consistency_check = { keys = 100 }), or make the phase shorter".to_owned(),
        ),
        () if broken > 0 => (Severity::Invalid, shown(history)),
        () if promised == "strong" && history.broken > 0 => (
            Severity::Caution,
            "this durability does not survive such a fault; use more (durability = \"fsync\") if these writes must be kept".to_owned(),
        ),
        () if promised == "strong" && history.undecided > 0 => (
            Severity::Caution,
            "the search gave up: follow documents with fewer operations at a time".to_owned(),
        ),
        () if history.operations == 0 => {
            (Severity::Note, "no document that is followed was used: follow more of them".to_owned())
        }
        () if stale.stale > 0 => (
            Severity::Note,
            format!("consistency `{promised}` allows this; use consistency = \"strong\" where reads must be fresh"),
        ),
        () => (Severity::Pass, String::new()),
    };
    let mut observed = in_a_line(history);
    if history.broken > 0
        && let Some(allowed) = allowed(scene.trial, scene.phase)
        && promised == "strong"
    {
        observed += &format!("; {} of them across a fault, {}", count(history.broken_across_fault), allowed.in_words());
    }
    Some(Finding::new(
        severity,
        observed,
        "invalid if no order of the operations on a document explains what strong reads saw, or if session reads missed the session's own writes or went back; caution if the durability allows it after a fault, or if it could not be decided; note if reads were behind as their consistency allows",
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

fn in_a_line(history: &HistoryResult) -> String {
    if history.overflowed {
        return format!("more than {} operations on the documents that are followed", count(history.operations));
    }
    let of = format!("{} on {}", plural(history.operations, "operation"), plural(history.keys, "document"));
    let mut out = match history.broken {
        0 if history.undecided == 0 => format!("some order explains all {of}"),
        0 => format!("of {of}, some order explains those on {}", plural(history.linearizable, "document")),
        broken => format!("of {of}, no order explains those on {}", plural(broken, "document")),
    };
    if history.undecided > 0 {
        out += &format!("; {} undecided", plural(history.undecided, "document"));
    }
    if history.unknown > 0 {
        out += &format!("; {} of unknown outcome", count(history.unknown));
    }
    let stale = &history.staleness;
    if stale.stale > 0 {
        out += &format!(
            "; {} of {} reads returned an overwritten version, at most {} and {} behind",
            count(stale.stale),
            count(stale.reads),
            plural(stale.versions_behind_max, "version"),
            duration(stale.time_behind_max_ns as f64)
        );
    }
    for (number, what) in [
        (stale.own_write_missed, "missed the connection's own write"),
        (stale.went_back, "went back to an older version"),
    ] {
        if number > 0 {
            out += &format!("; {} {what}", plural(number, "read"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validity::testing::{CAUTION, INVALID, NOTE, PASS, closed, severity};
    use crate::validity::{exit_code, judge};
    use crate::{FaultResult, RunResult};

    fn found(consistency: &str, change: impl FnOnce(&mut HistoryResult)) -> RunResult {
        let mut result = closed(|p| {
            p.consistency.name = consistency.into();
            p.ops[0].kind = "upsert".into();
            let mut history = HistoryResult { keys: 9, operations: 900, linearizable: 9, ..HistoryResult::default() };
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
        let cases: [(fn(&mut HistoryResult), [Option<Severity>; 3]); 6] = [
            (|_| (), [PASS, PASS, PASS]),
            (|h| (h.linearizable, h.broken) = (8, 1), [INVALID, PASS, PASS]),
            (|h| (h.linearizable, h.undecided) = (8, 1), [CAUTION, PASS, PASS]),
            (|h| (h.broken, h.staleness.stale) = (1, 4), [INVALID, NOTE, NOTE]),
            (|h| (h.broken, h.staleness.stale, h.staleness.went_back) = (1, 4, 1), [INVALID, INVALID, NOTE]),
            (|h| h.overflowed = true, [CAUTION, CAUTION, CAUTION]),
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
    fn a_fault_excuses_what_it_took_and_nothing_else() {
        let struck = |broken_across_fault, durability: &str| {
            let mut result =
                found("strong", |h| (h.linearizable, h.broken, h.broken_across_fault) = (7, 2, broken_across_fault));
            let phase = &mut result.trials[0].phases[0];
            phase.durability.name = durability.into();
            phase.faults = vec![FaultResult {
                what: serde_json::from_value("kill".into()).unwrap(),
                began_ns: Some(1),
                ..FaultResult::default()
            }];
            result.checks = judge(&result);
            (severity(&result, "broken-consistency"), exit_code(&result))
        };
        assert_eq!(struck(2, "none"), (CAUTION, 0));
        assert_eq!(struck(1, "none"), (INVALID, 1), "one was broken without it");
        assert_eq!(struck(2, "fsync"), (INVALID, 1), "acknowledged writes survive a kill");
    }
}
