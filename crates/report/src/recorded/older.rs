//! Finds the rows of the result in folders of older versions, whose tables do not mark them. These versions recorded
//! each probe of a rate search as `PHASE@RATE`, and several probes of the same rate one after another.

use std::collections::HashMap;

use storebench_results::{Pass, RunResult, log_name};

use super::tables::{IntervalRow, Row};

/// One recorded pass: trial, recorded name, and the number of earlier passes with that name.
type Time = (u32, String, usize);

/// Maps each pass that is a result to its phase. A pass that is missing is not a result.
#[derive(Debug, Default)]
pub(super) struct Passes(HashMap<Time, String>);

impl Passes {
    /// For each phase, takes the pass whose counts match the result, or the last one if none matches.
    pub(super) fn of(result: &RunResult, rows: &[IntervalRow]) -> Self {
        let mut found: Vec<(Time, u64)> = Vec::new();
        let mut walk = Walk::default();
        for row in rows {
            let pass = walk.step(row.trial, &row.phase, row.from_ns);
            match found.last_mut() {
                Some((known, sum)) if *known == pass => *sum += row.succeeded,
                _ => found.push((pass, row.succeeded)),
            }
        }
        let mut shown = HashMap::new();
        for trial in &result.trials {
            for phase in &trial.phases {
                let searched = trial.searches.iter().any(|search| search.phase == phase.name);
                let is_of = |recorded: &str| {
                    let of_a_rate = || recorded.strip_prefix(&phase.name).is_some_and(|rest| rest.starts_with('@'));
                    recorded == phase.name || (searched && of_a_rate())
                };
                let times = || found.iter().filter(|((of, name, _), _)| *of == trial.trial && is_of(name));
                let wanted: u64 = phase.ops.values().map(|op| op.succeeded).sum();
                let best = times().rfind(|(_, sum)| *sum == wanted).or_else(|| times().next_back());
                if let Some((pass, _)) = best {
                    shown.insert(pass.clone(), phase.name.clone());
                }
            }
        }
        Self(shown)
    }

    /// The histogram log of a phase; none if its pass is unknown.
    pub(super) fn log(&self, trial: u32, store: &str, phase: &str) -> Option<String> {
        let found = self.0.iter().find(|((of, ..), shown)| *of == trial && *shown == phase);
        let ((_, recorded, nth), _) = found?;
        let name = log_name(trial, store, recorded, Pass::Measured);
        Some(if *nth > 0 { format!("{}-{}.hlog", name.trim_end_matches(".hlog"), nth + 1) } else { name })
    }

    /// Removes rows that are not part of a result, and gives the others the names of their phases.
    pub(super) fn keep<R: Row>(&self, rows: &mut Vec<R>) {
        let mut walk = Walk::default();
        rows.retain_mut(|row| {
            let trial = row.trial();
            let (phase, at_ns) = row.place();
            let shown = self.0.get(&walk.step(trial, phase, at_ns));
            if let Some(name) = shown.filter(|name| *name != phase) {
                phase.clone_from(name);
            }
            shown.is_some()
        });
    }
}

/// Distinguishes passes in a sequence of rows: a new pass begins when the phase changes or time goes back.
#[derive(Debug, Default)]
struct Walk {
    last: Option<(Time, u64)>,
    times: HashMap<(u32, String), usize>,
}

impl Walk {
    fn step(&mut self, trial: u32, phase: &str, at_ns: u64) -> Time {
        if let Some((pass, last_ns)) = &mut self.last
            && (pass.0, pass.1.as_str()) == (trial, phase)
            && at_ns >= *last_ns
        {
            *last_ns = at_ns;
            return pass.clone();
        }
        let times = self.times.entry((trial, phase.to_owned())).or_default();
        let pass = (trial, phase.to_owned(), *times);
        *times += 1;
        self.last = Some((pass.clone(), at_ns));
        pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_goes_back_begins_another_pass() {
        let mut walk = Walk::default();
        let mut step = |trial, phase: &str, at| {
            let (_, _, nth) = walk.step(trial, phase, at);
            nth
        };
        assert_eq!(step(1, "steady@500", 0), 0);
        assert_eq!(step(1, "steady@500", 0), 0, "another operation of the same interval");
        assert_eq!(step(1, "steady@500", 1), 0);
        assert_eq!(step(1, "steady@500", 0), 1);
        assert_eq!(step(1, "steady@900", 0), 0);
        assert_eq!(step(1, "steady@500", 5), 2, "also if it begins late");
        assert_eq!(step(2, "steady@500", 0), 0);
    }
}
