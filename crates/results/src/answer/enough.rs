//! How much of each factor is enough, store by store, for the lines below the answer.

use indexmap::IndexMap;
use storebench_study::workload::short_names;

use super::words::times;
use crate::figures::{DOCUMENTS, THROUGHPUT};
use crate::human::{count, first_of, plural};
use crate::sweep::{is_spent, value_in_words};
use crate::{FactorSweep, RunResult, TasksResult};

/// The most sentences that are shown, each about one store in one phase.
const MOST: usize = 4;

/// One sentence for each store and phase. For each numeric factor it says how much is enough, or what the highest value
/// changes. A factor that was crossed with others is left out: its curves tell more.
pub(super) fn changes(result: &RunResult, phases: &[String]) -> Vec<String> {
    let of_phase = |swept: &FactorSweep, phase: &str| {
        [DOCUMENTS, THROUGHPUT].iter().any(|measure| swept.figure == format!("{phase}.{}", measure.name))
    };
    let mut factors: Vec<&str> = result.sweeps.iter().map(|swept| swept.factor.as_str()).collect();
    factors.sort_unstable();
    factors.dedup();
    let names = short_names(factors);
    let stores: Vec<&str> = result.sweeps.iter().map(|swept| swept.store.as_str()).collect();
    let several = stores.iter().any(|store| Some(store) != stores.first());
    let mut told: IndexMap<(&str, &str), Vec<String>> = IndexMap::new();
    for phase in phases {
        for swept in result.sweeps.iter().filter(|swept| of_phase(swept, phase)) {
            let alike = |other: &&FactorSweep| {
                (&other.factor, &other.store, &other.figure) == (&swept.factor, &swept.store, &swept.figure)
            };
            if result.sweeps.iter().filter(alike).count() > 1 {
                continue;
            }
            let name = names.get(swept.factor.as_str()).copied().unwrap_or(&swept.factor);
            if let Some(clause) = clause(result, swept, name) {
                told.entry((&swept.store, phase)).or_default().push(clause);
            }
        }
    }
    let sentence = |((store, phase), clauses): ((&str, &str), Vec<String>)| {
        let whose = if several { format!("{store}, ") } else { String::new() };
        format!("{whose}{phase}: {}.", clauses.join("; "))
    };
    first_of(told.into_iter().map(sentence), MOST, |more| format!("{} more: see the curves.", count(more)))
}

fn clause(result: &RunResult, swept: &FactorSweep, name: &str) -> Option<String> {
    let sweep = &swept.sweep;
    if is_spent(&swept.factor) && sweep.curve.len() > 2 {
        return Some(enough(result, swept, name));
    }
    let mut measured = sweep.curve.iter().filter(|value| value.figure.is_some());
    let (first, last) = (measured.next()?, measured.next_back()?);
    let change = last.speed_up.as_ref()?;
    let (first, last) = (value_in_words(first.value), value_in_words(last.value));
    let is_open = change.low.zip(change.high).is_some_and(|(low, high)| low <= 1.0 && high >= 1.0);
    let open = if is_open { ", which is not clear" } else { "" };
    Some(format!("with {name} = {last}, {} as many per second as with {first}{open}", times(change)))
}

/// The tasks that ran at once over all values of a swept number of tasks. `None` for other factors.
pub(super) fn tasks_of(result: &RunResult, swept: &FactorSweep) -> Option<TasksResult> {
    let phase = swept.factor.strip_prefix("phases.")?.strip_suffix(".tasks")?;
    if ![DOCUMENTS, THROUGHPUT].iter().any(|measure| swept.figure == format!("{phase}.{}", measure.name)) {
        return None;
    }
    let own = result.trials.iter().filter(|trial| trial.store == swept.store && !trial.control);
    let tasks = own.flat_map(|trial| &trial.phases).filter(|of| of.name == phase).filter_map(|of| of.tasks);
    tasks.reduce(|a, b| TasksResult {
        asked: a.asked.max(b.asked),
        at_once: a.at_once.max(b.at_once),
        parts: a.parts.max(b.parts),
    })
}

/// How much of a factor is enough, as a clause. Tasks that never ran side by side cannot tell.
pub(crate) fn enough(result: &RunResult, swept: &FactorSweep, name: &str) -> String {
    match tasks_of(result, swept) {
        Some(tasks) if tasks.at_once < 2 => {
            format!("{name} could not matter: 1 of {} ran at a time", plural(tasks.asked.into(), "task"))
        }
        _ => swept.sweep.in_words(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn one_factor_of_one_store() {
        let run = fixture::concluded(fixture::swept());
        assert_eq!(changes(&run, &["mixed".into()]), ["mixed: more than workers = 4 makes no difference."]);
        assert!(changes(&run, &["load".into()]).is_empty());
    }

    #[test]
    fn what_is_no_expense_is_told_by_its_highest_value() {
        let mut run = fixture::concluded(fixture::swept());
        for swept in &mut run.sweeps {
            swept.factor = "collections.books.count".into();
        }
        let told = changes(&run, &["mixed".into()]);
        assert_eq!(
            told,
            ["mixed: with books.count = 8, 3.10 times (95 % interval 3.01 to 3.19) as many per second as with 1."]
        );
        for swept in &mut run.sweeps {
            let last = swept.sweep.curve.last_mut().unwrap().speed_up.as_mut().unwrap();
            (last.low, last.high) = (Some(0.021), Some(123_549.0));
        }
        assert!(changes(&run, &["mixed".into()])[0].ends_with(" as many per second as with 1, which is not clear."));
    }

    /// Tasks that ran one after another do not tell how many are enough.
    #[test]
    fn tasks_that_could_not_matter_are_not_judged() {
        let mut run = fixture::concluded(fixture::swept());
        for swept in &mut run.sweeps {
            swept.factor = "phases.mixed.tasks".into();
        }
        let tasks = |run: &mut RunResult, at_once| {
            let phases = run.trials.iter_mut().flat_map(|trial| &mut trial.phases);
            phases.for_each(|phase| phase.tasks = Some(TasksResult { asked: 8, at_once, parts: 1 }));
        };
        tasks(&mut run, 2);
        assert_eq!(enough(&run, &run.sweeps[0], "tasks"), "more than tasks = 4 makes no difference");
        tasks(&mut run, 1);
        assert_eq!(enough(&run, &run.sweeps[0], "tasks"), "tasks could not matter: 1 of 8 tasks ran at a time");
    }

    #[test]
    fn stores_are_named_and_factors_that_were_crossed_are_left_to_their_curves() {
        let mut run = fixture::concluded(fixture::swept());
        let mut other = run.sweeps.clone();
        for swept in &mut other {
            swept.store = "other".into();
        }
        run.sweeps.extend(other.clone());
        let told = changes(&run, &["mixed".into()]);
        assert_eq!(told.len(), 2);
        assert!(told[0].starts_with("sqlite, mixed: ") && told[1].starts_with("other, mixed: "), "{told:?}");
        assert!(told[1].contains("more than workers = 4"), "{told:?}");
        run.sweeps.extend(other.clone());
        assert_eq!(changes(&run, &["mixed".into()]).len(), 1);
        for store in ["third", "fourth", "fifth", "sixth"] {
            run.sweeps.extend(other.iter().cloned().map(|swept| FactorSweep { store: store.into(), ..swept }));
        }
        let told = changes(&run, &["mixed".into()]);
        assert_eq!((told.len(), told.last().unwrap().as_str()), (5, "1 more: see the curves."));
    }
}
