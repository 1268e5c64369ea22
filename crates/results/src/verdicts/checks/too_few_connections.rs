//! `too-few-connections`: did due operations wait for a free slot?

use crate::human::{count, duration, percent};
use crate::slots::FULL;
use crate::times::of_answers;
use crate::verdicts::check::{Check, Finding, Looks, Scene};
use crate::verdicts::model::Level;

pub(super) const CHECK: Check =
    Check::new("too-few-connections", "there were too few connections for the rate", &[Looks::Phase(look)])
        .for_the_answer();

/// Lateness below this is no finding, in ns.
pub(super) const LEAST_NS: f64 = 1e6;
/// Wait for a slot p99 over response p99.
pub(super) const SLOT_WAIT: f64 = 0.50;
/// Share of the time from which slots are busy.
pub(super) const BUSY: f64 = 0.50;
/// A rate held this far is held for the question whether slots were few.
pub(super) const NEARLY_HELD: f64 = 0.95;

/// Whether due operations waited for a free slot while the store had no trouble with the rate.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let held = scene.phase.rate.as_ref()?;
    let wait = scene.phase.all.slot_wait_ns?.p99? as f64;
    let response = scene.phase.all.response_ns?.p99? as f64;
    let waits = wait >= LEAST_NS && wait >= SLOT_WAIT * response;
    let held = held.held_share >= NEARLY_HELD;
    let busy = scene.phase.slots_busy_share;
    let (level, advice) = match (waits, held, busy >= BUSY) {
        // A rate that is not held fills any number of slots in the end: whose fault it is, the slots do not tell.
        (true, false, _) if busy >= FULL => (
            Level::Note,
            "the rate was not held and every slot was in use: raise `connections` or `in_flight` to see whether the store or the slots were the bottleneck",
        ),
        (false, ..) | (_, false, _) => (Level::Pass, ""),
        (true, true, true) => (
            Level::Caution,
            "operations waited for a free slot: raise `connections` or `in_flight`; if the wait stays, it is the store's",
        ),
        // Slots that mostly stand free are not too few: something held all of them for a while.
        (true, true, false) => (
            Level::Note,
            "the slots were mostly free, so the store stalled or arrivals came in bursts: look at the slowest intervals",
        ),
    };
    let slots = f64::from(scene.phase.workers) * f64::from(scene.phase.connections) * f64::from(scene.phase.in_flight);
    Some(Finding::new(
        level,
        format!(
            "wait for a slot p99 {} of a response p99 of {}{}; {} slots, busy {} of the time",
            duration(wait),
            duration(response),
            of_answers(&scene.phase.all),
            count(slots as u64),
            percent(busy)
        ),
        format!(
            "caution from 1 ms and {} of the response p99 while the rate is held and slots are busy from {}, else a note",
            percent(SLOT_WAIT),
            percent(BUSY)
        ),
        advice,
    ))
}

#[cfg(test)]
mod tests {
    use crate::Percentiles;
    use crate::verdicts::testing::{CAUTION, NOTE, PASS, closed, level, open};

    #[test]
    fn too_few_connections() {
        for (wait_ns, held, busy, expected) in [
            (999_999, 1.0, 1.0, PASS),
            (1_000_000, 1.0, 0.5, CAUTION),
            (1_000_000, 1.0, 0.49, NOTE),
            (1_000_000, 0.95, 1.0, CAUTION),
            (1_000_000, 0.94, 0.89, PASS),
            (1_000_000, 0.94, 0.90, NOTE),
        ] {
            let result = open(|p| {
                p.slots_busy_share = busy;
                p.all.slot_wait_ns = Some(Percentiles { p99: Some(wait_ns), ..Default::default() });
                p.all.response_ns = Some(Percentiles { p99: Some(2_000_000), ..Default::default() });
                p.rate.as_mut().unwrap().held_share = held;
            });
            assert_eq!(level(&result, "too-few-connections"), expected, "{wait_ns} {held} {busy}");
        }
        assert_eq!(level(&closed(|_| ()), "too-few-connections"), None);
    }
}
