//! `not-steady`: was performance stable during the phase?

use crate::human::{duration, percent, rate};
use crate::stats::{CHANGE, STALLED, SeriesEvent, SeriesEventKind};
use crate::validity::check::{Check, Finding, Looks, Scene, Severity, some};
use crate::{PhaseResult, RateResult};

pub(super) const CHECK: Check = Check::new("not-steady", "performance changed during the phase", &[Looks::Phase(look)]);

/// Medians of response times that differ by less count as the same level.
pub(super) const TIMES: f64 = 0.50;
/// The usual length of an interval, in ns.
const SECOND_NS: f64 = 1e9;

/// Whether the answers per second stayed level.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    let phase = scene.phase;
    let steadiness = phase.steadiness.as_ref()?;
    // With a ramp, steps, recorded times or faults, the level is meant to change.
    let changes = |rate: &RateResult| rate.planned.is_object() || rate.planned.is_string();
    if !phase.faults.is_empty() || phase.rate.as_ref().is_some_and(changes) {
        return None;
    }
    let each_ns = interval_ns(phase);
    let stalls = steadiness.events.iter().filter(|event| event.kind == SeriesEventKind::Stall);
    let stalls: Vec<String> = stalls.map(|event| told(event, each_ns)).collect();
    let moves = steadiness.events.iter().filter(|event| event.kind != SeriesEventKind::Stall);
    let mut moves: Vec<String> = moves.map(|event| told(event, each_ns)).collect();
    let times = phase.response_steadiness.iter().flat_map(|found| &found.events);
    moves.extend(times.filter(|event| slower(event)).map(|event| told_of_times(event, each_ns)));
    let (severity, advice) = match (moves.is_empty(), stalls.is_empty()) {
        (true, true) => (Severity::Pass, ""),
        (true, false) => (Severity::Note, "the store or its machine stalled: look at its figures at that time"),
        (false, _) if phase.loads => {
            (Severity::Note, "a store slows down as it fills: its rate at the end is not its rate at the start")
        }
        (false, _) => (
            Severity::Caution,
            "the figures average over several states: warm up until the rate is stable, and lengthen the phase",
        ),
    };
    let moved = steadiness.events.iter().filter(|event| event.kind != SeriesEventKind::Stall && event.before > 0.0);
    let steepest = moved.map(|event| (event.after / event.before - 1.0).abs()).fold(0.0, f64::max);
    let observed = [moves, stalls].concat();
    let observed = if observed.is_empty() { "performance was stable".to_owned() } else { some(&observed) };
    let threshold = format!(
        "caution from a change of {}, note for seconds below {} of the usual rate",
        percent(CHANGE),
        percent(STALLED)
    );
    Some(Finding::new(severity, observed, threshold, advice).weighing(steepest))
}

/// Whether a median rose or fell by enough. A second of fast answers is not a stall.
fn slower(event: &SeriesEvent) -> bool {
    let times = event.after.max(event.before) / event.after.min(event.before).max(1.0);
    event.kind != SeriesEventKind::Stall && times >= 1.0 + TIMES
}

fn told_of_times(event: &SeriesEvent, each_ns: f64) -> String {
    let (before, after) = (duration(event.before), duration(event.after));
    match event.kind {
        SeriesEventKind::Slope => format!("the median response drifted from {before} to {after}"),
        _ => {
            format!("the median response changed from {before} to {after} at {}", duration(event.from as f64 * each_ns))
        }
    }
}

fn told(event: &SeriesEvent, each_ns: f64) -> String {
    let at = |value: u64| duration(value as f64 * each_ns);
    let (from, long) = (at(event.from), at(event.to.saturating_sub(event.from)));
    let (before, after) = (rate(event.before), rate(event.after));
    match event.kind {
        SeriesEventKind::Stall => format!("almost nothing was answered for {long}, from {from}"),
        SeriesEventKind::Change => format!("changed from {before}/s to {after}/s at {from}"),
        SeriesEventKind::Slope if event.after < event.before => {
            format!("fell steadily from {before}/s to {after}/s")
        }
        SeriesEventKind::Slope => format!("rose steadily from {before}/s to {after}/s"),
    }
}

/// The length of an interval. The last one is cut short or waits for the last answers, so their number alone does not
/// determine it.
fn interval_ns(phase: &PhaseResult) -> f64 {
    let intervals = phase.intervals.max(1) as f64;
    let mean = phase.elapsed_ns as f64 / intervals;
    if (mean - SECOND_NS).abs() < 1.5 * SECOND_NS / intervals { SECOND_NS } else { mean }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RateResult;
    use crate::stats::Steadiness;
    use crate::validity::testing::{CAUTION, NOTE, PASS, all, closed, load};

    fn severity(result: &crate::RunResult) -> Option<Severity> {
        crate::validity::testing::severity(result, "not-steady")
    }

    fn event(kind: SeriesEventKind, from: u64, to: u64, before: f64, after: f64) -> Option<Steadiness> {
        let events = vec![SeriesEvent { kind, from, to, before, after }];
        Some(Steadiness { events, ..Steadiness::default() })
    }

    #[test]
    fn a_level_that_moves_or_jumps() {
        assert_eq!(severity(&closed(|p| p.steadiness = Some(Steadiness::default()))), PASS);
        assert_eq!(severity(&closed(|p| p.steadiness = None)), None);
        let slope = closed(|p| p.steadiness = event(SeriesEventKind::Slope, 0, 12, 1_200.0, 800.0));
        assert_eq!(severity(&slope), CAUTION);
        assert_eq!(all(&slope, "not-steady")[0].observed, "fell steadily from 1,200/s to 800/s");
        let change = closed(|p| p.steadiness = event(SeriesEventKind::Change, 7, 12, 1_000.0, 700.0));
        assert_eq!(all(&change, "not-steady")[0].observed, "changed from 1,000/s to 700/s at 7.00 s");
        assert_eq!(severity(&change), CAUTION);
    }

    #[test]
    fn a_stall_is_told_and_takes_nothing() {
        let stall = closed(|p| p.steadiness = event(SeriesEventKind::Stall, 5, 8, 1_000.0, 3.0));
        assert_eq!(severity(&stall), NOTE);
        assert_eq!(all(&stall, "not-steady")[0].observed, "almost nothing was answered for 3.00 s, from 5.00 s");
    }

    #[test]
    fn loads_and_rates_that_are_to_change() {
        assert_eq!(severity(&load(|p| p.steadiness = event(SeriesEventKind::Slope, 0, 12, 1_200.0, 800.0))), NOTE);
        let ramp = closed(|p| {
            p.steadiness = event(SeriesEventKind::Slope, 0, 12, 800.0, 1_200.0);
            p.rate = Some(RateResult { planned: serde_json::json!({ "ramp": [100, 1_000] }), ..Default::default() });
        });
        assert_eq!(severity(&ramp), None);
    }

    #[test]
    fn shorter_intervals_tell_their_own_time() {
        let stall = closed(|p| {
            p.steadiness = event(SeriesEventKind::Stall, 50, 80, 1_000.0, 3.0);
            (p.intervals, p.elapsed_ns) = (120, 12_000_000_000);
        });
        assert_eq!(all(&stall, "not-steady")[0].observed, "almost nothing was answered for 3.00 s, from 5.00 s");
    }
}
