//! `closed-loop-latency`: was latency taken where a slow store is asked less?

use crate::verdicts::check::{Check, Finding, Looks, Scene};
use crate::verdicts::model::Level;

pub(super) const CHECK: Check = Check::new("closed-loop-latency", "response time is not known", &[Looks::Phase(look)]);

/// Whether latency was taken in closed loop, where a slow store is asked less.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    if !scene.measures() {
        return None;
    }
    let (level, saw) = match &scene.phase.rate {
        Some(_) => (Level::Pass, "open loop: response time counts from the scheduled start"),
        None => (Level::Note, "closed loop: each worker waited for an answer before it sent again"),
    };
    Some(Finding::new(
        level,
        saw,
        "note in closed loop",
        "set a `rate` to measure response time: in a closed loop the store is never asked faster than it answers",
    ))
}

#[cfg(test)]
mod tests {
    use crate::verdicts::testing::{NOTE, PASS, closed, level, open};

    #[test]
    fn only_an_open_loop_knows_response_time() {
        assert_eq!(level(&closed(|_| ()), "closed-loop-latency"), NOTE);
        assert_eq!(level(&open(|_| ()), "closed-loop-latency"), PASS);
        assert_eq!(level(&closed(|p| p.loads = true), "closed-loop-latency"), None);
    }
}
