//! `lost-writes`: is what was acknowledged still there? `unread-writes`: could it be read back?

use storebench_engine::measure::LedgerReport;

use crate::human::{count, percent};
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};
use crate::validity::guarantee::{forbidden, ledger_allowed, lost_writes, unread as in_words};

pub(super) const LOST: Check =
    Check::new("lost-writes", "acknowledged writes were lost, or reads missed them", &[Looks::Phase(lost)])
        .and_of_warm_ups();

pub(super) const UNREAD: Check =
    Check::new("unread-writes", "acknowledged writes could not be read back", &[Looks::Phase(unread)])
        .and_of_warm_ups();

/// Whether what was acknowledged is still there, as far as it was read back.
fn lost(scene: &Scene<'_>) -> Option<Finding> {
    let ledger = scene.phase.ledger.as_ref()?;
    let (lost, misread) = forbidden(scene.trial, scene.phase);
    let reads = &ledger.reads;
    let strong = scene.phase.consistency.name == "strong";
    let allowance = ledger_allowed(scene.trial, scene.phase);
    let (severity, advice) = match () {
        () if lost > 0 => (
            Severity::Invalid,
            "the store did not keep what it acknowledged: see `ledger.examples`, and compare with the durability in force",
        ),
        () if misread > 0 => (
            Severity::Invalid,
            "reads returned older data than was acknowledged or read before: see `ledger.reads.examples`, and compare with the consistency in force",
        ),
        () if ledger.lost > 0 || (strong && reads.stale + reads.backwards > 0) => (
            Severity::Caution,
            "this durability does not survive such a fault; use more (durability = \"fsync\") if these writes must be kept",
        ),
        () if ledger.keys == 0 => {
            (Severity::Note, "nothing was written, so there was nothing to check: add writes to the phase")
        }
        () if ledger.unread() > 0 => (Severity::Note, "nothing is known about the other keys: see unread-writes"),
        () => (Severity::Pass, ""),
    };
    let mut observed = in_a_line(ledger);
    if let Some(allowed) = allowance.filter(|_| lost_writes(ledger) > 0) {
        observed += &format!("; lost {} writes, {}", count(lost_writes(ledger)), allowed.in_words());
    }
    Some(Finding::new(
        severity,
        observed,
        "invalid if one acknowledged write is lost that its durability covers; caution if the durability allows the loss; note if no write was followed, or not all were read back",
        advice,
    ))
}

/// Whether what was acknowledged could be read back. What could not be read is unknown, not lost.
fn unread(scene: &Scene<'_>) -> Option<Finding> {
    let ledger = scene.phase.ledger.as_ref().filter(|ledger| ledger.keys > 0)?;
    let (severity, advice) = match (ledger.unread(), ledger.unverifiable) {
        (0, _) => (Severity::Pass, ""),
        (_, 0) => (Severity::Note, "to read everything back, let the run end by itself"),
        _ => (
            Severity::Invalid,
            "the store did not answer, so it is unknown whether it kept these writes: see `ledger.examples` for its last error, remove the cause, and run again",
        ),
    };
    Some(Finding::new(
        severity,
        in_words(ledger).unwrap_or_else(|| format!("all of {} keys were read back", count(ledger.keys))),
        "invalid if one key cannot be read back; note if reading back was stopped",
        advice,
    ))
}

/// The state of the acknowledged writes, in one line. Kinds that did not occur are left out.
fn in_a_line(ledger: &LedgerReport) -> String {
    let mut parts = vec![format!(
        "{} of {} keys that were read are as acknowledged",
        count(ledger.confirmed.saturating_sub(ledger.happened + ledger.not_happened)),
        count(ledger.read_back())
    )];
    for (number, what) in [
        (ledger.gone, "acknowledged, then lost"),
        (ledger.stale, "older than acknowledged"),
        (ledger.torn, "torn or foreign"),
        (ledger.resurrected, "deleted, but still there"),
        (ledger.never_written, "never written or refused, but there"),
        (ledger.happened, "of unknown outcome, done"),
        (ledger.not_happened, "of unknown outcome, not done"),
    ] {
        if number > 0 {
            parts.push(format!("{} {what}", count(number)));
        }
    }
    let mut out = parts.join(", ");
    let reads = &ledger.reads;
    if reads.stale + reads.backwards > 0 {
        out.push_str(&format!(
            "; of {} reads, {} missed acknowledged writes and {} went back",
            count(reads.followed),
            count(reads.stale),
            count(reads.backwards)
        ));
    }
    if ledger.share > 0.0 && ledger.share < 1.0 {
        out.push_str(&format!("; {} of all keys are followed", percent(ledger.share)));
    }
    out
}

#[cfg(test)]
mod tests {
    use storebench_engine::measure::{LedgerReads, LedgerReport};

    use crate::FaultResult;
    use crate::validity::testing::{CAUTION, INVALID, NOTE, PASS, closed, severity};
    use crate::validity::{exit_code, judge};

