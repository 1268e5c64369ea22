//! `parallelism-not-reached`: did as much run at once as was requested?

use crate::TasksResult;
use crate::human::{count, percent};
use crate::validity::check::{Check, Finding, Looks, Scene, Severity};

pub(super) const CHECK: Check =
    Check::new("parallelism-not-reached", "fewer tasks ran than requested", &[Looks::Phase(look)]).for_the_answer();

/// If less than this share of the in-flight limit was in use, the client of a closed loop did not send as fast as it
/// could.
pub(super) const BUSY: f64 = 0.50;

/// Whether tasks of a copy were idle, or a closed loop stayed below its in-flight limit.
fn look(scene: &Scene<'_>) -> Option<Finding> {
    match &scene.phase.tasks {
        Some(tasks) => Some(copy(tasks)),
        None => closed_loop(scene),
    }
}

fn copy(tasks: &TasksResult) -> Finding {
    let severity = if tasks.at_once < tasks.asked { Severity::Caution } else { Severity::Pass };
    let advice = if tasks.parts < u64::from(tasks.asked) {
        "the source could not be split into more parts: request that many tasks"
    } else {
        "the figures are for fewer tasks than requested: find out which end allowed no more"
    };
    Finding::new(
        severity,
        format!(
            "{} of {} tasks ran at once; the work was split into {} parts",
            count(tasks.at_once.into()),
            count(tasks.asked.into()),
            count(tasks.parts)
        ),
        "caution when fewer tasks run at once than requested",
        advice,
    )
    .weighing(1.0 - f64::from(tasks.at_once) / f64::from(tasks.asked.max(1)))
}

/// Not for embedded stores, which answer on the worker's own thread, one operation at a time. Not for open loops, which
/// should stay below the limit.
fn closed_loop(scene: &Scene<'_>) -> Option<Finding> {
    let phase = scene.phase;
    let limit = f64::from(phase.workers) * f64::from(phase.connections) * f64::from(phase.in_flight);
    if scene.trial.embedded || !scene.measures() || phase.rate.is_some() || limit < 2.0 || scene.operations() == 0.0 {
        return None;
    }
    // If the study does not hold the phase, it may have a think time.
    let phases = scene.result.run.study["phases"].as_array()?;
    let asked = phases.iter().find(|of| of["name"].as_str() == Some(&phase.name))?;
    let varied = scene.trial.values.keys().any(|path| path.ends_with(".think"));
    if !asked["think"].is_null() || varied {
        return None;
    }
    let severity = if phase.in_flight_share < BUSY { Severity::Note } else { Severity::Pass };
    Some(Finding::new(
        severity,
        format!("in-flight limit {}, {} of it in use", count(limit as u64), percent(phase.in_flight_share)),
        format!("note below {} in closed loop; caution for tasks of a copy", percent(BUSY)),
        "the client did not send as fast as the store answered: use more `workers` with a lower `in_flight`, or a smaller `check`",
    ).weighing(-phase.in_flight_share))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::RunResult;
    use crate::validity::testing::{CAUTION, NOTE, PASS, closed, open, separate};

    fn severity(result: &RunResult) -> Option<Severity> {
        crate::validity::testing::severity(result, "parallelism-not-reached")
    }

    #[test]
    fn tasks_of_a_copy() {
        let of = |asked, at_once| closed(|p| p.tasks = Some(TasksResult { asked, at_once, parts: 4 }));
        assert_eq!(severity(&of(4, 4)), PASS);
        assert_eq!(severity(&of(4, 3)), CAUTION);
        assert_eq!(severity(&of(8, 4)), CAUTION);
    }

    fn with(busy: f64, think: serde_json::Value) -> RunResult {
        let mut result = separate(closed(|p| p.in_flight_share = busy));
        result.run.study = json!({ "phases": [{ "name": "load" }, { "name": "mixed", "think": think }] });
        result
    }

    #[test]
    fn the_in_flight_limit_of_a_closed_loop() {
        assert_eq!(severity(&with(0.50, json!(null))), PASS);
        assert_eq!(severity(&with(0.49, json!(null))), NOTE);
        assert_eq!(severity(&with(0.49, json!("10ms"))), None);
        let mut varied = with(0.49, json!(null));
        varied.trials[0].values.insert("phases.mixed.think".into(), json!("1s"));
        assert_eq!(severity(&varied), None);
    }

    #[test]
    fn where_it_has_no_meaning() {
        let mut embedded = with(0.1, json!(null));
        embedded.trials[0].embedded = true;
        assert_eq!(severity(&embedded), None);
        assert_eq!(severity(&separate(closed(|p| p.in_flight_share = 0.1))), None);
        let mut paced = separate(open(|p| p.in_flight_share = 0.1));
        paced.run.study = json!({ "phases": [{ "name": "steady" }] });
        assert_eq!(severity(&paced), None);
        let mut lone = with(0.1, json!(null));
        (lone.trials[0].phases[0].workers, lone.trials[0].phases[0].in_flight) = (1, 1);
        assert_eq!(severity(&lone), None);
    }
}
