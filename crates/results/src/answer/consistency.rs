//! What the workers saw of the documents that consistency checks follow.

use indexmap::IndexMap;

use super::words::capital;
use crate::human::{listed, plural};
use crate::{HistoryResult, RunResult};

/// Whether some order explains it: a sentence for each configuration.
pub(super) fn seen(result: &RunResult) -> Option<String> {
    let mut found: IndexMap<&str, Vec<&HistoryResult>> = IndexMap::new();
    for trial in &result.trials {
        let measured = trial.phases.iter().filter(|phase| !phase.warm_up);
        let histories: Vec<&HistoryResult> = measured.filter_map(|phase| phase.history.as_ref()).collect();
        if !histories.is_empty() {
            found.entry(trial.configuration.as_str()).or_default().extend(histories);
        }
    }
    let found: Vec<(&str, HistoryResult, usize)> = found
        .into_iter()
        .map(|(name, histories)| (name, HistoryResult::over(histories.iter().copied()), histories.len()))
        .collect();
    let several = found.len() > 1;
    let (explained, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, of, _)| several && of.is_explained());
    let whole = HistoryResult::over(explained.iter().map(|(_, of, _)| of));
    let told = others.iter().map(|(name, of, phases)| {
        let line = of.in_a_line();
        let over = if *phases > 1 { format!(", over {}", plural(*phases as u64, "phase")) } else { String::new() };
        match several {
            true => format!("{name}: {line}{over}."),
            false => format!("{}{over}.", capital(&line)),
        }
    });
    let of_whom = match others.is_empty() {
        true => String::new(),
        false => format!(" of {}", listed(explained.iter().map(|(name, ..)| *name))),
    };
    let explained = (!explained.is_empty()).then(|| {
        format!("Some order explains all {}{of_whom} on shared documents.", plural(whole.operations, "operation"))
    });
    let told: Vec<String> = told.chain(explained).collect();
    (!told.is_empty()).then(|| told.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn what_was_seen_is_said_for_each_configuration() {
        let mut run = fixture::run_of(&[fixture::closed_loop()]);
        assert_eq!(seen(&run), None);
        let history = HistoryResult { keys: 20, operations: 3_031, linearizable: 20, ..HistoryResult::default() };
        run.trials[0].phases[0].history = Some(history.clone());
        assert_eq!(seen(&run).unwrap(), "Some order explains all 3,031 operations on 20 documents.");
        let mut other = run.trials[0].clone();
        other.configuration = "other".into();
        other.phases[0].history = Some(HistoryResult { linearizable: 18, broken: 2, ..history });
        run.trials.push(other);
        assert!(
            seen(&run)
                .unwrap()
                .starts_with("other: of 3,031 operations on 20 documents, no order explains those on 2 documents."),
            "{:?}",
            seen(&run)
        );
        assert!(
            seen(&run).unwrap().ends_with("Some order explains all 3,031 operations of sqlite on shared documents.")
        );
        let mut alike = run.clone();
        alike.trials[1].phases[0].history = alike.trials[0].phases[0].history.clone();
        assert_eq!(seen(&alike).unwrap(), "Some order explains all 6,062 operations on shared documents.");
        run.trials[0].configuration = "other".into();
        assert!(seen(&run).unwrap().contains("Of 6,062 operations on 40 documents"), "{:?}", seen(&run));
        assert!(seen(&run).unwrap().ends_with(", over 2 phases."), "{:?}", seen(&run));
    }
}