    #[test]
    fn lost_writes() {
        let with = |lost, unverifiable| {
            let ledger =
                LedgerReport { keys: 9, confirmed: 9 - lost - unverifiable, lost, unverifiable, ..Default::default() };
            closed(|p| p.ledger = Some(ledger))
        };
        assert_eq!(severity(&closed(|_| ()), "lost-writes"), None);
        assert_eq!(severity(&with(0, 0), "lost-writes"), PASS);
        let few =
            |keys, confirmed| closed(|p| p.ledger = Some(LedgerReport { keys, confirmed, ..LedgerReport::default() }));
        assert_eq!(severity(&few(0, 0), "lost-writes"), NOTE);
        assert_eq!(severity(&few(9, 8), "lost-writes"), NOTE);
        assert_eq!(severity(&few(9, 8), "unread-writes"), NOTE);
        let one = |result: &crate::RunResult, name: &str| {
            let found = judge(result).into_iter().find(|check| check.check == name).unwrap();
            (found.severity, format!("{}; {}", found.observed, found.advice))
        };
        let (lost, unread, both) = (with(1, 0), with(0, 1), with(1, 1));
        for (result, gone, silent) in [(&lost, INVALID, PASS), (&unread, NOTE, INVALID), (&both, INVALID, INVALID)] {
            assert_eq!(exit_code(result), 1);
            let (found, told) = one(result, "lost-writes");
            assert_eq!((Some(found), told.contains("did not keep")), (gone, gone == INVALID), "{told}");
            let (found, told) = one(result, "unread-writes");
            assert_eq!((Some(found), told.contains("1 of 9 keys could not be read back")), (silent, silent == INVALID));
        }
        let told = one(&unread, "lost-writes").1;
        assert!(told.starts_with("8 of 8 keys that were read are as acknowledged;"), "{told}");
    }

    /// A run with this durability and fault, in which three of nine keys were lost. `change` adjusts the ledger.
    fn hits_of(durability: &str, fault: &str, change: impl FnOnce(&mut LedgerReport)) -> crate::RunResult {
        let mut result = closed(|p| {
            p.durability.name = durability.into();
            p.consistency.name = "strong".into();
            p.ops[0].kind = "upsert".into();
            p.faults = vec![FaultResult {
                what: serde_json::from_value(fault.into()).unwrap(),
                began_ns: Some(1),
                recovered_ns: Some(2),
                ..FaultResult::default()
            }];
            let mut ledger = LedgerReport { keys: 9, confirmed: 6, lost: 3, gone: 3, ..Default::default() };
            change(&mut ledger);
            p.ledger = Some(ledger);
        });
        result.checks = judge(&result);
        result
    }

    #[test]
    fn the_guarantee_and_the_fault_decide_what_is_a_loss() {
        for (durability, fault, code) in [
            ("none", "kill", 0),
            ("none", "restart", 0),
            ("none", "power-cut", 0),
            ("none", "pause", 1),
            ("none", "disk-full", 1),
            ("os", "power-cut", 0),
            ("os", "run", 0),
            ("os", "kill", 1),
            ("os", "link", 1),
            ("fsync", "kill", 1),
            ("fsync", "power-cut", 1),
            ("majority", "kill", 0),
            ("acknowledged by 1, persisted disk on 1", "power-cut", 1),
        ] {
            let result = hits_of(durability, fault, |_| ());
            let expected = if code == 0 { CAUTION } else { INVALID };
            assert_eq!(severity(&result, "lost-writes"), expected, "{durability} {fault}");
            assert_eq!(exit_code(&result), code, "{durability} {fault}");
            if code == 0 {
                let told = &result.checks.iter().find(|v| v.check == "lost-writes").unwrap().observed;
                assert!(
                    told.contains(&format!("lost 3 writes, as durability `{durability}` allows after `{fault}`")),
                    "{told}"
                );
            }
        }
    }

    #[test]
    fn no_guarantee_allows_what_is_worse_than_a_lost_write() {
        let code = |change: fn(&mut LedgerReport)| exit_code(&hits_of("none", "kill", change));
        assert_eq!(code(|l| (l.gone, l.stale, l.resurrected) = (1, 1, 1)), 0);
        assert_eq!(code(|l| (l.gone, l.torn) = (2, 1)), 1);
        assert_eq!(code(|l| (l.gone, l.never_written) = (2, 1)), 1);
        assert_eq!(code(|l| l.unverifiable = 1), 1);
        // A read of a write from before the fault finds what the fault left. A write from after the fault must be
        // found.
        let reads = |stale, after_fault| LedgerReads { followed: 9, stale, after_fault, ..Default::default() };
        for (reads, expected) in [(reads(2, 2), 0), (reads(2, 1), 1)] {
            assert_eq!(exit_code(&hits_of("none", "kill", |l| l.reads = reads)), expected);
        }
    }

    #[test]
    fn a_fault_excuses_nothing_that_is_lost_after_every_key_was_read_back() {
        let code = |share: f64, nodes, unverifiable| {
            let mut result = hits_of("os", "power-cut", |_| ());
            let phases = &mut result.trials[0].phases;
            let mut later = phases[0].clone();
            later.faults = Vec::new();
            let ledger = phases[0].ledger.as_mut().unwrap();
            (ledger.share, ledger.confirmed, ledger.unverifiable) = (share, 6 - unverifiable, unverifiable);
            phases[0].faults[0].of_nodes = nodes;
            phases.push(later);
            result.checks = judge(&result);
            let later = |check: &&crate::validity::CheckResult| check.check == "lost-writes";
            result.checks.iter().filter(later).map(|check| check.severity).collect::<Vec<_>>()
        };
        use crate::validity::Severity::{Caution, Invalid};
        assert_eq!(code(1.0, 1, 0), [Caution, Invalid]);
        // Some keys were not read back after it, or another node may take over later.
        assert_eq!(code(0.5, 1, 0), [Caution, Caution]);
        assert_eq!(code(1.0, 1, 1), [Caution, Caution]);
        assert_eq!(code(1.0, 3, 0), [Caution, Caution]);
    }

    #[test]
    fn what_did_not_happen_excuses_nothing() {
        let mut result = hits_of("none", "kill", |_| ());
        result.trials[0].phases[0].faults[0].began_ns = None;
        assert_eq!(exit_code(&result), 1);
    }
}
