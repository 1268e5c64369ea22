//! `errors`: did operations fail?

use crate::human::{count, percent};
use crate::verdicts::check::{Check, Finding, Looks, Scene};
use crate::verdicts::model::Level;

pub(super) const CHECK: Check = Check::new("errors", "operations failed", &[Looks::Phase(look)]);

/// Whether operations failed.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let operations = scene.operations();
    if operations == 0.0 {
        // Nothing ended: everything due is censored, or nothing was sent.
        return Some(Finding::new(
            Level::Invalid,
            "no operation ended",
            "invalid when no operation ends",
            "nothing was measured: lengthen the phase, or find out why the store does not answer",
        ));
    }
    let failed: f64 = scene.phase.ops.values().map(|op| op.errors as f64).sum();
    let hopeless: Vec<&str> = scene
        .phase
        .ops
        .iter()
        .filter(|(_, op)| op.count > 0 && op.errors >= op.count)
        .map(|(name, _)| name.as_str())
        .collect();
    let unanswered: Vec<&str> = scene
        .phase
        .ops
        .iter()
        .filter(|(_, op)| op.count == 0 && op.censored > 0)
        .map(|(name, _)| name.as_str())
        .collect();
    let broken = scene.phase.faults.iter().any(|fault| fault.began_ns.is_some());
    let level = match () {
        () if !hopeless.is_empty() => Level::Invalid,
        // The study broke the server itself: that clients saw it is the finding.
        () if broken && unanswered.is_empty() && failed > 0.0 => Level::Note,
        () if failed > 0.0 || !unanswered.is_empty() => Level::Caution,
        () => Level::Pass,
    };
    let mut saw = format!("{} of {} operations failed", count(failed as u64), count(operations as u64));
    if failed > 0.0 {
        saw += &format!(" ({})", percent(failed / operations));
    }
    if !hopeless.is_empty() {
        saw += &format!("; every {} failed", hopeless.join(" and "));
    }
    if !unanswered.is_empty() {
        saw += &format!("; no {} was answered", unanswered.join(" and no "));
    }
    if scene.phase.unknown_outcomes > 0 {
        let n = scene.phase.unknown_outcomes;
        saw += &format!("; {} write{} may or may not have been done", count(n), if n == 1 { "" } else { "s" });
    }
    if let Some(message) = scene.phase.messages.iter().max_by_key(|m| m.count) {
        saw += &format!("; most often: {}", message.message);
    }
    Some(Finding::new(
        level,
        saw,
        "caution from one failure, or when none of one kind is answered; invalid when all of one kind fail",
        "percentiles hold for the operations that succeeded: count a failure as infinitely slow when you judge the store",
    ))
}

#[cfg(test)]
mod tests {
    use crate::verdicts::testing::{CAUTION, INVALID, PASS, closed, level, open};

    #[test]
    fn errors() {
        assert_eq!(level(&closed(|_| ()), "errors"), PASS);
        assert_eq!(level(&closed(|p| p.ops[1].errors = 1), "errors"), CAUTION);
        assert_eq!(level(&closed(|p| p.ops[1].errors = p.ops[1].count - 1), "errors"), CAUTION);
        assert_eq!(level(&closed(|p| p.ops[1].errors = p.ops[1].count), "errors"), INVALID);
        assert_eq!(level(&closed(|p| p.ops.values_mut().for_each(|op| op.count = 0)), "errors"), INVALID);
        assert_eq!(level(&open(|p| (p.ops[1].count, p.ops[1].censored) = (0, 9)), "errors"), CAUTION);
        let failed_or_unanswered = open(|p| (p.ops[1].count, p.ops[1].errors, p.ops[1].censored) = (3, 3, 9));
        assert_eq!(level(&failed_or_unanswered, "errors"), INVALID);
    }
}
