//! `faults`: what was done to the server, and what clients saw of it.

use storebench_study::workload::FaultKind;

use crate::human::{bytes, count, duration, plural};
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};
use crate::{FaultResult, RestartedResult};

pub(super) const CHECK: Check =
    Check::new("faults", "a fault failed, or its effects outlasted it", &[Looks::Phase(look)]).and_of_warm_ups();

/// Reports the faults, one after the other.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let faults = &scene.phase.faults;
    let restarted = scene.phase.restarted.as_ref().map(started);
    if faults.is_empty() && restarted.is_none() {
        return None;
    }
    let severity = faults.iter().map(severity).max().unwrap_or(Severity::Note);
    let late = faults.iter().any(is_late);
    let advice = match severity {
        Severity::Caution if late => {
            "count the time until the server answered as the store's outage; the rest is the time that the client took to reconnect"
        }
        Severity::Invalid => "find out why the server did not come back, or make the phase long enough for its faults",
        Severity::Caution => "lengthen the phase, so that the rate after the fault can be measured",
        _ => {
            "compare it with the outage that your users accept: this is one fault of this kind, under this load, on this machine"
        }
    };
    let observed = restarted
        .into_iter()
        .chain(faults.iter().map(|fault| told(fault, scene.phase.failed_operations())))
        .collect::<Vec<_>>()
        .join("; ");
    Some(Finding::new(
        severity,
        observed,
        "caution if 95 % of the earlier rate is not reached again, or clients come back more than 2 s after the server; invalid if \
         a fault could not be injected or undone",
        advice,
    ))
}

fn severity(fault: &FaultResult) -> Severity {
    match (&fault.problem, fault.recovered_ns) {
        (Some(_), _) => Severity::Invalid,
        (None, None) => Severity::Caution,
        (None, Some(_)) if is_late(fault) => Severity::Caution,
        (None, Some(_)) => Severity::Note,
    }
}

/// Clients try to reconnect at least once a second. If they take longer than this after the server is back, it is their
/// own fault.
const LATE_NS: u64 = 2_000_000_000;

/// Whether clients came back much later than the server.
fn is_late(fault: &FaultResult) -> bool {
    fault.clients_late_ns.is_some_and(|late_ns| late_ns > LATE_NS)
}

/// How the server was restarted before a phase, in words.
fn started(of: &RestartedResult) -> String {
    let ns = |ns: u64| duration(ns as f64);
    let cold = of.dropped.as_ref().map_or_else(String::new, |dropped| format!(" ({dropped})"));
    let listening = of.listening_ns.map_or_else(String::new, |after| format!("listening after {}, ", ns(after)));
    format!(
        "restarted before the phase{cold}: stopped in {}, {listening}ready after {}",
        ns(of.stop_ns),
        ns(of.ready_ns)
    )
}

/// That no interval was without an answer, beside how many operations failed.
pub(crate) fn answered(failed: u64) -> String {
    match failed {
        0 => "clients were answered throughout".to_owned(),
        _ => format!("answers never ceased, but {} failed", plural(failed, "operation")),
    }
}

