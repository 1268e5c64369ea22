//! Was the schedule kept, and by whose fault not?

use super::judge::{Finding, Scene};
use super::model::Level;
use crate::human::{count, duration, percent, rate};

/// Lateness below this is no finding, in ns.
const LEAST_NS: f64 = 1e6;
/// Slip p99 over response p99.
const SLIP: (f64, f64) = (0.10, 0.50);
/// Wait for a slot p99 over response p99.
const SLOT_WAIT: f64 = 0.50;
/// Share of the time from which slots are busy.
const BUSY: f64 = 0.50;
/// Share of the due rate at which operations were answered; share of the due that were censored.
const HELD: f64 = 0.99;
const CENSORED: f64 = 0.01;
/// A rate held this far is held for the question whether slots were few.
const NEARLY_HELD: f64 = 0.95;

/// Whether the client was late though a slot was free: our fault.
pub(super) fn schedule_slip(scene: &Scene<'_>) -> Option<Finding> {
    scene.phase.rate.as_ref()?;
    let slip = scene.phase.client.slip_ns.p99? as f64;
    let response = scene.phase.all.response_ns?.p99? as f64;
    let level = if slip >= LEAST_NS && slip >= SLIP.1 * response {
        Level::Invalid
    } else if slip >= LEAST_NS.max(SLIP.0 * response) {
        Level::Caution
    } else {
        Level::Pass
    };
    Some(Finding::new(
        level,
        format!("slip p99 {} of a response p99 of {}", duration(slip), duration(response)),
        format!(
            "caution from 1 ms and {} of the response p99, invalid from 1 ms and {}",
            percent(SLIP.0),
            percent(SLIP.1)
        ),
        "the client sent late though it could have sent: use pacing = \"precise\", fewer workers than processors or a lower rate, and end what else runs",
    ))
}

/// Whether due operations waited for a free slot while the store had no trouble with the rate.
pub(super) fn too_few_connections(scene: &Scene<'_>) -> Option<Finding> {
    let held = scene.phase.rate.as_ref()?;
    let wait = scene.phase.all.slot_wait_ns?.p99? as f64;
    let response = scene.phase.all.response_ns?.p99? as f64;
    let waits = wait >= LEAST_NS && wait >= SLOT_WAIT * response;
    let held = held.held_share >= NEARLY_HELD;
    let (level, advice) = match (waits && held, scene.phase.slots_busy_share >= BUSY) {
        (false, _) => (Level::Pass, ""),
        (true, true) => (
            Level::Caution,
            "operations waited for a free slot: raise `connections` or `in_flight`; if the wait stays, it is the store's",
        ),
        // Slots that mostly stand free are not too few: something held all of them for a while.
        (true, false) => (
            Level::Note,
            "the slots were mostly free, so the store stalled or arrivals came in bursts: look at the slowest intervals",
        ),
    };
    let slots = f64::from(scene.phase.workers) * f64::from(scene.phase.connections) * f64::from(scene.phase.in_flight);
    Some(Finding::new(
        level,
        format!(
            "wait for a slot p99 {} of a response p99 of {}; {} slots, busy {} of the time",
            duration(wait),
            duration(response),
            count(slots as u64),
            percent(scene.phase.slots_busy_share)
        ),
        format!(
            "caution from 1 ms and {} of the response p99 while the rate is held and slots are busy from {}, else a note",
            percent(SLOT_WAIT),
            percent(BUSY)
        ),
        advice,
    ))
}

/// Whether the store kept up with the rate. A finding about the store, not a fault of the run.
pub(super) fn rate_not_held(scene: &Scene<'_>) -> Option<Finding> {
    let held = scene.phase.rate.as_ref()?;
    if held.due == 0 {
        return None;
    }
    let censored = scene.phase.ops.values().map(|op| op.censored as f64).sum::<f64>() / held.due as f64;
    let level = if held.held_share < HELD || censored > CENSORED { Level::Caution } else { Level::Pass };
    Some(Finding::new(
        level,
        format!(
            "{}/s of {}/s due ({}); {} still unanswered at the end",
            rate(held.achieved_per_s),
            rate(held.due_per_s),
            percent(held.held_share),
            percent(censored)
        ),
        format!("caution below {} of the due rate or above {} unanswered", percent(HELD), percent(CENSORED)),
        "the store did not keep up: its percentiles grow with the phase's length, so name the rate it held, not them; lower `rate` to find it",
    ))
}

/// Whether latency was taken in closed loop, where a slow store is asked less.
pub(super) fn closed_loop_latency(scene: &Scene<'_>) -> Option<Finding> {
    if !scene.measures() {
        return None;
    }
    let (level, saw) = match &scene.phase.rate {
        Some(_) => (Level::Pass, "open loop: response time counts from the intended start"),
        None => (Level::Note, "closed loop: each worker waited for one answer before it asked again"),
    };
    Some(Finding::new(
        level,
        saw,
        "note in closed loop",
        "response time is unknown here: read service times as those of a store that is asked no faster than it answers, or give a `rate`",
    ))
}
