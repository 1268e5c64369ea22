//! `closed-loop-latency`: was latency measured in a closed loop, where a slow store gets less load?

use crate::validity::check::{Check, Finding, Looks, Scene, Severity};

pub(super) const CHECK: Check = Check::new("closed-loop-latency", "response time is not known", &[Looks::Phase(look)]);

/// Whether latency was measured in a closed loop, where a slow store gets less load.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    if !scene.measures() {
        return None;
    }
    let (severity, observed) = match &scene.phase.rate {
        Some(_) => (Severity::Pass, "open loop: response time counts from the scheduled start"),
        None => (Severity::Note, "closed loop: each worker waited for an answer before it sent again"),
    };
    Some(Finding::new(
        severity,
        observed,
        "note in closed loop",
        "set a `rate` to measure response time: in a closed loop the store is never asked faster than it answers",
    ))
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{NOTE, PASS, closed, open, severity};

    #[test]
    fn only_an_open_loop_knows_response_time() {
        assert_eq!(severity(&closed(|_| ()), "closed-loop-latency"), NOTE);
        assert_eq!(severity(&open(|_| ()), "closed-loop-latency"), PASS);
        assert_eq!(severity(&closed(|p| p.loads = true), "closed-loop-latency"), None);
    }
}
