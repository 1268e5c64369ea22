//! Phases that ran several times in one trial, as those do whose rate is searched: which time is the result.

use std::collections::HashMap;

use storebench_lab::results::RunResult;

use super::tables::IntervalRow;

/// By trial and phase which pass is shown, from 0. Phases that ran once are not there.
#[derive(Debug, Default)]
pub(super) struct Passes(HashMap<(u32, String), usize>);

impl Passes {
    /// Of the passes in the rows that one whose counts are those of the result; the last where none is.
    pub(super) fn of(result: &RunResult, rows: &[IntervalRow]) -> Self {
        let mut counts: HashMap<(u32, &str), Vec<(u64, u64)>> = HashMap::new();
        for row in rows {
            let passes = counts.entry((row.trial, &row.phase)).or_default();
            match passes.last_mut() {
                Some((at, sum)) if row.from_ns >= *at => (*at, *sum) = (row.from_ns, *sum + row.succeeded),
                _ => passes.push((row.from_ns, row.succeeded)),
            }
        }
        let mut shown = HashMap::new();
        for ((trial, phase), passes) in counts.into_iter().filter(|(_, passes)| passes.len() > 1) {
            let of = result.trials.iter().find(|t| t.trial == trial);
            let of = of.and_then(|t| t.phases.iter().find(|p| p.name == phase));
            let wanted: Option<u64> = of.map(|p| p.ops.values().map(|op| op.succeeded).sum());
            let found = passes.iter().rposition(|(_, sum)| Some(*sum) == wanted).unwrap_or(passes.len() - 1);
            shown.insert((trial, phase.to_owned()), found);
        }
        Self(shown)
    }

    /// The pass that is shown of a phase that ran several times.
    pub(super) fn shown(&self, trial: u32, phase: &str) -> Option<usize> {
        self.0.get(&(trial, phase.to_owned())).copied()
    }

    /// Leaves rows of other passes out. `place` gives trial, phase and moment of a row.
    pub(super) fn keep<R>(&self, rows: &mut Vec<R>, place: impl Fn(&R) -> (u32, &String, u64)) {
        if self.0.is_empty() {
            return;
        }
        let mut seen: HashMap<(u32, String), (usize, u64)> = HashMap::new();
        rows.retain(|row| {
            let (trial, phase, at) = place(row);
            let key = (trial, phase.clone());
            let Some(shown) = self.0.get(&key).copied() else { return true };
            let (pass, last) = seen.entry(key).or_default();
            if at < *last {
                *pass += 1;
            }
            *last = at;
            *pass == shown
        });
    }
}
