//! `errors`: did operations fail?

use crate::OpResult;
use crate::human::{count, percent, plural};
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};

pub(super) const CHECK: Check = Check::new("errors", "operations failed", &[Looks::Phase(look)]);

/// Whether operations failed.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let operations = scene.operations();
    if operations == 0.0 {
        // Nothing ended: everything scheduled is unfinished, or nothing was sent.
        return Some(Finding::new(
            Severity::Invalid,
            "no operation ended",
            "invalid when no operation ends",
            "nothing was measured: lengthen the phase, or find out why the store does not answer",
        ));
    }
    let failed: f64 = scene.phase.ops.values().map(|op| op.errors as f64).sum();
    let named = |is: fn(&OpResult) -> bool| -> Vec<&str> {
        scene.phase.ops.iter().filter(|(_, op)| is(op)).map(|(name, _)| name.as_str()).collect()
    };
    let hopeless = named(|op| op.count > 0 && op.errors >= op.count);
    let unfinished = named(|op| op.count == 0 && op.unfinished > 0);
    let broken = scene.phase.faults.iter().any(|fault| fault.began_ns.is_some());
    let severity = match () {
        () if !hopeless.is_empty() => Severity::Invalid,
        // The study itself broke the server: failures that clients saw are the finding.
        () if broken && unfinished.is_empty() && failed > 0.0 => Severity::Note,
        () if failed > 0.0 || !unfinished.is_empty() => Severity::Caution,
        () => Severity::Pass,
    };
    let mut observed = format!("{} of {} operations failed", count(failed as u64), count(operations as u64));
    if failed > 0.0 {
        observed += &format!(" ({})", percent(failed / operations));
    }
    if !hopeless.is_empty() {
        observed += &format!("; every {} failed", hopeless.join(" and "));
    }
    if !unfinished.is_empty() {
        observed += &format!("; no {} was answered", unfinished.join(" and no "));
    }
    if scene.phase.unknown_outcomes > 0 {
        let writes = plural(scene.phase.unknown_outcomes, "write");
        observed += &format!("; {writes} may or may not have been done");
    }
    if let Some(message) = scene.phase.messages.iter().max_by_key(|m| m.count) {
        observed += &format!("; most often: {}", message.message);
    }
    Some(
        Finding::new(
            severity,
            observed,
            "caution from one failure, or when none of one kind is answered; invalid when all of one kind fail",
            "find the cause in the messages; tables count failed operations as infinitely slow (∞)",
        )
        .weighing(failed / operations),
    )
}

#[cfg(test)]
mod tests {
    use crate::validity::testing::{CAUTION, INVALID, PASS, closed, open, severity};

    #[test]
    fn errors() {
        assert_eq!(severity(&closed(|_| ()), "errors"), PASS);
        assert_eq!(severity(&closed(|p| p.ops[1].errors = 1), "errors"), CAUTION);
        assert_eq!(severity(&closed(|p| p.ops[1].errors = p.ops[1].count - 1), "errors"), CAUTION);
        assert_eq!(severity(&closed(|p| p.ops[1].errors = p.ops[1].count), "errors"), INVALID);
        assert_eq!(severity(&closed(|p| p.ops.values_mut().for_each(|op| op.count = 0)), "errors"), INVALID);
        assert_eq!(severity(&open(|p| (p.ops[1].count, p.ops[1].unfinished) = (0, 9)), "errors"), CAUTION);
        let failed_or_unfinished = open(|p| (p.ops[1].count, p.ops[1].errors, p.ops[1].unfinished) = (3, 3, 9));
        assert_eq!(severity(&failed_or_unfinished, "errors"), INVALID);
    }
}