/// One fault of a phase in which so many operations failed, in words.
pub(crate) fn told(fault: &FaultResult, failed: u64) -> String {
    let ns = |ns: u64| duration(ns as f64);
    let named = match fault.detail.as_str() {
        "" => fault.what.to_string(),
        detail => format!("{} ({detail})", fault.what),
    };
    let Some(began) = fault.began_ns else {
        return format!("{named}: {}", fault.problem.as_deref().unwrap_or("not injected"));
    };
    let mut out = format!("{named} at {}: ", ns(began));
    match fault.unavailable_ns {
        0 => out += &answered(failed),
        silent => out += &format!("no operation was answered for {}", ns(silent)),
    }
    let since = |from: Option<u64>, to: Option<u64>| to.zip(from).map(|(to, from)| ns(to.saturating_sub(from)));
    match fault.what {
        FaultKind::Kill | FaultKind::Restart | FaultKind::PowerCut => {
            if let Some(ready) = since(fault.mended_ns, fault.ready_ns) {
                let cold = if fault.dropped.is_some() { " with cold caches" } else { "" };
                out += &format!(", the server answered {ready} after it was told to run again{cold}");
            }
        }
        FaultKind::Run | FaultKind::RollingRestart => {
            out += &since(fault.began_ns, fault.ready_ns).map_or_else(String::new, |took| format!(", it took {took}"));
        }
        _ => {}
    }
    if let Some(forgotten) = &fault.forgotten {
        let (kept, files) = (bytes(forgotten.bytes as f64), count(forgotten.files));
        out += &format!(", the disk lost {kept} of {files} files and {} changes of names", count(forgotten.names));
    }
    if let Some(how) = &fault.server_ended {
        out += &format!(", the server ended by itself ({how})");
    }
    match fault.clients_late_ns.filter(|_| is_late(fault)) {
        Some(late) if fault.first_answer_ns.is_some() => {
            out += &format!(", the client took {} longer than the server to come back", ns(late));
        }
        Some(late) => out += &format!(", the client had not come back {} after the server answered", ns(late)),
        None => {}
    }
    out += &match fault.recovered_ns {
        Some(after) => format!(", 95 % of the earlier rate was reached {} after the fault", ns(after)),
        None => ", 95 % of the earlier rate was not reached again in this phase".to_owned(),
    };
    if let Some(problem) = &fault.problem {
        out += &format!("; {problem}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ForgottenResult;
    use crate::validity::testing::{CAUTION, INVALID, NOTE, closed, severity};

    #[test]
    fn faults() {
        let told = |fault: &FaultResult| super::told(fault, 0);
        let kill = FaultResult {
            what: FaultKind::Kill,
            began_ns: Some(3_000_000_000),
            mended_ns: Some(3_500_000_000),
            ready_ns: Some(3_600_000_000),
            unavailable_ns: 700_000_000,
            first_answer_ns: Some(700_000_000),
            recovered_ns: Some(900_000_000),
            ..FaultResult::default()
        };
        let with = |fault: FaultResult| closed(|p| p.faults = vec![kill.clone(), fault]);
        assert_eq!(severity(&closed(|_| ()), "faults"), None);
        assert_eq!(severity(&with(kill.clone()), "faults"), NOTE);
        assert_eq!(severity(&with(FaultResult { recovered_ns: None, ..kill.clone() }), "faults"), CAUTION);
        assert_eq!(
            severity(&with(FaultResult { problem: Some("it is gone".into()), ..kill.clone() }), "faults"),
            INVALID
        );
        assert_eq!(
            told(&kill),
            "kill at 3.00 s: no operation was answered for 700 ms, the server answered 100 ms after it was told to run again, 95 % of \
             the earlier rate was reached 900 ms after the fault"
        );
        // The server answers at 3.6 s.
        let late = FaultResult {
            first_answer_ns: Some(3_700_000_000),
            clients_late_ns: Some(3_100_000_000),
            unavailable_ns: 3_700_000_000,
            recovered_ns: Some(3_900_000_000),
            ..kill.clone()
        };
        assert_eq!(severity(&with(late.clone()), "faults"), CAUTION);
        assert!(told(&late).contains("the client took 3.10 s longer than the server to come back"), "{}", told(&late));
        let never =
            FaultResult { first_answer_ns: None, clients_late_ns: Some(31_000_000_000), recovered_ns: None, ..late };
        assert!(
            told(&never).contains("the client had not come back 31.0 s after the server answered"),
            "{}",
            told(&never)
        );
        let soon = FaultResult { clients_late_ns: Some(900_000_000), ..kill.clone() };
        assert_eq!((severity(&with(soon.clone()), "faults"), told(&soon)), (NOTE, told(&kill)));
        let restarted = RestartedResult { stop_ns: 20_000_000, ready_ns: 50_000_000, ..RestartedResult::default() };
        assert_eq!(started(&restarted), "restarted before the phase: stopped in 20.0 ms, ready after 50.0 ms");
        assert_eq!(severity(&closed(|p| p.restarted = Some(restarted.clone())), "faults"), NOTE);
        let slow = FaultResult { what: FaultKind::Link, detail: "stalled".into(), unavailable_ns: 0, ..kill.clone() };
        assert_eq!(
            told(&slow),
            "link (stalled) at 3.00 s: clients were answered throughout, 95 % of the earlier rate was reached 900 ms \
             after the fault"
        );
        let some_failed = super::told(&slow, 14);
        assert!(some_failed.contains("answers never ceased, but 14 operations failed,"), "{some_failed}");
        let full = FaultResult {
            what: FaultKind::DiskFull,
            server_ended: Some("exit status: 1; its last output: no space".into()),
            ..kill.clone()
        };
        assert_eq!(severity(&with(full.clone()), "faults"), NOTE, "what a store does is a finding");
        assert!(told(&full).contains("the server ended by itself (exit status: 1; its last output: no space)"));
        let forgotten = Some(ForgottenResult { files: 2, bytes: 4_096, names: 3 });
        let cut = told(&FaultResult { what: FaultKind::PowerCut, forgotten, ..kill });
        assert!(cut.contains("the disk lost 4.00 KiB of 2 files and 3 changes of names"), "{cut}");
    }
}
